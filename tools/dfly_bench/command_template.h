// SPDX-License-Identifier: Apache-2.0
// A command with gaps, and the requests made from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "helio/base/io_buf.h"
#include "helio/base/random.h"
#include "tools/dfly_bench/key_source.h"

namespace dfly::bench {

// Cuts a command line into arguments at blanks; "..." and '...' keep blanks together. Returns what
// is wrong with the text, or nothing. An empty command is wrong.
std::string SplitArguments(std::string_view text, std::vector<std::string>* arguments);

// Letters that values are cut from. Each cut starts elsewhere, so values differ.
// Thread: any, it does not change.
class ValuePool {
 public:
  ValuePool(size_t value_size, uint64_t seed);
  size_t value_size() const { return value_size_; }
  std::string_view Pick(helio::Random* random) const {
    return {letters_.data() + random->Uniform(kSpare), value_size_};
  }

 private:
  static constexpr size_t kSpare = 64;
  const size_t value_size_;
  std::string letters_;
};

// Owner: one thread (it has scratch room). Suspends: never.
//
// In an argument
//   __key__    is the key prefix and a number of the connection's KeySource, a new one each time
//   __data__   is a value
//   __score__  is a random integer below a million
// What has no gap is rendered once, so a request is a few copies.
class CommandTemplate {
 public:
  CommandTemplate(std::string key_prefix, const ValuePool* values)
      : key_prefix_(std::move(key_prefix)), values_(values) {}

  // Replaces the command. REQUIRES: arguments is not empty.
  void Compile(const std::vector<std::string>& arguments);

  // Appends one request.
  void Write(KeySource* keys, helio::Random* random, helio::IoBuf* out);

 private:
  enum class Kind : uint8_t { kText, kKey, kData, kScore };
  struct Piece {
    Kind kind;
    std::string text;  // kText
  };
  // Literal bytes of the request, one value, or an argument whose length each request finds anew.
  struct Step {
    Kind kind = Kind::kText;  // kText or kData; kKey stands for `pieces`
    std::string text;
    std::vector<Piece> pieces;
  };

  static std::vector<Piece> CutPieces(std::string_view argument);
  void AddText(std::string_view text);

  const std::string key_prefix_;
  const ValuePool* const values_;
  std::vector<Step> steps_;
  std::string scratch_;
};

}  // namespace dfly::bench
