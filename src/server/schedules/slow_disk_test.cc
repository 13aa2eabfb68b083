// SPDX-License-Identifier: Apache-2.0
// A disk that takes nothing while a snapshot is made: who writes has to wait, who reads has not,
// and the snapshot keeps no more in memory than it may. What it keeps counts for maxmemory.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "facade/replies/error_texts.h"
#include "helio/fibers/fiber.h"
#include "server/all_parts.h"
#include "server/care/memory_use.h"
#include "server/persistence/append_log.h"
#include "server/persistence/persistence.h"
#include "server/run/server.h"
#include "server/schedules/schedule_harness.h"
#include "storage/memory_files.h"

namespace dfly {
namespace {

constexpr int kKeys = 20'000;
constexpr size_t kValueBytes = 200;
constexpr uint64_t kBufferLimit = 100'000;

class Client {
 public:
  explicit Client(Server* server) {
    int fds[2];
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    fd_ = fds[0];
    server->OnAccept(fds[1]);
  }
  ~Client() { close(fd_); }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // Until so many bytes are there.
  std::string Receive(size_t bytes) {
    std::string out;
    char buffer[16384];
    while (out.size() < bytes) {
      const ssize_t got = read(fd_, buffer, std::min(sizeof(buffer), bytes - out.size()));
      if (got <= 0) return out + "(closed)";
      out.append(buffer, static_cast<size_t>(got));
    }
    return out;
  }
  size_t Waiting() {
    char buffer[1 << 18];
    const ssize_t got = recv(fd_, buffer, sizeof(buffer), MSG_PEEK | MSG_DONTWAIT);
    return got <= 0 ? 0 : static_cast<size_t>(got);
  }
  std::string Call(const std::vector<std::string>& args, size_t reply_bytes) {
    Send(Request(args));
    return Receive(reply_bytes);
  }

 private:
  int fd_;
};

std::string SetAll(char fill, size_t value_bytes = kValueBytes) {
  std::string requests;
  for (int i = 0; i < kKeys; ++i) {
    requests += Request({"SET", fmt::format("key:{}", i), std::string(value_bytes, fill)});
  }
  return requests;
}

// After so many calls it takes nothing, until it goes on.
struct StuckDisk {
  StuckDisk() {
    files.pause = [this] {
      if (calls_before_it_sticks.fetch_sub(1) > 0) return;
      while (sticks) helio::this_fiber::SleepForMillis(1);
    };
  }

  MemoryFiles files;
  std::atomic<int> calls_before_it_sticks{INT_MAX};
  std::atomic<bool> sticks{true};
};

ServerOptions OptionsFor(StuckDisk& disk, const std::string& dbfilename, uint64_t buffer_limit) {
  ServerOptions options = TestOptions();
  options.threads = 2;
  options.num_shards = 2;
  options.snapshot_buffer_limit = buffer_limit;
  options.persistence.files = &disk.files;
  options.persistence.dbfilename = dbfilename;
  options.persistence.compresses_strings = false;
  return options;
}

class SlowDiskTest : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Formats, SlowDiskTest, testing::Values("dump", "dump.rdb"),
                         [](const auto& info) { return info.param == "dump" ? "dfs" : "rdb"; });

TEST_P(SlowDiskTest, WritersWaitAndReadersDoNot) {
  StuckDisk disk;
  const ServerOptions options = OptionsFor(disk, GetParam(), kBufferLimit);
  Server server(options, AllParts());
  ASSERT_EQ(server.Start(), "");
  {
    Client writer(&server);
    Client reader(&server);
    constexpr size_t kReplies = kKeys * 5;
    std::thread first([&] { writer.Send(SetAll('a')); });
    EXPECT_EQ(writer.Receive(kReplies).size(), kReplies);
    first.join();

    // The files are made, and then nothing is taken.
    disk.calls_before_it_sticks = GetParam() == "dump" ? 2 : 1;
    const std::string started = "+Background saving started\r\n";
    EXPECT_EQ(reader.Call({"BGSAVE"}, started.size()), started);
    std::thread second([&] { writer.Send(SetAll('b')); });
    while (server.state().settings.write_holds == 0) std::this_thread::yield();
    EXPECT_EQ(reader.Call({"PING"}, 7), "+PONG\r\n");
    EXPECT_EQ(reader.Call({"EXISTS", "key:1"}, 4), ":1\r\n");
    EXPECT_LT(writer.Waiting(), kReplies);
    disk.sticks = false;
    EXPECT_EQ(writer.Receive(kReplies).size(), kReplies);
    second.join();

    PersistenceFacts facts;
    do {
      server.state().pool.at(0)->Await([&] { facts = server.persistence().Facts(); });
    } while (facts.is_saving);
    EXPECT_EQ(facts.last_error, "");
    EXPECT_EQ(facts.last_keys, static_cast<uint64_t>(kKeys));
    // What was on its way when they were told to wait is in it, too: a connection reads so much,
    // and on a busy machine the other thread has batches that it has not run yet.
    EXPECT_LT(facts.last_shards.buffered_bytes_max, kKeys * kValueBytes / 2);
    EXPECT_EQ(server.state().settings.write_holds, 0u);
  }
  server.Stop();
}

// The append-only log, which the disk does not take for a while.
class SlowLogDiskTest : public testing::TestWithParam<LogPolicy> {
 protected:
  static ServerOptions LogOptionsFor(StuckDisk& disk) {
    ServerOptions options = OptionsFor(disk, "dump", 0);
    options.log.is_on = true;
    options.log.policy = GetParam();
    options.log.buffer_limit = kBufferLimit;
    options.log.directory_name = "log";
    options.log.file_name = "a";
    return options;
  }
  // Starts it with a log that has a base.
  static void Begin(Server& server) {
    std::atomic<bool> is_loaded{false};
    server.Load([&is_loaded](const std::string& error) {
      EXPECT_EQ(error, "");
      is_loaded = true;
    });
    while (!is_loaded || Facts(server).is_rewriting) std::this_thread::yield();
  }
  static AppendLogFacts Facts(Server& server) {
    return server.state().pool.at(0)->Await([&server] { return server.append_log().Facts(); });
  }
  static uint64_t Held(Server& server) {
    std::atomic<uint64_t> held{0};
    AwaitOnAll<WorkerState>(server.state(),
                            [&held](WorkerState& worker) { held += worker.stats.writes_held; });
    return held;
  }
};

INSTANTIATE_TEST_SUITE_P(Policies, SlowLogDiskTest,
                         testing::Values(LogPolicy::kAlways, LogPolicy::kEverySec, LogPolicy::kNo),
                         [](const auto& info) {
                           return info.param == LogPolicy::kAlways     ? "always"
                                  : info.param == LogPolicy::kEverySec ? "everysec"
                                                                       : "no";
                         });

TEST_P(SlowLogDiskTest, WritersWaitAndReadersDoNot) {
  StuckDisk disk;
  Server server(LogOptionsFor(disk), AllParts());
  ASSERT_EQ(server.Start(), "");
  Begin(server);
  {
    Client writer(&server);
    Client reader(&server);
    EXPECT_EQ(Held(server), 0u);
    disk.calls_before_it_sticks = 0;
    std::thread thread([&] { writer.Send(SetAll('a')); });
    while (server.state().settings.write_holds == 0) std::this_thread::yield();
    EXPECT_EQ(reader.Call({"PING"}, 7), "+PONG\r\n");
    EXPECT_EQ(reader.Call({"EXISTS", "none"}, 4), ":0\r\n");
    EXPECT_TRUE(Facts(server).is_behind);
    while (Held(server) == 0) std::this_thread::yield();
    // What was on its way when they were told to wait: a connection reads so much.
    const AppendLogFacts facts = Facts(server);
    EXPECT_LT(facts.waiting_bytes + facts.unsynced_bytes, kKeys * kValueBytes / 2);
    disk.sticks = false;
    EXPECT_EQ(writer.Receive(kKeys * 5).size(), size_t{kKeys * 5});
    thread.join();
    while (Facts(server).is_behind) std::this_thread::yield();
    EXPECT_EQ(server.state().settings.write_holds, 0u);
  }
  server.Stop();
}

TEST_P(SlowLogDiskTest, WhoWaitsIsToldWhenTheDiskFails) {
  StuckDisk disk;
  Server server(LogOptionsFor(disk), AllParts());
  ASSERT_EQ(server.Start(), "");
  Begin(server);
  {
    Client writer(&server);
    disk.calls_before_it_sticks = 0;
    std::thread thread([&] { writer.Send(SetAll('a')); });
    while (Held(server) == 0) std::this_thread::yield();
    // Errors for some seconds. With kAlways replies of what is stored wait for the end of them.
    disk.files.calls_left = 0;
    disk.files.calls_failing = GetParam() == LogPolicy::kAlways ? 6 : 30;
    disk.sticks = false;
    int stored = 0, refused = 0;
    for (int i = 0; i < kKeys; ++i) {
      std::string reply;
      while (!reply.ends_with("\n")) reply += writer.Receive(1);
      if (reply == "+OK\r\n") {
        ++stored;
      } else {
        EXPECT_EQ(reply.substr(0, 40), "-MISCONF Errors writing to the AOF file:");
        ++refused;
      }
    }
    EXPECT_GT(refused, 0);
    thread.join();
    EXPECT_GT(stored, 0);
    EXPECT_EQ(server.state().settings.write_holds, 0u);
  }
  server.Stop();
}

// It is a rewrite of the log that is about to be there, not of none: the log would have no base of
// its own then, and get nothing of what is written.
TEST(LogThatBeginsTest, ARewriteMeanwhileIsItsOwn) {
  StuckDisk disk;
  ServerOptions options = OptionsFor(disk, "dump", 0);
  options.log.directory_name = "log";
  options.log.file_name = "a";
  Server server(options, AllParts());
  ASSERT_EQ(server.Start(), "");
  const auto is_busy = [&server] {
    return server.state().pool.at(0)->Await([&server] {
      const AppendLog& log = server.append_log();
      return log.is_changing() || log.Facts().is_rewriting || log.Facts().waiting_bytes > 0;
    });
  };
  {
    Client switcher(&server);
    Client other(&server);
    disk.calls_before_it_sticks = 0;
    switcher.Send(Request({"CONFIG", "SET", "appendonly", "yes"}));
    while (disk.calls_before_it_sticks >= 0) std::this_thread::yield();
    const std::string started = "+Background append only file rewriting started\r\n";
    EXPECT_EQ(other.Call({"BGREWRITEAOF"}, started.size()), started);
    disk.sticks = false;
    EXPECT_EQ(switcher.Receive(5), "+OK\r\n");
    while (is_busy()) std::this_thread::yield();
    EXPECT_EQ(other.Call({"SET", "written-later", "x"}, 5), "+OK\r\n");
    while (is_busy()) std::this_thread::yield();
  }
  server.Stop();
  std::string log;
  for (const auto& [path, content] : disk.files.files) {
    if (path.find(".incr.") != std::string::npos) log += content;
  }
  EXPECT_NE(log.find("written-later"), std::string::npos);
}

// Replies of SetAll, each either of them.
struct Replies {
  int stored = 0;
  int refused = 0;
};
Replies ReceiveAll(Client& client) {
  const std::string oom = fmt::format("-{}\r\n", kErrOutOfMemory);
  Replies replies;
  for (int i = 0; i < kKeys; ++i) {
    if (client.Receive(1) == "+") {
      EXPECT_EQ(client.Receive(4), "OK\r\n");
      ++replies.stored;
    } else {
      EXPECT_EQ(client.Receive(oom.size() - 1), oom.substr(1));
      ++replies.refused;
    }
  }
  return replies;
}

// Writers are not told to wait, so there is no other bound for what is kept.
class SnapshotNearLimitTest : public testing::TestWithParam<EvictionPolicy> {};

INSTANTIATE_TEST_SUITE_P(Policies, SnapshotNearLimitTest,
                         testing::Values(EvictionPolicy::kNone, EvictionPolicy::kAllKeysLru),
                         [](const auto& info) {
                           return info.param == EvictionPolicy::kNone ? "noeviction" : "lru";
                         });

TEST_P(SnapshotNearLimitTest, WhatIsKeptForTheDiskCounts) {
  constexpr size_t kLarge = 2000;     // bytes of a value: files have buffers of their own
  constexpr int64_t kRoom = 8 << 20;  // of the 40 MB that all old values are
  StuckDisk disk;
  ServerOptions options = OptionsFor(disk, "dump", 0);
  options.persistence.codec = FrameCodec::kNone;
  Server server(options, AllParts());
  ASSERT_EQ(server.Start(), "");
  const auto snapshot_bytes = [&server] {
    std::atomic<uint64_t> bytes{0};
    AwaitOnAll<MemoryUse>(server.state(), [&bytes](MemoryUse& memory) {
      memory.Settle();
      bytes += memory.Sum().snapshot;
    });
    return static_cast<int64_t>(bytes);
  };
  const auto shards_cut = [&server] {
    std::atomic<int> count{0};
    AwaitOnAll<WorkerState>(server.state(), [&count](WorkerState& worker) {
      worker.ForEachShard([&count](Shard& shard) { count += shard.is_being_cut(); });
    });
    return count.load();
  };
  const auto facts = [&server] {
    return server.state().pool.at(0)->Await([&server] { return server.persistence().Facts(); });
  };
  {
    Client writer(&server);
    Client other(&server);
    std::thread first([&] { writer.Send(SetAll('a', kLarge)); });
    EXPECT_EQ(ReceiveAll(writer).stored, kKeys);
    first.join();
    disk.calls_before_it_sticks = 2;
    const std::string started = "+Background saving started\r\n";
    EXPECT_EQ(other.Call({"BGSAVE"}, started.size()), started);
    while (disk.calls_before_it_sticks > 0 || shards_cut() < 2) std::this_thread::yield();
    EvictionSettings eviction = server.state().options.eviction;
    eviction.rules.policy = GetParam();
    server.SetEviction(eviction);
    EXPECT_LT(snapshot_bytes(), kRoom);
    const int64_t before = server.state().memory.used();
    server.state().settings.maxmemory = static_cast<uint64_t>(before + kRoom);

    std::thread second([&] { writer.Send(SetAll('b', kLarge)); });
    const Replies replies = ReceiveAll(writer);
    second.join();
    const int64_t kept = snapshot_bytes();
    EXPECT_GT(kept, kRoom / 2);
    EXPECT_GT(replies.stored, 0);
    EXPECT_GT(replies.refused, 0);
    // Of 40 MB: the room, what batches on their way add, and room of buffers that grow by doubling.
    EXPECT_LT(server.state().memory.used(), before + 4 * kRoom);
    EXPECT_TRUE(facts().is_saving);
    // Eviction would only move keys to where the disk's bytes wait.
    EXPECT_EQ(other.Call({"DBSIZE"}, 8), fmt::format(":{}\r\n", kKeys));

    disk.sticks = false;
    while (facts().is_saving) std::this_thread::yield();
    EXPECT_EQ(facts().last_error, "");
    EXPECT_EQ(facts().last_keys, static_cast<uint64_t>(kKeys));  // of the cut, whatever went since
    EXPECT_EQ(snapshot_bytes(), 0);
    EXPECT_EQ(other.Call({"SET", "another", "x"}, 5), "+OK\r\n");  // there is room again
  }
  server.Stop();
}

}  // namespace
}  // namespace dfly
