// SPDX-License-Identifier: Apache-2.0
// One connection of the load generator, and all the connections of one thread.
//
//   kOpening --(AUTH was answered, or there is no password)--> kReady --Begin--> kRunning
//      \________________ error ________________\____________________\--> kClosing --> kClosed
//
// Closed loop: all requests of a pipeline window are one buffer and one Send; the next window
// leaves when the last reply of this one is in. Sends of all connections that an iteration of the
// loop finds ready go to the kernel in one submission.
//
// Open loop: request i is due at begin + i / qps, whatever the server does, and its latency counts
// from then. So a server that stalls is charged for all requests that fell due meanwhile.
// ("Coordinated omission": Gil Tene, "How NOT to measure latency".)
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include "facade/replies/resp_reader.h"
#include "helio/base/io_buf.h"
#include "helio/net/socket.h"
#include "tools/dfly_bench/load_options.h"
#include "tools/dfly_bench/request_source.h"

namespace dfly::bench {

// How the threads tell the main thread how far they are.
struct LoadSignals {
  std::atomic<uint32_t> opening{0};      // connections that are not ready yet and have not failed
  std::atomic<uint32_t> open{0};         // connections that are not closed yet
  std::counting_semaphore<> changed{0};  // one of them reached 0
};

class LoadThread;

// Owner: its LoadThread. Suspends: never; all of it runs in briefs.
class Client final : public helio::Socket::Handler {
 public:
  // `index` counts the connections of all threads.
  Client(LoadThread* thread, uint32_t index);

  void Open(int fd);
  // REQUIRES: begin_ns >= now.
  void Begin(uint64_t begin_ns);
  // No further requests; closes when the replies to those in flight are in.
  void Stop();
  // Breaks off.
  void Abort(std::string_view why);

 private:
  enum class State : uint8_t { kOpening, kReady, kRunning, kClosing, kClosed };
  struct SendTimer : helio::Timer {
    using Timer::Timer;
    Client* client = nullptr;
  };

  // More requests than this in flight wait for replies, in open loop too; the time that they wait
  // is part of their latency.
  static constexpr uint64_t kOpenLoopInFlightMax = 1024;

  void OnRecv(std::string_view data) override;
  void OnRecvEnd(int error) override;
  void OnSent(int error) override;
  void OnClosed() override;

  // Sends what may be sent now; closes after the last reply.
  void Pump();
  void WriteRequests(uint64_t count);
  uint64_t RequestsToSend() const;
  void SendOutput();
  void OnReply(uint64_t now_ns);
  void OnAuthReply();
  void BecomeReady();
  void FailConnection(std::string_view why);
  void Close();
  uint64_t DueNs(uint64_t request) const {
    return begin_ns_ + static_cast<uint64_t>(static_cast<double>(request) * period_ns_);
  }

  LoadThread* const thread_;
  const uint32_t index_;
  KeySource keys_;
  helio::Random random_;
  std::unique_ptr<helio::Socket> socket_;
  RespReader reader_;
  helio::IoBuf output_;
  helio::IoBuf input_;      // the beginning of a reply whose end has not arrived
  SendTimer timer_;         // open loop: the next request falls due
  uint64_t sent_ = 0;       // requests
  uint64_t received_ = 0;   // replies
  uint64_t target_;         // requests to send in all
  uint64_t begin_ns_ = 0;   // open loop: when request 0 is due; closed loop: when the window left
  const double period_ns_;  // open loop: between two requests; 0: closed loop
  const double phase_;      // of the period, so that connections do not send in step
  State state_ = State::kOpening;
  bool sending_ = false;  // the socket owns output_
};

// Owner: the proactor it is used on. Suspends: never.
class alignas(64) LoadThread {
 public:
  // Everything outlives the thread.
  LoadThread(const LoadOptions& options, const std::vector<CommandArguments>& commands,
             const ValuePool* values, LoadSignals* signals);

  // `first_index`: of the first connection among those of all threads.
  void Open(const std::vector<int>& fds, uint32_t first_index);
  void Begin(uint64_t begin_ns);
  void Stop();
  void Abort(std::string_view why);

  // What was counted since the last call.
  LoadStats TakeStats() { return std::exchange(stats_, LoadStats()); }
  // When the last reply came.
  uint64_t last_reply_ns() const { return last_reply_ns_; }

 private:
  friend class Client;

  const LoadOptions& options_;
  LoadSignals& signals_;
  const helio::Socket::SendMode send_mode_;
  RequestSource source_;
  std::vector<std::unique_ptr<Client>> clients_;
  LoadStats stats_;
  uint64_t last_reply_ns_ = 0;
};

}  // namespace dfly::bench
