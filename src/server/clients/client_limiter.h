// SPDX-License-Identifier: Apache-2.0
// Ends clients that use too much: client-output-buffer-limit, and maxmemory-clients.
//
// Output: a connection tells of each flush that leaves more unsent than the lowest limit
// (BufferPool::Bounds::output_watch, one comparison for all others).
//
// Memory: while there is a limit, each thread publishes what its clients use when that has changed
// by some, and whoever finds the sum above the limit has the largest clients of all threads ended,
// on a fiber: see EvictClients. By then a command may have been executed and its memory be free, so
// who has received more than all may use is ended at once (BufferPool::Bounds::input_watch).
//
// Clients of the admin port are ended by neither: no setting may lock out who can change it.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "helio/fibers/timer_queue.h"
#include "server/base/per_thread.h"
#include "server/clients/server_state.h"
#include "server/options/output_limits.h"

namespace dfly {

class Session;
class WorkerState;

// What one client uses. On its thread.
size_t MemoryOf(const Session& session);

// Ends the largest clients of all threads, until those that are left use no more than the limit, or
// may not be ended (CLIENT NO-EVICT). From a fiber. Suspends.
void EvictClients(ServerState& server);
// The same for some of all clients.
struct ClientGroup {
  uint64_t limit;         // bytes
  std::string_view text;  // "all clients more than ...", for the log
  std::function<bool(const Session&)> has;
  std::atomic<uint64_t>* evicted;  // counted there
};
// How many it has ended.
size_t EvictClientsOf(ServerState& server, const ClientGroup& group);

// Owner: a worker; on its thread.
class ClientLimiter : public PerThread<ClientLimiter> {
 public:
  explicit ClientLimiter(WorkerState* worker);
  ~ClientLimiter();

  void SetOutputLimits(const OutputLimits& limits);
  const OutputLimits& output_limits() const { return output_limits_; }
  // As it is used: a replica may lack what the backlog has anyway, as in redis-server.
  OutputLimit LimitOf(ClientClass its) const;
  // Compares the replies that the client has not taken yet with the limits of its class. `held`:
  // bytes of them that its connection does not know of. True: they are too many, and the client was
  // closed.
  bool CheckOutput(Session& session, size_t held = 0);
  // The same for messages of subscriptions and of MONITOR, with the limits of the class `pubsub`.
  bool CheckMessages(Session& session, size_t held = 0);
  uint64_t output_disconnections() const { return output_disconnections_; }
  void CountOutputDisconnection() { ++output_disconnections_; }
  void ResetStats() { output_disconnections_ = 0; }

  // maxmemory-clients has changed, or the maxmemory that it may be a part of.
  void OnMemoryLimit();
  // For a client whose input alone takes more memory than all clients may use. True: the client is
  // closed, or closing. False: it may not be ended (CLIENT NO-EVICT).
  bool EndIfAloneTooLarge(Session& session);
  // What the session has besides its connection may have changed.
  void Recount(Session& session);
  // The buffers of some connections have changed.
  void OnMemoryChange();
  // It is closed, or goes to another thread.
  void OnLeft(Session& session);

 private:
  struct SoftTimer : helio::Timer {
    using Timer::Timer;
    ClientLimiter* limiter = nullptr;
  };

  void SetMemoryLimit();
  bool Check(Session& session, ClientClass its, size_t held);
  // `limit`: of which there is too much, for the log.
  void CloseFor(Session& session, size_t unsent, std::string_view limit);
  void OnTick();

  ServerState& server_;
  WorkerState& worker_;
  OutputLimits output_limits_;
  uint64_t output_disconnections_ = 0;
  struct Above {
    uint64_t since_ns;
    ClientClass its;
  };
  absl::flat_hash_map<Session*, Above> above_soft_;
  SoftTimer timer_;  // armed while there are some

  bool limits_memory_ = false;
  int64_t extra_bytes_ = 0;                 // the sum of Session::counted_extra
  std::atomic<uint64_t>& published_bytes_;  // ClientMemory::used_by, of this thread
};

}  // namespace dfly
