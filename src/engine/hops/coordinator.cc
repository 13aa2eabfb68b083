// SPDX-License-Identifier: Apache-2.0
#include "engine/hops/coordinator.h"

#include "engine/hops/transaction.h"
#include "engine/keyspace/effects.h"

namespace dfly {

void CoordinatorContext::TellOwn() {
  EffectSink* const sink = shards_.effect_sink();
  if (sink == nullptr) [[likely]]
    return;
  const bool is_part = outer_ != nullptr && outer_->records();
  Unit own;
  Unit& unit = is_part ? outer_->unit() : own;
  unit.BeginCommand(EffectRule::kOwn, db_index_, args_);
  unit.NoteChange();
  unit.EndCommand();
  if (!is_part) sink->OnUnit(unit.effects(), UnitOrigin::kCoordinator);
}

}  // namespace dfly
