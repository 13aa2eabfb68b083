// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/report.h"

#include <fmt/format.h>

#include <string_view>

namespace dfly::bench {

namespace {

constexpr struct {
  const char* name;
  double percent;
} kPercentiles[] = {{"p50", 50},     {"p90", 90},       {"p99", 99},
                    {"p99.9", 99.9}, {"p99.99", 99.99}, {"max", 100}};

double Micros(uint64_t nanos) { return static_cast<double>(nanos) / 1000; }

double Rate(uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {  // also what may be no UTF-8
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

std::string ProgressLine(const LoadStats& interval, double interval_s, uint64_t done,
                         uint64_t errors, double gone_s) {
  return fmt::format("{:6.1f} s: {} done, {:.0f}/s, {} errors, p99 {:.0f} us", gone_s, done,
                     Rate(interval.replies, interval_s), errors,
                     Micros(interval.latency_ns.Percentile(99)));
}

std::string ReportTable(const LoadResult& result) {
  const LoadStats& stats = result.stats;
  const uint64_t looked_up = stats.hits + stats.misses;
  const double cpu_s = result.cpu_user_s + result.cpu_system_s;
  std::string out;
  auto row = [&out](std::string_view name, const std::string& value) {
    out += fmt::format("{:<20}{:>16}\n", name, value);
  };
  row("connections", fmt::format("{}", result.connections));
  row("requests", fmt::format("{}", stats.replies));
  row("seconds", fmt::format("{:.3f}", result.seconds));
  row("requests/s", fmt::format("{:.0f}", Rate(stats.replies, result.seconds)));
  if (stats.jobs > 0) {
    row("jobs", fmt::format("{}", stats.jobs));
    row("jobs/s", fmt::format("{:.0f}", Rate(stats.jobs, result.seconds)));
  }
  row("MB/s sent", fmt::format("{:.2f}", Rate(stats.bytes_sent, result.seconds) / 1e6));
  row("MB/s received", fmt::format("{:.2f}", Rate(stats.bytes_received, result.seconds) / 1e6));
  row("hit rate", looked_up == 0 ? "-"
                                 : fmt::format("{:.2f} %", 100 * static_cast<double>(stats.hits) /
                                                               static_cast<double>(looked_up)));
  row("error replies", fmt::format("{}", stats.error_replies));
  row("broken connections", fmt::format("{}", stats.connection_errors));
  if (stats.protocol_errors > 0) row("protocol errors", fmt::format("{}", stats.protocol_errors));
  if (stats.unanswered > 0) row("unanswered", fmt::format("{}", stats.unanswered));
  row("client CPU us/req",
      stats.replies == 0 ? "-"
                         : fmt::format("{:.3f}", cpu_s * 1e6 / static_cast<double>(stats.replies)));
  row("client CPU cores", fmt::format("{:.2f}", result.seconds > 0 ? cpu_s / result.seconds : 0));
  out += "\nlatency, microseconds\n";
  row("mean", fmt::format("{:.1f}", stats.latency_ns.mean() / 1000));
  for (const auto& percentile : kPercentiles) {
    row(percentile.name,
        fmt::format("{:.1f}", Micros(stats.latency_ns.Percentile(percentile.percent))));
  }
  if (!stats.first_error.empty()) out += fmt::format("\nfirst error: {}\n", stats.first_error);
  return out;
}

std::string ReportJson(const LoadOptions& options, const LoadResult& result) {
  const LoadStats& stats = result.stats;
  std::string latency;
  for (const auto& percentile : kPercentiles) {
    latency += fmt::format(", \"{}\": {:.3f}", percentile.name,
                           Micros(stats.latency_ns.Percentile(percentile.percent)));
  }
  return fmt::format(
      "{{\n"
      "  \"threads\": {},\n"
      "  \"connections\": {},\n"
      "  \"pipeline\": {},\n"
      "  \"qps_per_connection\": {:.3f},\n"
      "  \"requests\": {},\n"
      "  \"seconds\": {:.6f},\n"
      "  \"rps\": {:.1f},\n"
      "  \"jobs\": {},\n"
      "  \"jobs_per_second\": {:.1f},\n"
      "  \"errors\": {},\n"
      "  \"connection_errors\": {},\n"
      "  \"protocol_errors\": {},\n"
      "  \"unanswered\": {},\n"
      "  \"first_error\": {},\n"
      "  \"hits\": {},\n"
      "  \"misses\": {},\n"
      "  \"bytes_sent\": {},\n"
      "  \"bytes_received\": {},\n"
      "  \"client_cpu_user_s\": {:.6f},\n"
      "  \"client_cpu_system_s\": {:.6f},\n"
      "  \"interrupted\": {},\n"
      "  \"latency_us\": {{\"mean\": {:.3f}{}}}\n"
      "}}\n",
      options.threads, result.connections, options.pipeline, options.qps, stats.replies,
      result.seconds, Rate(stats.replies, result.seconds), stats.jobs,
      Rate(stats.jobs, result.seconds), stats.error_replies, stats.connection_errors,
      stats.protocol_errors, stats.unanswered, JsonString(stats.first_error), stats.hits,
      stats.misses, stats.bytes_sent, stats.bytes_received, result.cpu_user_s, result.cpu_system_s,
      result.interrupted, stats.latency_ns.mean() / 1000, latency);
}

bool Succeeded(const LoadResult& result) {
  const LoadStats& stats = result.stats;
  return stats.connection_errors == 0 && stats.protocol_errors == 0 && stats.unanswered == 0 &&
         (stats.replies == 0 || stats.error_replies < stats.replies);
}

}  // namespace dfly::bench
