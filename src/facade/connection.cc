// SPDX-License-Identifier: Apache-2.0
#include "facade/connection.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "facade/replies/resp_writer.h"
#include "helio/base/block_bytes.h"
#include "helio/base/cycle_clock.h"
#include "helio/base/logging.h"

namespace dfly {

using helio::Socket;

void BufferPool::Lend(helio::IoBuf* buffer) {
  if (buffer->capacity() > 0 || free_.empty()) return;
  buffer->Swap(free_.back());
  free_.pop_back();
  bytes_ -= buffer->capacity();
}

void BufferPool::TakeBack(helio::IoBuf* buffer) {
  DCHECK(buffer->empty());
  if (buffer->capacity() == 0) return;
  if (buffer->capacity() > kBufferMax || free_.size() == kKeptMax) {
    buffer->Release();
    return;
  }
  bytes_ += buffer->capacity();
  free_.push_back(std::move(*buffer));
}

void BufferPool::Shrink(size_t left) {
  if (free_.size() <= left) return;
  const auto end = free_.end() - static_cast<ptrdiff_t>(left);
  for (auto it = free_.begin(); it != end; ++it) bytes_ -= it->capacity();
  free_.erase(free_.begin(), end);
  if (left == 0) free_.shrink_to_fit();
}

Connection::Connection(int fd, uint64_t id, CommandSink* sink, const ConnectionLimits* limits,
                       BufferPool* buffers, ReplyQueue::ReleaseFn release_batch,
                       std::unique_ptr<helio::TlsSession> tls)
    : id_(id),
      sink_(sink),
      limits_(limits),
      buffers_(buffers),
      socket_(Socket::Adopt(helio::Proactor::Current(), fd, this, std::move(tls))),
      parser_(limits->parser),
      replies_(&output_, std::move(release_batch)),
      flush_hook_(
          [](helio::LoopHook* hook) { static_cast<FlushHook*>(hook)->connection->Flush(); }),
      gate_waiter_([](ReplyGate::Waiter* waiter) {
        auto* const self = static_cast<GateWaiter*>(waiter);
        if (self->since != 0) [[unlikely]]
          self->waited += helio::CycleClock::Now() - std::exchange(self->since, 0);
        self->connection->FlushSoon();
      }),
      created_ns_(socket_->proactor()->now_ns()),
      last_active_ns_(created_ns_) {
  flush_hook_.connection = this;
  gate_waiter_.connection = this;
  parser_.set_large_len(LargeText::kMin);
}

void Connection::SpeakMemcached() {
  memcached_ = std::make_unique<MemcachedParser>(limits_->memcached);
  speaks_resp_ = false;
}

void Connection::Start() {
  receiving_ = true;
  object_bytes_ += helio::ObjectBytes(this) + helio::ObjectBytes(socket_.get());
  Recount();
  socket_->StartRecv();
}

void Connection::StartWith(std::string_view received) {
  Start();
  if (!received.empty()) Receive(received, Turn::kOwn);
}

void Connection::OnRecv(std::string_view data) { Receive(data, Turn::kSockets); }

void Connection::Receive(std::string_view data, Turn turn) {
  ++buffers_->traffic.reads;
  buffers_->traffic.received_bytes += data.size();
  last_active_ns_ = socket_->proactor()->now_ns();
  while (!closing_ && !close_when_sent_) {
    data.remove_prefix(TakeSome(data, turn));
    if (data.empty()) return;
    if (turn == Turn::kSockets && socket_->IsTurnOver() && GiveBack(data)) return;
  }
}

bool Connection::GiveBack(std::string_view rest) {
  // Else it is detached the later.
  if (detaching_ || !socket_->GiveBack(rest.size())) return false;
  --buffers_->traffic.reads;
  buffers_->traffic.received_bytes -= rest.size();
  return true;
}

size_t Connection::TakeSome(std::string_view data, Turn turn) {
  const size_t size = data.size();
  if (!parser_.room().empty()) [[unlikely]] {
    data.remove_prefix(parser_.Fill(data));
    if (!OnLargeInput() || data.empty()) return size;
  }
  const size_t filled = size - data.size();
  if (!input_.empty()) {
    constexpr size_t kPiece = 8 * 1024;  // between two looks at the socket's turn
    data = data.substr(0, std::max(kPiece, needed()));
    input_.Append(data);
    const size_t taken = filled + data.size();
    if (IsHeavyInput()) return taken;
    stalled_ = true;
    ExecuteInput();
    Recount();
    if (CheckInput() && !parser_.room().empty()) OnLargeInput();
    return taken;
  }
  const size_t taken = can_execute() && has_room() ? Execute(data, turn) : 0;
  const bool is_turn_over = std::exchange(paused_, false);
  if (closing_ || close_when_sent_) return size;
  if (is_turn_over && turn == Turn::kSockets) [[unlikely]] {
    stalled_ = false;
    Recount();
    AdjustRecv();
    return filled + taken;
  }
  data.remove_suffix(parser_.TakenFromEnd());
  if (taken < data.size()) {
    stalled_ = is_turn_over || !in_command() || !can_execute() || !has_room();
    // What a header announces is only believed as far as it saves moving: the rest has to arrive
    // first.
    constexpr size_t kTrustedMax = 256 * 1024;
    input_.Reserve(data.size() - taken + std::min(needed(), kTrustedMax));
    input_.Append(data.substr(taken));
    if (is_turn_over) FlushSoon();  // goes on
  }
  Recount();
  AdjustRecv();
  if (!parser_.room().empty()) [[unlikely]]
    OnLargeInput();
  return size;
}

void Connection::OnRecvInto(size_t bytes) {
  ++buffers_->traffic.reads;
  buffers_->traffic.received_bytes += bytes;
  last_active_ns_ = socket_->proactor()->now_ns();
  if (closing_ || close_when_sent_) return;
  parser_.Filled(bytes);
  OnLargeInput();
}

bool Connection::OnLargeInput() {
  Recount();
  if (IsHeavyInput() || !CheckInput()) return false;
  // What is short comes by itself: to change the way costs more than a copy.
  constexpr size_t kDirectMin = 64 * 1024;
  const std::span<char> room = parser_.room();
  socket_->ReceiveInto(room.size() >= kDirectMin ? room : std::span<char>());
  return true;
}

bool Connection::IsHeavyInput() {
  return input_.capacity() + parser_.large_bytes() > buffers_->bounds.input_watch &&
         sink_->OnHeavyInput(this);
}

bool Connection::CheckInput() {
  // A primary may send what it has taken from its clients.
  if (input_bytes() <= buffers_->bounds.input_max || closing_ || keeps_replies_) return true;
  sink_->OnLargeInput(this);
  CloseNow();
  return false;
}

bool Connection::IsTurnOver(Turn turn, int64_t* end) const {
  if (turn == Turn::kSockets) return socket_->IsTurnOver();
  const int64_t now = helio::CycleClock::Now();
  if (*end == 0) *end = now + helio::CycleClock::FromNanos(kTurnNanos);
  return now >= *end;
}

size_t Connection::Execute(std::string_view data, Turn turn) {
  DCHECK(!executing_);
  executing_ = true;
  replies_.BeginRead();
  stalled_ = true;
  const uint64_t executed_before = executed_bytes_;
  constexpr size_t kLarge = CommandSink::kLargeCommand;
  const bool may_be_large = data.size() > kLarge;
  size_t taken = 0;
  size_t next_look = kTurnLookBytes;
  int64_t turn_end = 0;
  while (taken < data.size() && can_execute() && has_room()) {
    if (taken >= next_look) [[unlikely]] {
      paused_ = IsTurnOver(turn, &turn_end);
      if (paused_) break;
      next_look = taken + kTurnLookBytes;
    }
    if (!speaks_resp_) [[unlikely]] {
      const std::string_view rest = data.substr(taken);
      const size_t bytes = memcached_ != nullptr ? ExecuteMemcached(rest) : ExecuteHttp(rest);
      taken += bytes;
      executed_bytes_ += bytes;
      if (!stalled_ || closing_) break;
      continue;
    }
    const RequestParser::Status status = parser_.Parse(data.substr(taken));
    if (status == RequestParser::Status::kNeedMore) {
      taken += parser_.consumed();
      executed_bytes_ += parser_.consumed();
      stalled_ = false;
      break;
    }
    const bool is_first = std::exchange(is_new_, false);
    if (is_first && status == RequestParser::Status::kCommand && IsHttp(data.substr(taken))) {
      http_ = std::make_unique<HttpParser>(limits_->http);
      http_->set_authenticated(is_authenticated_);
      speaks_resp_ = false;
      continue;
    }
    buffers_->Lend(&output_);
    if (status == RequestParser::Status::kError) {
      if (!sink_->OnProtocolError(this, parser_.error()) || closing_) break;
      RespWriter(replies_.BeginLocal()).Error(parser_.error());
      replies_.EndLocal();
      taken = data.size();
      CloseWhenSent();
      break;
    }
    const bool is_large = parser_.has_large() || (may_be_large && parser_.consumed() > kLarge);
    const CommandSink::Outcome outcome =
        is_large ? GiveLarge() : sink_->OnCommand(this, parser_.args());
    if (outcome == CommandSink::Outcome::kBarrier) {
      // It stays in the input and is parsed again: that is rare, and keeps the command in one
      // place.
      barrier_ = true;
      if (parser_.has_large()) parser_.Repeat();
      break;
    }
    // The sink may only have noted the command, and its arguments do not outlive the next Parse.
    if (parser_.holds_args()) [[unlikely]] {
      sink_->OnInputPause(this);
    }
    taken += parser_.consumed();
    executed_bytes_ += parser_.consumed();
    waits_ = outcome == CommandSink::Outcome::kWaits;
    if (outcome == CommandSink::Outcome::kBusy || waits_) {
      busy_ = true;
    } else if (outcome == CommandSink::Outcome::kClose) {
      taken = data.size();
      CloseWhenSent();
    }
  }
  if (keeps_replies_) [[unlikely]]
    sink_->OnTakenBytes(this, data.substr(0, executed_bytes_ - executed_before));
  sink_->OnInputPause(this);
  executing_ = false;
  if (taken == data.size()) stalled_ = false;
  if (barrier_ && replies_.empty()) barrier_ = false;
  // Without a reply (CLIENT REPLY OFF) there is still the buffer to give back.
  if (!output_.empty() || (output_.capacity() > 0 && can_release())) FlushSoon();
  return taken;
}

CommandSink::Outcome Connection::GiveLarge() {
  if (!parser_.has_large()) return sink_->OnLargeCommand(this, parser_.args());
  const LargeText::Scope scope(parser_.large());
  const size_t bytes = parser_.large_bytes();
  const CommandSink::Outcome outcome = sink_->OnLargeCommand(this, parser_.args());
  if (outcome != CommandSink::Outcome::kBarrier) {
    executed_bytes_ += bytes;
    sink_->OnInputPause(this);  // while it may be taken
  }
  return outcome;
}

bool Connection::IsHttp(std::string_view data) const {
  if (parser_.holds_args() || !HttpParser::IsRequestLine(parser_.args())) return false;
  // The words of an array stand behind its header.
  return data.data() == parser_.args()[0].data();
}

size_t Connection::ExecuteHttp(std::string_view data) {
  const HttpParser::Status status = http_->Parse(data);
  if (status == HttpParser::Status::kNeedMore) {
    stalled_ = false;
    return http_->consumed();
  }
  buffers_->Lend(&output_);
  auto outcome = CommandSink::Outcome::kClose;
  if (status == HttpParser::Status::kRequest) {
    outcome = sink_->OnHttp(this, http_->request());
  } else {
    sink_->OnProtocolError(this, "HTTP");
    if (closing_) return data.size();
    replies_.BeginLocal()->Append(FormatHttp({.status = http_->error_status()}, false));
    replies_.EndLocal();
  }
  waits_ = outcome == CommandSink::Outcome::kWaits;
  if (outcome == CommandSink::Outcome::kBusy || waits_) {
    busy_ = true;
  } else if (outcome == CommandSink::Outcome::kClose) {
    CloseWhenSent();
    return data.size();
  }
  return http_->consumed();
}

size_t Connection::ExecuteMemcached(std::string_view data) {
  const MemcachedParser::Status status = memcached_->Parse(data);
  if (status == MemcachedParser::Status::kNeedMore) {
    stalled_ = false;
    return memcached_->consumed();
  }
  buffers_->Lend(&output_);
  if (status == MemcachedParser::Status::kError) {
    sink_->OnProtocolError(this, memcached_->error());
    if (closing_) return data.size();
    helio::IoBuf* const out = replies_.BeginLocal();
    out->Append(memcached_->error());
    out->Append("\r\n");
    replies_.EndLocal();
    CloseWhenSent();
    return data.size();
  }
  const CommandSink::Outcome outcome =
      sink_->OnMemcached(this, memcached_->op(), memcached_->args());
  if (outcome == CommandSink::Outcome::kBarrier) {
    barrier_ = true;
    return 0;
  }
  if (memcached_->holds_args()) sink_->OnInputPause(this);
  waits_ = outcome == CommandSink::Outcome::kWaits;
  if (outcome == CommandSink::Outcome::kBusy || waits_) {
    busy_ = true;
  } else if (outcome == CommandSink::Outcome::kClose) {
    CloseWhenSent();
    return data.size();
  }
  return memcached_->Take();
}

void Connection::ExecuteInput() {
  // A barrier may fall while its command's predecessors run, so this is a loop.
  bool is_turn_over = false;
  while (stalled_ && can_execute() && has_room() && !is_turn_over) {
    const std::string_view all = input_.view();
    executes_input_ = true;
    const size_t taken = Execute(all, Turn::kOwn);
    if (std::exchange(executes_input_, false)) {
      input_.Consume(taken);
    } else {
      input_.Append(all.substr(taken));  // TakeInput has the rest; nobody has let it go yet
    }
    input_.Truncate(input_.size() - parser_.TakenFromEnd());
    is_turn_over = std::exchange(paused_, false);
  }
  if (is_turn_over) [[unlikely]]
    FlushSoon();  // goes on
  AdjustRecv();
  if (is_done() || (input_.empty() && input_.capacity() > 0 && can_release())) FlushSoon();
}

bool Connection::TakeInput(std::span<const std::string_view> args, TakenInput* to) {
  if (!executes_input_ || keeps_replies_ || args.data() != parser_.args().data() ||
      parser_.holds_args() || parser_.has_large()) {
    return false;
  }
  // What stands behind the command would be copied.
  if (parser_.consumed() < input_.size() / 2) return false;
  to->args = parser_.TakeArgs();
  if (to->args == nullptr) return false;
  to->arg_count = args.size();
  to->bytes.Swap(input_);
  executes_input_ = false;
  Recount();
  return true;
}

void Connection::OnRemoteReplies(size_t reply_bytes) {
  const size_t affordable = limits_->reply_bytes_max / 2 / (reply_bytes + 1);
  batches_window_ =
      std::clamp<size_t>(std::min(batches_window_ * 2, affordable), 1, kBatchesWindowMax);
}

void Connection::OnRemoteDone(size_t arg_bytes) {
  DCHECK_GE(in_flight_arg_bytes_, arg_bytes);
  in_flight_arg_bytes_ -= arg_bytes;
  --in_flight_batches_;
}

void Connection::OnRepliesReady() {
  replies_.Advance();
  if (const int64_t change = replies_.TakeCountedChange()) buffers_->CountClient(change);
  FlushSoon();
  if (barrier_ && replies_.empty()) barrier_ = false;
  if (executing_) return;
  if (stalled_) {
    ExecuteInput();
  } else {
    AdjustRecv();  // a part of a command may wait for the rest of it
  }
}

void Connection::PushMessage(std::string_view bytes) {
  if (closing_ || close_when_sent_) return;
  buffers_->Lend(&output_);
  replies_.BeginLocal()->Append(bytes);
  replies_.EndLocal();
  FlushSoon();
}

void Connection::DeferredDone(size_t count) {
  DCHECK_GE(deferred_, count);
  deferred_ -= count;
  if (!output_.empty() || is_done() || can_release()) FlushSoon();
}

void Connection::EndBusy() {
  DCHECK(busy_);
  busy_ = false;
  if (closed_) {
    DeleteIfDone();
    return;
  }
  if (closing_) return;
  FlushSoon();
  ExecuteInput();
}

void Connection::LetGo() {
  DCHECK_GT(keepers_, 0u);
  --keepers_;
  DeleteIfDone();
}

void Connection::set_held(bool held, bool waits) {
  held_ = held;
  is_unread_ = false;
  if (!busy_) waits_ = waits;
  if (!held && !closing_ && !executing_) ExecuteInput();
}

void Connection::HoldUnread() {
  set_held(true);
  is_unread_ = true;
}

void Connection::AskForRest() {
  rests_ = true;
  FlushSoon();
}

void Connection::EndRest() {
  DCHECK(!detaching_);
  rests_ = false;
  if (!closing_ && !executing_) ExecuteInput();
}

void Connection::Detach() {
  DCHECK(rests_ && can_release() && !closing_);
  detaching_ = true;
  receiving_ = false;
  socket_->proactor()->CancelHook(&flush_hook_);
  socket_->Detach();
}

void Connection::OnDetached() {
  fd_ = socket_->fd();
  tls_ = socket_->TakeTls();
  socket_.reset();
  CountAs(0);
  sink_->OnDetached(this);
}

void Connection::Attach(CommandSink* sink, BufferPool* buffers,
                        ReplyQueue::ReleaseFn release_batch) {
  sink_ = sink;
  buffers_ = buffers;
  replies_.set_release(std::move(release_batch));
  socket_ = Socket::Adopt(helio::Proactor::Current(), fd_, this, std::move(tls_));
  detaching_ = rests_ = false;
  Recount();
  FlushSoon();  // it may have been asked to close
  ExecuteInput();
  if (!receiving_ && !closing_) StopRecv();  // the new socket's end is watched for
}

void Connection::AdjustRecv() {
  if (closing_ || detaching_) return;
  // An incomplete command must be read on, whatever its size; its limit is the parser's.
  const bool stops = (!can_execute() || !has_room() || stalled_) && !waits();
  const bool is_full = is_unread_ || input_.size() >= limits_->recv_bytes_max;
  const bool want = !close_when_sent_ && !recv_ended_ && !(stops && is_full);
  if (want == receiving_) return;
  receiving_ = want;
  if (want) {
    socket_->StartRecv();
  } else {
    StopRecv();
  }
}

void Connection::StopRecv() {
  socket_->StopRecv();
  sink_->OnRecvStopped(this);
}

void Connection::FlushSoon() {
  if (!closing_ && !detaching_) socket_->proactor()->AtIterationEnd(&flush_hook_);
}

void Connection::Flush() {
  DCHECK(!executing_);
  if (closing_) return;
  if (unsent_bytes() > std::min(output_watch_, buffers_->bounds.output_watch)) [[unlikely]] {
    if (sink_->OnLargeOutput(this)) return;
  }
  if (watched_bytes_ == kNotCounted && !busy_) [[unlikely]]
    CountWatched();
  if (send_pending_) return Recount();
  const bool goes_on = !sending_.empty();  // with the next piece
  if (!goes_on && !output_.empty() && !holds_replies() && TakeSendable() > 0) {
    if (keeps_replies_) [[unlikely]] {
      sink_->OnReplies(this, &sending_);
      if (is_broken_) sending_.Clear();
      if (watched_bytes_ != 0) sink_->OnWatchedSent(this);
      watched_bytes_ = 0;
    }
  }
  if (!sending_.empty()) {
    // A call for each send is cheaper for the only busy connection, and as cheap for large replies;
    // many small ones are cheaper together. (docs/benchmarks.md)
    constexpr size_t kLarge = 32 * 1024;
    const bool alone = socket_->proactor()->queued_hooks() <= 1;
    const auto mode =
        alone || sending_.size() > kLarge ? Socket::SendMode::kNow : Socket::SendMode::kBatch;
    switch (socket_->Send(sending_.front(), mode)) {
      case Socket::SendResult::kDone:
        OnPieceSent();
        if (sending_.empty() && !goes_on) break;
        FlushSoon();  // for the next piece, or what was written meanwhile
        return Recount();
      case Socket::SendResult::kPending:
        send_pending_ = true;
        Recount();
        return;
      case Socket::SendResult::kBroken:
        OnBroken();
        if (closing_) return;
    }
  }
  if (wants_room_) sink_->OnRoom(this);
  // What waited for room to reply goes on.
  if (stalled_) {
    ExecuteInput();
  } else {
    AdjustRecv();
  }
  if (is_done()) {
    CloseNow();
    return;
  }
  ReleaseIfIdle();
  Recount();
}

size_t Connection::TakeSendable() {
  DCHECK(sending_.empty());
  ReplyGate& gate = buffers_->gate;
  size_t sendable = replies_.Sendable(gate.open());
  while (sendable < output_.size() && !gate.Await(&gate_waiter_, replies_.awaited())) {
    sendable = replies_.Sendable(gate.open());
  }
  if (sendable < output_.size() && watched_bytes_ != 0 && gate_waiter_.since == 0) [[unlikely]]
    gate_waiter_.since = helio::CycleClock::Now();
  if (sendable == output_.size()) [[likely]] {
    sending_.Swap(output_);
  } else if (sendable > 0) {
    sending_.Append(output_.view().substr(0, sendable));
    output_.Consume(sendable);
    replies_.OnTaken(sendable);
  }
  return sendable;
}

void Connection::CountWatched() {
  watched_bytes_ = unsent_bytes();
  if (watched_bytes_ == 0) sink_->OnWatchedSent(this);  // no reply: CLIENT REPLY OFF
}

void Connection::OnWatched(size_t sent_bytes) {
  if (watched_bytes_ == kNotCounted) return;
  watched_bytes_ -= std::min(watched_bytes_, sent_bytes);
  if (watched_bytes_ == 0) sink_->OnWatchedSent(this);
}

void Connection::OnSent(int error) {
  send_pending_ = false;
  if (error != 0) {
    OnBroken();
    return;
  }
  last_active_ns_ = socket_->proactor()->now_ns();  // a slow reader is not idle
  OnPieceSent();
  if (sending_.empty() && output_.empty() && !stalled_ && !wants_room_ && !is_done()) {
    AdjustRecv();
    ReleaseIfIdle();
    Recount();
  } else {
    FlushSoon();
  }
}

void Connection::OnPieceSent() {
  const size_t bytes = sending_.front().size();
  CountSent(bytes);
  sending_.Consume(bytes);
}

void Connection::ReleaseIfIdle() {
  if (!can_release()) return;
  buffers_->TakeBack(&output_);
  buffers_->TakeBack(&sending_);
  replies_.Release();
  if (input_.empty()) {
    input_.Release();
    parser_.Release();
    if (http_ != nullptr) http_->Release();
    if (memcached_ != nullptr) memcached_->Release();
  }
  if (rests_) sink_->OnRest(this);
}

void Connection::OnRecvEnd(int error) {
  receiving_ = false;
  recv_ended_ = true;
  if (error != 0) return OnBroken();
  // The client will not send more, but may have only shut its side down: what it sent is still
  // answered.
  if (is_done()) {
    CloseNow();
  } else if (busy_ || held_) {
    sink_->OnPeerShutdown(this);
  }
}

void Connection::OnPeerShutdown() {
  peer_ended_ = true;
  if (!closing_ && (busy_ || held_)) sink_->OnPeerShutdown(this);
}

void Connection::OnBroken() {
  if (!keeps_replies_) return CloseNow();
  is_broken_ = true;
  sending_.Clear();
  CloseWhenSent();
  FlushSoon();
}

void Connection::CloseWhenSent() {
  if (closing_ || close_when_sent_) return;
  close_when_sent_ = true;
  if (receiving_) {
    receiving_ = false;
    StopRecv();
  }
  FlushSoon();
}

void Connection::CloseNow() {
  if (closing_) return;
  has_ended_whole_ = is_done();
  closing_ = true;
  detaching_ = false;
  socket_->proactor()->CancelHook(&flush_hook_);
  gate_waiter_.Unlink();
  replies_.Clear();
  sink_->OnClosing(this);
  socket_->Close();
}

void Connection::SendAndCloseNow() {
  if (!closing_ && !send_pending_ && !keeps_replies_) {
    if (sending_.empty() && !output_.empty()) TakeSendable();
    // What the kernel does not take is lost.
    if (!sending_.empty()) std::ignore = socket_->Send(sending_.view(), Socket::SendMode::kNow);
  }
  CloseNow();
}

void Connection::FailAwaited(std::string_view error) {
  if (closing_) return;
  (void)replies_.Sendable(buffers_->gate.open());
  replies_.DropAwaited();
  if (http_ == nullptr && memcached_ == nullptr) {
    output_.Append("-");
    output_.Append(error);
    output_.Append("\r\n");
  }
  SendAndCloseNow();
}

void Connection::OnClosed() {
  DCHECK_EQ(deferred_, 0u);
  closed_ = true;
  send_pending_ = false;
  sink_->OnClosed(this);
  DeleteIfDone();
}

void Connection::DeleteIfDone() {
  if (!closed_ || busy_ || keepers_ != 0) return;
  CountAs(0);
  delete this;
}

size_t Connection::own_bytes() const {
  return object_bytes_ + input_.capacity() + output_.capacity() + sending_.capacity() +
         replies_.memory_used() + parser_.memory_used() +
         (http_ != nullptr ? http_->memory_used() : 0) +
         (memcached_ != nullptr ? sizeof(MemcachedParser) + memcached_->memory_used() : 0);
}

}  // namespace dfly
