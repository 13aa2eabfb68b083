// SPDX-License-Identifier: Apache-2.0
// --after_save_command: a program that gets the file of each snapshot, to copy it elsewhere.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "server/meters/persistence_facts.h"

namespace dfly {

// Owner:    proactor 0.
// Suspends: Stop.
class AfterSave {
 public:
  // `command`: the program and its first arguments, separated by blanks. Empty: there is none.
  explicit AfterSave(const std::string& command);

  // Runs it for this file, soon, and one after the other.
  void Start(const std::string& file);
  // What runs goes on without the server; what waits is begun. From a fiber.
  void Stop();
  const AfterSaveFacts& facts() const { return facts_; }

 private:
  static constexpr size_t kWaitingMax = 16;
  static constexpr uint64_t kLookMillis = 20;

  void Run(const std::string& file);
  void NoteEnd(const std::string& file, const std::string& error, int64_t status);

  std::vector<std::string> words_;
  std::deque<std::string> waiting_;
  bool has_fiber_ = false;
  bool is_stopping_ = false;
  AfterSaveFacts facts_;
};

}  // namespace dfly
