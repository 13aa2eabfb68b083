// SPDX-License-Identifier: Apache-2.0
// The settings of redis.conf (7.2) that have no meaning in this server. They are known and checked
// as redis-server does it, in files, on the command line and by CONFIG SET, and kept for CONFIG GET
// and CONFIG REWRITE; nothing follows from them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/options/config.h"

namespace dfly {

struct IgnoredSetting {
  enum class How : uint8_t {
    kLive,     // CONFIG SET changes it
    kAtStart,  // only files and the command line say it, as in Redis
  };
  using Canonical = std::string (*)(std::string_view text, std::string* error);

  std::string_view name;
  std::string_view old_name = {};
  Setting::Kind kind = Setting::Kind::kText;
  std::string_view initial = {};  // canonical
  int64_t min = 0;
  int64_t max = 0;
  std::string_view choices = {};  // kChoice: separated by blanks
  How how = How::kLive;
  std::string_view why;           // it has no effect
  Canonical canonical = nullptr;  // kText; null: any text
  // Values that promise nothing, separated by '|'; all others are refused, and `why` says why. As
  // Redis' own check comes first, an empty one is allowed by an empty part. Empty: none is refused.
  std::string_view harmless = {};
  bool has_words = false;  // several words of a line
};

std::span<const IgnoredSetting> IgnoredSettings();
// By its name or its old one, with - or _, in any case. Null: there is none.
const IgnoredSetting* FindIgnoredSetting(std::string_view name);

// The canonical form of `text`, or an error: it is no value of it, or would promise something.
std::string CanonicalValue(const IgnoredSetting& row, std::string_view text, std::string* error);

// Keeps what a file or the command line says. Returns an error, or nothing; `is_initial`: it says
// what is so anyway. Before there are threads.
[[nodiscard]] std::string KeepIgnoredSetting(const IgnoredSetting& row,
                                             std::span<const std::string> words, bool* is_initial);

// Adds all of them, with what was kept.
void AddIgnoredSettings(Config* config);

}  // namespace dfly
