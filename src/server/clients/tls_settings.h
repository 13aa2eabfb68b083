// SPDX-License-Identifier: Apache-2.0
// What new connections of TLS use.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "helio/net/tls.h"

namespace dfly {

struct ServerState;

// Thread: the first Load on the main thread; the rest by Config, under its lock.
// Each worker has its own pointer to the context. Connections keep the one that they began with.
class TlsSettings {
 public:
  // `take` gives all workers a context. Suspends.
  using Context = std::shared_ptr<const helio::TlsContext>;
  using TakeFn = std::function<void(const Context& context)>;
  TlsSettings(const ServerState* server, TakeFn take);

  // Looks whether all is there, reads the files, and gives all workers what came of it. Empty, or
  // why TLS is not possible with these options: then nothing changes. Suspends.
  [[nodiscard]] std::string Load(const helio::TlsOptions& options);
  // The same for options that have changed, if there is a port that uses them: else they may be
  // incomplete, as in Redis. Suspends.
  [[nodiscard]] std::string Change(const helio::TlsOptions& options);

 private:
  std::string Use(const helio::TlsOptions& options);

  const ServerState& server_;
  const TakeFn take_;
};

}  // namespace dfly
