// SPDX-License-Identifier: Apache-2.0
#include "storage/file_layer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "helio/io/blocking_pool.h"
#include "helio/io/file.h"
#include "storage/append_file.h"

namespace dfly {

namespace {

// One write of a file that is written from one end to the other.
constexpr size_t kOutputBytes = 256 * 1024;

// Past the page cache, but for the end that fills no block. With it the kernel copies all that a
// save writes on threads of its own, and the last sync of the file waits until the device has it:
// requests waited for both, by up to 5 ms (docs/benchmarks.md, rewrites).
class SystemOutput final : public OutputFile {
 public:
  // REQUIRES: opened with O_DIRECT.
  explicit SystemOutput(helio::File file)
      : file_(std::move(file)), blocks_(kOutputBytes / kFileBlockSize) {}

  std::error_code Write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const size_t part = std::min(bytes.size(), kOutputBytes - used_);
      std::memcpy(buffer() + used_, bytes.data(), part);
      used_ += part;
      bytes.remove_prefix(part);
      if (used_ < kOutputBytes) break;
      if (auto error = Put({buffer(), used_})) return error;
      used_ = 0;
    }
    return {};
  }
  std::error_code SyncAndClose() override {
    const size_t whole_blocks = used_ / kFileBlockSize * kFileBlockSize;
    std::error_code error = Put({buffer(), whole_blocks});
    if (!error) error = Put({buffer() + whole_blocks, used_ - whole_blocks});
    if (!error) error = file_.Sync(false);
    const std::error_code close_error = file_.Close();
    return error ? error : close_error;
  }

 private:
  char* buffer() { return blocks_.front().bytes; }
  std::error_code Put(std::string_view bytes) {
    const std::error_code error = file_.WriteAt(offset_, bytes);
    if (!error) offset_ += bytes.size();
    return error;
  }

  helio::File file_;
  std::vector<FileBlock> blocks_;
  size_t used_ = 0;      // of them, bytes
  uint64_t offset_ = 0;  // of the file; where they go
};

class SystemInput final : public InputFile {
 public:
  SystemInput(helio::File file, uint64_t size) : file_(std::move(file)), size_(size) {}

  uint64_t size() const override { return size_; }
  std::error_code ReadAt(uint64_t offset, char* out, size_t size, size_t* read) override {
    return file_.ReadAt(offset, out, size, read);
  }

 private:
  const helio::File file_;
  const uint64_t size_;
};

class SystemBlocks final : public BlockFile {
 public:
  explicit SystemBlocks(helio::File file) : file_(std::move(file)) {}

  WriteResult Write(uint64_t offset, std::span<iovec> pieces, bool sync) override {
    const helio::File::WriteResult result = file_.WriteAndSync(offset, pieces, sync);
    return {.error = result.error, .sync_failed = result.sync_failed};
  }
  std::error_code Read(uint64_t offset, char* out, size_t size, size_t* read) override {
    return file_.ReadAt(offset, out, size, read);
  }
  std::error_code Sync(bool data_only) override { return file_.Sync(data_only); }
  std::error_code Resize(uint64_t size) override { return file_.Truncate(size); }
  std::error_code Close() override { return file_.Close(); }

 private:
  helio::File file_;
};

class SystemLock final : public FileLock {
 public:
  explicit SystemLock(int fd) : fd_(fd) {}
  ~SystemLock() override { close(fd_); }

 private:
  const int fd_;
};

// A system call that io_uring has not, or not everywhere: on a helper thread.
template <typename Call>
std::error_code Blocking(Call call) {
  int error = 0;
  const bool ran = helio::RunBlocking([&] { error = call() == 0 ? 0 : errno; });
  return {ran ? error : EAGAIN, std::generic_category()};
}

class System final : public FileLayer {
 public:
  std::error_code Create(const std::string& path, std::unique_ptr<OutputFile>* file) override {
    helio::File opened;
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT;
    if (auto error = opened.Open(path, kFlags, 0644)) return error;
    *file = std::make_unique<SystemOutput>(std::move(opened));
    return {};
  }
  std::error_code Open(const std::string& path, std::unique_ptr<InputFile>* file) override {
    helio::File opened;
    if (auto error = opened.Open(path, O_RDONLY)) return error;
    uint64_t size = 0;
    if (auto error = opened.Size(&size)) return error;
    *file = std::make_unique<SystemInput>(std::move(opened), size);
    return {};
  }
  std::error_code OpenAppend(const std::string& path, uint64_t size, size_t reserve_bytes,
                             std::unique_ptr<AppendFile>* file) override {
    helio::File opened;
    constexpr int kFlags = O_RDWR | O_CREAT;
    const int direct = reserve_bytes > 0 ? O_DIRECT : 0;
    if (auto error = opened.Open(path, kFlags | direct, 0644)) return error;
    uint64_t file_size = 0;
    if (auto error = opened.Size(&file_size)) return error;
    return MakeAppendFile(std::make_unique<SystemBlocks>(std::move(opened)), file_size, size,
                          reserve_bytes, file);
  }
  std::error_code MakeDirectory(const std::string& path) override {
    return Blocking([&] { return mkdir(path.c_str(), 0755) == 0 || errno == EEXIST ? 0 : -1; });
  }
  std::error_code Rename(const std::string& from, const std::string& to) override {
    return Blocking([&] { return rename(from.c_str(), to.c_str()); });
  }
  std::error_code Remove(const std::string& path) override {
    return Blocking([&] { return remove(path.c_str()); });
  }
  std::error_code SyncDirectory(const std::string& path) override {
    return Blocking([&] {
      const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      if (fd < 0) return -1;
      const int result = fsync(fd);
      const int error = errno;
      close(fd);
      errno = error;
      return result;
    });
  }
  std::error_code List(const std::string& path, std::vector<std::string>* names) override {
    names->clear();
    return Blocking([&] {
      DIR* directory = opendir(path.c_str());
      if (directory == nullptr) return -1;
      errno = 0;
      while (const dirent* entry = readdir(directory)) names->emplace_back(entry->d_name);
      const int error = errno;
      closedir(directory);
      errno = error;
      return error == 0 ? 0 : -1;
    });
  }
  std::error_code Lock(const std::string& path, std::unique_ptr<FileLock>* lock) override {
    return Blocking([&] {
      const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
      if (fd < 0) return -1;
      if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *lock = std::make_unique<SystemLock>(fd);
        return 0;
      }
      const int error = errno == EWOULDBLOCK ? EBUSY : errno;
      close(fd);
      errno = error;
      return -1;
    });
  }
};

}  // namespace

FileLayer& SystemFiles() {
  static System system;
  return system;
}

}  // namespace dfly
