// SPDX-License-Identifier: Apache-2.0
// Recovery of an append-only log to a point in time: dragonfly --recover_list, --recover_to.
//
//   LogGenerations (the log, and its history) --the newest that begins before the point--> a copy,
//   which ends where the point is
//
// The log that is read is not changed, and a server may write it meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/file_layer.h"
#include "storage/log/log_directory.h"
#include "storage/log/log_generations.h"
#include "storage/log/log_times.h"

namespace dfly {

// What stands in a part of a log.
struct LogExtent {
  uint64_t commands = 0;
  std::string first_command;  // its name
  uint64_t epochs = 0;
  std::optional<uint64_t> first_epoch, last_epoch;
  std::optional<int64_t> first_s, last_s;  // Unix time
};

// Owner:    who recovers, from a fiber.
// Suspends: List and Recover.
class LogRecovery {
 public:
  LogRecovery(FileLayer* files, LogDirectory::Names from);

  // What can be had, a line for each generation. An empty text, or what is wrong.
  [[nodiscard]] std::string List(std::string* text);
  // Writes the log as it was at `point` to `into`, which is a directory that is empty or not there;
  // what was made there is removed again after an error. `*report` is for people: what was taken,
  // what was left out, how to go on. An empty text, or what is wrong.
  [[nodiscard]] std::string Recover(const LogPoint& point, int64_t now_s, const std::string& into,
                                    std::string* report);

 private:
  // What of a generation stays.
  struct Cut {
    size_t generation = 0;
    std::vector<uint64_t> part_sizes;  // bytes; parts behind them are left out
    LogExtent kept;
    LogExtent left;      // also of the generations behind it
    std::string damage;  // in what was left out: there may be more
  };

  std::string Plan(const LogPoint& point, int64_t now_s, Cut* cut);
  std::string Choose(const LogPoint& point, int64_t now_s, size_t* chosen);
  std::string ChooseByEpoch(uint64_t epoch, size_t* chosen);
  std::string Split(const LogPoint* point, Cut* cut) const;
  std::string CheckEmpty(const std::string& into);
  std::string Write(const Cut& cut, const std::string& into);
  std::string WriteFiles(const Cut& cut, const std::string& path);
  std::string Copy(const LogFile& from, uint64_t size, const std::string& path);
  void RemoveMade();
  std::string Report(const LogPoint& point, int64_t now_s, const Cut& cut,
                     const std::string& into) const;

  FileLayer& files_;
  const LogDirectory::Names names_;
  std::vector<LogGeneration> generations_;
  std::vector<std::string> made_;  // files and directories, by Write
};

}  // namespace dfly
