// SPDX-License-Identifier: Apache-2.0
#include "commands/table/command_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/text/short_text.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

bool HasHandler(const Command& command) {
  const int handlers = (command.run != nullptr) + (command.session != nullptr) +
                       (command.coordinate != nullptr) + command.runs_script;
  return handlers == 1 || (handlers == 0 && !command.subcommands.empty());
}

// The letters of eight bytes, all at once: a sum has a byte's high bit if the byte is large enough.
uint64_t LowerCase(uint64_t word) {
  constexpr uint64_t kEach = 0x0101010101010101;
  const uint64_t low_bits = word & (0x7F * kEach);
  const uint64_t from_a = low_bits + (0x80 - 'A') * kEach;
  const uint64_t behind_z = low_bits + (0x7F - 'Z') * kEach;
  const uint64_t is_upper = (from_a ^ behind_z) & ~word & (0x80 * kEach);
  return word | (is_upper >> 2);
}

// Is it one of these options, which stand between single spaces?
bool IsOneOf(std::string_view arg, std::string_view options) {
  while (!options.empty()) {
    const size_t end = std::min(options.find(' '), options.size());
    if (IsOption(arg, options.substr(0, end))) return true;
    options.remove_prefix(std::min(end + 1, options.size()));
  }
  return false;
}

// What dispatch asks for with each command.
void SetFacts(Command* command) {
  const KeySpec& keys = command->keys;
  command->has_one_key = keys.has_keys() && keys.count_at == 0 && keys.find == nullptr &&
                         keys.last == keys.first && keys.options.empty();
  command->is_plain =
      command->run != nullptr && command->blocking == nullptr && command->channel_at == 0;
  if (command->run != nullptr && command->has_one_key && command->other_db == nullptr) {
    command->only_key = static_cast<uint32_t>(keys.first);
  }
  command->is_scriptable = command->run != nullptr && (command->flags & kNoScript) == 0;
}

}  // namespace

std::optional<KeyIndexes> Command::FindKeys(Args args) const {
  if (keys.find != nullptr) {
    const std::optional<KeyRange> found = keys.find(args);
    if (!found) return {};
    return KeyIndexes(found->first, found->first + 1, found->end, 1);
  }
  const auto first = static_cast<size_t>(keys.first);
  const auto step = static_cast<size_t>(keys.step);
  if (keys.count_at != 0) {
    const auto begin = static_cast<size_t>(keys.count_at) + 1;
    const std::optional<int64_t> count = ParseInt64(args[begin - 1]);
    if (!count || *count < 1 || static_cast<uint64_t>(*count) > (args.size() - begin) / step) {
      return {};
    }
    const size_t second = first < begin ? begin : first + step;
    return KeyIndexes(first, second, begin + static_cast<size_t>(*count) * step, step);
  }
  const size_t end = keys.last >= 0 ? static_cast<size_t>(keys.last) + 1
                                    : args.size() - static_cast<size_t>(-keys.last) + 1;
  size_t last = KeyIndexes::kNone;
  if (!keys.options.empty()) {
    for (auto i = static_cast<size_t>(keys.options_from); i + 1 < args.size(); ++i) {
      if (IsOneOf(args[i], keys.options)) {
        last = ++i;
      } else if (keys.values_behind != nullptr) {
        i += keys.values_behind(args[i]);
      }
    }
  }
  return KeyIndexes(first, first + step, end, step, last);
}

CommandTable::FoldedName::FoldedName(std::string_view name) : size(name.size()) {
  const char* const begin = name.data();
  const char* const end = begin + size;
  if (size < 8) {
    words[0] = LowerCase(LoadShort(begin, size));
    return;
  }
  size_t word = 0;
  for (; (word + 1) * 8 <= size; ++word) words[word] = LowerCase(LoadWord(begin + word * 8));
  // The rest, by way of the last eight bytes.
  const size_t rest = size % 8;
  if (rest != 0) words[word] = LowerCase(LoadWord(end - 8)) >> (8 * (8 - rest));
}

uint64_t CommandTable::FoldedName::Hash() const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 by the golden ratio
  const uint64_t hash = (words[0] ^ (words[1] * kOdd + size)) * kOdd;
  return hash >> 32;
}

void CommandTable::Add(Command command) {
  CHECK_LE(command.name.size(), kNameMax);
  CHECK(Find(command.name) == nullptr) << command.name << " is registered twice";
  CHECK(HasHandler(command)) << command.name << " needs exactly one handler";
  CHECK(command.arity != 0) << command.name << " has no arity";
  command.id = id_count_++;
  command.full_name = command.called = command.name;
  SetFacts(&command);
  // Who loads a log, or is a replica, must not be told to wait.
  const bool may_wait = command.blocking != nullptr && (command.flags & kWrite) != 0;
  if (may_wait && command.effect == EffectRule::kOwn) command.effect = EffectRule::kTold;
  for (Command& subcommand : command.subcommands) {
    subcommand.id = id_count_++;
    subcommand.full_name = command.full_name + "|" + std::string(subcommand.name);
    CHECK(HasHandler(subcommand) && subcommand.arity != 0) << subcommand.full_name;
    SetFacts(&subcommand);
  }
  commands_.push_back(std::move(command));
  if (slots_.size() < commands_.size() * 2) {
    slots_.assign(slots_.empty() ? 512 : slots_.size() * 2, Slot());
    for (const Command& each : commands_) Index(&each);
  } else {
    Index(&commands_.back());
  }
}

bool CommandTable::Restrict(std::string_view name) {
  const auto restrict_row = [](Command* row) {
    row->flags |= kAdminPort | kNoScript;
    SetFacts(row);
  };
  const size_t bar = std::min(name.find('|'), name.size());
  auto* const row = const_cast<Command*>(FindByName(name.substr(0, bar)));  // it is ours
  if (row == nullptr) return false;
  if (bar == name.size()) {
    restrict_row(row);
    for (Command& subcommand : row->subcommands) restrict_row(&subcommand);
    return true;
  }
  auto* const subcommand = const_cast<Command*>(FindSubcommand(*row, name.substr(bar + 1)));
  if (subcommand == nullptr) return false;
  restrict_row(subcommand);
  return true;
}

std::string CommandTable::Rename(std::string_view name, std::string_view to) {
  const Command* const found = Find(name);
  if (found == nullptr) return "No such command in rename-command";
  if (to.size() > kNameMax) return "Target command name is too long";
  if (Find(to) != nullptr) return "Target command name already exists";
  const_cast<Command*>(found)->called = FoldedName(to).text();  // it is ours
  slots_.assign(slots_.size(), Slot());
  for (const Command& each : commands_) {
    if (!each.called.empty()) Index(&each);
  }
  return "";
}

const Command* CommandTable::FindByName(std::string_view name) const {
  if (name.size() > kNameMax) return nullptr;
  const FoldedName folded(name);
  for (const Command& command : commands_) {
    if (command.name == folded.text()) return &command;
  }
  return nullptr;
}

void CommandTable::Index(const Command* command) {
  const FoldedName folded(command->called);
  size_t slot = folded.Hash() & (slots_.size() - 1);
  while (slots_[slot].command != nullptr) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = {folded.words[0], command};
}

const Command* CommandTable::Find(std::string_view name) const {
  if (name.size() > kNameMax || slots_.empty()) return nullptr;
  const FoldedName folded(name);
  size_t slot = folded.Hash() & (slots_.size() - 1);
  for (; slots_[slot].command != nullptr; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].first_word != folded.words[0]) continue;
    const Command* const command = slots_[slot].command;
    if (command->called.size() != name.size()) continue;
    if (name.size() <= 8 || command->called == folded.text()) return command;
  }
  return nullptr;
}

const Command* CommandTable::FindSubcommand(const Command& command, std::string_view name) {
  if (name.size() > kNameMax) return nullptr;
  const FoldedName folded(name);
  for (const Command& subcommand : command.subcommands) {
    if (subcommand.name == folded.text()) return &subcommand;
  }
  return nullptr;
}

}  // namespace dfly
