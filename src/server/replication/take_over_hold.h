// SPDX-License-Identifier: Apache-2.0
// The old process of a take-over stands still: no command touches a key any more, and the new
// process, a replica until then, has all that was done.
//
//   all commands wait at their connections, but for those of replicas; writes that were let in end
//   all shards are locked; so reads that were let in wait, too
//   the new process acknowledges all of the stream, the log is on the device
//
// Then either the server ends (End), or all goes on as if nothing had been (Undo).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/hops/transaction.h"

namespace dfly {

class AppendLog;
class Replicas;
struct ServerState;

// Owner:    the server. All of it is on proactor 0.
// Suspends: Begin, Undo, End.
class TakeOverHold {
 public:
  // All outlive it.
  TakeOverHold(ServerState* server, Replicas* replicas, AppendLog* log);
  ~TakeOverHold();

  // For the replica that is this client, for so long at most. Empty, or why not: then it is undone.
  [[nodiscard]] std::string Begin(uint64_t client_id, uint64_t patience_ns);
  // A Begin that is under way fails.
  void Cancel() { ends_ = true; }
  void Undo();
  // The server ends, and no connection is left: what waits for the locks goes on, for nobody.
  // Commands go on waiting.
  void End() { lock_ = nullptr; }
  bool is_held() const { return lock_ != nullptr; }

 private:
  void HoldCommands(bool holds);
  // Sets ends_ at that time (monotonic), so that nothing waits any longer.
  void Watch(uint64_t end_ns);
  std::string Run(uint64_t client_id);
  std::string AwaitAck(uint64_t client_id);

  ServerState& server_;
  Replicas& replicas_;
  AppendLog& log_;
  std::atomic<bool> ends_{false};
  bool is_over_ = false;  // Run
  std::unique_ptr<Transaction> lock_;
};

}  // namespace dfly
