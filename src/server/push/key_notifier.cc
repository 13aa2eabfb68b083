// SPDX-License-Identifier: Apache-2.0
#include "server/push/key_notifier.h"

#include <fmt/format.h>

#include <iterator>
#include <string>

namespace dfly {

namespace {

// "5:field,1:f": whoever reads it need not know what bytes a field may have.
std::string Listed(std::span<const std::string_view> fields) {
  std::string list;
  for (const std::string_view field : fields) {
    if (!list.empty()) list += ',';
    fmt::format_to(std::back_inserter(list), "{}:{}", field.size(), field);
  }
  return list;
}

}  // namespace

void KeyNotifier::Publish(uint32_t shard, int db_index, std::string_view kind,
                          std::string_view name, std::string_view message) {
  channel_.clear();
  fmt::format_to(std::back_inserter(channel_), "__{}@{}__:{}", kind, db_index, name);
  pubsub_.Publish(shard, ChannelKind::kChannel, channel_, message);
}

void KeyNotifier::OnKeyEvent(uint32_t shard, int db_index, std::string_view key, KeyEvent event) {
  if (pubsub_.IsUnheard(shard) || !classes_.has(ClassOf(event))) return;
  const std::string_view name = NameOf(event);
  if (classes_.has(KeyEventClasses::kKeyspace)) Publish(shard, db_index, "keyspace", key, name);
  if (classes_.has(KeyEventClasses::kKeyevent)) Publish(shard, db_index, "keyevent", name, key);
}

void KeyNotifier::OnFieldEvent(uint32_t shard, int db_index, std::string_view key, KeyEvent event,
                               std::span<const std::string_view> fields) {
  using Classes = KeyEventClasses;
  constexpr uint32_t kWithList =
      Classes::kSubkeyspace | Classes::kSubkeyevent | Classes::kSubkeyspaceEvent;
  const std::string_view name = NameOf(event);
  const std::string list = classes_.has(kWithList) ? Listed(fields) : std::string();
  if (classes_.has(Classes::kSubkeyspace)) {
    Publish(shard, db_index, "subkeyspace", key, fmt::format("{}|{}", name, list));
  }
  if (classes_.has(Classes::kSubkeyevent)) {
    Publish(shard, db_index, "subkeyevent", name, fmt::format("{}:{}|{}", key.size(), key, list));
  }
  // A line feed tells the key from the field.
  if (classes_.has(Classes::kSubkeyspaceItem) && key.find('\n') == std::string_view::npos) {
    for (const std::string_view field : fields) {
      Publish(shard, db_index, "subkeyspaceitem", fmt::format("{}\n{}", key, field), name);
    }
  }
  if (classes_.has(Classes::kSubkeyspaceEvent)) {
    Publish(shard, db_index, "subkeyspaceevent", fmt::format("{}|{}", name, key), list);
  }
}

}  // namespace dfly
