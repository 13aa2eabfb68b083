// SPDX-License-Identifier: Apache-2.0
#include "server/base/line_writer.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace dfly {
namespace {

class LineWriterTest : public testing::Test {
 protected:
  LineWriterTest() {
    char name[] = "/tmp/line_writer_XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~LineWriterTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/lines"; }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  template <typename Condition>
  static void Await(Condition condition) {
    while (!condition()) std::this_thread::yield();
  }

  std::string folder_;
};

TEST_F(LineWriterTest, WritesTheLinesOfAllThreads) {
  constexpr int kThreads = 4;
  constexpr int kLines = 1000;
  {
    LineWriter writer(path(), 1 << 20, "test");
    ASSERT_EQ(writer.Open(), "");
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&writer] {
        for (int line = 0; line < kLines; ++line) writer.Write("a line");
      });
    }
    for (std::thread& thread : threads) thread.join();
    Await([&] { return writer.written() == kThreads * kLines; });
    EXPECT_EQ(writer.dropped(), 0u);
    EXPECT_TRUE(writer.is_ok());
  }
  std::ifstream file(path());
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) EXPECT_EQ(line, "a line");
  EXPECT_EQ(count, kThreads * kLines);
}

TEST_F(LineWriterTest, TheEndWritesWhatWaits) {
  {
    LineWriter writer(path(), 1 << 20, "test");
    ASSERT_EQ(writer.Open(), "");
    writer.Write("last");
  }
  EXPECT_EQ(Read(path()), "last\n");
}

TEST_F(LineWriterTest, ABadPathIsTold) {
  LineWriter writer(folder_ + "/no/file", 1024, "test");
  EXPECT_EQ(writer.Open(), "cannot open " + folder_ + "/no/file: No such file or directory");
}

TEST_F(LineWriterTest, WhatDoesNotFitIsDroppedAndCounted) {
  LineWriter writer(path(), 16, "test");
  ASSERT_EQ(writer.Open(), "");
  writer.Write(std::string(16, 'x'));
  EXPECT_EQ(writer.dropped(), 1u);
  writer.Write(std::string(15, 'y'));
  Await([&] { return writer.written() == 1; });
}

TEST_F(LineWriterTest, AFullDiskDropsLines) {
  LineWriter writer("/dev/full", 1024, "test");
  ASSERT_EQ(writer.Open(), "");
  writer.Write("one");
  Await([&] { return writer.dropped() == 1; });
  Await([&] { return !writer.is_ok(); });
  EXPECT_EQ(writer.written(), 0u);
}

TEST_F(LineWriterTest, ReopenMakesANewFile) {
  LineWriter writer(path(), 1024, "test");
  ASSERT_EQ(writer.Open(), "");
  writer.Write("old");
  Await([&] { return writer.written() == 1; });
  std::filesystem::rename(path(), path() + ".1");
  writer.Reopen();
  Await([&] { return std::filesystem::exists(path()); });
  writer.Write("new");
  Await([&] { return writer.written() == 2; });
  EXPECT_EQ(Read(path() + ".1"), "old\n");
  EXPECT_EQ(Read(path()), "new\n");
}

}  // namespace
}  // namespace dfly
