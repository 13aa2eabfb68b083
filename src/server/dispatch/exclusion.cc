// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/exclusion.h"

#include "engine/queue/tx_queue.h"
#include "server/care/script_finder.h"
#include "server/clients/session.h"
#include "server/dispatch/shard_batch.h"

namespace dfly {

namespace {

// A key, the first one or another, may be changed where it is, and not only removed or replaced.
bool ChangesInPlace(const Command& command, bool is_first) {
  if ((command.flags & kWrite) == 0) return false;
  const std::string_view flags = is_first || command.keys.second_flags.empty()
                                     ? command.keys.flags
                                     : command.keys.second_flags;
  return flags.empty() || flags.starts_with("RW");
}

// fn(key) for the keys that it changes in place.
template <typename Function>
void ForEachKeyChanged(const Command& command, Args args, Function fn) {
  if (!command.keys.has_keys()) return;
  const KeyIndexes keys = command.KeysOf(args);
  for (size_t i : keys) {
    if (ChangesInPlace(command, i == keys.first())) fn(args[i]);
  }
}

}  // namespace

Exclusion::Exclusion(WorkerState* worker)
    : shards_(*worker->server.shards),
      settings_(worker->server.settings),
      exec_(worker->server.commands.FindByName("exec")) {}

template <typename Function>
void Exclusion::ForEachChanged(const Shard& shard, const Command& command, Args args, int db_index,
                               Function fn) const {
  ForEachKeyChanged(command, args, [&](std::string_view key) {
    const uint64_t hash = HashKey(key);
    if (shards_.ShardOfKey(key, hash) == shard.id()) fn(key, hash, db_index);
  });
}

bool Exclusion::AwaitsSnapshot(Shard& shard, const Command& command, Args args,
                               int db_index) const {
  CutGuard* const guard = shard.cut_guard();
  if (guard == nullptr) return false;
  bool must_wait = false;
  ForEachChanged(shard, command, args, db_index, [&](std::string_view key, uint64_t hash, int db) {
    must_wait |= guard->MustWait(db, key, hash, shards_.LockOfKey(key, hash, db));
  });
  return must_wait;
}

bool Exclusion::AwaitsSnapshotLocked(ShardBatch* batch,
                                     const std::function<void()>& on_saved) const {
  Shard& shard = shards_.local(batch->shard);
  CutGuard* const guard = shard.cut_guard();
  if (guard == nullptr) return false;
  const auto ask = [&](std::string_view key, uint64_t hash, int db) {
    if (guard->MustWaitLocked(db, key, hash, on_saved)) ++batch->unsaved;
  };
  const ShardBatch::Entry& next = batch->rest().front();
  std::vector<std::string_view> args;
  if (const Multi* const multi = batch->MultiOf(next)) {
    for (const Multi::Item& item : multi->items()) {
      multi->ViewArgs(item, &args);
      ForEachChanged(shard, *item.command, args, item.db_index, ask);
    }
    return batch->unsaved != 0;
  }
  batch->ViewArgs(next, &args);
  const Script* const script = batch->ScriptOf(next);
  if (script == nullptr) {
    ForEachChanged(shard, *next.command, args, batch->db_index, ask);
  } else if (!IsReadOnly(*next.command, *script)) {
    for (std::string_view key : ScriptArgsOf(Args(args)).keys) {
      const uint64_t hash = HashKey(key);
      if (shards_.ShardOfKey(key, hash) == shard.id()) ask(key, hash, batch->db_index);
    }
  }
  return batch->unsaved != 0;
}

void Exclusion::AskSnapshots(const Session& session, const Command& command, Args args,
                             int db_index) {
  if (!settings_.is_saving.load(std::memory_order_relaxed)) return;
  struct Changed {
    std::string_view key;
    uint64_t hash;
    int db_index;
  };
  std::vector<std::vector<Changed>> by_shard(shards_.size());
  const auto ask = [&](std::string_view key, int of_db) {
    const uint64_t hash = HashKey(key);
    by_shard[shards_.ShardOfKey(key, hash)].push_back({key, hash, of_db});
  };
  const auto ask_for_all = [&ask](const Command& of, Args its_args, int of_db) {
    ForEachKeyChanged(of, its_args, [&](std::string_view key) { ask(key, of_db); });
  };
  if (&command == exec_) {
    std::vector<std::string_view> its_args;
    for (const Multi::Item& item : session.multi->items()) {
      session.multi->ViewArgs(item, &its_args);
      ask_for_all(*item.command, its_args, item.db_index);
    }
  } else if (command.runs_script) {
    for (std::string_view key : ScriptArgsOf(args).keys) ask(key, db_index);
  } else {
    ask_for_all(command, args, db_index);
  }
  std::vector<ShardId> ids;
  for (ShardId id = 0; id < by_shard.size(); ++id) {
    if (!by_shard[id].empty()) ids.push_back(id);
  }
  if (ids.empty()) return;
  shards_.AwaitOn(ids, [&](Shard& shard) {
    CutGuard* const guard = shard.cut_guard();
    if (guard == nullptr) return;
    for (const auto& [key, hash, of_db] : by_shard[shard.id()]) {
      guard->MustWait(of_db, key, hash, shards_.LockOfKey(key, hash, of_db));
    }
  });
}

bool Exclusion::IsExcluded(Shard& shard, const Command& command, Args args, uint64_t hash,
                           int db_index, std::vector<TagLock>* tags) const {
  if (shard.runs_freely() || command.channel_at != 0) [[likely]] {
    return false;
  }
  const TxQueue& queue = shard.transactions();
  if (queue.empty() && (command.flags & kWrite) == 0) return false;  // a cut is nothing to readers
  tags->clear();
  const KeyIndexes keys = command.KeysOf(args);
  const int other_db = command.other_db != nullptr ? command.other_db(args) : -1;
  bool is_excluded = false;
  for (size_t i : keys) {
    const bool is_first = i == keys.first();
    const uint64_t key_hash = is_first ? hash : HashKey(args[i]);
    if (command.blocking != nullptr && shards_.ShardOfKey(args[i], key_hash) != shard.id()) break;
    tags->push_back({shards_.LockOfKey(args[i], key_hash, db_index), command.lock_mode()});
    is_excluded |= queue.Conflicts(tags->back());
    if (other_db < 0) [[likely]]
      continue;
    tags->push_back({shards_.LockOfKey(args[i], key_hash, other_db), command.lock_mode()});
    is_excluded |= queue.Conflicts(tags->back());
  }
  return is_excluded || AwaitsSnapshot(shard, command, args, db_index);
}

bool Exclusion::IsExecExcluded(Shard& shard, const Multi& multi, std::vector<TagLock>* tags) const {
  if (shard.runs_freely()) [[likely]] {
    return false;
  }
  const TxQueue& queue = shard.transactions();
  tags->clear();
  bool is_excluded = false;
  auto want = [&](const TagLock& tag) {
    tags->push_back(tag);
    is_excluded |= queue.Conflicts(tag);
  };
  multi.ForEachTag(shards_, [&](ShardId, const TagLock& tag) { want(tag); });
  if (multi.watcher != 0) {
    shard.watches().ForEachKey(multi.watcher, [&](const KeyName& name) {
      want({shards_.LockOfKey(name.key, HashKey(name.key), name.db_index), LockMode::kShared});
    });
  }
  if (is_excluded || shard.cut_guard() == nullptr) return is_excluded;
  std::vector<std::string_view> args;
  for (const Multi::Item& item : multi.items()) {
    multi.ViewArgs(item, &args);
    is_excluded |= AwaitsSnapshot(shard, *item.command, args, item.db_index);
  }
  return is_excluded;
}

bool Exclusion::IsScriptExcluded(Shard& shard, const Script& script, const Command& command,
                                 Args args, int db_index, std::vector<TagLock>* tags) const {
  if (shard.runs_freely()) [[likely]] {
    return false;
  }
  const TxQueue& queue = shard.transactions();
  tags->clear();
  bool is_excluded = false;
  const LockMode mode = IsReadOnly(command, script) ? LockMode::kShared : LockMode::kExclusive;
  for (std::string_view key : ScriptArgsOf(args).keys) {
    tags->push_back({shards_.LockOfKey(key, HashKey(key), db_index), mode});
    is_excluded |= queue.Conflicts(tags->back());
  }
  CutGuard* const guard = shard.cut_guard();
  if (is_excluded || guard == nullptr || mode == LockMode::kShared) return is_excluded;
  for (std::string_view key : ScriptArgsOf(args).keys) {
    const uint64_t hash = HashKey(key);
    if (shards_.ShardOfKey(key, hash) != shard.id()) continue;
    is_excluded |= guard->MustWait(db_index, key, hash, shards_.LockOfKey(key, hash, db_index));
  }
  return is_excluded;
}

Slow Exclusion::SlowBefore(const Shard& shard, const Command& command, std::vector<TagLock>* tags) {
  SlowScripts& slow = shards_.slow_scripts();
  if (slow.empty() || (command.flags & kAllowBusy) != 0) return Slow::kNone;
  SortAndMerge(tags);
  TxEntry wanted;
  wanted.tags = *tags;
  return shard.transactions().SlowBefore(wanted, &slow);
}

bool Exclusion::TakesLong(const Shard& shard, int db_index, const Command& command, Args args,
                          uint64_t hash) {
  if (command.brings_much != nullptr) return command.brings_much(args);
  const Database* const database = shard.FindDb(db_index);
  if (database == nullptr || !database->has_large_values()) [[likely]]
    return false;
  if (command.asks_for_many != nullptr && !command.asks_for_many(args)) return false;
  const KeyIndexes keys = command.KeysOf(args);
  for (size_t i : keys) {
    const KeyProbe probe(args[i], i == keys.first() ? hash : HashKey(args[i]));
    const auto it = database->Find(probe);
    // For small values a coordinator would cost 2 to 9 times.
    if (!it) continue;
    const CompactValue& value = it->value;
    if (value.HeapBytes() <
        (value.is_string() ? Database::kLargeStringBytes : Database::kLargeValueBytes)) {
      continue;
    }
    if (command.takes_many == nullptr || command.takes_many(value, args, i)) return true;
  }
  return false;
}

}  // namespace dfly
