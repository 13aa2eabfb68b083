// SPDX-License-Identifier: Apache-2.0
#include <gflags/gflags.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <sstream>

#include "helio/base/logging.h"
#include "server/server.h"

DEFINE_uint32(port, 6379, "TCP port; 0: none");
DEFINE_string(bind, "127.0.0.1", "Addresses to listen on, separated by spaces");
DEFINE_uint32(proactor_threads, 1, "Threads");
DEFINE_uint32(num_shards, 0, "Shards; 0: as many as threads");
DEFINE_bool(force_epoll, false, "Use epoll even where io_uring works");

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  google::InitGoogleLogging(argv[0]);
  signal(SIGPIPE, SIG_IGN);
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  dfly::ServerOptions options;
  std::istringstream binds(FLAGS_bind);
  for (std::string bind; binds >> bind;) options.binds.push_back(bind);
  options.port = static_cast<uint16_t>(FLAGS_port);
  options.threads = FLAGS_proactor_threads;
  options.num_shards = FLAGS_num_shards;
  options.force_epoll = FLAGS_force_epoll;
  dfly::Server server(options);
  const std::string error = server.Start();
  if (!error.empty()) {
    fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  int signal_number = 0;
  sigwait(&stop_signals, &signal_number);
  server.Stop();
  return 0;
}
