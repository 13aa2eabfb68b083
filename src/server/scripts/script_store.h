// SPDX-License-Identifier: Apache-2.0
// The scripts that the server knows by their SHA1, and what it has learned about each.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "helio/base/block_bytes.h"
#include "scripting/lua/sha1.h"

namespace dfly {

// How far from the keys that a script declares those are that it uses. Each includes the ones
// before.
enum class Reach : uint8_t {
  kDeclared,  // they are the same
  kTags,      // they have the tags of declared ones
  kShard,     // they are in the shards of declared ones
  kFar,
};
std::string_view ReachName(Reach reach);

// What the functions of a library share.
struct LibraryCode {
  std::string name;
  std::string code;      // without the first line
  uint64_t version = 0;  // no other library ever has the same
};

// A script, or a function of a library.
// Owner: shared by its store, the threads' caches and what runs it. What is not atomic never
// changes.
struct Script : std::enable_shared_from_this<Script> {
  // So many runs are watched, with all shards locked, before one is trusted to lock less.
  static constexpr uint32_t kWatchedRuns = 3;

  std::string sha;     // 40 hexadecimal digits, lower case; of a function: its name
  std::string source;  // as the client sent it
  std::string code;    // without the #! of its first line
  std::shared_ptr<const LibraryCode> library;  // of a function, which has no text of its own
  bool has_shebang = false;
  std::atomic<bool> is_evaluated{false};  // it came by EVAL, and may be forgotten

  std::atomic<uint32_t> flags{0};  // ScriptFlag

  // What was learned: the furthest that any run went, and how many runs have been watched.
  std::atomic<Reach> reach{Reach::kDeclared};
  std::atomic<uint32_t> watched_runs{0};

  // For SCRIPT LIST.
  std::atomic<uint64_t> runs{0};
  std::atomic<uint64_t> runs_global{0};  // all shards were locked
  std::atomic<uint64_t> restarts{0};
  std::atomic<uint64_t> refused{0};  // keys
  // All calls of its last run over shards were deferred.
  std::atomic<bool> only_defers{false};
  std::atomic<uint64_t> total_us{0};
  std::atomic<int64_t> used_at_s{0};  // Unix time

  // As long as it is in a store.
  size_t memory_used() const;
  bool is_function() const { return library != nullptr; }
  void Saw(Reach seen) {
    Reach known = reach.load(std::memory_order_relaxed);
    while (known < seen && !reach.compare_exchange_weak(known, seen, std::memory_order_relaxed)) {
    }
  }
};

using ScriptRef = std::shared_ptr<Script>;

// Owner:    the server. Thread: any.
// Suspends: never. Takes a mutex when a thread asks for a script for the first time (ScriptCache).
class ScriptStore {
 public:
  // Scripts that came by EVAL and were not loaded are forgotten past so many, the one first that
  // was not used for longest, as clients may make a new one for each call.
  static constexpr size_t kEvaluatedMax = 500;

  // `default_flags` are those of scripts that say none. `defers_calls`: --lua_auto_async.
  ScriptStore(uint32_t default_flags, bool defers_calls)
      : default_flags_(default_flags), defers_calls_(defers_calls) {}

  // Null if there is none.
  ScriptRef Find(std::string_view sha);
  // The script of that text, which may have been there. Null, and why, if its first line makes no
  // sense.
  ScriptRef Add(std::string_view source, bool is_evaluated, std::string* error);
  // The same in two steps, as one that is loaded must compile first. Add: what is there already, if
  // it is.
  ScriptRef Prepare(std::string_view source, std::string* error) const;
  ScriptRef Add(ScriptRef script, bool is_evaluated);
  // Overrides what the script says; also for one that has yet to come.
  void SetFlags(std::string_view sha, uint32_t flags);
  void Flush();

  // Changes when something was removed: what threads have cached is outdated then.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  std::vector<ScriptRef> List();
  size_t size();
  // How many were forgotten since the start or ResetForgotten.
  uint64_t forgotten() const { return forgotten_.load(std::memory_order_relaxed); }
  void ResetForgotten() { forgotten_.store(0, std::memory_order_relaxed); }
  // Of their texts and of what is kept with them.
  size_t memory_used() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  void Count();  // REQUIRES: mutex_ is held.
  // REQUIRES: mutex_ is held. Null: it is not there.
  ScriptRef AddAgain(const std::string& sha, bool is_evaluated);
  // `newest` stays, as its client may call it by its digest next, and others may have been used in
  // the same second.
  void ForgetOldest(const Script& newest);

  const uint32_t default_flags_;
  const bool defers_calls_;
  std::atomic<uint64_t> version_{1};
  std::atomic<uint64_t> forgotten_{0};
  // A plain mutex: no fiber suspends under it, and a spin lock would be held while memory is
  // allocated.
  std::mutex mutex_;
  absl::flat_hash_map<std::string, ScriptRef> scripts_;        // guarded by mutex_, as what follows
  absl::flat_hash_map<std::string, uint32_t> flags_override_;  // by SCRIPT FLAGS
  size_t evaluated_ = 0;
  // Of the texts, and of all. Changed under the mutex.
  size_t text_bytes_ = 0;
  std::atomic<size_t> bytes_{0};
};

// One thread's view of the store, which costs no lock.
class ScriptCache {
 public:
  explicit ScriptCache(ScriptStore* store) : store_(*store) {}

  // As ScriptStore's. What they return lives until Settle; longer if somebody holds a ScriptRef.
  Script* Find(std::string_view sha);
  Script* Evaluated(std::string_view source, std::string* error);
  size_t memory_used() const { return helio::MapBytes(by_sha_) + helio::MapBytes(by_source_); }
  // Nobody uses any more what was found before.
  void Settle() {
    if (!retired_.empty()) [[unlikely]]
      retired_.clear();
  }

 private:
  void Refresh();
  Script* Keep(ScriptRef script);

  ScriptStore& store_;
  uint64_t version_ = 0;
  absl::flat_hash_map<std::string_view, ScriptRef> by_sha_;  // the keys are parts of the values
  absl::flat_hash_map<std::string_view, Script*> by_source_;
  std::vector<ScriptRef> retired_;
};

}  // namespace dfly
