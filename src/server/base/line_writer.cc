// SPDX-License-Identifier: Apache-2.0
#include "server/base/line_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"

namespace dfly {

LineWriter::LineWriter(std::string path, size_t buffered_max, std::string what)
    : path_(std::move(path)), buffered_max_(buffered_max), what_(std::move(what)) {
  waiting_.reserve(buffered_max_);  // nothing is allocated under the lock
}

LineWriter::~LineWriter() {
  if (!thread_.joinable()) return;
  must_end_ = true;
  Wake();
  thread_.join();
  close(fd_);
}

bool LineWriter::EndWithin(uint64_t millis) {
  must_end_ = true;
  Wake();
  const uint64_t until_ns = helio::MonotonicNanos() + millis * helio::kNanosPerMilli;
  std::unique_lock lock(end_mutex_);
  while (!has_ended_ && helio::MonotonicNanos() < until_ns) ended_.WaitUntil(lock, until_ns);
  return has_ended_;
}

std::string LineWriter::OpenFile() {
  // Who is not its owner has no business in it.
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return fmt::format("cannot open {}: {}", path_, strerror(errno));
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
  ends_within_line_ = false;
  return "";
}

std::string LineWriter::Open() {
  std::string error = OpenFile();
  if (!error.empty()) return error;
  thread_ = std::thread([this] {
    Run();
    const std::lock_guard guard(end_mutex_);
    has_ended_ = true;
    ended_.NotifyAll();
  });
  return error;
}

void LineWriter::Wake() {
  wakes_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in Run
  wakes_.notify_one();
}

void LineWriter::Write(std::string_view line) {
  bool was_empty = false;
  {
    const std::lock_guard guard(lock_);
    if (waiting_.size() + line.size() + 1 > buffered_max_) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    was_empty = waiting_.empty();
    waiting_ += line;
    waiting_ += '\n';
  }
  if (was_empty) Wake();
}

void LineWriter::Reopen() {
  must_reopen_ = true;
  Wake();
}

void LineWriter::Run() {
  std::string lines;
  lines.reserve(buffered_max_);
  while (true) {
    const uint32_t seen = wakes_.load(std::memory_order_acquire);
    const bool is_end = must_end_;
    if (must_reopen_.exchange(false)) {
      const std::string error = OpenFile();  // if it cannot, the old one is written on
      if (!error.empty()) {
        is_ok_ = false;
        Tell(error);
      }
    }
    lines.clear();
    {
      const std::lock_guard guard(lock_);
      lines.swap(waiting_);
    }
    if (!lines.empty()) {
      WriteAll(lines);
    } else if (is_end) {
      return;
    } else {
      wakes_.wait(seen, std::memory_order_acquire);
    }
  }
}

void LineWriter::WriteAll(std::string_view lines) {
  std::string_view rest = lines;
  int error = 0;
  // What a write has left unfinished is not to spoil the next line as well.
  if (ends_within_line_) {
    if (write(fd_, "\n", 1) == 1) {
      ends_within_line_ = false;
    } else {
      error = errno;
    }
  }
  while (error == 0 && !rest.empty()) {
    const ssize_t size = write(fd_, rest.data(), rest.size());
    if (size > 0) {
      ends_within_line_ = rest[static_cast<size_t>(size) - 1] != '\n';
      rest.remove_prefix(static_cast<size_t>(size));
    } else if (size < 0 && errno != EINTR) {
      error = errno;
    }
  }
  const auto lost = static_cast<uint64_t>(std::ranges::count(rest, '\n'));
  const auto all = static_cast<uint64_t>(std::ranges::count(lines, '\n'));
  is_ok_ = error == 0;
  written_.fetch_add(all - lost, std::memory_order_relaxed);
  dropped_.fetch_add(lost, std::memory_order_relaxed);
  if (error != 0) Tell(fmt::format("cannot write {}: {}", path_, strerror(error)));
}

void LineWriter::Tell(std::string_view why) {
  const uint64_t now_ns = helio::MonotonicNanos();
  if (told_ns_ != 0 && now_ns - told_ns_ < kTellNanos) return;
  told_ns_ = now_ns;
  LOG(ERROR) << what_ << ": " << helio::LogText(why) << "; " << dropped() << " lines are lost";
}

}  // namespace dfly
