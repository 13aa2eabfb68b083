// SPDX-License-Identifier: Apache-2.0
// A replication stream, as far as it stands in the incrementals of a log: what a replica that was
// away for long goes on with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/file_layer.h"
#include "storage/log/log_reader.h"

namespace dfly {

// Owner:    who reads; from one fiber after the other. The log may be written meanwhile.
// Suspends: Seek and Next.
class LogStream {
 public:
  // The paths of the incrementals, in their order; called whenever all of those it knows are read.
  using ListFn = std::function<std::vector<std::string>()>;

  // `files` outlives it.
  LogStream(FileLayer* files, ListFn list) : files_(*files), list_(std::move(list)) {}

  // Looks for the byte at `offset` of the stream `id`. False: no file has it.
  [[nodiscard]] bool Seek(std::string_view id, uint64_t offset);
  // The bytes from offset() on, of whole epochs, piece by piece. Valid until the next call. None:
  // there are no more yet, or what follows cannot be read.
  std::string_view Next();
  uint64_t offset() const { return offset_; }

 private:
  // Goes on at the file's position `at`.
  bool Open(const std::string& path, uint64_t at);
  // The next epoch of the file, which begins at offset_. False: the file had no more when it was
  // opened.
  bool NextEpoch();
  // The same, in the file as it is now, or in another one.
  bool NextEpochAnew();

  FileLayer& files_;
  const ListFn list_;
  std::string id_;
  uint64_t offset_ = 0;
  std::string path_;
  std::unique_ptr<LogReader> reader_;
  bool is_in_epoch_ = false;
  bool is_at_end_ = false;  // reader_
};

}  // namespace dfly
