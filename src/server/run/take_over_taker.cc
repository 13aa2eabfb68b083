// SPDX-License-Identifier: Apache-2.0
#include "server/run/take_over_taker.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/sync.h"
#include "server/run/server.h"

namespace dfly {

namespace {

constexpr uint64_t kTurnNanos = 1'000'000;
// The old process ends itself after shutdown-timeout; its locks go with it.
constexpr uint64_t kReleaseNanos = 60'000'000'000;
constexpr uint64_t kLogRetryNanos = 1'000'000'000;

void SleepFor(uint64_t nanos) { helio::Waiter().WaitUntil(helio::MonotonicNanos() + nanos); }

// "name rest" to both.
std::pair<std::string, std::string> SplitName(std::string_view text) {
  const size_t end = std::min(text.find(' '), text.size());
  return {std::string(text.substr(0, end)),
          std::string(text.substr(std::min(end + 1, text.size())))};
}

}  // namespace

TakeOverTaker::TakeOverTaker(const ServerOptions& options, std::function<bool()> is_to_end)
    : options_(options),
      is_to_end_(std::move(is_to_end)),
      end_ns_(helio::MonotonicNanos() + options.take_over_timeout_s * helio::kNanosPerSecond) {}

TakeOverTaker::~TakeOverTaker() {
  if (stream_ >= 0) close(stream_);
  for (const HandedSocket& listener : listeners_) close(listener.fd);
}

bool TakeOverTaker::gives_up() const { return is_to_end_() || helio::MonotonicNanos() >= end_ns_; }

std::optional<TakeOverChannel::Packet> TakeOverTaker::Receive() {
  auto packet = channel_->Receive([this] { return gives_up(); });
  if (!packet && is_to_end_()) {
    error_ = "it was told to end";
  } else if (!packet) {
    error_ = gives_up() ? "it is not done within take_over_timeout_s" : "the old process has ended";
  } else if (packet->text.starts_with("refused ")) {
    error_ = packet->text.substr(packet->text.find(' ') + 1);
    return std::nullopt;
  }
  return packet;
}

std::string TakeOverTaker::Connect() {
  if (!options_.replication.primary.empty()) {
    return "replicaof is set: a replica can be restarted without an outage";
  }
  std::string error;
  const int fd = ConnectForTakeOver(options_.take_over, &error);
  if (fd < 0) return error;
  channel_ = std::make_unique<TakeOverChannel>(fd);
  (void)channel_->Send("take-over 1");  // if it is gone it may have said why
  return ReceiveFacts() ? "" : error_;
}

bool TakeOverTaker::ReceiveFacts() {
  while (auto packet = Receive()) {
    const auto [word, rest] = SplitName(packet->text);
    if (word == "told") return true;
    if (word == "stream") stream_ = packet->handed;
    const auto [name, value] = SplitName(rest);
    if (word == "setting") settings_[name] = DigestOf({value});
    if (word == "digest") settings_[name] = value;
    if (word == "users") users_ = rest;
  }
  return false;
}

// As at a restart: what only CONFIG SET and ACL SETUSER have changed is not in the files.
void TakeOverTaker::TellDifferences(Server* server) const {
  constexpr std::string_view kAll = "*";
  std::vector<std::string> names;
  for (const auto& [name, value] : server->config().Get({&kAll, 1})) {
    const auto it = settings_.find(name);
    if (it != settings_.end() && it->second != DigestOf({value})) names.push_back(name);
  }
  LOG_IF(WARNING, !names.empty())
      << "settings that are not as in the old process, which may have got them by CONFIG SET: "
      << absl::StrJoin(names, ", ");
  LOG_IF(WARNING, DigestOf(server->DescribeUsers()) != users_)
      << "the users are not as in the old process, which may have got them by ACL SETUSER";
}

bool TakeOverTaker::AwaitLink(Server* server) {
  while (!gives_up()) {
    std::string error;
    if (server->HasLink(&error)) return true;
    if (!error.empty()) {
      error_ = error;
      return false;
    }
    SleepFor(kTurnNanos);
  }
  error_ = is_to_end_() ? "it was told to end" : "it is not done within take_over_timeout_s";
  return false;
}

bool TakeOverTaker::ReceiveListeners() {
  while (auto packet = Receive()) {
    const auto [word, rest] = SplitName(packet->text);
    if (word == "listener" && packet->handed >= 0) listeners_.push_back({rest, packet->handed});
    if (word != "synced") continue;
    const std::vector<std::string> parts = absl::StrSplit(rest, absl::MaxSplits(' ', 4));
    if (parts.size() == 5 && absl::SimpleAtoi(parts[0], &offset_) &&
        absl::SimpleAtoi(parts[1], &epoch_) && absl::SimpleAtoi(parts[2], &unsaved_changes_) &&
        absl::SimpleAtoi(parts[3], &last_save_s_)) {
      log_name_ = parts[4];
      return true;
    }
    error_ = "it does not speak this version's language";
    return false;
  }
  return false;
}

std::string TakeOverTaker::Run(Server* server) {
  TellDifferences(server);
  server->FollowProcess(std::exchange(stream_, -1));
  if (!AwaitLink(server)) return error_;
  LOG(INFO) << "the data is here, takes over";
  (void)channel_->Send("ready");
  if (!ReceiveListeners()) return error_;
  std::string error = server->PrepareTakeOver(std::exchange(listeners_, {}), offset_, epoch_);
  if (!error.empty()) return error;
  // The point of no return.
  if (!channel_->Send("taken")) return "the old process has given up, and goes on";
  server->TakeOver(unsaved_changes_, last_save_s_);
  return "";
}

void TakeOverTaker::Finish(Server* server, const std::function<void()>& tell_manager) {
  end_ns_ = helio::MonotonicNanos() + kReleaseNanos;
  const auto packet = channel_->Receive([this] { return gives_up(); });
  const bool is_clean = packet && packet->text == "released";
  LOG_IF(WARNING, !is_clean) << "the old process has ended without a word";
  const bool has_log = options_.log.is_on;
  LOG_IF(WARNING, !has_log && !log_name_.empty())
      << "the old process had an append-only log, and this one has none";
  std::string error;
  if (has_log) error = server->TakeOverLog(log_name_, is_clean);
  tell_manager();
  (void)channel_->Send("done");
  channel_ = nullptr;
  while (!error.empty()) {
    LOG(ERROR) << "clients that write wait for the append-only log: " << helio::LogText(error);
    for (uint64_t waited = 0; waited < kLogRetryNanos; waited += kTurnNanos) {
      if (is_to_end_()) return;
      SleepFor(kTurnNanos);
    }
    error = server->TakeOverLog(log_name_, is_clean);
  }
}

}  // namespace dfly
