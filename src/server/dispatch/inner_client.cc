// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/inner_client.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/keyspace/effects.h"
#include "helio/base/clock.h"
#include "helio/fibers/sync.h"
#include "helio/net/socket.h"
#include "server/clients/session.h"
#include "server/dispatch/worker.h"

namespace dfly {

namespace {

// The end of the pair that is not the connection's. All of it happens on one thread, so nothing is
// guarded by a lock; CondVar wants one.
class OtherEnd final : public RunningInnerCall, private helio::Socket::Handler {
 public:
  OtherEnd(helio::Proactor* proactor, int fd, size_t replies_wanted, size_t reply_bytes_max)
      : socket_(helio::Socket::Adopt(proactor, fd, this)),
        wanted_(replies_wanted),
        reply_bytes_max_(reply_bytes_max) {
    socket_->StartRecv();
  }
  ~OtherEnd() = default;

  // Suspends until the last reply is here, or something is wrong.
  InnerReplies Exchange(std::string_view commands, uint64_t deadline_ns) {
    switch (socket_->Send(commands, helio::Socket::SendMode::kNow)) {
      case helio::Socket::SendResult::kDone:
        OnSent(0);
        break;
      case helio::Socket::SendResult::kPending:
        break;
      case helio::Socket::SendResult::kBroken:
        error_ = "ERR the connection inside of the server is broken";
    }
    std::unique_lock lock(mutex_);
    while (replies_.size() < wanted_ && error_.empty()) {
      if (!changed_.WaitUntil(lock, deadline_ns)) error_ = "ERR no reply in time";
    }
    return {.replies = std::move(replies_), .error = std::move(error_)};
  }

  void EndSide() override {
    ends_side_ = true;
    if (is_sent_) shutdown(socket_->fd(), SHUT_WR);
  }

  // Suspends until nothing uses this any more.
  void Close() {
    socket_->Close();
    std::unique_lock lock(mutex_);
    changed_.Wait(lock, [this] { return is_closed_; });
  }

 private:
  void OnRecv(std::string_view data) override {
    if (!error_.empty() || replies_.size() == wanted_) return;
    input_.append(data);
    while (replies_.size() < wanted_) {
      const auto rest = std::string_view(input_).substr(parsed_);
      const RespReader::Status status = reader_.Parse(rest);
      if (status == RespReader::Status::kNeedMore) break;
      if (status == RespReader::Status::kError) {
        error_ = "ERR a reply of the server cannot be read";
        break;
      }
      if (parsed_ + reader_.consumed() > reply_bytes_max_) break;
      RespValue value;
      if (ReadRespValue(rest, &value) == 0) {
        error_ = "ERR a reply is nested too deeply";
        break;
      }
      parsed_ += reader_.consumed();
      // Messages to subscribers come when they come.
      if (value.kind != ReplyKind::kPush) replies_.push_back(std::move(value));
    }
    const bool is_over = input_.size() > reply_bytes_max_ && replies_.size() < wanted_;
    if (is_over && error_.empty()) {
      error_ = fmt::format("ERR replies of more than {} bytes", reply_bytes_max_);
    }
    if (!error_.empty() || replies_.size() == wanted_) changed_.NotifyAll();
  }
  void OnRecvEnd(int) override {
    if (replies_.size() < wanted_ && error_.empty()) error_ = "ERR the client was closed";
    changed_.NotifyAll();
  }
  void OnSent(int) override {  // when it is broken, OnRecvEnd tells, too
    is_sent_ = true;
    if (ends_side_) EndSide();
  }
  void OnClosed() override {
    is_closed_ = true;
    changed_.NotifyAll();
  }

  std::unique_ptr<helio::Socket> socket_;
  const size_t wanted_;
  const size_t reply_bytes_max_;
  RespReader reader_;
  std::string input_;
  size_t parsed_ = 0;  // of it
  std::vector<RespValue> replies_;
  std::string error_;
  bool is_sent_ = false;
  bool ends_side_ = false;
  bool is_closed_ = false;
  helio::Mutex mutex_;
  helio::CondVar changed_;
};

std::string InResp(std::span<const std::vector<std::string>> commands) {
  std::string text;
  for (const std::vector<std::string>& command : commands) {
    text += CommandText(std::vector<std::string_view>(command.begin(), command.end()));
  }
  return text;
}

}  // namespace

InnerReplies RunAsClient(Session& on_behalf, const InnerCall& call) {
  if (call.commands.empty()) return {};
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
    return {.replies = {},
            .error = fmt::format("ERR no connection inside of the server: {}", strerror(errno))};
  }
  Worker& worker = Worker::Here();
  worker.AddInnerConnection(fds[0], on_behalf, call.user);
  OtherEnd other_end(&worker.state().proactor, fds[1], call.commands.size(), call.reply_bytes_max);
  const std::string text = InResp(call.commands);
  on_behalf.inner_call = &other_end;
  if (on_behalf.connection_closed || on_behalf.connection.closing() ||
      on_behalf.connection.recv_ended()) {
    other_end.EndSide();
  }
  InnerReplies result = other_end.Exchange(text, call.deadline_ns);
  on_behalf.inner_call = nullptr;
  other_end.Close();
  return result;
}

}  // namespace dfly
