// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/effect_recorder.h"

#include <vector>

#include "core/text/hash.h"

namespace dfly {

void EffectRecorder::DeliverDeletion(const Mutation& mutation) {
  std::vector<std::string_view> words = {"DEL", mutation.key};
  if (!mutation.members.empty()) {
    words[0] = mutation.event == KeyEvent::kHExpired ? "HDEL" : "SREM";
    words.insert(words.end(), mutation.members.begin(), mutation.members.end());
  }
  Effects effects;
  effects.Add(mutation.db_index, words);
  const uint64_t epoch = sink_.OnUnit(effects, UnitOrigin::kShard);
  if (fresh_keys_ != nullptr) fresh_keys_->Note(HashKey(mutation.key), epoch);
}

void EffectRecorder::NoteDelivered(uint64_t epoch) {
  for (const uint64_t hash : own_hashes_) fresh_keys_->Note(hash, epoch);
  if (own_flushes_) fresh_keys_->NoteAll(epoch);
  fresh_keys_->OnLocalUnit(epoch);
}

void EffectRecorder::NoteFresh(const Mutation& mutation) {
  const bool is_own = &current() == &own_;
  if (mutation.kind == MutationKind::kFlushed || mutation.kind == MutationKind::kSwapped) {
    if (is_own) {
      own_flushes_ = true;
    } else {
      fresh_keys_->NoteAll(FreshKeys::kUnknown);
    }
    return;
  }
  const uint64_t hash = HashKey(mutation.key);
  if (is_own) {
    own_hashes_.push_back(hash);
  } else {
    fresh_keys_->Note(hash, FreshKeys::kUnknown);
  }
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
      if (fresh_keys_ != nullptr) NoteFresh(mutation);
      const std::string_view words[] = {"DEL", mutation.key};
      return unit_->Tell(mutation.db_index, words);
    }
    case MutationKind::kMembersExpired:
      return DeliverDeletion(mutation);
    case MutationKind::kEmptied:
      return;  // the mutation before it was of the same key
    default:
      if (unit_ == nullptr && !own_.in_command()) {
        LOG(DFATAL) << "no command is told of a change of " << mutation.key;
      }
      // An LTRIM that keeps all tells of a change of nothing, for WATCH, as in Redis. Others that
      // count no changes have changed the value: BITFIELD may only have made it longer.
      if (mutation.event != KeyEvent::kLTrim || mutation.changes != 0) current().NoteChange();
      if (fresh_keys_ != nullptr) NoteFresh(mutation);
  }
}

}  // namespace dfly
