// SPDX-License-Identifier: Apache-2.0
// Publishes what happens to the keys of a thread's shards, as notify-keyspace-events says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/keyspace/key_events.h"
#include "server/push/pubsub.h"

namespace dfly {

// Owner:    one Worker, on its thread.
// Suspends: never.
//
// Each shard publishes itself (see PubSub), so events of keys of one shard reach a subscriber in
// the order in which they happened; those of different shards in any.
class KeyNotifier final : public KeyEventListener {
 public:
  explicit KeyNotifier(PubSub* pubsub) : pubsub_(*pubsub) {}

  void set_classes(KeyEventClasses classes) { classes_ = classes; }
  const KeyEventClasses& classes() const { return classes_; }

  void OnKeyEvent(uint32_t shard, int db_index, std::string_view key, KeyEvent event) override;
  void OnFieldEvent(uint32_t shard, int db_index, std::string_view key, KeyEvent event,
                    std::span<const std::string_view> fields) override;
  bool HearsFields(uint32_t shard) const override { return !pubsub_.IsUnheard(shard); }

 private:
  // To "__<kind>@<db>__:<name>".
  void Publish(uint32_t shard, int db_index, std::string_view kind, std::string_view name,
               std::string_view message);

  PubSub& pubsub_;
  KeyEventClasses classes_;
  std::string channel_;  // scratch
};

}  // namespace dfly
