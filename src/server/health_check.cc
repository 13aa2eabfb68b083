// SPDX-License-Identifier: Apache-2.0
#include "server/health_check.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace dfly {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// -1: errno says why not.
int Connect(const sockaddr* address, socklen_t size) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const timeval patience = {.tv_sec = 2, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (connect(fd, address, size) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int ConnectTo(const std::string& host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  const int fd = Connect(found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return fd;
}

int ConnectTo(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(address.sun_path, path.data(), path.size());
  return Connect(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

// Where somebody on this machine reaches it.
std::string HostOf(const ServerOptions& options) {
  std::string host = options.binds.empty() ? "127.0.0.1" : options.binds.front();
  if (host.starts_with('-')) host.erase(0, 1);
  return host == "*" || host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host;
}

}  // namespace

std::string CheckHealth(const ServerOptions& options, bool ready) {
  const bool is_plain = options.port != 0 && !options.tls;
  const uint16_t port = options.port != 0 ? options.port : options.tls_port;
  const Descriptor fd(port != 0 ? ConnectTo(HostOf(options), port)
                                : ConnectTo(options.unix_socket));
  if (fd.get() < 0) return fmt::format("cannot connect: {}", strerror(errno));
  if (port != 0 && !is_plain) return "";
  const std::string_view request =
      ready ? "GET /readyz HTTP/1.0\r\n\r\n" : "GET /livez HTTP/1.0\r\n\r\n";
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return fmt::format("cannot ask: {}", strerror(errno));
  }
  std::string answer;
  char buffer[1024];
  while (answer.size() < sizeof(buffer)) {
    const ssize_t size = recv(fd.get(), buffer, sizeof(buffer), 0);
    if (size < 0) return fmt::format("no answer: {}", strerror(errno));
    if (size == 0) break;
    answer.append(buffer, static_cast<size_t>(size));
  }
  const std::string_view status = std::string_view(answer).substr(0, answer.find("\r\n"));
  if (status.starts_with("HTTP/") && status.find(" 200 ") != std::string_view::npos) return "";
  const size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? "no answer of HTTP" : answer.substr(body + 4);
}

}  // namespace dfly
