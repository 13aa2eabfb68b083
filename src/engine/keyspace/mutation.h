// SPDX-License-Identifier: Apache-2.0
// One change of data, as a shard tells of it: to WATCH, to clients that cache, to those that wait
// for keys, to the listeners of the keyspace, to the counters, and to a log.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/keyspace/key_events.h"

namespace dfly {

struct CachingClient;

enum class MutationKind : uint8_t {
  kWrite,           // a value, or its deadline, was made, changed or replaced
  kDelete,          // a command has deleted the key, or taken its value elsewhere
  kEmptied,         // the key went with its last element: what took that is a mutation before it
  kExpired,         // the key's deadline has passed
  kMembersExpired,  // deadlines of some of its members have
  kEvicted,         // for want of memory
  kFlushed,         // the whole database; no key
  kSwapped,         // two databases have exchanged their names; no key
  // What the value says is the same: a sticky flag, a memcached item, the cached count or the
  // encoding of a HyperLogLog.
  kAside,
};

struct Mutation {
  int db_index;
  std::string_view key;  // until the call returns
  MutationKind kind;
  KeyEvent event = KeyEvent::kNone;
  bool is_told = true;     // false: the keyspace hears of `event` later (AlsoHappened)
  bool is_watched = true;  // false: nothing that WATCH or a cache would hear of
  uint64_t changes = 1;    // as rdb_changes_since_last_save counts them
  int other_db = -1;       // of kSwapped
  // Of kMembersExpired; none: all of them, and kEmptied follows. Until the call returns.
  std::span<const std::string> members = {};
  const CachingClient* by = nullptr;  // who has made it, if that client caches
};

// Hears of every mutation, just after it has happened, in their order. Owner: the shards' thread.
class MutationListener {
 public:
  // In the middle of a command: must not change keys, nor suspend.
  virtual void OnMutation(uint32_t shard, const Mutation& mutation) = 0;

 protected:
  ~MutationListener() = default;
};

}  // namespace dfly
