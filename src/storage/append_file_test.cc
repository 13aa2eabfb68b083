// SPDX-License-Identifier: Apache-2.0
#include "storage/append_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/proactor/proactor_pool.h"
#include "storage/file_layer.h"
#include "storage/memory_files.h"

namespace dfly {
namespace {

// What is behind the content: whole lines of filler. The last one may be cut where the file ends.
testing::AssertionResult IsFiller(std::string_view tail) {
  while (!tail.empty()) {
    const size_t end = tail.find('\n');
    const std::string_view line = tail.substr(0, end);
    if (line.front() != '#' || line.size() > 1000) {
      return testing::AssertionFailure() << "no filler: " << line.substr(0, 100);
    }
    if (end == std::string_view::npos) break;
    tail.remove_prefix(end + 1);
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult IsContent(const std::string& file, const std::string& content) {
  if (!file.starts_with(content)) {
    size_t same = 0;
    while (same < file.size() && file[same] == content[same]) ++same;
    return testing::AssertionFailure()
           << "differs at " << same << " of " << content.size() << ", file " << file.size();
  }
  return IsFiller(std::string_view(file).substr(content.size()));
}

std::string ReadAll(FileLayer* files, const std::string& path) {
  std::unique_ptr<InputFile> input;
  if (files->Open(path, &input)) return "no file";
  std::string all(input->size(), '\0');
  size_t read = 0;
  EXPECT_FALSE(input->ReadAt(0, all.data(), all.size(), &read));
  all.resize(read);
  return all;
}

// Pieces to append. No line begins with '#'.
struct Pieces {
  std::string all;
  std::vector<std::string_view> parts;

  Pieces(helio::Random* random, size_t size_max) {
    const size_t count = random->Uniform(5);
    std::vector<size_t> sizes;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = random->Uniform(19);
      sizes.push_back(std::min<size_t>(random->Uniform((uint64_t{1} << bits) + 1), size_max));
    }
    for (const size_t size : sizes) {
      for (size_t i = 0; i < size; ++i) all += static_cast<char>('A' + (i * 7 + size) % 26);
    }
    size_t begin = 0;
    for (const size_t size : sizes) {
      parts.push_back(std::string_view(all).substr(begin, size));
      begin += size;
    }
  }
};

TEST(FillerTest, IsWholeLines) {
  for (size_t size = 0; size < 10'000; size = size < 300 ? size + 1 : size + 97) {
    if (size == 1 || size == 2) continue;
    std::string filler(size, 'x');
    WriteFiller(filler.data(), size);
    EXPECT_TRUE(IsFiller(filler)) << size;
    EXPECT_TRUE(filler.empty() || filler.back() == '\n') << size;
  }
  std::string line(64, 'x');
  WriteFiller(line.data(), 64);
  EXPECT_EQ(line, "#" + std::string(61, '.') + "\r\n");
}

struct Setting {
  bool force_epoll;
  size_t reserve_bytes;
};

class AppendFileTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    char directory[] = "/tmp/append_file_test_XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    directory_ = directory;
    pool_ = std::make_unique<helio::ProactorPool>(
        helio::ProactorPool::Options{.threads = 2, .force_epoll = GetParam().force_epoll});
    pool_->Start();
  }
  void TearDown() override {
    pool_->Stop();
    unlink(Path().c_str());
    EXPECT_EQ(rmdir(directory_.c_str()), 0);
  }

  std::string Path() const { return directory_ + "/file"; }
  void InFiber(const std::function<void()>& function, uint32_t thread = 0) {
    pool_->at(thread)->AwaitFiber("test", [&] { function(); });
  }
  std::unique_ptr<AppendFile> MustOpen(uint64_t size) {
    std::unique_ptr<AppendFile> file;
    const std::error_code error =
        SystemFiles().OpenAppend(Path(), size, GetParam().reserve_bytes, &file);
    EXPECT_FALSE(error) << error.message();
    return file;
  }
  std::string Read() { return ReadAll(&SystemFiles(), Path()); }

  std::string directory_;
  std::unique_ptr<helio::ProactorPool> pool_;
};

INSTANTIATE_TEST_SUITE_P(Settings, AppendFileTest,
                         testing::Values(Setting{false, 0}, Setting{true, 0},
                                         Setting{false, 20'000}, Setting{true, 20'000},
                                         Setting{false, 1 << 20}, Setting{true, 1 << 20}),
                         [](const auto& info) {
                           return (info.param.force_epoll ? "epoll_" : "io_uring_") +
                                  std::to_string(info.param.reserve_bytes);
                         });

TEST_P(AppendFileTest, WhatWasAppendedIsReadAndFillerIsBehindIt) {
  helio::Random random(helio::TestSeed());
  std::string model;
  std::unique_ptr<AppendFile> file;
  InFiber([&] { file = MustOpen(0); });
  for (int i = 0; i < 100; ++i) {
    InFiber(
        [&] {
          const Pieces pieces(&random, 300'000);
          const bool sync = random.OneIn(2);
          const std::error_code error = file->Append(pieces.parts, sync);
          ASSERT_FALSE(error) << error.message();
          model += pieces.all;
          EXPECT_EQ(file->size(), model.size());
          if (sync) {
            EXPECT_EQ(file->synced_size(), model.size());
          }
          if (i % 10 == 0) {
            EXPECT_TRUE(IsContent(Read(), model));
          }
          if (random.OneIn(20)) {
            EXPECT_FALSE(file->Sync());
            EXPECT_EQ(file->synced_size(), model.size());
          }
          if (random.OneIn(20)) {
            model.resize(random.Uniform(model.size() + 1));
            EXPECT_FALSE(file->Truncate(model.size()));
            EXPECT_EQ(file->synced_size(), model.size());
            EXPECT_TRUE(Read() == model) << "no filler either";
          }
          if (random.OneIn(20)) {
            if (random.OneIn(2)) {
              EXPECT_FALSE(file->Close());
              EXPECT_TRUE(Read() == model) << "no filler either";
            }
            file.reset();
            if (random.OneIn(2)) model.resize(random.Uniform(model.size() + 1));
            file = MustOpen(model.size());
            EXPECT_EQ(file->synced_size(), model.size());
            EXPECT_TRUE(Read() == model);
          }
        },
        static_cast<uint32_t>(random.Uniform(2)));
    if (testing::Test::HasFatalFailure()) break;
  }
  InFiber([&] {
    EXPECT_FALSE(file->Close());
    EXPECT_TRUE(Read() == model);
    file.reset();
  });
}

// Content of `size` bytes that ends anywhere in a block, opened again, and appended to.
void OpenAndAppend(FileLayer* files, const std::string& path, size_t size, size_t reserve_bytes) {
  const std::string model(size, 'c');
  const auto append = [](AppendFile* file, std::vector<std::string_view> pieces, bool sync) {
    return file->Append(pieces, sync);
  };
  std::unique_ptr<AppendFile> file;
  ASSERT_FALSE(files->OpenAppend(path, 0, reserve_bytes, &file));
  ASSERT_FALSE(append(file.get(), {model}, false));
  file.reset();
  ASSERT_FALSE(files->OpenAppend(path, size, reserve_bytes, &file));
  ASSERT_TRUE(ReadAll(files, path) == model) << size;
  ASSERT_FALSE(append(file.get(), {"d"}, false));
  ASSERT_TRUE(IsContent(ReadAll(files, path), model + "d")) << size;
  ASSERT_FALSE(append(file.get(), {"", "ee"}, true));
  ASSERT_TRUE(IsContent(ReadAll(files, path), model + "dee")) << size;
}

TEST_P(AppendFileTest, OpensWhereverTheContentEnds) {
  InFiber([&] {
    for (const size_t size : {0, 1, 100, 4030, 4031, 4032, 4033, 4090, 4091, 4092, 4093, 4094, 4095,
                              4096, 4097, 8191, 8192}) {
      OpenAndAppend(&SystemFiles(), Path(), size, GetParam().reserve_bytes);
      if (testing::Test::HasFatalFailure()) break;
    }
  });
}

TEST_P(AppendFileTest, AFileThatIsTooShortIsRefused) {
  InFiber([&] {
    MustOpen(0);
    std::unique_ptr<AppendFile> file;
    EXPECT_EQ(SystemFiles().OpenAppend(Path(), 1, GetParam().reserve_bytes, &file),
              std::errc::invalid_argument);
    EXPECT_EQ(file, nullptr);
    EXPECT_EQ(SystemFiles().OpenAppend(directory_ + "/none/x", 0, GetParam().reserve_bytes, &file),
              std::errc::no_such_file_or_directory);
  });
}

TEST_P(AppendFileTest, AnAppendThatFailsHalfwayLeavesTheContent) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  // Of whole blocks: what an O_DIRECT write has left would else begin within one.
  const rlimit low{50 * kFileBlockSize, before.rlim_max};
  InFiber([&] {
    std::unique_ptr<AppendFile> file = MustOpen(0);
    std::string model(100'000, 'a');
    ASSERT_FALSE(file->Append(std::vector<std::string_view>{model}, true));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
    for (int i = 0; i < 3; ++i) {
      const std::string more(150'000, static_cast<char>('b' + i));
      const std::vector<std::string_view> pieces = {more};
      EXPECT_EQ(file->Append(pieces, i < 2), std::errc::file_too_large);
      EXPECT_EQ(file->size(), model.size());
      EXPECT_EQ(file->synced_size(), model.size());
      EXPECT_FALSE(file->is_broken());
      EXPECT_TRUE(Read().starts_with(model));
      // Either an append that fits follows at once, or what is there is cut first.
      if (i == 1) {
        EXPECT_FALSE(file->Truncate(file->size()));
        EXPECT_TRUE(Read() == model);
      }
      const std::string fits(1000, 'f');
      ASSERT_FALSE(file->Append(std::vector<std::string_view>{fits}, true));
      model += fits;
      EXPECT_TRUE(IsContent(Read(), model));
    }
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    const std::string more(150'000, 'z');
    ASSERT_FALSE(file->Append(std::vector<std::string_view>{more}, true));
    model += more;
    EXPECT_TRUE(IsContent(Read(), model));
    EXPECT_FALSE(file->Close());
    EXPECT_TRUE(Read() == model);
  });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST_P(AppendFileTest, ASyncRunsBesideAppends) {
  std::unique_ptr<AppendFile> file;
  std::string model;
  InFiber([&] {
    file = MustOpen(0);
    bool is_done = false;
    helio::Fiber syncing("sync", [&] {
      while (!is_done) {
        EXPECT_FALSE(file->Sync());
        EXPECT_LE(file->synced_size(), file->size());
        helio::this_fiber::Yield();
      }
    });
    for (int i = 0; i < 100; ++i) {
      const std::string piece(static_cast<size_t>(i * 100), static_cast<char>('a' + i % 26));
      EXPECT_FALSE(file->Append(std::vector<std::string_view>{piece}, i % 10 == 0));
      model += piece;
    }
    is_done = true;
    syncing.Join();
    EXPECT_FALSE(file->Close());
    EXPECT_EQ(file->synced_size(), model.size());
    EXPECT_TRUE(Read() == model);
    file.reset();
  });
}

TEST_P(AppendFileTest, DirectoriesAreMadeOnce) {
  InFiber([&] {
    EXPECT_FALSE(SystemFiles().MakeDirectory(directory_ + "/d"));
    EXPECT_FALSE(SystemFiles().MakeDirectory(directory_ + "/d"));
    EXPECT_EQ(SystemFiles().MakeDirectory(directory_ + "/none/d"),
              std::errc::no_such_file_or_directory);
    EXPECT_EQ(rmdir((directory_ + "/d").c_str()), 0);
  });
}

// Pieces of `piece` bytes, `size` in all.
std::error_code WriteOutput(const std::string& path, size_t size, size_t piece,
                            std::string* content) {
  std::unique_ptr<OutputFile> file;
  if (auto error = SystemFiles().Create(path, &file)) return error;
  helio::Random random(size);
  content->clear();
  for (size_t i = 0; i < size; ++i) content->push_back(static_cast<char>(random.Next()));
  std::error_code error;
  for (std::string_view rest = *content; !rest.empty() && !error;) {
    error = file->Write(rest.substr(0, piece));
    rest.remove_prefix(std::min(piece, rest.size()));
  }
  const std::error_code close_error = file->SyncAndClose();
  return error ? error : close_error;
}

TEST_P(AppendFileTest, AnOutputIsWhatWasWritten) {
  InFiber([&] {
    constexpr size_t kWrite = 256 * 1024;
    for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097},
                              kWrite - 1, kWrite, kWrite + 1, 3 * kWrite + 4099}) {
      for (const size_t piece : {size_t{777}, size_t{4096}, 2 * kWrite + 5}) {
        std::string content;
        ASSERT_FALSE(WriteOutput(Path(), size, piece, &content));
        ASSERT_TRUE(ReadAll(&SystemFiles(), Path()) == content) << size << " by " << piece;
      }
    }
  });
}

TEST_P(AppendFileTest, AnOutputWithoutRoomFails) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low{100'001, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  InFiber([&] {
    std::string content;
    EXPECT_FALSE(WriteOutput(Path(), 100'001, 1000, &content));
    EXPECT_TRUE(ReadAll(&SystemFiles(), Path()) == content);
    // When it is closed, and before.
    for (const size_t size : {100'002, 1'000'000}) {
      EXPECT_EQ(WriteOutput(Path(), size, 1000, &content), std::errc::file_too_large) << size;
    }
  });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

// Files in memory: every call may fail.

std::error_code AppendOne(AppendFile* file, std::string_view piece, bool sync) {
  return file->Append({&piece, 1}, sync);
}

class MemoryAppendTest : public testing::TestWithParam<size_t> {  // P: reserve
 protected:
  std::unique_ptr<AppendFile> MustOpen(uint64_t size) {
    std::unique_ptr<AppendFile> file;
    EXPECT_FALSE(files_.OpenAppend("f", size, GetParam(), &file));
    return file;
  }
  MemoryFiles files_;
};

INSTANTIATE_TEST_SUITE_P(Reserves, MemoryAppendTest, testing::Values(0, 16'384));

TEST_P(MemoryAppendTest, OpensWhereverTheContentEnds) {
  for (size_t size = 0; size<4200; size += size> 200 && size < 4000 ? 13 : 1) {
    OpenAndAppend(&files_, "f", size, GetParam());
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
}

TEST_P(MemoryAppendTest, ASyncThatFailedIsNeverTriedAgain) {
  std::unique_ptr<AppendFile> file = MustOpen(0);
  EXPECT_FALSE(AppendOne(file.get(), "good", true));
  files_.sync_error = std::make_error_code(std::errc::io_error);
  EXPECT_EQ(AppendOne(file.get(), "lost", true), std::errc::io_error);
  files_.sync_error = {};
  EXPECT_TRUE(file->is_broken());
  EXPECT_EQ(file->size(), 4u);
  EXPECT_EQ(file->synced_size(), 4u);
  EXPECT_EQ(AppendOne(file.get(), "more", false), std::errc::io_error);
  EXPECT_EQ(AppendOne(file.get(), "more", true), std::errc::io_error);
  EXPECT_EQ(file->Sync(), std::errc::io_error);
  EXPECT_FALSE(file->Truncate(4));
  EXPECT_FALSE(file->Close());
  EXPECT_EQ(files_.files["f"], "good");
}

TEST_P(MemoryAppendTest, WhatWasNotSyncedIsNotClosedAsIfItWere) {
  std::unique_ptr<AppendFile> file = MustOpen(0);
  EXPECT_FALSE(AppendOne(file.get(), "good", true));
  EXPECT_FALSE(AppendOne(file.get(), "lost", false));
  files_.sync_error = std::make_error_code(std::errc::io_error);
  EXPECT_EQ(file->Sync(), std::errc::io_error);
  files_.sync_error = {};
  EXPECT_EQ(file->size(), 8u);
  EXPECT_EQ(file->synced_size(), 4u);
  EXPECT_EQ(file->Close(), std::errc::io_error);
  helio::Random random(helio::TestSeed());
  bool was_lost = false;
  for (int i = 0; i < 100; ++i) {
    const auto after = files_.AfterCrash(&random);
    if (!after.contains("f")) continue;
    was_lost = was_lost || !after.at("f").starts_with("goodlost");
  }
  EXPECT_TRUE(was_lost) << "the model of a failed sync";
}

TEST_P(MemoryAppendTest, ATruncateThatWaitsForASyncThatFailsDoesNotRepeatIt) {
  helio::ProactorPool pool(helio::ProactorPool::Options{.threads = 1});
  pool.Start();
  pool.at(0)->AwaitFiber("test", [&] {
    std::unique_ptr<AppendFile> file = MustOpen(0);
    EXPECT_FALSE(AppendOne(file.get(), "good", true));
    EXPECT_FALSE(AppendOne(file.get(), "lost", false));
    bool is_syncing = false;
    files_.pause = [&] {
      is_syncing = true;
      for (int i = 0; i < 10; ++i) helio::this_fiber::Yield();
    };
    files_.sync_error = std::make_error_code(std::errc::io_error);
    helio::Fiber sync("sync", [&] {
      EXPECT_EQ(file->Sync(), std::errc::io_error);
      files_.sync_error = {};
    });
    while (!is_syncing) helio::this_fiber::Yield();
    EXPECT_EQ(file->Truncate(8), std::errc::io_error);
    sync.Join();
    EXPECT_EQ(file->synced_size(), 4u);
    EXPECT_FALSE(file->Truncate(4));
    EXPECT_FALSE(file->Close());
    file.reset();
  });
  pool.Stop();
  EXPECT_EQ(files_.files["f"], "good");
}

TEST_P(MemoryAppendTest, AFullDiskDoesNotNeedAReserve) {
  std::unique_ptr<AppendFile> file = MustOpen(0);
  files_.fails_after = 10'000;
  EXPECT_FALSE(AppendOne(file.get(), "abc", true));
  EXPECT_TRUE(IsContent(files_.files["f"], "abc"));
  files_.fails_after = 0;
  EXPECT_EQ(AppendOne(file.get(), "def", true), std::errc::no_space_on_device);
  files_.fails_after = 8192;
  EXPECT_FALSE(AppendOne(file.get(), "ghi", true));
  EXPECT_TRUE(IsContent(files_.files["f"], "abcghi"));
}

// Random calls, of which some fail; then the machine stops. What was synced is there, and behind it
// is a part of what was appended, or filler.
void CrashAtRandom(uint64_t seed, size_t reserve_bytes) {
  helio::Random random(seed);
  MemoryFiles files;
  std::unique_ptr<AppendFile> file;
  std::string model;
  size_t model_synced = 0;
  ASSERT_FALSE(files.OpenAppend("d/f", 0, reserve_bytes, &file));
  ASSERT_FALSE(files.SyncDirectory("d"));
  bool was_unclear = false;  // a call failed of which nobody knows how far it came
  const uint64_t steps = 1 + random.Uniform(20);
  for (uint64_t i = 0; i < steps; ++i) {
    if (random.OneIn(8)) {
      files.calls_left = random.Uniform(4);
      files.calls_failing = 1 + random.Uniform(3);
    }
    if (random.OneIn(8)) files.fails_after = random.Uniform(20'000);
    if (random.OneIn(4)) files.fails_after = SIZE_MAX;
    const bool was_broken = file->is_broken();
    switch (random.Uniform(8)) {
      default: {
        const Pieces pieces(&random, 10'000);
        const bool sync = random.OneIn(2);
        if (file->Append(pieces.parts, sync)) {
          was_unclear = true;
          break;
        }
        EXPECT_FALSE(was_broken);
        was_unclear = was_unclear && pieces.all.empty();
        model += pieces.all;
        if (sync) model_synced = model.size();
        break;
      }
      case 5:
        if (!file->Sync()) model_synced = model.size();
        break;
      case 6: {
        const size_t to = random.Between(file->is_broken() ? 0 : model_synced / 2,
                                         file->is_broken() ? model_synced : model.size());
        if (!file->Truncate(to)) {
          model.resize(to);
          model_synced = to;
          was_unclear = false;
        } else {
          was_unclear = true;
          if (file->size() == model.size() && to != model.size()) break;  // it was not cut
          model.resize(to);
          model_synced = std::min(file->synced_size(), to);
        }
        break;
      }
      case 7: {
        if (file->is_broken() || was_unclear) break;
        files.calls_left = files.calls_failing = files.fails_after = SIZE_MAX;
        file.reset();
        ASSERT_FALSE(files.OpenAppend("d/f", model.size(), reserve_bytes, &file));
        model_synced = model.size();
        break;
      }
    }
    EXPECT_EQ(file->size(), model.size());
    EXPECT_EQ(file->synced_size(), model_synced);
    if (!was_unclear) {
      EXPECT_TRUE(IsContent(files.files["d/f"], model));
    }
  }
  const std::map<std::string, std::string> after = files.AfterCrash(&random);
  ASSERT_TRUE(after.contains("d/f"));
  EXPECT_TRUE(after.at("d/f").starts_with(model.substr(0, model_synced)));
}

TEST_P(MemoryAppendTest, WhatWasSyncedIsThereAfterACrash) {
#ifdef DFLY_SANITIZED
  const helio::SeedRange seeds = helio::TestSeeds(500);
#else
  const helio::SeedRange seeds = helio::TestSeeds(2000);
#endif
  for (uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    CrashAtRandom(seed, GetParam());
    ASSERT_FALSE(testing::Test::HasFailure()) << "DFLY_SEED=" << seed;
  }
}

TEST(MemoryFilesTest, NamesThatWereNotSyncedMayBeLost) {
  helio::Random random(helio::TestSeed());
  bool saw_old = false, saw_new = false, saw_leftover = false;
  for (int i = 0; i < 200; ++i) {
    MemoryFiles files;
    files.files["d/name"] = "old";
    std::unique_ptr<OutputFile> file;
    EXPECT_FALSE(files.Create("d/temp", &file));
    EXPECT_FALSE(file->Write("new"));
    EXPECT_FALSE(file->SyncAndClose());
    EXPECT_FALSE(files.Rename("d/temp", "d/name"));
    EXPECT_EQ(files.files["d/name"], "new");
    const bool is_synced = random.OneIn(2);
    if (is_synced) {
      EXPECT_FALSE(files.SyncDirectory("d"));
    }
    auto after = files.AfterCrash(&random);
    if (is_synced) {
      EXPECT_EQ(after.size(), 1u);
      EXPECT_EQ(after["d/name"], "new");
    } else {
      saw_old = saw_old || after["d/name"] == "old";
      saw_new = saw_new || after["d/name"] == "new";
      saw_leftover = saw_leftover || after.contains("d/temp");
    }
  }
  EXPECT_TRUE(saw_old && saw_new && saw_leftover);
}

TEST(MemoryFilesTest, ARemovalThatWasNotSyncedMayBeUndone) {
  helio::Random random(helio::TestSeed());
  bool saw_there = false, saw_gone = false;
  for (int i = 0; i < 100; ++i) {
    MemoryFiles files;
    files.files["f"] = "text";
    EXPECT_FALSE(files.Remove("f"));
    const auto after = files.AfterCrash(&random);
    if (after.contains("f")) {
      EXPECT_EQ(after.at("f"), "text");
    }
    (after.contains("f") ? saw_there : saw_gone) = true;
    EXPECT_FALSE(files.SyncDirectory("."));
    EXPECT_TRUE(files.AfterCrash(&random).empty());
  }
  EXPECT_TRUE(saw_there && saw_gone);
}

TEST(MemoryFilesTest, ListsEachNameOfADirectoryOnce) {
  MemoryFiles files;
  files.files = {{"a", ""}, {"d/b", ""}, {"d/c", ""}, {"d/e/f", ""}, {"d/e/g", ""}};
  std::vector<std::string> names;
  EXPECT_FALSE(files.List(".", &names));
  EXPECT_EQ(names, (std::vector<std::string>{"a", "d"}));
  EXPECT_FALSE(files.List("d", &names));
  EXPECT_EQ(names, (std::vector<std::string>{"b", "c", "e"}));
}

}  // namespace
}  // namespace dfly
