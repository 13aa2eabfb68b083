// SPDX-License-Identifier: Apache-2.0
#include "helio/io/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "helio/base/random.h"
#include "helio/base/sanitizers.h"
#include "helio/io/blocking_pool.h"
#include "helio/proactor/proactor_pool.h"

namespace helio {
namespace {

class FileTest : public testing::TestWithParam<bool> {  // P: epoll forced
 protected:
  void SetUp() override {
    char directory[] = "/tmp/file_test_XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    directory_ = directory;
    pool_ = std::make_unique<ProactorPool>(
        ProactorPool::Options{.threads = 2, .force_epoll = GetParam()});
    pool_->Start();
  }
  void TearDown() override {
    pool_->Stop();
    unlink(Path().c_str());
    EXPECT_EQ(rmdir(directory_.c_str()), 0);
  }

  std::string Path() const { return directory_ + "/file"; }
  void InFiber(const std::function<void()>& function) {
    pool_->at(0)->AwaitFiber("test", [&] { function(); });
  }
  static File MustOpen(const std::string& path, int flags) {
    File file;
    const std::error_code error = file.Open(path, flags);
    EXPECT_FALSE(error) << path << ": " << error.message();
    return file;
  }
  static std::string MustRead(const File& file, uint64_t offset, size_t size) {
    std::string out(size, '\0');
    size_t read = 0;
    EXPECT_FALSE(file.ReadAt(offset, out.data(), size, &read));
    out.resize(read);
    return out;
  }

  std::string directory_;
  std::unique_ptr<ProactorPool> pool_;
};

INSTANTIATE_TEST_SUITE_P(Engines, FileTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "epoll" : "io_uring"; });

TEST_P(FileTest, WhatWasWrittenIsRead) {
  InFiber([&] {
    File file = MustOpen(Path(), O_RDWR | O_CREAT | O_TRUNC);
    EXPECT_FALSE(file.WriteAt(0, "hello world"));
    EXPECT_FALSE(file.WriteAt(6, "there"));
    EXPECT_FALSE(file.WriteAt(20, "!"));
    EXPECT_FALSE(file.WriteAt(3, ""));
    EXPECT_FALSE(file.Sync(true));
    EXPECT_FALSE(file.Sync(false));
    uint64_t size = 0;
    EXPECT_FALSE(file.Size(&size));
    EXPECT_EQ(size, 21u);
    EXPECT_EQ(MustRead(file, 0, 11), "hello there");
    EXPECT_EQ(MustRead(file, 6, 100), std::string("there\0\0\0\0\0\0\0\0\0!", 15))
        << "short at the end";
    EXPECT_EQ(MustRead(file, 500, 10), "");
    EXPECT_FALSE(file.Close());
    EXPECT_FALSE(file.is_open());
    EXPECT_FALSE(file.Close()) << "closing what is closed is no error";
  });
}

TEST_P(FileTest, ErrorsAreTheKernels) {
  InFiber([&] {
    File file;
    EXPECT_EQ(file.Open(Path(), O_RDONLY), std::errc::no_such_file_or_directory);
    EXPECT_FALSE(file.is_open());
    EXPECT_EQ(file.Open(directory_, O_WRONLY), std::errc::is_a_directory);
    uint64_t size = 77;
    EXPECT_EQ(file.Size(&size), std::errc::bad_file_descriptor);
    EXPECT_EQ(size, 77u);
    EXPECT_EQ(file.WriteAt(0, "x"), std::errc::bad_file_descriptor);
    file = MustOpen(Path(), O_WRONLY | O_CREAT);
    char byte;
    size_t read = 77;
    EXPECT_EQ(file.ReadAt(0, &byte, 1, &read), std::errc::bad_file_descriptor);
    EXPECT_EQ(read, 0u);
    File again;
    EXPECT_EQ(again.Open(Path(), O_RDWR | O_CREAT | O_EXCL), std::errc::file_exists);
    EXPECT_FALSE(file.Close());
  });
}

TEST_P(FileTest, WhatDirectIoRefusesGoesThroughThePageCache) {
  InFiber([&] {
    File file = MustOpen(Path(), O_RDWR | O_CREAT | O_DIRECT);
    struct alignas(4096) Memory {
      char bytes[3 * 4096];
    };
    const auto memory = std::make_unique<Memory>();
    std::string model(2 * 4096, 'a');
    model.copy(memory->bytes, model.size());
    ASSERT_FALSE(file.WriteAt(0, {memory->bytes, model.size()}));
    const bool was_direct = (fcntl(file.fd(), F_GETFL) & O_DIRECT) != 0;

    // Neither place, length nor memory are aligned.
    std::string piece(1001, 'b');
    std::vector<iovec> pieces = {{piece.data(), 500}, {piece.data() + 500, 501}};
    const File::WriteResult result = file.WriteAndSync(model.size() - 7, pieces, true);
    ASSERT_FALSE(result.error) << result.error.message();
    model.replace(model.size() - 7, 7, piece);
    EXPECT_EQ(MustRead(file, 0, model.size() + 1), model);
    ASSERT_FALSE(file.WriteAt(model.size(), "ccc"));
    model += "ccc";
    EXPECT_EQ(MustRead(file, 1, model.size()), model.substr(1));
    if (was_direct) {
      EXPECT_EQ(fcntl(file.fd(), F_GETFL) & O_DIRECT, 0);
    }

    // An error of another kind stays one.
    File read_only = MustOpen(Path(), O_RDONLY | O_DIRECT);
    EXPECT_EQ(read_only.WriteAt(3, "x"), std::errc::bad_file_descriptor);
    EXPECT_EQ(MustRead(read_only, 3, model.size()), model.substr(3));
    EXPECT_FALSE(read_only.Close());
    EXPECT_FALSE(file.Close());
  });
}

TEST_P(FileTest, AFileSystemWithoutDirectIoOpensWithout) {
  InFiber([&] {
    File file = MustOpen("/proc/self/status", O_RDONLY | O_DIRECT);
    EXPECT_EQ(MustRead(file, 0, 5), "Name:");
    EXPECT_FALSE(file.Close());
  });
}

TEST_P(FileTest, AFullDeviceIsAnErrorAndNotALoop) {
  InFiber([&] {
    File file = MustOpen("/dev/full", O_WRONLY);
    EXPECT_EQ(file.WriteAt(0, std::string(100'000, 'x')), std::errc::no_space_on_device);
    EXPECT_FALSE(file.Close());
  });
}

TEST_P(FileTest, AFileSizeLimitEndsAWriteHalfway) {
  // The kernel writes what fits and fails the rest: the count is short, then there is an error.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low{100'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  InFiber([&] {
    File file = MustOpen(Path(), O_RDWR | O_CREAT);
    EXPECT_EQ(file.WriteAt(50'000, std::string(80'000, 'x')), std::errc::file_too_large);
    uint64_t size = 0;
    EXPECT_FALSE(file.Size(&size));
    EXPECT_EQ(size, 100'000u);
    EXPECT_FALSE(file.Close());
  });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

std::vector<iovec> PiecesOf(std::vector<std::string>* texts) {
  std::vector<iovec> pieces;
  for (std::string& text : *texts) pieces.push_back({text.data(), text.size()});
  return pieces;
}

TEST_P(FileTest, PiecesAreWrittenOneBehindTheOther) {
  InFiber([&] {
    File file = MustOpen(Path(), O_RDWR | O_CREAT);
    for (const bool sync : {false, true}) {
      for (const size_t count : {0, 1, 2, 1023, 1024, 1025, 5000}) {
        std::vector<std::string> texts(count);
        std::string model;
        for (size_t i = 0; i < count; ++i) {
          texts[i] = std::string(i % 5, static_cast<char>('a' + i % 26));
          model += texts[i];
        }
        EXPECT_FALSE(file.Truncate(0));
        std::vector<iovec> pieces = PiecesOf(&texts);
        const File::WriteResult result = file.WriteAndSync(0, pieces, sync);
        EXPECT_FALSE(result.error) << result.error.message();
        EXPECT_TRUE(MustRead(file, 0, model.size() + 1) == model) << count;
      }
    }
    EXPECT_FALSE(file.Truncate(3));
    EXPECT_EQ(MustRead(file, 0, 10), "bcc");
    EXPECT_FALSE(file.Close());
  });
}

TEST_P(FileTest, AFailedWriteIsNotAFailedSync) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low{100'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  InFiber([&] {
    File file = MustOpen(Path(), O_RDWR | O_CREAT);
    std::vector<std::string> texts(2, std::string(40'000, 'x'));
    std::vector<iovec> pieces = PiecesOf(&texts);
    const File::WriteResult halfway = file.WriteAndSync(50'000, pieces, true);
    EXPECT_EQ(halfway.error, std::errc::file_too_large);
    EXPECT_FALSE(halfway.sync_failed);
    EXPECT_EQ(MustRead(file, 99'999, 10), "x") << "what fits was written";
    EXPECT_FALSE(file.Close());
    // A pipe takes bytes at no offset and cannot be synced.
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    file = MustOpen("/proc/self/fd/" + std::to_string(ends[1]), O_WRONLY);
    const File::WriteResult refused = file.WriteAndSync(0, {}, true);
    EXPECT_EQ(refused.error, std::errc::invalid_argument);
    EXPECT_TRUE(refused.sync_failed);
    EXPECT_FALSE(file.Close());
    close(ends[0]);
    close(ends[1]);
  });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST_P(FileTest, AFullDeviceFailsTheWriteOfALink) {
  InFiber([&] {
    File file = MustOpen("/dev/full", O_WRONLY);
    std::vector<std::string> texts(1, "x");
    std::vector<iovec> pieces = PiecesOf(&texts);
    const File::WriteResult result = file.WriteAndSync(0, pieces, true);
    EXPECT_EQ(result.error, std::errc::no_space_on_device);
    EXPECT_FALSE(result.sync_failed);
    EXPECT_FALSE(file.Close());
  });
}

TEST_P(FileTest, OffsetsBeyondFourGigabytesWork) {
  InFiber([&] {
    constexpr uint64_t kFar = (uint64_t{5} << 30) + 123;
    File file = MustOpen(Path(), O_RDWR | O_CREAT);
    EXPECT_FALSE(file.WriteAt(kFar, "far away"));  // the rest is a hole
    uint64_t size = 0;
    EXPECT_FALSE(file.Size(&size));
    EXPECT_EQ(size, kFar + 8);
    EXPECT_EQ(MustRead(file, kFar, 8), "far away");
    EXPECT_FALSE(file.Close());
  });
}

TEST_P(FileTest, MoreThanOneOperationCanMoveIsMovedInParts) {
#ifdef HELIO_TSAN
  GTEST_SKIP() << "the thread sanitizer would keep a record of each of 3 GiB";
#endif
  InFiber([&] {
    constexpr size_t kSize = size_t{3} << 30;
    File null = MustOpen("/dev/null", O_WRONLY);
    // Never touched, so it takes address space and no memory: /dev/null does not look at it.
    std::unique_ptr<char, decltype(&free)> room(static_cast<char*>(malloc(kSize)), &free);
    ASSERT_NE(room, nullptr);
    EXPECT_FALSE(null.WriteAt(0, {room.get(), kSize}));
    size_t read = 77;
    EXPECT_TRUE(null.ReadAt(0, room.get(), kSize, &read)) << "it is open for writing only";
    EXPECT_FALSE(null.Close());
    null = MustOpen("/dev/null", O_RDONLY);
    EXPECT_FALSE(null.ReadAt(0, room.get(), kSize, &read));
    EXPECT_EQ(read, 0u);
    EXPECT_FALSE(null.Close());
  });
}

// Holds a lease on the file, so that opening it blocks until the lease is given up. This is the one
// way to make a file operation wait for as long as a test wants.
TEST_P(FileTest, TheLoopServesOtherFibersWhileAnOperationBlocks) {
  signal(SIGIO, SIG_IGN);  // the kernel tells the lease's holder that somebody waits
  const int lease = open(Path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(lease, 0);
  if (fcntl(lease, F_SETLEASE, F_WRLCK) != 0) {
    close(lease);
    GTEST_SKIP() << "this file system has no leases, with which the test makes an operation wait";
  }
  InFiber([&] {
    bool opened = false;
    Fiber opener("opener", [&] {
      File file = MustOpen(Path(), O_RDONLY);
      opened = true;
      EXPECT_FALSE(file.Close());
    });
    // This fiber runs on the same thread: it sees the attempt, and lets it through.
    while (fcntl(lease, F_GETLEASE) == F_WRLCK && !opened) this_fiber::Yield();
    EXPECT_FALSE(opened);
    EXPECT_EQ(fcntl(lease, F_SETLEASE, F_UNLCK), 0);
    opener.Join();
    EXPECT_TRUE(opened);
  });
  close(lease);
}

TEST_P(FileTest, TheLoopServesOtherFibersWhileDataIsSynced) {
  InFiber([&] {
    bool syncing = false;
    bool synced = false;
    Fiber writer("writer", [&] {
      File file = MustOpen(Path(), O_RDWR | O_CREAT);
      EXPECT_FALSE(file.WriteAt(0, std::string(8'000'000, 'x')));
      syncing = true;
      EXPECT_FALSE(file.Sync(false));
      synced = true;
      EXPECT_FALSE(file.Close());
    });
    int turns = 0;
    while (!synced) {
      turns += syncing;
      this_fiber::Yield();
    }
    EXPECT_GT(turns, 0);
    writer.Join();
  });
}

TEST_P(FileTest, ManyFibersOfTwoThreadsAgreeWithAStringAsModel) {
  constexpr uint64_t kSeed = 42;
  constexpr int kFibers = 16;
  constexpr size_t kRegion = 64 * 1024;  // each fiber's own
  File file;
  InFiber([&] { file = MustOpen(Path(), O_RDWR | O_CREAT); });
  BlockingCounter done(kFibers);
  for (uint32_t i = 0; i < kFibers; ++i) {
    pool_->at(i % 2)->DispatchFiber("model", [&, i] {
      SCOPED_TRACE("seed " + std::to_string(kSeed));
      Random random(kSeed + i);
      std::string model(kRegion, '\0');
      const uint64_t base = i * kRegion;
      EXPECT_FALSE(file.WriteAt(base, model));
      for (int step = 0; step < 60; ++step) {
        const size_t offset = random.Uniform(kRegion);
        const size_t size = random.Uniform(kRegion - offset + 1);
        if (random.OneIn(2)) {
          const std::string bytes(size, static_cast<char>('a' + random.Uniform(26)));
          EXPECT_FALSE(file.WriteAt(base + offset, bytes));
          model.replace(offset, size, bytes);
        } else {
          EXPECT_EQ(MustRead(file, base + offset, size), model.substr(offset, size));
        }
      }
      done.Done();
    });
  }
  done.Wait();
  InFiber([&] {
    uint64_t size = 0;
    EXPECT_FALSE(file.Size(&size));
    EXPECT_EQ(size, kFibers * kRegion);
    EXPECT_FALSE(file.Close());
  });
}

TEST_P(FileTest, NoDescriptorIsLeftOpen) {
  const auto count = [] {
    int open_now = 0;
    DIR* directory = opendir("/proc/self/fd");
    while (directory != nullptr && readdir(directory) != nullptr) ++open_now;
    closedir(directory);
    return open_now;
  };
  const int before = count();
  InFiber([&] {
    for (int i = 0; i < 50; ++i) {
      File file = MustOpen(Path(), O_RDWR | O_CREAT);
      File moved(std::move(file));
      EXPECT_FALSE(file.is_open());
      if (i % 2 == 0) {
        EXPECT_FALSE(moved.Close());
      }
    }
  });
  EXPECT_EQ(count(), before);
}

TEST_P(FileTest, ALoopMayEndRightAfterItsLastOperation) {
  // The helper that wakes the loop must have left it by then (sanitizers would see it otherwise).
  for (int i = 0; i < 30; ++i) {
    ProactorPool pool({.threads = 1, .force_epoll = GetParam()});
    pool.Start();
    pool.at(0)->DispatchFiber("last", [] {
      File file;
      EXPECT_FALSE(file.Open("/dev/null", O_WRONLY));
      EXPECT_FALSE(file.WriteAt(0, "x"));
      EXPECT_FALSE(file.Close());
    });
    pool.Stop();
  }
}

TEST(BlockingPoolTest, MoreCallsThanHelpersAllRunAndNeverMoreThanTwoAtOnce) {
  ProactorPool pool({.threads = 2, .force_epoll = true});
  pool.Start();
  constexpr int kCalls = 200;
  std::atomic<unsigned> running{0}, most{0}, ran{0};
  BlockingCounter done(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    pool.at(i % 2)->DispatchFiber("caller", [&] {
      EXPECT_TRUE(RunBlocking([&] {
        const unsigned now = ++running;
        unsigned seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        ++ran;
        --running;
      }));
      done.Done();
    });
  }
  done.Wait();
  EXPECT_EQ(ran, static_cast<unsigned>(kCalls));
  EXPECT_LE(most, kBlockingThreadsMax);
  pool.Stop();
}

// With the thread sanitizer: a helper that wakes a fiber may not touch a loop that has ended.
TEST(BlockingPoolTest, LoopsEndWhileOthersCall) {
  const auto call = [] {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(RunBlocking([] {}));
  };
  ProactorPool others({.threads = 2, .force_epoll = true});
  others.Start();
  std::atomic<bool> is_over{false};
  for (int i = 0; i < 4; ++i) {
    others.at(i % 2)->DispatchFiber("other", [&] {
      while (!is_over) call();
    });
  }
  for (int i = 0; i < 100; ++i) {
    ProactorPool pool({.threads = 1, .force_epoll = true});
    pool.Start();
    for (int fiber = 0; fiber < 4; ++fiber) pool.at(0)->DispatchFiber("caller", call);
    pool.Stop();
  }
  is_over = true;
  others.Stop();
}

}  // namespace
}  // namespace helio
