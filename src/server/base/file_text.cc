// SPDX-License-Identifier: Apache-2.0
#include "server/base/file_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace dfly {

namespace {

constexpr size_t kFileMax = 64 << 20;  // bytes

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

std::string ReadTextFile(const std::string& path, std::string* text) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return strerror(EISDIR);
  std::ifstream file(path, std::ios::binary);
  if (!file) return strerror(errno);
  char buffer[16 * 1024];
  while (file.read(buffer, sizeof(buffer)) || file.gcount() > 0) {
    text->append(buffer, static_cast<size_t>(file.gcount()));
    if (text->size() > kFileMax) return fmt::format("larger than {} bytes", kFileMax);
  }
  return file.bad() ? strerror(EIO) : "";
}

std::string ReplaceTextFile(const std::string& path, std::string_view text) {
  struct stat old = {};
  const mode_t mode = stat(path.c_str(), &old) == 0 ? old.st_mode & 0777 : 0600;
  const std::string temporary = fmt::format("{}.tmp-{}", path, getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return fmt::format("opening {}: {}", temporary, strerror(errno));
  std::string error;
  // umask may have taken some of them.
  if (fchmod(fd, mode) != 0 || !WriteAll(fd, text) || fsync(fd) != 0) error = strerror(errno);
  close(fd);
  if (error.empty() && rename(temporary.c_str(), path.c_str()) != 0) error = strerror(errno);
  if (!error.empty()) unlink(temporary.c_str());
  return error;
}

}  // namespace dfly
