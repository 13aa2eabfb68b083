// SPDX-License-Identifier: Apache-2.0
#include "server/base/machine.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace dfly {
namespace {

// A folder that looks like /sys/fs/cgroup.
class CgroupTest : public testing::Test {
 protected:
  CgroupTest() {
    std::string name = (std::filesystem::temp_directory_path() / "dfly-cgroup-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~CgroupTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  CgroupLimits Read(const std::string& self) { return ReadCgroupLimits(self, root_.string()); }

  std::filesystem::path root_;
};

TEST_F(CgroupTest, WithoutFilesThereAreNoLimits) {
  const CgroupLimits limits = Read("0::/a/b\n");
  EXPECT_EQ(limits.cpus, 0);
  EXPECT_EQ(limits.memory_bytes, 0u);
}

TEST_F(CgroupTest, V2TakesTheLowestOnTheWayUp) {
  Write("a/cpu.max", "400000 100000\n");
  Write("a/memory.max", "67108864\n");
  Write("a/b/cpu.max", "50000 100000\n");
  Write("a/b/memory.max", "max\n");
  const CgroupLimits limits = Read("0::/a/b\n");
  EXPECT_DOUBLE_EQ(limits.cpus, 0.5);
  EXPECT_EQ(limits.memory_bytes, 64u << 20);
}

TEST_F(CgroupTest, AContainerSeesItsOwnGroupAsTheRoot) {
  Write("cpu.max", "150000 100000\n");
  Write("memory.max", "1000000\n");
  const CgroupLimits limits = Read("0::/docker/0123/unseen\n");
  EXPECT_DOUBLE_EQ(limits.cpus, 1.5);
  EXPECT_EQ(limits.memory_bytes, 1'000'000u);
}

TEST_F(CgroupTest, V2SaysMaxForNoLimit) {
  Write("cpu.max", "max 100000\n");
  Write("memory.max", "max\n");
  const CgroupLimits limits = Read("0::/\n");
  EXPECT_EQ(limits.cpus, 0);
  EXPECT_EQ(limits.memory_bytes, 0u);
}

TEST_F(CgroupTest, V1HasAHierarchyForEachController) {
  Write("cpu/docker/x/cpu.cfs_quota_us", "250000\n");
  Write("cpu/docker/x/cpu.cfs_period_us", "100000\n");
  Write("memory/docker/x/memory.limit_in_bytes", "268435456\n");
  const CgroupLimits limits =
      Read("12:pids:/docker/x\n4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n1:name=systemd:/\n");
  EXPECT_DOUBLE_EQ(limits.cpus, 2.5);
  EXPECT_EQ(limits.memory_bytes, 256u << 20);
}

TEST_F(CgroupTest, V1SaysNoLimitWithSpecialNumbers) {
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  Write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  const CgroupLimits limits = Read("4:cpu:/\n3:memory:/\n");
  EXPECT_EQ(limits.cpus, 0);
  EXPECT_EQ(limits.memory_bytes, 0u);
}

TEST_F(CgroupTest, GarbageIsNoLimit) {
  Write("cpu.max", "abc");
  Write("memory.max", "");
  for (const char* self : {"", "\n\n", "0:", "0::", "::x", "nonsense", "0::/\n"}) {
    const CgroupLimits limits = Read(self);
    EXPECT_EQ(limits.cpus, 0) << self;
    EXPECT_EQ(limits.memory_bytes, 0u) << self;
  }
}

TEST(MachineTest, ThreadsFollowCoresQuotaAndMemory) {
  Machine machine;
  machine.cpus = 8;
  machine.memory_bytes = 16ull << 30;
  EXPECT_EQ(machine.default_threads(), 8u);
  machine.cgroup.cpus = 2.5;
  EXPECT_EQ(machine.default_threads(), 3u);
  machine.cgroup.cpus = 0.1;
  EXPECT_EQ(machine.default_threads(), 1u);
  machine.cgroup = {.cpus = 0, .memory_bytes = 128 << 20};
  EXPECT_EQ(machine.default_threads(), 4u);
  machine.cgroup.memory_bytes = 1 << 20;
  EXPECT_EQ(machine.default_threads(), 1u);
}

TEST(MachineTest, SomeDescriptorsAreForTheServerItself) {
  EXPECT_EQ(ClientsFor(10'000, 1), 9965u);
  EXPECT_EQ(ClientsFor(100, 4), 56u);
  EXPECT_EQ(ClientsFor(10, 4), 1u);
}

TEST(MachineTest, TheProcessHasMemory) {
  const ProcessMemory memory = ReadProcessMemory();
  EXPECT_GT(memory.anonymous_bytes, 0u);
  EXPECT_GT(memory.rss_bytes, memory.anonymous_bytes);
}

}  // namespace
}  // namespace dfly
