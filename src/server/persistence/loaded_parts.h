// SPDX-License-Identifier: Apache-2.0
// What a snapshot or a log has besides keys, for a server that starts: function libraries and
// scripts.
#pragma once

#include <atomic>
#include <string>

#include "server/persistence/log_applier.h"
#include "storage/snapshot_extras.h"

namespace dfly {

struct ServerState;

// Replaces the libraries of functions, and adds scripts. `is_cancelled` ends it. An empty text, or
// why it fails. On a fiber of a worker's thread. Suspends.
[[nodiscard]] std::string TakeSnapshotExtras(ServerState& server, const SnapshotExtras& extras,
                                             const std::atomic<bool>& is_cancelled);

// Owner:    who loads a log; on a fiber of a worker's thread. While it is there no key expires by
// itself.
// Suspends: all, also making and destroying it.
class ServerParts final : public LoadedParts {
 public:
  ServerParts(ServerState* server, const std::atomic<bool>* is_cancelled);
  ~ServerParts() override;
  ServerParts(const ServerParts&) = delete;
  ServerParts& operator=(const ServerParts&) = delete;

  std::string TakeExtras(const SnapshotExtras& extras) override;
  std::string Apply(Args args) override;
  void RunScript(CoordinatorContext& cx, Args args, ReplySink& reply) override;

 private:
  std::string ApplyFunction(Args args);

  ServerState& server_;
  const std::atomic<bool>& is_cancelled_;
};

}  // namespace dfly
