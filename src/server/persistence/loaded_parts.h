// SPDX-License-Identifier: Apache-2.0
// What a snapshot or a log has besides keys, for a server that starts: function libraries and
// scripts.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "server/persistence/log_applier.h"
#include "server/scripts/function_store.h"
#include "storage/snapshot_extras.h"

namespace dfly {

struct ServerState;

// Replaces the libraries of functions, and adds scripts. `is_cancelled` ends it. An empty text, or
// why it fails. On a fiber of a worker's thread. Suspends.
[[nodiscard]] std::string TakeSnapshotExtras(ServerState& server, const SnapshotExtras& extras,
                                             const std::atomic<bool>& is_cancelled);

// The scripts alone. One that is none is left out, with a line in the log.
void AddScripts(ServerState& server, const std::vector<std::string>& sources);

// The libraries alone, as a table that FunctionStore::Replace takes. Until then all stays as it is.
// As TakeSnapshotExtras.
[[nodiscard]] std::string CompileFunctions(ServerState& server,
                                           const std::vector<std::string>& sources,
                                           const std::atomic<bool>& is_cancelled,
                                           FunctionTableRef* functions);

// While it is there no key expires by itself and none is evicted: the shards have what the log
// says, which has the DEL of each key that was due or too much. It has to be there until units go
// to the journal: a key that goes before that would come back with the next load.
//
// Owner:    who loads a log; on a fiber of a worker's thread.
// Suspends: making and destroying it.
class LoadedKeys {
 public:
  explicit LoadedKeys(ServerState* server);
  ~LoadedKeys();
  LoadedKeys(const LoadedKeys&) = delete;
  LoadedKeys& operator=(const LoadedKeys&) = delete;

 private:
  void SetExpiry(bool is_on);

  ServerState& server_;
};

// Owner:    who loads a log; on a fiber of a worker's thread.
// Suspends: all.
class ServerParts final : public LoadedParts {
 public:
  ServerParts(ServerState* server, const std::atomic<bool>* is_cancelled);

  std::string TakeExtras(const SnapshotExtras& extras) override;
  std::string Apply(Args args) override;
  void RunScript(CoordinatorContext& cx, Args args, ReplySink& reply) override;

 private:
  std::string ApplyFunction(Args args);

  ServerState& server_;
  const std::atomic<bool>& is_cancelled_;
};

}  // namespace dfly
