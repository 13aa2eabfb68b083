// SPDX-License-Identifier: Apache-2.0
#include "storage/frame_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "helio/base/random.h"
#include "storage/memory_files.h"

namespace dfly {
namespace {

using testing::HasSubstr;

constexpr FrameFileId kId = {.generation = 77, .number = 3, .count = 5};

class FrameFileTest : public testing::TestWithParam<FrameCodec> {
 protected:
  // Texts that compress and some that do not.
  std::string Write(const FrameFileId& id, size_t bytes) {
    std::unique_ptr<OutputFile> file;
    EXPECT_FALSE(files_.Create("f", &file));
    FrameFileWriter writer(std::move(file), id, GetParam(), 1);
    written_.clear();
    while (written_.size() < bytes) {
      std::string part(1 + random_.Uniform(200'000), 'a');
      if (random_.OneIn(2)) {
        for (char& c : part) c = static_cast<char>(random_.Next());
      }
      writer.Write(part);
      written_ += part;
    }
    EXPECT_FALSE(writer.Finish(12));
    EXPECT_EQ(writer.bytes_written(), files_.files["f"].size());
    return files_.files["f"];
  }
  // What is read, or the error.
  std::string Read(const std::string& file, const FrameFileReader::Expected& expected = {}) {
    files_.files["f"] = file;
    std::unique_ptr<InputFile> input;
    EXPECT_FALSE(files_.Open("f", &input));
    FrameFileReader reader("f", std::move(input));
    std::string read;
    if (!reader.Begin(expected)) return "error: " + reader.error();
    EXPECT_EQ(reader.entries(), 12u);
    while (reader.left() > 0) {
      const size_t count = std::min<uint64_t>(1 + random_.Uniform(100'000), reader.left());
      if (random_.OneIn(4)) {
        if (!reader.Skip(count)) return "error: " + reader.error();
        read += written_.substr(read.size(), count);
        continue;
      }
      const auto taken = reader.Take(count);
      if (!taken) return "error: " + reader.error();
      read += *taken;
    }
    EXPECT_FALSE(reader.Take(1));
    return reader.End() ? read : "error: " + reader.error();
  }

  helio::Random random_{5};
  MemoryFiles files_;
  std::string written_;
};

TEST_P(FrameFileTest, GivesBackWhatWasWritten) {
  for (size_t bytes : {0, 1, 1000, 3'000'000}) {
    const std::string file = Write(kId, bytes);
    EXPECT_TRUE(Read(file) == written_) << bytes;
  }
}

TEST_P(FrameFileTest, IsNotTakenForAnotherFile) {
  const std::string file = Write(kId, 1000);
  EXPECT_TRUE(Read(file, {.generation = 77, .number = 3, .count = 5}) == written_);
  for (const FrameFileReader::Expected& other :
       {FrameFileReader::Expected{.generation = 78}, FrameFileReader::Expected{.number = 4},
        FrameFileReader::Expected{.count = 4}}) {
    EXPECT_THAT(Read(file, other), HasSubstr("of another snapshot"));
  }
  EXPECT_THAT(Read("REDIS0010" + file), HasSubstr("no file of a dragonfly snapshot"));
  // A frame of another generation, in the same place.
  std::string mixed = file;
  const std::string other = Write({.generation = 78, .number = 3, .count = 5}, 1000);
  mixed.replace(60, 40, other.substr(60, 40));
  EXPECT_THAT(Read(mixed), HasSubstr("error: f, at byte "));
}

TEST_P(FrameFileTest, SeesEveryChangedBitAndEveryCut) {
  const std::string file = Write(kId, 300'000);
  const std::string content = written_;
  for (int i = 0; i < 1500; ++i) {
    std::string damaged = file;
    // More often where the structure is.
    const size_t at = random_.OneIn(3)   ? random_.Uniform(100)
                      : random_.OneIn(2) ? file.size() - 1 - random_.Uniform(60)
                                         : random_.Uniform(file.size());
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random_.Uniform(8)));
    ASSERT_THAT(Read(damaged).substr(0, 200), HasSubstr("error: f, at byte ")) << at;
  }
  for (int i = 0; i < 300; ++i) {
    const size_t size = random_.Uniform(file.size());
    ASSERT_THAT(Read(file.substr(0, size)).substr(0, 200), HasSubstr("error: f, at byte ")) << size;
  }
  EXPECT_THAT(Read(file + "x"), HasSubstr("the end of the file is missing or damaged"));
}

TEST_P(FrameFileTest, TellsWhatTheDiskSaysAndWritesNothingAfterwards) {
  for (size_t after : {0, 100, 300'000, 600'000}) {
    std::unique_ptr<OutputFile> file;
    ASSERT_FALSE(files_.Create("g", &file));
    files_.fails_after = after;
    FrameFileWriter writer(std::move(file), kId, GetParam(), 1);
    for (int i = 0; i < 20; ++i) {
      std::string part(64 * 1024, '\0');
      for (char& c : part) c = static_cast<char>(random_.Next());
      writer.Write(part);
    }
    EXPECT_TRUE(writer.has_failed());
    EXPECT_EQ(writer.Finish(1), std::errc::no_space_on_device);
    EXPECT_LE(files_.files["g"].size(), after);
    files_.fails_after = SIZE_MAX;
  }
  // Or only when the file is closed, where delayed writes fail.
  std::unique_ptr<OutputFile> file;
  ASSERT_FALSE(files_.Create("h", &file));
  files_.sync_error = std::make_error_code(std::errc::io_error);
  FrameFileWriter writer(std::move(file), kId, GetParam(), 1);
  writer.Write("text");
  EXPECT_EQ(writer.Finish(1), std::errc::io_error);
}

INSTANTIATE_TEST_SUITE_P(All, FrameFileTest,
                         testing::Values(FrameCodec::kNone, FrameCodec::kLz4, FrameCodec::kZstd));

}  // namespace
}  // namespace dfly
