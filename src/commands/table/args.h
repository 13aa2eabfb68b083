// SPDX-License-Identifier: Apache-2.0
// The arguments of one command.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "helio/base/ascii.h"

namespace dfly {

// Views into memory that someone else keeps for as long as the command runs. args[0] is the
// command's name as the client wrote it; whoever registered the command knows that there are as
// many as its arity asks for.
class Args {
 public:
  Args(std::span<const std::string_view> all) : all_(all) {}     // NOLINT: a plain view of a view
  Args(const std::vector<std::string_view>& all) : all_(all) {}  // NOLINT

  size_t size() const { return all_.size(); }
  std::string_view operator[](size_t index) const { return all_[index]; }
  std::string_view name() const { return all_[0]; }
  // The first key of a command whose keys begin right after its name.
  std::string_view key() const { return all_[1]; }
  // Everything after the first key.
  std::span<const std::string_view> rest() const { return all_.subspan(2); }
  std::span<const std::string_view> from(size_t index) const { return all_.subspan(index); }
  std::span<const std::string_view> all() const { return all_; }

 private:
  std::span<const std::string_view> all_;
};

// True if `arg` is the option `upper`, whatever the case of its letters. REQUIRES: no lower case
// letters in `upper`.
inline bool IsOption(std::string_view arg, std::string_view upper) {
  if (arg.size() != upper.size()) return false;
  for (size_t i = 0; i < arg.size(); ++i) {
    if (helio::ToUpper(arg[i]) != upper[i]) return false;
  }
  return true;
}

}  // namespace dfly
