// SPDX-License-Identifier: Apache-2.0
// What two processes of one machine say to each other when one takes over from the other: packets
// on a unix socket whose name says the process. The name is in the abstract name space, so there is
// no file to protect or to remove. Who may take over is asked of the kernel (SO_PEERCRED).
//
// In the order of time, O is the old process and N the new one:
//
//   N: take-over 1          O: refused <why>
//                           O: stream                       with a socket: PSYNC goes there
//                           O: setting <name> <value>       each; a long one is
//                           O: digest <name> <digest>
//                           O: users <digest>               of ACL LIST
//                           O: told
//   N: ready                O: refused <why>                N has the data, and follows
//                           O: listener <name>              each, with its socket
//                           O: synced <offset> <epoch> <changes> <last save> <log>
//   N: taken                from here on N is the server, and O never answers a client again
//                           O: released                     its log is closed; then its clients are
//   N: done                 O ends                          N has the log
//
// `taken` is the point of no return. The kernel decides whether O has got it: O shuts the socket
// down before it gives up, and reads what has come before that. Then N cannot say it any more.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

// One end. Owner: a plain thread, on which it blocks.
class TakeOverChannel {
 public:
  // Takes over `fd`.
  explicit TakeOverChannel(int fd) : fd_(fd) {}
  ~TakeOverChannel();
  TakeOverChannel(const TakeOverChannel&) = delete;
  TakeOverChannel& operator=(const TakeOverChannel&) = delete;

  // With a copy of the descriptor `handed`, if that is not -1. False: the other end is gone.
  bool Send(std::string_view text, int handed = -1);

  struct Packet {
    std::string text;
    int handed = -1;  // who receives it closes it
  };
  // None: the other end is gone, or `gives_up` has said so; it is asked now and then.
  std::optional<Packet> Receive(const std::function<bool()>& gives_up);
  // The other end cannot send any more. What it has sent before is still received.
  void ShutDown();

 private:
  const int fd_;
};

// A longer text does not fit into a packet, whatever the socket's buffers are.
constexpr size_t kSettingTextMax = 64 * 1024;

// The same in both processes, if the lines are.
std::string DigestOf(const std::vector<std::string>& lines);

struct PeerProcess {
  pid_t pid = 0;
  uid_t uid = 0;
};
// Of a unix socket's other end. None: it is no such socket.
std::optional<PeerProcess> PeerOf(int fd);

// A listening, non-blocking socket under this process' name. -1: `*error`.
int ListenForTakeOver(std::string* error);
// A socket connected to the process that has the pid file, or listens at the unix socket, `path`.
// It is one of this user's, or this user is root. -1: `*error`.
int ConnectForTakeOver(const std::string& path, std::string* error);

}  // namespace dfly
