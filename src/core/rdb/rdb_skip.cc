// SPDX-License-Identifier: Apache-2.0
#include "core/rdb/rdb_skip.h"

#include "core/rdb/foreign_entries.h"
#include "core/rdb/rdb_json.h"
#include "core/rdb/rdb_stream.h"
#include "core/text/rdb_encoding.h"

namespace dfly {

namespace {

// Each of these is false at the first thing that is wrong. What the parts mean is told in
// core/rdb/rdb_value.h, rdb_stream.h, rdb_probabilistic.h and rdb_json.h.
class ValueSkipper {
 public:
  explicit ValueSkipper(ByteSource* source) : reader_(source, SIZE_MAX) {}

  bool Skip(RdbType type) {
    switch (type) {
      case RdbType::kString:
      case RdbType::kListZiplist:
      case RdbType::kSetIntset:
      case RdbType::kZsetZiplist:
      case RdbType::kHashZiplist:
      case RdbType::kHashListpack:
      case RdbType::kZsetListpack:
      case RdbType::kSetListpack:
      case RdbType::kHashListpackExPreGa:
        return Strings(1);
      case RdbType::kHashListpackEx:
        return Bytes(kTimeBytes) && Strings(1);
      case RdbType::kList:
      case RdbType::kSet:
      case RdbType::kListQuicklist:
        return Each([this] { return Strings(1); });
      case RdbType::kListQuicklist2:
        return Each([this] { return Lengths(1) && Strings(1); });
      case RdbType::kHash:
        return Each([this] { return Strings(2); });
      case RdbType::kZset:
        return Each([this] { return Strings(1) && reader_.SkipTextDouble(); });
      case RdbType::kZset2:
        return Each([this] { return Strings(1) && Bytes(kScoreBytes); });
      case RdbType::kHashMetadata:
        return Bytes(kTimeBytes) && Each([this] { return Lengths(1) && Strings(2); });
      case RdbType::kHashMetadataPreGa:
        return Each([this] { return Lengths(1) && Strings(2); });
      case RdbType::kHashValkey:
        return Each([this] { return Strings(2) && Bytes(kTimeBytes); });
      case RdbType::kSetMetadata:
        return Bytes(kTimeBytes) && Each([this] { return Lengths(1) && Strings(1); });
      case RdbType::kStreamListpacks:
      case RdbType::kStreamListpacks2:
      case RdbType::kStreamListpacks3:
      case RdbType::kStreamListpacks4:
      case RdbType::kStreamListpacks5:
        return Stream(type);
      case RdbType::kHashTemplateListpack:
        return Names() && Strings(1);
      case RdbType::kHashTemplate: {
        const auto names = Names();
        for (uint64_t i = 0; i < names.value_or(0); ++i) {
          if (!reader_.SkipString()) return false;
        }
        return names.has_value();
      }
      case RdbType::kHashTemplateListpackRef:
      case RdbType::kHashTemplateRef:
        return false;
      case RdbType::kBloomFilter:
        return Strings(2);
      case RdbType::kCountMinSketch:
        return Lengths(2) && Bytes(8) && Strings(1);
      case RdbType::kTopK:
        return Lengths(3) && Bytes(8 + 8) && Strings(1) &&
               Each([this] { return Strings(1) && Lengths(1); });
      case RdbType::kJson:
        return SkipRdbJson(&reader_);
    }
    return false;
  }

 private:
  static constexpr size_t kTimeBytes = 8;
  static constexpr size_t kScoreBytes = 8;
  static constexpr size_t kIdBytes = 16;

  bool Bytes(uint64_t count) { return reader_.Skip(count); }
  bool Strings(int count) {
    for (; count > 0; --count) {
      if (!reader_.SkipString()) return false;
    }
    return true;
  }
  bool Lengths(int count) {
    for (; count > 0; --count) {
      if (!reader_.Length()) return false;
    }
    return true;
  }
  // skip() as often as is said here.
  template <typename F>
  bool Each(F&& skip) {
    const auto count = reader_.Count();
    if (!count) return false;
    for (uint64_t i = 0; i < *count; ++i) {
      if (!skip()) return false;
    }
    return true;
  }

  // How many there are.
  std::optional<uint64_t> Names() {
    const auto form = reader_.Length();
    if (form == kNamesInListpack) {
      const auto block = reader_.String();
      if (!block) return std::nullopt;
      ForeignEntries entries(ForeignEntries::Kind::kListpack, *block);
      uint64_t count = 0;
      while (entries.Next()) ++count;
      return count;
    }
    if (form != kNamesInStrings) return std::nullopt;
    const auto count = reader_.Count();
    for (uint64_t i = 0; i < count.value_or(0); ++i) {
      if (!reader_.SkipString()) return std::nullopt;
    }
    return count;
  }

  bool Stream(RdbType type) {
    const int version = StreamVersionOf(type);
    const bool has_counters = version >= 2;
    const bool has_active_times = version >= 3;
    const auto pending = [this] { return Bytes(kIdBytes + kTimeBytes) && Lengths(1); };
    const auto consumer = [&] {
      return Strings(1) && Bytes(has_active_times ? 2 * kTimeBytes : kTimeBytes) &&
             Each([this] { return Bytes(kIdBytes); });
    };
    const auto group = [&] {
      return Strings(1) && Lengths(has_counters ? 3 : 2) && Each(pending) && Each(consumer) &&
             (version < 5 || Each([this] { return Bytes(kIdBytes); }));
    };
    const auto producer = [this] {
      return Strings(1) && Each([this] { return Strings(1) && Lengths(2); });
    };
    return Each([this] { return Strings(2); }) && Lengths(has_counters ? 8 : 3) && Each(group) &&
           (version < 4 || (Lengths(2) && Each(producer) && Lengths(2)));
  }

  RdbReader reader_;
};

}  // namespace

bool SkipRdbValue(uint8_t type, ByteSource* source) {
  return ValueSkipper(source).Skip(static_cast<RdbType>(type));
}

}  // namespace dfly
