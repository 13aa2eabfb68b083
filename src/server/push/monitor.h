// SPDX-License-Identifier: Apache-2.0
// MONITOR: clients that get a line for each command that any thread begins.
//
// Each thread knows on which threads there are monitors. The thread of a client tells these of its
// commands, in their order; what a script calls is told by the thread that runs the script. A line
// is on its way before the command, so what the command causes elsewhere is told behind it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "server/base/per_thread.h"

namespace dfly {

class FrequentItems;
struct ServerState;
class Session;
class WorkerState;
struct ServerState;

// Owner:    one Worker, on its thread.
// Suspends: only Begin.
class Monitors : public PerThread<Monitors> {
 public:
  explicit Monitors(WorkerState* worker);
  ~Monitors();

  // Somebody wants to know of commands, on whatever thread.
  bool any() const { return is_watched_; }
  // From now on, until EndCount, keys of the commands that this thread tells of are counted. A
  // script's are those of what it calls.
  void BeginCount(FrequentItems* keys);
  void EndCount(FrequentItems* keys);
  // A command begins. `client`: an address, or "lua".
  void Feed(int db_index, std::string_view client, const Command& command, Args args);

  // --- Of a client of this thread ---

  // From now on all threads tell this one of their commands. Suspends.
  void Begin(Session& session);
  // Its reply is written: lines may follow.
  void OnReplied(Session& session);
  // RESET, or the connection is gone.
  void End(Session& session);

  // On this thread: some other one has, or has not any more, this many monitors.
  void Change(uint32_t thread, int change);

 private:
  struct Line;
  // Bytes of lines that one thread may have to deliver yet.
  static constexpr size_t kBytesOnWayMax = 32 << 20;

  void UpdateIsWatched() { is_watched_ = !threads_.empty() || !key_counters_.empty(); }
  void CountKeys(const Command& command, Args args);
  void Deliver(std::string_view line);
  void DisconnectAll(std::string_view why);

  ServerState& server_;
  WorkerState& worker_;
  std::vector<uint32_t> counts_;   // by thread
  std::vector<uint32_t> threads_;  // that have some
  std::vector<Session*> sessions_;
  std::vector<FrequentItems*> key_counters_;
  bool is_watched_ = false;
};

// MONITOR. For RegisterFamilies.
void RegisterMonitorCommand(CommandTable* table);

}  // namespace dfly
