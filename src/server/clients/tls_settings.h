// SPDX-License-Identifier: Apache-2.0
// What new connections of TLS use.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "helio/base/spin_lock.h"
#include "helio/net/tls.h"

namespace dfly {

struct ServerOptions;

struct TlsContexts {
  std::shared_ptr<const helio::TlsContext> ports;  // null: none has TLS
  std::shared_ptr<const helio::TlsContext> link;   // with the primary; null: it has no TLS
};

// What INFO tells of them.
struct TlsFacts {
  helio::TlsCertificate server;  // of the ports
  helio::TlsCertificate client;  // for the link with the primary
  helio::TlsCertificate authority;
  uint64_t reloads = 0;  // that tls-auto-reload-interval has made
  uint64_t reload_failures = 0;
};

// Thread: the first Load on the main thread; the rest by Config, under its lock. Facts: any.
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

  // The files and folders that are read. None: TLS is not in use.
  static std::vector<std::string> FilesOf(const ServerOptions& options, bool has_port);
  // What tells one version of them from the next. None: it could not be looked. From a fiber, with
  // no lock: a file system may hang. Suspends.
  static std::optional<std::string> LookAt(const std::vector<std::string>& files);
  // Reads the files again, if they are other ones, as LookAt has said, than when they were read.
  // What cannot be used, like a new certificate with an old key, or one that has expired, is not
  // taken: the log says so once, and it is tried again in the next call. From a fiber. Suspends.
  void Reload(const ServerOptions& options, bool has_port, std::string looks);

  TlsFacts Facts() const;

 private:
  std::string Make(const ServerOptions& options, bool has_port, TlsContexts* contexts) const;
  void Take(const TlsContexts& contexts, std::string files);

  void SetFacts(const TlsFacts& facts);

  const TakeFn take_;
  std::string files_;    // how the files of what is used have looked
  std::string failure_;  // of the last Reload
  mutable helio::SpinLock lock_;
  std::shared_ptr<const TlsFacts> facts_ = std::make_shared<TlsFacts>();  // guarded by lock_
};

}  // namespace dfly
