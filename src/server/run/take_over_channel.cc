// SPDX-License-Identifier: Apache-2.0
#include "server/run/take_over_channel.h"

#include <absl/strings/escaping.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <fmt/format.h>
#include <openssl/sha.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace dfly {

namespace {

constexpr size_t kPacketMax = 256 * 1024;  // more than a sender's buffer takes
constexpr int kPollMillis = 20;

struct Address {
  sockaddr_un name = {};
  socklen_t size = 0;
};

Address AddressOf(pid_t pid) {
  Address address;
  const std::string name = fmt::format("dragonfly-take-over-{}", pid);
  address.name.sun_family = AF_UNIX;
  // The zero in front makes it a name without a file.
  memcpy(address.name.sun_path + 1, name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

const sockaddr* Cast(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.name);
}

int NewSocket(int type, std::string* error) {
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (fd < 0) *error = strerror(errno);
  return fd;
}

int Fail(int fd, std::string why, std::string* error) {
  close(fd);
  *error = std::move(why);
  return -1;
}

// Who listens at the socket.
pid_t ListenerAt(const std::string& path, std::string* error) {
  Address address;
  if (path.size() >= sizeof(address.name.sun_path)) {
    *error = "the path of the socket is too long";
    return -1;
  }
  address.name.sun_family = AF_UNIX;
  memcpy(address.name.sun_path, path.data(), path.size());
  address.size = sizeof(address.name);
  const int fd = NewSocket(SOCK_STREAM, error);
  if (fd < 0) return -1;
  if (connect(fd, Cast(address), address.size) != 0) return Fail(fd, strerror(errno), error);
  const auto peer = PeerOf(fd);
  close(fd);
  if (!peer) *error = "nobody knows who listens there";
  return peer ? peer->pid : -1;
}

pid_t ProcessOf(const std::string& path, std::string* error) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    *error = strerror(errno);
    return -1;
  }
  if (S_ISSOCK(status.st_mode)) return ListenerAt(path, error);
  if (!S_ISREG(status.st_mode)) {  // to open a pipe may wait for ever
    *error = "it is no unix socket, and no file";
    return -1;
  }
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  pid_t pid = -1;
  if (absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &pid) && pid > 0) return pid;
  *error = "it is no unix socket, and has no process id";
  return -1;
}

}  // namespace

TakeOverChannel::~TakeOverChannel() { close(fd_); }

bool TakeOverChannel::Send(std::string_view text, int handed) {
  iovec part = {.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (handed >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &handed, sizeof(int));
  }
  // Whoever takes nothing for so long has stopped.
  constexpr int kPatienceMillis = 2'000;
  while (sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    pollfd ready = {.fd = fd_, .events = POLLOUT, .revents = 0};
    if (errno != EAGAIN || poll(&ready, 1, kPatienceMillis) == 0) return false;
  }
  return true;
}

auto TakeOverChannel::Receive(const std::function<bool()>& gives_up) -> std::optional<Packet> {
  Packet packet;
  packet.text.resize(kPacketMax);
  while (true) {
    pollfd ready = {.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, kPollMillis) <= 0) {
      if (gives_up()) return std::nullopt;
      continue;
    }
    iovec part = {.iov_base = packet.text.data(), .iov_len = packet.text.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t size = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    // ECONNRESET comes once, if the other end has closed without reading all; what that one has
    // said before comes behind it.
    if (size < 0 && (errno == EINTR || errno == EAGAIN || errno == ECONNRESET)) continue;
    if (size <= 0) return std::nullopt;
    packet.text.resize(static_cast<size_t>(size));
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      memcpy(&packet.handed, CMSG_DATA(header), sizeof(int));
    }
    return packet;
  }
}

void TakeOverChannel::ShutDown() { shutdown(fd_, SHUT_RDWR); }

std::string DigestOf(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) absl::StrAppend(&all, line.size(), ":", line);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(), digest);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), sizeof(digest)});
}

std::optional<PeerProcess> PeerOf(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return {};
  return PeerProcess{.pid = peer.pid, .uid = peer.uid};
}

int ListenForTakeOver(std::string* error) {
  constexpr int kBacklog = 4;
  const int fd = NewSocket(SOCK_SEQPACKET | SOCK_NONBLOCK, error);
  if (fd < 0) return -1;
  const Address address = AddressOf(getpid());
  if (bind(fd, Cast(address), address.size) != 0 || listen(fd, kBacklog) != 0) {
    return Fail(fd, strerror(errno), error);
  }
  return fd;
}

int ConnectForTakeOver(const std::string& path, std::string* error) {
  const pid_t pid = ProcessOf(path, error);
  if (pid < 0) {
    *error = fmt::format("{}: {}", path, *error);
    return -1;
  }
  const int fd = NewSocket(SOCK_SEQPACKET, error);
  if (fd < 0) return -1;
  const Address address = AddressOf(pid);
  if (connect(fd, Cast(address), address.size) != 0) {
    return Fail(fd, fmt::format("process {} cannot be reached: {}", pid, strerror(errno)), error);
  }
  // Somebody else may have taken the name.
  const auto peer = PeerOf(fd);
  if (!peer || peer->pid != pid || (peer->uid != geteuid() && geteuid() != 0)) {
    return Fail(fd, fmt::format("process {} is not this user's", pid), error);
  }
  return fd;
}

}  // namespace dfly
