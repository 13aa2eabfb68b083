// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "helio/base/clock.h"

namespace dfly::bench {

namespace {

KeySourceOptions KeysOf(const LoadOptions& options, uint32_t index) {
  KeySourceOptions keys = options.keys;
  keys.sequence_start = index;
  keys.sequence_step = static_cast<uint64_t>(options.threads) * options.connections;
  return keys;
}

// Distinct streams of random numbers for each connection and purpose.
uint64_t SeedOf(const LoadOptions& options, uint32_t index, uint32_t purpose) {
  uint64_t state = options.seed ^ (static_cast<uint64_t>(index) << 20) ^ purpose;
  return helio::SplitMix64(&state);
}

}  // namespace

Client::Client(LoadThread* thread, uint32_t index)
    : thread_(thread),
      index_(index),
      keys_(KeysOf(thread->options_, index), SeedOf(thread->options_, index, 1)),
      random_(SeedOf(thread->options_, index, 2)),
      timer_([](helio::Timer* timer) { static_cast<SendTimer*>(timer)->client->Pump(); }),
      target_(thread->source_.Total()),
      period_ns_(thread->options_.qps > 0 ? 1e9 / thread->options_.qps : 0),
      phase_(random_.NextDouble()) {
  timer_.client = this;
}

void Client::Open(int fd) {
  const auto& tls = thread_->options_.tls;
  socket_ = helio::Socket::Adopt(helio::Proactor::Current(), fd, this,
                                 tls == nullptr ? nullptr : tls->NewSession());
  socket_->StartRecv();
  const std::string& password = thread_->options_.password;
  if (password.empty() && tls == nullptr) {
    BecomeReady();
    return;
  }
  if (password.empty()) {  // its reply tells that the handshake is over
    output_.Append("PING\r\n");
    SendOutput();
    return;
  }
  output_.Append(fmt::format("*2\r\n$4\r\nAUTH\r\n${}\r\n{}\r\n", password.size(), password));
  SendOutput();
}

void Client::BecomeReady() {
  state_ = State::kReady;
  if (thread_->signals_.opening.fetch_sub(1) == 1) thread_->signals_.changed.release();
}

void Client::Begin(uint64_t begin_ns) {
  if (state_ != State::kReady) return;
  state_ = State::kRunning;
  begin_ns_ = begin_ns + static_cast<uint64_t>(phase_ * period_ns_);
  Pump();
}

void Client::Stop() {
  if (state_ >= State::kClosing) return;
  if (state_ != State::kRunning || sent_ == received_) {
    Close();
    return;
  }
  target_ = sent_;
}

void Client::Abort(std::string_view why) {
  if (state_ < State::kClosing) FailConnection(why);
}

uint64_t Client::RequestsToSend() const {
  const uint64_t left = target_ - sent_;
  const uint64_t in_flight = sent_ - received_;
  if (period_ns_ == 0) return in_flight > 0 ? 0 : std::min(left, thread_->source_.Window(sent_));

  const uint64_t now_ns = helio::MonotonicNanos();
  if (now_ns < begin_ns_) return 0;
  // Requests 0 .. due-1 are due. The division may be a hair off what DueNs() says.
  uint64_t due = static_cast<uint64_t>(static_cast<double>(now_ns - begin_ns_) / period_ns_) + 1;
  while (due > 0 && DueNs(due - 1) > now_ns) --due;
  const uint64_t room = std::max<uint64_t>(thread_->options_.pipeline, kOpenLoopInFlightMax) -
                        std::min(in_flight, due);
  return std::min({left, due > sent_ ? due - sent_ : 0, room});
}

void Client::Pump() {
  if (state_ != State::kRunning || sending_) return;
  if (sent_ == target_) {
    if (received_ == sent_) Close();
    return;
  }
  const uint64_t count = RequestsToSend();
  if (count > 0) {
    output_.Clear();
    WriteRequests(count);
    if (period_ns_ == 0) begin_ns_ = helio::MonotonicNanos();
    SendOutput();
  }
  if (period_ns_ > 0 && sent_ < target_) {
    helio::Proactor::Current()->timers().Arm(&timer_, DueNs(sent_));
  }
}

void Client::WriteRequests(uint64_t count) {
  for (const uint64_t end = sent_ + count; sent_ < end; ++sent_) {
    thread_->source_.Write(index_, sent_, &keys_, &random_, &output_);
  }
}

void Client::SendOutput() {
  thread_->stats_.bytes_sent += output_.size();
  // kBroken: OnRecvEnd follows.
  sending_ =
      socket_->Send(output_.view(), thread_->send_mode_) == helio::Socket::SendResult::kPending;
}

void Client::OnSent(int error) {
  sending_ = false;
  if (error != 0) {
    FailConnection(strerror(error));
    return;
  }
  Pump();
}

void Client::OnRecv(std::string_view data) {
  LoadStats& stats = thread_->stats_;
  stats.bytes_received += data.size();
  const uint64_t now_ns = helio::MonotonicNanos();
  const bool buffered = !input_.empty();
  if (buffered) {
    input_.Append(data);
    data = input_.view();
  }
  const uint64_t received_before = received_;
  size_t used = 0;
  while (used < data.size() && state_ < State::kClosing) {
    const RespReader::Status status = reader_.Parse(data.substr(used));
    if (status == RespReader::Status::kNeedMore) break;
    if (status == RespReader::Status::kError) {
      ++stats.protocol_errors;
      FailConnection(fmt::format("protocol error: {}", reader_.error()));
      break;
    }
    used += reader_.consumed();
    if (reader_.kind() == ReplyKind::kPush) continue;
    if (state_ == State::kOpening) {
      OnAuthReply();
    } else {
      OnReply(now_ns);
    }
  }
  // A window is all preparation, or none of it is.
  if (period_ns_ == 0 && received_ > received_before &&
      !thread_->source_.IsPreparation(received_before)) {
    stats.latency_ns.Add(now_ns - begin_ns_, received_ - received_before);
  }
  if (buffered) {
    input_.Consume(used);
  } else {
    input_.Append(data.substr(used));
  }
  if (received_ > received_before) {
    thread_->last_reply_ns_ = now_ns;
    Pump();
  }
}

void Client::OnAuthReply() {
  if (reader_.kind() == ReplyKind::kError) {
    FailConnection(reader_.text());
  } else {
    BecomeReady();
  }
}

void Client::OnReply(uint64_t now_ns) {
  LoadStats& stats = thread_->stats_;
  if (received_ == sent_) {
    ++stats.protocol_errors;
    FailConnection("a reply that nobody asked for");
    return;
  }
  if (period_ns_ > 0) stats.latency_ns.Add(now_ns - std::min(now_ns, DueNs(received_)));
  if (thread_->options_.scenario != Scenario::kNone) {
    // A replay that is refused measures nothing; it ends with what the server said.
    if (reader_.kind() == ReplyKind::kError) {
      ++stats.error_replies;
      FailConnection(reader_.text());
      return;
    }
    if (!thread_->source_.IsPreparation(received_)) ++stats.jobs;
  }
  ++received_;
  ++stats.replies;
  switch (reader_.kind()) {
    case ReplyKind::kBulk:
      ++stats.hits;
      break;
    case ReplyKind::kNull:
      ++stats.misses;
      break;
    case ReplyKind::kError:
      ++stats.error_replies;
      stats.NoteError(reader_.text());
      break;
    default:
      break;
  }
}

void Client::OnRecvEnd(int error) {
  if (state_ >= State::kClosing) return;
  FailConnection(error == 0 ? "the server closed the connection" : strerror(error));
}

void Client::FailConnection(std::string_view why) {
  ++thread_->stats_.connection_errors;
  thread_->stats_.NoteError(why);
  Close();
}

void Client::Close() {
  DCHECK(state_ < State::kClosing);
  if (state_ == State::kOpening) BecomeReady();
  state_ = State::kClosing;
  thread_->stats_.unanswered += sent_ - received_;
  helio::Proactor::Current()->timers().Disarm(&timer_);
  socket_->Close();
}

void Client::OnClosed() {
  state_ = State::kClosed;
  output_.Release();
  input_.Release();
  if (thread_->signals_.open.fetch_sub(1) == 1) thread_->signals_.changed.release();
}

LoadThread::LoadThread(const LoadOptions& options, const std::vector<CommandArguments>& commands,
                       const ValuePool* values, LoadSignals* signals)
    : options_(options),
      signals_(*signals),
      send_mode_(options.connections > 1 ? helio::Socket::SendMode::kBatch
                                         : helio::Socket::SendMode::kNow),
      source_(options, commands, values) {}

void LoadThread::Open(const std::vector<int>& fds, uint32_t first_index) {
  for (size_t i = 0; i < fds.size(); ++i) {
    clients_.push_back(std::make_unique<Client>(this, first_index + static_cast<uint32_t>(i)));
    clients_.back()->Open(fds[i]);
  }
}

void LoadThread::Begin(uint64_t begin_ns) {
  last_reply_ns_ = begin_ns;
  for (auto& client : clients_) client->Begin(begin_ns);
}

void LoadThread::Stop() {
  for (auto& client : clients_) client->Stop();
}

void LoadThread::Abort(std::string_view why) {
  for (auto& client : clients_) client->Abort(why);
}

}  // namespace dfly::bench
