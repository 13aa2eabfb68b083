// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/shard_batch.h"

#include <optional>
#include <utility>

#include "helio/base/block_bytes.h"
#include "server/clients/session.h"
#include "server/dispatch/execs.h"

namespace dfly {

void ShardBatch::Start(Batches* home_batches, Connection* of_connection, ShardId to_shard,
                       const Session& session) {
  home = home_batches;
  connection = of_connection;
  connection_id = of_connection->id();
  shard = to_shard;
  db_index = session.db_index;
  resp3 = session.resp3;
  is_memcached = session.is_memcached;
  no_touch = session.no_touch;
  is_of_primary = session.primary != nullptr;
}

void ShardBatch::Add(const Command* command, Args args, uint64_t hash, bool drop_reply) {
  entries_.push_back({.command = command,
                      .hash = hash,
                      .first_arg = static_cast<uint32_t>(arg_ends_.size()),
                      .arg_count = static_cast<uint32_t>(args.size()),
                      .multi = 0,
                      .script = 0,
                      .drop_reply = drop_reply});
  may_write_ |= (command->flags & kWrite) != 0 || command->runs_script;
  for (std::string_view arg : args.all()) {
    if (arg.size() < LargeText::kMin || !AddLarge(arg)) [[likely]]
      arg_bytes_.append(arg);
    arg_ends_.push_back(arg_bytes_.size());
  }
}

bool ShardBatch::AddLarge(std::string_view arg) {
  std::optional<LargeText> given = LargeText::Take(arg);
  if (!given) return false;
  large_bytes_ += given->capacity();
  large_at_.push_back(arg_ends_.size());
  large_.push_back(*std::move(given));
  return true;
}

void ShardBatch::AddExec(const Command* command, std::unique_ptr<Multi> multi, uint64_t hash,
                         bool drop_reply) {
  multi_bytes_ += multi->bytes();
  may_write_ |= multi->may_write();
  multis_.push_back(std::move(multi));
  entries_.push_back({.command = command,
                      .hash = hash,
                      .first_arg = static_cast<uint32_t>(arg_ends_.size()),
                      .arg_count = 0,
                      .multi = static_cast<uint32_t>(multis_.size()),
                      .script = 0,
                      .drop_reply = drop_reply});
}

void ShardBatch::AddScript(const Command* command, Args args, uint64_t hash, bool drop_reply,
                           ScriptRef script) {
  Add(command, args, hash, drop_reply);
  scripts_.push_back(std::move(script));
  entries_.back().script = static_cast<uint32_t>(scripts_.size());
}

void ShardBatch::AddTry(const Command* command, Args args, uint64_t hash) {
  DCHECK(entries_.empty());
  Add(command, args, hash, false);
  entries_.back().is_try = true;
}

void ShardBatch::ViewArgs(const Entry& entry, std::vector<std::string_view>* out) const {
  out->clear();
  size_t begin = entry.first_arg == 0 ? 0 : arg_ends_[entry.first_arg - 1];
  for (uint32_t i = entry.first_arg; i < entry.first_arg + entry.arg_count; ++i) {
    out->emplace_back(arg_bytes_.data() + begin, arg_ends_[i] - begin);
    begin = arg_ends_[i];
  }
  for (size_t i = 0; i < large_.size(); ++i) {
    const size_t at = large_at_[i] - entry.first_arg;  // of one before it: very large
    if (at < entry.arg_count) (*out)[at] = large_[i].view();
  }
}

size_t ShardBatch::memory_used() const {
  return sizeof(*this) + bytes.capacity() + ends.capacity() * sizeof(ends[0]) +
         entries_.capacity() * sizeof(Entry) + arg_ends_.capacity() * sizeof(arg_ends_[0]) +
         helio::HeapBytes(arg_bytes_) + large_bytes_ + large_.capacity() * sizeof(large_[0]) +
         large_at_.capacity() * sizeof(large_at_[0]);
}

void ShardBatch::Recycle(Execs* execs) {
  PendingReplies::Recycle();
  discard_replies = false;
  next_ = 0;
  may_write_ = false;
  entries_.clear();
  if (entries_.capacity() > kEntriesKept) entries_.shrink_to_fit();
  arg_ends_.clear();
  if (arg_ends_.capacity() > kEntriesKept) arg_ends_.shrink_to_fit();
  for (std::unique_ptr<Multi>& multi : multis_) execs->Recycle(std::move(multi));
  multis_.clear();
  multi_bytes_ = 0;
  scripts_.clear();
  caller = nullptr;
  client = {};
  discovered.clear();
  restarts = must_stay = wants_all_keys = must_wait = is_under_way = false;
  large_.clear();
  large_at_.clear();
  large_bytes_ = 0;
  arg_bytes_.clear();
  if (arg_bytes_.capacity() > kArgBytesKept) arg_bytes_.shrink_to_fit();
}

}  // namespace dfly
