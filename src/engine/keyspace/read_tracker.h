// SPDX-License-Identifier: Apache-2.0
// Clients that cache what they read (CLIENT TRACKING), as shards know them.
#pragma once

#include <cstdint>
#include <string_view>

namespace dfly {

// Travels with the client's commands to their shards.
struct CachingClient {
  uint64_t id = 0;  // 0: none
  uint32_t thread = 0;
  bool no_loop = false;  // wants not to hear of its own changes
};

// What a shard tells of reads and changes. Owner: the shard's thread. Called in the middle of
// commands: must not change keys, nor suspend.
class ReadTracker {
 public:
  // A command of the client looks at the key, which may be absent.
  virtual void OnRead(uint32_t shard, std::string_view key, const CachingClient& reader) = 0;
  // The key has changed. `by`: whose command did it, if that one caches; null: somebody else's, or
  // nobody's.
  virtual void OnKeyChanged(uint32_t shard, std::string_view key, const CachingClient* by) = 0;
  // Any key may have: FLUSHALL, SWAPDB. `count`: how many of these there were on the shard.
  virtual void OnFlushed(uint32_t shard, uint64_t count) = 0;

 protected:
  ~ReadTracker() = default;
};

}  // namespace dfly
