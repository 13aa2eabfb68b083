// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/effect_recorder.h"

#include <vector>

namespace dfly {

void EffectRecorder::DeliverDeletion(const Mutation& mutation) {
  std::vector<std::string_view> words = {"DEL", mutation.key};
  if (!mutation.members.empty()) {
    words[0] = mutation.event == KeyEvent::kHExpired ? "HDEL" : "SREM";
    words.insert(words.end(), mutation.members.begin(), mutation.members.end());
  }
  Effects effects;
  effects.Add(mutation.db_index, words);
  sink_.OnUnit(effects);
}

void EffectRecorder::OnMutation(uint32_t, const Mutation& mutation) {
  switch (mutation.kind) {
    case MutationKind::kExpired:
      // It was due when the unit began, whose clock stands still. So it goes before whatever the
      // unit does.
      return DeliverDeletion(mutation);
    case MutationKind::kEvicted: {
      if (unit_ == nullptr) return DeliverDeletion(mutation);
      // The unit may have made the key.
      const std::string_view words[] = {"DEL", mutation.key};
      return unit_->Tell(mutation.db_index, words);
    }
    case MutationKind::kMembersExpired:
      return DeliverDeletion(mutation);
    case MutationKind::kEmptied:
      return;
    default:
      if (unit_ == nullptr && !own_.in_command()) {
        LOG(DFATAL) << "no command is told of a change of " << mutation.key;
      }
      current().NoteChange();
  }
}

}  // namespace dfly
