// SPDX-License-Identifier: Apache-2.0
#include "commands/command_table.h"

#include <cstring>
#include <utility>

#include "helio/base/logging.h"

namespace dfly {

namespace {

bool HasHandler(const Command& command) {
  const int handlers =
      (command.run != nullptr) + (command.session != nullptr) + (command.coordinate != nullptr);
  return handlers == 1 || (handlers == 0 && !command.subcommands.empty());
}

}  // namespace

// Lower case, and a hash of it. Only letters change: the bit that makes a letter lower case makes
// other characters different ones, but no command has those, and the comparison afterwards is
// exact.
uint64_t CommandTable::Fold(std::string_view name, char* folded) {
  uint64_t hash = name.size();
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    folded[i] = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    hash = (hash ^ static_cast<uint8_t>(folded[i])) * 0x100000001b3ull;  // FNV-1a
  }
  return hash ^ (hash >> 29);
}

void CommandTable::Add(Command command) {
  CHECK_LE(command.name.size(), kNameMax);
  CHECK(Find(command.name) == nullptr) << command.name << " is registered twice";
  CHECK(HasHandler(command)) << command.name << " needs exactly one handler";
  CHECK(command.arity != 0) << command.name << " has no arity";
  command.id = id_count_++;
  command.full_name = command.name;
  for (Command& subcommand : command.subcommands) {
    subcommand.id = id_count_++;
    subcommand.full_name = command.full_name + "|" + std::string(subcommand.name);
    CHECK(HasHandler(subcommand) && subcommand.arity != 0) << subcommand.full_name;
  }
  commands_.push_back(std::move(command));
  if (slots_.size() < commands_.size() * 2) {
    slots_.assign(slots_.empty() ? 512 : slots_.size() * 2, nullptr);
    for (const Command& each : commands_) Index(&each);
  } else {
    Index(&commands_.back());
  }
}

void CommandTable::Index(const Command* command) {
  char folded[kNameMax];
  size_t slot = Fold(command->name, folded) & (slots_.size() - 1);
  while (slots_[slot] != nullptr) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = command;
}

const Command* CommandTable::Find(std::string_view name) const {
  if (name.size() > kNameMax || slots_.empty()) return nullptr;
  char folded[kNameMax];
  size_t slot = Fold(name, folded) & (slots_.size() - 1);
  while (const Command* command = slots_[slot]) {
    if (command->name.size() == name.size() &&
        memcmp(command->name.data(), folded, name.size()) == 0)
      return command;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return nullptr;
}

const Command* CommandTable::FindSubcommand(const Command& command, std::string_view name) {
  if (name.size() > kNameMax) return nullptr;
  char folded[kNameMax];
  Fold(name, folded);
  for (const Command& subcommand : command.subcommands) {
    if (subcommand.name == std::string_view(folded, name.size())) return &subcommand;
  }
  return nullptr;
}

}  // namespace dfly
