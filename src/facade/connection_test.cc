// SPDX-License-Identifier: Apache-2.0
// Connections: order of replies, what runs and what waits, and their ends.
#include "facade/connection_test_util.h"

namespace dfly {
namespace {

INSTANTIATE_TEST_SUITE_P(Engines, ConnectionTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "epoll" : "io_uring"; });

// A random command and its reply.
std::pair<std::string, std::string> RandomCommand(Random* random, int number) {
  if (random->OneIn(1000)) {
    const size_t large = 1 + random->Uniform(3'000'000);
    return {Request({"big", std::to_string(large)}), Bulk(std::string(large, 'b'))};
  }
  size_t size = random->OneIn(20) ? random->Uniform(5000) : 0;
  const uint64_t kind = random->Uniform(11);
  const bool is_line = kind == 2 || kind == 9;
  if (!is_line && random->OneIn(200)) size = random->Uniform(400'000);
  std::string text = std::to_string(number);
  text.append(size, static_cast<char>('a' + number % 26));
  switch (kind) {
    case 10:
      return {Request({"rest", text}), Bulk(text)};
    case 0:
    case 1:
      return {Request({"note", text}), Bulk(text)};
    case 2:
      return {"note " + text + "\r\n", Bulk(text)};
    case 3:
    case 4:
    case 5:
      return {Request({"remote", std::to_string(random->Uniform(4)), text}), Bulk(text)};
    case 6:
      return {Request({"barrier", text}), Bulk(text)};
    case 7:
      return {Request({"busy", text}), Bulk(text)};
    case 8:
      return {"\r\n*0\r\n" + Request({"echo", text}), Bulk(text)};
    default:
      return {"note \"" + text + "\"\r\n", Bulk(text)};
  }
}

TEST_P(ConnectionTest, TheSinkHearsWhenWhatItWatchesIsSent) {
  const int fd = Connect();
  ExpectExchange(fd, Request({"echo", "a"}), Bulk("a"));
  EXPECT_EQ(sink_->watched_sent, 0u);
  ExpectExchange(fd, Request({"watch", "b"}), Bulk("b"));
  EXPECT_TRUE(WaitUntil([&] { return sink_->watched_sent == 1; }));
  ExpectExchange(fd, Request({"echo", "c"}), Bulk("c"));
  EXPECT_EQ(sink_->watched_sent, 1u) << "once for each time it has asked";
  // Two of one iteration are sent together.
  ExpectExchange(fd, Request({"watch", "d"}) + Request({"watch", "e"}), Bulk("d") + Bulk("e"));
  EXPECT_TRUE(WaitUntil([&] { return sink_->watched_sent == 2; }));
  // Without a reply there is nothing to wait for.
  OnLoop([&] { connection_->WatchSend(), connection_->FlushSoon(); });
  EXPECT_TRUE(WaitUntil([&] { return sink_->watched_sent == 3; }));
}

TEST_P(ConnectionTest, WhatIsWatchedIsNotSentBeforeASlowReaderHasRead) {
  const int fd = Connect();
  constexpr size_t kBytes = 8 << 20;
  Send(fd, Request({"big", std::to_string(kBytes)}) + Request({"watch", "x"}));
  EXPECT_TRUE(WaitUntil([&] { return sink_->commands == 2; }));
  EXPECT_GT(OnLoop([&] { return connection_->unsent_bytes(); }), 0u);
  EXPECT_EQ(sink_->watched_sent, 0u);
  const size_t header = Bulk(std::string(kBytes, 'b')).size();
  EXPECT_EQ(Receive(fd, header + Bulk("x").size()).size(), header + Bulk("x").size());
  EXPECT_TRUE(WaitUntil([&] { return sink_->watched_sent == 1; }));
}

TEST_P(ConnectionTest, WhatWaitsBehindABatchIsWatchedUntilThatIsSentToo) {
  OnLoop([&] { sink_->paused_remotes = true; });
  const int fd = Connect();
  Send(fd, Request({"remote", "1", "r"}) + Request({"watch", "x"}));
  EXPECT_TRUE(WaitUntil([&] { return sink_->commands == 2; }));
  EXPECT_EQ(sink_->watched_sent, 0u);
  OnLoop([&] {
    sink_->paused_remotes = false;
    sink_->StartCompleter();
  });
  EXPECT_EQ(Receive(fd, Bulk("r").size() + Bulk("x").size()), Bulk("r") + Bulk("x"));
  EXPECT_TRUE(WaitUntil([&] { return sink_->watched_sent == 1; }));
}

TEST_P(ConnectionTest, EachCommandGetsItsReplyInOrderWhateverTheSplits) {
  Random random(helio::TestSeed());
  limits_.slots_max = 20;
  limits_.recv_bytes_max = 4000;
  for (int round = 0; round < 30; ++round) {
    std::string requests, replies;
    const int count = 1 + static_cast<int>(random.Uniform(400));
    for (int i = 0; i < count; ++i) {
      const auto [request, reply] = RandomCommand(&random, i);
      requests += request;
      replies += reply;
    }
    const bool quits = random.OneIn(3);
    if (quits) {
      requests += Request({"quit", "bye"}) + Request({"echo", "never"});
      replies += Bulk("bye");
    }
    const int fd = Connect();
    std::thread writer([&, split_seed = random.Next()] {
      Random splits(split_seed);
      const size_t most = splits.OneIn(4) ? 5 : 3000;
      std::string_view rest = requests;
      while (!rest.empty()) {
        const size_t bytes = std::min<size_t>(rest.size(), 1 + splits.Uniform(most));
        Send(fd, rest.substr(0, bytes));
        rest.remove_prefix(bytes);
        if (splits.OneIn(4)) std::this_thread::yield();
      }
      if (!quits) shutdown(fd, SHUT_WR);
    });
    const std::string got = ReceiveAll(fd);
    writer.join();
    ASSERT_EQ(got, replies) << "round " << round;
  }
  EXPECT_TRUE(WaitUntil([&] { return sink_->alive == 0; }));
}

// It leaves in pieces, and what is written meanwhile behind it.
TEST_P(ConnectionTest, SmallRepliesFollowALargeOne) {
  const int fd = Connect();
  constexpr size_t kBytes = 3 << 20;
  const std::string large = Bulk(std::string(kBytes, 'b'));
  for (int round = 0; round < 100; ++round) {
    const std::string text = std::to_string(round);
    Send(fd, Request({"big", std::to_string(kBytes)}));
    std::string got = Receive(fd, large.size() * (round % 5) / 4);
    Send(fd, Request({round % 2 == 0 ? "busy" : "echo", text}));
    got += Receive(fd, large.size() + Bulk(text).size() - got.size());
    ASSERT_TRUE(got == large + Bulk(text)) << round;
  }
}

// They go past the input, and are a part of it all the same.
TEST_P(ConnectionTest, LargeArgumentsCountAsInput) {
  const int fd = Connect();
  constexpr size_t kBytes = 8 << 20;
  const std::string text(kBytes, 'x');
  const std::string request = Request({"echo", text});
  for (const size_t sent : {size_t{20'000}, size_t{200'000}, kBytes / 2, request.size() - 2}) {
    const size_t before = OnLoop([&] { return connection_->input_bytes(); });
    Send(fd, std::string_view(request).substr(before, sent - before));
    EXPECT_TRUE(WaitUntil([&] { return connection_->input_bytes() == sent; }));
    EXPECT_GE(OnLoop([&] { return connection_->memory_used(); }), sent);
  }
  Send(fd, "\r\n");
  EXPECT_TRUE(Receive(fd, Bulk(text).size()) == Bulk(text));
  EXPECT_EQ(OnLoop([&] { return connection_->input_bytes(); }), 0u);

  OnLoop([&] { buffers_.bounds.input_max = 1 << 20; });
  Send(fd, std::string_view(request).substr(0, 2 << 20));
  EXPECT_EQ(ReceiveAll(fd), "");
  EXPECT_EQ(sink_->large_inputs, 1u);
}

TEST_P(ConnectionTest, AnUnfinishedLargeArgumentGoesWithItsClient) {
  const std::string request = Request({"echo", std::string(1 << 20, 'x')});
  for (const size_t sent : {size_t{30'000}, size_t{500'000}}) {
    const int fd = Connect();
    Send(fd, std::string_view(request).substr(0, sent));
    EXPECT_TRUE(WaitUntil([&] { return connection_->input_bytes() == sent; }));
    sent > 100'000 ? OnLoop([&] { connection_->CloseNow(); })
                   : static_cast<void>(shutdown(fd, SHUT_WR));
    EXPECT_TRUE(WaitUntil([&] { return sink_->alive == 0; }));
  }
}

TEST_P(ConnectionTest, CommandsAfterAHalfCloseAreAnsweredAndThenItIsClosed) {
  const int fd = Connect();
  Send(fd, Request({"remote", "1", "a"}) + Request({"busy", "b"}) + Request({"echo", "c"}) +
               "*2\r\n$4\r\necho\r\n$10\r\nhalf");
  shutdown(fd, SHUT_WR);
  EXPECT_EQ(ReceiveAll(fd), Bulk("a") + Bulk("b") + Bulk("c"));
}

// The commands and the end come in one iteration of the loop.
TEST_P(ConnectionTest, ADeferredCommandIsAnsweredThoughTheClientHasShutDown) {
  for (int i = 0; i < 20; ++i) {
    const int fd = Connect();
    OnLoop([&] {  // nothing is received meanwhile
      Send(fd, Request({"note", "last"}));
      shutdown(fd, SHUT_WR);
    });
    ASSERT_EQ(ReceiveAll(fd), Bulk("last"));
  }
}

TEST_P(ConnectionTest, ADeferredCommandIsAnsweredThoughItIsTheLastOfAnInputThatHasEnded) {
  OnLoop([&] { sink_->late = true; });
  const int fd = Connect();
  ExpectExchange(fd, Request({"hold", "held"}), Bulk("held"));
  Send(fd, Request({"note", "last"}));
  shutdown(fd, SHUT_WR);
  ASSERT_TRUE(WaitUntil([&] { return connection_->input_bytes() > 0; }));
  // Outside of the loop's stages, which would run it at once.
  pool_->at(0)->AwaitFiber("release", [&] { connection_->set_held(false); });
  EXPECT_EQ(ReceiveAll(fd), Bulk("last"));
}

TEST_P(ConnectionTest, ACommandAfterABusyOneIsAnsweredWithoutFurtherInput) {
  const int fd = Connect();
  for (int i = 0; i < 20; ++i) {
    ExpectExchange(fd, Request({"busy", "a"}) + Request({"note", "b"}), Bulk("a") + Bulk("b"));
  }
}

TEST_P(ConnectionTest, TheInputGoesWithACommandOfManyArgumentsAndWhatFollowsItStays) {
  const int fd = Connect();
  for (int i = 0; i < 30; ++i) {
    std::vector<std::string> many = {"busy"};
    for (int n = 0; n < 500 * i; ++n) many.push_back("argument " + std::to_string(n));
    many.push_back("the last of " + std::to_string(i));
    const std::string before = i % 2 == 0 ? "" : Request({"echo", "before"});
    const std::string few = Request({"busy", std::string(100, 'x'), "of few"});
    const std::string replies = (before.empty() ? "" : Bulk("before")) + Bulk(many.back()) +
                                Bulk("after") + Bulk("of few") + Bulk(many.back());
    ExpectExchange(fd, before + Request(many) + Request({"note", "after"}) + few + Request(many),
                   replies);
  }
  // What has arrived at once, and was never input, has nobody to take it from.
  EXPECT_GT(sink_->inputs_taken, 10);
}

TEST_P(ConnectionTest, AResetWithRepliesUnderWayAbandonsThemAndLeaksNothing) {
  Random random(helio::TestSeed());
  for (int i = 0; i < 100; ++i) {
    const int fd = Connect();
    OnLoop([&] { sink_->paused_remotes = random.OneIn(2); });
    std::string requests;
    for (int n = 0; n < 30; ++n) requests += RandomCommand(&random, n).first;
    Send(fd, requests.substr(0, random.Uniform(requests.size())));
    if (random.OneIn(2)) Readable(fd, 1);
    close(fd);
    fds_.pop_back();
  }
  OnLoop([&] {
    sink_->paused_remotes = false;
    sink_->StartCompleter();
  });
  EXPECT_TRUE(WaitUntil([&] { return sink_->alive == 0 && sink_->batches_alive == 0; }));
}

TEST_P(ConnectionTest, AProtocolErrorIsToldAfterTheRepliesToWhatCameBefore) {
  const std::string error = "-ERR Protocol error: invalid multibulk length\r\n";
  for (const std::string& before :
       {Request({"echo", "a"}), Request({"note", "a"}), Request({"remote", "1", "a"}),
        Request({"busy", "a"}), Request({"note", "x"}) + Request({"note", "a"})}) {
    const int fd = Connect();
    Send(fd, before + "*x\r\n" + Request({"echo", "never"}));
    const std::string got = ReceiveAll(fd);
    EXPECT_EQ(got, (before.find('x') != std::string::npos ? Bulk("x") : "") + Bulk("a") + error);
  }
  EXPECT_EQ(sink_->protocol_errors, 5);
}

TEST_P(ConnectionTest, AFirstLineOfHttpMakesItHttp) {
  const auto request = [](std::string_view target) {
    return "GET " + std::string(target) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  };
  const auto response = [](std::string_view target, bool keep_alive = true) {
    return FormatHttp({.body = std::string(target)}, keep_alive);
  };
  const std::string last = "GET /last HTTP/1.0\r\n\r\n";
  const std::string requests = request("/a") + request("/busy") + request("/b") + last;
  const std::string responses =
      response("/a") + response("/busy") + response("/b") + response("/last", false);
  for (size_t step : {1, 2, 17, 1000}) {
    const int fd = Connect();
    for (size_t at = 0; at < requests.size(); at += step) Send(fd, requests.substr(at, step));
    Send(fd, request("/never"));
    EXPECT_EQ(ReceiveAll(fd), responses) << step;
  }
  // One after another.
  int fd = Connect();
  for (int i = 0; i < 3; ++i) ExpectExchange(fd, request("/busy"), response("/busy"));
  EXPECT_TRUE(WaitUntil([&] { return connection_->input_free_bytes() == 0; }));
  // The client may end its side, also in the middle.
  Send(fd, request("/busy") + "GET /half HTTP/1.1\r\n");
  shutdown(fd, SHUT_WR);
  EXPECT_EQ(ReceiveAll(fd), response("/busy"));
  // What is none ends it.
  fd = Connect();
  Send(fd, request("/a") + "*1\r\n$4\r\nPING\r\n\r\n" + request("/never"));
  EXPECT_EQ(ReceiveAll(fd), response("/a") + FormatHttp({.status = 400}, false));
  limits_.http.head_max = 1024;
  fd = Connect();
  Send(fd, "GET / HTTP/1.1\r\nA: " + std::string(2000, 'a'));
  EXPECT_EQ(ReceiveAll(fd), FormatHttp({.status = 431}, false));
  EXPECT_EQ(sink_->protocol_errors, 2);
}

TEST_P(ConnectionTest, CommandsThatLookLikeHttpAreCommands) {
  const int fd = Connect();
  // An array; a line that is not the first; another number of words.
  ExpectExchange(fd, Request({"GET", "/", "HTTP/1.1"}), Bulk("HTTP/1.1"));
  ExpectExchange(fd, "GET / HTTP/1.1\r\n", Bulk("HTTP/1.1"));
  const int other = Connect();
  ExpectExchange(other, "GET HTTP/1.1\r\n", Bulk("HTTP/1.1"));
  const int quoted = Connect();
  ExpectExchange(quoted, "GET / \"HTTP/1.1\"\r\n", Bulk("HTTP/1.1"));
}

TEST_P(ConnectionTest, QuitEndsAPipelineInTheMiddle) {
  const int fd = Connect();
  Send(fd, Request({"remote", "1", "a"}) + Request({"note", "b"}) + Request({"quit", "ok"}) +
               Request({"kill"}) + Request({"echo", "never"}));
  EXPECT_EQ(ReceiveAll(fd), Bulk("a") + Bulk("b") + Bulk("ok"));
}

TEST_P(ConnectionTest, AClientThatDoesNotReadIsNotReadFromAndGoesOnWhenItReads) {
  limits_.reply_bytes_max = 200'000;
  limits_.recv_bytes_max = 20'000;
  const int fd = Connect();
  constexpr int kCommands = 20'000;
  const std::string request = Request({"big", "1000"});
  std::thread writer([&] {
    for (int i = 0; i < kCommands; ++i) Send(fd, request);
  });
  size_t unsent_max = 0, input_max = 0;
  uint64_t before = UINT64_MAX;
  // Until a while passes in which nothing is executed.
  EXPECT_TRUE(WaitUntil([&] {
    unsent_max = std::max(unsent_max, connection_->unsent_bytes());
    input_max = std::max(input_max, connection_->input_bytes());
    helio::this_fiber::SleepForMillis(20);
    return connection_->unsent_bytes() >= limits_.reply_bytes_max &&
           std::exchange(before, sink_->commands) == sink_->commands;
  }));
  EXPECT_LT(unsent_max, 2 * limits_.reply_bytes_max);
  EXPECT_LT(input_max, limits_.recv_bytes_max + (4u << 20));  // what the kernel had handed out
  EXPECT_LT(sink_->commands, static_cast<uint64_t>(kCommands));
  const std::string reply = Bulk(std::string(1000, 'b'));
  EXPECT_EQ(Receive(fd, reply.size() * kCommands).size(), reply.size() * kCommands);
  writer.join();
  ExpectExchange(fd, Request({"echo", "on"}), Bulk("on"));
}

TEST_P(ConnectionTest, IsDeletedOnceItIsClosedAndNobodyKeepsIt) {
  const int fd = Connect();
  ExpectExchange(fd, Request({"echo", "a"}), Bulk("a"));
  OnLoop([&] { connection_->Keep(), connection_->CloseNow(); });
  ASSERT_TRUE(WaitUntil([&] { return sink_->alive == 0; }));
  EXPECT_GT(OnLoop([&] { return buffers_.client_bytes(); }), 0u);
  OnLoop([&] { connection_->WatchSend(), connection_->LetGo(); });
  EXPECT_EQ(OnLoop([&] { return buffers_.client_bytes(); }), 0u);
}

// A pipeline of commands that take a fiber each is not sent reply by reply, unless they wait for
// what others do, or the replies are long.
TEST_P(ConnectionTest, RepliesAreHeldBackForACommandThatRunsButNotForOneThatWaits) {
  OnLoop([&] { sink_->stall_busy = true; });
  auto flushes = [&] {
    pool_->at(0)->AwaitFiber("wait", [] {
      for (int i = 0; i < 10; ++i) helio::this_fiber::Yield();
    });
    return OnLoop([&] { return buffers_.traffic.sent_bytes; }) > 0;
  };
  auto is_busy = [&] { return connection_->busy(); };
  const int held = Connect();
  Send(held, Request({"echo", "a"}) + Request({"busy", "b"}));
  ASSERT_TRUE(WaitUntil(is_busy));
  EXPECT_FALSE(flushes());

  const std::string large(20'000, 'x');
  const int long_one = Connect();
  Send(long_one, Request({"echo", large}) + Request({"busy", "b"}));
  ASSERT_TRUE(WaitUntil(is_busy));
  EXPECT_EQ(Receive(long_one, Bulk(large).size()), Bulk(large));

  const int waiting = Connect();
  Send(waiting, Request({"echo", "a"}) + Request({"waits", "b"}));
  EXPECT_EQ(Receive(waiting, Bulk("a").size()), Bulk("a"));
  OnLoop([&] { sink_->stall_busy = false; });
  EXPECT_EQ(Receive(held, 2 * Bulk("a").size()), Bulk("a") + Bulk("b"));
  EXPECT_EQ(Receive(waiting, Bulk("b").size()), Bulk("b"));
}

TEST_P(ConnectionTest, InputIsBoundedWhileACommandRuns) {
  limits_.recv_bytes_max = 10'000;
  OnLoop([&] { sink_->stall_busy = true; });
  const int fd = Connect();
  const std::string request = Request({"echo", std::string(1000, 'x')});
  std::thread writer([&] {
    Send(fd, Request({"busy", "b"}));
    for (int i = 0; i < 10'000; ++i) Send(fd, request);
  });
  EXPECT_TRUE(WaitUntil([&] { return connection_->input_bytes() >= limits_.recv_bytes_max; }));
  OnLoop([] {});
  EXPECT_LT(OnLoop([&] { return connection_->input_bytes(); }),
            limits_.recv_bytes_max + (8u << 20));
  OnLoop([&] { sink_->stall_busy = false; });
  const size_t expected = Bulk("b").size() + 10'000 * Bulk(std::string(1000, 'x')).size();
  EXPECT_EQ(Receive(fd, expected).size(), expected);
  writer.join();
}

// Its end may be behind more than the kernel keeps.
TEST_P(ConnectionTest, WhoWaitsForOthersIsReadOnSoThatItsEndIsSeen) {
  limits_.recv_bytes_max = 1000;
  OnLoop([&] { sink_->stall_busy = true; });
  const int fd = Connect();
  const std::string behind = Request({"echo", std::string(20'000'000, 'x')});
  std::thread writer([&] {
    Send(fd, Request({"waits", "w"}) + behind);
    shutdown(fd, SHUT_WR);
  });
  EXPECT_TRUE(WaitUntil([&] { return sink_->peer_shutdowns == 1; }));
  writer.join();
  EXPECT_EQ(OnLoop([&] { return connection_->input_bytes(); }), behind.size());
  EXPECT_TRUE(OnLoop([&] { return connection_->waits() && connection_->recv_ended(); }));
  OnLoop([&] { connection_->CloseNow(); });
  EXPECT_EQ(ReceiveAll(fd), "");
  OnLoop([&] { sink_->stall_busy = false; });
}

// Receiving is stopped, and the end is behind what was not received.
TEST_P(ConnectionTest, TheEndOfABusyClientIsToldThoughNobodyReadsToIt) {
  limits_.recv_bytes_max = 1000;
  OnLoop([&] { sink_->stall_busy = true; });
  const int fd = Connect();
  Send(fd, Request({"busy", "b"}) + Request({"echo", std::string(5000, 'x')}));
  ASSERT_TRUE(WaitUntil([&] { return connection_->input_bytes() >= 5000; }));
  Send(fd, Request({"echo", "y"}));
  shutdown(fd, SHUT_WR);
  EXPECT_TRUE(WaitUntil([&] { return sink_->peer_shutdowns >= 1; }));
  EXPECT_TRUE(OnLoop([&] { return connection_->recv_ended(); }));
  OnLoop([&] { sink_->stall_busy = false; });
  EXPECT_EQ(ReceiveAll(fd), Bulk("b") + Bulk(std::string(5000, 'x')) + Bulk("y"));
}

// Receiving had been stopped, and a part of a command is all that was left of the input.
TEST_P(ConnectionTest, ReceivingGoesOnAfterAFullQueueThoughOnlyAPartOfACommandWaits) {
  limits_.recv_bytes_max = 1000;
  limits_.slots_max = 2;
  OnLoop([&] { sink_->stall_busy = sink_->paused_remotes = true; });
  const int fd = Connect();
  const std::string large = Request({"echo", std::string(500'000, 'x')});
  // Three noted replies behind a remote one take all slots once the input is paused.
  Send(fd, Request({"busy", "b"}) + Request({"remote", "1", "r"}) + Request({"note", "1"}) +
               Request({"note", "2"}) + large.substr(0, 4000));
  ASSERT_TRUE(WaitUntil([&] { return connection_->input_bytes() > 4000; }));
  OnLoop([&] { sink_->stall_busy = false; });
  ASSERT_TRUE(WaitUntil([&] { return connection_->replies().slots() >= 2; }));
  OnLoop([&] {
    sink_->paused_remotes = false;
    sink_->StartCompleter();
  });
  const std::string before = Bulk("b") + Bulk("r") + Bulk("1") + Bulk("2");
  ASSERT_EQ(Receive(fd, before.size()), before);
  std::thread writer([&] { Send(fd, large.substr(4000)); });
  const std::string reply = Bulk(std::string(500'000, 'x'));
  EXPECT_TRUE(Receive(fd, reply.size()) == reply);
  shutdown(fd, SHUT_RDWR);  // frees the writer if the test has failed
  writer.join();
}

TEST_P(ConnectionTest, AHeldConnectionKeepsItsInputUntilItIsReleased) {
  const int fd = Connect();
  ExpectExchange(fd, Request({"hold", "held"}) + Request({"echo", "a"}), Bulk("held"));
  Send(fd, Request({"note", "b"}));
  shutdown(fd, SHUT_WR);
  ASSERT_TRUE(WaitUntil([&] {
    return connection_->input_bytes() ==
           (Request({"echo", "a"}).size() + Request({"note", "b"}).size());
  }));
  EXPECT_FALSE(Readable(fd, 10));
  OnLoop([&] { connection_->set_held(false); });
  EXPECT_EQ(ReceiveAll(fd), Bulk("a") + Bulk("b"));
}

TEST_P(ConnectionTest, CloseNowWorksInEveryState) {
  Random random(helio::TestSeed());
  for (int i = 0; i < 150; ++i) {
    const int fd = Connect();
    std::string requests;
    for (int n = 0; n < 10; ++n) requests += RandomCommand(&random, n).first;
    if (random.OneIn(3)) requests += Request({"big", "1000000"});
    if (random.OneIn(3)) requests += Request({"kill"});
    Send(fd, requests.substr(0, random.Uniform(requests.size() + 1)));
    pool_->at(0)->AwaitFiber("close", [&, id = last_id_] {
      for (uint64_t n = random.Uniform(6); n > 0; --n) helio::this_fiber::Yield();
      while (sink_->travelling.contains(id)) helio::this_fiber::Yield();
      auto it = sink_->connections.find(id);
      if (it == sink_->connections.end()) return;
      Connection* connection = it->second;
      if (random.OneIn(3)) connection->set_held(random.OneIn(2));
      if (random.OneIn(2)) connection->CloseWhenSent();
      if (random.OneIn(2)) helio::this_fiber::Yield();
      while (sink_->travelling.contains(id)) helio::this_fiber::Yield();
      if (sink_->connections.contains(id)) connection->CloseNow();
    });
    ASSERT_TRUE(WaitUntil([&] { return sink_->alive == 0; }));
  }
}

TEST_P(ConnectionTest, CloseWhenSentSendsWhatIsUnderWayFirst) {
  for (const char* kind : {"echo", "note", "busy"}) {
    const int fd = Connect();
    OnLoop([&] { sink_->paused_remotes = true; });
    Send(fd, Request({kind, "a"}) + Request({"remote", "1", "b"}));
    ASSERT_TRUE(WaitUntil([&] { return sink_->batches_under_way() == 1; }));
    OnLoop([&] {
      connection_->CloseWhenSent();
      sink_->paused_remotes = false;
      sink_->StartCompleter();
    });
    EXPECT_EQ(ReceiveAll(fd), Bulk("a") + Bulk("b"));
  }
}

TEST_P(ConnectionTest, AConnectionThatMovesKeepsAllThatIsOnItsWay) {
  Random random(helio::TestSeed());
  const int fd = Connect();
  std::string requests, replies;
  for (int i = 0; i < 300; ++i) {
    const std::string text(random.OneIn(20) ? 100'000 : 10, static_cast<char>('a' + i % 26));
    const bool moves = random.OneIn(3);
    requests += Request({"remote", "1", text}) + Request({moves ? "rest" : "note", text});
    replies += Bulk(text) + Bulk(text);
  }
  std::thread writer([&] {
    for (std::string_view left = requests; !left.empty();) {
      const size_t size = std::min<size_t>(left.size(), 1 + random.Uniform(5000));
      Send(fd, left.substr(0, size));
      left.remove_prefix(size);
    }
    shutdown(fd, SHUT_WR);
  });
  EXPECT_TRUE(ReceiveAll(fd) == replies);
  writer.join();
  EXPECT_GT(sink_->rests, 50u);
  EXPECT_TRUE(WaitUntil([&] { return sink_->alive == 0; }));
}

TEST_P(ConnectionTest, ACommandMayCloseItsOwnConnection) {
  const int fd = Connect();
  Send(fd, Request({"remote", "1", "a"}) + Request({"kill"}) + Request({"echo", "never"}));
  EXPECT_TRUE(IsClosed(fd));
}

}  // namespace
}  // namespace dfly
