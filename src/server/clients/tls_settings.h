// SPDX-License-Identifier: Apache-2.0
// The settings of TLS, and what new connections use.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "helio/net/tls.h"

namespace dfly {

class Config;
struct ServerState;

// Thread: the first Load on the main thread; the rest by Config, under its lock.
// Each worker has its own pointer to the context. Connections keep the one that they began with.
class TlsSettings {
 public:
  // `take` gives all workers a context. Suspends.
  using Context = std::shared_ptr<const helio::TlsContext>;
  using TakeFn = std::function<void(const Context& context)>;
  TlsSettings(const ServerState* server, helio::TlsOptions options, TakeFn take);

  // Looks whether all is there, reads the files, and gives all workers what came of it. Empty, or
  // why TLS is not possible with these settings: then nothing changes. Suspends.
  [[nodiscard]] std::string Load();
  void AddTo(Config* config);

 private:
  std::string Apply();

  const ServerState& server_;
  helio::TlsOptions options_;
  const TakeFn take_;
};

}  // namespace dfly
