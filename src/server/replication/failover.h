// SPDX-License-Identifier: Apache-2.0
// FAILOVER: this primary hands its role over to one of its replicas, and no write is lost.
//
//   waiting-for-sync      clients that write wait; a replica has to acknowledge all that was done
//   failover-in-progress  this server is a replica of that one, and asks it with
//                         PSYNC <id> <offset> FAILOVER to become a primary, and for the stream
//
// Then the clients go on, and are told READONLY. If the other one refuses, or nobody is in sync in
// time, or FAILOVER ABORT comes, this server is a primary as before.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "server/meters/replicas_facts.h"

namespace dfly {

class PrimaryLink;
class Replicas;
struct ServerState;

// Owner:    the server. All of it is on proactor 0, but what says so.
// Suspends: what says so.
class Failover {
 public:
  struct Request {
    std::string host;  // empty: the first replica that is in sync
    uint16_t port = 0;
    bool is_forced = false;   // to that one, also if it is not in sync in time
    uint64_t timeout_ms = 0;  // of the first state; 0: none
  };

  // All outlive it. `on_primary` is called with what `replicaof` is from then on.
  Failover(ServerState* server, Replicas* replicas, PrimaryLink* link,
           std::function<void(const std::string& primary)> on_primary);
  ~Failover();

  // It goes on in the background. An error for the client, or nothing.
  std::string Begin(const Request& request);
  // The same; it is over then. Suspends, but for no locks.
  std::string Abort();
  // Thread: any.
  bool is_under_way() const { return state_ != State::kNone; }
  // As INFO has it.
  std::string_view state() const;

  // The end of the server. Suspends.
  void Stop();

 private:
  enum class State : uint8_t { kNone, kAwaitsSync, kInProgress };

  // These suspend, and return why there was no failover, or nothing.
  std::string Run();
  std::string AwaitSync();
  std::string HandOver();
  void FinishWrites();

  std::string RefusalOf(const Request& request) const;
  void HoldWrites(bool holds);

  ServerState& server_;
  Replicas& replicas_;
  PrimaryLink& link_;
  const std::function<void(const std::string& primary)> on_primary_;

  std::atomic<State> state_{State::kNone};
  Request request_;
  std::atomic<bool> ends_{false};  // FAILOVER ABORT, or the end of the server
};

}  // namespace dfly
