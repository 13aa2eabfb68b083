// SPDX-License-Identifier: Apache-2.0
// Files in memory that fail when a test wants them to, and that know what a machine would still
// have if it stopped. Thread: any, but for what a test sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "helio/base/random.h"
#include "storage/file_layer.h"

namespace dfly {

class MemoryFiles final : public FileLayer {
 public:
  // What is read. A file that a test puts here is on the device with all it has.
  std::map<std::string, std::string> files;
  // So many bytes, of all files together, are written; then the disk is full.
  size_t fails_after = SIZE_MAX;
  // So many calls succeed; then so many are input/output errors. For all that is not a read. A
  // write with a sync behind it is two.
  size_t calls_left = SIZE_MAX;
  size_t calls_failing = SIZE_MAX;
  std::error_code sync_error;
  // Of Lock.
  std::error_code lock_error;
  // Called before each call; may suspend.
  std::function<void()> pause = [] {};

  MemoryFiles();
  ~MemoryFiles() override;

  // All is on the device; there was nothing before. REQUIRES: no file is open.
  void Restart(std::map<std::string, std::string> left);
  // The files that the machine has if it stops now, and starts again. Bytes that were not synced
  // are there or not, each sector for itself. Creations, renames and removals that no SyncDirectory
  // followed have happened or not: often up to one of them, at times each for itself.
  std::map<std::string, std::string> AfterCrash(helio::Random* random);

  std::error_code Create(const std::string& path, std::unique_ptr<OutputFile>* file) override;
  std::error_code Open(const std::string& path, std::unique_ptr<InputFile>* file) override;
  std::error_code OpenAppend(const std::string& path, uint64_t size, size_t reserve_bytes,
                             std::unique_ptr<AppendFile>* file) override;
  // There are no directories: only paths. It is one call all the same.
  std::error_code MakeDirectory(const std::string& path) override;
  std::error_code Rename(const std::string& from, const std::string& to) override;
  std::error_code Remove(const std::string& path) override;
  std::error_code SyncDirectory(const std::string& path) override;
  std::error_code List(const std::string& path, std::vector<std::string>* names) override;
  // Nobody is kept out: a test looks at the files while a server has them.
  // Makes no file.
  std::error_code Lock(const std::string& path, std::unique_ptr<FileLock>* lock) override;

 private:
  // A file that may have several names in a life, and none.
  struct Node {
    std::string synced;   // what the device has for sure
    std::string removed;  // the content when its last name was taken away
    // Where the content may differ from `synced`, and a sync would make it the same. What a failed
    // sync has left out differs for ever.
    size_t dirty_begin = SIZE_MAX;
    size_t dirty_end = 0;

    void Touch(size_t begin, size_t end);
  };
  using NodePtr = std::shared_ptr<Node>;
  // A change of a directory that is not synced. `from` is empty for a creation, `to` for a removal.
  struct Change {
    std::string from, to;
    NodePtr node;
  };

  class Output;
  class Input;
  class Blocks;

  // As a real one's wait for the kernel.
  void Pause();
  // The error of the next call, if it fails.
  std::error_code Step();

  // What follows: with mutex_ held.
  // The node of a file; one that a test has made gets it now.
  NodePtr NodeOf(const std::string& path);
  // Null: `node` has no name any more.
  std::string* ContentOf(const std::string& path, const NodePtr& node);
  // Writes what the disk has room for.
  std::error_code WriteLocked(const std::string& path, const NodePtr& node, uint64_t offset,
                              std::string_view bytes);
  void SyncLocked(const std::string& path, const NodePtr& node);
  void Unlink(const std::string& path);

  // A sync, which fails if `Step` or sync_error says so: then what is dirty never gets synced.
  std::error_code SyncNode(const std::string& path, const NodePtr& node);

  std::mutex mutex_;
  std::map<std::string, NodePtr> nodes_;         // by the names that programs see
  std::map<std::string, NodePtr> synced_nodes_;  // by the names that the device has for sure
  std::vector<Change> changes_;                  // that lead from those to these
};

}  // namespace dfly
