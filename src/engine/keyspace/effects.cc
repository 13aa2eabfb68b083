// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/effects.h"

#include <charconv>
#include <cstring>

#include "helio/base/logging.h"

namespace dfly {

namespace {

// Bytes of "*<count>\r\n" and "$<bytes>\r\n", or some more.
constexpr size_t CountBytesMax(size_t count) {
  return 1 + (count < 10 ? 1 : count < 1000 ? 3 : 20) + 2;
}

char* WriteCount(char mark, size_t count, char* to) {
  *to++ = mark;
  if (count < 10) {
    *to++ = static_cast<char>('0' + count);
  } else {
    to = std::to_chars(to, to + 20, count).ptr;
  }
  *to++ = '\r';
  *to++ = '\n';
  return to;
}

}  // namespace

size_t CommandBytesMax(std::span<const std::string_view> words) {
  size_t bytes = CountBytesMax(words.size());
  for (const std::string_view word : words) bytes += CountBytesMax(word.size()) + word.size() + 2;
  return bytes;
}

std::string CommandText(std::span<const std::string_view> words) {
  std::string text(CommandBytesMax(words), '\0');
  text.resize(static_cast<size_t>(WriteCommand(words, text.data()) - text.data()));
  return text;
}

char* WriteCommand(std::span<const std::string_view> words, char* to) {
  to = WriteCount('*', words.size(), to);
  for (const std::string_view word : words) {
    to = WriteCount('$', word.size(), to);
    if (!word.empty()) std::memcpy(to, word.data(), word.size());  // it may be null then
    to += word.size();
    *to++ = '\r';
    *to++ = '\n';
  }
  return to;
}

void Effects::Add(int db_index, std::span<const std::string_view> words) {
  const size_t begin = bytes_.size();
  bytes_.resize(begin + CommandBytesMax(words));
  char* const to = bytes_.data() + begin;
  bytes_.resize(begin + static_cast<size_t>(WriteCommand(words, to) - to));
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

bool Unit::EndOnlyCommand() {
  DCHECK_EQ(begin_, 0u);
  const bool is_own = has_changed_ && rule_ == EffectRule::kOwn && effects_.empty();
  if (!is_own) {
    EndCommand();
    return false;
  }
  in_command_ = has_changed_ = false;
  return true;
}

void Unit::Merge(const Unit& part) {
  DCHECK(!part.in_command_);
  effects_.Append(part.effects_);
  has_changed_ |= part.has_changed_ || part.was_over_;
}

}  // namespace dfly
