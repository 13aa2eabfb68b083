// SPDX-License-Identifier: Apache-2.0
// Where threads collect the effects of their units until the journal writes them.
//
// Each thread appends to a section of its own. Two numbers that all threads read make of the
// sections one history:
//
// The *epoch* says to which write a unit belongs. Who writes raises it, and then has all that was
// appended before: a thread reads the number and appends under the lock of its section, and who
// writes takes each of these locks once after it has raised the number. A section has two halves,
// so that one fills while the other is written. A unit that saw what another one did was appended
// after it, so it is never in an earlier epoch.
//
// The *clock* orders the units of an epoch. It grows with each unit that a coordinator delivers,
// before that lets its locks go. A unit of one shard has the clock that its thread reads. So a unit
// that held a key before the coordinator has a smaller clock than the coordinator's unit, and one
// that holds it afterwards has at least its clock and stands behind it. (Lamport, "Time, clocks,
// and the ordering of events in a distributed system", 1978; the clocks here need no messages.)
// Units of one shard with equal clocks on two threads have no key in common: any order will do.
//
// The text of a unit is copied once, into blocks that the thread owns, and written from there.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/journal/durable_log.h"
#include "engine/journal/private_words.h"
#include "engine/keyspace/effects.h"
#include "helio/base/spin_lock.h"

namespace dfly {

// Of units that lie behind each other in memory, on one thread, with one clock.
struct JournalPiece {
  uint64_t clock;
  bool is_local;  // of one shard; else a coordinator's, which stands before those
  int first_db;
  int last_db;
  const char* text;
  size_t bytes;
  uint64_t block;  // the number of the block that has the text
};

// One epoch, closed.
struct ClosedEpoch {
  Epoch epoch;
  uint64_t units = 0;
  std::vector<JournalPiece> sorted;
  std::vector<std::string_view> pieces;
};

// What one thread has appended.
//
// Owner:    the thread appends; who writes closes and releases, from any thread, one at a time.
// Suspends: never.
class Section {
 public:
  static constexpr size_t kBlockBytes = 64 * 1024;

  // Thread: its own. Returns the epoch that the unit is in. REQUIRES: `effects` are not empty.
  uint64_t Append(const Effects& effects, UnitOrigin origin, IsPrivateFn is_private,
                  const std::atomic<uint64_t>& epoch, std::atomic<uint64_t>* clock);
  // The same of a unit of one shard that is one command, which is not private.
  uint64_t Append(int db_index, std::span<const std::string_view> words,
                  const std::atomic<uint64_t>& epoch, std::atomic<uint64_t>* clock);

  // The epoch of the last unit; 0: there was none. Thread: any.
  uint64_t newest() const { return newest_.load(std::memory_order_seq_cst); }
  // Makes what newest() says visible to who looks after a sequentially consistent operation that
  // follows. Thread: its own.
  void PublishNewest() {
    newest_.store(newest_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  }
  // Bytes that are not released. Thread: any.
  uint64_t waiting_bytes() const {
    return appended_bytes_.load(std::memory_order_relaxed) -
           released_bytes_.load(std::memory_order_relaxed);
  }

  // Adds the pieces of an epoch that has been closed. REQUIRES: the number was raised past it.
  void Take(uint64_t epoch, ClosedEpoch* closed);
  // Forgets them. REQUIRES: Take.
  void Release(uint64_t epoch);

 private:
  struct Block {
    uint64_t number;
    size_t capacity;
    std::unique_ptr<char[]> bytes;
  };
  struct Half {
    std::vector<JournalPiece> pieces;
    uint64_t units = 0;
    uint64_t bytes = 0;
  };

  // A unit's text; it begins at current_.
  struct UnitText {
    int first_db = -1;
    int last_db = -1;
    char* end;
  };

  std::unique_ptr<Block> TakeBlock(size_t bytes);
  // There is room for so many bytes at current_. Null, or the new block, which is for Note.
  std::unique_ptr<Block> MakeRoom(size_t bytes);
  static UnitText Write(const Effects& effects, IsPrivateFn is_private, char* to);
  // Adds the text to the epoch that is open; returns its number.
  uint64_t Note(std::unique_ptr<Block> fresh, const UnitText& text, UnitOrigin origin,
                const std::atomic<uint64_t>& epoch, std::atomic<uint64_t>* clock);

  // Held for as long as it takes to note a piece; now and then that grows a list.
  helio::SpinLock lock_;
  std::deque<std::unique_ptr<Block>> blocks_;  // guarded by lock_; in the order of their numbers
  std::unique_ptr<Block> spare_;               // guarded by lock_
  // Guarded by lock_; the number of the block that has more room, which is not freed. UINT64_MAX:
  // there is none.
  uint64_t open_block_ = UINT64_MAX;
  Half halves_[2];  // [n & 1] of epoch n; guarded by lock_ until the number is raised
  std::atomic<uint64_t> newest_{0};
  std::atomic<uint64_t> appended_bytes_{0};
  alignas(64) std::atomic<uint64_t> released_bytes_{0};

  // The thread's own.
  alignas(64) char* current_ = nullptr;  // where the next text goes
  size_t room_ = 0;                      // bytes there
  uint64_t last_block_ = 0;
};

// The sections of all threads.
//
// Owner:    the journal. Thread and Suspends: as Section.
class Sections {
 public:
  // The first epoch has this number, which is not 0. `is_private`: what stands behind ECHO; null:
  // nothing.
  Sections(uint32_t threads, uint64_t first_epoch, IsPrivateFn is_private = nullptr);

  // Thread: the one with that index.
  uint64_t Append(uint32_t thread, const Effects& effects, UnitOrigin origin) {
    return sections_[thread].Append(effects, origin, is_private_, epoch_, &clock_);
  }
  // As OnCommand of EffectSink.
  uint64_t Append(uint32_t thread, int db_index, std::span<const std::string_view> words);
  Section& of(uint32_t thread) { return sections_[thread]; }
  const Section& of(uint32_t thread) const { return sections_[thread]; }

  // The newest epoch that has a unit; 0: none has. Thread: any.
  uint64_t newest() const;
  // The number of the epoch that is open. Thread: any.
  uint64_t open_epoch() const { return epoch_.load(std::memory_order_seq_cst); }
  // Something was appended that no closed epoch has. Thread: any.
  bool has_open() const { return newest() >= epoch_.load(std::memory_order_seq_cst); }
  uint64_t waiting_bytes() const;

  // Ends the epoch that is open. What `closed` has stays in place until Release.
  // REQUIRES: the epoch before was released.
  void Close(ClosedEpoch* closed);
  void Release(const ClosedEpoch& closed);

 private:
  std::string_view SelectText(int db_index);

  alignas(64) std::atomic<uint64_t> epoch_;
  alignas(64) std::atomic<uint64_t> clock_{0};
  alignas(64) const std::unique_ptr<Section[]> sections_;
  const uint32_t threads_;
  const IsPrivateFn is_private_;
  std::deque<std::string> select_texts_;  // by database; of who writes
};

// `SELECT db` in RESP.
std::string SelectCommand(int db_index);

}  // namespace dfly
