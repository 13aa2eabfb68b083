// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/log_applier.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "commands/table/lookup.h"
#include "commands/table/spread.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/refusing_sink.h"
#include "helio/base/ascii.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/fibers/sync.h"

namespace dfly {

namespace {

// Enough for cache misses to overlap; little enough to be still in the cache of who reads.
constexpr size_t kBatchCommands = 128;
constexpr size_t kBatchBytes = 64 * 1024;
constexpr size_t kBatchBytesKept = 1 << 20;
// While one is filled the others may be on their way.
constexpr size_t kBatchesOfLane = 8;

}  // namespace

// Takes replies, and knows which were errors.
class ShardsApplier::Replies final : public RefusingSink {
 public:
  void Error(std::string_view message) override {
    if (count_++ == 0) first_ = fmt::format("{}: {}", command_->full_name, message);
  }
  void set_command(const Command* command) { command_ = command; }
  uint64_t count() const { return count_; }
  const std::string& first() const { return first_; }
  void Clear() { count_ = 0; }

 private:
  void Refuse() override {}

  const Command* command_ = nullptr;
  uint64_t count_ = 0;
  std::string first_;
};

// Commands of one shard. Owner: the reader, then the shard's thread, in turn.
class ShardsApplier::Batch {
 public:
  bool empty() const { return entries_.empty(); }
  bool is_full() const { return entries_.size() >= kBatchCommands || bytes_.size() >= kBatchBytes; }

  void Add(const Command& command, int db_index, int64_t now_ms, Args args, uint64_t hash) {
    entries_.push_back({&command, hash, now_ms, db_index, static_cast<uint32_t>(args.size())});
    for (const std::string_view arg : args.all()) {
      bytes_.append(arg);
      ends_.push_back(bytes_.size());
    }
  }

  // Carries them out, and is empty then. On the shard's thread.
  void Run(Shard& shard, Replies* replies) {
    args_.clear();
    size_t begin = 0;
    for (const size_t end : ends_) {
      args_.emplace_back(bytes_.data() + begin, end - begin);
      begin = end;
    }
    Prefetch(shard);
    {
      ShardTurn turn(shard);
      size_t first = 0;
      for (const Entry& entry : entries_) {
        const Args args = std::span<const std::string_view>(args_).subspan(first, entry.args);
        first += entry.args;
        ShardContext& cx = turn.Begin(entry.db_index, entry.now_ms);
        cx.SetKeyHash(args[entry.command->routed_by(args)], entry.hash);
        replies->set_command(entry.command);
        entry.command->run(cx, args, *replies);
      }
    }
    entries_.clear();
    ends_.clear();
    bytes_.clear();
    if (bytes_.capacity() > kBatchBytesKept) bytes_.shrink_to_fit();
  }

 private:
  struct Entry {
    const Command* command;
    uint64_t hash;  // of the first key
    int64_t now_ms;
    int db_index;
    uint32_t args;
  };

  void Prefetch(Shard& shard) {
    PrefetchTogether([&](auto&& visit) {
      size_t first = 0;
      for (const Entry& entry : entries_) {
        const Args args = std::span<const std::string_view>(args_).subspan(first, entry.args);
        first += entry.args;
        const Database* const database = shard.FindDb(entry.db_index);
        if (database != nullptr) visit(*database, entry.hash, entry.command->ElementOf(args));
      }
    });
  }

  std::vector<Entry> entries_;
  std::string bytes_;
  std::vector<size_t> ends_;            // of arguments in bytes_
  std::vector<std::string_view> args_;  // of Run
};

struct ShardsApplier::Lane {
  Batch batches[kBatchesOfLane];
  std::optional<helio::BlockingCounter> sent[kBatchesOfLane];  // set until its batch is empty again
  size_t current = 0;
  Replies replies;  // the shard's thread's, until all is awaited
};

ShardsApplier::ShardsApplier(const CommandTable* table, ShardSet* shards, LoadedParts* parts,
                             Transaction* outer)
    : table_(*table),
      shards_(*shards),
      parts_(*parts),
      outer_(outer),
      xclaim_(table->FindByName("xclaim")),
      lanes_(std::make_unique<Lane[]>(shards->size())),
      parts_of_split_(shards->size()),
      split_hashes_(shards->size()) {}

ShardsApplier::~ShardsApplier() { AwaitAll(); }

std::string ShardsApplier::Find(Args args, const Command** command) {
  // The log has the names that commands have for everybody, clients possibly others.
  const Command* row = table_.Find(args.name());
  if (row == nullptr || !helio::EqualsIgnoreCase(row->name, args.name())) {
    row = table_.FindByName(args.name());
  }
  const Lookup found = row == nullptr ? Lookup{.end = Lookup::End::kUnknown} : FindFrom(*row, args);
  *command = found.row;
  return found.is_found() ? "" : found.Error(args);
}

std::string ShardsApplier::Apply(int db_index, std::span<const std::string_view> words) {
  const Args args(words);
  const Command* command = nullptr;
  if (std::string error = Find(args, &command); !error.empty()) return error;
  if (command->run != nullptr) {
    if ((command->flags & kWrite) != 0) ApplyToKeys(*command, db_index, args);
    return "";
  }
  if (command->runs_script) {
    RunOverShards(*command, db_index, args);
    return "";
  }
  const bool is_of_parts = helio::EqualsIgnoreCase(args.name(), "function") ||
                           helio::EqualsIgnoreCase(args.name(), "script");
  if (is_of_parts) {
    AwaitAll();
    return parts_.Apply(args);
  }
  // What changes nothing is there because it belongs to the stream: PING, REPLCONF.
  if ((command->flags & kWrite) == 0) return "";
  if (command->coordinate == nullptr) {
    return fmt::format("{} is not for logs", command->full_name);
  }
  RunOverShards(*command, db_index, args);
  return "";
}

int64_t ShardsApplier::ClockOf(const Command& command) const {
  // It takes no time of delivery that is still to come.
  return &command == xclaim_ ? helio::UnixMillis() : 0;
}

void ShardsApplier::ApplyToKeys(const Command& command, int db_index, Args args) {
  const size_t routed_by = command.routed_by(args);
  const uint64_t hash = HashKey(args[routed_by]);
  const ShardId id = shards_.ShardOfKey(args[routed_by], hash);
  if (!command.has_one_key) {
    for (const size_t i : command.KeysOf(args)) {
      if (i == routed_by || shards_.ShardOfKey(args[i], HashKey(args[i])) == id) continue;
      const auto first = static_cast<size_t>(command.keys.first);
      const auto step = static_cast<size_t>(command.keys.step);
      const bool can_be_split =
          (command.spread == Spread::kSumIntegers || command.spread == Spread::kAllOk) &&
          (args.size() - first) % step == 0;
      if (can_be_split) return Split(command, db_index, args);
      return RunOverShards(command, db_index, args);
    }
  }
  Add(id, command, db_index, args, hash);
}

void ShardsApplier::Split(const Command& command, int db_index, Args args) {
  const auto first = static_cast<size_t>(command.keys.first);
  const auto step = static_cast<size_t>(command.keys.step);
  for (size_t i = first; i < args.size(); i += step) {
    const uint64_t hash = HashKey(args[i]);
    const ShardId id = shards_.ShardOfKey(args[i], hash);
    std::vector<std::string_view>& part = parts_of_split_[id];
    if (part.empty()) {
      part.assign(args.all().begin(), args.all().begin() + static_cast<ptrdiff_t>(first));
      split_hashes_[id] = hash;
    }
    for (size_t j = i; j < i + step; ++j) part.push_back(args[j]);
  }
  for (ShardId id = 0; id < shards_.size(); ++id) {
    if (parts_of_split_[id].empty()) continue;
    Add(id, command, db_index, parts_of_split_[id], split_hashes_[id]);
    parts_of_split_[id].clear();
  }
}

void ShardsApplier::RunOverShards(const Command& command, int db_index, Args args) {
  AwaitAll();
  Replies replies;
  replies.set_command(&command);
  CoordinatorContext cx(&shards_, nullptr, db_index, ClockOf(command), outer_);
  cx.set_command(command.effect, args.all());
  if (command.runs_script) {
    parts_.RunScript(cx, args, replies);
  } else if (command.coordinate != nullptr) {
    command.coordinate(cx, args, replies);
  } else if (command.across != nullptr) {
    command.across(cx, args, replies);
  } else {
    RunSpread(cx, command, args, replies);
  }
  NoteFailures(&replies);
}

void ShardsApplier::Add(ShardId id, const Command& command, int db_index, Args args,
                        uint64_t hash) {
  Lane& lane = lanes_[id];
  Batch& batch = lane.batches[lane.current];
  batch.Add(command, db_index, ClockOf(command), args, hash);
  if (batch.is_full()) Send(id);
}

void ShardsApplier::Send(ShardId id) {
  Lane& lane = lanes_[id];
  const size_t i = lane.current;
  if (lane.batches[i].empty()) return;
  const auto run = [this, &lane, i, id] { lane.batches[i].Run(shards_.local(id), &lane.replies); };
  if (shards_.is_local(id)) {
    const helio::NoSuspend no_suspend;
    return run();
  }
  lane.sent[i].emplace(1);
  shards_.owner(id)->Dispatch([&lane, i, run] {
    run();
    lane.sent[i]->Done();
  });
  lane.current = (i + 1) % kBatchesOfLane;
  Await(&lane, lane.current);
}

void ShardsApplier::Await(Lane* lane, size_t batch) {
  if (!lane->sent[batch]) return;
  const helio::BoundedWait wait(kHops, 1);
  lane->sent[batch]->Wait();
  lane->sent[batch].reset();
}

void ShardsApplier::AwaitAll() {
  for (ShardId id = 0; id < shards_.size(); ++id) Send(id);
  for (ShardId id = 0; id < shards_.size(); ++id) {
    for (size_t i = 0; i < kBatchesOfLane; ++i) Await(&lanes_[id], i);
    NoteFailures(&lanes_[id].replies);
  }
}

void ShardsApplier::NoteFailures(Replies* replies) {
  if (replies->count() == 0) return;
  if (failed_ == 0) first_failure_ = replies->first();
  failed_ += replies->count();
  replies->Clear();
}

std::string ShardsApplier::Finish() {
  AwaitAll();
  if (failed_ > 0) {
    LOG(ERROR) << failed_ << " commands of the log have failed, one of them " << first_failure_;
  }
  return "";
}

}  // namespace dfly
