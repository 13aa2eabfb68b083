// SPDX-License-Identifier: Apache-2.0
#include "server/clients/sentinels.h"

#include <arpa/inet.h>

#include <memory>
#include <optional>

#include "core/text/numbers.h"

namespace dfly {

namespace {

constexpr size_t kHostAt = 5, kPortAt = 6;  // fields of a hello
constexpr size_t kHostMax = 255;

std::string_view Field(std::string_view hello, size_t at) {
  for (; at > 0; --at) {
    const size_t comma = hello.find(',');
    if (comma == std::string_view::npos) return {};
    hello.remove_prefix(comma + 1);
  }
  return hello.substr(0, hello.find(','));
}

std::optional<uint16_t> ParsePort(std::string_view text) {
  const std::optional<int64_t> port = ParseInt64(text);
  if (!port || *port <= 0 || *port > UINT16_MAX) return std::nullopt;
  return static_cast<uint16_t>(*port);
}

bool IsIp(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

std::string_view SentinelIdOf(const Session& session) {
  constexpr std::string_view kPrefix = "sentinel-", kSuffix = "-cmd";
  const std::string_view name = session.name;
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return {};
  if (name.size() <= kPrefix.size() + kSuffix.size()) return {};
  return name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
}

void NoteSentinelHello(Session& session, Args args) {
  if (args.size() != 3 || SentinelIdOf(session).empty()) return;
  const std::string_view host = Field(args[2], kHostAt);
  const std::optional<uint16_t> port = ParsePort(Field(args[2], kPortAt));
  if (host.empty() || host.size() > kHostMax || !port) return;
  if (session.hello == nullptr) session.hello = std::make_unique<SentinelHello>();
  SentinelHello& hello = *session.hello;
  hello.heard_ns = session.connection.last_active_ns();
  if (hello.primary_host == host && hello.primary_port == *port) return;
  hello.primary_host = host;
  hello.primary_port = *port;
  hello.is_told = false;
}

bool NamesThisServer(const Session& session, const AnnouncedAddress& announced) {
  if (session.hello == nullptr) return false;
  const SentinelHello& hello = *session.hello;
  const std::string_view local = session.local_address;
  const size_t colon = local.rfind(':');
  std::string_view local_host = local.substr(0, colon);
  if (local_host.starts_with('[')) local_host = local_host.substr(1, local_host.size() - 2);
  const auto local_port =
      colon == std::string_view::npos ? std::nullopt : ParsePort(local.substr(colon + 1));
  if (hello.primary_port != announced.port && hello.primary_port != local_port) return false;
  return hello.primary_host == announced.ip || hello.primary_host == local_host ||
         !IsIp(hello.primary_host);
}

}  // namespace dfly
