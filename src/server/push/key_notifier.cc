// SPDX-License-Identifier: Apache-2.0
#include "server/push/key_notifier.h"

#include <fmt/format.h>

#include <iterator>

namespace dfly {

void KeyNotifier::OnKeyEvent(uint32_t shard, int db_index, std::string_view key, KeyEvent event) {
  if (pubsub_.IsUnheard(shard) || !classes_.has(ClassOf(event))) return;
  const auto publish = [&](std::string_view kind, std::string_view name, std::string_view message) {
    channel_.clear();
    fmt::format_to(std::back_inserter(channel_), "__{}@{}__:{}", kind, db_index, name);
    pubsub_.Publish(shard, ChannelKind::kChannel, channel_, message);
  };
  if (classes_.has(KeyEventClasses::kKeyspace)) publish("keyspace", key, NameOf(event));
  if (classes_.has(KeyEventClasses::kKeyevent)) publish("keyevent", NameOf(event), key);
}

}  // namespace dfly
