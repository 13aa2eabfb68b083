// SPDX-License-Identifier: Apache-2.0
// Replicas that have left and may come back: from where on they lack the stream, so that rewrites
// of the log keep the files that have it (AppendLog::SetNeededFrom).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dfly {

// Owner: Replicas, on proactor 0. Suspends: never.
class AbsentReplicas {
 public:
  // More are not remembered; those that left first are forgotten.
  static constexpr size_t kMax = 64;
  static constexpr uint64_t kNoOffset = UINT64_MAX;

  // The replica at `address` (ip:port) has left. It has the stream up to `offset`. `now_ns` here
  // and below is monotonic.
  void OnLeft(std::string address, uint64_t offset, uint64_t now_ns);
  // It needs nothing of the log any more: it goes on with the backlog, or gets a copy.
  void OnBack(const std::string& address);
  // Nobody can go on with what there was.
  void Clear() { all_.clear(); }
  // Forgets those that have been away for `ttl_s` seconds, and returns who they are. 0: for ever.
  std::vector<std::string> Expire(uint64_t now_ns, uint64_t ttl_s);

  // From where on somebody lacks the stream; kNoOffset: nobody does.
  uint64_t first_offset() const;

 private:
  struct Absent {
    std::string address;
    uint64_t offset;
    uint64_t left_ns;
  };
  std::vector<Absent> all_;  // who left first stands first
};

}  // namespace dfly
