// SPDX-License-Identifier: Apache-2.0
// The sockets that the server listens on, and their change while it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "helio/fibers/sync.h"
#include "helio/net/listener.h"
#include "server/base/port_kind.h"
#include "server/base/waits.h"
#include "server/clients/handed_socket.h"

namespace dfly {

// Owner: Server. All of it on one proactor; functions on its fibers, and they suspend.
class Listeners {
 public:
  // An address, and what connections there are.
  struct Place {
    std::string address;  // as --bind has it: with a - before it, it may be missing
    uint16_t port = 0;
    PortKind kind;
    bool operator==(const Place&) const = default;
  };
  // A brief that takes over a connected, non-blocking descriptor.
  using AcceptFn = std::function<void(int fd, PortKind kind)>;

  Listeners(helio::Proactor* proactor, int backlog, AcceptFn on_accept);
  ~Listeners();
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  // Listens at `places` and at no others. Where it does already, nothing is closed; the others are
  // closed first, as one address may be a part of another (* and 127.0.0.1). Empty, or why it
  // cannot: then it listens where it did before.
  [[nodiscard]] std::string Change(const std::vector<Place>& places);
  // One more, which stays. `mode` as helio::ListenUnix.
  [[nodiscard]] std::string OpenUnix(const std::string& path, uint32_t mode);
  // What there is, a line for each port, as INFO has it: "name=tcp,bind=127.0.0.1,port=6379".
  std::vector<std::string> Describe() const;
  // All of them, for good. Before the destruction.
  void Close();

  // --- One process takes over from another ---

  // Accepts nobody until GoOn. Who connects meanwhile waits in the kernel, for this process or the
  // other one. Descriptors of the sockets, which stay this object's; none: there are too few, and
  // all goes on.
  std::vector<HandedSocket> Rest();
  void GoOn();
  // From here on they are the other process': Close removes no file.
  void GiveAway() { is_given_away_ = true; }
  // Makes sure of `places`, and of a unix socket if the path is not empty: takes what was handed,
  // and listens where nothing was; what else was handed is closed. Change and OpenUnix of the same
  // then accept there. An error, or nothing.
  [[nodiscard]] std::string Prepare(const std::vector<Place>& places, const std::string& unix_path,
                                    uint32_t unix_mode, std::vector<HandedSocket> handed);

 private:
  struct Open {
    Place place;
    std::unique_ptr<helio::Listener> listener;
  };

  // What of `places` is not open. An error leaves nothing open of it.
  std::string OpenMissing(const std::vector<Place>& places);
  int Listen(const Place& place, std::string* error);
  void OpenAt(const Place& place, int fd);
  void OpenUnixAt(int fd);
  // Of what was handed, or prepared. -1: there is none.
  int TakeHanded(const std::string& name);
  void CloseAllBut(const std::vector<Place>& places);
  bool IsOpen(const Place& place) const;

  helio::Proactor* const proactor_;
  helio::HoldableMutex mutex_{kListenersTurn};  // for one after another, though they suspend
  bool is_closed_ = false;
  const int backlog_;
  const AcceptFn on_accept_;
  std::vector<Open> open_;  // of TCP
  std::unique_ptr<helio::Listener> unix_;
  std::string unix_path_;
  std::vector<HandedSocket> handed_;  // that nobody accepts at
  bool is_resting_ = false;  // and then these are its own: open_ has places without listeners
  bool is_given_away_ = false;
};

}  // namespace dfly
