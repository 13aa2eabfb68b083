// SPDX-License-Identifier: Apache-2.0
#include "server/base/stop_rule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "server/base/words.h"

namespace dfly {

namespace {

struct Word {
  std::string_view text;
  bool StopRule::*member;
};
constexpr std::array<Word, 4> kWords = {{{"save", &StopRule::save},
                                         {"nosave", &StopRule::no_save},
                                         {"now", &StopRule::now},
                                         {"force", &StopRule::force}}};
constexpr std::string_view kDefault = "default";

}  // namespace

std::string ParseStopRule(std::string_view text, StopRule* rule) {
  StopRule parsed;
  bool is_known = false;
  for (std::string_view word : SplitWords(text)) {
    is_known = IsWord(word, kDefault);
    for (const Word& known : kWords) {
      if (!IsWord(word, known.text)) continue;
      parsed.*known.member = true;
      is_known = true;
    }
    if (!is_known) break;
  }
  if (!is_known) {
    return "argument(s) must be one of the following: default, save, nosave, now, force";
  }
  if (parsed.save && parsed.no_save) {
    return "shutdown options SAVE and NOSAVE can't be used simultaneously";
  }
  *rule = parsed;
  return "";
}

std::string ToText(const StopRule& rule) {
  std::vector<std::string_view> words;
  for (const Word& word : kWords) {
    if (rule.*word.member) words.push_back(word.text);
  }
  return words.empty() ? std::string(kDefault) : fmt::format("{}", fmt::join(words, " "));
}

}  // namespace dfly
