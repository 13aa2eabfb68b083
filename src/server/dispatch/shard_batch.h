// SPDX-License-Identifier: Apache-2.0
// The commands that one connection sends to one remote shard in one hop, and the way back of their
// replies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "core/memory/large_text.h"
#include "engine/hops/shard_set.h"
#include "engine/keyspace/read_tracker.h"
#include "engine/queue/tx_queue.h"
#include "facade/replies/reply_queue.h"
#include "helio/fibers/inbox.h"
#include "server/clients/let_in.h"
#include "server/clients/multi.h"
#include "server/meters/slow_log.h"
#include "server/scripts/script_store.h"

namespace dfly {

class Batches;
class Connection;
class Execs;
class Session;

// Owner: the connection's worker, which pools it; the shard's thread between Send and the return of
// the message. Commands are copied in, because they outlive the receive buffer.
// Its next command stands in the shard's queue (as a TxEntry) if a transaction excludes it.
class ShardBatch : public PendingReplies, public helio::Message, public TxEntry, public LetIn {
 public:
  struct Entry {
    const Command* command;
    uint64_t hash;       // of the first key
    uint32_t first_arg;  // index into the arguments
    uint32_t arg_count;
    uint32_t multi;   // EXEC: index into multis_ + 1; else 0
    uint32_t script;  // EVAL and its like: index into scripts_ + 1; else 0
    bool drop_reply;
    bool is_try = false;       // of a blocking command; it is alone in its batch
    bool notes_reads = false;  // for `client`
  };

  void Start(Batches* home, Connection* connection, ShardId shard, const Session& session);
  void Add(const Command* command, Args args, uint64_t hash, bool drop_reply);
  // An EXEC whose keys are all in this shard.
  void AddExec(const Command* command, std::unique_ptr<Multi> multi, uint64_t hash,
               bool drop_reply);
  // The last one that was added notes what it reads.
  void NoteReads() { entries_.back().notes_reads = true; }
  // A blocking command that takes what it finds in this shard, and does not wait here.
  void AddTry(const Command* command, Args args, uint64_t hash);
  void AddScript(const Command* command, Args args, uint64_t hash, bool drop_reply,
                 ScriptRef script);
  size_t size() const { return entries_.size(); }
  // Some command of it may.
  bool may_write() const { return may_write_; }
  size_t arg_bytes() const { return arg_bytes_.size() + large_bytes_ + multi_bytes_; }
  // Those of one command, but for such as large() has; then more than any other one.
  size_t BytesOf(const Entry& entry) const {
    if (!large_.empty()) return SIZE_MAX;
    if (entry.arg_count == 0) return 0;
    const size_t begin = entry.first_arg == 0 ? 0 : arg_ends_[entry.first_arg - 1];
    return arg_ends_[entry.first_arg + entry.arg_count - 1] - begin;
  }
  // Of its arguments, those that it has as they came.
  std::vector<LargeText>* large() { return &large_; }
  // What it takes, without EXECs' commands, which count for themselves.
  size_t memory_used() const;
  // As new. Its MULTIs go to `execs`.
  void Recycle(Execs* execs);
  // All of its commands have run; otherwise it came back because its replies are long.
  bool is_done() const { return next_ == entries_.size(); }

  bool is_try() const { return entries_.front().is_try; }
  const Entry& first() const { return entries_.front(); }

  // On the shard's thread.
  // It was back already: after a part of its commands, or as its home had to run one.
  bool continues() const { return next_ > 0 || must_stay; }
  // The commands that have not run yet.
  std::span<const Entry> rest() const { return std::span(entries_).subspan(next_); }
  void OnRun() { ++next_; }
  std::vector<TagLock>& wanted() { return wanted_; }
  // The arguments of one entry, as views that live as long as the batch does not change.
  void ViewArgs(const Entry& entry, std::vector<std::string_view>* out) const;

  // What the entry looks up in the value of its key (KeySpec::element_at); null: nothing.
  std::string_view ElementOf(const Entry& entry) const {
    const auto at = static_cast<size_t>(entry.command->keys.element_at);
    if (at == 0 || at >= entry.arg_count) return {};
    const size_t begin = arg_ends_[entry.first_arg + at - 1];
    return std::string_view(arg_bytes_).substr(begin, arg_ends_[entry.first_arg + at] - begin);
  }

  // What an EXEC runs; null: it is another command.
  const Multi* MultiOf(const Entry& entry) const {
    return entry.multi == 0 ? nullptr : multis_[entry.multi - 1].get();
  }

  // Null: it is no script.
  Script* ScriptOf(const Entry& entry) const {
    return entry.script == 0 ? nullptr : scripts_[entry.script - 1].get();
  }

  // It came back because its next command has to be run at home: in slices, or a script with these
  // keys as well, or with all.
  bool restarts = false;
  // Nobody is at home any more: what writes runs here.
  bool must_stay = false;
  bool wants_all_keys = false;
  std::vector<std::string> discovered;
  // Its command is a try that has found nothing.
  bool must_wait = false;
  // Its next command has run in the shard's queue, but is not over.
  bool is_under_way = false;
  // Of its commands, those that took long; when it was sent, and put into the queue (in cycles).
  std::vector<SlowEntry> slow;
  int64_t sent_at = 0;
  int64_t queued_at = 0;
  // Large values that a snapshot has to save before its next command runs.
  uint32_t unsaved = 0;

  Batches* home = nullptr;
  Connection* connection = nullptr;  // for the home worker only, and not if abandoned
  uint64_t connection_id = 0;
  ShardId shard = 0;
  bool is_large = false;         // it has more bytes than what is not timed
  bool discard_replies = false;  // nobody is there any more to read them
  int db_index = 0;
  bool resp3 = false;
  bool is_memcached = false;
  bool no_touch = false;
  bool is_of_primary = false;  // see DropReply; nothing is due
  AclCallerRef caller;         // for whom its scripts run
  CachingClient client;        // if that caches

 private:
  // If it was given to the command that is added.
  bool AddLarge(std::string_view arg);

  static constexpr size_t kArgBytesKept = 64 * 1024;
  static constexpr size_t kEntriesKept = 1024;

  std::vector<Entry> entries_;
  size_t next_ = 0;  // the first that has not run
  bool may_write_ = false;
  std::vector<TagLock> wanted_;   // by the command that stands in the queue
  std::vector<size_t> arg_ends_;  // where each argument ends in arg_bytes_
  std::string arg_bytes_;
  std::vector<LargeText> large_;
  std::vector<size_t> large_at_;  // which arguments they are; those have no bytes in arg_bytes_
  size_t large_bytes_ = 0;
  std::vector<std::unique_ptr<Multi>> multis_;
  size_t multi_bytes_ = 0;  // of their arguments
  std::vector<ScriptRef> scripts_;
};

}  // namespace dfly
