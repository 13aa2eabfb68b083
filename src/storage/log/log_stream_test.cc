// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_stream.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/journal/sections.h"
#include "helio/base/logging.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/proactor/proactor_pool.h"
#include "storage/log/log_testing.h"
#include "storage/log/log_writer.h"
#include "storage/memory_files.h"

namespace dfly {
namespace {

using Policy = LogWriter::Policy;

class LogStreamTest : public testing::Test {
 protected:
  LogStreamTest() : pool_({.threads = 1}) {
    FLAGS_minloglevel = google::GLOG_FATAL;  // much shall fail
    pool_.Start();
    Restart();
  }
  ~LogStreamTest() override { FLAGS_minloglevel = google::GLOG_INFO; }

  void InFiber(const std::function<void()>& function) {
    pool_.at(0)->AwaitFiber("test", [&] { function(); });
  }

  // There is no log.
  void Restart() {
    writer_ = nullptr;
    files_.Restart({});
    directory_ = std::make_unique<LogDirectory>(
        &files_, LogDirectory::Names{.dir = "d", .directory_name = "log", .file_name = "a"});
    number_ = 0;
    id_.clear();
    streams_.clear();
    begins_.clear();
  }

  void Open(Policy policy, const std::string& id) {
    if (writer_ == nullptr) {
      ASSERT_EQ(directory_->Open(), "");
    }
    writer_ = std::make_unique<LogWriter>(&files_, directory_.get(),
                                          LogWriter::Options{.policy = policy,
                                                             .reserve_bytes = 16'384,
                                                             .retry_period_ns = 1000,
                                                             .sync_period_ns = uint64_t{1} << 60});
    LogWriter::Start start;
    start.last_epoch = number_;
    if (!directory_->manifest().incrementals.empty()) {
      std::unique_ptr<InputFile> last;
      const std::string& name = directory_->manifest().incrementals.back().name;
      ASSERT_FALSE(files_.Open(directory_->Path(name), &last));
      LogReader reader(std::move(last));
      while (reader.Next() < LogReader::Item::kEnd) {
      }
      ASSERT_EQ(reader.error(), "");
      start.file_size = reader.whole_size();
    }
    ASSERT_FALSE(writer_->Open(start));
    Become(id);
  }
  // The stream's next byte is the first of this id, or what stands there already.
  void Become(const std::string& id) {
    if (!id.empty() && !streams_.contains(id)) begins_[id] = streams_[id_].size() + begins_[id_];
    id_ = id;
    db_ = -1;
  }

  // An epoch of the stream, as EffectStream makes it.
  void Write(helio::Random* random) {
    const int db = static_cast<int>(random->Uniform(3));
    std::string bytes;
    Epoch epoch;
    epoch.number = ++number_;
    epoch.first_db = epoch.last_db = db;
    if (db != db_) {
      bytes = SelectCommand(db);
      epoch.first_db = -1;
    }
    db_ = db;
    for (uint64_t i = random->Uniform(3) + 1; i > 0; --i) {
      for (const auto& words : testkit::RandomUnit(random)) bytes += testkit::CommandText(words);
    }
    const std::string_view piece = bytes;
    epoch.pieces = {&piece, 1};
    epoch.bytes = bytes.size();
    epoch.stream_id = id_;
    epoch.stream_offset = end();
    EXPECT_TRUE(writer_->Write(epoch));
    streams_[id_] += bytes;
  }
  uint64_t end() { return begins_[id_] + streams_[id_].size(); }

  std::unique_ptr<LogStream> NewStream() {
    return std::make_unique<LogStream>(&files_, [this] {
      std::vector<std::string> paths;
      for (const ManifestFile& file : directory_->manifest().incrementals) {
        paths.push_back(directory_->Path(file.name));
      }
      return paths;
    });
  }
  static std::string ReadAll(LogStream* stream) {
    std::string text;
    while (true) {
      const std::string_view bytes = stream->Next();
      if (bytes.empty()) return text;
      text += bytes;
    }
  }

  helio::ProactorPool pool_;
  MemoryFiles files_;
  std::unique_ptr<LogDirectory> directory_;
  std::unique_ptr<LogWriter> writer_;
  uint64_t number_ = 0;
  std::string id_;
  int db_ = -1;
  std::map<std::string, std::string> streams_;  // by id
  std::map<std::string, uint64_t> begins_;      // where they begin
};

TEST_F(LogStreamTest, ALogOfNoReplicationHasNone) {
  helio::Random random(1);
  InFiber([&] {
    Open(Policy::kAlways, "");
    Write(&random);
    const auto stream = NewStream();
    EXPECT_FALSE(stream->Seek("", 1'000'000));
    EXPECT_FALSE(stream->Seek("x", 0));
    EXPECT_FALSE(writer_->Close());
  });
}

TEST_F(LogStreamTest, WhatIsBehindTheEndOrOfAnotherIdIsNotThere) {
  helio::Random random(1);
  InFiber([&] {
    Open(Policy::kEverySec, "x");
    Write(&random);
    const auto stream = NewStream();
    EXPECT_FALSE(stream->Seek("y", 0));
    EXPECT_FALSE(stream->Seek("x", end() + 1));
    ASSERT_TRUE(stream->Seek("x", end()));
    EXPECT_EQ(ReadAll(stream.get()), "");
    EXPECT_EQ(stream->offset(), end());
    // It goes on as the log grows, also after it has found nothing.
    const uint64_t before = end();
    Write(&random);
    EXPECT_EQ(ReadAll(stream.get()), streams_["x"].substr(before));
    EXPECT_FALSE(writer_->Close());
  });
}

TEST_F(LogStreamTest, BytesThatAreDamagedEndIt) {
  helio::Random random(1);
  InFiber([&] {
    Open(Policy::kEverySec, "x");
    Write(&random);
    const uint64_t good = end();
    Write(&random);
    EXPECT_FALSE(writer_->Close());
    for (auto& [path, text] : files_.files) {
      if (path.ends_with(".incr.aof") && text.size() > 200) text[text.size() - 3] ^= 1;
    }
    const auto stream = NewStream();
    ASSERT_TRUE(stream->Seek("x", 0));
    EXPECT_EQ(ReadAll(stream.get()), streams_["x"].substr(0, good));
    EXPECT_EQ(ReadAll(stream.get()), "");
    EXPECT_EQ(stream->offset(), good);
  });
}

// Writes, syncs, disks that fail, new files, other streams and starts, in any order; and a reader
// from anywhere gets the bytes that were written there.
TEST_F(LogStreamTest, HasTheBytesOfTheStreamWhateverHappens) {
  for (int run = 0; run < 200; ++run) {
    helio::Random random(helio::TestSeed() + static_cast<uint64_t>(run));
    InFiber([&] {
      Restart();
      int ids = 0;
      const auto policy = [&] { return random.OneIn(2) ? Policy::kAlways : Policy::kEverySec; };
      Open(policy(), random.OneIn(2) ? "" : "id0");
      std::unique_ptr<LogStream> follower;
      bool follows = false;
      std::string followed;
      uint64_t follows_from = 0;
      for (int step = 0; step < 60; ++step) {
        switch (random.Uniform(12)) {
          case 0:
            Become(fmt::format("id{}", ++ids));
            follows = false;
            break;
          case 1:
            (void)writer_->Sync();
            break;
          case 2:
            files_.calls_left = random.Uniform(4);
            files_.calls_failing = 1 + random.Uniform(3);
            break;
          case 3:
            if (random.OneIn(2)) {
              db_ = -1;  // as a cut does it
              writer_->BeginNewFile(number_ + 1);
            } else {
              writer_->BeginNewFile(number_ + 1 + random.Uniform(2));
            }
            break;
          case 4: {
            files_.calls_left = SIZE_MAX;
            EXPECT_FALSE(writer_->Close());
            Open(policy(), fmt::format("id{}", ++ids));
            follows = false;
            break;
          }
          case 5: {
            if (id_.empty()) break;
            follower = NewStream();
            follows_from = begins_[id_] + random.Uniform(streams_[id_].size() + 1);
            followed.clear();
            follows = follower->Seek(id_, follows_from);
            break;
          }
          default:
            Write(&random);
        }
        if (follows && random.OneIn(3)) followed += ReadAll(follower.get());
      }
      files_.calls_left = SIZE_MAX;
      Write(&random);
      if (follows) {
        followed += ReadAll(follower.get());
        EXPECT_EQ(followed, streams_[id_].substr(follows_from - begins_[id_])) << "run " << run;
      }
      for (const auto& [id, text] : streams_) {
        if (id.empty() || text.empty()) continue;
        const uint64_t skipped = random.Uniform(text.size() + 1);
        const auto stream = NewStream();
        EXPECT_TRUE(stream->Seek(id, begins_[id] + skipped)) << id << ", run " << run;
        EXPECT_EQ(ReadAll(stream.get()), text.substr(skipped)) << id << ", run " << run;
      }
      EXPECT_FALSE(writer_->Close());
    });
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace dfly
