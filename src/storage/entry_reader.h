// SPDX-License-Identifier: Apache-2.0
// Reads the stream that storage/entry_writer.h describes, from a file of ours, of redis-server 5 to
// 8 or of Valkey 8 and 9.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/byte_stream.h"
#include "core/text/rdb_encoding.h"
#include "storage/entry_writer.h"

namespace dfly {

// Owner:    who reads. Suspends: as its source.
// Errors:   Next says kError; error() tells what is wrong, and the source about where.
class EntryReader {
 public:
  enum class Item : uint8_t {
    kEntry,     // its value is next: the caller takes it from value_source()
    kAux,       // one that is not a part of an entry
    kFunction,  // text() is its library's source
    kSizes,     // so many keys() and deadlines() has db_index() in all
    kEnd,       // and what is behind it is the file's
    kError,
  };
  // `has_end`: the stream ends with its end mark, else with its source. No text is longer than
  // `string_max`.
  EntryReader(ByteSource* source, size_t string_max, bool has_end,
              RdbFamily family = RdbFamily::kRedis);

  Item Next();

  // Of an entry; until the next call of Next.
  int db_index() const { return db_index_; }
  const std::string& key() const { return key_; }
  const EntryFacts& facts() const { return facts_; }
  uint8_t type() const { return type_; }  // as RdbTypeIn tells it
  ByteSource& value_source() { return wrapped_ != nullptr ? *wrapped_ : source_; }
  // kAuxDeadlines or kAuxProducers, or empty.
  const std::string& beside() const { return beside_; }

  // Of an aux field or function.
  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }

  uint64_t keys() const { return keys_; }
  uint64_t deadlines() const { return deadlines_; }

  const std::string& error() const { return error_; }

 private:
  Item Fail(std::string_view what);
  Item CutOff() { return Fail("the data ends too early, or a length is wrong"); }
  Item ReadAux();
  Item ReadEntry(RdbReader* reader, uint8_t type);
  Item ReadWrapped();
  // The names of hashes' fields that stand before them, and a hash that has the number of some:
  // it becomes a plain one.
  bool ReadNames();
  bool AddNames(RdbReader* reader);

  ByteSource& source_;
  RdbReader reader_;
  const size_t string_max_;
  const bool has_end_;
  const RdbFamily family_;
  int db_index_ = 0;
  uint64_t keys_ = 0;
  uint64_t deadlines_ = 0;
  std::string key_;
  EntryFacts facts_;
  uint8_t type_ = 0;
  std::string beside_;
  std::string name_;
  std::string text_;
  std::unique_ptr<ViewSource> wrapped_;  // of text_: an entry, or a value, that stands elsewhere
  absl::flat_hash_map<uint64_t, std::vector<std::string>> names_;
  bool is_between_ = true;  // entries: what was read belongs to none yet
  std::string error_;
};

// Gives a hash or a set the deadlines of kAuxDeadlines, a stream its kAuxProducers. False: they
// make no sense.
bool AddBeside(std::string_view beside, CompactValue* value);

}  // namespace dfly
