// SPDX-License-Identifier: Apache-2.0
// One database (SELECT n) of one shard: its keys and their deadlines.
#pragma once

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory/prefetch.h"
#include "core/table/compact_key.h"
#include "core/table/compact_value.h"
#include "core/table/dash_table.h"
#include "core/table/deadline_table.h"
#include "core/text/hash.h"
#include "engine/keyspace/access_clock.h"
#include "engine/keyspace/memcached_items.h"
#include "engine/keyspace/mutation.h"
#include "helio/base/logging.h"

namespace dfly {

// Hears of what a database does by itself.
class ChangeListener {
 public:
  // Once, after it happened. Must not change keys.
  virtual void OnMutation(const Mutation& mutation) = 0;
  // Some key, or a member of one, has a deadline now that is earlier than all that there were.
  virtual void OnEarlierDeadline(int64_t at_ms) = 0;
  // So many members of a key were erased, as their deadlines have passed.
  virtual void OnMembersExpired(size_t count) = 0;
  // Behind the mutation that says it of a hash. Only if WantsFields.
  virtual void OnFieldsExpired(int db_index, std::string_view key,
                               std::span<const std::string> fields) = 0;
  virtual bool WantsFields() const = 0;
  // OnMutation has to know the names of members.
  virtual bool WantsMembers() const = 0;

 protected:
  ~ChangeListener() = default;
};

class Database;

// Keeps what keys were at the moment of a cut, while they are written down one after another. Hears
// of each that is still to be written, just before it changes.
class CutKeeper {
 public:
  enum class Change : uint8_t {
    kInPlace,  // of its value, its deadline or its mark
    kReplaced  // it is removed, or gets another value
  };
  using Slot = DashSlot<CompactValue>;

  // Afterwards the slot counts as written. It may have taken the value, and left a copy of it
  // (kInPlace) or any other one (kReplaced), and has accounted for that. Must not change tables.
  virtual void BeforeChange(Database& database, Slot& slot, Change change) = 0;

 protected:
  ~CutKeeper() = default;
};

// Owner:     one Shard; used on its thread only. Commands come here through ShardContext.
// Suspends:  never.
// Invariant: a key has the flag kHasExpire exactly when the expiry table holds it, and
//            kHasMemberExpire exactly when the table of member deadlines does.
// A deadline is in absolute Unix milliseconds. A key is due when the clock is past it.
//
// Members of a value (fields of a hash, members of a set) may have deadlines, too. The value
// itself leaves due ones out of all that it tells, so nobody need erase them in time. What is kept
// here is the earliest of each such key, or an earlier time: SyncMembers after every change.
// ExpireStep erases due members, so many at a time. A key all of whose members
// are due is due itself, and goes the way of all due keys: look-ups do not find it, and
// ExpireIfDue removes it. For other keys all of that is a flag that is not set, in the test that
// look-ups make anyway.
//
// A cut: each key has a flag, and a cut turns its meaning round (cut_parity_), so that at once all
// keys are unsaved, and those that come later are not. Whoever walks over them marks what it has
// written, and a keeper is called before an unsaved one changes. At the end all are marked, and
// have the same flag again. Flags stay with their keys, wherever the table moves them.
class Database {
 public:
  using Table = DashTable<CompactValue>;
  Database(int index, ChangeListener* listener, const EvictionRules& rules);

  int index() const { return index_; }
  void set_index(int index) { index_ = index; }  // SWAPDB
  size_t size() const { return table_.size(); }  // keys, due ones that nobody has noticed included
  size_t expires() const { return expiry_.size(); }  // keys with a deadline
  // ExpireStep has something to look at.
  bool has_deadlines() const { return expiry_.size() + member_expiry_.size() != 0; }
  // None is earlier, of keys and of members. INT64_MAX: there are none.
  int64_t earliest_deadline_ms() const {
    return std::min(expiry_.earliest_ms(), member_expiry_.earliest_ms());
  }
  size_t member_expires() const { return member_expiry_.size(); }  // keys whose members have some
  // Exact: tables, keys and values.
  size_t bytes() const {
    return table_.bytes() + expiry_.bytes() + member_expiry_.bytes() + value_bytes_;
  }

  // What eviction goes by here.
  AccessClock& access_clock() { return access_clock_; }
  const EvictionRules& eviction_rules() const { return access_clock_.rules(); }
  // If clocks mean something else by these, StartClocks has work.
  void SetEvictionRules(const EvictionRules& rules);
  bool starts_clocks() const { return starts_clocks_; }
  // Lets the clocks of about `budget` keys begin as new. False: no more are left.
  bool StartClocks(int64_t now_ms, size_t budget);

  // Reading one takes so long that others should run meanwhile.
  static constexpr size_t kLargeValueBytes = 256 * 1024;
  static constexpr size_t kLargeStringBytes = 1024 * 1024;  // bytes are read faster than members
  bool has_large_values() const { return large_values_ > 0; }

  // As long as this stays the same, iterators stay alive. No two databases have the same one.
  uint64_t layout() const { return born_ + table_.layout(); }

  // A stage of a batch; see DashTable.
  void Prefetch(FetchStage stage, uint64_t hash) const { table_.Prefetch(stage, hash); }
  // What is most likely the value of the key with this hash, or null; see DashTable.
  const CompactValue* Guess(uint64_t hash) const {
    const auto* const slot = table_.Guess(hash);
    return slot == nullptr ? nullptr : &slot->value;
  }

  // The key, due or not. For all but ShardContext a due key is none.
  Table::Iterator Find(const KeyProbe& probe) const { return table_.Find(probe); }
  bool IsDue(const Table::Slot& slot, const KeyProbe& probe, int64_t now_ms) const {
    return slot.key.has_flag(CompactKey::kTimed) && IsTimedDue(slot, probe, now_ms);
  }
  // The one function that expires a key: removes it if it is due and tells the listener. `key` must
  // not be the table's own memory. A hash of which the listener wants more fields than
  // `told_at_once` stays: look-ups do not find it, and ExpireStep erases it in portions.
  bool ExpireIfDue(const KeyProbe& probe, int64_t now_ms, size_t told_at_once = SIZE_MAX);
  // Erases the due members of a key that has others, which look-ups only hide.
  void EraseDueMembers(Table::Iterator it, const KeyProbe& probe, int64_t now_ms);

  Table::Iterator Insert(const KeyProbe& probe) {
    const Table::Iterator it = table_.Insert(probe);
    it->key.set_flag(CompactKey::kCutParity, cut_parity_);
    return it;
  }
  // Makes room for what comes from a snapshot. It may be empty, and must not be used by others yet.
  void Reserve(size_t keys, size_t deadlines) {
    table_.Reserve(keys);
    expiry_.Reserve(deadlines);
  }
  // A key that comes from a snapshot; to eviction it is new. False: it is there already.
  [[nodiscard]] bool Load(const KeyProbe& probe, CompactValue value,
                          std::optional<int64_t> deadline_ms, bool is_sticky, int64_t now_ms);
  // Removes a key and its deadline. `probe` must not be the table's own memory.
  void Remove(Table::Iterator it, const KeyProbe& probe);

  std::optional<int64_t> Deadline(const Table::Slot& slot, const KeyProbe& probe) const;
  void SetDeadline(Table::Slot& slot, const KeyProbe& probe, int64_t at_ms);
  bool ClearDeadline(Table::Slot& slot, const KeyProbe& probe);  // true if there was one

  // --- Cuts ---

  // From here on `keeper` is called before a key changes that was there now and is not yet saved.
  // REQUIRES: no cut is going on.
  void BeginCut(CutKeeper* keeper) {
    DCHECK(keeper_ == nullptr);
    keeper_ = keeper;
    cut_parity_ = !cut_parity_;
  }
  // REQUIRES: all keys are saved.
  void EndCut() { keeper_ = nullptr; }
  bool is_being_cut() const { return keeper_ != nullptr; }
  // While a cut is going on.
  bool IsUnsaved(const Table::Slot& slot) const {
    return slot.key.has_flag(CompactKey::kCutParity) != cut_parity_;
  }
  void MarkSaved(Table::Slot& slot) { slot.key.set_flag(CompactKey::kCutParity, cut_parity_); }
  // For all that changes what a slot has; before it does.
  void BeforeChange(Table::Slot& slot, CutKeeper::Change change) {
    if (keeper_ != nullptr && IsUnsaved(slot)) [[unlikely]] {
      keeper_->BeforeChange(*this, slot, change);
      MarkSaved(slot);
    }
  }

  // The members of its value have other deadlines now. Cheap if there are none, and were none.
  void SyncMembers(Table::Slot& slot) {
    const int64_t next_ms = slot.value.NextMemberDeadline();
    if (next_ms == INT64_MAX && !slot.key.has_flag(CompactKey::kHasMemberExpire)) return;
    SetMemberDeadline(slot, next_ms);
  }

  // A value's heap part has changed from one size to another.
  void AccountValue(size_t bytes_before, size_t bytes_after) {
    value_bytes_ += bytes_after - bytes_before;
    large_values_ += static_cast<size_t>(bytes_after >= kLargeValueBytes) -
                     static_cast<size_t>(bytes_before >= kLargeValueBytes);
  }

  struct ExpireProgress {
    size_t visited = 0;
    size_t expired = 0;
  };
  // Looks at the deadlines of about `budget` keys, where some are due, and expires those; then the
  // same for keys whose members have some, where each member that is erased counts.
  ExpireProgress ExpireStep(int64_t now_ms, size_t budget);

  // The next deadline, for the listener, which forgets any that it knew. From now on it hears of
  // what is earlier than this one.
  int64_t TellDeadline() { return told_deadline_ms_ = earliest_deadline_ms(); }

  // As Table::Scan and Table::Random.
  template <typename F>
  uint32_t Scan(uint32_t cursor, F&& fn) const {
    return table_.Scan(cursor, fn);
  }
  template <typename R>
  Table::Iterator Random(R&& random) const {
    return table_.Random(random);
  }

  // The same for the keys that have a deadline: fn(Table::Slot&, its deadline).
  template <typename F>
  uint32_t ScanDeadlines(uint32_t cursor, F&& fn) const {
    return expiry_.Scan(cursor, [&](const DeadlineTable::Entry& entry) {
      fn(SlotOf(entry, expiry_, CompactKey::kHasExpire), entry.at_ms);
    });
  }
  // REQUIRES: one of them has.
  template <typename R>
  Table::Slot& RandomDeadline(R&& random) const {
    return SlotOf(*expiry_.Random(random), expiry_, CompactKey::kHasExpire);
  }

  // Of the keys that have a deadline, by so many of them; 0: none has one.
  struct TtlEstimate {
    double mean_ms = 0;    // how long they still have
    double due_share = 0;  // are due, and not removed yet: 0 to 1
  };
  template <typename R>
  TtlEstimate EstimateTtls(size_t samples, int64_t now_ms, R&& random) const {
    if (expiry_.size() == 0) return {};
    double sum_ms = 0;
    double due = 0;
    for (size_t i = 0; i < samples; ++i) {
      const int64_t ttl_ms = expiry_.Random(random)->at_ms - now_ms;
      sum_ms += static_cast<double>(std::max<int64_t>(0, ttl_ms));
      if (ttl_ms < 0) ++due;
    }
    return {sum_ms / static_cast<double>(samples), due / static_cast<double>(samples)};
  }

  // --- Moving memory (core/memory/block_mover.h), which changes no key. REQUIRES: no cut is going
  // on, as its keeper may refer to values. ---

  // What belongs to some keys and their values, from `cursor` on. Returns the next cursor, 0 at the
  // end. Values of more than `at_once` bytes are only noted: `large` gets their keys.
  uint32_t MoveKeys(uint32_t cursor, BlockMover& mover, size_t at_once,
                    std::vector<std::string>* large);
  // A part of the value of a key, if it is still there. As CompactValue::Move.
  void MoveLarge(const KeyProbe& probe, BlockMover& mover, uint64_t* cursor);
  // The tables of deadlines: as MoveKeys.
  uint32_t MoveDeadlines(uint32_t cursor, BlockMover& mover);
  uint32_t MoveMemberDeadlines(uint32_t cursor, BlockMover& mover);

  // Frees about `budget` keys of a database that nobody uses any more. True when it is empty.
  bool FreeSome(size_t budget);

  // O(n): recomputes all counters and compares. For tests.
  void CheckInvariants() const;

 private:
  // Whose deadline that is, in a table where all have `flag`.
  Table::Slot& SlotOf(const DeadlineTable::Entry& entry, const DeadlineTable& deadlines,
                      CompactKey::Flag flag) const;
  bool IsTimedDue(const Table::Slot& slot, const KeyProbe& probe, int64_t now_ms) const;
  void SetMemberDeadline(Table::Slot& slot, int64_t next_ms);
  void TellIfEarliest(int64_t at_ms) {
    if (at_ms >= told_deadline_ms_) return;
    told_deadline_ms_ = at_ms;
    listener_->OnEarlierDeadline(at_ms);
  }
  ExpireProgress ExpireKeys(int64_t now_ms, size_t budget);
  ExpireProgress ExpireMembers(int64_t now_ms, size_t budget);
  size_t ExpireMembersOf(const KeyProbe& probe, int64_t now_ms, size_t most);
  size_t EraseDueMembers(Table::Iterator it, const KeyProbe& probe, int64_t now_ms, size_t most);

  const uint64_t born_;
  int index_;
  bool cut_parity_ = false;  // the flag of keys that are saved, or came after the last cut
  CutKeeper* keeper_ = nullptr;
  ChangeListener* const listener_;
  AccessClock access_clock_;
  bool starts_clocks_ = false;  // of the keys from the cursor on
  uint32_t start_cursor_ = 0;
  Table table_;
  DeadlineTable expiry_;
  DeadlineTable member_expiry_;  // a key whose members have deadlines -> no later than the earliest
  size_t value_bytes_ = 0;       // heap parts of all values
  size_t large_values_ = 0;      // of kLargeValueBytes or more
  int64_t told_deadline_ms_ = INT64_MAX;  // the listener knows of one that is as early; else it
                                          // would not hear of those in between
};

// All databases of one shard, as SELECT numbers them. A shard has one set that clients see. While a
// replica loads a copy beside its data, it has a second one (Shard::incoming).
//
// Owner:    one Shard, on its thread. Suspends: never.
class DatabaseSet {
 public:
  // `listener`: of each database.
  DatabaseSet(int count, ChangeListener* listener)
      : listener_(listener), databases_(static_cast<size_t>(count)) {}

  int count() const { return static_cast<int>(databases_.size()); }
  // Made at its first use. REQUIRES: 0 <= index < count(), as below.
  Database& Make(int index) {
    DCHECK_GE(index, 0);
    DCHECK_LT(index, count());
    std::unique_ptr<Database>& database = databases_[static_cast<size_t>(index)];
    if (database == nullptr) {
      database = std::make_unique<Database>(index, listener_, eviction_.Of(index));
      made_end_ = std::max(made_end_, static_cast<size_t>(index) + 1);
    }
    return *database;
  }
  // Null: nothing was ever in it.
  Database* Find(int index) const { return databases_[static_cast<size_t>(index)].get(); }
  // The policy belongs to the number of a database, and not to what is in it: Swap does not take it
  // along.
  void SetEviction(const EvictionSettings& eviction) {
    eviction_ = eviction;
    for (int i = 0; i < count(); ++i) UpdateRules(i);
  }
  const EvictionSettings& eviction() const { return eviction_; }

  // It is as new then. Null as above.
  std::unique_ptr<Database> Take(int index) {
    return std::move(databases_[static_cast<size_t>(index)]);
  }
  void Swap(int first, int second) {
    std::swap(databases_[static_cast<size_t>(first)], databases_[static_cast<size_t>(second)]);
    made_end_ = std::max(made_end_, static_cast<size_t>(std::max(first, second)) + 1);
    for (int index : {first, second}) {
      if (Database* database = Find(index)) database->set_index(index);
      UpdateRules(index);
    }
  }
  // The databases of both change places, not what memcached's clients know. REQUIRES: both have the
  // same eviction().
  void SwapAll(DatabaseSet& other) {
    databases_.swap(other.databases_);
    std::swap(made_end_, other.made_end_);
  }

  // Those that there have ever been: most are never used, and they are looked at all the time.
  std::span<const std::unique_ptr<Database>> made() const {
    return std::span(databases_).first(made_end_);
  }

  MemcachedItems& memcached() { return memcached_; }
  const MemcachedItems& memcached() const { return memcached_; }

  // Exact.
  size_t bytes() const {
    size_t bytes = memcached_.bytes();
    for (const auto& database : made()) {
      if (database != nullptr) bytes += database->bytes();
    }
    return bytes;
  }

 private:
  void UpdateRules(int index) {
    if (Database* database = Find(index)) database->SetEvictionRules(eviction_.Of(index));
  }

  ChangeListener* const listener_;
  EvictionSettings eviction_;
  std::vector<std::unique_ptr<Database>> databases_;
  size_t made_end_ = 0;  // all behind it are null
  MemcachedItems memcached_;
};

// Fetches what a batch of commands looks up into the cache: all of them wait for memory together,
// not one after another. for_each(visit) calls visit(const Database&, uint64_t hash,
// std::string_view element) for each key; `element`: of its value, is looked up there; or nothing.
template <typename ForEach>
void PrefetchTogether(ForEach for_each) {
  using enum FetchStage;
  bool have_elements = false;
  for_each([&](const Database& database, uint64_t hash, std::string_view element) {
    database.Prefetch(kBucket, hash);
    have_elements |= element.data() != nullptr;
  });
  for_each([](const Database& database, uint64_t hash, std::string_view) {
    database.Prefetch(kSlot, hash);
  });
  for_each([](const Database& database, uint64_t hash, std::string_view) {
    database.Prefetch(kValue, hash);
  });
  if (!have_elements) return;
  absl::InlinedVector<std::pair<const CompactValue*, uint64_t>, 64> elements;
  for_each([&](const Database& database, uint64_t hash, std::string_view element) {
    if (element.data() == nullptr) return;
    const CompactValue* const value = database.Guess(hash);
    if (value != nullptr && !value->is_string()) elements.emplace_back(value, HashKey(element));
  });
  for (FetchStage stage : kFetchStages) {
    for (const auto& [value, hash] : elements) value->PrefetchElement(stage, hash);
  }
}

}  // namespace dfly
