// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "helio/base/logging.h"
#include "server/flags.h"
#include "server/server.h"
#include "server/units.h"
#include "server/version.h"

namespace {

int Fail(const std::string& error) {
  fprintf(stderr, "dragonfly: %s\n", error.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string error = dfly::ParseFlags(&argc, &argv);
  if (!error.empty()) return Fail(error);
  google::InitGoogleLogging(argv[0]);

  signal(SIGPIPE, SIG_IGN);
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);  // also in the threads that are made later

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
  LOG(INFO) << "ready to accept connections"
            << (options.port != 0 ? " on port " + std::to_string(options.port) : "")
            << (options.unix_socket.empty() ? "" : " on " + options.unix_socket);

  int signal_number = 0;
  sigwait(&stop_signals, &signal_number);
  LOG(INFO) << "stopping (" << strsignal(signal_number) << ")";
  server.Stop();
  if (!options.pid_file.empty()) unlink(options.pid_file.c_str());
  LOG(INFO) << "bye";
  return 0;
}
