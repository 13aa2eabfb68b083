// SPDX-License-Identifier: Apache-2.0
// Listpacks and ziplists of others: any bytes are refused, or they have entries that a listpack of
// ours has again.
//
//   input   how (1: bit 0: a ziplist; bit 1: its header and end are made right), the block
#include "core/rdb/foreign_entries.h"

#include <gtest/gtest.h>

#include "core/rdb/foreign_entries_testing.h"
#include "helio/base/fuzz_target.h"

namespace dfly {
namespace {

using helio::Random;
using testkit::Texts;
using Kind = ForeignEntries::Kind;

// None: it is refused.
std::optional<Texts> Read(Kind kind, std::string_view block) {
  ForeignEntries entries(kind, block);
  Texts texts;
  std::string_view before;
  while (const auto text = entries.Next()) {
    // The one before it is still there.
    if (!texts.empty()) CHECK(before == texts.back());
    texts.emplace_back(*text);
    before = *text;
  }
  CHECK(!entries.Next());
  if (!entries.is_sound()) return std::nullopt;
  return texts;
}

void CheckOneInput(std::string_view data) {
  if (data.size() < 12) return;
  const auto how = static_cast<uint8_t>(data[0]);
  const Kind kind = how & 1 ? Kind::kZiplist : Kind::kListpack;
  std::string fixed;
  std::string_view block = data.substr(1);
  if (how & 2) {  // nearly all would be refused for their size
    fixed = block;
    for (size_t i = 0; i < 4; ++i) fixed[i] = static_cast<char>(fixed.size() >> (8 * i));
    fixed.back() = '\xFF';
    if (how & 4)
      fixed[kind == Kind::kZiplist ? 8 : 4] = fixed[kind == Kind::kZiplist ? 9 : 5] = '\xFF';
    block = fixed;
  }
  // Not in a string, which has a zero behind it that nobody should see.
  const std::vector<char> exact(block.begin(), block.end());
  const std::optional<Texts> texts = Read(kind, {exact.data(), exact.size()});
  if (!texts) return;
  const std::string again = testkit::Listpack(*texts);
  CHECK(Read(Kind::kListpack, again) == texts);
}

// Every form that redis-server writes.
std::string AnyZiplistEntry(Random* random) {
  const auto with_bytes = [random](uint8_t head, size_t count) {
    std::string entry(1, static_cast<char>(head));
    for (; count > 0; --count) entry += static_cast<char>(random->Next());
    return entry;
  };
  const auto with_text = [random](std::string head, size_t size) {
    for (; size > 0; --size) head += static_cast<char>('a' + random->Uniform(26));
    return head;
  };
  switch (random->Uniform(9)) {
    case 0:
      return with_bytes(0xC0, 2);
    case 1:
      return with_bytes(0xD0, 4);
    case 2:
      return with_bytes(0xE0, 8);
    case 3:
      return with_bytes(0xF0, 3);
    case 4:
      return with_bytes(0xFE, 1);
    case 5:
      return with_bytes(static_cast<uint8_t>(random->Between(0xF1, 0xFD)), 0);
    case 6: {
      const size_t size = random->Between(64, 400);
      return with_text({static_cast<char>(0x40 | size >> 8), static_cast<char>(size)}, size);
    }
    case 7:
      return with_text(std::string("\x80\x00\x00\x01\x2c", 5), 300);
    default: {
      const size_t size = random->Uniform(64);
      return with_text({static_cast<char>(size)}, size);
    }
  }
}

std::string MakeExample(Random* random) {
  const size_t count = random->Uniform(12);
  Texts texts;
  if (random->OneIn(2)) {
    for (size_t i = 0; i < count; ++i) texts.push_back(AnyZiplistEntry(random));
    return static_cast<char>(1 | random->Uniform(4) << 1) + testkit::Ziplist(texts);
  }
  for (size_t i = 0; i < count; ++i) {
    std::string seed(20, '\0');
    for (char& c : seed) c = static_cast<char>(random->Next());
    texts.push_back(helio::fuzz::Feed(seed).Text());
  }
  return static_cast<char>(random->Uniform(4) << 1) + testkit::Listpack(texts);
}

}  // namespace

FUZZ_TARGET(ForeignEntriesFuzz, HostileBlocksAreRefusedOrReadAsTheyAre,
            {.check = CheckOneInput, .make_example = MakeExample, .rounds = 300'000})

}  // namespace dfly
