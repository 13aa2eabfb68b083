// SPDX-License-Identifier: Apache-2.0
// TLS on OpenSSL, without any I/O: bytes of the peer are fed in, bytes for the peer come out.
// TlsSocket brings them together with a Socket.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "helio/base/counters.h"
#include "helio/base/io_buf.h"

struct ssl_ctx_st;
struct ssl_st;
struct bio_st;

namespace helio {

class TlsSession;

// What a certificate says of itself. Empty: there is none.
struct TlsCertificate {
  std::string serial;       // hexadecimal
  int64_t expire_time = 0;  // Unix time in seconds

  bool is_there() const { return expire_time != 0; }
};

// Where a certificate has the names of who it belongs to.
enum class TlsNameField : uint8_t {
  kCommonName,  // of its subject: one
  kUri,         // among the alternative names: any number
};

struct TlsOptions {
  enum class PeerCheck : uint8_t {
    kNone,      // whoever they are
    kOptional,  // a certificate is checked if there is one
    kRequired
  };

  std::string cert_file;  // PEM; with the certificates of those between it and its root
  std::string key_file;
  std::string key_file_pass;
  std::string ca_cert_file;  // who may sign certificates of peers
  std::string ca_cert_dir;
  PeerCheck peer_check = PeerCheck::kRequired;
  std::string protocols;     // "TLSv1.2 TLSv1.3"; empty: these two
  std::string ciphers;       // up to TLS 1.2; empty: OpenSSL's
  std::string ciphersuites;  // of TLS 1.3
  std::string dh_params_file;
  bool prefers_own_ciphers = false;
  bool caches_sessions = true;
  int64_t sessions_max = 20'480;
  int64_t session_timeout_s = 300;
  uint32_t handshake_timeout_ms = 0;  // 0: no limit
};

// What all sessions of one side share: certificate, key, and rules.
//
// Thread:   any, once it is made. It lives as long as any of its sessions.
// Suspends: never. Make reads files, though, which blocks the thread for a moment.
class TlsContext {
 public:
  enum class Side : uint8_t { kServer, kClient };

  // Null, with the reason, if a file cannot be read or a name is unknown.
  static std::shared_ptr<const TlsContext> Make(Side side, const TlsOptions& options,
                                                std::string* error);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // `host`: of the server, as its client knows it. A name is told to it (SNI), an address is not.
  std::unique_ptr<TlsSession> NewSession(const std::string& host = "") const;
  uint32_t handshake_timeout_ms() const { return handshake_timeout_ms_; }
  // Its own certificate; and of those who may sign the certificates of peers, the one that expires
  // first.
  const TlsCertificate& certificate() const { return certificate_; }
  const TlsCertificate& authority() const { return authority_; }

 private:
  TlsContext(Side side, ssl_ctx_st* context, const TlsOptions& options);

  const Side side_;
  ssl_ctx_st* const context_;
  const uint32_t handshake_timeout_ms_;
  const TlsCertificate certificate_;
  const TlsCertificate authority_;
};

// One side of one TLS connection.
//
// Owner:    whoever holds it; not thread-safe, but it may be handed to another thread between two
//           calls, with the part of a record that it has got.
// Suspends: never.
class TlsSession {
 public:
  enum class Status : uint8_t {
    kDone,
    kNeedsInput,
    kEnd,    // the peer has ended its side, as it should (close_notify)
    kFailed  // error() tells why; there may be an alert for the peer in output()
  };

  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // The next bytes of the peer. They must live until Handshake or Read answers kNeedsInput, which
  // it does when all of them are taken.
  void Feed(std::string_view bytes) { input_ = bytes; }

  Status Handshake();
  // kDone: `*size` bytes of what the peer has written are in `buffer`.
  Status Read(char* buffer, size_t capacity, size_t* size);
  // Encrypts `bytes` into output(). REQUIRES: is_established().
  Status Write(std::string_view bytes);
  // Tells the peer, by way of output(), that nothing more will come.
  void Shutdown();

  bool is_established() const { return is_established_; }
  bool is_client() const { return is_client_; }
  // For the peer. Reading causes it, too.
  IoBuf& output() { return output_; }
  const std::string& error() const { return error_; }
  uint32_t handshake_timeout_ms() const { return handshake_timeout_ms_; }
  // "TLSv1.3", and what encrypts: "TLS_AES_256_GCM_SHA384".
  std::string_view protocol() const;
  std::string_view cipher() const;
  // In the certificate of the peer. Empty: there is none, or nobody has checked it.
  std::vector<std::string> PeerNames(TlsNameField field) const;
  bool has_peer_certificate() const;

 private:
  friend class TlsContext;
  friend struct TlsBio;

  TlsSession(ssl_st* ssl, bool is_client, uint32_t handshake_timeout_ms);

  Status Result(int returned);

  ssl_st* const ssl_;
  const bool is_client_;
  bool is_established_ = false;
  const uint32_t handshake_timeout_ms_;
  std::string_view input_;
  IoBuf output_;
  std::string error_;
};

// Of the calling thread's sockets.
struct TlsStats {
  uint64_t handshakes = 0;  // that succeeded
  uint64_t handshake_failures = 0;
  uint64_t handshake_timeouts = 0;  // part of the failures

  static constexpr CounterOf<TlsStats> kCounters[] = {
      &TlsStats::handshakes, &TlsStats::handshake_failures, &TlsStats::handshake_timeouts};
};
static_assert(ListsAll<TlsStats>());
TlsStats& ThreadTlsStats();

}  // namespace helio
