// SPDX-License-Identifier: Apache-2.0
// What the machine, or the container that we are in, lets us use. Blocks on small files: for the
// start and for INFO.
#pragma once

#include <cstdint>
#include <string>

namespace dfly {

// Limits of control groups, v1 and v2; those of the process' group and of all above it count.
struct CgroupLimits {
  double cpus = 0;            // 0: no limit
  uint64_t memory_bytes = 0;  // 0: no limit
};

// `self` is the text of /proc/self/cgroup, `root` where the hierarchies are mounted. A group that
// cannot be found there (a container sees its own group as the root) is looked for at the root.
CgroupLimits ReadCgroupLimits(const std::string& self, const std::string& root);

struct Machine {
  uint32_t cpus = 1;  // that the process may run on
  CgroupLimits cgroup;
  uint64_t memory_bytes = 0;  // of the machine

  // What is usable of it.
  uint64_t memory_limit() const;
  // --proactor_threads=0: as many as there are cores to run them, a part of a core counts as one;
  // fewer if each would not have kMemoryPerThread.
  uint32_t default_threads() const;
  static constexpr uint64_t kMemoryPerThread = 32 << 20;
};
Machine ReadMachine();

// Raises the soft limit of open files to the hard one. Returns the limit.
uint64_t RaiseDescriptorLimit();
// How many connections `descriptors` are enough for, besides what a server of so many threads needs
// itself.
uint64_t ClientsFor(uint64_t descriptors, uint32_t threads);

struct ProcessMemory {
  uint64_t rss_bytes = 0;
  uint64_t anonymous_bytes = 0;  // of them, not backed by a file
};
ProcessMemory ReadProcessMemory();

// The whole file, or nothing.
std::string ReadFile(const std::string& path);

}  // namespace dfly
