// SPDX-License-Identifier: Apache-2.0
// What a command's handler sees of its shard: look-ups that know about expiry, changes that are
// accounted, and one place that hears of them. Handlers run on the shard and never suspend; nothing
// here does.
//
// Look-ups never change a table: a due key counts as absent, and Finish() removes it. So a handler
// may hold several handles while it looks for more keys. All handles die when the handler adds a
// key, removes one, or changes a deadline (FindOrCreate, SetString, Delete, Take, Put, SetDeadline,
// Persist); debug builds check it.
//
//   void Append(ShardContext& cx, ...) {
//     auto value = cx.FindOrCreate(key, ValueType::kString);
//     if (value.is_wrong_type()) return reply.Error(kErrWrongType);
//     value->Append(text);
//     cx.Changed(key, KeyEvent::kAppend);
//   }
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/table/compact_value.h"
#include "core/text/hash.h"
#include "engine/keyspace/database.h"
#include "engine/keyspace/shard.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"

namespace dfly {

// A value that was looked up: found, absent, or of another type than asked for. True when found.
template <typename Value>
class ValueHandle {
 public:
  ValueHandle() = default;
  explicit operator bool() const { return value_ != nullptr; }
  bool is_wrong_type() const { return is_wrong_type_; }
  bool was_created() const { return was_created_; }  // by FindOrCreate

  Value& operator*() const {
    CheckAlive();
    return *value_;
  }
  Value* operator->() const {
    CheckAlive();
    return value_;
  }

 private:
  friend class ShardContext;

  void CheckAlive() const {
#ifndef NDEBUG
    CHECK(value_ != nullptr);
    CHECK_EQ(*epoch_now_, epoch_) << "the table was changed since this value was looked up";
#endif
  }

  Value* value_ = nullptr;
  bool is_wrong_type_ = false;
  bool was_created_ = false;
#ifndef NDEBUG
  const uint64_t* epoch_now_ = nullptr;
  uint64_t epoch_ = 0;
#endif
};

// Where a key was found last. Good for as long as its table's layout stays what it was, which is
// looked at: so it may be kept over other commands, and over waits.
struct KeyHint {
  uint64_t layout = 0;  // of no database
  Database::Table::Iterator it;
};

// Owner:    the code that runs commands on a shard, for one command at a time: Begin, handler,
// Finish. Suspends: never.
class ShardContext {
 public:
  using ReadHandle = ValueHandle<const CompactValue>;
  using WriteHandle = ValueHandle<CompactValue>;

  explicit ShardContext(Shard& shard) : shard_(shard) {}
  ShardContext(Shard& shard, int db_index, int64_t now_ms)
      : shard_(shard), database_(shard.FindDb(db_index)), db_index_(db_index), now_ms_(now_ms) {}
  ~ShardContext() { Finish(); }
  ShardContext(const ShardContext&) = delete;
  ShardContext& operator=(const ShardContext&) = delete;

  // --- For dispatch ---

  // Starts a command: its database and its clock, which stands still. Finishes the one before.
  void Begin(int db_index, int64_t now_ms) {
    Finish();
    db_index_ = db_index;
    now_ms_ = now_ms;
    database_ = shard_.FindDb(db_index);
  }
  // Settles the accounts and removes the due keys that the command met.
  void Finish() {
    EndHandles();
    if (!due_.empty()) [[unlikely]]
      EndDueKeys();
    hashed_key_ = {};
    hint_ = nullptr;
    if (!expected_.hashes.empty()) expected_ = {};
  }
  // The hash that dispatch computed for a key, so that no key is hashed twice. `key` must live
  // until Finish, and so must `hint`, which is used and kept up; null: none.
  void SetKeyHash(std::string_view key, uint64_t hash, KeyHint* hint = nullptr) {
    hashed_key_ = key;
    hash_ = hash;
    hint_ = hint;
  }
  // The same for a command with several keys: keys[0], keys[step], ... Both must live until Finish.
  void SetKeyHashes(std::span<const std::string_view> keys, size_t step,
                    std::span<const uint64_t> hashes) {
    expected_ = {.keys = keys, .step = step, .hashes = hashes};
  }
  // Reads leave no trace in the access clocks (CLIENT NO-TOUCH).
  void set_no_touch(bool no_touch) { no_touch_ = no_touch; }

  // --- Effects (engine/keyspace/effects.h) ---

  // Somebody wants to know what commands do.
  bool wants_effects() const { return shard_.recorder() != nullptr; }
  // For handlers whose command is not its own effect: what it does. REQUIRES: wants_effects.
  //
  //   if (cx.wants_effects()) cx.Tell("SET", key, text, "PXAT", at_ms);
  template <typename... Words>
  void Tell(const Words&... words) {
    TellWords({EffectWord(words).text()...});
  }
  void TellAll(std::span<const std::string_view> words) {
    shard_.recorder()->Tell(db_index_, words);
  }
  // The command is its own effect, although it changes no key. REQUIRES: wants_effects.
  void TellOwn() { shard_.recorder()->NoteChange(); }

  // For whom it runs, if that is a client that caches, until this is called again. `notes_reads`:
  // it is to hear when what it reads changes.
  void set_client(const CachingClient* client, bool notes_reads) {
    client_ = client;
    notes_reads_ = notes_reads;
  }

  const CachingClient* client() const { return client_; }
  bool notes_reads() const { return notes_reads_; }

  // --- For handlers ---

  Shard& shard() { return shard_; }
  int db_index() const { return db_index_; }
  int64_t now_ms() const { return now_ms_; }
  // The command does again what another server has done, so no limit of size, depth or work refuses
  // it; what is forgotten goes by limits of one's own. At its clock, which is 0, nothing is due.
  bool is_replayed() const { return now_ms_ == 0; }
  // now_ms(), but the real time for a command that is replayed: for times that are noted.
  int64_t noted_ms() const { return is_replayed() ? helio::UnixMillis() : now_ms_; }
  size_t db_size() const { return database_ == nullptr ? 0 : database_->size(); }
  uint64_t HashOf(std::string_view key) const {
    if (IsHashed(key) && key.data() != nullptr) return hash_;
    return expected_.hashes.empty() ? HashKey(key) : ExpectedHashOf(key);
  }
  // The handler is going to look these keys up in this order: keys[0], keys[step], ... They are
  // hashed once, and fetched into the cache some ahead of their use. `keys` must live until Finish.
  void ExpectKeys(std::span<const std::string_view> keys, size_t step = 1);

  // A key to read. Counts a hit or a miss and touches the access clock.
  ReadHandle FindReadOnly(std::string_view key);
  ReadHandle FindReadOnly(std::string_view key, ValueType type);
  // As FindReadOnly, without a trace: neither counters nor clock.
  ReadHandle Peek(std::string_view key) const;

  // A key to change. Touches the clock; writes count neither hits nor misses, as in Redis. Follow a
  // change with Changed().
  WriteHandle FindMutable(std::string_view key);
  WriteHandle FindMutable(std::string_view key, ValueType type);
  // As FindMutable; an absent key is made, with the empty string as its value and no deadline. For
  // another type the caller sets the object then.
  WriteHandle FindOrCreate(std::string_view key, ValueType type);

  struct SetOptions {
    bool keep_deadline = false;
    std::optional<int64_t> deadline_ms;  // REQUIRES: not in the past, see SetDeadline
  };
  // Sets the whole value, whatever the key was, and reports it. Keeps the sticky flag. `key` and
  // `text` must not lie in the table. A `text` that the command was given becomes the value as it
  // is (LargeText).
  void SetString(std::string_view key, std::string_view text) {
    SetString(key, text, SetOptions());
  }
  void SetString(std::string_view key, std::string_view text, const SetOptions& options);
  // False if it was absent.
  bool Delete(std::string_view key) { return Delete(key, KeyEvent::kDel); }
  bool Delete(std::string_view key, KeyEvent event);

  // A value with all that goes along when its key gets another name, shard or database.
  struct Detached {
    CompactValue value;
    std::optional<int64_t> deadline_ms;
    bool is_sticky = false;
    int db_index = -1;  // where the value had its access clock; -1: where it is put
  };
  // When the keyspace hears of an event.
  enum class Telling : uint8_t { kNow, kLater };  // kLater: by AlsoHappened
  // Removes the key and returns what it had; none if it is absent. Touches the clock.
  std::optional<Detached> Take(std::string_view key, KeyEvent event,
                               Telling telling = Telling::kNow);
  // A deep copy of what the key has, as if it had just been made. Leaves no trace, as Peek.
  std::optional<Detached> Copy(std::string_view key) const;
  // The same in steps, for a key that is locked. *cursor is 0 at first, and at the end; none if the
  // key is absent.
  void CopySome(std::string_view key, std::optional<Detached>* copy, uint64_t* cursor) const;
  // Gives it to the key, whatever that was, and reports it. `key` must not lie in the table. The
  // value may come from another thread's heap: what it costs is counted here from now on.
  void Put(std::string_view key, Detached detached, KeyEvent event, uint64_t changes = 1,
           Telling telling = Telling::kNow);

  enum class DeadlineResult { kAbsent, kSet, kDeleted };
  // Touches the clock. A deadline that has been reached deletes the key at once, as in Redis. Tells
  // its effect.
  DeadlineResult SetDeadline(std::string_view key, int64_t at_ms);
  struct KeyDeadline {
    bool exists = false;
    std::optional<int64_t> at_ms;
  };
  KeyDeadline GetDeadline(std::string_view key) const;
  // Touches the clock. True if the key had a deadline. Tells its effect.
  bool Persist(std::string_view key);

  // False if the key is absent. Sticky keys are never evicted.
  bool SetSticky(std::string_view key, bool sticky);
  // What clients of memcached's protocol keep of a key, which is there. Behind the report of a
  // change, which makes it as new, and behind the effect of that. Tells its effect. REQUIRES:
  // database 0.
  void SetMemcachedItem(std::string_view key, const MemcachedItem& item);
  std::optional<bool> IsSticky(std::string_view key) const;
  // What eviction goes by in this database; see AccessClock, also for what the policy has to be.
  AccessClock& access_clock() { return database().access_clock(); }
  EvictionRules eviction_rules() const { return shard_.live().eviction().Of(db_index_); }
  std::optional<uint32_t> IdleSeconds(std::string_view key) const;
  std::optional<uint8_t> Frequency(std::string_view key) const;

  // No string becomes longer than this many bytes.
  size_t string_max() const { return shard_.string_max(); }

  // Bytes that the key costs: its slot and heap parts, and its deadline's.
  std::optional<size_t> MemoryUsage(std::string_view key) const;

  // A handler that changed a key's value says so once, behind the change. Accounts it, removes a
  // collection that became empty, tells whoever wants to know. Handles die if it was empty.
  // `changes`: how many of INFO's rdb_changes_since_last_save it is.
  void Changed(std::string_view key, KeyEvent event, uint64_t changes = 1);
  // The same of a hash. `fields` may be none unless tells_fields().
  void ChangedFields(std::string_view key, KeyEvent event, std::span<const std::string_view> fields,
                     uint64_t changes = 1);
  // Somebody hears of fields.
  bool tells_fields() const { return shard_.tells_fields(); }

  // Another event of a change that was reported: SET with a deadline is "set" and "expire".
  void AlsoHappened(std::string_view key, KeyEvent event) {
    shard_.NotifyKeyEvent(db_index_, key, event);
  }

  // The same for changes that WATCH does not hear of in Redis: what concerns a stream's groups, but
  // no entries.
  void ChangedUnwatched(std::string_view key, KeyEvent event, uint64_t changes = 1);
  // The same for a value that says what it said before, in other bytes.
  void Reencoded(std::string_view key, bool is_watched);

  void Flush(int db_index, FlushMode mode);

  // fn(std::string_view key, const CompactValue& value) for the keys of one bucket; due ones are
  // left out. Returns the next cursor, 0 at the end. `fn` changes nothing.
  template <typename F>
  uint32_t Scan(uint32_t cursor, F&& fn) const;
  // A random key that is not due; none in an empty database.
  template <typename R>
  std::optional<std::string> RandomKey(R&& random);

 private:
  using Iterator = Database::Table::Iterator;

  void TellWords(std::initializer_list<std::string_view> words) {
    TellAll(std::span(words.begin(), words.size()));
  }

  // A value that a handler may be changing, and its size when it was last accounted.
  struct Open {
    Database::Table::Slot* slot;
    size_t heap_bytes;
  };

  // The keys of a command that has many. Only an aid: keys that are not among them, or come in
  // another order, cost a hash.
  struct ExpectedKeys {
    std::span<const std::string_view> keys;
    size_t step = 1;
    std::span<const uint64_t> hashes = {};  // of keys[0], keys[step], ...
    size_t current = 0;                     // index into hashes
    size_t fetched = SIZE_MAX;              // so many are in the cache, or on their way
  };
  static constexpr size_t kFetchedAhead = 16;
  static constexpr size_t kFieldsToldAtOnce = 256;  // by a command that meets a due hash

  uint64_t ExpectedHashOf(std::string_view key) const;
  void FetchExpected() const;  // the next kFetchedAhead

  bool IsHashed(std::string_view key) const {
    return key.data() == hashed_key_.data() && key.size() == hashed_key_.size();
  }
  KeyProbe ProbeOf(std::string_view key) const { return KeyProbe(key, HashOf(key)); }
  // The one look-up. Due keys are not found, and remembered for Finish.
  Iterator Find(const KeyProbe& probe) const {
    if (database_ == nullptr) return {};
    const Iterator it = database_->Find(probe);
    if (!it) return it;
    if (hint_ != nullptr && IsHashed(probe.key())) *hint_ = {database_->layout(), it};
    return UnlessDue(it, probe);
  }
  Iterator Find(std::string_view key) const {
    if (const Iterator it = FindByHint(key)) return it;
    return Find(ProbeOf(key));
  }
  // None also for keys with a deadline.
  Iterator FindByHint(std::string_view key) const {
    if (hint_ == nullptr || database_ == nullptr || hint_->layout != database_->layout()) return {};
    if (!IsHashed(key) || hint_->it->key.has_flag(CompactKey::kTimed)) return {};
    DCHECK(hint_->it == database_->Find(ProbeOf(key)));
    return hint_->it;
  }
  Iterator UnlessDue(Iterator it, const KeyProbe& probe) const {
    if (!it->key.has_flag(CompactKey::kTimed)) return it;
    return UnlessTimedDue(it, probe);
  }
  // Who hears of effects hears of due members before a command can see that they are absent.
  Iterator UnlessTimedDue(Iterator it, const KeyProbe& probe) const;
  // The key, or a member of it, is due; but if others have it locked, whose time stands still, the
  // command's goes back to theirs (TxQueue::KeepDue).
  void StepBack(const KeyProbe& probe) const;
  Iterator NoteDue(const KeyProbe& probe) const;  // none
  Database& database();                           // made if need be
  void Touch(CompactValue& value) {
    if (!no_touch_) database_->access_clock().Touch(value, noted_ms());
  }
  template <typename Handle>
  Handle HandleOf(Iterator it) const;
  template <typename Handle>
  static Handle OfType(Handle handle, ValueType type);
  WriteHandle OpenValue(Iterator it);
  // Accounts what was done through handles. True if a value that was open may be empty now: strings
  // never count as empty, but what has members with deadlines may have due ones only.
  bool Settle();
  void DeleteIfEmpty(std::string_view key);
  bool IsSettled() const;
  // And lets them die, as the table is going to change.
  void EndHandles() {
    if (!open_.empty()) {
      if (!is_settled_) Settle();
      DCHECK(IsSettled()) << "a value was changed after Changed()";
      open_.clear();
    }
    ++epoch_;
  }
  void RemoveDueKeys(size_t told_at_once);  // as Database::ExpireIfDue
  // The same, but on a replica they stay, and a large hash that is told waits for ExpireStep.
  void EndDueKeys() {
    if (shard_.keeps_due()) return due_.clear();
    RemoveDueKeys(kFieldsToldAtOnce);
  }
  void Report(std::string_view key, MutationKind kind, KeyEvent event, uint64_t changes = 1,
              Telling telling = Telling::kNow) {
    shard_.OnMutation({.db_index = db_index_,
                       .key = key,
                       .kind = kind,
                       .event = event,
                       .is_told = telling == Telling::kNow,
                       .changes = changes,
                       .by = client_});
  }
  void ReportUnwatched(std::string_view key, MutationKind kind, KeyEvent event, uint64_t changes) {
    shard_.OnMutation({.db_index = db_index_,
                       .key = key,
                       .kind = kind,
                       .event = event,
                       .is_watched = false,
                       .changes = changes,
                       .by = client_});
  }
  bool Erase(std::string_view key, MutationKind kind, KeyEvent event, uint64_t changes);
  Iterator Insert(const KeyProbe& probe);  // which is not there

  // Before the read: then none is missed that comes behind it.
  void NoteRead(std::string_view key) const {
    if (notes_reads_) [[unlikely]]
      shard_.NoteRead(key, *client_);
  }

  Shard& shard_;
  const CachingClient* client_ = nullptr;  // null: none that caches
  bool notes_reads_ = false;
  Database* database_ = nullptr;  // null while nothing was ever in it
  int db_index_ = 0;
  mutable int64_t now_ms_ = 0;
  bool no_touch_ = false;
  std::string_view hashed_key_;
  uint64_t hash_ = 0;
  KeyHint* hint_ = nullptr;  // of hashed_key_
  mutable ExpectedKeys expected_;
  absl::InlinedVector<uint64_t, 16> hashes_;  // what ExpectKeys has made
  absl::InlinedVector<Open, 2> open_;
  bool is_settled_ = false;  // nothing was opened or changed since Settle
  mutable absl::InlinedVector<std::string, 1> due_;
  mutable int64_t due_ms_ = 0;  // the time at which the first of due_ was found to be due
  uint64_t epoch_ = 0;          // counts table changes
};

// A command on a shard, for who wants to know what it does: a unit, or a part of the one that has
// begun. Owner: a scope that runs it.
class EffectScope {
 public:
  // `args` have to live until the end of the scope.
  EffectScope(ShardContext& cx, EffectRule rule, std::span<const std::string_view> args)
      : cx_(cx), recorder_(cx.shard().recorder()) {
    if (recorder_ != nullptr) [[unlikely]]
      recorder_->BeginCommand(rule, cx.db_index(), args);
  }
  ~EffectScope() {
    if (recorder_ != nullptr) [[unlikely]] {
      cx_.Finish();  // what was due goes first
      recorder_->EndCommand();
    }
  }
  EffectScope(const EffectScope&) = delete;
  EffectScope& operator=(const EffectScope&) = delete;

 private:
  ShardContext& cx_;
  EffectRecorder* const recorder_;
};

// What runs on the shard is part of a unit that goes on elsewhere, too. Null: there is none.
class UnitScope {
 public:
  UnitScope(Shard& shard, Unit* unit) : recorder_(unit == nullptr ? nullptr : shard.recorder()) {
    if (recorder_ != nullptr) [[unlikely]]
      recorder_->BeginUnit(unit);
  }
  ~UnitScope() {
    if (recorder_ != nullptr) [[unlikely]]
      recorder_->EndUnit();
  }
  UnitScope(const UnitScope&) = delete;
  UnitScope& operator=(const UnitScope&) = delete;

 private:
  EffectRecorder* const recorder_;
};

template <typename F>
uint32_t ShardContext::Scan(uint32_t cursor, F&& fn) const {
  if (database_ == nullptr) return 0;
  return database_->Scan(cursor, [&](const Database::Table::Slot& slot) {
    char scratch[CompactKey::kScratchSize];
    std::string_view key = slot.key.View(scratch);
    if (slot.key.has_flag(CompactKey::kTimed) &&
        database_->IsDue(slot, KeyProbe(key, HashKey(key)), now_ms_)) {
      return;
    }
    fn(key, slot.value);
  });
}

template <typename R>
std::optional<std::string> ShardContext::RandomKey(R&& random) {
  // Expires what it draws, so it comes to an end even when all keys are due. A replica does not,
  // and may have to draw a due one, as redis-server's.
  constexpr int kDrawsMax = 100;
  EndHandles();
  for (int draws = 1; database_ != nullptr; ++draws) {
    Iterator it = database_->Random(random);
    if (!it) break;
    std::string key = it->key.ToString();
    if (UnlessDue(it, KeyProbe(key, HashKey(key)))) return key;
    EndDueKeys();
    if (shard_.keeps_due() && draws == kDrawsMax) return key;
  }
  return std::nullopt;
}

}  // namespace dfly
