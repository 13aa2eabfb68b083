// SPDX-License-Identifier: Apache-2.0
// Files in memory that fail when a test wants them to. Thread: any, but for what a test sets.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "helio/fibers/hold.h"
#include "storage/file_layer.h"

namespace dfly {

class MemoryFiles final : public FileLayer {
 public:
  std::map<std::string, std::string> files;
  // So many bytes, of all files together, are written; then the disk is full.
  size_t fails_after = SIZE_MAX;
  // So many calls succeed; then so many are input/output errors. For all that is not a read.
  size_t calls_left = SIZE_MAX;
  size_t calls_failing = SIZE_MAX;
  std::error_code sync_error;
  // Called before each call; may suspend.
  std::function<void()> pause = [] {};

  std::error_code Create(const std::string& path, std::unique_ptr<OutputFile>* file) override {
    if (auto error = Step()) return error;
    const std::lock_guard lock(mutex_);
    files[path].clear();
    *file = std::make_unique<Output>(this, path);
    return {};
  }
  std::error_code Open(const std::string& path, std::unique_ptr<InputFile>* file) override {
    Pause();
    const std::lock_guard lock(mutex_);
    const auto it = files.find(path);
    if (it == files.end()) return std::make_error_code(std::errc::no_such_file_or_directory);
    *file = std::make_unique<Input>(it->second);
    return {};
  }
  std::error_code Rename(const std::string& from, const std::string& to) override {
    if (auto error = Step()) return error;
    const std::lock_guard lock(mutex_);
    const auto it = files.find(from);
    if (it == files.end()) return std::make_error_code(std::errc::no_such_file_or_directory);
    std::string content = std::move(it->second);
    files.erase(it);
    files[to] = std::move(content);
    return {};
  }
  std::error_code Remove(const std::string& path) override {
    if (auto error = Step()) return error;
    const std::lock_guard lock(mutex_);
    if (files.erase(path) == 0) return std::make_error_code(std::errc::no_such_file_or_directory);
    return {};
  }
  std::error_code SyncDirectory(const std::string&) override { return Step(); }
  std::error_code List(const std::string& path, std::vector<std::string>* names) override {
    Pause();
    const std::lock_guard lock(mutex_);
    names->clear();
    for (const auto& [name, content] : files) {
      if (name.find('/') == std::string::npos) {
        if (path == ".") names->push_back(name);
      } else if (name.starts_with(path + "/")) {
        names->push_back(name.substr(path.size() + 1));
      }
    }
    return {};
  }

 private:
  class Output final : public OutputFile {
   public:
    Output(MemoryFiles* files, std::string path) : files_(*files), path_(std::move(path)) {}
    std::error_code Write(std::string_view bytes) override {
      if (auto error = files_.Step()) return error;
      const std::lock_guard lock(files_.mutex_);
      const size_t count = std::min(bytes.size(), files_.fails_after);
      files_.files[path_] += bytes.substr(0, count);
      if (files_.fails_after != SIZE_MAX) files_.fails_after -= count;
      return count == bytes.size() ? std::error_code()
                                   : std::make_error_code(std::errc::no_space_on_device);
    }
    std::error_code SyncAndClose() override {
      if (auto error = files_.Step()) return error;
      return files_.sync_error;
    }

   private:
    MemoryFiles& files_;
    const std::string path_;
  };

  class Input final : public InputFile {
   public:
    explicit Input(std::string content) : content_(std::move(content)) {}
    uint64_t size() const override { return content_.size(); }
    std::error_code ReadAt(uint64_t offset, char* out, size_t size, size_t* read) override {
      *read = offset >= content_.size() ? 0 : std::min(size, content_.size() - offset);
      if (*read > 0) std::memcpy(out, content_.data() + offset, *read);
      return {};
    }

   private:
    const std::string content_;
  };

  // As a real one's wait for the kernel.
  void Pause() {
    const helio::BoundedWait wait(helio::kSystemCall);
    pause();
  }
  std::error_code Step() {
    Pause();
    const std::lock_guard lock(mutex_);
    if (calls_left != 0) {
      if (calls_left != SIZE_MAX) --calls_left;
      return {};
    }
    if (calls_failing == 0) return {};
    if (calls_failing != SIZE_MAX) --calls_failing;
    return std::make_error_code(std::errc::io_error);
  }

  std::mutex mutex_;
};

}  // namespace dfly
