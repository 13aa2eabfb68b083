// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/script_load.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "facade/replies/resp_reader.h"
#include "helio/net/address.h"

namespace dfly::bench {

namespace {

std::string Encode(std::initializer_list<std::string_view> arguments) {
  std::string out = fmt::format("*{}\r\n", arguments.size());
  for (const std::string_view argument : arguments) {
    out += fmt::format("${}\r\n{}\r\n", argument.size(), argument);
  }
  return out;
}

// One command, and its reply's text. Returns what is wrong, or nothing.
std::string Ask(int fd, std::string_view name, std::string_view request, std::string* reply) {
  while (!request.empty()) {
    const ssize_t sent = send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    if (sent < 0) return fmt::format("{}: {}", name, strerror(errno));
    request.remove_prefix(static_cast<size_t>(sent));
  }
  std::string input;
  RespReader reader;
  while (true) {
    char buffer[512];
    const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    if (got == 0) return fmt::format("{}: the server closed the connection", name);
    if (got < 0) return fmt::format("{}: {}", name, strerror(errno));
    input.append(buffer, static_cast<size_t>(got));
    const RespReader::Status status = reader.Parse(input);
    if (status == RespReader::Status::kError)
      return fmt::format("{}: protocol error: {}", name, reader.error());
    if (status == RespReader::Status::kReply) break;
    input.erase(0, reader.consumed());
  }
  if (reader.kind() == ReplyKind::kError)
    return fmt::format("the server answers {} with: {}", name, reader.text());
  *reply = reader.text();
  return "";
}

std::string Load(int fd, const LoadOptions& options, const std::string& script, std::string* sha) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  const timeval timeout{.tv_sec = options.reply_timeout_s, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  if (!options.password.empty()) {
    std::string error = Ask(fd, "AUTH", Encode({"AUTH", options.password}), sha);
    if (!error.empty()) return error;
  }
  std::string error = Ask(fd, "SCRIPT LOAD", Encode({"SCRIPT", "LOAD", script}), sha);
  if (error.empty() && sha->size() != 40)
    error = fmt::format("the server answers SCRIPT LOAD with no SHA1: '{}'", sha->substr(0, 100));
  return error;
}

}  // namespace

std::string LoadScript(const LoadOptions& options, const std::string& script, std::string* sha) {
  std::string error;
  const int fd = helio::ConnectTcp(options.host, options.port, &error);
  if (fd < 0) return error;
  error = Load(fd, options, script, sha);
  close(fd);
  return error;
}

}  // namespace dfly::bench
