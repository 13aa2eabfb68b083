// SPDX-License-Identifier: Apache-2.0
// Connections: what their buffers hold, what they may, and what they tell of it.
#include "facade/connection_test_util.h"

namespace dfly {
namespace {

class ConnectionMemoryTest : public ConnectionTest {};

INSTANTIATE_TEST_SUITE_P(Engines, ConnectionMemoryTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "epoll" : "io_uring"; });

TEST(BufferPoolTest, WhatNobodyUsesGoesByHalves) {
  BufferPool pool;
  for (size_t i = 1; i <= 5; ++i) {
    helio::IoBuf buffer;
    buffer.Reserve(i * 4000);
    pool.TakeBack(&buffer);
  }
  const size_t all = pool.bytes();
  EXPECT_GE(all, 60'000u);
  pool.Halve();
  EXPECT_GE(pool.bytes(), 4000u * (4 + 5)) << "those that came last stay";
  EXPECT_LT(pool.bytes(), all);
  helio::IoBuf lent;
  pool.Lend(&lent);
  EXPECT_GE(lent.capacity(), 20'000u);
  pool.Halve();
  EXPECT_EQ(pool.bytes(), 0u);
  pool.Halve();
  pool.TakeBack(&lent);
  EXPECT_GE(pool.bytes(), 20'000u);
  pool.Drop();
  EXPECT_EQ(pool.bytes(), 0u);
}

TEST_P(ConnectionMemoryTest, AnArgumentOf100MegabytesArrivesInPieces) {
  const int fd = Connect();
  const std::string text(100'000'000, 'z');
  std::thread writer([&] { Send(fd, Request({"echo", text})); });
  const std::string got = Receive(fd, Bulk(text).size());
  writer.join();
  EXPECT_TRUE(got == Bulk(text));
  ExpectExchange(fd, Request({"echo", "on"}), Bulk("on"));
  EXPECT_TRUE(WaitUntil([&] { return connection_->memory_used() < 4096; }));
}

TEST_P(ConnectionMemoryTest, ACommandThatNeverEndsIsCutOffAtTheInputLimit) {
  buffers_.bounds.input_max = 1'000'000;
  const int fd = Connect();
  Send(fd, "*1000000\r\n");
  const std::string arg = Bulk(std::string(1000, 'x'));
  for (int i = 0; i < 2000; ++i) Send(fd, arg);
  EXPECT_TRUE(IsClosed(fd));
  EXPECT_EQ(sink_->large_inputs, 1u);
}

TEST_P(ConnectionMemoryTest, TellsOfMemoryForInputBeforeTheLastPieceCompletesItsCommand) {
  buffers_.bounds.input_watch = 1'000'000;
  const int fd = Connect();
  const std::string small(400'000, 's');
  ExpectExchange(fd, Request({"echo", small}), Bulk(small));
  EXPECT_EQ(sink_->heavy_inputs, 0u);
  const std::string large(1'000'100, 'l');
  ExpectExchange(fd, Request({"echo", large}), Bulk(large));
  EXPECT_GT(sink_->heavy_inputs, 0u);
  sink_->closes_heavy_inputs = true;
  const uint64_t commands = sink_->commands;
  Send(fd, Request({"echo", large}));
  EXPECT_TRUE(IsClosed(fd));
  EXPECT_EQ(sink_->commands, commands);
}

TEST_P(ConnectionMemoryTest, TellsOfMuchThatIsUnsentBeforeItIsSent) {
  buffers_.bounds.output_watch = 100'000;
  const int fd = Connect();
  const std::string small(90'000, 'b');
  ExpectExchange(fd, Request({"big", "90000"}), Bulk(small));
  EXPECT_EQ(sink_->large_outputs, 0u);
  const std::string large(110'000, 'b');
  ExpectExchange(fd, Request({"big", "110000"}), Bulk(large));
  EXPECT_GT(sink_->large_outputs, 0u);
  // In pieces it is as much.
  sink_->closes_large_outputs = true;
  Send(fd, Request({"big", "60000"}) + Request({"big", "60000"}));
  EXPECT_TRUE(IsClosed(fd));
}

TEST_P(ConnectionMemoryTest, ClientsWithoutAPasswordAreWatchedClosely) {
  const int fd = Connect();
  ExpectExchange(fd, Request({"big", "20000"}), Bulk(std::string(20'000, 'b')));
  EXPECT_EQ(sink_->large_outputs, 0u);
  OnLoop([&] { connection_->SetAuthenticated(false); });
  ExpectExchange(fd, Request({"big", "10000"}), Bulk(std::string(10'000, 'b')));
  EXPECT_EQ(sink_->large_outputs, 0u);
  ExpectExchange(fd, Request({"big", "20000"}), Bulk(std::string(20'000, 'b')));
  EXPECT_GT(sink_->large_outputs, 0u);
}

TEST_P(ConnectionMemoryTest, EmptyCommandsAreSkippedAndKeepNoMemory) {
  const int fd = Connect();
  for (int i = 0; i < 5; ++i) Send(fd, "\r\n\r\n*0\r\n*-1\r\n\n");
  Send(fd, "\r");
  ExpectExchange(fd, "\n" + Request({"echo", "a"}), Bulk("a"));
  EXPECT_TRUE(WaitUntil([&] { return connection_->memory_used() < 4096; }));
}

TEST_P(ConnectionMemoryTest, AnIdleConnectionOwnsNoBuffers) {
  const int fd = Connect();
  std::string requests, replies;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = std::to_string(i);
    requests += Request({i % 3 == 0 ? "note" : "echo", text}) + Request({"remote", "2", text});
    replies += Bulk(text) + Bulk(text);
  }
  ExpectExchange(fd, requests, replies);
  EXPECT_TRUE(WaitUntil([&] { return connection_->memory_used() < 2048; }))
      << connection_->memory_used();
  EXPECT_GT(OnLoop([&] { return buffers_.bytes(); }), 0u);
}

TEST_P(ConnectionMemoryTest, ACommandWithoutAReplyLeavesNoBuffersBehind) {
  const int fd = Connect();
  ExpectExchange(fd, Request({"echo", "a"}), Bulk("a"));  // the pool has a buffer now
  const std::string request = Request({"drop", std::string(1'000'000, 'x')});
  Send(fd, request);
  Send(fd, Request({"drop", "small"}));
  EXPECT_TRUE(WaitUntil([&] { return sink_->commands == 3; }));
  EXPECT_TRUE(WaitUntil([&] { return connection_->memory_used() < 2048; }))
      << connection_->memory_used();
}

}  // namespace
}  // namespace dfly
