// SPDX-License-Identifier: Apache-2.0
#include "commands/table/kept_reply.h"

#include <gtest/gtest.h>

#include <string>

#include "commands/table/long_reads.h"
#include "core/memory/work_bytes.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/io_buf.h"

namespace dfly {
namespace {

// What `write(ReplySink&)` writes, at once and kept in between.
template <typename Write>
void ExpectTheSame(Write write) {
  for (const bool resp3 : {false, true}) {
    helio::IoBuf at_once, later, in_slices;
    RespWriter first(&at_once, resp3), second(&later, resp3), third(&in_slices, resp3);
    write(first);
    KeptReply kept;
    EXPECT_TRUE(kept.empty());
    write(kept);
    EXPECT_FALSE(kept.empty());
    kept.GiveTo(second);
    kept.GiveInSlices(third);
    EXPECT_TRUE(at_once.view() == later.view());
    EXPECT_TRUE(at_once.view() == in_slices.view());
  }
}

TEST(KeptReplyTest, GivesWhatWasWritten) {
  ExpectTheSame([](ReplySink& reply) {
    reply.Array(7);
    reply.Bulk("");
    reply.Bulk("text");
    reply.Integer(0);
    reply.Integer(-1);
    reply.Integer(INT64_MAX);
    reply.Null();
    reply.NullArray();
    reply.Map(1);
    reply.Bulk(std::string_view("\0\r\n", 3));
    reply.Integer(INT64_MIN);
    reply.Array(0);
  });
}

TEST(KeptReplyTest, TextsMayBeLongerThanABlock) {
  ExpectTheSame([](ReplySink& reply) {
    for (const size_t size : {126, 127, 128, 300, 16'383, 16'384, 65'536, 1'000'000, 1}) {
      reply.Bulk(std::string(size, 'x'));
    }
  });
}

TEST(KeptReplyTest, CountsAsMemoryUntilItsEnd) {
  const size_t before = WorkBytes::OfThread();
  {
    KeptReply small;
    small.Bulk("text");
    EXPECT_EQ(WorkBytes::OfThread(), before);
    KeptReply kept;
    const std::string text(100'000, 'x');  // few steps: this is no fiber
    for (int i = 0; i < 10; ++i) kept.Bulk(text);
    EXPECT_GT(WorkBytes::OfThread(), before + 950'000);
    EXPECT_LT(WorkBytes::OfThread(), before + 1'200'000);
    helio::IoBuf out;
    RespWriter writer(&out, false);
    kept.GiveInSlices(writer);
    EXPECT_GT(WorkBytes::OfThread(), before + 950'000);
  }
  EXPECT_EQ(WorkBytes::OfThread(), before);
}

TEST(MemberListTest, CountsAsMemoryUntilItsEnd) {
  const size_t before = WorkBytes::OfThread();
  {
    MemberList list;
    list.Add("text");
    EXPECT_EQ(WorkBytes::OfThread(), before);
    for (int i = 0; i < 10'000; ++i) list.Add(std::string(84, 'x'));  // and 16 for its place
    MemberList moved;
    moved = std::move(list);
    EXPECT_GT(WorkBytes::OfThread(), before + 950'000);
    EXPECT_LT(WorkBytes::OfThread(), before + 1'200'000);
  }
  EXPECT_EQ(WorkBytes::OfThread(), before);
}

}  // namespace
}  // namespace dfly
