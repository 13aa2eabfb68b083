// SPDX-License-Identifier: Apache-2.0
#include "server/clients/multi.h"

#include <algorithm>

#include "core/text/numbers.h"

namespace dfly {

bool OtherKeysAreIn(ShardId shard, const Command& command, Args args, const ShardSet& shards) {
  const KeyIndexes keys = command.KeysOf(args);
  for (size_t i : keys) {
    if (i != keys.first() && shards.ShardOfKey(args[i], HashKey(args[i])) != shard) return false;
  }
  return true;
}

void Multi::Start(int db_index) {
  items_.clear();
  arg_ends_.clear();
  arg_bytes_.clear();
  command_flags_ = 0;
  common_flags_ = UINT32_MAX;
  db_index_ = db_index;
  shard_ = 0;
  has_keys_ = may_write_ = wants_all_keys_ = has_scripts_ = is_aborted = false;
  is_one_shard_ = true;
  watcher = 0;
}

void Multi::Add(const Command& command, uint32_t flags, Args args, const ShardSet& shards) {
  const size_t bytes_before = memory_used();
  Item item{.command = &command,
            .hash = 0,
            .shard = 0,
            .db_index = db_index_,
            .first_arg = static_cast<uint32_t>(arg_ends_.size()),
            .arg_count = static_cast<uint32_t>(args.size()),
            .kind = Kind::kSession};
  if (command.run != nullptr) {
    const KeyPlace place = PlaceOf(command, args, shards);
    item.hash = place.hash;
    item.shard = place.shard;
    item.kind = place.is_one_shard ? Kind::kShard : Kind::kAcross;
    if (!has_keys_) shard_ = place.shard;
    has_keys_ = true;
    if (!place.is_one_shard || place.shard != shard_) is_one_shard_ = false;
  } else {
    is_one_shard_ = false;
    if (command.coordinate != nullptr) {
      item.kind = Kind::kWaiting;
      has_scripts_ |= command.needs_script_stack;
      if ((command.flags & (kWrite | kReadonly)) != 0) wants_all_keys_ = true;
    } else if (command.runs_script) {
      // What it uses besides its KEYS is not known.
      item.kind = Kind::kWaiting;
      wants_all_keys_ = has_scripts_ = true;
    } else if (command.full_name == "select") {
      const auto index = ParseInt64(args[1]);
      if (index && *index >= 0 && *index < shards.db_count()) db_index_ = static_cast<int>(*index);
    }
  }
  for (std::string_view arg : args.all()) {
    arg_bytes_.append(arg);
    arg_ends_.push_back(arg_bytes_.size());
  }
  command_flags_ |= flags;
  common_flags_ &= flags;
  may_write_ |= command.MayWrite(flags);
  items_.push_back(item);
  counted_in_ += memory_used() - bytes_before;
}

void Multi::ViewArgs(const Item& item, std::vector<std::string_view>* out) const {
  out->clear();
  size_t begin = item.first_arg == 0 ? 0 : arg_ends_[item.first_arg - 1];
  for (uint32_t i = item.first_arg; i < item.first_arg + item.arg_count; ++i) {
    out->emplace_back(arg_bytes_.data() + begin, arg_ends_[i] - begin);
    begin = arg_ends_[i];
  }
}

std::vector<ShardId> Watches::shards() const {
  std::vector<ShardId> ids;
  for (const WatchedKey& key : keys) ids.push_back(key.shard);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace dfly
