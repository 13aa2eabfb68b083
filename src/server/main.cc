// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gflags/gflags.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "helio/base/ascii.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/sync.h"
#include "helio/net/tls_memory.h"
#include "server/all_parts.h"
#include "server/base/json_log.h"
#include "server/base/process.h"
#include "server/base/pulse.h"
#include "server/base/units.h"
#include "server/base/version.h"
#include "server/clients/audit_log.h"
#include "server/clients/server_state.h"
#include "server/health_check.h"
#include "server/options/directives.h"
#include "server/options/flags.h"
#include "server/persistence/persistence.h"
#include "server/recover_log.h"
#include "server/run/server.h"
#include "server/run/take_over_giver.h"
#include "server/run/take_over_taker.h"
#include "server/settings/flag_help.h"
#include "server/settings/rows.h"

namespace {

constexpr unsigned kLastPatienceSeconds = 5;

bool logs_json = false;
std::string pid_file;  // goes at the end; empty: there is none

int Fail(const std::string& error) {
  if (logs_json) {
    dfly::PrintJsonError(error);
    return 1;
  }
  fprintf(stderr, "dragonfly: %s\n", error.c_str());
  return 1;
}

// 0: none came for so long. Without a time-out it waits for one.
int WaitForSignal(const sigset_t& signals, const timespec* timeout) {
  const int number = sigtimedwait(&signals, nullptr, timeout);
  return number < 0 ? 0 : number;
}

constexpr std::string_view kThreadHasStopped = "a thread has stopped, ends without waiting for it";

// What hangs is given up: the process ends. The pid file goes as at any end.
[[noreturn]] void GiveUp(dfly::Server* server, std::string_view what) {
  LOG(ERROR) << what << ": " << server->DescribeHang();
  if (!pid_file.empty()) unlink(pid_file.c_str());
  google::FlushLogFiles(google::GLOG_INFO);
  _exit(1);
}

// Ends the process if it is not destroyed in time.
class StopGuard {
 public:
  explicit StopGuard(dfly::Server* server)
      : thread_([this, server, end_ns = helio::MonotonicNanos() + server->ShutdownPatienceNanos()] {
          std::unique_lock lock(mutex_);
          while (!is_over_ && helio::MonotonicNanos() < end_ns) changed_.WaitUntil(lock, end_ns);
          if (!is_over_) GiveUp(server, "the end does not come, ends now");
        }) {}
  ~StopGuard() {
    {
      const std::lock_guard guard(mutex_);
      is_over_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

 private:
  helio::Mutex mutex_;
  helio::CondVar changed_;
  bool is_over_ = false;  // guarded by mutex_
  std::thread thread_;
};

// SIGINT or SIGTERM has come, and is to come again: who asks does not act on it.
bool IsToEnd() {
  constexpr timespec kAtOnce = {};
  sigset_t signals;
  sigemptyset(&signals);
  for (int number : {SIGINT, SIGTERM}) sigaddset(&signals, number);
  const int number = WaitForSignal(signals, &kAtOnce);
  if (number == 0) return false;
  kill(getpid(), number);
  return true;
}

// Blocked here and so in all threads that are made later: the main thread waits for them.
sigset_t BlockSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGCONT}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// --healthcheck: the exit status.
int CheckHealth() {
  FLAGS_minloglevel = google::GLOG_ERROR;
  const std::string asked = dfly::FlagText("healthcheck");
  if (asked != "live" && asked != "ready") {
    return Fail("--healthcheck: is either live or ready");
  }
  dfly::ServerOptions options;
  std::string error = dfly::OptionsFromFlags(&options);
  if (error.empty()) error = dfly::CheckHealth(options, asked == "ready");
  return error.empty() ? 0 : Fail(error);
}

// --recover_list, --recover_to: the exit status.
int Recover() {
  FLAGS_minloglevel = google::GLOG_ERROR;
  const std::string error = dfly::RecoverLog();
  return error.empty() ? 0 : Fail(error);
}

// As redis-server does: the names of other files are meant from there. If it is not there, whoever
// wants to write says so.
void EnterDirectory() {
  char path[PATH_MAX];
  const std::string folder = dfly::FlagText("dir");
  if (folder.empty() || realpath(folder.c_str(), path) == nullptr) return;
  if (chdir(path) == 0) gflags::SetCommandLineOption("dir", path);
}

std::string BeginLog(const char* program) {
  const std::string level = dfly::FlagText("loglevel");
  if (!dfly::SetLogLevel(level)) {
    return fmt::format("--loglevel: '{}' is not debug, verbose, notice, warning or nothing", level);
  }
  const std::string format = helio::LowerCase(dfly::FlagText("log_format"));
  if (format != "text" && format != "legacy" && format != "json") {
    return fmt::format("--log_format: '{}' is not text, legacy or json", format);
  }
  if (const std::string file = dfly::FlagText("logfile"); !file.empty()) {
    if (std::string error = dfly::OpenLogFile(file); !error.empty()) return error;
  }
  google::InitGoogleLogging(program);
  if (format == "json") {
    if (std::string error = dfly::LogAsJson(); !error.empty()) return error;
    logs_json = true;
  }
  dfly::InstallCrashReport(program);
  return "";
}

// Before anybody can connect, and also if the start fails.
void LogArguments(const dfly::ServerOptions& options, const dfly::Arguments& arguments) {
  LOG(INFO) << "dragonfly " << dfly::kVersion << " starts, process " << getpid() << ", "
            << options.threads << (options.threads == 1 ? " thread" : " threads");
  if (!arguments.config_file.empty()) LOG(INFO) << "configuration: " << arguments.config_file;
  for (const std::string& warning : arguments.warnings) LOG(WARNING) << warning;
}

void LogEngine(const dfly::ServerOptions& options, dfly::Server* server) {
  const bool is_uring = server->state().pool.at(0)->engine() == helio::Proactor::Engine::kIoUring;
  LOG(INFO) << "event loops on " << (is_uring ? "io_uring" : "epoll") << ", "
            << server->state().shards->size()
            << (server->state().shards->size() == 1 ? " shard" : " shards") << ", memory limit: "
            << (options.maxmemory == 0 ? "none" : dfly::HumanBytes(options.maxmemory)) << " of "
            << dfly::HumanBytes(options.system_memory_bytes);
}

void LogReady(const dfly::ServerOptions& options, uint16_t port, uint64_t load_ns) {
  LOG(INFO) << "Ready to accept connections"
            << (options.port != 0 ? " on port " + std::to_string(port) : "")
            << (options.unix_socket.empty() ? "" : " on " + options.unix_socket)
            << fmt::format(", after {:.3f} s of loading", static_cast<double>(load_ns) / 1e9);
}

// What a signal has begun, in a thread of its own: signals are heard while it saves.
// Thread: the main one.
class Stopping {
 public:
  explicit Stopping(dfly::Server* server) : server_(server), pulse_(&server->state().pool) {}
  // REQUIRES: if it was successful, the server has stopped.
  ~Stopping() {
    {
      const std::lock_guard guard(mutex_);
      may_exit_ = true;
    }
    changed_.NotifyAll();
    if (thread_) thread_->join();
  }
  Stopping(const Stopping&) = delete;
  Stopping& operator=(const Stopping&) = delete;

  bool is_under_way() const { return thread_.has_value(); }
  void Begin(const dfly::StopRule& rule) {
    is_done_ = false;
    waited_ns_ = 0;
    last_look_ns_ = helio::MonotonicNanos();
    pulse_.Forget(last_look_ns_);
    thread_.emplace([this, rule] {
      // SHUTDOWN may be at it.
      while (server_->is_preparing_stop()) {
        helio::Waiter().WaitUntil(helio::MonotonicNanos() + kLookNanos);
      }
      error_ = server_->PrepareStop(rule);
      is_done_ = true;
      kill(getpid(), SIGCONT);  // the main thread looks
      if (!error_.empty()) return;
      // Threads may not have run yet what it has sent them, whose memory is in this thread's heap:
      // a server was seen to crash there when the thread was gone.
      std::unique_lock lock(mutex_);
      while (!may_exit_) changed_.Wait(lock);
    });
  }
  // Called now and then: ends the process if it has waited for too long. What is being written is
  // waited for, unless a thread has stopped.
  void Look() {
    if (!is_under_way() || is_done_) return;
    const uint64_t patience_ns = server_->ShutdownPatienceNanos();
    const uint64_t now_ns = helio::MonotonicNanos();
    const uint64_t since_ns = now_ns - std::exchange(last_look_ns_, now_ns);
    const bool is_at_work = server_->persistence().is_writing() || server_->awaits_replicas();
    if (!is_at_work) waited_ns_ += since_ns;
    if (pulse_.LongestSilence(now_ns) >= patience_ns) {
      GiveUp(server_, kThreadHasStopped);
    }
    if (waited_ns_ < patience_ns) return;
    GiveUp(server_, "the last snapshot does not get its locks, ends without one");
  }
  // The server ends without a snapshot.
  void GiveUpSave() {
    if (!is_under_way()) return;
    server_->AbortStop();
    thread_->join();
    thread_.reset();
  }
  // Once it is over: why the server goes on, or an empty text.
  std::optional<std::string> TakeResult() {
    if (!thread_ || !is_done_) return std::nullopt;
    if (error_.empty()) return error_;
    thread_->join();
    thread_.reset();
    return error_;
  }

 private:
  static constexpr uint64_t kLookNanos = 10'000'000;

  dfly::Server* const server_;
  dfly::Pulse pulse_;
  uint64_t waited_ns_ = 0;  // while nothing was written
  uint64_t last_look_ns_ = 0;
  std::optional<std::thread> thread_;
  std::string error_;  // set before is_done_
  std::atomic<bool> is_done_{false};
  helio::Mutex mutex_;
  helio::CondVar changed_;
  bool may_exit_ = false;  // guarded by mutex_
};

// Somebody insists: nothing is waited for but that the file which is being written is gone.
[[noreturn]] void EndNow(dfly::Server* server) {
  LOG(WARNING) << "a second SIGINT: ends now, without a save";
  alarm(kLastPatienceSeconds);  // a thread of the server may hang
  server->AbortStop();
  _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const bool counts_tls = helio::CountTlsMemory();
  dfly::RegisterSettings(dfly::AllSettings());
  const std::string help = dfly::HelpFor({argv + 1, argv + argc});
  if (!help.empty()) {
    fputs(help.c_str(), stdout);
    return 0;
  }
  dfly::Arguments arguments;
  std::string error = dfly::ParseFlags(argc, argv, &arguments);
  if (!error.empty()) return Fail(error);
  if (!dfly::FlagText("healthcheck").empty()) return CheckHealth();
  if (dfly::IsRecoveryWanted()) return Recover();
  EnterDirectory();
  if (dfly::FlagText("daemonize") == "true") {
    error = dfly::Daemonize(!dfly::FlagText("take_over").empty());
  }
  if (error.empty()) error = BeginLog(argv[0]);
  if (!error.empty()) return Fail(error);
  const sigset_t signals = BlockSignals();
  LOG_IF(WARNING, !counts_tls) << "what TLS allocates is not counted in used_memory";

  dfly::ServerOptions options;
  error = dfly::OptionsFromFlags(&options);
  if (!error.empty()) return Fail(error);
  options.config_file = arguments.config_file;
  options.request_stop = [] { kill(getpid(), SIGTERM); };
  pid_file = options.pid_file;
  LogArguments(options, arguments);

  const bool takes_over = !options.take_over.empty();
  dfly::TakeOverTaker taker(options, [] { return IsToEnd(); });
  if (takes_over) error = taker.Connect();
  if (!error.empty()) return Fail("--take_over: " + error);

  dfly::Server server(options, dfly::AllParts());
  dfly::TakeOverGiver giver(&server, [] { kill(getpid(), SIGCONT); });  // the main thread looks
  error = server.Start();
  if (!error.empty()) return Fail(error);
  LogEngine(options, &server);
  if (takes_over) {
    error = taker.Run(&server);
    if (!error.empty()) {
      server.Stop();
      return Fail("--take_over: " + error);
    }
    LOG(INFO) << "has taken over";
    dfly::NotifyServiceManager(fmt::format("MAINPID={}\nREADY=1\nSTATUS=serving", getpid()));
    taker.Finish(&server, [] {
      dfly::AwaitServiceManager();  // it must not hear of the other one's end before
      dfly::EndAwaited();
    });
  } else {
    dfly::NotifyServiceManager("STATUS=loading");
  }
  giver.Open();
  std::atomic<bool> is_loaded{false};
  std::string load_error;  // set before is_loaded
  const uint64_t begin_ns = helio::MonotonicNanos();
  if (!takes_over) {
    server.Load([&](std::string why) {
      load_error = std::move(why);
      is_loaded = true;
      kill(getpid(), SIGCONT);  // the main thread looks
    });
  }
  bool was_loaded = false;
  bool is_asked_again = false;
  Stopping stopping(&server);
  const auto begin_to_stop = [&](int signal_number) {
    LOG(INFO) << "stopping (" << strsignal(signal_number) << ")";
    dfly::NotifyServiceManager("STOPPING=1\nSTATUS=stopping");
    is_asked_again = false;
    stopping.Begin(signal_number == SIGINT ? server.on_sigint() : server.on_sigterm());
  };
  while (true) {
    const timespec kTick = {.tv_sec = 0, .tv_nsec = 100'000'000};
    const int signal_number = WaitForSignal(signals, stopping.is_under_way() ? &kTick : nullptr);
    stopping.Look();
    if (giver.is_taken()) break;
    if (signal_number == 0) continue;
    if (!was_loaded && is_loaded) {
      was_loaded = true;
      if (!load_error.empty()) {
        LOG(ERROR) << "cannot load the snapshot: " << helio::LogText(load_error);
        giver.Close();
        server.Stop();
        return Fail(
            fmt::format("cannot load the snapshot, and starts with nothing else: {}", load_error));
      }
      LogReady(options, server.state().port, helio::MonotonicNanos() - begin_ns);
      dfly::NotifyServiceManager("READY=1\nSTATUS=serving");
    }
    if (signal_number == SIGCONT) {
      const std::optional<std::string> result = stopping.TakeResult();
      if (!result) continue;
      if (result->empty()) break;
      // Better to go on than to lose what was promised to be kept.
      LOG(ERROR) << "Error trying to save the DB, can't exit: " << helio::LogText(*result)
                 << ". SHUTDOWN NOSAVE ends it without.";
      dfly::NotifyServiceManager("READY=1\nSTATUS=serving; cannot save");
      if (is_asked_again) begin_to_stop(SIGTERM);
      continue;
    }
    if (signal_number == SIGHUP) {
      if (server.state().audit != nullptr) server.state().audit->Reopen();
      error = options.log_file.empty() ? "" : dfly::OpenLogFile(options.log_file);
      if (!error.empty()) LOG(ERROR) << error;
      continue;
    }
    if (!stopping.is_under_way()) {
      begin_to_stop(signal_number);
      continue;
    }
    is_asked_again = true;  // perhaps by SHUTDOWN, just behind a save that has failed
    if (signal_number == SIGINT) EndNow(&server);
  }
  if (giver.is_taken()) {
    stopping.GiveUpSave();
    pid_file.clear();  // it is the other process' now
  }
  if (server.hangs()) GiveUp(&server, kThreadHasStopped);
  {
    const StopGuard guard(&server);
    giver.Close();
    if (giver.is_taken()) pid_file.clear();  // only now, with the signal on its way
    server.Stop();
  }
  giver.Release();
  constexpr uint64_t kAuditEndMillis = 5000;
  if (auto& audit = server.state().audit; audit != nullptr && !audit->EndWithin(kAuditEndMillis)) {
    LOG(ERROR) << "--audit_log: a write does not end, its last lines are lost";
    std::ignore = audit.release();  // its thread goes with the process
  }
  if (!pid_file.empty()) unlink(pid_file.c_str());
  LOG(INFO) << "dragonfly is now ready to exit, bye bye...";
  return 0;
}
