// SPDX-License-Identifier: Apache-2.0
#include "core/types/quick_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/test_seed.h"

namespace dfly {
namespace {

using End = QuickList::End;

std::unique_ptr<QuickList> Make(const std::vector<std::string>& texts,
                                const BlockLimit& limit = BlockLimit()) {
  auto list = std::make_unique<QuickList>();
  for (const std::string& text : texts) list->Push(End::kBack, text, limit);
  return list;
}

std::vector<std::string> Texts(const QuickList& list, End from = End::kFront) {
  std::vector<std::string> texts;
  char scratch[QuickList::kScratchSize];
  const End towards = from == End::kFront ? End::kBack : End::kFront;
  for (auto at = list.At(from); at; at.Move(towards)) texts.emplace_back((*at).View(scratch));
  return texts;
}

std::string TextAt(const QuickList& list, size_t index) {
  char scratch[QuickList::kScratchSize];
  return std::string((*list.At(index)).View(scratch));
}

TEST(QuickListTest, KeepsTextsOfAllLengths) {
  std::vector<std::string> texts;
  for (size_t size :
       {0,   1,    2,    61,   62,   63,   64,    65,    124,   125,   126,     127,     128,
        129, 8189, 8190, 8191, 8192, 8193, 16379, 16380, 16384, 70000, 2097150, 2097152, 3000000}) {
    texts.emplace_back(size, 'x');
  }
  for (int setting : {-5, -2, 1, 3, 1000}) {
    const auto list = Make(texts, BlockLimit::FromSetting(setting));
    EXPECT_EQ(Texts(*list), texts);
    auto backwards = texts;
    std::reverse(backwards.begin(), backwards.end());
    EXPECT_EQ(Texts(*list, End::kBack), backwards);
    list->CheckInvariants();
  }
}

TEST(QuickListTest, KeepsIntegersAndWhatOnlyLooksLikeOne) {
  std::vector<std::string> texts = {"",   "-",  "-0", "00",  "01",
                                    "+1", " 1", "1 ", "1.0", "9223372036854775808"};
  for (int shift = 0; shift < 64; ++shift) {
    for (int64_t near = -2; near <= 2; ++near) {
      const auto number =
          static_cast<int64_t>((uint64_t{1} << shift) + static_cast<uint64_t>(near));
      texts.push_back(std::to_string(number));
      texts.push_back(std::to_string(static_cast<int64_t>(0 - static_cast<uint64_t>(number))));
    }
  }
  for (int64_t edge : {-1025, -1024, -1023, 15358, 15359, 15360, 15361}) {
    texts.push_back(std::to_string(edge));
  }
  const auto list = Make(texts);
  EXPECT_EQ(Texts(*list), texts);
  list->CheckInvariants();
  for (const std::string& text : texts) {
    const PackedText packed(text);
    auto at = list->At(End::kFront);
    for (const std::string& other : texts) {
      EXPECT_EQ(at.Is(packed), text == other) << text << " and " << other;
      at.Next();
    }
  }
}

TEST(QuickListTest, PaysTwoBytesForASmallTextAndLessForIntegers) {
  EXPECT_EQ(PackedText("hello").entry_bytes(), 7u);
  EXPECT_EQ(PackedText("63").entry_bytes(), 2u);
  EXPECT_EQ(PackedText("-1024").entry_bytes(), 3u);
  EXPECT_EQ(PackedText("15360").entry_bytes(), 4u);
  EXPECT_EQ(PackedText("1000000").entry_bytes(), 5u);
  EXPECT_EQ(PackedText("9223372036854775807").entry_bytes(), 10u);
}

TEST(QuickListTest, UnderstandsTheSettingAsRedisDoes) {
  EXPECT_EQ(BlockLimit::FromSetting(-1).bytes, 4096u);
  EXPECT_EQ(BlockLimit::FromSetting(-5).bytes, 65536u);
  EXPECT_EQ(BlockLimit::FromSetting(-6).bytes, 65536u);
  EXPECT_EQ(BlockLimit::FromSetting(INT64_MIN).bytes, 65536u);
  EXPECT_EQ(BlockLimit::FromSetting(0).entries, 1u);
  EXPECT_EQ(BlockLimit::FromSetting(7).entries, 7u);
  EXPECT_EQ(BlockLimit::FromSetting(7).bytes, 8192u);
  EXPECT_EQ(BlockLimit::FromSetting(INT64_MAX).entries, UINT32_MAX);
}

TEST(QuickListTest, BeginsAnotherBlockAtTheLimit) {
  const auto list = Make({"a", "b", "c"}, BlockLimit::FromSetting(3));
  EXPECT_TRUE(list->is_listpack());
  list->Push(End::kFront, "d", BlockLimit::FromSetting(3));
  EXPECT_FALSE(list->is_listpack());
  EXPECT_EQ(list->CountBlocks(), 2u);
  EXPECT_FALSE(Make({std::string(9000, 'x')})->is_listpack());
  EXPECT_TRUE(Make({std::string(8000, 'x')})->is_listpack());
}

TEST(QuickListTest, IsAListpackAgainWhenHalfABlockHoldsIt) {
  const BlockLimit limit = BlockLimit::FromSetting(4);
  const auto list = Make({"a", "b", "c", "d", "e"}, limit);
  for (size_t left = 4; left >= 1; --left) {
    list->Pop(End::kBack, limit);
    EXPECT_EQ(list->is_listpack(), left <= 2) << left;
  }
}

TEST(QuickListTest, GivesMemoryBackWhenMostIsGone) {
  const BlockLimit limit = BlockLimit::FromSetting(-5);
  const auto list = std::make_unique<QuickList>();
  for (int i = 0; i < 5000; ++i) list->Push(End::kBack, "element", limit);
  while (list->size() > 10) list->Pop(list->size() % 2 == 0 ? End::kBack : End::kFront, limit);
  EXPECT_LT(list->bytes(), 512u);
}

TEST(QuickListTest, MergesWhatRemovalsLeave) {
  const BlockLimit limit = BlockLimit::FromSetting(10);
  for (const End from : {End::kFront, End::kBack}) {
    const auto list = std::make_unique<QuickList>();
    for (int i = 0; i < 1000; ++i) list->Push(End::kBack, i % 10 == 0 ? "stays" : "goes", limit);
    EXPECT_EQ(list->CountBlocks(), 100u);
    EXPECT_EQ(list->Remove("goes", SIZE_MAX, from, limit), 900u);
    EXPECT_LE(list->CountBlocks(), 40u);
    list->CheckInvariants();
  }
}

#ifndef DFLY_SANITIZED
TEST(QuickListTest, CountsWhatTheAllocatorGave) {
  const auto list = std::make_unique<QuickList>();
  EXPECT_EQ(UsableSize(list.get()), sizeof(QuickList));
  EXPECT_EQ(list->bytes(), 32u);
  list->Push(End::kBack, "x", BlockLimit());
  EXPECT_EQ(list->bytes(), 80u);
}

TEST(QuickListTest, AMillionSmallElementsCostLittleMoreThanTheirBytes) {
  for (const End end : {End::kFront, End::kBack}) {
    const auto list = std::make_unique<QuickList>();
    for (int i = 0; i < 1'000'000; ++i) list->Push(end, "element:12", BlockLimit());
    EXPECT_LT(static_cast<double>(list->bytes()) / 1e6, 12.2);
  }
}
#endif

TEST(QuickListTest, AQueueThatIsAlwaysFullStaysOneBlock) {
  const BlockLimit limit;
  const auto list = std::make_unique<QuickList>();
  const std::string text(18, 'x');
  for (int i = 0; i < 400; ++i) list->Push(End::kBack, text, limit);
  ASSERT_TRUE(list->is_listpack());
  for (int i = 0; i < 10000; ++i) {
    list->Pop(End::kFront, limit);
    list->Push(End::kBack, text, limit);
  }
  EXPECT_TRUE(list->is_listpack());
  EXPECT_EQ(list->CountBlocks(), 1u);
  EXPECT_LE(list->bytes(), 10300u);
}

// --- The model ---

class Comparison {
 public:
  explicit Comparison(uint64_t seed) : random_(seed) {}

  void Run(size_t steps) {
    for (size_t step = 0; step < steps; ++step) {
      if (step % 5000 == 0) limit_ = RandomLimit();
      if (step % 997 == 0) target_size_ = Below(4) == 0 ? Below(3000) : Below(60);
      Step();
      ASSERT_EQ(list_->size(), model_.size());
      if (Below(16) == 0) CompareSome();
      if (step % 1009 == 0) {
        ASSERT_NO_FATAL_FAILURE(CompareAll());
      }
    }
    CompareAll();
  }

 private:
  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  BlockLimit RandomLimit() {
    static constexpr int kSettings[] = {-1, -2, -5, 1, 2, 3, 7, 100};
    BlockLimit limit = BlockLimit::FromSetting(kSettings[Below(std::size(kSettings))]);
    if (Below(2) == 0) limit.bytes = 64 + Below(500);  // so that there are many blocks
    return limit;
  }

  std::string RandomText() {
    switch (Below(12)) {
      case 0:
        return std::to_string(static_cast<int64_t>(random_()) >> Below(64));
      case 1:
        return std::to_string(static_cast<int64_t>(Below(40000)) - 20000);
      case 2:
        return std::string(Below(300), static_cast<char>('a' + Below(3)));
      case 3:
        return Below(40) == 0 ? std::string(Below(20000), 'L') : "";
      default:
        return std::string(1 + Below(20), static_cast<char>('a' + Below(2)));
    }
  }
  End RandomEnd() { return Below(2) == 0 ? End::kFront : End::kBack; }

  void Push() {
    const std::string text = RandomText();
    const End end = RandomEnd();
    list_->Push(end, text, limit_);
    end == End::kFront ? model_.push_front(text) : model_.push_back(text);
  }

  void Step() {
    const size_t size = model_.size();
    if (size == 0) return Push();
    const bool is_small = size < target_size_;
    const size_t kind = Below(is_small ? 12 : 14);
    const size_t index = Below(8) == 0 ? 0 : Below(size);
    const auto place = model_.begin() + static_cast<std::ptrdiff_t>(index);
    if (kind < 4) return Push();
    if (kind < 6) {
      const std::string text = RandomText();
      list_->InsertBefore(list_->At(index), text, limit_);
      model_.insert(place, text);
    } else if (kind < 8) {
      const std::string text = RandomText();
      list_->InsertAfter(list_->At(index), text, limit_);
      model_.insert(place + 1, text);
    } else if (kind < 10) {
      const std::string text = RandomText();
      list_->Replace(list_->At(index), text, limit_);
      *place = text;
    } else if (kind < 11) {
      const End end = RandomEnd();
      list_->Pop(end, limit_);
      end == End::kFront ? model_.pop_front() : model_.pop_back();
    } else if (kind < 12) {
      Remove();
    } else {
      const size_t count = 1 + Below(std::min<size_t>(size - index, Below(20) == 0 ? size : 8));
      list_->Erase(index, count, limit_);
      model_.erase(place, place + static_cast<std::ptrdiff_t>(count));
    }
  }

  void Remove() {
    const std::string text = Below(2) == 0 ? model_[Below(model_.size())] : RandomText();
    const size_t max = Below(30) == 0 ? SIZE_MAX : 1 + Below(3);
    const End from = RandomEnd();
    size_t removed = 0;
    if (from == End::kFront) {
      for (auto it = model_.begin(); it != model_.end() && removed < max;) {
        if (*it == text) {
          it = model_.erase(it);
          ++removed;
        } else {
          ++it;
        }
      }
    } else {
      for (size_t i = model_.size(); i-- > 0 && removed < max;) {
        if (model_[i] != text) continue;
        model_.erase(model_.begin() + static_cast<std::ptrdiff_t>(i));
        ++removed;
      }
    }
    EXPECT_EQ(list_->Remove(text, max, from, limit_), removed);
  }

  void CompareSome() {
    EXPECT_FALSE(list_->At(model_.size()));
    if (model_.empty()) return;
    const size_t index = Below(model_.size());
    EXPECT_EQ(TextAt(*list_, index), model_[index]);
    EXPECT_EQ(TextAt(*list_, 0), model_.front());
    EXPECT_EQ(TextAt(*list_, model_.size() - 1), model_.back());
  }

  void CompareAll() {
    list_->CheckInvariants();
    std::vector<std::string> texts(model_.begin(), model_.end());
    ASSERT_EQ(Texts(*list_), texts);
    std::reverse(texts.begin(), texts.end());
    ASSERT_EQ(Texts(*list_, End::kBack), texts);

    std::unique_ptr<QuickList> clone;
    uint64_t cursor = 0;
    uint64_t move_cursor = 0;
    size_t steps = 0;
    do {
      clone.reset(list_->CopySome(clone.release(), &cursor, 1));
      ++steps;
      if (Below(4) != 0) continue;
      BlockMover mover(nullptr);
      list_.reset(QuickList::Move(list_.release(), mover, &move_cursor));
    } while (cursor != 0);
    ASSERT_EQ(steps, std::max<size_t>(list_->CountBlocks(), 1));
    clone->CheckInvariants();
    ASSERT_EQ(Texts(*clone, End::kBack), texts);
    clone.reset(list_->Clone());
    clone->CheckInvariants();
    ASSERT_EQ(Texts(*clone, End::kBack), texts);
    ASSERT_EQ(clone->is_listpack(), list_->is_listpack());
    if (Below(2) == 0) std::swap(list_, clone);  // and goes on with it
  }

  std::mt19937_64 random_;
  BlockLimit limit_;
  size_t target_size_ = 30;
  std::unique_ptr<QuickList> list_ = std::make_unique<QuickList>();
  std::deque<std::string> model_;
};

// A step goes on where the last one has ended: from the head on it would take hours.
TEST(QuickListTest, ALongListIsCopiedInManySteps) {
  constexpr size_t kBlocks = 1'000'000;
  const BlockLimit limit = BlockLimit::FromSetting(1);
  const auto list = std::make_unique<QuickList>();
  for (size_t i = 0; i < kBlocks; ++i) list->Push(End::kBack, std::to_string(i), limit);
  ASSERT_EQ(list->CountBlocks(), kBlocks);
  std::unique_ptr<QuickList> copy;
  uint64_t cursor = 0;
  size_t steps = 0;
  do {
    copy.reset(list->CopySome(copy.release(), &cursor, 1));
    ++steps;
  } while (cursor != 0);
  EXPECT_EQ(steps, kBlocks);
  EXPECT_EQ(copy->size(), kBlocks);
  EXPECT_EQ(TextAt(*copy, kBlocks - 1), std::to_string(kBlocks - 1));
}

// DFLY_STEPS lengthens it.
TEST(QuickListTest, AgreesWithAModel) {
#ifdef DFLY_SANITIZED
  size_t steps = 100'000;
#else
  size_t steps = 2'000'000;
#endif
  if (const char* text = std::getenv("DFLY_STEPS")) steps = std::strtoull(text, nullptr, 10);
  Comparison(helio::TestSeed()).Run(steps);
}

}  // namespace
}  // namespace dfly
