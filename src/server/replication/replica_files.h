// SPDX-License-Identifier: Apache-2.0
// Replicas that were away for longer than the backlog reaches back go on from the files of the
// append-only log, until they are where the backlog begins.
//
//   LogStream --> FilePart --> ReplicaFeed
#pragma once

#include <cstdint>
#include <memory>

namespace dfly {

class AppendLog;
class LogStream;
class Replicas;
struct FilePart;
struct Replica;

// Owner: Replicas, on proactor 0. Suspends: never.
class ReplicaFiles {
 public:
  // Both outlive it, and all fibers that it begins: is_busy() tells.
  ReplicaFiles(Replicas* replicas, AppendLog* log) : replicas_(*replicas), log_(*log) {}

  // The files may have what is behind `offset`.
  bool MayHave(uint64_t offset) const;
  // Looks, on a fiber. The replica gets what they have, or a copy.
  void Seek(const std::shared_ptr<Replica>& replica);
  bool is_busy() const { return seeks_ > 0; }

 private:
  // What follows suspends.
  void Send(const std::shared_ptr<Replica>& replica);
  // False: they do not have what follows.
  bool SendPart(const std::shared_ptr<Replica>& replica, LogStream& files, FilePart& part);

  Replicas& replicas_;
  AppendLog& log_;
  uint32_t seeks_ = 0;         // fibers
  uint64_t lacks_before_ = 0;  // they turned out to lack something before this offset
};

}  // namespace dfly
