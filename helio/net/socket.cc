// SPDX-License-Identifier: Apache-2.0
#include "helio/net/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "helio/net/epoll_socket.h"
#include "helio/net/tls_socket.h"
#include "helio/net/uring_socket.h"

namespace helio {

std::unique_ptr<Socket> Socket::Adopt(Proactor* proactor, int fd, Handler* handler) {
  if (proactor->engine() == Proactor::Engine::kIoUring) {
    return std::make_unique<UringSocket>(static_cast<UringProactor*>(proactor), fd, handler);
  }
  return std::make_unique<EpollSocket>(static_cast<EpollProactor*>(proactor), fd, handler);
}

std::unique_ptr<Socket> Socket::Adopt(Proactor* proactor, int fd, Handler* handler,
                                      std::unique_ptr<TlsSession> tls) {
  if (tls == nullptr) return Adopt(proactor, fd, handler);
  return std::make_unique<TlsSocket>(proactor, fd, handler, std::move(tls));
}

short Socket::FindEnd() {
  pollfd entry{fd_, POLLRDHUP, 0};
  const bool is_there = poll(&entry, 1, 0) == 1;
  return std::exchange(end_seen_, is_there) && is_there ? entry.revents : short{0};
}

void SetTcpOptions(int fd, uint32_t keepalive_s) {
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) return;  // a unix socket
  if (keepalive_s == 0) return;
  // As Redis: the first probe after the interval, then three more a third of it apart.
  const int idle_s = static_cast<int>(keepalive_s);
  const int between_s = std::max(1, idle_s / 3);
  const int count = 3;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

}  // namespace helio
