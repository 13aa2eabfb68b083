// SPDX-License-Identifier: Apache-2.0
// For tests on schedules from a seed: a client whose requests are decided beforehand, each with a
// check of its reply.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "facade/replies/resp_reader.h"
#include "server/schedules/reply_check.h"
#include "server/schedules/schedule_harness.h"

namespace dfly {

class SharedClient : public ScheduledClient {
 public:
  void Add(const std::vector<std::string>& args, ReplyCheck check) {
    unsent += Request(args);
    std::string text;
    for (const std::string& arg : args) text += arg + ' ';
    checks_.push_back({std::move(text), std::move(check)});
  }
  std::string Check() override {
    RespValue reply;
    while (next_ < checks_.size()) {
      const size_t bytes = ReadRespValue(std::string_view(got).substr(read_), &reply);
      if (bytes == 0) return "";
      read_ += bytes;
      const auto& [request, check] = checks_[next_++];
      if (log != nullptr) *log += request + reply.ToString() + '\n';
      const std::string wrong = check(reply);
      if (!wrong.empty()) return request + "-> " + reply.ToString() + ": " + wrong;
    }
    return read_ == got.size() ? "" : "more replies than requests";
  }
  std::string* log = nullptr;  // gets what was asked and answered, in the order of time

  size_t missing() const override { return checks_.size() - next_; }
  size_t total() const override { return checks_.size(); }

 private:
  std::vector<std::pair<std::string, ReplyCheck>> checks_;
  size_t next_ = 0;
  size_t read_ = 0;  // bytes of `got`
};

}  // namespace dfly
