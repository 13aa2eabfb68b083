// SPDX-License-Identifier: Apache-2.0
// The process: its start and its end, and what is changed for all of it. What its threads share is
// in ServerState.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/care/resident_memory.h"
#include "server/clients/server_state.h"
#include "server/clients/tls_settings.h"
#include "server/options/config.h"
#include "server/options/options.h"
#include "server/run/server_parts.h"

namespace dfly {

class Listeners;
class AppendLog;
class EffectStream;
class Failover;
struct HandedSocket;
struct LoadProgress;
struct StreamPlace;
class Persistence;
class PrimaryLink;
class Replicas;
class TakeOverHold;
class Worker;
struct PortKind;

// What CONFIG SET can change of where clients come in.
struct Ports {
  std::vector<std::string> binds;
  uint16_t port = 0;  // 0: none
  uint16_t tls_port = 0;
};

// Owner: the main thread, which calls the constructor, Start and Stop. The rest is for the proactor
// threads; they read what does not change after Start, and atomics.
class Server final : public SettingHost {
 public:
  Server(ServerOptions options, const ServerParts& parts);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Listens and serves. Returns an empty string, or why it cannot.
  [[nodiscard]] std::string Start();
  // Loads what was saved, if there is something, while clients are told so. `on_end` gets an empty
  // text, or why the server must not go on; on proactor 0, or on this thread.
  void Load(std::function<void(std::string error)> on_end);
  // SHUTDOWN ABORT: ends the wait and the save of a PrepareStop that is under way. False: there is
  // none. From a fiber or a plain thread. Suspends, as long as PrepareStop with the patience of
  // SHUTDOWN.
  bool AbortStop();
  // Waits for the replicas, for shutdown-timeout at most, and saves for the last time, if --save
  // or the rule says so; nothing changes any more after that. Empty, or why the server goes on.
  // From a fiber or a plain thread. Suspends.
  // `patience_ns`: if the save does not get its locks in that time it fails, and the error says who
  // has them; a thread that does not answer for so long is not waited for: that is an error, or, if
  // there is nothing to save or `rule.force`, it hangs() from then on.
  [[nodiscard]] std::string PrepareStop(const StopRule& rule, uint64_t patience_ns = UINT64_MAX);
  // The server goes on although PrepareStop has succeeded. For tests. From a fiber of proactor 0.
  // Suspends.
  void TakeBackStop();
  // A PrepareStop is under way, or what one has given up is. Thread: any.
  bool is_preparing_stop() const {
    const StopState state = stop_state_;
    return state == StopState::kPrepares || state == StopState::kGivenUp;
  }
  // A PrepareStop waits for the replicas. Thread: any.
  bool awaits_replicas() const { return awaits_replicas_; }
  // PrepareStop has met a thread that does not answer: the process is to end without Stop(), which
  // would wait for it. Thread: any.
  bool hangs() const { return stop_state_ == StopState::kHangs; }
  // Who has locks, on which shards and since when, and which threads do not answer; for the log of
  // a server that does not come to its end. From a plain thread or a fiber. Takes a second at
  // most. Suspends.
  std::string DescribeHang();
  // What SIGINT and SIGTERM do. Thread: any.
  std::atomic<StopRule>& on_sigint() { return on_sigint_; }
  std::atomic<StopRule>& on_sigterm() { return on_sigterm_; }
  // See ServerOptions. Thread: any.
  std::atomic<uint64_t>& shutdown_timeout_s() { return shutdown_timeout_s_; }
  // The same in nanoseconds, and more in a build that is slow.
  uint64_t ShutdownPatienceNanos() const;
  // Stops accepting and closes all connections. Blocks. A release build leaves the data to the
  // kernel, which frees the memory of the process faster than anybody else.
  void Stop();

  // --- The old process of a take-over (take_over_channel.h). From a plain thread. They block ---

  // Empty: it may begin.
  std::string WhyNotTakeOver();
  // Takes over a socket to the new process, whose client may do everything. Returns its id.
  uint64_t AddProcess(int fd);
  // Each is its own in the other process, too.
  std::vector<std::string> DescribeUsers() const;
  // No command touches a key any more, the new process has all, and nobody is accepted. Empty, or
  // why not: then all goes on. `facts`: what "synced" says.
  [[nodiscard]] std::string StandStill(uint64_t client_id, uint64_t patience_ns,
                                       std::vector<HandedSocket>* listeners, std::string* facts);
  // After StandStill, either: all goes on; or the new process is the server, and Stop follows.
  void GoOn();
  // The log is closed: the files are the other one's.
  void GiveAway();
  // What was answered is sent, unless a client does not read it.
  void CloseClients();

  // --- The new process. The same. Start has listened and loaded nothing ---

  void FollowProcess(int fd);
  bool HasLink(std::string* error);
  // Has the role and the sockets, but accepts nobody. `offset`, `epoch`: up to where the old
  // process has got in its stream. An error, or nothing.
  [[nodiscard]] std::string PrepareTakeOver(std::vector<HandedSocket> handed, uint64_t offset,
                                            uint64_t epoch);
  // Serves. With a log, clients that write wait for TakeOverLog.
  void TakeOver(uint64_t unsaved_changes, int64_t last_save_s);
  // Once the old process, whose log it was, has ended. See AppendLog::TakeOver.
  [[nodiscard]] std::string TakeOverLog(const std::string& name, bool is_clean);

  ServerState& state() { return state_; }
  const ServerState& state() const { return state_; }
  // The server of the calling thread. REQUIRES: that is one of its proactors, after Start.
  static Server& Here() { return *here_; }
  Config& config() { return config_; }
  TlsSettings& tls() { return tls_; }
  Persistence& persistence() { return *persistence_; }
  // What CONFIG SET has said of the log and of replies that wait is in force. From a fiber that has
  // no locks. Suspends.
  void AwaitSettings();
  AppendLog& append_log() { return *append_log_; }
  PrimaryLink& primary_link() { return *primary_link_; }
  Replicas& replicas() { return *replicas_; }
  Failover& failover() { return *failover_; }
  // What the process takes without any data or connection, as measured after the start.
  uint64_t base_memory_bytes() const { return base_memory_bytes_; }
  const ResidentMemory& resident_at_start() const { return resident_at_start_; }
  // The most that used_memory ever was when somebody asked. Thread: any.
  uint64_t UpdatePeakMemory(uint64_t used_bytes);
  // Listens there, and not where it did. Empty, or why it cannot: then nothing changes. From a
  // fiber or a plain thread, one at a time. Suspends.
  [[nodiscard]] std::string ChangePorts(const Ports& ports);
  // --max_bulk_len, from now on; for values, too. Suspends.
  void SetMaxBulkLen(size_t bytes);
  // tls-auto-reload-interval. From a fiber or a plain thread. Suspends.
  void SetTlsReload(uint64_t seconds);
  // As Listeners::Describe. Suspends.
  std::vector<std::string> DescribeListeners();
  // maxmemory-policy and what belongs to it. From a fiber or a plain thread. Suspends.
  void SetEviction(const EvictionSettings& eviction);
  // The setting `quota`, for threads to come; ApplyQuotas tells the others.
  void SetQuotas(const QuotaSettings& settings);
  // maxmemory has changed: what is too much goes. From a fiber. Suspends.
  void EvictToLimit();
  // The forms of what is written from now on. From a fiber or a plain thread. Suspends.
  void SetValueSizes(const ValueSizes& sizes);
  // Takes over a connected, non-blocking descriptor. On proactor 0's thread.
  void OnAccept(int fd, PortKind kind);
  void OnAccept(int fd);  // of the main port

 private:
  enum class StopState : uint8_t {
    kServes,
    kPrepares,
    kGivenUp,   // serves, but what PrepareStop has begun is not over
    kPrepared,  // nothing changes any more
    kHangs
  };
  struct StopWork;

  std::string OpenListeners();
  // Makes sure that it can. On proactor 0. Suspends.
  std::string PrepareListeners(std::vector<HandedSocket> handed);
  std::string WhyNot() const;
  void KeepKeys(bool keeps);
  // On proactor 0. Suspends.
  void ReloadTls();
  void AwaitTlsReload();
  // If replicaof says so. On proactor 0.
  std::string LoadLog(LoadProgress* progress);
  std::string LoadSnapshot();
  void ResumeStream(const StreamPlace& place);
  void BeginReplication();
  // The parts of PrepareStop. On proactor 0. Suspend.
  void AwaitReplicas(StopWork* work);
  // No client writes any more, and nothing expires, or all goes on.
  void HoldWritesForStop(bool holds);
  void WatchStop(StopWork* work, uint64_t patience_ns);
  void EndStopWork(StopWork* work, bool must_stop);
  // Kills the scripts that have not written, and, if it `is_late`, the others. Thread: any
  // proactor's, or a plain one. Suspends: never.
  void EndScripts(bool is_late);
  // False: a thread has not answered for so long, and the condition is not met. From a fiber or a
  // plain thread. Suspends.
  template <typename Condition>
  bool AwaitUnlessHung(Condition is_met, uint64_t patience_ns);

  static inline constinit thread_local Server* here_ = nullptr;

  ServerState state_;
  TlsSettings tls_;
  const std::unique_ptr<Persistence> persistence_;
  const std::unique_ptr<EffectStream> stream_;
  const std::unique_ptr<AppendLog> append_log_;
  const std::unique_ptr<Replicas> replicas_;
  const std::unique_ptr<PrimaryLink> primary_link_;
  const std::unique_ptr<Failover> failover_;
  const std::unique_ptr<TakeOverHold> take_over_hold_;
  std::atomic<StopRule> on_sigint_;
  std::atomic<StopRule> on_sigterm_;
  std::atomic<uint64_t> shutdown_timeout_s_;
  Config config_;
  ResidentMemory resident_at_start_;
  uint64_t base_memory_bytes_ = 0;
  std::atomic<uint64_t> peak_memory_bytes_{0};
  std::atomic<StopState> stop_state_{StopState::kServes};
  std::atomic<bool> awaits_replicas_{false};
  std::atomic<bool> skips_replicas_{false};       // AwaitReplicas is to end: SHUTDOWN NOW
  std::atomic<bool> is_stop_aborted_{false};      // the same: SHUTDOWN ABORT
  std::vector<std::unique_ptr<Worker>> workers_;  // each on its thread
  std::unique_ptr<Listeners> listeners_;          // on proactor 0
  bool has_listened_ = false;                     // the same: what the start opens is open
  std::string other_id_;                          // of the old process' stream
  uint64_t other_offset_ = 0;                     // where the data was that one's
  uint64_t tls_reload_task_ = 0;                  // on proactor 0; 0: none
  bool tls_reloads_ = false;                      // on proactor 0: a fiber is at it
};

}  // namespace dfly
