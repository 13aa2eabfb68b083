// SPDX-License-Identifier: Apache-2.0
#include "server/run/take_over_giver.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "server/clients/handed_socket.h"
#include "server/run/server.h"

namespace dfly {

namespace {

constexpr std::string_view kHello = "take-over 1";
constexpr uint64_t kHelloNanos = 10'000'000'000;
constexpr uint64_t kDoneNanos = 5'000'000'000;

}  // namespace

TakeOverGiver::TakeOverGiver(Server* server, std::function<void()> on_taken)
    : server_(*server), on_taken_(std::move(on_taken)) {
  std::string error;
  fd_ = ListenForTakeOver(&error);
  LOG_IF(WARNING, fd_ < 0) << "no other process can take over from this one: " << error;
}

TakeOverGiver::~TakeOverGiver() { Close(); }

void TakeOverGiver::Open() {
  if (fd_ < 0) return;
  helio::Proactor* const proactor = server_.state().pool.at(0);
  proactor->Await([&] {
    listener_ = helio::Listener::Open(proactor, std::exchange(fd_, -1),
                                      [this](int accepted) { OnAsked(accepted); });
  });
}

void TakeOverGiver::Close() {
  closes_ = true;
  if (fd_ >= 0) close(std::exchange(fd_, -1));
  if (listener_ != nullptr) {
    server_.state().pool.at(0)->AwaitFiber("close take over", [this] { listener_->Close(); });
    listener_ = nullptr;
  }
  if (thread_.joinable()) thread_.join();
}

void TakeOverGiver::OnAsked(int fd) {
  const auto peer = PeerOf(fd);
  if (!peer || (peer->uid != geteuid() && peer->uid != 0)) {
    LOG(WARNING) << "a process of user " << (peer ? static_cast<int64_t>(peer->uid) : -1)
                 << " may not take over";
    close(fd);
    return;
  }
  if (is_taken_ || is_busy_.exchange(true)) {
    constexpr std::string_view kBusy = "refused another process is about to take over";
    [[maybe_unused]] const ssize_t sent =
        send(fd, kBusy.data(), kBusy.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
    return;
  }
  if (thread_.joinable()) thread_.join();  // its last act was to reset is_busy_
  LOG(INFO) << "process " << peer->pid << " wants to take over";
  thread_ = std::thread([this, fd] { Give(fd); });
}

void TakeOverGiver::Give(int fd) {
  channel_ = std::make_unique<TakeOverChannel>(fd);
  const std::string why = Talk();
  if (is_taken_) return;  // and is_busy_ stays
  LOG(WARNING) << "the other process does not take over: " << helio::LogText(why);
  (void)channel_->Send("refused " + why);
  channel_ = nullptr;
  is_busy_ = false;
}

bool TakeOverGiver::Expect(std::string_view text, uint64_t patience_ns) {
  const uint64_t end_ns = helio::MonotonicNanos() + patience_ns;
  const auto packet =
      channel_->Receive([&] { return closes_ || helio::MonotonicNanos() >= end_ns; });
  if (packet && packet->handed >= 0) close(packet->handed);
  return packet && packet->text == text;
}

std::string TakeOverGiver::Talk() {
  constexpr uint64_t kForEver = UINT64_MAX / 2;
  if (!Expect(kHello, kHelloNanos)) return "it does not speak this version's language";
  if (std::string why = server_.WhyNotTakeOver(); !why.empty()) return why;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    return "there are no descriptors left";
  }
  client_id_ = server_.AddProcess(ends[0]);
  const std::string told = Fingerprint();
  const bool is_told = TellFacts(ends[1]);
  close(ends[1]);
  if (!is_told) return "it has ended";
  // Its copy takes as long as it takes; it has a limit of its own.
  if (!Expect("ready", kForEver)) return closes_ ? "this process ends" : "it has ended";
  const uint64_t end_ns =
      helio::MonotonicNanos() + server_.state().options.take_over_pause_ms * 1'000'000;
  const auto left_ns = [end_ns] { return end_ns - std::min(end_ns, helio::MonotonicNanos()); };
  std::vector<HandedSocket> listeners;
  std::string text;
  if (std::string why = server_.StandStill(client_id_, left_ns(), &listeners, &text); !why.empty())
    return why;
  if (Fingerprint() != told) {
    server_.GoOn();
    return "settings or users were changed during the take-over: try again";
  }
  bool is_sent = true;
  for (const HandedSocket& listener : listeners) {
    is_sent = is_sent && channel_->Send("listener " + listener.name, listener.fd);
  }
  is_sent = is_sent && channel_->Send("synced " + text);
  is_taken_ = is_sent && Expect("taken", left_ns());
  if (!is_taken_) {
    // From here on it cannot say it any more, but may have done so before.
    channel_->ShutDown();
    is_taken_ = is_sent && Expect("taken", 0);
  }
  if (is_taken_) {
    LOG(INFO) << "the other process has taken over, this one ends";
    on_taken_();  // its patience begins
    server_.GiveAway();
    (void)channel_->Send("released");
    server_.CloseClients();
    return "";
  }
  server_.GoOn();
  return is_sent ? "it has ended, or is not ready in time" : "it has ended";
}

std::string TakeOverGiver::Fingerprint() {
  constexpr std::string_view kAll = "*";
  std::vector<std::string> lines = server_.DescribeUsers();
  for (const auto& [name, value] : server_.config().Get({&kAll, 1})) {
    lines.push_back(fmt::format("{} {}", name, value));
  }
  return DigestOf(lines);
}

bool TakeOverGiver::TellFacts(int stream) {
  if (!channel_->Send("stream", stream)) return false;
  constexpr std::string_view kAll = "*";
  for (const auto& [name, value] : server_.config().Get({&kAll, 1})) {
    const bool is_short = value.size() <= kSettingTextMax;
    const std::string text = is_short ? fmt::format("setting {} {}", name, value)
                                      : fmt::format("digest {} {}", name, DigestOf({value}));
    if (!channel_->Send(text)) return false;
  }
  // Not themselves: one of them may be longer than a packet.
  if (!channel_->Send("users " + DigestOf(server_.DescribeUsers()))) return false;
  return channel_->Send("told");
}

void TakeOverGiver::Release() {
  if (!is_taken_) return;
  closes_ = false;
  (void)Expect("done", kDoneNanos);
}

}  // namespace dfly
