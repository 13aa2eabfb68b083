// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gflags/gflags.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/net/tls_memory.h"
#include "server/flags.h"
#include "server/health_check.h"
#include "server/process.h"
#include "server/server.h"
#include "server/units.h"
#include "server/version.h"

DECLARE_bool(daemonize);
DECLARE_string(dir);
DECLARE_string(healthcheck);
DECLARE_string(logfile);
DECLARE_string(loglevel);

namespace {

int Fail(const std::string& error) {
  fprintf(stderr, "dragonfly: %s\n", error.c_str());
  return 1;
}

int WaitForSignal(const sigset_t& signals) {
  int number = 0;
  sigwait(&signals, &number);
  return number;
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
  if (FLAGS_healthcheck != "live" && FLAGS_healthcheck != "ready") {
    return Fail("--healthcheck: is either live or ready");
  }
  dfly::ServerOptions options;
  std::string error = dfly::OptionsFromFlags(&options);
  if (error.empty()) error = dfly::CheckHealth(options, FLAGS_healthcheck == "ready");
  return error.empty() ? 0 : Fail(error);
}

// As redis-server does: the names of other files are meant from there. If it is not there, whoever
// wants to write says so.
void EnterDirectory() {
  char path[PATH_MAX];
  if (FLAGS_dir.empty() || realpath(FLAGS_dir.c_str(), path) == nullptr) return;
  if (chdir(path) == 0) FLAGS_dir = path;
}

std::string BeginLog(const char* program) {
  if (!dfly::SetLogLevel(FLAGS_loglevel)) {
    return fmt::format("--loglevel: '{}' is not debug, verbose, notice or warning", FLAGS_loglevel);
  }
  if (!FLAGS_logfile.empty()) {
    if (std::string error = dfly::OpenLogFile(FLAGS_logfile); !error.empty()) return error;
  }
  google::InitGoogleLogging(program);
  dfly::InstallCrashReport(program);
  return "";
}

void LogStart(const dfly::ServerOptions& options, const dfly::Arguments& arguments,
              dfly::Server* server) {
  const bool is_uring = server->pool().at(0)->engine() == helio::Proactor::Engine::kIoUring;
  LOG(INFO) << "event loops on " << (is_uring ? "io_uring" : "epoll") << ", "
            << server->shards().size() << (server->shards().size() == 1 ? " shard" : " shards")
            << ", memory limit: "
            << (options.maxmemory == 0 ? "none" : dfly::HumanBytes(options.maxmemory)) << " of "
            << dfly::HumanBytes(options.system_memory_bytes);
  if (!arguments.config_file.empty()) LOG(INFO) << "configuration: " << arguments.config_file;
  for (const std::string& warning : arguments.warnings) LOG(WARNING) << warning;
}

void LogReady(const dfly::ServerOptions& options, uint16_t port, uint64_t load_ns) {
  LOG(INFO) << "Ready to accept connections"
            << (options.port != 0 ? " on port " + std::to_string(port) : "")
            << (options.unix_socket.empty() ? "" : " on " + options.unix_socket)
            << fmt::format(", after {:.3f} s of loading", static_cast<double>(load_ns) / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  const bool counts_tls = helio::CountTlsMemory();
  dfly::Arguments arguments;
  std::string error = dfly::ParseFlags(argc, argv, &arguments);
  if (!error.empty()) return Fail(error);
  if (!FLAGS_healthcheck.empty()) return CheckHealth();
  EnterDirectory();
  if (FLAGS_daemonize) error = dfly::Daemonize();
  if (error.empty()) error = BeginLog(argv[0]);
  if (!error.empty()) return Fail(error);
  const sigset_t signals = BlockSignals();
  LOG_IF(WARNING, !counts_tls) << "what TLS allocates is not counted in used_memory";

  dfly::ServerOptions options;
  error = dfly::OptionsFromFlags(&options);
  if (!error.empty()) return Fail(error);
  options.config_file = arguments.config_file;
  options.request_stop = [] { kill(getpid(), SIGTERM); };
  LOG(INFO) << "dragonfly " << dfly::kVersion << " starts, process " << getpid() << ", "
            << options.threads << (options.threads == 1 ? " thread" : " threads");

  dfly::Server server(options);
  error = server.Start();
  if (!error.empty()) return Fail(error);
  LogStart(options, arguments, &server);
  if (!options.pid_file.empty()) {
    std::ofstream file(options.pid_file);
    file << getpid() << "\n";
    if (!file.flush()) LOG(WARNING) << "cannot write the pid file " << options.pid_file;
  }
  dfly::NotifyServiceManager("STATUS=loading");
  std::atomic<bool> is_loaded{false};
  std::string load_error;  // set before is_loaded
  const uint64_t begin_ns = helio::MonotonicNanos();
  server.Load([&](std::string why) {
    load_error = std::move(why);
    is_loaded = true;
    kill(getpid(), SIGCONT);  // the main thread looks
  });
  bool was_loaded = false;
  while (true) {
    const int signal_number = WaitForSignal(signals);
    if (!was_loaded && is_loaded) {
      was_loaded = true;
      if (!load_error.empty()) {
        LOG(ERROR) << "cannot load the snapshot: " << load_error;
        server.Stop();
        return Fail(
            fmt::format("cannot load the snapshot, and starts with nothing else: {}", load_error));
      }
      LogReady(options, server.port(), helio::MonotonicNanos() - begin_ns);
      dfly::NotifyServiceManager("READY=1\nSTATUS=serving");
    }
    if (signal_number == SIGCONT) continue;
    if (signal_number == SIGHUP) {
      error = FLAGS_logfile.empty() ? "" : dfly::OpenLogFile(FLAGS_logfile);
      if (!error.empty()) LOG(ERROR) << error;
      continue;
    }
    LOG(INFO) << "stopping (" << strsignal(signal_number) << ")";
    dfly::NotifyServiceManager("STOPPING=1\nSTATUS=stopping");
    error = server.PrepareStop();
    if (error.empty()) break;
    // Better to go on than to lose what was promised to be kept.
    LOG(ERROR) << "cannot save, so the server goes on: " << error
               << ". SHUTDOWN NOSAVE ends it without.";
    dfly::NotifyServiceManager("READY=1\nSTATUS=serving; cannot save");
  }
  server.Stop();
  if (!options.pid_file.empty()) unlink(options.pid_file.c_str());
  LOG(INFO) << "bye";
  return 0;
}
