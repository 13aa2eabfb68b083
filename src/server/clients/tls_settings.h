// SPDX-License-Identifier: Apache-2.0
// What new connections of TLS use.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "helio/net/tls.h"

namespace dfly {

struct ServerOptions;

struct TlsContexts {
  std::shared_ptr<const helio::TlsContext> ports;  // null: none has TLS
  std::shared_ptr<const helio::TlsContext> link;   // with the primary; null: it has no TLS
};

// Thread: the first Load on the main thread; the rest by Config, under its lock.
// Each worker and the link with the primary have their own pointers to these contexts. Connections
// keep the one that they began with.
class TlsSettings {
 public:
  // `take` gives the contexts to those who use them. Suspends.
  using TakeFn = std::function<void(const TlsContexts& contexts)>;
  explicit TlsSettings(TakeFn take);

  // Looks whether all is there that is used, reads the files, and gives away what came of it.
  // Empty, or why TLS is not possible with these options: then nothing changes. Without a port
  // that has TLS (`has_port`) the options of ports may be incomplete, as in Redis. Suspends.
  [[nodiscard]] std::string Load(const ServerOptions& options, bool has_port);

 private:
  const TakeFn take_;
};

}  // namespace dfly
