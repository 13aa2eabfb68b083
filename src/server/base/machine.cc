// SPDX-License-Identifier: Apache-2.0
#include "server/base/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/text/numbers.h"

namespace dfly {

namespace {

// What a limit's file says; "max" and what is no number are none.
std::optional<int64_t> FirstNumber(const std::string& path, int64_t* second = nullptr) {
  std::istringstream in(ReadFile(path));
  std::string word;
  if (!(in >> word)) return std::nullopt;
  const auto number = ParseInt64(word);
  if (second != nullptr && (in >> word)) *second = ParseInt64(word).value_or(*second);
  return number;
}

void LowerTo(double* limit, double value) {
  if (value > 0 && (*limit == 0 || value < *limit)) *limit = value;
}

// v1 says "no limit" with a number close to 2^63.
void LowerTo(uint64_t* limit, int64_t value) {
  if (value <= 0 || value >= int64_t{1} << 60) return;
  if (*limit == 0 || static_cast<uint64_t>(value) < *limit) *limit = static_cast<uint64_t>(value);
}

void ReadGroup(const std::string& folder, CgroupLimits* limits) {
  int64_t period_us = 100'000;
  auto quota_us = FirstNumber(folder + "/cpu.max", &period_us);
  if (!quota_us) {
    quota_us = FirstNumber(folder + "/cpu.cfs_quota_us");
    period_us = FirstNumber(folder + "/cpu.cfs_period_us").value_or(period_us);
  }
  if (quota_us && *quota_us > 0 && period_us > 0) {
    LowerTo(&limits->cpus, static_cast<double>(*quota_us) / static_cast<double>(period_us));
  }
  for (const char* file : {"/memory.max", "/memory.limit_in_bytes"}) {
    if (const auto bytes = FirstNumber(folder + file)) LowerTo(&limits->memory_bytes, *bytes);
  }
}

// The group and all above it, up to the mount.
void ReadGroups(const std::string& mount, std::string path, CgroupLimits* limits) {
  while (path.size() > 1) {
    ReadGroup(mount + path, limits);
    path.resize(path.find_last_of('/'));
  }
  ReadGroup(mount, limits);
}

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

CgroupLimits ReadCgroupLimits(const std::string& self, const std::string& root) {
  CgroupLimits limits;
  std::istringstream lines(self);
  for (std::string line; std::getline(lines, line);) {  // "4:cpu,cpuacct:/path", v2: "0::/path"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (path.empty() || path[0] != '/') continue;
    if (controllers.empty()) {
      ReadGroups(root, path, &limits);
      continue;
    }
    std::istringstream names(controllers);
    for (std::string name; std::getline(names, name, ',');) {
      if (name == "cpu" || name == "memory") ReadGroups(root + "/" + name, path, &limits);
    }
  }
  return limits;
}

uint64_t Machine::memory_limit() const {
  if (cgroup.memory_bytes == 0) return memory_bytes;
  return memory_bytes == 0 ? cgroup.memory_bytes : std::min(memory_bytes, cgroup.memory_bytes);
}

uint32_t Machine::default_threads() const {
  uint64_t threads = cpus;
  if (cgroup.cpus > 0) {
    threads = std::min(threads, static_cast<uint64_t>(std::ceil(std::min(cgroup.cpus, 1e6))));
  }
  if (memory_limit() > 0) threads = std::min(threads, memory_limit() / kMemoryPerThread);
  return static_cast<uint32_t>(std::max<uint64_t>(threads, 1));
}

Machine ReadMachine() {
  Machine machine;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    machine.cpus = static_cast<uint32_t>(std::max(1, CPU_COUNT(&allowed)));
  } else {  // more cores than the set has room for
    machine.cpus = static_cast<uint32_t>(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN)));
  }
  machine.cgroup = ReadCgroupLimits(ReadFile("/proc/self/cgroup"), "/sys/fs/cgroup");
  const long pages = sysconf(_SC_PHYS_PAGES);
  if (pages > 0) {
    machine.memory_bytes =
        static_cast<uint64_t>(pages) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  return machine;
}

uint64_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return limit.rlim_cur;
}

uint64_t ClientsFor(uint64_t descriptors, uint32_t threads) {
  const uint64_t own = 32 + 3ull * threads;  // files, listeners; a loop's ring and eventfd
  return descriptors > own ? descriptors - own : 1;
}

ProcessMemory ReadProcessMemory() {
  ProcessMemory memory;
  std::istringstream lines(ReadFile("/proc/self/status"));
  for (std::string line; std::getline(lines, line);) {
    const auto kilobytes = [&line] {
      return static_cast<uint64_t>(strtoull(line.c_str() + line.find(':') + 1, nullptr, 10)) << 10;
    };
    if (line.starts_with("VmRSS:")) memory.rss_bytes = kilobytes();
    if (line.starts_with("RssAnon:")) memory.anonymous_bytes = kilobytes();
  }
  return memory;
}

}  // namespace dfly
