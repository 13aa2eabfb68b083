// SPDX-License-Identifier: Apache-2.0
// What a run of the load generator is asked to do, and what it has seen.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "helio/base/histogram.h"
#include "helio/net/tls.h"
#include "tools/dfly_bench/key_source.h"

namespace dfly::bench {

// What the requests imitate; request_source.h tells which they are.
enum class Scenario : uint8_t { kNone, kBullmq, kBrpop, kLuaLists };

struct LoadOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 6379;
  std::string password;
  std::shared_ptr<const helio::TlsContext> tls;  // null: plain
  uint32_t threads = 1;
  bool force_epoll = false;
  uint32_t connections = 1;  // on each thread
  uint64_t requests = 0;     // on each connection; 0: until test_time_s is over
  uint32_t test_time_s = 0;  // 0: until `requests` are done
  uint32_t pipeline = 1;
  double qps = 0;  // of each connection; 0: closed loop
  bool connect_only = false;
  uint64_t seed = 1;

  KeySourceOptions keys;
  std::string key_prefix = "key:";
  uint32_t value_size = 16;
  std::string command;  // empty: SETs and GETs by the ratio
  uint32_t set_ratio = 1;
  uint32_t get_ratio = 10;

  Scenario scenario = Scenario::kNone;
  std::string script_file;                   // bullmq: a recorded call, see script_call.h
  uint32_t queues = 8;                       // bullmq, brpop
  std::string queue_prefix = "bull";         // bullmq
  bool braces = false;                       // bullmq: the queue's name is a hashtag
  bool random_queues = false;                // bullmq: else each connection has its queue
  std::string list_keys = "l1 l2 l3 l4 l5";  // lua_lists

  uint32_t reply_timeout_s = 60;  // a run in which nothing arrives for so long is broken off
};

// Counters that threads gather and the main thread adds up.
struct LoadStats {
  uint64_t replies = 0;
  uint64_t jobs = 0;  // those of them that a scenario counts
  uint64_t error_replies = 0;
  uint64_t hits = 0;    // replies that are strings
  uint64_t misses = 0;  // replies that are null
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t unanswered = 0;         // requests whose reply never came
  uint64_t connection_errors = 0;  // connections that broke, refused the password, or fell silent
  uint64_t protocol_errors = 0;
  std::string first_error;  // of any kind
  helio::Histogram latency_ns;

  void NoteError(std::string_view text) {
    if (first_error.empty()) first_error = text.substr(0, 200);
  }
  void Merge(const LoadStats& other) {
    replies += other.replies;
    jobs += other.jobs;
    error_replies += other.error_replies;
    hits += other.hits;
    misses += other.misses;
    bytes_sent += other.bytes_sent;
    bytes_received += other.bytes_received;
    unanswered += other.unanswered;
    connection_errors += other.connection_errors;
    protocol_errors += other.protocol_errors;
    if (first_error.empty()) first_error = other.first_error;
    latency_ns.Merge(other.latency_ns);
  }
};

// The outcome of a run.
struct LoadResult {
  LoadStats stats;
  double seconds = 0;     // from the first request to the last reply
  double cpu_user_s = 0;  // of this process in that time
  double cpu_system_s = 0;
  uint64_t connections = 0;
  bool interrupted = false;
};

}  // namespace dfly::bench
