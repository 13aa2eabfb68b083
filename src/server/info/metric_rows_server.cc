// SPDX-License-Identifier: Apache-2.0
// Rows of metrics: the process and its clients.
#include <fmt/format.h>

#include <string>

#include "server/base/version.h"
#include "server/info/info_text.h"
#include "server/info/metric_rows.h"
#include "server/info/prometheus_text.h"

namespace dfly {

namespace {

void Listeners(const InfoFacts& facts, InfoText& out) {
  for (size_t n = 0; n < facts.listeners.size(); ++n) {
    out.Add(fmt::format("listener{}", n), facts.listeners[n]);
  }
}

void BuildInfo(const InfoFacts& facts, PrometheusText& out) {
  out.Add({{"version", kVersion},
           {"redis_version", kRedisVersion},
           {"engine", facts.multiplexing_api},
           {"allocator", facts.allocator}},
          1);
}

std::string CompilerVersion() {
  return fmt::format("{}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
}

constexpr MetricRow kServer[] = {
    {.prom = "build_info",
     .label = "version, redis_version, engine, allocator",
     .place = 100,
     .help = "Always 1; its labels tell what runs.",
     .samples = BuildInfo},
    {.prom = "start_time_seconds",
     .unit = MetricUnit::kSeconds,
     .place = 101,
     .help = "Unix time of the start.",
     .value = Of<&InfoFacts::start_s>},
    {.info = "redis_version",
     .help = "The Redis whose behaviour clients may expect.",
     .value = Of<[](const InfoFacts&) { return kRedisVersion; }>},
    {.info = "redis_git_sha1",
     .help = "Always zeros.",
     .value = Of<[](const InfoFacts&) { return "00000000"; }>},
    {.info = "redis_git_dirty", .help = "Always 0.", .value = Always<0>},
    {.info = "redis_build_id",
     .help = "The version of this server.",
     .value = Of<[](const InfoFacts&) { return kVersion; }>},
    {.info = "redis_mode",
     .help = "`standalone`, or `cluster` with `--cluster_mode=emulated`.",
     .value = Of<[](const InfoFacts& f) { return f.emulates_cluster ? "cluster" : "standalone"; }>},
    {.info = "os", .help = "System, kernel and machine.", .value = Of<&InfoFacts::os>},
    {.info = "arch_bits",
     .help = "Bits of an address.",
     .value = Of<[](const InfoFacts&) { return sizeof(void*) * 8; }>},
    {.info = "atomicvar_api",
     .help = "Always the same, for tools.",
     .value = Of<[](const InfoFacts&) { return "c11-builtin"; }>},
    {.info = "monotonic_clock",
     .help = "Always the same, for tools.",
     .value = Of<[](const InfoFacts&) { return "POSIX clock_gettime"; }>},
    {.info = "multiplexing_api",
     .help = "`io_uring` or `epoll`.",
     .value = Of<&InfoFacts::multiplexing_api>},
    {.info = "gcc_version",
     .help = "The compiler.",
     .value = Of<[](const InfoFacts&) { return CompilerVersion(); }>},
    {.info = "process_id", .help = "Of this server.", .value = Of<&InfoFacts::process_id>},
    {.info = "process_supervised",
     .help = "`systemd` or `no`.",
     .value = Of<[](const InfoFacts& f) { return f.is_supervised ? "systemd" : "no"; }>},
    {.info = "run_id", .help = "Another one for each start.", .value = Of<&InfoFacts::run_id>},
    {.info = "tcp_port",
     .help = "The port; the TLS port if there is no other.",
     .value = Of<&InfoFacts::tcp_port>},
    {.info = "server_time_usec",
     .unit = MetricUnit::kMicros,
     .help = "Unix time.",
     .value = Of<&InfoFacts::now_us>},
    {.info = "uptime_in_seconds",
     .prom = "uptime_seconds",
     .unit = MetricUnit::kSeconds,
     .place = 102,
     .help = "Time since the start.",
     .value = Of<&InfoFacts::uptime_s>},
    {.info = "uptime_in_days",
     .help = "The same in days.",
     .value = Of<[](const InfoFacts& f) { return f.uptime_s / 86400; }>},
    // Nothing of ours has such a rate; tools expect one.
    {.info = "hz", .help = "Always 10, for tools.", .value = Always<10>},
    {.info = "configured_hz", .help = "Always 10, for tools.", .value = Always<10>},
    {.info = "lru_clock",
     .help = "The low 24 bits of the Unix time.",
     .value = Of<[](const InfoFacts& f) { return (f.now_us / 1'000'000) & 0xffffff; }>},
    {.info = "executable", .help = "The path of the program.", .value = Of<&InfoFacts::executable>},
    {.info = "config_file",
     .help = "The path of redis.conf, if there is one.",
     .value = Of<&InfoFacts::config_file>},
    {.info = "listener<n>", .help = "An address where clients connect.", .lines = Listeners},
    {.info = "io_threads_active",
     .help = "1 if there are several threads.",
     .value = Of<[](const InfoFacts& f) { return (f.threads > 1); }>},
    {.info = "proactor_threads",
     .prom = "threads",
     .place = 103,
     .help = "Threads, each with an event loop.",
     .value = Of<&InfoFacts::threads>},
    {.info = "num_shards",
     .prom = "shards",
     .place = 104,
     .help = "Slices of the key space.",
     .value = Of<&InfoFacts::shards>},
};

using Certificate = helio::TlsCertificate TlsFacts::*;

template <Certificate kCertificate>
MetricValue SerialOf(const InfoFacts& facts) {
  const helio::TlsCertificate& it = facts.tls.*kCertificate;
  return it.is_there() ? it.serial : "none";
}

// 0: there is none. Less: for so long it is expired.
template <Certificate kCertificate>
MetricValue SecondsLeft(const InfoFacts& facts) {
  const helio::TlsCertificate& it = facts.tls.*kCertificate;
  return it.is_there() ? it.expire_time - facts.now_us / 1'000'000 : 0;
}

template <Certificate kCertificate>
MetricValue ExpireTime(const InfoFacts& facts) {
  const helio::TlsCertificate& it = facts.tls.*kCertificate;
  return it.is_there() ? MetricValue(it.expire_time) : MetricValue();
}

constexpr MetricRow kTls[] = {
    {.info = "tls_server_cert_serial",
     .help = "Serial number of the certificate of the ports, or `none`.",
     .value = SerialOf<&TlsFacts::server>},
    {.info = "tls_server_cert_expires_in_seconds",
     .help = "How long it is valid; negative: it has expired; 0: there is none.",
     .value = SecondsLeft<&TlsFacts::server>},
    {.info = "tls_client_cert_serial",
     .help = "The same for the one that the primary gets to see.",
     .value = SerialOf<&TlsFacts::client>},
    {.info = "tls_client_cert_expires_in_seconds",
     .help = "How long that one is valid.",
     .value = SecondsLeft<&TlsFacts::client>},
    {.info = "tls_ca_cert_serial",
     .help = "Of those who may sign certificates, the one that expires first.",
     .value = SerialOf<&TlsFacts::authority>},
    {.info = "tls_ca_cert_expires_in_seconds",
     .help = "How long that one is valid.",
     .value = SecondsLeft<&TlsFacts::authority>},
    {.prom = "tls_certificate_expire_time_seconds",
     .label = "certificate",
     .label_value = "server",
     .unit = MetricUnit::kSeconds,
     .place = 230,
     .help = "Unix time at which a certificate expires; 0: there is none.",
     .value = ExpireTime<&TlsFacts::server>},
    {.prom = "tls_certificate_expire_time_seconds",
     .label = "certificate",
     .label_value = "client",
     .unit = MetricUnit::kSeconds,
     .place = 231,
     .help = "The same of the one for the primary.",
     .value = ExpireTime<&TlsFacts::client>},
    {.prom = "tls_certificate_expire_time_seconds",
     .label = "certificate",
     .label_value = "ca",
     .unit = MetricUnit::kSeconds,
     .place = 232,
     .help = "The same of those who may sign.",
     .value = ExpireTime<&TlsFacts::authority>},
    {.info = "tls_auto_reloads",
     .prom = "tls_auto_reloads_total",
     .type = MetricType::kCounter,
     .place = 233,
     .help = "Files of TLS that had changed and were read again, by `tls-auto-reload-interval`.",
     .value = Of<[](const InfoFacts& f) { return f.tls.reloads; }>},
    {.info = "tls_auto_reload_failures",
     .prom = "tls_auto_reload_failures_total",
     .type = MetricType::kCounter,
     .place = 234,
     .help = "Changed files that could not be used.",
     .value = Of<[](const InfoFacts& f) { return f.tls.reload_failures; }>},
};

constexpr MetricRow kClients[] = {
    {.info = "connected_clients",
     .prom = "connected_clients",
     .place = 200,
     .help = "Connections of clients.",
     .value = Of<&InfoFacts::clients>},
    {.info = "cluster_connections", .help = "Always 0.", .value = Always<0>},
    {.info = "maxclients",
     .prom = "max_clients",
     .place = 203,
     .help = "Connections at most.",
     .value = Of<&InfoFacts::maxclients>},
    {.info = "client_recent_max_input_buffer",
     .prom = "client_input_buffer_max_bytes",
     .unit = MetricUnit::kBytes,
     .place = 211,
     .help = "The largest input that waits of one client.",
     .value = Of<&ThreadNow::input_buffer_max>},
    {.info = "client_recent_max_output_buffer",
     .prom = "client_output_buffer_max_bytes",
     .unit = MetricUnit::kBytes,
     .place = 212,
     .help = "The largest output that waits for one client.",
     .value = Of<&ThreadNow::output_buffer_max>},
    {.info = "blocked_clients",
     .prom = "blocked_clients",
     .place = 201,
     .help = "Clients that wait for a key.",
     .value = Of<&ThreadNow::blocked_clients>},
    {.info = "tracking_clients",
     .prom = "tracking_clients",
     .place = 650,
     .help = "Clients that cache.",
     .value = Of<&TrackingCounts::clients>},
    {.info = "pubsub_clients",
     .prom = "pubsub_clients",
     .place = 202,
     .help = "Clients that are subscribed.",
     .value = Of<&PubSubStats::clients>},
    {.info = "watching_clients",
     .help = "Clients that watch keys (`WATCH`).",
     .value = Of<&ThreadNow::watching_clients>},
    {.info = "clients_in_timeout_table", .help = "Always 0.", .value = Always<0>},
    {.info = "total_watched_keys",
     .help = "Keys that `WATCH` watches.",
     .value = Of<&QueueFacts::watched_keys>},
    {.info = "total_blocking_keys",
     .help = "Keys that blocked clients wait for.",
     .value = Of<&QueueFacts::waited_keys>},
    {.info = "total_blocking_keys_on_nokey",
     .help = "Of these, keys for whose end somebody waits (`XREADGROUP`).",
     .value = Of<&QueueFacts::waited_absences>},
    {.info = "paused_reason",
     .help =
         "Why commands have to wait: `client_pause` (`CLIENT PAUSE`), `shutdown_in_progress`, or "
         "`none`.",
     .value = Of<&InfoFacts::paused_reason>},
    {.info = "paused_actions",
     .help = "Which: `all`, `write` or `none`.",
     .value = Of<&InfoFacts::paused_actions>},
    {.info = "paused_timeout_milliseconds",
     .unit = MetricUnit::kMillis,
     .help = "How long `CLIENT PAUSE` holds them still.",
     .value = Of<&InfoFacts::paused_ms>},
};

}  // namespace

std::span<const MetricRow> ServerRows() { return kServer; }
std::span<const MetricRow> TlsRows() { return kTls; }
std::span<const MetricRow> ClientsRows() { return kClients; }

}  // namespace dfly
