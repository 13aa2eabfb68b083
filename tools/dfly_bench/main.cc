// SPDX-License-Identifier: Apache-2.0
// dfly_bench: loads a Redis-compatible server and tells how it did. See --help.
#include <gflags/gflags.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <string>

#include "helio/base/logging.h"
#include "tools/dfly_bench/load_run.h"
#include "tools/dfly_bench/report.h"

DEFINE_string(h, "127.0.0.1", "Host name or address of the server");
DEFINE_uint32(p, 6379, "Port of the server");
DEFINE_uint32(c, 20, "Connections on each thread");
DEFINE_uint64(n, 1000,
              "Requests on each connection. 0, or --test_time without -n: until the time is over");
DEFINE_uint32(d, 16, "Bytes of a value");
DEFINE_uint32(proactor_threads, 0, "Threads; 0: one for each core that the process may use");
DEFINE_bool(force_epoll, false, "Use epoll where io_uring would be used");
DEFINE_uint32(pipeline, 1,
              "Requests that leave together on a connection; the next ones leave when all of "
              "these are answered");
DEFINE_string(ratio, "1:10", "SETs to GETs");
DEFINE_double(qps, 0,
              "Requests a second on each connection. 0: closed loop, each waits for the reply to "
              "the one before. Positive: open loop, requests are sent when they are due, and "
              "latencies count from then, so a server that stalls cannot hide it. At most 1024, or "
              "--pipeline if larger, are in flight on a connection");
DEFINE_uint32(test_time, 0, "Seconds after which the run ends; 0: when -n is done");
DEFINE_uint64(key_minimum, 0, "The smallest key number");
DEFINE_uint64(key_maximum, 1'000'000, "The largest key number");
DEFINE_string(key_prefix, "key:", "What stands before the number in a key");
DEFINE_string(key_dist, "U",
              "Which keys are asked for: U uniform, N normal around the middle, Z zipfian (small "
              "numbers are hot), S sequential: all connections together go through all keys");
DEFINE_double(zipf_alpha, 0.99, "Skew of --key_dist=Z; 0 is uniform");
DEFINE_uint64(seed, 1, "The same seed makes each connection send the same requests");
DEFINE_string(command, "",
              "Send this instead of SETs and GETs. __key__, __data__ and __score__ are filled in "
              "anew for each request, e.g. 'ZADD z __score__ __data__'");
DEFINE_string(scenario, "",
              "Send what an application sends. bullmq: BullMQ's script that adds a job, over "
              "--queues queues, with the arguments recorded in --script_file. brpop: Sidekiq's "
              "loop over --queues queues; -n counts jobs, each connection pushes --pipeline of "
              "them at once and then pops as many one by one, and only the pops are timed. "
              "lua_lists: a script that pushes a JSON array of 9 values to the 5 --list_keys and "
              "trims each, 50 commands in all");
DEFINE_string(script_file, "",
              "--scenario=bullmq: the recorded call, written by tools/bench/bullmq/capture.js");
DEFINE_uint32(queues, 8, "--scenario=bullmq and brpop: queues");
DEFINE_string(queue_prefix, "bull", "--scenario=bullmq: what a queue's keys begin with");
DEFINE_bool(braces, false, "--scenario=bullmq: queues are called {q0} and not q0, and so on");
DEFINE_bool(random_queues, false,
            "--scenario=bullmq: each job goes to a random queue. Otherwise connection i adds to "
            "queue i modulo --queues, as an application that has a connection for each queue");
DEFINE_string(list_keys, "l1 l2 l3 l4 l5",
              "--scenario=lua_lists: five keys; __key__ is filled in anew for each request");
DEFINE_string(password, "", "Send AUTH with it first");
DEFINE_bool(tls, false, "Speak TLS");
DEFINE_string(tls_ca_cert_file, "", "--tls: who may sign the server's certificate (PEM)");
DEFINE_bool(tls_skip_verify, false, "--tls: any server will do");
DEFINE_string(tls_cert_file, "", "--tls: the certificate of the clients (PEM)");
DEFINE_string(tls_key_file, "", "--tls: its private key");
DEFINE_string(tls_protocols, "", "--tls: TLSv1.2, TLSv1.3, or both; empty: both");
DEFINE_string(json_out_file, "", "Write the outcome there, too");
DEFINE_bool(connect_only, false, "Only open the connections and keep them for --test_time seconds");
DECLARE_bool(help);
DECLARE_bool(helpshort);

namespace {

using dfly::bench::KeyDistribution;
using dfly::bench::LoadOptions;
using dfly::bench::LoadResult;
using dfly::bench::LoadStats;
using dfly::bench::Scenario;

std::atomic<bool> interrupted{false};

// "3:7". Returns false if it is none.
bool ParseRatio(const std::string& text, uint32_t* sets, uint32_t* gets) {
  int end = 0;
  unsigned a = 0, b = 0;
  if (text.size() > 15 || text.find_first_not_of("0123456789:") != std::string::npos ||
      sscanf(text.c_str(), "%7u:%7u%n", &a, &b, &end) != 2 ||
      static_cast<size_t>(end) != text.size()) {
    return false;
  }
  *sets = a;
  *gets = b;
  return true;
}

// Returns false if there is no such scenario.
bool ParseScenario(const std::string& name, Scenario* scenario) {
  static constexpr struct {
    const char* name;
    Scenario scenario;
  } kScenarios[] = {{"", Scenario::kNone},
                    {"bullmq", Scenario::kBullmq},
                    {"brpop", Scenario::kBrpop},
                    {"lua_lists", Scenario::kLuaLists}};
  for (const auto& candidate : kScenarios) {
    if (name != candidate.name) continue;
    *scenario = candidate.scenario;
    return true;
  }
  return false;
}

// Returns false if TLS is not possible as the flags ask for it.
bool ReadTlsFlags(LoadOptions* options, std::string* error) {
  if (!FLAGS_tls) return true;
  if (options->scenario == Scenario::kBullmq || options->scenario == Scenario::kLuaLists) {
    *error = "--tls: not with a scenario that loads a script";
    return false;
  }
  if (FLAGS_tls_ca_cert_file.empty() != FLAGS_tls_skip_verify) {
    *error = "--tls: either --tls_ca_cert_file or --tls_skip_verify";
    return false;
  }
  using PeerCheck = helio::TlsOptions::PeerCheck;
  helio::TlsOptions tls;
  tls.ca_cert_file = FLAGS_tls_ca_cert_file;
  tls.peer_check = FLAGS_tls_skip_verify ? PeerCheck::kNone : PeerCheck::kRequired;
  tls.cert_file = FLAGS_tls_cert_file;
  tls.key_file = FLAGS_tls_key_file;
  tls.protocols = FLAGS_tls_protocols;
  options->tls = helio::TlsContext::Make(helio::TlsContext::Side::kClient, tls, error);
  return options->tls != nullptr;
}

bool ReadFlags(LoadOptions* options, std::string* error) {
  options->host = FLAGS_h;
  options->password = FLAGS_password;
  options->threads = FLAGS_proactor_threads;
  if (options->threads == 0) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    options->threads = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
                           ? static_cast<uint32_t>(CPU_COUNT(&allowed))
                           : 1;
  }
  options->force_epoll = FLAGS_force_epoll;
  options->connections = FLAGS_c;
  const bool n_given = !gflags::GetCommandLineFlagInfoOrDie("n").is_default;
  options->requests = FLAGS_test_time > 0 && !n_given ? 0 : FLAGS_n;
  options->test_time_s = FLAGS_test_time;
  options->pipeline = FLAGS_pipeline;
  options->qps = FLAGS_qps;
  options->connect_only = FLAGS_connect_only;
  options->seed = FLAGS_seed;
  options->keys.minimum = FLAGS_key_minimum;
  options->keys.maximum = FLAGS_key_maximum;
  options->keys.zipf_alpha = FLAGS_zipf_alpha;
  options->key_prefix = FLAGS_key_prefix;
  options->value_size = FLAGS_d;
  options->command = FLAGS_command;
  options->script_file = FLAGS_script_file;
  options->queues = FLAGS_queues;
  options->queue_prefix = FLAGS_queue_prefix;
  options->braces = FLAGS_braces;
  options->random_queues = FLAGS_random_queues;
  options->list_keys = FLAGS_list_keys;
  if (!ParseScenario(FLAGS_scenario, &options->scenario)) {
    *error = "--scenario: one of bullmq, brpop, lua_lists";
    return false;
  }
  if (!ReadTlsFlags(options, error)) return false;
  if (FLAGS_p == 0 || FLAGS_p > 65535) {
    *error = "-p: a port is between 1 and 65535";
    return false;
  }
  options->port = static_cast<uint16_t>(FLAGS_p);
  const std::string dist = FLAGS_key_dist;
  if (dist.size() != 1 || std::string("UNZS").find(dist) == std::string::npos) {
    *error = "--key_dist: one of U, N, Z, S";
    return false;
  }
  options->keys.distribution = static_cast<KeyDistribution>(dist[0]);
  if (!ParseRatio(FLAGS_ratio, &options->set_ratio, &options->get_ratio)) {
    *error = "--ratio: SETs:GETs, such as 1:10";
    return false;
  }
  *error = CheckOptions(*options);
  return error->empty();
}

// A terminal gets one line that is written over, everything else a line in five seconds.
class Progress {
 public:
  void Show(const LoadStats& interval, double interval_s, uint64_t done, double gone_s) {
    errors_ += interval.error_replies + interval.connection_errors;
    if (!is_terminal_ && gone_s < next_s_) return;
    next_s_ = gone_s + 5;
    const std::string line = dfly::bench::ProgressLine(interval, interval_s, done, errors_, gone_s);
    fprintf(stderr, is_terminal_ ? "\r%s\033[K" : "%s\n", line.c_str());
    shown_ = true;
  }
  void End() {
    if (is_terminal_ && shown_) fputc('\n', stderr);
  }

 private:
  const bool is_terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  uint64_t errors_ = 0;
  double next_s_ = 4.9;
};

bool WriteFile(const std::string& path, const std::string& text) {
  FILE* file = fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  return (fclose(file) == 0) && written;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::SetUsageMessage(
      "loads a Redis-compatible server.\n"
      "  dfly_bench -h 127.0.0.1 -p 6379 -c 50 -n 20000 --proactor_threads=1 --ratio=0:1\n"
      "  dfly_bench --test_time=10 --qps=100          # open loop\n"
      "  dfly_bench --ratio=1:0 --key_dist=S -c 10 -n 100000 --key_maximum=999999   # fill\n"
      "  dfly_bench --scenario=brpop -c 40 -n 5000 -d 200 --pipeline=20\n"
      "Exit status: 0; 1 if connections failed, the protocol was broken or every reply was an "
      "error; 2 for wrong flags.");
  gflags::ParseCommandLineNonHelpFlags(&argc, &argv, true);
  if (FLAGS_help || FLAGS_helpshort) {
    gflags::ShowUsageWithFlagsRestrict(argv[0], "dfly_bench/main");
    return 0;
  }
  gflags::HandleCommandLineHelpFlags();
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  LoadOptions options;
  std::string error;
  if (argc > 1) error = std::string("what is '") + argv[1] + "'? Flags only, please";
  if (!error.empty() || !ReadFlags(&options, &error)) {
    fprintf(stderr, "dfly_bench: %s\n", error.c_str());
    return 2;
  }
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one kills
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  Progress progress;
  LoadResult result;
  const bool ran = RunLoad(
      options, &interrupted,
      [&](const LoadStats& interval, double interval_s, uint64_t done, double gone_s) {
        progress.Show(interval, interval_s, done, gone_s);
      },
      &result, &error);
  progress.End();
  if (!ran) {
    fprintf(stderr, "dfly_bench: %s\n", error.c_str());
    return 1;
  }
  fputs(ReportTable(result).c_str(), stdout);
  if (!FLAGS_json_out_file.empty() &&
      !WriteFile(FLAGS_json_out_file, ReportJson(options, result))) {
    perror(FLAGS_json_out_file.c_str());
    return 1;
  }
  return Succeeded(result) ? 0 : 1;
}
