// SPDX-License-Identifier: Apache-2.0
// For tests on schedules from a seed: a client whose requests are decided as it goes, each with a
// check of its reply.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "facade/replies/resp_reader.h"
#include "server/schedules/reply_check.h"
#include "server/schedules/schedule_harness.h"

namespace dfly {

// A check may add requests itself.
class CheckedClient {
 public:
  explicit CheckedClient(Server& server) {
    int fds[2];
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    fd_ = fds[0];
    server.OnAccept(fds[1]);
  }
  ~CheckedClient() { Leave(); }
  CheckedClient(const CheckedClient&) = delete;
  CheckedClient& operator=(const CheckedClient&) = delete;

  void Add(const std::vector<std::string>& args, ReplyCheck check, size_t takes_most = 0) {
    unsent_ += Request(args);
    std::string text;
    for (const std::string& arg : args) text += arg + ' ';
    asked_.push_back({std::move(text), std::move(check), takes_most});
  }
  // Sends and reads some. Sets `moved` if anything came or went.
  std::string Step(helio::Random& random, bool* moved, std::string* log) {
    if (fd_ == -1) return "";
    if (!unsent_.empty()) {
      const size_t most = random.OneIn(2) ? unsent_.size() : 40;
      const size_t bytes = 1 + random.Uniform(std::min(most, unsent_.size()));
      const ssize_t sent = send(fd_, unsent_.data(), bytes, MSG_NOSIGNAL);
      if (sent > 0) unsent_.erase(0, static_cast<size_t>(sent));
      *moved |= sent > 0;
    }
    char buffer[4096];
    const ssize_t got = read(fd_, buffer, sizeof(buffer));
    if (got > 0) got_.append(buffer, static_cast<size_t>(got));
    *moved |= got > 0;
    if (got == 0 && missing() > 0) return "closed before " + asked_[next_].text;
    RespValue reply;
    while (const size_t bytes = ReadRespValue(got_, &reply)) {
      got_.erase(0, bytes);
      if (next_ == asked_.size()) return "more replies than requests: " + reply.ToString();
      const Asked asked = std::move(asked_[next_++]);  // the check may add more
      if (log != nullptr) *log += name + ": " + asked.text + "-> " + reply.ToString() + '\n';
      const std::string wrong = asked.check(reply);
      if (!wrong.empty()) return asked.text + "-> " + reply.ToString() + ": " + wrong;
    }
    return "";
  }
  // What it may have taken with it.
  size_t Leave() {
    if (fd_ == -1) return 0;
    close(fd_);
    fd_ = -1;
    unsent_.clear();
    size_t most = 0;
    for (size_t i = next_; i < asked_.size(); ++i) most += asked_[i].takes_most;
    next_ = asked_.size();
    return most;
  }

  size_t missing() const { return asked_.size() - next_; }
  bool has_unsent() const { return !unsent_.empty(); }
  // What it waits for.
  const std::string& asks() const { return asked_[next_].text; }

  std::string name;
  std::string id;
  bool leaves = false;

 private:
  struct Asked {
    std::string text;
    ReplyCheck check;
    size_t takes_most;
  };
  int fd_;
  std::string unsent_;
  std::string got_;
  std::vector<Asked> asked_;
  size_t next_ = 0;
};

}  // namespace dfly
