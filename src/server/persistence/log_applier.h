// SPDX-License-Identifier: Apache-2.0
// Carries out the commands of a log on all shards at once.
//
// The fiber that reads the log sorts commands by the shard of their keys and sends them in batches.
// Commands of one shard keep their order, those of different shards have no key in common and need
// none; DEL and MSET are split by their keys. Only what can neither be split nor is of one shard
// waits until all shards are done. A MULTI needs nothing of its own, as nobody reads meanwhile.
//
// Handlers run as for clients, but the clock stands at 0: no key is due, as its DEL is in the log.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/shard_set.h"
#include "storage/log/log_loader.h"

namespace dfly {

class Transaction;

// What a log has that is of no shard, or of any. Suspends: all.
class LoadedParts {
 public:
  virtual ~LoadedParts() = default;
  [[nodiscard]] virtual std::string TakeExtras(const SnapshotExtras& extras) = 0;
  // FUNCTION or SCRIPT. An empty text, or why it fails.
  [[nodiscard]] virtual std::string Apply(Args args) = 0;
  // EVAL and its like, which Redis wrote to logs up to version 6: runs the script. Nothing else is
  // under way on the shards.
  virtual void RunScript(CoordinatorContext& cx, Args args, ReplySink& reply) = 0;
};

// Owner:    who loads; on a fiber of one proactor. REQUIRES: nobody else uses the shards, and they
// neither expire nor evict by themselves.
// Suspends: all.
class ShardsApplier final : public LogApplier {
 public:
  // All outlive it.
  // `outer`: has locked all shards; null: nobody else is there.
  ShardsApplier(const CommandTable* table, ShardSet* shards, LoadedParts* parts,
                Transaction* outer = nullptr);
  ~ShardsApplier() override;
  ShardsApplier(const ShardsApplier&) = delete;
  ShardsApplier& operator=(const ShardsApplier&) = delete;

  std::string TakeExtras(const SnapshotExtras& extras) override {
    return parts_.TakeExtras(extras);
  }
  std::string Apply(int db_index, std::span<const std::string_view> args) override;
  std::string Finish() override;

  // Commands that have replied an error, which ends nothing, as with redis-server.
  uint64_t failed() const { return failed_; }
  const std::string& first_failure() const { return first_failure_; }

 private:
  class Batch;
  struct Lane;
  class Replies;

  std::string Find(Args args, const Command** command);
  int64_t ClockOf(const Command& command) const;
  void ApplyToKeys(const Command& command, int db_index, Args args);
  void Split(const Command& command, int db_index, Args args);
  void RunOverShards(const Command& command, int db_index, Args args);
  void Add(ShardId id, const Command& command, int db_index, Args args, uint64_t hash);
  void Send(ShardId id);
  // All batches are carried out.
  void AwaitAll();
  void Await(Lane* lane, size_t batch);
  void NoteFailures(Replies* replies);

  const CommandTable& table_;
  ShardSet& shards_;
  LoadedParts& parts_;
  Transaction* const outer_;
  const Command* const xclaim_;
  const std::unique_ptr<Lane[]> lanes_;                        // by shard
  std::vector<std::vector<std::string_view>> parts_of_split_;  // by shard
  std::vector<uint64_t> split_hashes_;                         // of their first keys
  uint64_t failed_ = 0;
  std::string first_failure_;
};

}  // namespace dfly
