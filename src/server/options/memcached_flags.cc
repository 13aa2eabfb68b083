// SPDX-License-Identifier: Apache-2.0
// The flags of memcached's protocol.
#include "server/options/memcached_flags.h"

#include <fmt/format.h>
#include <gflags/gflags.h>

#include "server/base/units.h"

DEFINE_uint32(memcached_port, 0,
              "Another port, for clients of memcached (text protocol, meta commands): database 0, "
              "as on --port and with --tls as there; 0: none.");
DEFINE_string(memcached_max_value_bytes, "1mb",
              "Bytes of a value that a client of memcached may store; a larger one is refused and "
              "skipped.");
DEFINE_string(memcached_max_line_bytes, "1mb",
              "Bytes of a line of get, gets, gat or gats with its keys; after a longer one the "
              "client is disconnected.");

namespace dfly {

std::string MemcachedFromFlags(ServerOptions* options) {
  if (FLAGS_memcached_port > 65535) return "--memcached_port: must be between 0 and 65535";
  options->memcached_port = static_cast<uint16_t>(FLAGS_memcached_port);
  std::string error;
  const auto bytes = [&error](std::string_view flag, const std::string& text, uint64_t max) {
    const auto parsed = ParseMemory(text);
    if (!parsed || *parsed < 1024 || *parsed > max) {
      error = fmt::format("--{}: '{}' is no size between 1kb and {}", flag, text, HumanBytes(max));
    }
    return parsed.value_or(0);
  };
  MemcachedParser::Limits& limits = options->limits.memcached;
  // What a client has sent of a command waits in memory, so this is no place for more.
  limits.value_bytes_max =
      bytes("memcached_max_value_bytes", FLAGS_memcached_max_value_bytes, 512u << 20);
  limits.line_bytes_max =
      bytes("memcached_max_line_bytes", FLAGS_memcached_max_line_bytes, 64u << 20);
  return error;
}

}  // namespace dfly
