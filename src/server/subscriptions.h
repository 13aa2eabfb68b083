// SPDX-License-Identifier: Apache-2.0
// What one client is subscribed to.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "helio/base/io_buf.h"
#include "helio/fibers/sync.h"
#include "server/channel_directory.h"

namespace dfly {

struct PubSubTopic;
struct SubscriptionChange;

// Owner: a Session, on its thread. PubSub fills it.
struct Subscriptions {
  // Its topics, and where it stands among the subscribers of each.
  std::array<absl::flat_hash_map<PubSubTopic*, uint32_t>, kChannelKinds> topics;
  // Changes that not all shards know yet; and who waits for them.
  size_t pending_changes = 0;
  helio::BlockingCounter* waiter = nullptr;
  // Those of them that have a slot among the connection's replies, in the order of the slots.
  std::vector<SubscriptionChange*> pipelined;
  // Messages of subscriptions that the client has not been told of yet.
  helio::IoBuf held;

  size_t size(ChannelKind kind) const { return topics[IndexOf(kind)].size(); }
  // What the replies to commands about `kind` tell.
  size_t told_count(ChannelKind kind) const {
    if (kind == ChannelKind::kShard) return size(kind);
    return size(ChannelKind::kChannel) + size(ChannelKind::kPattern);
  }
  bool empty() const { return told_count(ChannelKind::kChannel) + size(ChannelKind::kShard) == 0; }
};

}  // namespace dfly
