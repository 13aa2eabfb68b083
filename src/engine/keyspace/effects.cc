// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/effects.h"

#include <absl/strings/str_cat.h>

#include "helio/base/logging.h"

namespace dfly {

void Effects::Add(int db_index, std::span<const std::string_view> words) {
  absl::StrAppend(&bytes_, "*", words.size(), "\r\n");
  for (std::string_view word : words) {
    absl::StrAppend(&bytes_, "$", word.size(), "\r\n");
    bytes_.append(word).append("\r\n");
  }
  commands_.push_back({db_index, bytes_.size()});
}

void Effects::Append(const Effects& other) {
  const size_t begin = bytes_.size();
  bytes_ += other.bytes_;
  for (const Command& command : other.commands_) {
    commands_.push_back({command.db_index, begin + command.end});
  }
}

void Effects::Truncate(size_t count) {
  DCHECK_LE(count, commands_.size());
  bytes_.resize(count == 0 ? 0 : commands_[count - 1].end);
  commands_.resize(count);
}

void Unit::BeginCommand(EffectRule rule, int db_index, std::span<const std::string_view> args) {
  DCHECK(!in_command_);
  in_command_ = true;
  has_changed_ = false;
  rule_ = rule;
  db_index_ = db_index;
  args_ = args;
  begin_ = effects_.size();
}

void Unit::EndCommand() {
  DCHECK(in_command_);
  in_command_ = false;
  const bool was_told = effects_.size() > begin_;
  if (!has_changed_) {
    effects_.Truncate(begin_);
  } else if (!was_told && rule_ == EffectRule::kOwn) {
    effects_.Add(db_index_, args_);
  } else if (!was_told && rule_ == EffectRule::kTold) {
    LOG(DFATAL) << args_.front() << " has changed a key and does not say what it did";
  }
  was_over_ |= effects_.size() > begin_;
  has_changed_ = false;
}

void Unit::Merge(const Unit& part) {
  DCHECK(!part.in_command_);
  effects_.Append(part.effects_);
  has_changed_ |= part.has_changed_ || part.was_over_;
}

}  // namespace dfly
