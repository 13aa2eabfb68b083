// SPDX-License-Identifier: Apache-2.0
// What one client is subscribed to.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "helio/base/io_buf.h"
#include "helio/fibers/sync.h"
#include "server/clients/channel_kind.h"

namespace dfly {

class Session;
struct SubscriptionChange;  // PubSub's own

// A channel or a pattern that has subscribers on this thread.
struct PubSubTopic {
  static constexpr uint64_t kNever = UINT64_MAX;
  struct Subscriber {
    Session* session;
    uint64_t since;  // the number of the change
  };
  // Has unsubscribed, but what owners sent before they knew is still for it.
  struct Leaver {
    Session* session;
    uint64_t since;
    uint64_t until;
  };

  ChannelKind kind;
  std::string name;
  std::vector<Subscriber> subscribers;
  std::vector<Leaver> leavers;  // by `until`
};

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
