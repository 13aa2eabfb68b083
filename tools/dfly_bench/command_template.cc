// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/command_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "helio/base/format_number.h"

namespace dfly::bench {

namespace {

constexpr uint64_t kScoreBound = 1'000'000;

void AppendNumber(uint64_t number, std::string* out) {
  char digits[helio::kMaxIntegerChars];
  out->append(digits, static_cast<size_t>(helio::FormatUnsigned(number, digits) - digits));
}

}  // namespace

std::string SplitArguments(std::string_view text, std::vector<std::string>* arguments) {
  arguments->clear();
  size_t i = 0;
  while (true) {
    while (i < text.size() && (text[i] == ' ' || text[i] == '\t')) ++i;
    if (i == text.size()) return arguments->empty() ? "the command is empty" : "";
    std::string argument;
    char quote = 0;
    for (; i < text.size() && (quote != 0 || (text[i] != ' ' && text[i] != '\t')); ++i) {
      if (quote == 0 && (text[i] == '"' || text[i] == '\'')) {
        quote = text[i];
      } else if (text[i] == quote) {
        quote = 0;
      } else {
        argument += text[i];
      }
    }
    if (quote != 0) return fmt::format("a quote is not closed in: {}", text);
    arguments->push_back(std::move(argument));
  }
}

ValuePool::ValuePool(size_t value_size, uint64_t seed) : value_size_(value_size) {
  helio::Random random(seed);
  letters_.resize(value_size + kSpare);
  for (char& letter : letters_) letter = static_cast<char>('a' + random.Uniform(26));
}

std::vector<CommandTemplate::Piece> CommandTemplate::CutPieces(std::string_view argument) {
  static constexpr struct {
    std::string_view name;
    Kind kind;
  } kGaps[] = {{"__key__", Kind::kKey}, {"__data__", Kind::kData}, {"__score__", Kind::kScore}};
  std::vector<Piece> pieces;
  std::string text;
  while (!argument.empty()) {
    const auto* gap = std::find_if(std::begin(kGaps), std::end(kGaps), [&](const auto& candidate) {
      return argument.substr(0, candidate.name.size()) == candidate.name;
    });
    if (gap == std::end(kGaps)) {
      text += argument[0];
      argument.remove_prefix(1);
      continue;
    }
    if (!text.empty()) pieces.push_back({Kind::kText, std::move(text)});
    text.clear();
    pieces.push_back({gap->kind, ""});
    argument.remove_prefix(gap->name.size());
  }
  if (!text.empty() || pieces.empty()) pieces.push_back({Kind::kText, std::move(text)});
  return pieces;
}

void CommandTemplate::AddText(std::string_view text) {
  if (steps_.empty() || steps_.back().kind != Kind::kText) steps_.emplace_back();
  steps_.back().text += text;
}

void CommandTemplate::Compile(const std::vector<std::string>& arguments) {
  steps_.clear();
  AddText(fmt::format("*{}\r\n", arguments.size()));
  for (const std::string& argument : arguments) {
    std::vector<Piece> pieces = CutPieces(argument);
    if (pieces.size() == 1 && pieces[0].kind == Kind::kText) {
      AddText(fmt::format("${}\r\n{}\r\n", argument.size(), argument));
    } else if (pieces.size() == 1 && pieces[0].kind == Kind::kData) {
      AddText(fmt::format("${}\r\n", values_->value_size()));
      steps_.push_back({Kind::kData, "", {}});
      AddText("\r\n");
    } else {
      AddText("$");
      steps_.push_back({Kind::kKey, "", std::move(pieces)});
      AddText("\r\n");
    }
  }
}

void CommandTemplate::Write(KeySource* keys, helio::Random* random, helio::IoBuf* out) {
  for (const Step& step : steps_) {
    if (step.kind == Kind::kText) {
      out->Append(step.text);
      continue;
    }
    if (step.kind == Kind::kData) {
      out->Append(values_->Pick(random));
      continue;
    }
    scratch_.clear();
    for (const Piece& piece : step.pieces) {
      switch (piece.kind) {
        case Kind::kText:
          scratch_ += piece.text;
          break;
        case Kind::kKey:
          scratch_ += key_prefix_;
          AppendNumber(keys->Next(), &scratch_);
          break;
        case Kind::kData:
          scratch_ += values_->Pick(random);
          break;
        case Kind::kScore:
          AppendNumber(random->Uniform(kScoreBound), &scratch_);
          break;
      }
    }
    char header[helio::kMaxIntegerChars + 2];
    char* end = helio::FormatUnsigned(scratch_.size(), header);
    *end++ = '\r';
    *end++ = '\n';
    out->Append({header, static_cast<size_t>(end - header)});
    out->Append(scratch_);
  }
}

}  // namespace dfly::bench
