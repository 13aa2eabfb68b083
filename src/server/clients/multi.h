// SPDX-License-Identifier: Apache-2.0
// MULTI: what a client has queued for EXEC, and which keys it watches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/hops/shard_set.h"
#include "helio/base/block_bytes.h"
#include "server/acl/acl_user.h"

namespace dfly {

// Where the keys of a command are.
struct KeyPlace {
  ShardId shard = 0;  // of the first key
  uint64_t hash = 0;
  bool is_one_shard = false;
};
// Are all keys but the first in this shard?
bool OtherKeysAreIn(ShardId shard, const Command& command, Args args, const ShardSet& shards);
// REQUIRES: the command has keys or a channel, and accepts the number of its arguments.
inline KeyPlace PlaceOf(const Command& command, Args args, const ShardSet& shards) {
  KeyPlace place;
  const std::string_view first = args[command.routed_by(args)];
  place.hash = HashKey(first);
  place.shard = command.channel_at != 0 ? shards.ShardOfChannel(first, place.hash)
                                        : shards.ShardOfKey(first, place.hash);
  place.is_one_shard = shards.size() == 1 || command.has_one_key || command.channel_at != 0 ||
                       OtherKeysAreIn(place.shard, command, args, shards);
  return place;
}

// Owner: the session, on its thread; while it is carried out, whoever does that.
class Multi {
 public:
  enum class Kind : uint8_t {
    kShard,    // its keys are in one shard: by Command::run
    kAcross,   // in several: by Command::across, or spread
    kWaiting,  // by Command::coordinate
    kSession
  };
  struct Item {
    const Command* command;
    uint64_t hash;  // of the first key
    ShardId shard;  // kShard: where it runs
    int db_index;
    uint32_t first_arg;
    uint32_t arg_count;
    Kind kind;
    AclDenial denial = AclDenial::kNone;  // not carried out: forbidden since it was queued
  };

  // To `*bytes`, which outlives it, it adds what it uses.
  Multi(int db_index, size_t* bytes) : db_index_(db_index), counted_in_(*bytes) {}
  ~Multi() { counted_in_ -= memory_used(); }
  Multi(const Multi&) = delete;
  Multi& operator=(const Multi&) = delete;
  // As new; keeps its memory.
  void Start(int db_index);
  size_t memory_used() const {
    return helio::HeapBytes(arg_bytes_) + arg_ends_.capacity() * sizeof(size_t) +
           items_.capacity() * sizeof(Item);
  }

  // `flags`: of the call, ScriptFinder::FlagsOf.
  void Add(const Command& command, uint32_t flags, Args args, const ShardSet& shards);

  const std::vector<Item>& items() const { return items_; }
  // Of the command that comes next.
  int db_index() const { return db_index_; }
  void Deny(size_t item, AclDenial denial) { items_[item].denial = denial; }
  size_t bytes() const { return arg_bytes_.size(); }
  uint32_t command_flags() const { return command_flags_; }  // of any of the calls
  uint32_t common_flags() const { return common_flags_; }    // of all of them
  bool may_write() const { return may_write_; }              // some command may change keys
  // The arguments of one item, as views that live until the next Add.
  void ViewArgs(const Item& item, std::vector<std::string_view>* out) const;
  // What it wants on all shards together: tag(shard, TagLock).
  template <typename Function>
  void ForEachTag(const ShardSet& shards, Function tag) const;

  // All commands have their keys in shard().
  bool is_one_shard() const { return is_one_shard_ && has_keys_; }
  ShardId shard() const { return shard_; }
  // Some command may look at any key.
  bool wants_all_keys() const { return wants_all_keys_; }
  bool has_scripts() const { return has_scripts_; }

  bool is_aborted = false;  // a command could not be queued
  uint64_t watcher = 0;     // not 0: it runs only if what this one watches was not touched

 private:
  std::vector<Item> items_;
  std::vector<size_t> arg_ends_;  // where each argument ends in arg_bytes_
  std::string arg_bytes_;
  uint32_t command_flags_ = 0;
  uint32_t common_flags_ = UINT32_MAX;
  int db_index_;  // a SELECT in the queue changes it for those behind it
  size_t& counted_in_;
  ShardId shard_ = 0;
  bool has_keys_ = false;
  bool may_write_ = false;
  bool is_one_shard_ = true;
  bool wants_all_keys_ = false;
  bool has_scripts_ = false;
};

template <typename Function>
void Multi::ForEachTag(const ShardSet& shards, Function tag) const {
  std::vector<std::string_view> args;
  for (const Item& item : items_) {
    const Command& command = *item.command;
    if (command.channel_at != 0) {
      // Nothing needs a lock, but the shard has to take part.
      ViewArgs(item, &args);
      const std::string_view channel = args[command.routed_by(args)];
      tag(item.shard, TagLock{shards.LockOfKey(channel, item.hash, item.db_index)});
    }
    if (!command.keys.has_keys()) continue;
    ViewArgs(item, &args);
    const int other_db = command.other_db != nullptr ? command.other_db(args) : -1;
    for (size_t i : command.KeysOf(args)) {
      const uint64_t hash = HashKey(args[i]);
      const ShardId shard = shards.ShardOfKey(args[i], hash);
      tag(shard, TagLock{shards.LockOfKey(args[i], hash, item.db_index), command.lock_mode()});
      if (other_db < 0) continue;
      tag(shard, TagLock{shards.LockOfKey(args[i], hash, other_db), command.lock_mode()});
    }
  }
}

// A key that a session watches; the shard's WatchTable has it under Watches::watcher.
struct WatchedKey {
  int db_index;
  ShardId shard;
  uint64_t hash;
  std::string key;
};
struct Watches {
  uint64_t watcher = 0;  // a number of its own for each set: what ends one never ends the next
  std::vector<WatchedKey> keys;

  bool empty() const { return keys.empty(); }
  bool are_in(ShardId shard) const {
    for (const WatchedKey& key : keys) {
      if (key.shard != shard) return false;
    }
    return true;
  }
  std::vector<ShardId> shards() const;  // sorted, each once
};

}  // namespace dfly
