// SPDX-License-Identifier: Apache-2.0
#include "server/base/process.h"

#include <absl/debugging/symbolize.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "helio/base/logging.h"
#include "helio/base/sanitizers.h"
#include "server/base/version.h"

namespace dfly {

namespace {

constexpr size_t kThreadsMax = 1024;

RecentCommands recent_of_threads[kThreadsMax];

int awaited = -1;  // EndAwaited writes there

// --- Only what a signal handler may call ---

void Print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void PrintNumber(size_t number) {
  char digits[20];
  size_t size = 0;
  do {
    digits[sizeof(digits) - ++size] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  Print({digits + sizeof(digits) - size, size});
}

void PrintRecentCommands() {
  for (size_t thread = 0; thread < kThreadsMax; ++thread) {
    const RecentCommands& recent = recent_of_threads[thread];
    if (recent.Newest(0) == nullptr) continue;
    Print("Last commands of thread ");
    PrintNumber(thread);
    Print(", the newest first:");
    for (size_t i = 0; i < RecentCommands::kSize; ++i) {
      const char* const name = recent.Newest(i);
      if (name == nullptr) break;
      Print(" ");
      Print(name);
    }
    Print("\n");
  }
  Print("Please report this with the lines above.\n");
}

void PrintAddress(const void* address) {
  auto value = reinterpret_cast<uintptr_t>(address);
  char digits[2 + 2 * sizeof(value)];
  size_t size = 0;
  do {
    digits[sizeof(digits) - ++size] = "0123456789abcdef"[value % 16];
    value /= 16;
  } while (value != 0);
  Print("0x");
  Print({digits + sizeof(digits) - size, size});
}

// backtrace() walks by the tables for exceptions, so it needs no frame pointers, and it passes from
// the signal's stack to that of the fiber.
void PrintStack() {
  constexpr int kFramesMax = 64;
  static void* frames[kFramesMax];  // one thread prints at a time
  const int count = backtrace(frames, kFramesMax);
  for (int i = 0; i < count; ++i) {
    static char name[512];
    // The call, not what would come after it.
    const auto* const call = static_cast<const char*>(frames[i]) - 1;
    Print("    @ ");
    PrintAddress(frames[i]);
    Print("  ");
    Print(absl::Symbolize(call, name, sizeof(name)) ? name : "(unknown)");
    Print("\n");
  }
}

std::string_view NameOfSignal(int number) {
  switch (number) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGABRT:
      return "SIGABRT";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    default:
      return "SIGILL";
  }
}

[[maybe_unused]] void OnCrash(int number, siginfo_t* info, void*) {
  static std::atomic<bool> is_printing{false};
  // Whoever crashes meanwhile waits until the first one has ended the process.
  if (is_printing.exchange(true)) {
    while (true) pause();
  }
  alarm(10);  // names may be looked up in what is broken
  Print("\n*** dragonfly ");
  Print(kVersion);
  Print(" crashed by ");
  Print(NameOfSignal(number));
  if (number == SIGSEGV || number == SIGBUS) {
    Print(" at ");
    PrintAddress(info->si_addr);
  }
  Print(" ***\n");
  PrintStack();
  PrintRecentCommands();
  // As if this had not been: with a core file, where these are wanted.
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

std::string Daemonize(bool awaits) {
  int ends[2] = {-1, -1};
  if (awaits && pipe2(ends, O_CLOEXEC) != 0) {
    return fmt::format("cannot make a pipe: {}", strerror(errno));
  }
  const pid_t child = fork();
  if (child < 0) return fmt::format("cannot fork: {}", strerror(errno));
  if (child > 0 && !awaits) _exit(0);
  if (child > 0) {
    close(ends[1]);
    char sign = 0;
    ssize_t size = -1;
    do size = read(ends[0], &sign, 1);
    while (size < 0 && errno == EINTR);
    _exit(size == 1 ? 0 : 1);
  }
  if (awaits) close(ends[0]);
  awaited = ends[1];
  setsid();
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return fmt::format("cannot open /dev/null: {}", strerror(errno));
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const bool stays = awaits && fd != STDIN_FILENO && isatty(fd) == 0 && fcntl(fd, F_GETFD) >= 0;
    if (!stays) dup2(null, fd);
  }
  close(null);
  return "";
}

void EndAwaited() {
  if (awaited < 0) return;
  // Whoever reads the caller's pipes waits for their end. Files, and the journal's socket, stay.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status = {};
    if (null >= 0 && fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode)) dup2(null, fd);
  }
  if (null >= 0) close(null);
  [[maybe_unused]] const ssize_t size = write(awaited, "1", 1);
  close(std::exchange(awaited, -1));
}

std::string OpenLogFile(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return fmt::format("cannot open the log file {}: {}", path, strerror(errno));
  dup2(fd, STDERR_FILENO);
  close(fd);
  return "";
}

bool SetLogLevel(std::string_view level) {
  if (level == "debug" || level == "verbose" || level == "notice") {
    FLAGS_minloglevel = google::GLOG_INFO;
    FLAGS_v = level == "debug" ? 2 : level == "verbose" ? 1 : 0;
    return true;
  }
  if (level != "warning" && level != "nothing") return false;
  FLAGS_minloglevel = level == "warning" ? google::GLOG_WARNING : google::GLOG_FATAL;
  FLAGS_v = 0;
  return true;
}

void NotifyServiceManager(const std::string& state) { sd_notify(0, state.c_str()); }

void AwaitServiceManager() {
  constexpr uint64_t kPatienceMicros = 3'000'000;
  sd_notify_barrier(0, kPatienceMicros);
}

RecentCommands* RegisterThreadForCrashes(uint32_t index) {
#if !defined(HELIO_ASAN) && !defined(HELIO_TSAN)
  constexpr size_t kSignalStackBytes = 64 * 1024;  // names are looked up on it
  // A fiber's stack may be what has overflowed.
  stack_t stack = {};
  stack.ss_size = kSignalStackBytes;
  stack.ss_sp = mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack.ss_sp != MAP_FAILED) sigaltstack(&stack, nullptr);
#endif
  return &recent_of_threads[index % kThreadsMax];
}

void InstallCrashReport([[maybe_unused]] const char* program) {
#if !defined(HELIO_ASAN) && !defined(HELIO_TSAN)
  absl::InitializeSymbolizer(program);
  // Loads what it needs, which a handler could not.
  void* frame = nullptr;
  backtrace(&frame, 1);
  struct sigaction action = {};
  action.sa_sigaction = OnCrash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) sigaction(number, &action, nullptr);
#endif
}

}  // namespace dfly
