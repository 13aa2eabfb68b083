// SPDX-License-Identifier: Apache-2.0
// What the process is for the system: its log file, its service manager, and what it says when it
// crashes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace dfly {

// Goes on in a process of its own, without a terminal; the calling one ends. Before there are
// threads. `awaits`: the calling one ends only when this one has called EndAwaited, or ends, which
// is a failure; and what is no terminal of stdout and stderr stays. Empty, or why not.
[[nodiscard]] std::string Daemonize(bool awaits = false);
// Once.
void EndAwaited();

// From now on stderr, and with it the log, goes to the end of this file. Empty, or why not.
// Thread: any.
[[nodiscard]] std::string OpenLogFile(const std::string& path);

// --loglevel and CONFIG SET loglevel. False: there is no such. Thread: any.
bool SetLogLevel(std::string_view level);

// Tells systemd, if it has asked for it (Type=notify): "READY=1", "STOPPING=1", "STATUS=...".
void NotifyServiceManager(const std::string& state);
// Until it has read all that it was told, for some seconds at most.
void AwaitServiceManager();

// The names of the commands that a thread has run last, for the report of a crash. Written by its
// thread, which pays one store for each; read by whatever thread crashes.
class RecentCommands {
 public:
  static constexpr size_t kSize = 16;

  // `name` must stay where it is for ever.
  void Note(const char* name) {
    names_[next_.load(std::memory_order_relaxed) % kSize].store(name, std::memory_order_relaxed);
    next_.store(next_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // The i-th newest; null: there were not as many.
  const char* Newest(size_t i) const {
    const uint32_t next = next_.load(std::memory_order_relaxed);
    if (i >= kSize || i >= next) return nullptr;
    return names_[(next - 1 - i) % kSize].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<const char*>, kSize> names_{};
  std::atomic<uint32_t> next_{0};
};

// The calling thread's; it lives as long as the process. Reports name threads by `index`, below
// 1024. REQUIRES: one call for each thread.
RecentCommands* RegisterThreadForCrashes(uint32_t index);

// From now on a crash of any thread (SIGSEGV, SIGABRT and their like) prints where it was, with
// names, and the last commands of all threads, never what was in them. Then the signal does what
// it would have done. Sanitizers have their own reports: with them this does nothing.
void InstallCrashReport(const char* program);

}  // namespace dfly
