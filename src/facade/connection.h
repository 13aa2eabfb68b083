// SPDX-License-Identifier: Apache-2.0
// A client's connection: bytes in, commands out, replies in order, bytes out.
//
//   socket -OnRecv-> [input_] -parser-> CommandSink::OnCommand -> ReplyQueue -> output_ -> socket
//
// A client whose first line is that of an HTTP request speaks HTTP from then on, to OnHttp. Others
// speak memcached's protocol from the beginning (SpeakMemcached), to OnMemcached.
//
// Data is parsed in the receive buffer itself, as a brief of the loop: as long as commands are
// taken at once there is no fiber and no copy. Input is kept (and copied into input_) only when a
// command has not arrived completely, or when the connection is not ready for the next command:
//   - a command that needs a fiber of its own runs (busy),
//   - a command must wait for the replies of those before it (barrier),
//   - too many replies are pending (back-pressure).
// Meanwhile at most recv_bytes_max more bytes are read; then the client has to wait. Its end is
// watched for also then. Who waits for what others do (kWaits, CLIENT PAUSE) is read on, as far as
// a command may be long: the end of the stream may be behind more than the kernel keeps, and what
// comes for a client that has gone would be lost.
//
// Replies are sent at the end of the loop's iteration. Those that tell of what is not durable yet
// (ReplyQueue::Hold), and whatever stands behind them, wait in the output while the connection goes
// on. An idle connection owns no buffer, no stack and no fiber.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "facade/parsers/http_parser.h"
#include "facade/parsers/memcached_parser.h"
#include "facade/parsers/request_parser.h"
#include "facade/replies/reply_gate.h"
#include "facade/replies/reply_queue.h"
#include "helio/base/counters.h"
#include "helio/base/intrusive_list.h"
#include "helio/base/io_buf.h"
#include "helio/net/socket.h"
#include "helio/proactor/proactor.h"

namespace dfly {

class Connection;

// Who executes the commands of a thread's connections. Called on that thread only; suspends never.
class CommandSink {
 public:
  enum class Outcome : uint8_t {
    kTaken,    // go on with the next command
    kBarrier,  // not taken: call again with it once all earlier replies are complete
    kBusy,     // taken, and nothing more may come until Connection::EndBusy()
    kWaits,    // the same, and that may be long: the replies before it are not held back for it
    kClose,    // taken; close the connection when all replies so far are sent
  };

  // `args` live until OnInputPause() of the same connection returns. A sink that runs the command
  // later than that copies them, and tells the connection by AddDeferred and DeferredDone.
  virtual Outcome OnCommand(Connection* connection, std::span<const std::string_view> args) = 0;
  // The same for one of more than kLargeCommand bytes. Of its arguments those that are large are
  // the sink's to take (LargeText).
  static constexpr size_t kLargeCommand = 8 * 1024;
  virtual Outcome OnLargeCommand(Connection* connection, std::span<const std::string_view> args) {
    return OnCommand(connection, args);
  }
  // An HTTP request, which lives until this returns. The response is written as replies are; the
  // connection is closed behind it if the outcome says so, or by CloseWhenSent.
  virtual Outcome OnHttp(Connection* connection, const HttpRequest& request) = 0;
  // As OnCommand, for memcached's protocol.
  virtual Outcome OnMemcached(Connection* connection, MemcachedOp op,
                              std::span<const std::string_view> args) {
    (void)connection, (void)op, (void)args;
    return Outcome::kClose;
  }
  // No more commands come for now: run what was only noted, and let the batches go.
  virtual void OnInputPause(Connection* connection) = 0;
  // The client does not speak the protocol. Runs what was noted, and only then the error is written
  // and the connection closed. False: commands before it have yet to begin (BeginBusy), and it is
  // to be told again when they are over.
  virtual bool OnProtocolError(Connection* connection, std::string_view error) = 0;
  // For a connection with set_wants_room: all replies that could be sent are sent.
  virtual void OnRoom(Connection* connection) = 0;
  // More is unsent than the connection was told to watch for (BufferPool::Bounds::output_watch,
  // WatchOutput). True: it was closed.
  virtual bool OnLargeOutput(Connection*) { return false; }
  // For a connection with KeepReplies: the next bytes of its input, of commands that were taken.
  // OnInputPause follows.
  virtual void OnTakenBytes(Connection* connection, std::string_view bytes) {
    (void)connection, (void)bytes;
  }
  // For a connection with KeepReplies: `replies` may leave. What is in it afterwards is sent.
  virtual void OnReplies(Connection* connection, helio::IoBuf* replies) {
    (void)connection, (void)replies;
  }
  // What Connection::WatchSend has asked for.
  virtual void OnWatchedSent(Connection*) {}
  // More memory holds its input than the connection was told to watch for
  // (BufferPool::Bounds::input_watch); of what has arrived last nothing is executed yet. True: it
  // was closed.
  virtual bool OnHeavyInput(Connection*) { return false; }
  // Its input is larger than BufferPool::Bounds::input_max, and it is closed.
  virtual void OnLargeInput(Connection*) {}
  // The handshake of a client that speaks TLS is over, before any command.
  virtual void OnTlsEstablished(Connection* connection, const helio::TlsSession& tls) {
    (void)connection, (void)tls;
  }
  // The client has ended its side while a command runs (kBusy, kWaits) or it is held.
  virtual void OnPeerShutdown(Connection*) {}
  // It is not received from for now. Meanwhile LookForEnd is to be called now and then.
  virtual void OnRecvStopped(Connection*) {}
  // For a connection that was asked to rest: nothing is under way any more, and it executes nothing
  // until EndRest, or Detach and Attach.
  virtual void OnRest(Connection* connection) { (void)connection; }
  // After Connection::Detach, unless it was closed meanwhile: it is nobody's until Attach.
  virtual void OnDetached(Connection* connection) { (void)connection; }
  // CloseNow was called: no reply reaches the client any more, and its socket begins to close.
  virtual void OnClosing(Connection* connection) { (void)connection; }
  // The last call for this connection.
  virtual void OnClosed(Connection* connection) = 0;

 protected:
  ~CommandSink() = default;
};

// Buffers that connections of one thread take while they have something to send.
class BufferPool {
 public:
  // What the thread's connections have received and sent.
  struct Traffic {
    uint64_t received_bytes = 0;
    uint64_t sent_bytes = 0;
    uint64_t reads = 0;   // pieces that arrived
    uint64_t writes = 0;  // pieces that were sent

    static constexpr helio::CounterOf<Traffic> kCounters[] = {
        &Traffic::received_bytes, &Traffic::sent_bytes, &Traffic::reads, &Traffic::writes};
  };
  Traffic traffic;

  struct Bounds {
    size_t input_max = 1 << 30;      // bytes of a command that is not complete yet; more is cut off
    size_t input_watch = SIZE_MAX;   // bytes; with more memory for input the sink is asked
    size_t output_watch = SIZE_MAX;  // bytes; with more unsent the sink is asked
  };
  Bounds bounds;

  // Of the thread's connections.
  ReplyGate gate;

  // Gives `buffer` some memory if it has none and there is any to reuse.
  void Lend(helio::IoBuf* buffer);
  // Takes the memory of `buffer`, which must be empty.
  void TakeBack(helio::IoBuf* buffer);
  // Frees what nobody uses, or a half of it: what was not used for longest.
  void Drop() { Shrink(0); }
  void Halve() { Shrink(free_.size() / 2); }
  size_t bytes() const { return bytes_; }

  // What the connections of the thread have themselves. They tell each change, and whoever wants to
  // know hears of larger ones at once.
  size_t client_bytes() const { return static_cast<size_t>(client_bytes_); }
  void CountClient(int64_t change) {
    client_bytes_ += change;
    untold_ += change;
    if ((untold_ > kToldAt || untold_ < -kToldAt) && on_change) {
      untold_ = 0;
      on_change();
    }
  }
  std::function<void()> on_change;

 private:
  static constexpr int64_t kToldAt = 64 * 1024;
  static constexpr size_t kKeptMax = 64;
  static constexpr size_t kBufferMax = 64 * 1024;
  void Shrink(size_t left);
  std::vector<helio::IoBuf> free_;
  size_t bytes_ = 0;
  int64_t client_bytes_ = 0;
  int64_t untold_ = 0;
};
static_assert(helio::ListsAll<BufferPool::Traffic>());

struct ConnectionLimits {
  RequestParser::Limits parser;
  MemcachedParser::Limits memcached;
  HttpLimits http;
  size_t slots_max = 32 * 1024;        // commands in flight
  size_t reply_bytes_max = 128 << 20;  // replies that were not yet sent, and arguments in flight
  size_t recv_bytes_max = 1 << 20;     // input that cannot be executed yet, but for an incomplete
                                       // command

  // Replies of one batch from another shard; the rest of its commands waits.
  size_t batch_reply_bytes_max() const { return reply_bytes_max / 256; }
};

// Owner:    its proactor; every call is on that thread. It may pass to another one by Detach and
//           Attach.
// Suspends: never.
// It deletes itself after OnClosed, when no fiber is busy for it any more.
class Connection final : public helio::ListHook<>, private helio::Socket::Handler {
 public:
  // Takes over `fd`. `limits` and `buffers` outlive it. `tls`: null, or the client speaks TLS.
  Connection(int fd, uint64_t id, CommandSink* sink, const ConnectionLimits* limits,
             BufferPool* buffers, ReplyQueue::ReleaseFn release_batch,
             std::unique_ptr<helio::TlsSession> tls = nullptr);

  // From the first byte on. Before Start.
  void SpeakMemcached();
  // Its replies are not for the peer: the sink gets them (OnReplies). And it never speaks HTTP, and
  // when its connection breaks, all that has arrived is carried out before it closes. Before Start.
  void KeepReplies() {
    keeps_replies_ = true;
    is_new_ = false;
    parser_.set_large_len(SIZE_MAX);  // the sink gets the bytes as they came
  }
  // Begins to receive.
  void Start();
  // The same, and `received` has come before what the socket has.
  void StartWith(std::string_view received);

  uint64_t id() const { return id_; }
  const helio::Socket& socket() const { return *socket_; }
  ReplyQueue& replies() { return replies_; }
  const ReplyQueue& replies() const { return replies_; }

  // Bytes of the commands that the sink has taken, with all that was skipped before them.
  uint64_t executed_bytes() const { return executed_bytes_; }
  // That the kernel has taken.
  uint64_t sent_bytes() const { return sent_bytes_; }
  // What the arguments of the command that the sink is given lie in: they are its own now, and stay
  // where they are. False: that cannot be had, or they are not of this command. REQUIRES: the
  // outcome will be kBusy.
  struct TakenInput {
    helio::IoBuf bytes;
    std::unique_ptr<std::string_view[]> args;
    size_t arg_count = 0;
  };
  bool TakeInput(std::span<const std::string_view> args, TakenInput* to);
  // Of the command that the sink is given: it is a line, not an array.
  bool is_inline_command() const { return parser_.is_inline(); }
  // In OnClosed: nothing was under way when it was closed, so all that was taken is carried out.
  bool has_ended_whole() const { return has_ended_whole_; }

  // What the sink keeps for this connection; its owner's to use.
  void set_user_data(void* data) { user_data_ = data; }
  // It takes so many bytes more, or less, than the sink counts for each connection.
  void CountUserData(int64_t change) {
    object_bytes_ += static_cast<size_t>(change);
    Recount();
  }
  void* user_data() const { return user_data_; }

  // Some of its commands are in the hands of other shards.
  bool has_batches() const { return in_flight_batches_ > 0; }
  // A batch of this connection's commands leaves for another shard with copies of `arg_bytes`.
  void OnRemoteSent(size_t arg_bytes) {
    ++in_flight_batches_;
    in_flight_arg_bytes_ += arg_bytes;
  }
  // It, or the next part of it, has come back with `reply_bytes` of replies; and all of it has.
  // Call them before OnRepliesReady.
  void OnRemoteReplies(size_t reply_bytes);
  void OnRemoteDone(size_t arg_bytes);
  // Replies were held back; the sink wants to be called when others could come.
  void set_wants_room(bool wants) { wants_room_ = wants; }

  // Replies of a batch have arrived, or something was written out of turn: moves what is complete
  // to the output and sends it at the end of the iteration.
  void OnRepliesReady();
  void FlushSoon();

  // The sink wants to know when the kernel has what is to be sent by the end of this iteration, or
  // once the command is over that runs (kBusy). Asked again before that: when it has all of it.
  void WatchSend() { watched_bytes_ = kNotCounted; }
  // For how many cycles what is watched has waited at the gate, since the last call.
  int64_t TakeGateCycles() { return std::exchange(gate_waiter_.waited, 0); }

  // Sends `bytes`, a whole message that is no reply, behind the replies of all commands that were
  // run so far. Not from inside a command.
  void PushMessage(std::string_view bytes);

  // The sink has noted `count` commands that it will run soon, in this iteration; and has run them.
  // Replies that they wrote are sent, and a connection that only waited for them to close does so.
  void AddDeferred(size_t count) { deferred_ += count; }
  void DeferredDone(size_t count);

  // From inside OnInputPause: a command that was taken goes on, as if its outcome had been kBusy.
  void BeginBusy() {
    DCHECK(!busy_);
    busy_ = true;
  }
  // The command that was answered with kBusy is over, its reply is written.
  void EndBusy();
  bool busy() const { return busy_; }
  // Between these it is not deleted, even if it is closed: for a command that runs and is no reason
  // not to execute the next ones. After LetGo it may be gone.
  void Keep() { ++keepers_; }
  void LetGo();
  bool closing() const { return closing_; }
  // The same, or it will be when what it has to send is sent (QUIT).
  bool is_leaving() const { return closing_ || close_when_sent_; }
  // The client will send no more, though some of what it sent may not have been received.
  bool recv_ended() const { return recv_ended_ || peer_ended_; }
  // Its end could be overlooked with harm: it waits, or is not received from.
  bool is_to_be_looked_at() const {
    return !closing_ && !detaching_ && !recv_ended_ && (busy_ || held_ || !receiving_);
  }
  // Looks at the socket itself. True: the end was there, and had not been told.
  bool LookForEnd() { return socket_->Recheck(); }
  bool is_http() const { return http_ != nullptr; }

  // Stops and restarts the execution of commands. Input waits, within its limit. `waits`: that may
  // be long, as for kWaits (CLIENT PAUSE).
  void set_held(bool held, bool waits = false);
  // As set_held(true), and it is not received from meanwhile: what its client sends stays in the
  // kernel.
  void HoldUnread();

  // No further command is executed until all before are answered, and the sink was called (OnRest).
  void AskForRest();
  void EndRest();
  // REQUIRES: it is called by OnRest. Gives its socket up, so that another thread can take it; what
  // comes until then is kept. OnDetached follows.
  void Detach();
  // On the thread that has got it, or again on the same: goes on with what it has received. What it
  // knew of its sink is replaced.
  void Attach(CommandSink* sink, BufferPool* buffers, ReplyQueue::ReleaseFn release_batch);
  bool held() const { return held_; }
  // For what others do: a command (kWaits), or it is held for that.
  bool waits() const { return waits_ && (busy_ || held_); }

  // Closes when all replies so far are sent; no further command is executed.
  void CloseWhenSent();
  // Closes now; unsent replies are lost.
  void CloseNow();

  // The same, but the kernel gets what is answered so far, as much as it takes without waiting.
  void SendAndCloseNow();

  // The epoch that its next reply waits for at the gate; 0: it waits for none.
  uint64_t awaited_epoch() const {
    return replies_.awaited() > buffers_->gate.open() ? replies_.awaited() : 0;
  }
  // What waits there is never told. If the client is in RESP it gets `error` instead ("CODE text"),
  // then the connection is closed: nobody could say to which command a later reply belongs.
  void FailAwaited(std::string_view error);

  // Instead of what its ConnectionLimits say.
  void SetMaxBulkLen(size_t bytes) { parser_.set_max_bulk_len(bytes); }
  void SetAuthenticated(bool authenticated) {
    is_authenticated_ = authenticated;
    UpdateOutputWatch();
    parser_.set_authenticated(authenticated);
    if (http_ != nullptr) http_->set_authenticated(authenticated);
    if (memcached_ != nullptr) memcached_->set_authenticated(authenticated);
  }

  // The sink is asked (OnLargeOutput) whenever something is about to be sent, however little.
  void WatchOutput(bool watches) {
    watches_output_ = watches;
    UpdateOutputWatch();
  }

  // Who has not said who it is shall not make us keep much, as in Redis: its buffer, and 1 KB.
  static constexpr size_t kUnauthenticatedOutputMax = 17 * 1024;

  // Bytes of input that wait to be executed.
  size_t input_bytes() const { return input_.size() + parser_.large_bytes(); }
  // What its buffers could take besides; 0 when idle.
  size_t input_free_bytes() const { return input_.capacity() - input_.size(); }
  size_t reply_buffer_bytes() const { return output_.capacity() + sending_.capacity(); }
  // Bytes of replies that were not yet taken by the kernel.
  size_t unsent_bytes() const {
    return output_.size() + sending_.size() + replies_.pending_bytes();
  }
  // With the arguments of its batches, and their replies that are back. For the sum over all
  // clients the owner of batches counts these, exactly, by BufferPool::CountClient; what is told
  // here goes by their sizes.
  size_t memory_used() const { return own_bytes() + in_flight_arg_bytes_ + replies_.batch_bytes(); }
  uint64_t last_active_ns() const { return last_active_ns_; }
  uint64_t created_ns() const { return created_ns_; }

 private:
  ~Connection() = default;

  // Socket::Handler
  void OnRecv(std::string_view data) override;
  void OnRecvInto(size_t bytes) override;
  void OnRecvEnd(int error) override;
  void OnPeerShutdown() override;
  void OnTlsEstablished(const helio::TlsSession& session) override {
    if (!closing_) sink_->OnTlsEstablished(this, session);
  }
  void OnSent(int error) override;
  void OnClosed() override;
  void OnDetached() override;

  bool can_execute() const {
    return !busy_ && !held_ && !barrier_ && !closing_ && !close_when_sent_ && !rests_;
  }
  bool is_done() const { return (close_when_sent_ || (recv_ended_ && !stalled_)) && can_release(); }
  // Nothing is under way: no command runs or is noted, no reply waits or is being sent.
  bool can_release() const {
    return !busy_ && deferred_ == 0 && replies_.empty() && output_.empty() && sending_.empty();
  }
  // The reply of the command that runs, or of commands of the same read that other shards have, is
  // sent together with those before it: else a pipeline would be sent in several pieces. It does
  // not wait for what other clients do.
  bool holds_replies() const {
    const bool more_come = (busy_ && !waits_) || replies_.is_in_read();
    return more_come && output_.size() < kHeldRepliesMax;
  }
  bool has_room() const {
    return replies_.slots() < limits_->slots_max && in_flight_batches_ < batches_window_ &&
           unsent_bytes() + in_flight_arg_bytes_ < limits_->reply_bytes_max;
  }

  // A command has arrived in part.
  bool in_command() const {
    if (memcached_ != nullptr) return memcached_->in_command();
    return http_ != nullptr ? http_->in_request() : parser_.in_command();
  }
  size_t needed() const { return memcached_ != nullptr ? memcached_->needed() : parser_.needed(); }
  // The first command of all, which is behind the first `taken` bytes, is none.
  bool IsHttp(std::string_view data) const;
  // One request; how many bytes it took.
  size_t ExecuteHttp(std::string_view data);
  size_t ExecuteMemcached(std::string_view data);
  // Whose time commands take: that of the socket, which takes back what is left of it when its turn
  // is over; or the connection's own, which then goes on in the next iteration.
  enum class Turn : uint8_t { kSockets, kOwn };
  bool IsTurnOver(Turn turn, int64_t* end) const;
  // Executes commands of `data` and returns how many bytes they took. Sets paused_ and leaves the
  // others if the turn is over.
  size_t Execute(std::string_view data, Turn turn);
  // What has arrived.
  void Receive(std::string_view data, Turn turn);
  // False: the socket does not take it.
  bool GiveBack(std::string_view rest);
  // Takes some of it, or all, and returns how many bytes.
  size_t TakeSome(std::string_view data, Turn turn);
  // The command is large.
  CommandSink::Outcome GiveLarge();
  // A large argument is being received: says where its next bytes go. False: it was closed.
  bool OnLargeInput();
  // Closes it if its input is too much. False: it was closed.
  bool CheckInput();
  // The sink is asked, and has closed it.
  bool IsHeavyInput();
  // Executes what waits in input_, and adjusts whether we receive.
  void ExecuteInput();
  void AdjustRecv();
  void StopRecv();
  void Flush();
  void ReleaseIfIdle();
  void DeleteIfDone();
  // Tells its thread by how much its buffers have changed.
  void Recount() { CountAs(own_bytes()); }
  size_t own_bytes() const;  // without batches
  // sending_.front().
  void OnPieceSent();
  void CountSent(size_t bytes) {
    ++buffers_->traffic.writes;
    buffers_->traffic.sent_bytes += bytes;
    sent_bytes_ += bytes;
    if (watched_bytes_ != 0) [[unlikely]]
      OnWatched(bytes);
  }
  void CountWatched();
  void OnWatched(size_t sent_bytes);
  void UpdateOutputWatch() {
    output_watch_ = watches_output_ ? 0 : is_authenticated_ ? SIZE_MAX : kUnauthenticatedOutputMax;
  }
  void CountAs(size_t bytes) {
    if (bytes == counted_bytes_) return;
    buffers_->CountClient(static_cast<int64_t>(bytes) - static_cast<int64_t>(counted_bytes_));
    counted_bytes_ = bytes;
  }

  struct FlushHook : helio::LoopHook {
    using LoopHook::LoopHook;
    Connection* connection = nullptr;
  };

  // Nothing can be sent any more, or received.
  void OnBroken();

  // How many bytes of the output may leave. If not all may, it waits for the others.
  size_t TakeSendable();

  struct GateWaiter : ReplyGate::Waiter {
    using Waiter::Waiter;
    Connection* connection = nullptr;
    // In cycles, and only while the sink watches: since when it waits (0: it does not), and for how
    // long it has before.
    int64_t since = 0;
    int64_t waited = 0;
  };

  const uint64_t id_;
  CommandSink* sink_;
  const ConnectionLimits* const limits_;
  BufferPool* buffers_;
  void* user_data_ = nullptr;
  std::unique_ptr<helio::Socket> socket_;
  RequestParser parser_;
  std::unique_ptr<HttpParser> http_;  // null: the client does not, or has said nothing yet
  std::unique_ptr<MemcachedParser> memcached_;  // null: the client does not
  bool speaks_resp_ = true;                     // none of both, so far
  helio::IoBuf input_;
  helio::IoBuf output_;   // replies in order, complete or just being written
  helio::IoBuf sending_;  // piece by piece; the kernel reads from it while send_pending_
  ReplyQueue replies_;
  FlushHook flush_hook_;
  GateWaiter gate_waiter_;
  uint64_t created_ns_;
  uint64_t last_active_ns_;
  size_t object_bytes_ = 0;  // its own, its socket's, and CountUserData
  size_t counted_bytes_ = 0;
  size_t output_watch_ = SIZE_MAX;
  // So much input is executed before it looks whether its turn is over, some 30 commands.
  static constexpr size_t kTurnLookBytes = 1024;
  static constexpr uint64_t kTurnNanos = 250'000;
  // How many batches other shards may have at a time: fewer while their replies are large. Each of
  // them comes back when its replies exceed batch_reply_bytes_max(); together that is a half of
  // reply_bytes_max and one reply for each.
  static constexpr size_t kHeldRepliesMax = 16 * 1024;
  static constexpr size_t kBatchesWindowMax = 128;
  size_t batches_window_ = kBatchesWindowMax;
  static constexpr size_t kNotCounted = SIZE_MAX;
  size_t watched_bytes_ = 0;  // that are to be sent until the sink is told; kNotCounted: not known
  size_t in_flight_batches_ = 0;
  size_t in_flight_arg_bytes_ = 0;
  size_t deferred_ = 0;  // commands that the sink has noted but not run
  uint64_t executed_bytes_ = 0;
  uint64_t sent_bytes_ = 0;
  bool keeps_replies_ = false;
  bool is_broken_ = false;
  bool has_ended_whole_ = false;
  bool is_new_ = true;  // no command of it was seen
  bool is_authenticated_ = true;
  bool watches_output_ = false;
  bool executing_ = false;
  bool executes_input_ = false;  // it executes what is in input_
  bool paused_ = false;          // Execute has: its turn is over
  bool stalled_ = false;         // input_ has bytes that the parser has not seen
  bool recv_ended_ = false;
  bool peer_ended_ = false;  // the client, its side; not all of what it sent was received then
  bool receiving_ = false;
  bool send_pending_ = false;
  bool wants_room_ = false;
  bool busy_ = false;
  bool waits_ = false;  // for something that others do
  bool barrier_ = false;
  bool held_ = false;
  bool is_unread_ = false;  // HoldUnread
  bool rests_ = false;      // or is about to
  bool detaching_ = false;  // its socket is
  uint32_t keepers_ = 0;    // Keep
  int fd_ = -1;             // when it has no socket, and
  std::unique_ptr<helio::TlsSession> tls_;
  bool close_when_sent_ = false;
  bool closing_ = false;
  bool closed_ = false;
};

}  // namespace dfly
