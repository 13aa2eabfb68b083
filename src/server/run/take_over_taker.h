// SPDX-License-Identifier: Apache-2.0
// --take_over: the new process (take_over_channel.h). It listens nowhere and reads no file of `dir`
// until the old process has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/clients/handed_socket.h"
#include "server/options/options.h"
#include "server/run/take_over_channel.h"

namespace dfly {

class Server;

// Owner: the main thread, which calls all of it, and which it blocks.
class TakeOverTaker {
 public:
  // `is_to_end`: somebody wants this process to end. It is asked now and then.
  TakeOverTaker(const ServerOptions& options, std::function<bool()> is_to_end);
  ~TakeOverTaker();

  // Finds the other process. Before the server is started. An error, or nothing.
  [[nodiscard]] std::string Connect();
  // Until the other process is to end: now this one is the server, and accepts clients. After an
  // error the other one goes on as before.
  [[nodiscard]] std::string Run(Server* server);
  // What comes behind that: this process has the log of the other one, which then ends, once
  // `tell_manager` has returned: the service manager knows this process.
  void Finish(Server* server, const std::function<void()>& tell_manager);

 private:
  bool gives_up() const;
  // None: error_.
  std::optional<TakeOverChannel::Packet> Receive();
  // Until "told".
  bool ReceiveFacts();
  void TellDifferences(Server* server) const;
  bool AwaitLink(Server* server);
  // Until "synced".
  bool ReceiveListeners();

  const ServerOptions& options_;
  const std::function<bool()> is_to_end_;
  uint64_t end_ns_ = 0;  // monotonic
  std::unique_ptr<TakeOverChannel> channel_;
  std::string error_;
  int stream_ = -1;
  std::map<std::string, std::string> settings_;  // digests of the values
  std::string users_;                            // a digest
  std::vector<HandedSocket> listeners_;
  // What "synced" says.
  uint64_t offset_ = 0;
  uint64_t epoch_ = 0;
  uint64_t unsaved_changes_ = 0;
  int64_t last_save_s_ = 0;
  std::string log_name_;  // empty: it has no log
};

}  // namespace dfly
