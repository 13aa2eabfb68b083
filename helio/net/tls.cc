// SPDX-License-Identifier: Apache-2.0
#include "helio/net/tls.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <sstream>
#include <utility>

#include "helio/base/ascii.h"

namespace helio {

// OpenSSL's view of a session's bytes: it reads what was fed, without a copy of ours between, and
// writes to the output.
struct TlsBio {
  static int Read(BIO* bio, char* buffer, size_t capacity, size_t* size) {
    auto& input = static_cast<TlsSession*>(BIO_get_data(bio))->input_;
    BIO_clear_retry_flags(bio);
    *size = std::min(capacity, input.size());
    if (*size == 0) {
      BIO_set_retry_read(bio);
      return 0;
    }
    memcpy(buffer, input.data(), *size);
    input.remove_prefix(*size);
    return 1;
  }

  static int Write(BIO* bio, const char* bytes, size_t count, size_t* written) {
    BIO_clear_retry_flags(bio);
    static_cast<TlsSession*>(BIO_get_data(bio))->output_.Append({bytes, count});
    *written = count;
    return 1;
  }

  static long Control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO_METHOD* Method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tls session");
      BIO_meth_set_read_ex(made, Read);
      BIO_meth_set_write_ex(made, Write);
      BIO_meth_set_ctrl(made, Control);
      return made;
    }();
    return method;
  }
};

namespace {

struct ContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<SSL_CTX, ContextDeleter>;

// Why the last call failed. The first error tells the cause, later ones who was hindered by it.
std::string TakeError() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown reason";
  if (ERR_SYSTEM_ERROR(code)) return strerror(ERR_GET_REASON(code));
  const char* const reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "error " + std::to_string(code);
}

// Before each call whose result SSL_get_error has to tell: it looks at the thread's errors. Looking
// is much cheaper than clearing.
void ForgetErrors() {
  if (ERR_peek_error() != 0) [[unlikely]]
    ERR_clear_error();
}

// Without it OpenSSL would ask at the terminal.
int GivePassphrase(char* buffer, int capacity, int, void* passphrase) {
  const auto& text = *static_cast<const std::string*>(passphrase);
  if (text.size() > static_cast<size_t>(capacity)) return -1;
  memcpy(buffer, text.data(), text.size());
  return static_cast<int>(text.size());
}

// An error, or nothing.
std::string UseProtocols(SSL_CTX* context, const std::string& names) {
  struct Protocol {
    std::string_view name;
    int version;
    uint64_t off;
  };
  static constexpr Protocol kProtocols[] = {{"tlsv1", TLS1_VERSION, SSL_OP_NO_TLSv1},
                                            {"tlsv1.1", TLS1_1_VERSION, SSL_OP_NO_TLSv1_1},
                                            {"tlsv1.2", TLS1_2_VERSION, SSL_OP_NO_TLSv1_2},
                                            {"tlsv1.3", TLS1_3_VERSION, SSL_OP_NO_TLSv1_3}};
  uint64_t off = 0;
  for (const Protocol& protocol : kProtocols) off |= protocol.off;
  int lowest = TLS1_3_VERSION;
  std::istringstream words(names.empty() ? "TLSv1.2 TLSv1.3" : names);
  for (std::string word; words >> word;) {
    word = LowerCase(word);
    const auto* const found = std::find_if(std::begin(kProtocols), std::end(kProtocols),
                                           [&](const Protocol& p) { return p.name == word; });
    if (found == std::end(kProtocols)) {
      return "unknown protocol '" + word + "': there are TLSv1, TLSv1.1, TLSv1.2, TLSv1.3";
    }
    off &= ~found->off;
    lowest = std::min(lowest, found->version);
  }
  if (!SSL_CTX_set_min_proto_version(context, lowest)) return TakeError();
  SSL_CTX_set_options(context, off);
  return "";
}

std::string UseCertificate(SSL_CTX* context, const TlsOptions& options) {
  if (options.cert_file.empty() && options.key_file.empty()) return "";
  SSL_CTX_set_default_passwd_cb(context, GivePassphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context, const_cast<std::string*>(&options.key_file_pass));
  std::string error;
  if (SSL_CTX_use_certificate_chain_file(context, options.cert_file.c_str()) <= 0) {
    error = "cannot load the certificate " + options.cert_file + ": " + TakeError();
  } else if (SSL_CTX_use_PrivateKey_file(context, options.key_file.c_str(), SSL_FILETYPE_PEM) <=
             0) {
    error = "cannot load the private key " + options.key_file + ": " + TakeError();
  } else if (SSL_CTX_check_private_key(context) <= 0) {
    error = "the private key " + options.key_file + " does not belong to the certificate " +
            options.cert_file;
  }
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);  // the options may be gone soon
  SSL_CTX_set_default_passwd_cb(context, nullptr);
  return error;
}

std::string UsePeerCheck(SSL_CTX* context, const TlsOptions& options, bool is_server) {
  const std::string& file = options.ca_cert_file;
  const std::string& folder = options.ca_cert_dir;
  if (!file.empty() || !folder.empty()) {
    if (SSL_CTX_load_verify_locations(context, file.empty() ? nullptr : file.c_str(),
                                      folder.empty() ? nullptr : folder.c_str()) <= 0) {
      return "cannot load the CA certificates " + (file.empty() ? folder : file) + ": " +
             TakeError();
    }
  } else if (options.peer_check == TlsOptions::PeerCheck::kRequired) {
    return "certificates cannot be checked without those of a CA";
  }
  if (options.peer_check == TlsOptions::PeerCheck::kNone) return "";
  int mode = SSL_VERIFY_PEER;
  if (options.peer_check == TlsOptions::PeerCheck::kRequired) {
    mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  }
  SSL_CTX_set_verify(context, mode, nullptr);
  // So that a client with several certificates knows which one is wanted.
  if (is_server && !file.empty()) {
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(file.c_str()));
  }
  return "";
}

std::string UseCiphers(SSL_CTX* context, const TlsOptions& options) {
  if (!options.ciphers.empty() && !SSL_CTX_set_cipher_list(context, options.ciphers.c_str())) {
    return "cannot use the ciphers '" + options.ciphers + "': " + TakeError();
  }
  if (!options.ciphersuites.empty() &&
      !SSL_CTX_set_ciphersuites(context, options.ciphersuites.c_str())) {
    return "cannot use the ciphersuites '" + options.ciphersuites + "': " + TakeError();
  }
  if (options.prefers_own_ciphers) SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
  if (options.dh_params_file.empty()) {
    SSL_CTX_set_dh_auto(context, 1);
    return "";
  }
  EVP_PKEY* params = nullptr;
  if (BIO* const file = BIO_new_file(options.dh_params_file.c_str(), "r"); file != nullptr) {
    params = PEM_read_bio_Parameters(file, nullptr);
    BIO_free(file);
  }
  if (params == nullptr || !SSL_CTX_set0_tmp_dh_pkey(context, params)) {
    const std::string why = TakeError();
    EVP_PKEY_free(params);
    return "cannot use the DH parameters " + options.dh_params_file + ": " + why;
  }
  return "";
}

bool IsAddress(const std::string& host) {
  in_addr bytes;
  // No name has a colon, and an address of IPv6 may have a zone, which inet_pton does not know.
  return host.find(':') != std::string::npos || inet_pton(AF_INET, host.c_str(), &bytes) == 1;
}

TlsCertificate Describe(X509* certificate) {
  TlsCertificate it;
  tm when = {};
  if (certificate == nullptr || !ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &when)) return it;
  it.expire_time = timegm(&when);
  BIGNUM* const number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  if (char* const text = number == nullptr ? nullptr : BN_bn2hex(number); text != nullptr) {
    it.serial = text;
    OPENSSL_free(text);
  }
  BN_free(number);
  return it;
}

// Of the certificates of a file, the one that expires first; `first` if none is before that one.
void TakeFirst(const std::string& path, TlsCertificate* first) {
  BIO* const file = BIO_new_file(path.c_str(), "r");
  if (file == nullptr) return ERR_clear_error();
  while (X509* const certificate = PEM_read_bio_X509(file, nullptr, nullptr, nullptr)) {
    TlsCertificate it = Describe(certificate);
    X509_free(certificate);
    if (!it.is_there()) continue;
    if (!first->is_there() || it.expire_time < first->expire_time) *first = std::move(it);
  }
  BIO_free(file);
  ERR_clear_error();  // the end of the file is one
}

TlsCertificate FirstAuthority(const TlsOptions& options) {
  TlsCertificate first;
  if (!options.ca_cert_file.empty()) TakeFirst(options.ca_cert_file, &first);
  if (options.ca_cert_dir.empty()) return first;
  std::error_code error;
  std::filesystem::directory_iterator it(options.ca_cert_dir, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) TakeFirst(it->path(), &first);
  }
  return first;
}

void UseSessionCache(SSL_CTX* context, const TlsOptions& options) {
  if (!options.caches_sessions) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(context, 0);
    return;
  }
  static constexpr unsigned char kName[] = "dfly";
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_SERVER);
  SSL_CTX_sess_set_cache_size(context, options.sessions_max);
  SSL_CTX_set_timeout(context, options.session_timeout_s);
  SSL_CTX_set_session_id_context(context, kName, sizeof(kName) - 1);
}

}  // namespace

std::shared_ptr<const TlsContext> TlsContext::Make(Side side, const TlsOptions& options,
                                                   std::string* error) {
  ERR_clear_error();
  const bool is_server = side == Side::kServer;
  ContextPtr context(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()));
  if (context == nullptr) {
    *error = TakeError();
    return nullptr;
  }
  SSL_CTX_set_options(context.get(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  // Without its buffers an idle session takes a third.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  *error = UseProtocols(context.get(), options.protocols);
  if (error->empty()) *error = UseCertificate(context.get(), options);
  if (error->empty()) *error = UsePeerCheck(context.get(), options, is_server);
  if (error->empty()) *error = UseCiphers(context.get(), options);
  if (!error->empty()) return nullptr;
  UseSessionCache(context.get(), options);
  return std::shared_ptr<const TlsContext>(new TlsContext(side, context.release(), options));
}

TlsContext::TlsContext(Side side, ssl_ctx_st* context, const TlsOptions& options)
    : side_(side),
      context_(context),
      handshake_timeout_ms_(options.handshake_timeout_ms),
      certificate_(Describe(SSL_CTX_get0_certificate(context))),
      authority_(FirstAuthority(options)) {}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

std::unique_ptr<TlsSession> TlsContext::NewSession(const std::string& host) const {
  ERR_clear_error();
  SSL* const ssl = SSL_new(context_);
  CHECK(ssl != nullptr) << TakeError();  // no memory
  if (!host.empty() && !IsAddress(host)) SSL_set_tlsext_host_name(ssl, host.c_str());
  return std::unique_ptr<TlsSession>(
      new TlsSession(ssl, side_ == Side::kClient, handshake_timeout_ms_));
}

TlsSession::TlsSession(ssl_st* ssl, bool is_client, uint32_t handshake_timeout_ms)
    : ssl_(ssl), is_client_(is_client), handshake_timeout_ms_(handshake_timeout_ms) {
  BIO* const bio = BIO_new(TlsBio::Method());
  CHECK(bio != nullptr) << TakeError();
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);  // which owns it
  is_client ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

TlsSession::Status TlsSession::Result(int returned) {
  switch (SSL_get_error(ssl_, returned)) {
    case SSL_ERROR_NONE:
      return Status::kDone;
    case SSL_ERROR_WANT_READ:
      DCHECK(input_.empty());
      return Status::kNeedsInput;
    case SSL_ERROR_ZERO_RETURN:
      return Status::kEnd;
    default:
      break;
  }
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
  const long verified = SSL_get_verify_result(ssl_);
  error_ = TakeError();
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
    error_ += std::string(" (") + X509_verify_cert_error_string(verified) + ")";
  } else if (!is_established_ &&
             (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST)) {
    error_ += is_client_ ? " (the peer does not speak TLS)"
                         : " (this port expects TLS, the peer has sent something else)";
  }
  return Status::kFailed;
}

TlsSession::Status TlsSession::Handshake() {
  ForgetErrors();
  const Status status = Result(SSL_do_handshake(ssl_));
  is_established_ = status == Status::kDone;
  return status;
}

TlsSession::Status TlsSession::Read(char* buffer, size_t capacity, size_t* size) {
  ForgetErrors();
  return Result(SSL_read_ex(ssl_, buffer, capacity, size));
}

TlsSession::Status TlsSession::Write(std::string_view bytes) {
  DCHECK(is_established_);
  ForgetErrors();
  size_t written = 0;
  const Status status = Result(SSL_write_ex(ssl_, bytes.data(), bytes.size(), &written));
  DCHECK(status != Status::kDone || written == bytes.size());  // the output takes all
  return status;
}

void TlsSession::Shutdown() {
  ForgetErrors();
  SSL_shutdown(ssl_);
}

std::string_view TlsSession::protocol() const { return SSL_get_version(ssl_); }
std::string_view TlsSession::cipher() const { return SSL_get_cipher_name(ssl_); }

bool TlsSession::has_peer_certificate() const {
  return SSL_get0_peer_certificate(ssl_) != nullptr &&
         SSL_get_verify_mode(ssl_) != SSL_VERIFY_NONE && SSL_get_verify_result(ssl_) == X509_V_OK;
}

std::vector<std::string> TlsSession::PeerNames(TlsNameField field) const {
  std::vector<std::string> names;
  if (!has_peer_certificate()) return names;
  // A name that has an end within it is none: others could take it for another one.
  const auto add = [&names](const unsigned char* bytes, int size) {
    const std::string_view name(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    if (!name.empty() && name.find('\0') == std::string_view::npos) names.emplace_back(name);
  };
  X509* const certificate = SSL_get0_peer_certificate(ssl_);
  if (field == TlsNameField::kCommonName) {
    const X509_NAME* const subject = X509_get_subject_name(certificate);
    const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at < 0) return names;
    unsigned char* text = nullptr;
    const int size =
        ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    if (size >= 0) add(text, size);
    if (size >= 0) OPENSSL_free(text);
    return names;
  }
  auto* const all = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; all != nullptr && i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all, i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    add(ASN1_STRING_get0_data(uri), ASN1_STRING_length(uri));
  }
  GENERAL_NAMES_free(all);
  return names;
}

TlsStats& ThreadTlsStats() {
  static thread_local TlsStats stats;
  return stats;
}

}  // namespace helio
