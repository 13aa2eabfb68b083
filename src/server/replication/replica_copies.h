// SPDX-License-Identifier: Apache-2.0
// Copies of all data for those replicas that ask for one.
//
//   Persistence --RDB--> ReplicaCopy --> ReplicaFeed of each replica that waits for such a copy
//
// One is made at a time, and is for all that have asked for it until it begins: at its cut, with
// all shards locked, it gets its place in the stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "server/options/options.h"
#include "server/replication/replica_feed.h"

namespace dfly {

class Persistence;
class Replicas;
struct ServerState;

// Owner:    Replicas. All of it is on proactor 0, but what says so.
// Suspends: what says so.
class ReplicaCopies {
 public:
  // All outlive it.
  ReplicaCopies(ServerState* server, Persistence* persistence, Replicas* replicas);
  void SetOptions(const ReplicationOptions& options) { options_ = options; }

  // Somebody waits for a copy.
  void Start() {
    RunAlone([] {});
  }
  // Calls work() on a fiber when no copy is being made, and goes on with those that wait for one.
  // Nothing if a copy is being made.
  void RunAlone(std::function<void()> work);
  bool is_busy() const { return is_busy_; }
  uint64_t count() const { return count_; }
  void ResetCount() { count_ = 0; }

 private:
  class Output;

  void RunAll();
  void AwaitOthers();
  void Run();
  // What follows returns an error, or nothing.
  std::string Save(const std::shared_ptr<ReplicaCopy>& copy, const std::string& path);
  // Of the file at `path`, which has the whole copy.
  std::string SendSized(ReplicaCopy& copy, const std::string& path);
  // Suspends while its slowest reader is far behind. Thread: any.
  std::error_code Append(ReplicaCopy& copy, std::string_view bytes,
                         const std::atomic<bool>* is_cancelled);
  // With all shards locked.
  bool Begin(const std::shared_ptr<ReplicaCopy>& copy);
  void Send(const std::shared_ptr<ReplicaCopy>& copy);
  void End(const std::shared_ptr<ReplicaCopy>& copy, const std::string& error);
  // Clients that write have to wait, because some do not take their copy as fast as it is made.
  void EndSlowReaders(const ReplicaCopy* copy, uint64_t end);
  bool HasWaiting() const;
  bool HasWaiting(const CopyForm& form) const;

  ServerState& server_;
  Persistence& persistence_;
  Replicas& replicas_;
  ReplicationOptions options_;
  bool is_busy_ = false;
  uint64_t count_ = 0;
};

}  // namespace dfly
