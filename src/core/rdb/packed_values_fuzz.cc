// SPDX-License-Identifier: Apache-2.0
// Sets, hashes and sorted sets across the limits at which their encodings change: sequences of
// changes that the input decides, against the standard containers after every step.
//
//   input   type (1), limits (3), changes
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/types/hash_value.h"
#include "core/types/set_value.h"
#include "core/types/zset_value.h"
#include "helio/base/fuzz_target.h"

namespace dfly {
namespace {

using helio::Random;
using helio::fuzz::Feed;

constexpr size_t kStepsMax = 120;  // each looks at everything

PackedLimit LimitOf(Feed* feed) {
  return {.entries = feed->Byte() % 32u, .element_bytes = feed->Byte() % 80u};
}

// What a step does, and to which member: a new one, or one that is there.
struct Step {
  uint8_t what;
  std::string member;
};
template <typename Model, typename KeyOf>
Step NextStep(Feed* feed, const Model& model, KeyOf key_of) {
  const uint8_t what = feed->Byte();
  if (model.empty() || (what & 1)) return {what, feed->Text()};
  auto it = model.begin();
  std::advance(it, feed->Byte() % model.size());
  return {what, key_of(*it)};
}

void CheckSet(Feed feed, CompactValue* value) {
  const SetLimit limit = {.integers = feed.Byte() % 32u, .packed = LimitOf(&feed)};
  SetValue::Create(value, "1", 1, limit);
  std::set<std::string> model;
  SetValue::Encoding before = SetValue::kIntegers;
  for (size_t i = 0; i < kStepsMax && !feed.empty(); ++i) {
    const Step step = NextStep(&feed, model, [](const std::string& member) { return member; });
    SetValue set(value);
    if (step.what % 8 < 5) {
      CHECK_EQ(set.Add(step.member, limit), model.insert(step.member).second);
    } else if (step.what % 8 < 7) {
      CHECK_EQ(set.Erase(step.member), model.erase(step.member) == 1);
    } else {
      *value = value->Clone();
    }
    CHECK_EQ(set.size(), model.size());
    CHECK_EQ(set.Has(step.member), model.contains(step.member));
    const bool is_packed = set.encoding() == SetValue::kPacked;
    if (is_packed) CHECK_LE(set.size(), limit.packed.entries);
    std::set<std::string> seen;
    set.ForEach([&](std::string_view member) {
      CHECK(seen.emplace(member).second);
      if (is_packed) CHECK_LE(member.size(), limit.packed.element_bytes);
    });
    CHECK(seen == model);
    CHECK_GE(set.encoding(), before) << "never back";
    before = set.encoding();
    if (before == SetValue::kTable) set.table().CheckInvariants();
  }
}

void CheckHash(Feed feed, CompactValue* value) {
  using Model = std::map<std::string, std::string>;
  feed.Byte();
  const PackedLimit limit = LimitOf(&feed);
  HashValue::Create(value);
  Model model;
  HashValue::Encoding before = HashValue::kPacked;
  for (size_t i = 0; i < kStepsMax && !feed.empty(); ++i) {
    const Step step =
        NextStep(&feed, model, [](const Model::value_type& pair) { return pair.first; });
    HashValue hash(value);
    if (step.what % 8 < 5) {
      const std::string text = feed.Text();
      CHECK_EQ(hash.Set(step.member, text, limit),
               model.insert_or_assign(step.member, text).second);
    } else if (step.what % 8 < 7) {
      CHECK_EQ(hash.Erase(step.member), model.erase(step.member) == 1);
    } else {
      *value = value->Clone();
    }
    CHECK_EQ(hash.size(), model.size());
    char scratch[HashValue::kScratchSize];
    const auto text = hash.Get(step.member, scratch);
    const auto known = model.find(step.member);
    CHECK_EQ(text.has_value(), known != model.end());
    CHECK(!text || *text == known->second);
    Model seen;
    const bool is_packed = hash.encoding() == HashValue::kPacked;
    if (is_packed) CHECK_LE(hash.size(), limit.entries);
    hash.ForEach([&](std::string_view field, std::string_view its_text) {
      CHECK(seen.emplace(field, its_text).second);
      if (is_packed) CHECK_LE(std::max(field.size(), its_text.size()), limit.element_bytes);
    });
    CHECK(seen == model);
    CHECK_GE(hash.encoding(), before) << "never back";
    before = hash.encoding();
    if (before == HashValue::kTable) hash.table().CheckInvariants();
  }
}

// Small integers, any integers, and any bits that are a score.
double ScoreOf(Feed* feed) {
  const uint8_t what = feed->Byte();
  if (what < 128) return what % 16 - 8;
  if (what < 160) return static_cast<double>(static_cast<int64_t>(feed->Number(8)));
  if (what < 192) return std::ldexp(1, what % 32 + 40) + feed->Byte() - 128;
  const double score = std::bit_cast<double>(feed->Number(8));
  return std::isnan(score) ? HUGE_VAL : score;
}

void CheckZset(Feed feed, CompactValue* value) {
  using Model = std::map<std::string, double>;
  const size_t expected = feed.Byte() & 128 ? 1000 : 1;
  const PackedLimit limit = LimitOf(&feed);
  ZsetValue::Create(value, 1, expected, limit);
  Model model;
  std::set<std::pair<double, std::string>> order;
  const auto forget = [&](const std::string& member) {
    const auto it = model.find(member);
    if (it == model.end()) return false;
    order.erase({it->second, member});
    model.erase(it);
    return true;
  };
  ZsetValue::Encoding before = ZsetValue::kPacked;
  for (size_t i = 0; i < kStepsMax && !feed.empty(); ++i) {
    const Step step =
        NextStep(&feed, model, [](const Model::value_type& pair) { return pair.first; });
    ZsetValue zset(value);
    if (step.what % 16 < 10) {
      const double score = ScoreOf(&feed);
      const bool was_there = forget(step.member);
      CHECK_EQ(zset.Set(step.member, score, limit), !was_there);
      model.emplace(step.member, score);
      order.emplace(score, step.member);
    } else if (step.what % 16 < 13) {
      CHECK_EQ(zset.Erase(step.member), forget(step.member));
    } else if (step.what % 16 < 15) {
      const size_t first = feed.Byte() % (model.size() + 1);
      const size_t count = std::min<size_t>(step.what >> 5, model.size() - first);
      zset.EraseRange(first, count);
      auto it = order.begin();
      std::advance(it, first);
      for (size_t k = 0; k < count; ++k) {
        model.erase(it->second);
        it = order.erase(it);
      }
    } else {
      *value = value->Clone();
    }
    CHECK_EQ(zset.size(), model.size());
    const auto known = model.find(step.member);
    CHECK(zset.Score(step.member) ==
          (known == model.end() ? std::nullopt : std::optional(known->second)));
    auto it = order.begin();
    const bool is_packed = zset.encoding() == ZsetValue::kPacked;
    if (is_packed) CHECK_LE(zset.size(), limit.entries);
    zset.ForEach([&](std::string_view member, double score) {
      if (is_packed) CHECK_LE(member.size(), limit.element_bytes);
      CHECK_EQ(member, it->second);
      CHECK_EQ(score, it->first);
      ++it;
    });
    CHECK(it == order.end());
    if (!order.empty()) {
      const size_t index = step.what % order.size();
      it = order.begin();
      std::advance(it, index);
      CHECK(zset.Rank(it->second) == std::pair(index, it->first));
      const auto less = [](const auto& pair, double score) { return pair.first < score; };
      CHECK_EQ(zset.CountBelow(it->first),
               static_cast<size_t>(std::distance(
                   order.begin(), std::lower_bound(order.begin(), order.end(), it->first, less))));
    }
    CHECK_GE(zset.encoding(), before) << "never back";
    before = zset.encoding();
  }
}

void CheckOneInput(std::string_view data) {
  [[maybe_unused]] static const bool is_registered =
      (SetValue::RegisterType(), HashValue::RegisterType(), ZsetValue::RegisterType(), true);
  if (data.empty()) return;
  const auto before = helio::fuzz::AllocatedBytes();
  {
    CompactValue value;
    Feed feed(data);
    switch (feed.Byte() % 3) {
      case 0:
        CheckSet(feed, &value);
        break;
      case 1:
        CheckHash(feed, &value);
        break;
      default:
        CheckZset(feed, &value);
        break;
    }
    if (before) CHECK_EQ(*helio::fuzz::AllocatedBytes() - *before, value.HeapBytes());
  }
  CHECK(helio::fuzz::AllocatedBytes() == before);
}

std::string MakeExample(Random* random) {
  std::string bytes(4 + random->Uniform(random->OneIn(8) ? 1500 : 200), '\0');
  for (char& c : bytes) c = static_cast<char>(random->Next());
  return bytes;
}

}  // namespace

FUZZ_TARGET(PackedValuesFuzz, ChangesAgreeWithTheStandardContainersInAllEncodings,
            {.check = CheckOneInput, .make_example = MakeExample, .rounds = 30'000})

}  // namespace dfly
