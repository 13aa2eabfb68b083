// SPDX-License-Identifier: Apache-2.0
// Collects on one shard what its units do. There only while somebody listens: without, a change
// costs one branch.
#pragma once

#include <absl/container/inlined_vector.h>

#include <memory>
#include <span>
#include <string_view>

#include "engine/keyspace/effects.h"
#include "engine/keyspace/fresh_keys.h"
#include "engine/keyspace/mutation.h"
#include "helio/base/logging.h"

namespace dfly {

// Owner:    the shard, on its thread. Suspends: never.
class EffectRecorder final : public MutationListener {
 public:
  // `notes_fresh_keys`: somebody wants to know when keys were written (fresh_keys).
  EffectRecorder(EffectSink* sink, bool notes_fresh_keys)
      : sink_(*sink), fresh_keys_(notes_fresh_keys ? std::make_unique<FreshKeys>() : nullptr) {}

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
    if (unit_ != nullptr) return unit_->EndCommand();
    if (!own_.EndOnlyCommand()) return Deliver();
    const uint64_t epoch = sink_.OnCommand(own_.db_index(), own_.args());
    if (fresh_keys_ != nullptr) NoteDelivered(epoch);
    own_hashes_.clear();
    own_flushes_ = false;
  }
  void Tell(int db_index, std::span<const std::string_view> words) {
    current().Tell(db_index, words);
  }

  // What runs has an effect although it changes no key.
  void NoteChange() { current().NoteChange(); }

  // Null: nobody wants to know.
  const FreshKeys* fresh_keys() const { return fresh_keys_.get(); }

  // --- For the shard ---

  void OnMutation(uint32_t shard, const Mutation& mutation) override;

 private:
  Unit& current() { return unit_ == nullptr ? own_ : *unit_; }
  void Deliver() {
    if (!own_.effects().empty()) {
      const uint64_t epoch = sink_.OnUnit(own_.effects(), UnitOrigin::kShard);
      if (fresh_keys_ != nullptr) NoteDelivered(epoch);
    }
    own_.Clear();
    own_hashes_.clear();
    own_flushes_ = false;
  }
  void NoteDelivered(uint64_t epoch);
  // The unit that runs has changed the key.
  void NoteFresh(const Mutation& mutation);
  // A unit of its own, even while another one goes on.
  void DeliverDeletion(const Mutation& mutation);

  EffectSink& sink_;
  const std::unique_ptr<FreshKeys> fresh_keys_;
  Unit own_;                                     // of the shard alone
  absl::InlinedVector<uint64_t, 4> own_hashes_;  // of keys that it has changed
  bool own_flushes_ = false;                     // and of all keys
  Unit* unit_ = nullptr;                         // that has begun
};

}  // namespace dfly
