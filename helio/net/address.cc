// SPDX-License-Identifier: Apache-2.0
#include "helio/net/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace helio {

namespace {

struct AddressList {
  addrinfo* first = nullptr;
  ~AddressList() {
    if (first != nullptr) freeaddrinfo(first);
  }
};

bool Resolve(const std::string& host, uint16_t port, int flags, AddressList* out,
             std::string* error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = host == "*" ? AF_INET : AF_UNSPEC;
  hints.ai_flags = flags;
  const int code = getaddrinfo(host == "*" ? nullptr : host.c_str(), std::to_string(port).c_str(),
                               &hints, &out->first);
  if (code == 0) return true;
  *error = fmt::format("{}: {}", host, code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
  return false;
}

std::string Format(const sockaddr_storage& address, const std::string& unix_path) {
  char text[INET6_ADDRSTRLEN];
  switch (address.ss_family) {
    case AF_INET: {
      const auto* in = reinterpret_cast<const sockaddr_in*>(&address);
      inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
      return fmt::format("{}:{}", text, ntohs(in->sin_port));
    }
    case AF_INET6: {
      const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address);
      inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
      return fmt::format("[{}]:{}", text, ntohs(in6->sin6_port));
    }
    case AF_UNIX:
      return fmt::format("{}:0", unix_path);
    default:
      return "?:0";
  }
}

}  // namespace

int ListenTcp(const std::string& host, uint16_t port, int backlog, std::string* error) {
  AddressList list;
  if (!Resolve(host, port, AI_PASSIVE | AI_NUMERICSERV, &list, error)) return -1;
  for (const addrinfo* info = list.first; info != nullptr; info = info->ai_next) {
    const int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      *error = fmt::format("{}:{}: {}", host, port, strerror(errno));
      continue;
    }
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (info->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, backlog) == 0) return fd;
    *error = fmt::format("{}:{}: {}", host, port, strerror(errno));
    close(fd);
  }
  return -1;
}

int ListenUnix(const std::string& path, uint32_t mode, int backlog, std::string* error) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    *error = fmt::format("{}: longer than a unix socket's path may be", path);
    return -1;
  }
  memcpy(address.sun_path, path.data(), path.size());
  struct stat status;
  if (lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) unlink(path.c_str());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      (mode == 0 || chmod(path.c_str(), mode) == 0) && listen(fd, backlog) == 0) {
    return fd;
  }
  *error = fmt::format("{}: {}", path, strerror(errno));
  if (fd >= 0) close(fd);
  return -1;
}

int ConnectTcp(const std::string& host, uint16_t port, std::string* error) {
  AddressList list;
  if (!Resolve(host, port, AI_NUMERICSERV, &list, error)) return -1;
  for (const addrinfo* info = list.first; info != nullptr; info = info->ai_next) {
    const int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, info->ai_addr, info->ai_addrlen) == 0) {
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
      return fd;
    }
    *error = fmt::format("{}:{}: {}", host, port, strerror(errno));
    if (fd >= 0) close(fd);
  }
  return -1;
}

int ConnectTcp(const std::string& host, uint16_t port, int timeout_ms, std::string* error) {
  AddressList list;
  if (!Resolve(host, port, AI_NUMERICSERV, &list, error)) return -1;
  for (const addrinfo* info = list.first; info != nullptr; info = info->ai_next) {
    const int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int code = fd < 0 || connect(fd, info->ai_addr, info->ai_addrlen) == 0 ? 0 : errno;
    if (fd >= 0 && code == EINPROGRESS) {
      pollfd wait = {.fd = fd, .events = POLLOUT, .revents = 0};
      socklen_t size = sizeof(code);
      if (poll(&wait, 1, timeout_ms) == 1) {
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
      } else {
        code = ETIMEDOUT;
      }
    }
    if (fd >= 0 && code == 0) return fd;
    *error = fmt::format("{}:{}: {}", host, port, strerror(fd < 0 ? errno : code));
    if (fd >= 0) close(fd);
  }
  return -1;
}

std::string LocalAddress(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "?:0";
  return Format(address, reinterpret_cast<sockaddr_un*>(&address)->sun_path);
}

std::string PeerAddress(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "?:0";
  // The client's end of a unix socket has no name: redis-server shows the path it connected to.
  if (address.ss_family == AF_UNIX) return LocalAddress(fd);
  return Format(address, "");
}

bool IsLoopbackPeer(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return false;
  if (address.ss_family == AF_UNIX) return true;
  if (address.ss_family == AF_INET) {
    return reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
  }
  if (address.ss_family != AF_INET6) return false;
  const in6_addr& ip = reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr;
  const uint32_t last = ntohl(ip.s6_addr32[3]);
  return IN6_IS_ADDR_LOOPBACK(&ip) || (IN6_IS_ADDR_V4MAPPED(&ip) && last == INADDR_LOOPBACK);
}

uint16_t LocalPort(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  if (address.ss_family == AF_INET)
    return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return 0;
}

}  // namespace helio
