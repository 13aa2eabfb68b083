// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>

#include "helio/base/logging.h"
#include "helio/net/tls_memory.h"
#include "server/flags.h"
#include "server/server.h"
#include "server/units.h"
#include "server/version.h"

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

}  // namespace

int main(int argc, char** argv) {
  const bool counts_tls = helio::CountTlsMemory();
  std::string error = dfly::ParseFlags(&argc, &argv);
  if (!error.empty()) return Fail(error);
  google::InitGoogleLogging(argv[0]);
  LOG_IF(WARNING, !counts_tls) << "what TLS allocates is not counted in used_memory";

  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGCONT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // also in the threads that are made later

  dfly::ServerOptions options;
  error = dfly::OptionsFromFlags(&options);
  if (!error.empty()) return Fail(error);
  options.request_stop = [] { kill(getpid(), SIGTERM); };
  LOG(INFO) << "dragonfly " << dfly::kVersion << " starts, process " << getpid() << ", "
            << options.threads << (options.threads == 1 ? " thread" : " threads");

  dfly::Server server(options);
  error = server.Start();
  if (!error.empty()) return Fail(error);
  const bool is_uring = server.pool().at(0)->engine() == helio::Proactor::Engine::kIoUring;
  // That io_uring was refused has been logged already.
  const char* loop = is_uring              ? "event loops on io_uring, "
                     : options.force_epoll ? "event loops on epoll, "
                                           : "";
  LOG(INFO) << loop << "memory limit: "
            << (options.maxmemory == 0 ? "none" : dfly::HumanBytes(options.maxmemory)) << " of "
            << dfly::HumanBytes(options.system_memory_bytes);
  if (!options.pid_file.empty()) {
    std::ofstream file(options.pid_file);
    file << getpid() << "\n";
    if (!file.flush()) LOG(WARNING) << "cannot write the pid file " << options.pid_file;
  }
  std::atomic<bool> is_loaded{false};
  std::string load_error;  // set before is_loaded
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
      LOG(INFO) << "ready to accept connections"
                << (options.port != 0 ? " on port " + std::to_string(options.port) : "")
                << (options.unix_socket.empty() ? "" : " on " + options.unix_socket);
    }
    if (signal_number == SIGCONT) continue;
    LOG(INFO) << "stopping (" << strsignal(signal_number) << ")";
    error = server.PrepareStop();
    if (error.empty()) break;
    // Better to go on than to lose what was promised to be kept.
    LOG(ERROR) << "cannot save, so the server goes on: " << error
               << ". SHUTDOWN NOSAVE ends it without.";
  }
  server.Stop();
  if (!options.pid_file.empty()) unlink(options.pid_file.c_str());
  LOG(INFO) << "bye";
  return 0;
}
