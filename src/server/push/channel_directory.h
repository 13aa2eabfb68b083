// SPDX-License-Identifier: Apache-2.0
// What the shard that owns a channel knows of its subscribers: on which threads they are, and how
// many. Pure.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/text/hash.h"
#include "helio/base/block_bytes.h"
#include "helio/base/logging.h"
#include "server/clients/channel_kind.h"

namespace dfly {

// Clients choose the names, so they are hashed with the process' secret seed.
struct ChannelNameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return HashKey(name); }
};

// Owner: one shard, on its thread. Suspends: never. It knows every pattern, and the channels that
// hash to it.
class ChannelDirectory {
 public:
  struct ThreadCount {
    uint32_t thread;
    uint32_t subscribers;  // > 0
  };
  using ThreadCounts = absl::InlinedVector<ThreadCount, 2>;
  using Names = absl::flat_hash_map<std::string, ThreadCounts, ChannelNameHash, std::equal_to<>>;

  // One more, or one less, subscriber of `name` on `thread`.
  void Add(ChannelKind kind, std::string_view name, uint32_t thread) {
    Names& names = names_[IndexOf(kind)];
    auto it = names.find(name);
    if (it == names.end()) {
      it = names.emplace(std::string(name), ThreadCounts()).first;
      name_bytes_ += helio::HeapBytes(it->first);
    }
    for (ThreadCount& count : it->second) {
      if (count.thread != thread) continue;
      ++count.subscribers;
      return;
    }
    it->second.push_back({thread, 1});
  }
  // REQUIRES: it was added.
  void Remove(ChannelKind kind, std::string_view name, uint32_t thread) {
    Names& names = names_[IndexOf(kind)];
    const auto it = names.find(name);
    CHECK(it != names.end()) << "a subscription that nobody has told";
    ThreadCounts& counts = it->second;
    for (ThreadCount& count : counts) {
      if (count.thread != thread) continue;
      if (--count.subscribers == 0) {
        count = counts.back();
        counts.pop_back();
        if (counts.empty()) {
          name_bytes_ -= helio::HeapBytes(it->first);
          names.erase(it);
          helio::ShrinkIfSparse(&names);
        }
      }
      return;
    }
    LOG(FATAL) << "a subscription on a thread that has none";
  }

  // Null if there is none. Dies with the next change.
  const ThreadCounts* Find(ChannelKind kind, std::string_view name) const {
    const Names& names = names_[IndexOf(kind)];
    const auto it = names.find(name);
    return it == names.end() ? nullptr : &it->second;
  }
  uint64_t Subscribers(ChannelKind kind, std::string_view name) const {
    uint64_t sum = 0;
    if (const ThreadCounts* counts = Find(kind, name)) {
      for (const ThreadCount& count : *counts) sum += count.subscribers;
    }
    return sum;
  }
  // Nobody has subscribed to what this shard may publish.
  bool empty() const { return names_[0].empty() && names_[1].empty() && names_[2].empty(); }
  const Names& names(ChannelKind kind) const { return names_[IndexOf(kind)]; }
  size_t memory_used() const {
    size_t bytes = name_bytes_;
    for (const Names& names : names_) bytes += helio::MapBytes(names);
    return bytes;
  }

 private:
  std::array<Names, kChannelKinds> names_;
  size_t name_bytes_ = 0;
};

}  // namespace dfly
