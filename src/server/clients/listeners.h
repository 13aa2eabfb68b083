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

 private:
  struct Open {
    Place place;
    std::unique_ptr<helio::Listener> listener;
  };

  // What of `places` is not open. An error leaves nothing open of it.
  std::string OpenMissing(const std::vector<Place>& places);
  int Listen(const Place& place, std::string* error);
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
};

}  // namespace dfly
