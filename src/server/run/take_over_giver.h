// SPDX-License-Identifier: Apache-2.0
// The old process of a take-over (take_over_channel.h): lets another process of the same user, or
// one of root, have the data and the sockets. Until that one has said that it has taken over,
// whatever goes wrong means that this process goes on as before.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "helio/net/listener.h"
#include "server/run/take_over_channel.h"

namespace dfly {

class Server;

// Owner:    the main thread, which calls all of it but is_taken (any).
// Suspends: never. Close and Release block.
class TakeOverGiver {
 public:
  // Other processes can ask from now on, and are answered after Open; if they cannot, the log says
  // so. `on_taken` is called, on another thread, when this process is to end.
  TakeOverGiver(Server* server, std::function<void()> on_taken);
  ~TakeOverGiver();
  TakeOverGiver(const TakeOverGiver&) = delete;
  TakeOverGiver& operator=(const TakeOverGiver&) = delete;

  // After Server::Start. They are answered one at a time.
  void Open();
  // Nobody can ask any more; what is under way fails, if it is not taken. Before Server::Stop.
  void Close();
  // Another process is the server now. This one ends, without a snapshot.
  bool is_taken() const { return is_taken_; }
  // After Server::Stop. Waits until the other process has the log, and has told the service manager
  // who it is, for some seconds at most.
  void Release();

 private:
  // On proactor 0.
  void OnAsked(int fd);
  // The rest is on thread_.
  void Give(int fd);
  // Why it is not taken, or nothing.
  std::string Talk();
  bool TellFacts(int stream);
  // Of all that CONFIG SET and ACL SETUSER can change.
  std::string Fingerprint();
  bool Expect(std::string_view text, uint64_t patience_ns);

  Server& server_;
  const std::function<void()> on_taken_;
  int fd_ = -1;                                // until Open
  std::unique_ptr<helio::Listener> listener_;  // on proactor 0
  std::atomic<bool> is_busy_{false};           // thread_ is at it
  std::atomic<bool> closes_{false};
  std::atomic<bool> is_taken_{false};
  std::thread thread_;  // made on proactor 0, when is_busy_ was not set
  std::unique_ptr<TakeOverChannel> channel_;
  uint64_t client_id_ = 0;  // of the connection by which the other one follows
};

}  // namespace dfly
