// SPDX-License-Identifier: Apache-2.0
// Collects on one shard what its units do. There only while somebody listens: without, a change
// costs one branch.
#pragma once

#include <span>
#include <string_view>

#include "engine/keyspace/effects.h"
#include "engine/keyspace/mutation.h"
#include "helio/base/logging.h"

namespace dfly {

// Owner:    the shard, on its thread. Suspends: never.
class EffectRecorder final : public MutationListener {
 public:
  explicit EffectRecorder(EffectSink* sink) : sink_(*sink) {}

  // --- Units of several commands ---

  // What runs on the shard is part of `unit` until EndUnit; null: it is a unit of the shard alone.
  // REQUIRES: no unit has begun.
  void BeginUnit(Unit* unit) {
    DCHECK(unit_ == nullptr && !own_.in_command());
    unit_ = unit == nullptr ? &own_ : unit;
  }
  // Nothing if none has begun.
  void EndUnit() {
    if (unit_ == &own_) Deliver();
    unit_ = nullptr;
  }

  // --- Commands ---

  // A command without a unit is one. `args` have to live until EndCommand.
  void BeginCommand(EffectRule rule, int db_index, std::span<const std::string_view> args) {
    current().BeginCommand(rule, db_index, args);
  }
  void EndCommand() {
    current().EndCommand();
    if (unit_ == nullptr) Deliver();
  }
  void Tell(int db_index, std::span<const std::string_view> words) {
    current().Tell(db_index, words);
  }

  // --- For the shard ---

  void OnMutation(uint32_t shard, const Mutation& mutation) override;

 private:
  Unit& current() { return unit_ == nullptr ? own_ : *unit_; }
  void Deliver() {
    if (!own_.effects().empty()) sink_.OnUnit(own_.effects());
    own_.Clear();
  }
  // A unit of its own, even while another one goes on.
  void DeliverDeletion(const Mutation& mutation);

  EffectSink& sink_;
  Unit own_;              // of the shard alone
  Unit* unit_ = nullptr;  // that has begun
};

}  // namespace dfly
