// SPDX-License-Identifier: Apache-2.0
// The settings of ports, users, memcached's protocol and TLS.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "server/acl/acl_store.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/dispatch/users.h"
#include "server/options/setting_slots.h"
#include "server/settings/rows.h"

namespace dfly {

namespace {

using Options = ServerOptions;
using helio::TlsOptions;
using enum SettingTopic;
using enum SettingKind;
using enum SettingHow;

constexpr size_t kBindsMax = 16;  // as in Redis

constexpr SettingSlot kBinds = {
    [](std::string_view value, Options* options) {
      const std::vector<std::string_view> words = SplitWords(value);
      options->binds.assign(words.begin(), words.end());
      return std::string(words.size() > kBindsMax ? "Too many bind addresses specified." : "");
    },
    [](const Options& options) { return fmt::format("{}", fmt::join(options.binds, " ")); }};

constexpr SettingSlot kAdminBinds = {
    [](std::string_view value, Options* options) {
      const std::vector<std::string_view> words = SplitWords(value);
      options->admin_binds.assign(words.begin(), words.end());
      return std::string();
    },
    [](const Options& options) { return fmt::format("{}", fmt::join(options.admin_binds, " ")); }};

constexpr SettingSlot kMode = {
    [](std::string_view value, Options* options) {
      const std::string text(value);
      char* end = nullptr;
      options->unix_socket_mode = static_cast<uint32_t>(strtoul(text.c_str(), &end, 8));
      const bool is_mode = *end == '\0' && options->unix_socket_mode <= 0777;
      return std::string(is_mode ? "" : "must be octal digits, up to 777");
    },
    [](const Options& options) { return fmt::format("{:o}", options.unix_socket_mode); }};

constexpr SettingSlot kRestrictedCommands = {
    [](std::string_view value, Options* options) {
      std::string names(value);
      std::replace(names.begin(), names.end(), ',', ' ');
      const std::vector<std::string_view> words = SplitWords(names);
      options->restricted_commands.assign(words.begin(), words.end());
      return std::string();
    },
    [](const Options& options) {
      return fmt::format("{}", fmt::join(options.restricted_commands, ","));
    }};

constexpr SettingSlot kRenames = {[](std::string_view value, Options* options) {
  options->renamed_commands.clear();
  while (!value.empty()) {
    const std::string_view line = value.substr(0, value.find('\n'));
    value.remove_prefix(std::min(line.size() + 1, value.size()));
    const std::vector<std::string_view> words = SplitWords(line);
    if (words.size() > 2) return fmt::format("'{}' is more than two words", line);
    if (words.empty()) continue;
    options->renamed_commands.emplace_back(words[0], words.size() == 2 ? words[1] : "");
  }
  return std::string();
}};

constexpr SettingSlot kHandshakeTimeout = {
    [](std::string_view value, Options* options) {
      uint32_t seconds = 0;
      StoreValue(value, &seconds);
      options->tls_options.handshake_timeout_ms = seconds * 1000;
      return std::string();
    },
    [](const Options& options) {
      return ShowValue(options.tls_options.handshake_timeout_ms / 1000);
    }};

constexpr NamedValue<bool> kChannelRules[] = {{"allchannels", true}, {"resetchannels", false}};
constexpr NamedValue<ProtectedAction> kWho[] = {{"yes", ProtectedAction::kYes},
                                                {"no", ProtectedAction::kNo},
                                                {"local", ProtectedAction::kLocal}};
constexpr NamedValue<TlsOptions::PeerCheck> kPeerChecks[] = {
    {"no", TlsOptions::PeerCheck::kNone},
    {"yes", TlsOptions::PeerCheck::kRequired},
    {"optional", TlsOptions::PeerCheck::kOptional}};

constexpr NamedValue<CertificateUser> kCertificateUsers[] = {{"off", CertificateUser::kOff},
                                                             {"CN", CertificateUser::kCommonName},
                                                             {"URI", CertificateUser::kUri}};

// port, tls-port, bind: where clients come in.
std::string ApplyPorts(SettingHost& host, const SettingChange& change) {
  Server& server = ServerOf(host);
  const Options& now = change.now;
  const bool begins_tls = !server.state().has_tls() && now.tls_port != 0;
  if (const std::string error = begins_tls ? server.tls().Load(now, true) : ""; !error.empty()) {
    LOG(WARNING) << "no port with TLS: " << helio::LogText(error);
    return "Unable to update TLS configuration. Check server logs.";
  }
  const std::string error = server.ChangePorts({now.binds, now.port, now.tls_port});
  if (error.empty()) return "";
  LOG(WARNING) << "the ports stay as they were: cannot listen " << helio::LogText(error);
  return now.binds != change.before.binds ? "Failed to bind to specified addresses."
                                          : "Unable to listen on this port. Check server logs.";
}

std::string ApplyTls(SettingHost& host, const SettingChange& change) {
  Server& server = ServerOf(host);
  const std::string error = server.tls().Load(change.now, server.state().has_tls());
  if (error.empty()) return "";
  LOG(WARNING) << "the settings of TLS stay as they were: " << helio::LogText(error);
  return "Unable to update TLS configuration. Check server logs.";
}

std::string ApplyTlsReload(SettingHost& host, const SettingChange& change) {
  ServerOf(host).SetTlsReload(change.now.tls_reload_s);
  return "";
}

std::string ApplyPassword(SettingHost& host, const SettingChange& change) {
  ServerState& server = ServerOf(host).state();
  server.acl->SetDefaultPassword(change.now.acl.password);
  Users::TellChanged(server);
  return "";
}

std::string ApplyChannelRule(SettingHost& host, const SettingChange& change) {
  ServerOf(host).state().acl->SetPubSubDefault(change.now.acl.all_channels);
  return "";
}

std::string ApplyAclLog(SettingHost& host, const SettingChange& change) {
  ServerOf(host).state().acl->log().SetMax(change.now.acl.log_max);
  return "";
}

std::string CheckMaxClients(SettingHost&, const SettingChange& change) {
  if (change.now.maxclients <= change.now.clients_possible) return "";
  return fmt::format(
      "The operating system is not able to handle the specified number of clients, try with {}",
      change.now.clients_possible);
}

std::string ApplyTimeout(SettingHost& host, const SettingChange& change) {
  AwaitOnAll<Users>(ServerOf(host).state(), [seconds = change.now.idle_timeout_s](Users& users) {
    users.SetIdleTimeout(seconds);
  });
  return "";
}

std::string ApplyAuthTimeout(SettingHost& host, const SettingChange&) {
  AwaitOnAll<Users>(ServerOf(host).state(), [](Users& users) { users.OnAuthTimeoutChanged(); });
  return "";
}

// --- The table ---

constexpr SettingRow kRows[] = {
    {.name = "port",
     .topic = kNetwork,
     .kind = kInteger,
     .initial = "6379",
     .max = UINT16_MAX,
     .slot = kSlot<&Options::port>,
     .apply = ApplyPorts,
     .brief = "TCP port; 0: none",
     .help = "TCP port to listen on; 0: none, then --unixsocket is needed."},
    {.name = "bind",
     .topic = kNetwork,
     .initial = "127.0.0.1 -::1",
     .slot = kBinds,
     .apply = ApplyPorts,
     .has_words = true,
     .brief = "addresses, or * for all",
     .help = "Addresses to listen on, separated by blanks; * is all IPv4 ones. One that begins "
             "with - may be missing. The default is this machine only, as anybody who reaches the "
             "port without --requirepass may do everything."},
    {.name = "unixsocket",
     .topic = kNetwork,
     .how = kAtStart,
     .slot = kSlot<&Options::unix_socket>,
     .brief = "path of a unix socket",
     .help = "Path of a unix socket to listen on as well."},
    {.name = "unixsocketperm",
     .topic = kNetwork,
     .initial = "0",
     .how = kAtStart,
     .slot = kMode,
     .help = "Its permissions, in octal (700); 0: as umask makes them. Who may write to it may do "
             "everything."},
    {.name = "requirepass",
     .topic = kNetwork,
     .slot = kSlot<&Options::acl, &AclOptions::password>,
     .apply = ApplyPassword,
     .takes_controls = true,
     .brief = "password of the default user",
     .help = "Password that clients have to give (AUTH); empty: none. Other users of the machine "
             "may see it in the list of processes."},
    {.name = "aclfile",
     .topic = kNetwork,
     .how = kAtStart,
     .slot = kSlot<&Options::acl, &AclOptions::file>,
     .brief = "file of users",
     .help = "File of users and what they may do, as of Redis: lines \"user name rule ...\". ACL "
             "LOAD and ACL SAVE read and write it. Empty: none."},
    {.name = "user",
     .topic = kNetwork,
     .how = kFlagOnly,
     .slot = kSlot<&Options::acl, &AclOptions::users>,
     .repeat = SettingRepeat::kAddsLine,
     .help = "Users and what they may do, one in a line: name rule ... Instead of --aclfile."},
    {.name = "acl-pubsub-default",
     .topic = kNetwork,
     .kind = kChoice,
     .initial = "resetchannels",
     .choices = "allchannels resetchannels",
     .slot = kChoiceSlot<kChannelRules, &Options::acl, &AclOptions::all_channels>,
     .apply = ApplyChannelRule,
     .help =
         "What new users may publish and subscribe to: resetchannels (nothing) or allchannels."},
    {.name = "acllog-max-len",
     .topic = kNetwork,
     .kind = kInteger,
     .initial = "128",
     .max = INT64_MAX,
     .slot = kSlot<&Options::acl, &AclOptions::log_max>,
     .apply = ApplyAclLog,
     .help = "Entries of ACL LOG, at most."},
    {.name = "maxclients",
     .topic = kNetwork,
     .kind = kInteger,
     .initial = "10000",
     .min = 1,
     .max = UINT32_MAX,
     .slot = kSlot<&Options::maxclients>,
     .live = kStoreLive<&Settings::maxclients, &Options::maxclients>,
     .apply = CheckMaxClients,
     .brief = "connections at most",
     .help = "Connections at most; later ones get an error. Lowered at the start if the limit of "
             "open files (ulimit -n) is smaller."},
    {.name = "timeout",
     .topic = kNetwork,
     .kind = kInteger,
     .initial = "0",
     .max = INT_MAX,
     .slot = kSlot<&Options::idle_timeout_s>,
     .apply = ApplyTimeout,
     .help = "Seconds after which a silent client is disconnected; 0: never."},
    {.name = "tcp-keepalive",
     .topic = kNetwork,
     .kind = kInteger,
     .initial = "300",
     .max = INT_MAX,
     .slot = kSlot<&Options::tcp_keepalive_s>,
     .live = kStoreLive<&Settings::tcp_keepalive_s, &Options::tcp_keepalive_s>,
     .help = "Seconds of silence after which the kernel looks whether a client is still there; 0: "
             "never, then clients that vanished stay connected for ever."},
    {.name = "tcp-backlog",
     .topic = kNetwork,
     .kind = kInteger,
     .initial = "511",
     .min = 1,
     .max = INT_MAX,
     .how = kAtStart,
     .slot = kSlot<&Options::backlog>,
     .help = "Connections that may wait to be accepted; the kernel limits it too "
             "(net.core.somaxconn)."},
    {.name = "protected-mode",
     .topic = kSecurity,
     .kind = kBool,
     .initial = "yes",
     .slot = kSlot<&Options::protected_mode>,
     .live = kStoreLive<&Settings::protected_mode, &Options::protected_mode>,
     .help = "Without --requirepass only clients on this machine are served (unix sockets, "
             "127.0.0.1, ::1), whatever --bind says; others get the error DENIED."},
    {.name = "auth_timeout",
     .topic = kSecurity,
     .kind = kInteger,
     .initial = "120",
     .max = INT_MAX,
     .slot = kSlot<&Options::auth_timeout_s>,
     .live = kStoreLive<&Settings::auth_timeout_s, &Options::auth_timeout_s>,
     .apply = ApplyAuthTimeout,
     .help = "Seconds that a client has for AUTH, if there is a password; 0: no limit."},
    {.name = "admin_port",
     .topic = kSecurity,
     .kind = kInteger,
     .initial = "0",
     .max = UINT16_MAX,
     .how = kAtStart,
     .slot = kSlot<&Options::admin_port>,
     .help = "Another port, for operators: not counted by --maxclients, and the only one for "
             "--restricted_commands; 0: none."},
    {.name = "admin_bind",
     .topic = kSecurity,
     .initial = "127.0.0.1 -::1",
     .how = kAtStart,
     .slot = kAdminBinds,
     .help = "As --bind, for --admin_port."},
    {.name = "admin_nopass",
     .topic = kSecurity,
     .kind = kBool,
     .initial = "no",
     .how = kAtStart,
     .slot = kSlot<&Options::admin_nopass>,
     .help = "Clients of --admin_port need no password."},
    {.name = "no_tls_on_admin_port",
     .topic = kSecurity,
     .kind = kBool,
     .initial = "yes",
     .how = kAtStart,
     .slot = kSlot<&Options::no_tls_on_admin_port>,
     .help = "--tls is not for --admin_port. false: it is."},
    {.name = "restricted_commands",
     .topic = kSecurity,
     .how = kAtStart,
     .slot = kRestrictedCommands,
     .help = "Commands that only clients of --admin_port may use, and no script, separated by "
             "commas: flushall,config|set,debug."},
    {.name = "rename_command",
     .topic = kSecurity,
     .how = kFlagOnly,
     .slot = kRenames,
     .repeat = SettingRepeat::kAddsLine,
     .help = "Name of a command and what clients have to call it, in lines; a name alone: they "
             "cannot call it. A user's ACL is the better way to forbid a command."},
    {.name = "enable-protected-configs",
     .topic = kSecurity,
     .kind = kChoice,
     .initial = "no",
     .choices = "yes no local",
     .how = kAtStart,
     .slot = kChoiceSlot<kWho, &Options::protected_configs>,
     .help = "Who may CONFIG SET dir and dbfilename, and so have files written anywhere: yes "
             "(whoever may use CONFIG), local (of these, clients on this machine), no."},
    {.name = "enable-debug-command",
     .topic = kSecurity,
     .kind = kChoice,
     .initial = "no",
     .choices = "yes no local",
     .how = kAtStart,
     .slot = kChoiceSlot<kWho, &Options::debug_command>,
     .help = "Who may call DEBUG, which can also stop or crash the server: yes (whoever the ACL "
             "allows it), local (of these, clients on this machine), no."},
    {.name = "enable-module-command",
     .topic = kSecurity,
     .kind = kChoice,
     .initial = "no",
     .choices = "yes no local",
     .how = kAtStart,
     .slot = kChoiceSlot<kWho, &Options::module_command>,
     .help = "The same for MODULE LOAD and UNLOAD, which find no module that they could load."},
    {.name = "memcached_port",
     .topic = kMemcached,
     .kind = kInteger,
     .initial = "0",
     .max = UINT16_MAX,
     .how = kAtStart,
     .slot = kSlot<&Options::memcached_port>,
     .help = "Another port, for clients of memcached (text protocol, meta commands): database 0, "
             "as on --port and with --tls as there; 0: none."},
    {.name = "memcached_max_value_bytes",
     .topic = kMemcached,
     .kind = kMemory,
     .initial = "1mb",
     .min = 1024,
     .max = 512 << 20,
     .how = kAtStart,
     .slot = kSlot<&Options::limits, &ConnectionLimits::memcached,
                   &MemcachedParser::Limits::value_bytes_max>,
     .flag_error = "'{}' is no size between 1kb and 512.00M",
     .help = "Bytes of a value that a client of memcached may store; a larger one is refused and "
             "skipped."},
    {.name = "memcached_max_line_bytes",
     .topic = kMemcached,
     .kind = kMemory,
     .initial = "1mb",
     .min = 1024,
     .max = 64 << 20,
     .how = kAtStart,
     .slot = kSlot<&Options::limits, &ConnectionLimits::memcached,
                   &MemcachedParser::Limits::line_bytes_max>,
     .flag_error = "'{}' is no size between 1kb and 64.00M",
     .help = "Bytes of a line of get, gets, gat or gats with its keys; after a longer one the "
             "client is disconnected."},
    {.name = "tls",
     .topic = kTls,
     .kind = kBool,
     .initial = "no",
     .how = kAtStart,
     .slot = kSlot<&Options::tls>,
     .help = "Clients of --port must speak TLS."},
    {.name = "tls-port",
     .topic = kTls,
     .kind = kInteger,
     .initial = "0",
     .max = UINT16_MAX,
     .slot = kSlot<&Options::tls_port>,
     .apply = ApplyPorts,
     .help = "Another port, with TLS; 0: none. --port=0 leaves only this one."},
    {.name = "tls-cert-file",
     .topic = kTls,
     .slot = kSlot<&Options::tls_options, &TlsOptions::cert_file>,
     .apply = ApplyTls,
     .help = "The server's certificate (PEM), followed by those between it and its root. CONFIG "
             "SET tls-cert-file, also with the same name, reads it again."},
    {.name = "tls-key-file",
     .topic = kTls,
     .slot = kSlot<&Options::tls_options, &TlsOptions::key_file>,
     .apply = ApplyTls,
     .help = "The private key of --tls_cert_file (PEM)."},
    {.name = "tls-key-file-pass",
     .topic = kTls,
     .slot = kSlot<&Options::tls_options, &TlsOptions::key_file_pass>,
     .apply = ApplyTls,
     .takes_controls = true,
     .help = "Its passphrase, if it is encrypted."},
    {.name = "tls-ca-cert-file",
     .topic = kTls,
     .slot = kSlot<&Options::tls_options, &TlsOptions::ca_cert_file>,
     .apply = ApplyTls,
     .help = "Who may sign the certificates of clients, and of the primary with --tls_replication "
             "(PEM)."},
    {.name = "tls-ca-cert-dir",
     .topic = kTls,
     .slot = kSlot<&Options::tls_options, &TlsOptions::ca_cert_dir>,
     .apply = ApplyTls,
     .help = "The same, a folder with names as `openssl rehash` makes them."},
    {.name = "tls-auth-clients",
     .topic = kTls,
     .kind = kChoice,
     .choices = "no yes optional",
     .slot = kChoiceSlot<kPeerChecks, &Options::tls_options, &TlsOptions::peer_check>,
     .apply = ApplyTls,
     .flag_error = "must be yes, no or optional",
     .help = "yes: clients need a certificate; optional: if they have one it must be good; no: "
             "they are not asked. Empty: yes if it is told who may sign them, else no."},
    {.name = "tls-auth-clients-user",
     .topic = kTls,
     .kind = kChoice,
     .initial = "off",
     .choices = "off CN URI",
     .slot = kChoiceSlot<kCertificateUsers, &Options::certificate_user>,
     .live =
         [](const Options& now, Settings* settings) {
           settings->certificate_user.store(now.certificate_user, std::memory_order_relaxed);
         },
     .help = "A client whose certificate was checked is logged in as the user of the ACL that the "
             "certificate names: CN: by the common name of its subject; URI: by the first of its "
             "alternative names that is the name of a user. Else it is the default user."},
    {.name = "tls-replication",
     .topic = kTls,
     .kind = kBool,
     .initial = "no",
     .slot = kSlot<&Options::tls_replication>,
     .apply = ApplyTls,
     .help = "The link of a replica with its primary has TLS. CONFIG SET counts for the next link. "
             "The primary's certificate must be signed by one of --tls_ca_cert_file or "
             "--tls_ca_cert_dir."},
    {.name = "tls-client-cert-file",
     .topic = kTls,
     .slot = kSlot<&Options::tls_client, &TlsClientFiles::cert_file>,
     .apply = ApplyTls,
     .help = "The certificate (PEM) that this server shows where it is a client: to its primary. "
             "Empty, or without --tls_client_key_file: that of --tls_cert_file."},
    {.name = "tls-client-key-file",
     .topic = kTls,
     .slot = kSlot<&Options::tls_client, &TlsClientFiles::key_file>,
     .apply = ApplyTls,
     .help = "The private key of --tls_client_cert_file (PEM)."},
    {.name = "tls-client-key-file-pass",
     .topic = kTls,
     .slot = kSlot<&Options::tls_client, &TlsClientFiles::key_file_pass>,
     .apply = ApplyTls,
     .takes_controls = true,
     .help = "Its passphrase, if it is encrypted."},
    {.name = "tls-protocols",
     .topic = kTls,
     .slot = kSlot<&Options::tls_options, &TlsOptions::protocols>,
     .apply = ApplyTls,
     .help = "Of TLSv1 TLSv1.1 TLSv1.2 TLSv1.3, separated by blanks. Empty: TLSv1.2 TLSv1.3."},
    {.name = "tls-ciphers",
     .topic = kTls,
     .slot = kSlot<&Options::tls_options, &TlsOptions::ciphers>,
     .apply = ApplyTls,
     .help = "For TLS 1.2, as in ciphers(1ssl); empty: OpenSSL's choice."},
    {.name = "tls-ciphersuites",
     .topic = kTls,
     .slot = kSlot<&Options::tls_options, &TlsOptions::ciphersuites>,
     .apply = ApplyTls,
     .help = "The same for TLS 1.3."},
    {.name = "tls-prefer-server-ciphers",
     .topic = kTls,
     .kind = kBool,
     .initial = "no",
     .slot = kSlot<&Options::tls_options, &TlsOptions::prefers_own_ciphers>,
     .apply = ApplyTls,
     .help =
         "Of the ciphers that both sides know the server's first one is taken, not the client's."},
    {.name = "tls-dh-params-file",
     .topic = kTls,
     .slot = kSlot<&Options::tls_options, &TlsOptions::dh_params_file>,
     .apply = ApplyTls,
     .help = "Parameters for DHE ciphers (PEM); empty: OpenSSL's, as strong as the key."},
    {.name = "tls-session-caching",
     .topic = kTls,
     .kind = kBool,
     .initial = "yes",
     .slot = kSlot<&Options::tls_options, &TlsOptions::caches_sessions>,
     .apply = ApplyTls,
     .help = "Clients may resume sessions, which saves a half handshake."},
    {.name = "tls-session-cache-size",
     .topic = kTls,
     .kind = kInteger,
     .initial = "20480",
     .max = INT_MAX,
     .slot = kSlot<&Options::tls_options, &TlsOptions::sessions_max>,
     .apply = ApplyTls,
     .help = "Sessions that are kept for TLS 1.2; 0: no limit."},
    {.name = "tls-session-cache-timeout",
     .topic = kTls,
     .kind = kInteger,
     .initial = "300",
     .max = INT_MAX,
     .slot = kSlot<&Options::tls_options, &TlsOptions::session_timeout_s>,
     .apply = ApplyTls,
     .help = "Seconds for which a session can be resumed."},
    {.name = "tls-auto-reload-interval",
     .topic = kTls,
     .kind = kInteger,
     .initial = "0",
     .max = INT_MAX,
     .slot = kSlot<&Options::tls_reload_s>,
     .apply = ApplyTlsReload,
     .help = "Every so many seconds the files of TLS are looked at, and read again if they have "
             "changed. What does not fit together or has expired is not taken. 0: only CONFIG SET "
             "reads them again."},
    {.name = "tls_handshake_timeout",
     .topic = kTls,
     .kind = kInteger,
     .initial = "30",
     .max = 86'400,
     .slot = kHandshakeTimeout,
     .apply = ApplyTls,
     .help = "Seconds that a client has for the handshake of TLS; 0: no limit."},
};

}  // namespace

std::span<const SettingRow> NetworkSettings() { return kRows; }

}  // namespace dfly
