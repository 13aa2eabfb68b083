// SPDX-License-Identifier: Apache-2.0
#include "helio/base/io_buf.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "helio/base/mapped_blocks.h"
#include "helio/base/random.h"

namespace helio {
namespace {

TEST(IoBufTest, OwnsNoMemoryUntilWritten) {
  IoBuf buf;
  EXPECT_EQ(buf.capacity(), 0u);
  EXPECT_TRUE(buf.empty());
  EXPECT_EQ(buf.view(), "");
  EXPECT_EQ(buf.front(), "");
  buf.Append("");
  buf.Consume(0);
  EXPECT_EQ(buf.capacity(), 0u);
  buf.Append("x");
  EXPECT_GT(buf.capacity(), 0u);
  buf.Release();
  EXPECT_EQ(buf.capacity(), 0u);
  buf.Append("again");
  EXPECT_EQ(buf.view(), "again");
}

TEST(IoBufTest, ReservedBytesCountOnlyWhenCommitted) {
  IoBuf buf;
  memcpy(buf.Reserve(100), "abcdef", 6);
  EXPECT_TRUE(buf.empty());
  buf.Commit(3);
  EXPECT_EQ(buf.view(), "abc");
}

TEST(IoBufTest, MovingLeavesAnEmptyBuffer) {
  IoBuf a;
  a.Append("hello");
  IoBuf b = std::move(a);
  EXPECT_EQ(b.view(), "hello");
  EXPECT_EQ(a.capacity(), 0u);
  IoBuf c;
  c.Append("old");
  c = std::move(b);
  EXPECT_EQ(c.view(), "hello");
  EXPECT_EQ(b.capacity(), 0u);
}

TEST(IoBufTest, EmptyingKeepsTheBlockAndRewinds) {
  IoBuf buf;
  buf.Append(std::string(400, 'x'));
  const size_t capacity = buf.capacity();
  for (int i = 0; i < 100; i++) {
    buf.Consume(buf.size());
    buf.Append(std::string(400, 'y'));
  }
  EXPECT_EQ(buf.capacity(), capacity);
}

TEST(IoBufTest, AQueueThatStaysShortDoesNotGrow) {
  IoBuf buf;
  for (int i = 0; i < 100'000; i++) {
    buf.Append("0123456789");
    if (buf.size() > 100) buf.Consume(10);
  }
  EXPECT_LT(buf.capacity(), 1024u);
}

// `scale`: bytes of what is otherwise one.
void TestAgainstString(size_t scale, int operations) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    SCOPED_TRACE(seed);
    Random random(seed);
    IoBuf buf;
    std::string model;
    for (int i = 0; i < operations; i++) {
      switch (random.Uniform(6)) {
        case 0:
        case 1: {
          const std::string bytes(random.Uniform((random.OneIn(20) ? 5000 : 60) * scale),
                                  static_cast<char>('a' + i % 26));
          buf.Append(bytes);
          model += bytes;
          break;
        }
        case 2: {
          const size_t size = random.Uniform(100 * scale);
          memset(buf.Reserve(size + random.Uniform(100 * scale)), '#', size);
          buf.Commit(size);
          model.append(size, '#');
          break;
        }
        case 3:
        case 4: {
          const size_t size = random.Uniform(model.size() + 1);
          buf.Consume(size);
          model.erase(0, size);
          break;
        }
        default:
          if (random.OneIn(20)) {
            buf.Clear();
            model.clear();
          }
      }
      ASSERT_EQ(buf.view(), model);
      ASSERT_LE(buf.size(), buf.capacity());
    }
  }
}

TEST(IoBufTest, BehavesAsAStringUnderRandomOperations) { TestAgainstString(1, 2000); }

TEST(IoBufTest, LargeBlocksBehaveAsAString) { TestAgainstString(5000, 100); }

TEST(IoBufTest, ALargeBlockGivesBackWhatIsConsumed) {
  constexpr size_t kMegabyte = 1 << 20;
  IoBuf buf;
  for (size_t i = 0; i < 9 * kMegabyte; i += 4096) buf.Append(std::string(4096, 'x'));
  EXPECT_EQ(MappedBlocks::Read().bytes, buf.capacity());
  EXPECT_EQ(MappedBlocks::Read().resident, 9 * kMegabyte);
  for (size_t i = 0; i < 3 * kMegabyte; i += 1000) buf.Consume(1000);
  for (size_t i = 0; i < 4 * kMegabyte;) {
    const size_t piece = buf.front().size();
    EXPECT_LE(piece, kMegabyte);
    buf.Consume(piece);
    i += piece;
  }
  EXPECT_LE(MappedBlocks::Read().resident, 3 * kMegabyte);
  buf.Append("end");
  EXPECT_TRUE(buf.view().starts_with("xx") && buf.view().ends_with("xend"));
  IoBuf other = std::move(buf);
  other.Release();
  EXPECT_EQ(MappedBlocks::Read().bytes, 0u);
}

// What is borrowed is given back once, whatever happens to it, and never written to.
TEST(IoBufTest, ABorrowedBlockIsReadAndGivenBack) {
  static const char* returned = nullptr;
  static const std::string text = "0123456789";
  const auto borrow = [](IoBuf* buf) {
    returned = nullptr;
    buf->Borrow(text, [](const char* bytes) {
      EXPECT_EQ(returned, nullptr) << "twice";
      returned = bytes;
    });
    EXPECT_EQ(buf->view(), text);
    EXPECT_EQ(buf->data(), text.data());
    EXPECT_EQ(buf->capacity(), text.size());
  };
  IoBuf buf;
  buf.Append("own");
  borrow(&buf);
  buf.Append("x");
  EXPECT_EQ(returned, text.data());
  EXPECT_EQ(buf.view(), text + "x");

  borrow(&buf);
  buf.Consume(4);
  EXPECT_EQ(buf.view(), "456789");
  buf.Append("x");
  EXPECT_EQ(returned, text.data());
  EXPECT_EQ(buf.view(), "456789x");

  borrow(&buf);
  buf.Truncate(3);
  EXPECT_EQ(returned, nullptr);
  buf.Append("x");
  EXPECT_EQ(buf.view(), "012x");
  EXPECT_EQ(returned, text.data());

  const std::vector<void (*)(IoBuf*)> ends = {[](IoBuf* one) { one->Clear(); },
                                              [](IoBuf* one) { one->Consume(10); },
                                              [](IoBuf* one) { one->Truncate(0); },
                                              [](IoBuf* one) { one->Release(); },
                                              [](IoBuf* one) { *one = IoBuf(); },
                                              [](IoBuf* one) {
                                                IoBuf other;
                                                other.Append("other");
                                                one->Swap(other);
                                                EXPECT_EQ(returned, nullptr);
                                                EXPECT_EQ(other.view(), text);
                                                one->Clear();
                                              }};
  for (const auto end : ends) {
    borrow(&buf);
    end(&buf);
    EXPECT_EQ(returned, text.data());
    buf.Append("more");
    EXPECT_EQ(buf.view(), "more");
    buf.Clear();
  }
  EXPECT_EQ(text, "0123456789");
}

}  // namespace
}  // namespace helio
