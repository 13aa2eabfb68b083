// SPDX-License-Identifier: Apache-2.0
// Commands of a pipeline that become one transaction: MGETs that follow each other, or MSETs, whose
// keys are in several shards. One by one each of them would be a fiber, its messages to all its
// shards, and a wait of the connection until it is over.
//
// That others see them at one moment is allowed: nobody can tell that the client did not send them
// so fast. What follows them waits for all of them.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/table/command_table.h"

namespace dfly {

// The arguments are views into the receive buffer: it is taken before the read of that ends.
//
// Owner:    a worker; on its thread.
// Suspends: never.
class Gathered {
 public:
  static constexpr size_t kCommandsMax = 32;
  // Together. So many values may be in replies before the limits of these are looked at again.
  static constexpr size_t kArgsMax = 256;
  // The same of what is written: the coordinator copies it.
  static constexpr size_t kBytesMax = 64 * 1024;

  // Of each command, how many keys it has.
  using Counts = absl::InlinedVector<uint32_t, kCommandsMax>;

  static bool Takes(const Command& command, Args args) {
    if (command.across != nullptr || args.size() > kArgsMax) return false;
    if (command.spread == Spread::kKeepOrder) return command.lock_mode() == LockMode::kShared;
    return command.spread == Spread::kAllOk && HasAllOfEach(command, args) &&
           BytesOf(args) <= kBytesMax;
  }

  bool is_open() const { return command_ != nullptr; }
  // REQUIRES: !is_open(), Takes(command, args).
  void Open(const Command& command, Args args) {
    command_ = &command;
    args_.assign(1, args.name());
    counts_.clear();
    bytes_ = 0;
    AddKeys(args);
  }
  // False: it is another command than the first one, or there is no room for it.
  bool Join(const Command& command, Args args) {
    if (&command != command_ || counts_.size() == kCommandsMax ||
        args_.size() + args.size() > kArgsMax || !Takes(command, args) ||
        (writes() && bytes_ + BytesOf(args) > kBytesMax)) {
      return false;
    }
    AddKeys(args);
    return true;
  }
  const Command& Take() { return *std::exchange(command_, nullptr); }

  // Of what was taken last: the name, and the keys of all, each with its value if they write.
  Args args() const { return std::span(args_); }
  // How many of the keys are whose.
  const Counts& counts() const { return counts_; }
  // Calls function(Args) for each command as its client has sent it.
  template <typename Function>
  void ForEach(Function function) const {
    std::vector<std::string_view> each;
    size_t next = 1;
    for (uint32_t count : counts_) {
      each.assign(1, args_.front());
      for (const size_t end = next + count * step_; next < end; ++next) each.push_back(args_[next]);
      function(Args(each));
    }
  }

 private:
  // Of MSET: each key has a value.
  static bool HasAllOfEach(const Command& command, Args args) {
    return (args.size() - 1) % static_cast<size_t>(command.keys.step) == 0;
  }
  static size_t BytesOf(Args args) {
    size_t bytes = 0;
    for (std::string_view arg : args.all()) bytes += arg.size();
    return bytes;
  }
  bool writes() const { return step_ > 1; }
  void AddKeys(Args args) {
    step_ = static_cast<size_t>(command_->keys.step);
    if (writes()) bytes_ += BytesOf(args);
    for (std::string_view word : args.from(1)) args_.push_back(word);
    counts_.push_back(static_cast<uint32_t>((args.size() - 1) / step_));
  }

  const Command* command_ = nullptr;
  std::vector<std::string_view> args_;
  Counts counts_;
  size_t step_ = 1;   // from a key to the next one
  size_t bytes_ = 0;  // of what they write
};

}  // namespace dfly
