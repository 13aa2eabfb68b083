// SPDX-License-Identifier: Apache-2.0
#include "storage/memory_files.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "helio/fibers/hold.h"
#include "storage/append_file.h"

namespace dfly {

namespace {

// What a disk writes whole or not at all.
constexpr size_t kSector = 512;

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// `synced` with the sectors of `content` that were written before the machine stopped.
std::string Torn(const std::string& synced, const std::string& content, helio::Random* random) {
  if (synced == content || random->OneIn(4)) return synced;
  if (random->OneIn(4)) return content;
  // The size is of before, of now, or in between: of what was written first.
  const size_t low = std::min(synced.size(), content.size());
  const size_t high = std::max(synced.size(), content.size());
  std::string torn(random->OneIn(2) ? content.size() : random->Between(low, high), '\0');
  // Usually most are there, or few.
  const uint64_t one_in = random->Between(2, 20);
  const bool usually_new = random->OneIn(2);
  for (size_t begin = 0; begin < torn.size(); begin += kSector) {
    // Behind what the file was cut to nothing new was written.
    const bool is_new = begin < content.size() && random->OneIn(one_in) != usually_new;
    const std::string& of = is_new ? content : synced;
    if (begin >= of.size()) continue;  // a hole
    const size_t count = std::min({kSector, of.size() - begin, torn.size() - begin});
    std::memcpy(torn.data() + begin, of.data() + begin, count);
  }
  return torn;
}

}  // namespace

void MemoryFiles::Node::Touch(size_t begin, size_t end) {
  dirty_begin = std::min(dirty_begin, begin);
  dirty_end = std::max(dirty_end, end);
}

class MemoryFiles::Output final : public OutputFile {
 public:
  Output(MemoryFiles* files, std::string path, NodePtr node)
      : files_(*files), path_(std::move(path)), node_(std::move(node)) {}
  std::error_code Write(std::string_view bytes) override {
    if (auto error = files_.Step()) return error;
    const std::lock_guard lock(files_.mutex_);
    const auto* content = files_.ContentOf(path_, node_);
    return files_.WriteLocked(path_, node_, content == nullptr ? 0 : content->size(), bytes);
  }
  std::error_code SyncAndClose() override { return files_.SyncNode(path_, node_); }

 private:
  MemoryFiles& files_;
  const std::string path_;
  const NodePtr node_;
};

class MemoryFiles::Input final : public InputFile {
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

class MemoryFiles::Blocks final : public BlockFile {
 public:
  Blocks(MemoryFiles* files, std::string path, NodePtr node)
      : files_(*files), path_(std::move(path)), node_(std::move(node)) {}

  WriteResult Write(uint64_t offset, std::span<iovec> pieces, bool sync) override {
    if (auto error = files_.Step()) return {.error = error};
    {
      const std::lock_guard lock(files_.mutex_);
      for (const iovec& piece : pieces) {
        const std::string_view bytes(static_cast<const char*>(piece.iov_base), piece.iov_len);
        if (auto error = files_.WriteLocked(path_, node_, offset, bytes)) return {.error = error};
        offset += bytes.size();
      }
    }
    if (!sync) return {};
    const std::error_code error = Sync(true);
    return {.error = error, .sync_failed = static_cast<bool>(error)};
  }
  std::error_code Read(uint64_t offset, char* out, size_t size, size_t* read) override {
    files_.Pause();
    const std::lock_guard lock(files_.mutex_);
    const std::string* const content = files_.ContentOf(path_, node_);
    if (content == nullptr) return std::make_error_code(std::errc::io_error);
    return Input(*content).ReadAt(offset, out, size, read);
  }
  std::error_code Sync(bool) override { return files_.SyncNode(path_, node_); }
  std::error_code Resize(uint64_t size) override {
    if (auto error = files_.Step()) return error;
    const std::lock_guard lock(files_.mutex_);
    std::string* const content = files_.ContentOf(path_, node_);
    if (content == nullptr) return {};
    node_->Touch(std::min(content->size(), size), std::max(content->size(), size));
    content->resize(size);
    return {};
  }
  std::error_code Close() override {
    files_.Pause();
    return {};
  }

 private:
  MemoryFiles& files_;
  const std::string path_;
  const NodePtr node_;
};

MemoryFiles::MemoryFiles() = default;
MemoryFiles::~MemoryFiles() = default;

void MemoryFiles::Pause() {
  const helio::BoundedWait wait(helio::kSystemCall);
  pause();
}

std::error_code MemoryFiles::Step() {
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

MemoryFiles::NodePtr MemoryFiles::NodeOf(const std::string& path) {
  NodePtr& node = nodes_[path];
  if (node == nullptr) {
    node = std::make_shared<Node>();
    node->synced = files[path];
    synced_nodes_[path] = node;
  }
  return node;
}

std::string* MemoryFiles::ContentOf(const std::string& path, const NodePtr& node) {
  const auto known = nodes_.find(path);
  if (known == nodes_.end() || known->second != node) return nullptr;
  return &files[path];
}

std::error_code MemoryFiles::WriteLocked(const std::string& path, const NodePtr& node,
                                         uint64_t offset, std::string_view bytes) {
  const size_t count = std::min(bytes.size(), fails_after);
  if (fails_after != SIZE_MAX) fails_after -= count;
  std::string* const content = ContentOf(path, node);
  if (content != nullptr && count > 0) {
    node->Touch(std::min<size_t>(offset, content->size()), offset + count);
    if (content->size() < offset + count) content->resize(offset + count);
    std::memcpy(content->data() + offset, bytes.data(), count);
  }
  return count == bytes.size() ? std::error_code()
                               : std::make_error_code(std::errc::no_space_on_device);
}

void MemoryFiles::SyncLocked(const std::string& path, const NodePtr& node) {
  const std::string* const content = ContentOf(path, node);
  if (content != nullptr) {
    // The size is not data: one that a failed sync has left out is in the next.
    node->synced.resize(content->size());
    const size_t end = std::min(node->dirty_end, content->size());
    if (node->dirty_begin < end) {
      std::memcpy(node->synced.data() + node->dirty_begin, content->data() + node->dirty_begin,
                  end - node->dirty_begin);
    }
  }
  node->dirty_begin = SIZE_MAX;
  node->dirty_end = 0;
}

std::error_code MemoryFiles::SyncNode(const std::string& path, const NodePtr& node) {
  std::error_code error = Step();
  const std::lock_guard lock(mutex_);
  if (!error) error = sync_error;
  if (!error) {
    SyncLocked(path, node);
    return {};
  }
  // The pages count as clean from now on, as Linux does it.
  node->dirty_begin = SIZE_MAX;
  node->dirty_end = 0;
  return error;
}

void MemoryFiles::Unlink(const std::string& path) {
  const auto node = nodes_.find(path);
  if (node == nodes_.end()) return;
  node->second->removed = std::move(files[path]);
  nodes_.erase(node);
  files.erase(path);
}

std::error_code MemoryFiles::Create(const std::string& path, std::unique_ptr<OutputFile>* file) {
  if (auto error = Step()) return error;
  const std::lock_guard lock(mutex_);
  const bool is_there = files.contains(path);
  if (is_there) {
    const NodePtr node = NodeOf(path);
    node->Touch(0, files[path].size());
    files[path].clear();
  } else {
    files[path];
    nodes_[path] = std::make_shared<Node>();
    changes_.push_back({.from = "", .to = path, .node = nodes_[path]});
  }
  *file = std::make_unique<Output>(this, path, nodes_[path]);
  return {};
}

std::error_code MemoryFiles::Open(const std::string& path, std::unique_ptr<InputFile>* file) {
  Pause();
  const std::lock_guard lock(mutex_);
  const auto it = files.find(path);
  if (it == files.end()) return std::make_error_code(std::errc::no_such_file_or_directory);
  *file = std::make_unique<Input>(it->second);
  return {};
}

std::error_code MemoryFiles::OpenAppend(const std::string& path, uint64_t size,
                                        size_t reserve_bytes, std::unique_ptr<AppendFile>* file) {
  if (auto error = Step()) return error;
  std::unique_ptr<BlockFile> blocks;
  uint64_t file_size = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!files.contains(path)) {
      files[path];
      nodes_[path] = std::make_shared<Node>();
      changes_.push_back({.from = "", .to = path, .node = nodes_[path]});
    }
    file_size = files[path].size();
    blocks = std::make_unique<Blocks>(this, path, NodeOf(path));
  }
  return MakeAppendFile(std::move(blocks), file_size, size, reserve_bytes, file);
}

std::error_code MemoryFiles::MakeDirectory(const std::string&) { return Step(); }

std::error_code MemoryFiles::Rename(const std::string& from, const std::string& to) {
  if (auto error = Step()) return error;
  const std::lock_guard lock(mutex_);
  if (!files.contains(from)) return std::make_error_code(std::errc::no_such_file_or_directory);
  if (from == to) return {};
  const NodePtr node = NodeOf(from);
  if (files.contains(to)) NodeOf(to);
  std::string content = std::move(files[from]);
  nodes_.erase(from);
  files.erase(from);
  Unlink(to);
  nodes_[to] = node;
  files[to] = std::move(content);
  changes_.push_back({.from = from, .to = to, .node = node});
  return {};
}

std::error_code MemoryFiles::Remove(const std::string& path) {
  if (auto error = Step()) return error;
  const std::lock_guard lock(mutex_);
  if (!files.contains(path)) return std::make_error_code(std::errc::no_such_file_or_directory);
  changes_.push_back({.from = path, .to = "", .node = NodeOf(path)});
  Unlink(path);
  return {};
}

std::error_code MemoryFiles::SyncDirectory(const std::string& path) {
  if (auto error = Step()) return error;
  const std::lock_guard lock(mutex_);
  std::erase_if(changes_, [&](const Change& change) {
    if (DirectoryOf(change.from.empty() ? change.to : change.from) != path) return false;
    if (!change.from.empty()) synced_nodes_.erase(change.from);
    if (!change.to.empty()) synced_nodes_[change.to] = change.node;
    return true;
  });
  return {};
}

std::error_code MemoryFiles::List(const std::string& path, std::vector<std::string>* names) {
  Pause();
  const std::lock_guard lock(mutex_);
  names->clear();
  const std::string prefix = path == "." ? "" : path + "/";
  for (const auto& [name, content] : files) {
    if (!name.starts_with(prefix)) continue;
    const std::string rest = name.substr(prefix.size());
    const std::string entry = rest.substr(0, rest.find('/'));
    if (names->empty() || names->back() != entry) names->push_back(entry);
  }
  return {};
}

std::error_code MemoryFiles::Lock(const std::string&, std::unique_ptr<FileLock>* lock) {
  Pause();
  if (lock_error) return lock_error;
  *lock = std::make_unique<FileLock>();
  return {};
}

void MemoryFiles::Restart(std::map<std::string, std::string> left) {
  const std::lock_guard lock(mutex_);
  files = std::move(left);
  nodes_.clear();
  synced_nodes_.clear();
  changes_.clear();
}

std::map<std::string, std::string> MemoryFiles::AfterCrash(helio::Random* random) {
  const std::lock_guard lock(mutex_);
  for (const auto& [path, content] : files) NodeOf(path);
  std::map<std::string, NodePtr> nodes = synced_nodes_;
  const bool is_ordered = random->OneIn(2);
  const size_t last = random->Uniform(changes_.size() + 1);
  for (size_t i = 0; i < changes_.size(); ++i) {
    if (is_ordered ? i >= last : random->OneIn(2)) continue;
    const Change& change = changes_[i];
    if (!change.from.empty()) nodes.erase(change.from);
    if (!change.to.empty()) nodes[change.to] = change.node;
  }
  std::map<const Node*, const std::string*> contents;
  for (const auto& [path, node] : nodes_) {
    const auto file = files.find(path);
    if (file != files.end()) contents[node.get()] = &file->second;
  }
  std::map<std::string, std::string> after;
  for (const auto& [path, node] : nodes) {
    const auto content = contents.find(node.get());
    after[path] =
        Torn(node->synced, content == contents.end() ? node->removed : *content->second, random);
  }
  return after;
}

}  // namespace dfly
