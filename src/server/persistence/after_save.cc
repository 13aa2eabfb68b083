// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/after_save.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "helio/io/blocking_pool.h"

namespace dfly {

namespace {

// Begins it; 0, or why not. It gets none of the server's files but those of its output, and no
// blocked signals.
int Spawn(const std::vector<std::string>& words, const std::string& file, pid_t* pid) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  char path[PATH_MAX];
  const bool is_known = realpath(file.c_str(), path) != nullptr;
  argv.push_back(is_known ? path : const_cast<char*>(file.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  sigset_t none;
  sigemptyset(&none);
  sigset_t ignored;
  sigemptyset(&ignored);
  sigaddset(&ignored, SIGPIPE);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setsigdefault(&how, &ignored);
  // Signals of a terminal are for the server.
  posix_spawnattr_setpgroup(&how, 0);
  posix_spawnattr_setflags(&how,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawnp(pid, argv[0], &files, &how, argv.data(), environ);
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

AfterSave::AfterSave(const std::string& command) {
  std::istringstream words(command);
  for (std::string word; words >> word;) words_.push_back(word);
}

void AfterSave::Start(const std::string& file) {
  if (words_.empty()) return;
  if (waiting_.size() == kWaitingMax) {
    ++facts_.skipped;
    LOG(WARNING) << "after_save_command: it is too slow, not run for "
                 << helio::LogText(waiting_.front());
    waiting_.pop_front();
  }
  waiting_.push_back(file);
  if (std::exchange(has_fiber_, true)) return;
  helio::Fiber("after save", [this] {
    while (!waiting_.empty()) {
      const std::string next = std::move(waiting_.front());
      waiting_.pop_front();
      facts_.is_running = true;
      Run(next);
      facts_.is_running = false;
    }
    has_fiber_ = false;
  }).Detach();
}

void AfterSave::Stop() {
  is_stopping_ = true;
  while (has_fiber_) helio::this_fiber::SleepForMillis(1);
}

void AfterSave::Run(const std::string& file) {
  pid_t pid = 0;
  int error = 0;
  if (!helio::RunBlocking([&] { error = Spawn(words_, file, &pid); })) error = EAGAIN;
  if (error != 0) return NoteEnd(file, strerror(error), -1);
  LOG(INFO) << "after_save_command: process " << pid << " has " << helio::LogText(file);
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid && WIFEXITED(status)) return NoteEnd(file, "", WEXITSTATUS(status));
    if (ended == pid) return NoteEnd(file, "", 128 + WTERMSIG(status));
    if (ended < 0 && errno != EINTR) return NoteEnd(file, strerror(errno), -1);
    if (is_stopping_) return;  // the system looks after it
    helio::this_fiber::SleepForMillis(kLookMillis);
  }
}

void AfterSave::NoteEnd(const std::string& file, const std::string& error, int64_t status) {
  ++facts_.runs;
  facts_.last_status = status;
  if (status == 0) {
    LOG(INFO) << "after_save_command: done with " << helio::LogText(file);
    return;
  }
  ++facts_.failures;
  LOG(ERROR) << "after_save_command: "
             << (status < 0 ? fmt::format("cannot run {}: {}", words_[0], error)
                            : fmt::format("{} has ended with status {}", words_[0], status))
             << ", " << helio::LogText(file) << " is only here";
}

}  // namespace dfly
