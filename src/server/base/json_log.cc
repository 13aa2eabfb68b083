// SPDX-License-Identifier: Apache-2.0
#include "server/base/json_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "server/base/json_text.h"

namespace dfly {

namespace {

constexpr std::array<std::string_view, google::NUM_SEVERITIES> kLevels = {"info", "warning",
                                                                          "error", "fatal"};

int64_t ThreadId() {
  static thread_local const int64_t id = syscall(SYS_gettid);
  return id;
}

void WriteTo(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

std::string LineOf(std::string_view level, int64_t micros, std::string_view source,
                   std::string_view message) {
  JsonLine line;
  line.Text("time", JsonTime(micros)).Text("level", level).Number("thread", ThreadId());
  if (!source.empty()) line.Text("source", source);
  return line.Text("message", message).Take() + "\n";
}

// Gets nothing: glog's own text is not wanted.
class NoLogger final : public google::base::Logger {
 public:
  void Write(bool, time_t, const char*, size_t) override {}
  void Flush() override {}
  google::uint32 LogSize() override { return 0; }
};

// glog calls it for one message after the other, on the thread that logs.
class JsonSink final : public google::LogSink {
 public:
  // `file`: -1: there is none.
  explicit JsonSink(int file)
      : file_(file),
        to_stderr_(FLAGS_logtostderr || FLAGS_alsologtostderr),
        stderr_from_(FLAGS_stderrthreshold) {
    static NoLogger no_logger;
    for (int level = 0; level < google::NUM_SEVERITIES; ++level) {
      google::base::SetLogger(level, &no_logger);
    }
    // glog writes there besides, unless it is to write files, and no message is bad enough.
    FLAGS_logtostderr = FLAGS_alsologtostderr = false;
    FLAGS_stderrthreshold = google::NUM_SEVERITIES;
  }

  using LogSink::send;
  void send(google::LogSeverity severity, const char*, const char* source, int line,
            const google::LogMessageTime& time, const char* message, size_t size) override {
    const int64_t micros = int64_t{time.timestamp()} * 1'000'000 + time.usec();
    const std::string text =
        LineOf(kLevels[severity], micros, fmt::format("{}:{}", source, line), {message, size});
    if (to_stderr_ || severity >= stderr_from_) WriteTo(STDERR_FILENO, text);
    if (file_ >= 0) WriteTo(file_, text);
  }

 private:
  const int file_;
  const bool to_stderr_;
  const int stderr_from_;
};

}  // namespace

std::string LogAsJson() {
  int file = -1;
  if (!FLAGS_logtostderr) {
    // glog's own files begin with lines that are no JSON.
    const std::string path = fmt::format("{}/dragonfly.log.json.{}", FLAGS_log_dir, getpid());
    file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) return fmt::format("--log_dir: cannot open {}: {}", path, strerror(errno));
  }
  // As long as the process: what runs at its very end may log, too.
  static JsonSink* const sink = std::make_unique<JsonSink>(file).release();
  google::AddLogSink(sink);
  return "";
}

void PrintJsonError(std::string_view message) {
  WriteTo(STDERR_FILENO, LineOf("error", helio::UnixMicros(), "", message));
}

}  // namespace dfly
