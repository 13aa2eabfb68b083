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

// --- Even blocks ---

TEST(QuickListTest, KnowsWhatATextTakesInAPackedBlock) {
  std::vector<size_t> sizes = {1023, 1024, 8189, 8190, 8191, 8192, 16378, 16379, 2097146, 2097147};
  for (size_t size = 0; size < 300; ++size) sizes.push_back(size);
  for (const size_t size : sizes) {
    EXPECT_EQ(PackedTextBytes(size), PackedText(std::string(size, 'x')).entry_bytes()) << size;
  }
}

// Each of these fits no even block of texts of 8 bytes.
const std::vector<std::string> kForeign = {
    "", "7", "12345678", "-1234567", "seven..", "nine....!", "123456789", std::string(1024, 'x')};

std::vector<std::string> TextsOf8(size_t count) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.push_back("id" + std::to_string(100000 + i));
  return texts;
}

void ExpectIs(const QuickList& list, std::vector<std::string> texts) {
  list.CheckInvariants();
  ASSERT_EQ(list.size(), texts.size());
  EXPECT_EQ(Texts(list), texts);
  for (size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(TextAt(list, i), texts[i]) << i;
  std::reverse(texts.begin(), texts.end());
  EXPECT_EQ(Texts(list, End::kBack), texts);
}

TEST(QuickListTest, AnEvenBlockTakesTextsOfOtherKindsAnywhere) {
  const BlockLimit limit;
  for (const std::string& foreign : kForeign) {
    for (const size_t index : {0, 1, 25, 49, 50}) {
      const std::vector<std::string> before = TextsOf8(50);
      std::vector<std::string> after = before;
      after.insert(after.begin() + static_cast<std::ptrdiff_t>(index), foreign);
      for (const bool pushes : {true, false}) {
        const auto list = Make(before);
        if (pushes && index % 50 == 0) {
          list->Push(index == 0 ? End::kFront : End::kBack, foreign, limit);
        } else if (index < 50) {
          list->InsertBefore(list->At(index), foreign, limit);
        } else {
          list->InsertAfter(list->At(index - 1), foreign, limit);
        }
        ExpectIs(*list, after);
        EXPECT_EQ(list->CountBlocks(), 1u);
        EXPECT_TRUE(list->At(index).Is(PackedText(foreign)));
        EXPECT_EQ(list->Remove("id100030", 9, End::kFront, limit), 1u);
        EXPECT_EQ(list->Remove(foreign, 9, End::kBack, limit), 1u);
      }
      if (index == 50) continue;
      const auto list = Make(before);
      list->Replace(list->At(index), foreign, limit);
      after.erase(after.begin() + static_cast<std::ptrdiff_t>(index) + 1);
      ExpectIs(*list, after);
      EXPECT_EQ(list->CountBlocks(), 1u);
    }
  }
}

TEST(QuickListTest, AnEvenBlockReplacesTextsOfItsKindInPlace) {
  std::vector<std::string> texts = TextsOf8(400);
  const auto list = Make(texts);
  const size_t bytes = list->bytes();
  for (const size_t index : {0, 200, 399}) {
    texts[index] = "replaced";
    list->Replace(list->At(index), texts[index], BlockLimit());
  }
  ExpectIs(*list, texts);
  EXPECT_EQ(list->bytes(), bytes);
}

TEST(QuickListTest, AnEvenBlockHasNoneOfOtherKinds) {
  const auto list = Make(TextsOf8(50));
  for (const std::string& foreign : kForeign) {
    EXPECT_EQ(list->Remove(foreign, 9, End::kFront, BlockLimit()), 0u);
    EXPECT_FALSE(list->At(3).Is(PackedText(foreign)));
  }
  EXPECT_FALSE(list->At(3).Is(PackedText("id100004")));
  EXPECT_TRUE(list->At(4).Is(PackedText("id100004")));
}

// The limit that counts for a text of another kind may have become smaller since.
TEST(QuickListTest, AChainOfEvenBlocksTakesOtherKindsWithAnyLimit) {
  for (const size_t size : {1, 2, 8, 16, 100, 1023}) {
    for (const int setting : {-1, -3, -5, 7}) {
      const BlockLimit limit = BlockLimit::FromSetting(setting);
      std::vector<std::string> texts(150'000 / size, std::string(size, 'e'));
      const auto list = Make(texts, BlockLimit::FromSetting(-3));
      for (size_t i = 1; i < 40; ++i) {
        const size_t index = i * 7919 % texts.size();
        texts[index] = kForeign[i % kForeign.size()];
        list->Replace(list->At(index), texts[index], limit);
        const size_t next = i * 104'729 % texts.size();
        texts.insert(texts.begin() + static_cast<std::ptrdiff_t>(next), "other");
        list->InsertBefore(list->At(next), "other", limit);
      }
      list->CheckInvariants();
      EXPECT_EQ(Texts(*list), texts);
    }
  }
}

// OBJECT ENCODING must not tell an even block from a packed one.
TEST(QuickListTest, IsAListpackForAsManyTextsAsIfTheyWerePacked) {
  for (const size_t size : {1, 2, 8, 16, 36, 63, 64, 65, 125, 126, 127, 500, 1022, 1023, 1024}) {
    const std::string text(size, 'x');
    const size_t entry = PackedText(text).entry_bytes();
    for (const int setting : {-1, -2, -5, 100}) {
      const BlockLimit limit = BlockLimit::FromSetting(setting);
      const size_t most = std::min<size_t>((limit.bytes - 32) / entry, limit.entries);
      const size_t half = std::min<size_t>((limit.bytes / 2 - 32) / entry, limit.entries / 2);
      for (const int way : {0, 1, 2}) {
        const auto list = std::make_unique<QuickList>();
        while (list->is_listpack()) {
          if (way == 2 && !list->empty()) {
            list->InsertAfter(list->At(list->size() / 2), text, limit);
          } else {
            list->Push(way == 0 ? End::kFront : End::kBack, text, limit);
          }
        }
        EXPECT_EQ(list->size(), most + 1) << size << " bytes, setting " << setting;
        if (way == 2) continue;  // that has split the block
        while (!list->is_listpack()) list->Pop(way == 0 ? End::kFront : End::kBack, limit);
        EXPECT_EQ(list->size(), half) << size << " bytes, setting " << setting;
      }
    }
  }
}

TEST(QuickListTest, IsAQuicklistFromTheTextOfAnotherKindThatDoesNotFit) {
  const BlockLimit limit;
  const auto list = Make(std::vector<std::string>(400, std::string(16, 'x')));
  // The header and 400 entries of 18 bytes leave 960: one of 955 with 2 bytes each of head and size
  // is too large, together with 2 for "7".
  list->Push(End::kBack, "7", limit);
  EXPECT_TRUE(list->is_listpack());
  for (const size_t size : {954, 955}) {
    list->Push(End::kBack, std::string(size, 'y'), limit);
    EXPECT_EQ(list->is_listpack(), size == 954);
    if (size == 954) list->Pop(End::kBack, limit);
  }
}

TEST(QuickListTest, IsAQuicklistWithOneTextThatWouldBeTooLargePacked) {
  const BlockLimit limit = {.bytes = 1000};
  EXPECT_TRUE(Make({std::string(964, 'x')}, limit)->is_listpack());
  EXPECT_FALSE(Make({std::string(965, 'x')}, limit)->is_listpack());
}

// 850 texts of 8 bytes have room in a block, but not if each takes 10.
TEST(QuickListTest, AnEvenBlockThatWouldBeTooLargePackedIsSplit) {
  const BlockLimit limit;
  constexpr size_t kFirst = (8192 - 32) / 10;
  std::vector<std::string> texts = TextsOf8(kFirst + 850);
  const auto list = Make(texts);
  ASSERT_EQ(list->CountBlocks(), 2u);
  list->InsertBefore(list->At(kFirst + 100), "other", limit);
  texts.insert(texts.begin() + kFirst + 100, "other");
  ExpectIs(*list, texts);
  EXPECT_EQ(list->CountBlocks(), 3u);
  // What was split off is small enough now.
  list->InsertBefore(list->At(kFirst + 100), "another", limit);
  list->InsertBefore(list->At(kFirst + 300), "another", limit);
  texts.insert(texts.begin() + kFirst + 100, "another");
  texts.insert(texts.begin() + kFirst + 300, "another");
  ExpectIs(*list, texts);
  EXPECT_EQ(list->CountBlocks(), 3u);
}

// Packing all of it for one text more would be for nothing.
TEST(QuickListTest, AFullEvenBlockOfAChainIsNotPackedForAnotherKind) {
  const std::string text(16, 'x');
  constexpr size_t kFirst = (8192 - 32) / 18;
  constexpr size_t kSecond = (7168 - 32) / 16;
  for (const bool is_full : {false, true}) {
    const auto list = Make(std::vector<std::string>(kFirst + kSecond - !is_full, text));
    ASSERT_EQ(list->CountBlocks(), 2u);
    list->Push(End::kBack, "7", BlockLimit());
    EXPECT_EQ(list->CountBlocks(), is_full ? 3u : 2u);
    list->CheckInvariants();
  }
}

TEST(QuickListTest, EvenBlocksAreMergedIfTheyWouldBeSmallPacked) {
  for (const size_t kept : {200, 230}) {
    std::vector<std::string> texts = TextsOf8(2000);
    const auto list = Make(texts);
    list->Erase(kept, 2000 - 2 * kept, BlockLimit());
    texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(kept),
                texts.end() - static_cast<std::ptrdiff_t>(kept));
    ExpectIs(*list, texts);
    EXPECT_EQ(list->CountBlocks(), 32 + 2 * kept * 10 <= 4096 ? 1u : 2u);
  }
}

TEST(QuickListTest, MergesEvenBlocksWithOthers) {
  BlockLimit limit;
  limit.entries = 100;
  const std::string kinds[] = {"sixteen bytes...", "SIXTEEN BYTES!!!", "fifteen bytes..", "16",
                               std::string(2000, 'x')};
  for (const std::string& first : kinds) {
    for (const std::string& second : kinds) {
      for (const size_t kept : {1, 23}) {
        const auto list = Make(std::vector<std::string>(100, first), limit);
        for (int i = 0; i < 100; ++i) list->Push(End::kBack, second, limit);
        list->Erase(kept, 200 - 2 * kept, limit);
        std::vector<std::string> texts(kept, first);
        texts.insert(texts.end(), kept, second);
        ExpectIs(*list, texts);
        const size_t packed =
            32 + kept * (PackedText(first).entry_bytes() + PackedText(second).entry_bytes());
        EXPECT_EQ(list->CountBlocks() == 1, packed <= limit.bytes / 2);
      }
    }
  }
}

#ifndef DFLY_SANITIZED
TEST(QuickListTest, TwoEvenBlocksOfOneKindStayEvenWhenTheyAreMerged) {
  BlockLimit limit;
  limit.entries = 100;
  const auto list = Make(std::vector<std::string>(200, std::string(16, 'x')), limit);
  list->Erase(23, 200 - 46, limit);
  EXPECT_EQ(list->CountBlocks(), 1u);
  EXPECT_EQ(list->bytes(), 32u + 32 + 46 * 16);  // 768 is a size that the allocator has
}

// 32 bytes for each block, and what is left of it: less than a text.
TEST(QuickListTest, TextsOfOneLengthCostLittleMoreThanTheirBytes) {
  struct Case {
    int setting;
    size_t size;
    double most;
  };
  for (const Case& c :
       {Case{-2, 16, 16.15}, Case{-2, 8, 8.1}, Case{-2, 36, 36.3}, Case{-5, 1, 1.05}}) {
    const std::string text(c.size, 'x');
    const BlockLimit limit = BlockLimit::FromSetting(c.setting);
    for (const End end : {End::kFront, End::kBack}) {
      const auto list = std::make_unique<QuickList>();
      for (int i = 0; i < 1'000'000; ++i) list->Push(end, text, limit);
      EXPECT_LT(static_cast<double>(list->bytes()) / 1e6, c.most) << c.size;
      list->CheckInvariants();
      const std::unique_ptr<QuickList> clone(list->Clone());
      EXPECT_LT(static_cast<double>(clone->bytes()) / 1e6, c.most) << c.size;
    }
  }
}

TEST(QuickListTest, TextsOfOneLengthThatAreInsertedCostNoMore) {
  const BlockLimit limit;
  const auto list = Make({std::string(16, 'x')});
  while (list->size() < 100'000) {
    list->InsertBefore(list->At(End::kFront), std::string(16, 'x'), limit);
  }
  EXPECT_LT(static_cast<double>(list->bytes()) / 1e5, 16.3);
}

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
      if (step % 1499 == 0) ChangeKind();
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

  // From now on texts are of one length, or mostly so, or of any. Half of the time in a new list.
  void ChangeKind() {
    static constexpr size_t kSizes[] = {0,  0,  1,  2,   3,   8,   8,    16,
                                        20, 63, 64, 125, 126, 127, 1023, 1024};
    static constexpr size_t kOthers[] = {0, 0, 2, 20, 200};
    size_ = kSizes[Below(std::size(kSizes))];
    one_in_others_ = kOthers[Below(std::size(kOthers))];
    if (Below(2) == 0) return;
    list_->Erase(0, model_.size(), limit_);
    model_.clear();
  }

  std::string RandomText() {
    if (size_ == 0) return TextOfAnyLength();
    const bool is_other = one_in_others_ != 0 && Below(one_in_others_) == 0;
    if (!is_other) return std::string(size_, static_cast<char>('a' + Below(4)));
    switch (Below(4)) {
      case 0:
        return std::string(std::min<size_t>(size_, 18), static_cast<char>('1' + Below(2)));
      case 1:
        return std::string(size_ + 1 - 2 * Below(2), static_cast<char>('a' + Below(4)));
      default:
        return TextOfAnyLength();
    }
  }

  std::string TextOfAnyLength() {
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
  size_t size_ = 0;           // of the texts; 0: any
  size_t one_in_others_ = 0;  // one in so many is of another kind; 0: none
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
