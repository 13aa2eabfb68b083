// SPDX-License-Identifier: Apache-2.0
// Packed blocks, sets of integers and lists: sequences of changes that the input decides, against a
// vector after every step. And a block of any bytes: it is not sound, or its entries are those that
// we would write.
//
//   input   what it is (1), changes or the bytes of a block
#include "core/table/packed_block.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "core/text/numbers.h"
#include "core/types/int_set.h"
#include "core/types/quick_list.h"
#include "helio/base/fuzz_target.h"

namespace dfly {
namespace {

using helio::Random;
using helio::fuzz::Feed;

constexpr size_t kStepsMax = 120;  // each looks at everything

void CheckAllocated(std::optional<size_t> before, size_t bytes) {
  if (before) CHECK_EQ(*helio::fuzz::AllocatedBytes() - *before, bytes);
}

// --- Any bytes ---

void CheckRawBlock(Feed feed) {
  const size_t entries = feed.Byte();
  const std::string_view bytes = feed.rest();
  if (!PackedBlock::IsSound(bytes, entries)) return;
  std::string again;
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  std::vector<const char*> places;
  for (; at < end; at = PackedBlock::Next(at)) {
    places.push_back(at);
    const PackedElement element(at);
    char scratch[PackedElement::kScratchSize];
    const std::string_view view = element.View(scratch);
    const auto number = element.TryInt();
    const PackedText text = number ? PackedText(*number) : PackedText::OfBytes(view);
    CHECK(text.IsAt(at));
    std::string entry(text.entry_bytes(), '\0');
    text.Write(entry.data());
    again += entry;
  }
  CHECK(at == end);
  CHECK(again == bytes);
  CHECK_EQ(places.size(), entries);
  for (size_t i = entries; i-- > 0;) {
    at = PackedBlock::Previous(at);
    CHECK(at == places[i]);
  }
}

// --- Blocks ---

struct Entry {
  std::string text;
  bool is_integer;  // as its form is, not its text
  bool operator==(const Entry&) const = default;
};

void CheckIsBlock(PackedBlock block, const std::vector<Entry>& model) {
  CHECK_EQ(block.entries(), model.size());
  CHECK(PackedBlock::IsSound({block.begin(), block.entry_bytes()}, block.entries()));
  auto at = block.begin();
  for (const Entry& entry : model) {
    const PackedElement element(at);
    CHECK_EQ(element.ToString(), entry.text);
    CHECK_EQ(element.TryInt().has_value(), entry.is_integer);
    at = PackedBlock::Next(at);
  }
  CHECK(at == block.end());
  for (size_t i = model.size(); i-- > 0;) {
    at = PackedBlock::Previous(at);
    CHECK_EQ(PackedElement(at).ToString(), model[i].text);
  }
  CHECK(at == block.begin());
}

void CheckBlock(Feed feed) {
  const auto before = helio::fuzz::AllocatedBytes();
  PackedBlock block = PackedBlock::Make(feed.Byte());
  {
    std::vector<Entry> model;
    for (size_t step = 0; step < kStepsMax && !feed.empty(); ++step) {
      const uint8_t what = feed.Byte();
      const size_t index = feed.Byte() % (model.size() + 1);
      const auto where = model.begin() + static_cast<ptrdiff_t>(index);
      PackedBlock::Place place = nullptr;
      if (what % 8 < 6) {
        const std::string text = feed.Text();
        const bool as_bytes = what & 64;  // as scores are
        const PackedText packed = as_bytes ? PackedText::OfBytes(text) : PackedText(text);
        const Entry entry = {text, !as_bytes && ParseInt64(text).has_value()};
        if (what % 8 < 4 || index == model.size()) {
          place = block.Insert(block.At(index), packed);
          model.insert(where, entry);
        } else {
          place = block.Set(block.At(index), packed);
          *where = entry;
        }
        CHECK(packed.IsAt(place));
        const size_t first =
            static_cast<size_t>(std::find(model.begin(), model.end(), entry) - model.begin());
        CHECK(block.Find(packed) == block.At(first));
      } else {
        const size_t count = std::min<size_t>(what >> 3, model.size() - index);
        place = block.Erase(block.At(index), count);
        model.erase(where, where + static_cast<ptrdiff_t>(count));
      }
      CHECK(place == block.At(index));
      CheckIsBlock(block, model);
      if (what == 255) {
        PackedBlock copy = block.Clone();
        block.Free();
        block = copy;
        CheckIsBlock(block, model);
      }
    }
  }
  CheckAllocated(before, block.bytes());
  block.Free();
}

// --- Integers ---

void CheckIntegers(Feed feed) {
  const auto before = helio::fuzz::AllocatedBytes();
  IntSet set = IntSet::Make();
  {
    // The width never shrinks, so most inputs stay narrow for a while.
    const size_t widest = 1 + feed.Byte() % 8u;
    std::set<int64_t> model;
    for (size_t step = 0; step < kStepsMax && !feed.empty(); ++step) {
      const uint8_t what = feed.Byte();
      int64_t number = static_cast<int64_t>(feed.Number(std::min<size_t>(1 + what % 8u, widest)));
      if (what & 32) number = (int64_t{1} << (what & 8 ? 15 : 31)) + number % 4 - 2;  // the edges
      if (what & 64) number = -number - 1;
      if (what >= 96) {
        if (what & 16 && !model.empty()) number = *model.begin();
        CHECK_EQ(set.Erase(number), model.erase(number) == 1);
      } else {
        CHECK_EQ(set.Add(number), model.insert(number).second);
      }
      CHECK_EQ(set.Has(number), model.contains(number));
      CHECK_EQ(set.size(), model.size());
      size_t index = 0;
      for (const int64_t one : model) CHECK_EQ(set.At(index++), one);
      if (what == 255) {
        IntSet copy = set.Clone();
        set.Free();
        set = copy;
      }
    }
  }
  CheckAllocated(before, set.bytes());
  set.Free();
}

// --- Lists ---

void CheckIsList(const QuickList& list, const std::vector<std::string>& model) {
  list.CheckInvariants();
  CHECK_EQ(list.size(), model.size());
  size_t index = 0;
  for (auto at = list.At(QuickList::End::kFront); at; at.Next()) {
    CHECK_EQ((*at).ToString(), model[index++]);
  }
  CHECK_EQ(index, model.size());
  for (auto at = list.At(QuickList::End::kBack); at; at.Previous()) {
    CHECK_EQ((*at).ToString(), model[--index]);
  }
  CHECK_EQ(index, 0u);
}

void CheckList(Feed feed) {
  using End = QuickList::End;
  const auto before = helio::fuzz::AllocatedBytes();
  std::unique_ptr<QuickList> list(std::make_unique<QuickList>());
  {
    const uint8_t choice = feed.Byte();
    const BlockLimit limit = {.bytes = size_t{64} << choice % 8,
                              .entries = choice & 128 ? 1 + (choice >> 3 & 15u) : UINT32_MAX};
    std::vector<std::string> model;
    // Mostly texts of one length, as even blocks have them; some look like integers.
    const auto next_text = [&feed, choice](uint8_t what) {
      std::string text = feed.Text();
      if (choice & 64 && what < 240) text.resize(choice & 32 ? 2 : 70, 'x');
      return text;
    };
    for (size_t step = 0; step < kStepsMax && !feed.empty(); ++step) {
      const uint8_t what = feed.Byte();
      const End end = what & 16 ? End::kFront : End::kBack;
      const size_t index = model.empty() ? 0 : feed.Byte() % model.size();
      const auto where = model.begin() + static_cast<ptrdiff_t>(index);
      if (what % 16 < 4 || model.empty()) {
        const std::string text = next_text(what);
        list->Push(end, text, limit);
        model.insert(end == End::kFront ? model.begin() : model.end(), text);
      } else if (what % 16 < 8) {
        const std::string text = next_text(what);
        if (what & 1) {
          list->InsertBefore(list->At(index), text, limit);
        } else {
          list->InsertAfter(list->At(index), text, limit);
        }
        model.insert(what & 1 ? where : where + 1, text);
      } else if (what % 16 < 10) {
        *where = next_text(what);
        list->Replace(list->At(index), *where, limit);
      } else if (what % 16 < 12) {
        list->Pop(end, limit);
        model.erase(end == End::kFront ? model.begin() : model.end() - 1);
      } else if (what % 16 < 14) {
        const size_t count = std::min<size_t>(what >> 4, model.size() - index);
        list->Erase(index, count, limit);
        model.erase(where, where + static_cast<ptrdiff_t>(count));
      } else if (what % 16 == 14) {
        const std::string text = *where;
        const size_t most = 1 + (what >> 5);
        size_t removed = 0;
        for (size_t i = 0; i < model.size() && removed < most;) {
          const size_t at = end == End::kFront ? i : model.size() - 1 - i;
          if (model[at] == text) {
            model.erase(model.begin() + static_cast<ptrdiff_t>(at));
            ++removed;
          } else {
            ++i;
          }
        }
        CHECK_EQ(list->Remove(text, most, end, limit), removed);
      } else {
        list.reset(list->Clone());
      }
      CheckIsList(*list, model);
    }
  }
  CheckAllocated(before, list->bytes());
  list.reset();
  CheckAllocated(before, 0);
}

void CheckOneInput(std::string_view data) {
  if (data.empty()) return;
  Feed feed(data);
  switch (feed.Byte() % 4) {
    case 0:
      return CheckRawBlock(feed);
    case 1:
      return CheckBlock(feed);
    case 2:
      return CheckIntegers(feed);
    default:
      return CheckList(feed);
  }
}

std::string MakeExample(Random* random) {
  std::string bytes(2 + random->Uniform(random->OneIn(8) ? 2000 : 200), '\0');
  for (char& c : bytes) c = static_cast<char>(random->Next());
  bytes[0] = static_cast<char>(random->Uniform(4));
  if (bytes[0] != 0) return bytes;
  PackedBlock block = PackedBlock::Make();
  Feed feed(bytes);
  for (uint64_t i = random->Uniform(12); i > 0; --i) {
    const std::string text = feed.Text();
    block.Append(random->OneIn(8) ? PackedText::OfBytes(text) : PackedText(text));
  }
  std::string raw = {'\0', static_cast<char>(block.entries())};
  raw.append(block.begin(), block.entry_bytes());
  block.Free();
  return raw;
}

}  // namespace

FUZZ_TARGET(PackedBlockFuzz, ChangesAgreeWithAVectorAndHostileBlocksAreNotSound,
            {.check = CheckOneInput, .make_example = MakeExample, .rounds = 40'000})

}  // namespace dfly
