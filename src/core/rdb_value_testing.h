// SPDX-License-Identifier: Apache-2.0
// Values of all types that have a form in RDB files, made and looked at: for tests.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/foreign_entries_testing.h"
#include "core/hash_value.h"
#include "core/numbers.h"
#include "core/rdb_encoding.h"
#include "core/rdb_value.h"
#include "core/stream_value.h"
#include "core/zset_value.h"
#include "helio/base/logging.h"
#include "helio/base/random.h"

namespace dfly::testing {

inline void RegisterRdbTypes() {
  SetValue::RegisterType();
  ZsetValue::RegisterType();
  HashValue::RegisterType();
  StreamValue::RegisterType();
  // As commands/list.cc does it.
  RegisterObjectType(
      ValueType::kList,
      {.destroy = [](void* list, uint8_t) { delete static_cast<QuickList*>(list); },
       .bytes = [](const void* list,
                   uint8_t) { return static_cast<const QuickList*>(list)->bytes(); },
       .is_empty = [](const void* list,
                      uint8_t) { return static_cast<const QuickList*>(list)->empty(); },
       .clone = [](const void* list, uint8_t) -> void* {
         return static_cast<const QuickList*>(list)->Clone();
       }});
}

inline Texts LinesOf(const StreamValue& stream) {
  const auto id_of = [](StreamId id) {
    return std::to_string(id.ms) + "-" + std::to_string(id.seq) + " ";
  };
  stream.CheckInvariants();
  const auto& counters = stream.counters();
  Texts lines = {id_of(counters.last_id) + id_of(counters.first_id) +
                 id_of(counters.max_deleted_id) + std::to_string(counters.entries_added)};
  size_t node_index = 0;
  stream.entries().ForEachNode([&](const StreamEntries::NodeView& node) {
    const size_t bytes = stream.entries().NodeListpackBytes(node_index++);
    lines.push_back(id_of(node.first()) + "node of " + std::to_string(bytes));
    node.ForEachEntry([&](const StreamEntry& entry, bool is_erased) {
      lines.push_back(id_of(entry.id) + (is_erased ? "erased" : ""));
      entry.ForEachField([&](PackedElement name, PackedElement text) {
        lines.push_back(name.ToString() + "=" + text.ToString());
      });
    });
  });
  for (const auto& [name, group] : stream.groups()) {
    lines.push_back(std::string(name) + " " + id_of(group->last_id) +
                    std::to_string(group->entries_read));
    for (const auto& [consumer_name, consumer] : group->consumers()) {
      lines.push_back(std::string(consumer_name) + " " + std::to_string(consumer->seen_ms));
    }
    for (const auto& [id, pending] : group->pending()) {
      lines.push_back(id_of(id) + std::string(pending.consumer->name) + " " +
                      std::to_string(pending.delivered_ms) + " " +
                      std::to_string(pending.deliveries));
    }
  }
  return lines;
}

// All that a value has, as lines; sets and hashes sorted.
inline Texts ContentOf(CompactValue& value) {
  Texts lines;
  switch (value.type()) {
    case ValueType::kString:
      return {value.ToString()};
    case ValueType::kList: {
      const auto& list = *static_cast<const QuickList*>(value.object());
      list.CheckInvariants();
      for (auto at = list.At(QuickList::End::kFront); at; at.Next())
        lines.push_back((*at).ToString());
      return lines;
    }
    case ValueType::kSet:
      SetValue(&value).ForEach([&](std::string_view member) { lines.emplace_back(member); });
      break;
    case ValueType::kZset:
      ZsetValue(&value).ForEach([&](std::string_view member, double score) {
        char digits[kDoubleTextMax];
        lines.push_back(std::string(member) + " " + std::string(FormatDouble(score + 0.0, digits)));
      });
      return lines;
    case ValueType::kHash:
      HashValue(value).ForEach([&](std::string_view field, std::string_view text) {
        lines.push_back(std::string(field) + "=" + std::string(text));
      });
      break;
    case ValueType::kStream:
      return LinesOf(*static_cast<const StreamValue*>(value.object()));
    case ValueType::kBloomFilter:
    case ValueType::kCountMinSketch:
    case ValueType::kTopK:
      LOG(FATAL) << "has no form: " << TypeName(value.type());
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

inline std::pair<RdbType, std::string> WriteRdb(const CompactValue& value) {
  std::string bytes;
  StringSink sink(&bytes);
  WriteRdbValue(value, &sink);
  return {*RdbTypeOf(value), bytes};
}

// As a string of RDB files.
inline std::string Blob(std::string_view block) {
  std::string bytes;
  StringSink sink(&bytes);
  RdbWriter writer(&sink);
  writer.Length(block.size());
  writer.Raw(block);
  return bytes;
}

// --- Streams, piece by piece ---

inline std::string IdBytes(char ms, char seq) {
  std::string bytes(16, '\0');
  bytes[7] = ms;
  bytes[15] = seq;
  return bytes;
}

inline std::string TimeBytes(char lowest) { return lowest + std::string(7, '\0'); }

// Two entries at 5-1 and 5-3.
inline const Texts kNode = {"2", "0", "1", "a", "0",  //
                            "2", "0", "0", "x", "4",  //
                            "0", "0", "2", "2", "b", "7", "c", "8", "8"};

inline std::string Node(const Texts& elements) {
  return Blob(IdBytes(5, 1)) + Blob(Listpack(elements));
}

struct StreamParts {
  std::string nodes = "\x01" + Node(kNode);
  std::string counters = "\x02\x05\x03";
  std::string more_counters = "\x05\x01\x05\x02\x03";
  std::string group = "\x01g\x05\x01";
  std::string reads = "\x01";
  std::string delivered = "\x01" + IdBytes(5, 1) + TimeBytes(9) + "\x02";
  std::string consumer =
      "\x01"
      "c";
  std::string seen = TimeBytes(7);
  std::string active = TimeBytes(6);
  std::string pending = "\x01" + IdBytes(5, 1);

  std::string Bytes(RdbType type) const {
    const bool has_reads = type != RdbType::kStreamListpacks;
    return nodes + counters + (has_reads ? more_counters : "") + "\x01" + group +
           (has_reads ? reads : "") + delivered + "\x01" + consumer + seen +
           (type == RdbType::kStreamListpacks3 ? active : "") + pending;
  }
};

// --- Values ---

// Makes values that suit limits_.
class RdbValues {
 public:
  RdbLimits limits_ = {.string_max = 1 << 20,
                       .list = {},
                       .set = {},
                       .zset = {.entries = 128, .element_bytes = 64},
                       .hash = {.entries = 512, .element_bytes = 64}};

  CompactValue MakeList(const Texts& texts) const {
    CompactValue value;
    value.SetObject(ValueType::kList, std::make_unique<QuickList>().release(), 0);
    auto& list = *static_cast<QuickList*>(value.object());
    for (const std::string& text : texts) list.Push(QuickList::End::kBack, text, limits_.list);
    return value;
  }
  CompactValue MakeSet(const Texts& members) const {
    CompactValue value;
    SetValue::Create(&value, members[0], 1, limits_.set);
    for (const std::string& member : members) SetValue(&value).Add(member, limits_.set);
    return value;
  }
  CompactValue MakeZset(const std::vector<std::pair<std::string, double>>& pairs) const {
    CompactValue value;
    ZsetValue::Create(&value, 1, 1, limits_.zset);
    for (const auto& [member, score] : pairs) ZsetValue(&value).Set(member, score, limits_.zset);
    return value;
  }
  CompactValue MakeHash(const std::vector<std::pair<std::string, std::string>>& pairs) const {
    CompactValue value;
    HashValue::Create(&value);
    for (const auto& [field, text] : pairs) HashValue(&value).Set(field, text, limits_.hash);
    return value;
  }

  // Nodes of seven, in which some entries have other names, and some are gone; two groups.
  static CompactValue MakeStream(const Texts& texts) {
    CompactValue value;
    value.SetObject(ValueType::kStream, std::make_unique<StreamValue>().release(), 0);
    auto& stream = *static_cast<StreamValue*>(value.object());
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string_view pairs[] = {"name", texts[i], i % 5 == 3 ? "other" : "7", "12"};
      stream.Append({1000 + i / 4, i % 4 == 0 ? 9 : 10 + i}, pairs, {.node_entries = 7});
    }
    const StreamId last = stream.counters().last_id;
    for (size_t i = 2; i + 1 < texts.size(); i += 3) stream.Erase({1000 + i / 4, 10 + i});
    StreamGroup* const group = stream.AddGroup("group");
    group->last_id = last;
    group->entries_read = static_cast<int64_t>(texts.size());
    StreamConsumer* const consumers[] = {group->AddConsumer("one", 1'600'000'000'000),
                                         group->AddConsumer("two", 1'600'000'000'001)};
    for (size_t i = 0; i < texts.size(); ++i) {
      StreamPending& pending = group->Assign({1000 + i, i}, consumers[i % 2]);
      pending.delivered_ms = static_cast<int64_t>(1'600'000'000'000 + i);
      pending.deliveries = i;
    }
    stream.AddGroup("no reads")->AddConsumer("idle", 5);
    return value;
  }

  // One of any type.
  CompactValue MakeAny(helio::Random* random) const {
    const size_t count = 1 + random->Uniform(random->OneIn(10) ? 200 : 8);
    Texts texts;
    for (size_t i = 0; i < 2 * count; ++i) texts.push_back(RandomText(random));
    CompactValue value;
    switch (random->Uniform(6)) {
      case 5:
        value = MakeStream(texts);
        break;
      case 0:
        value.SetString(texts[0]);
        break;
      case 1:
        value = MakeList(texts);
        break;
      case 2:
        value = MakeSet(texts);
        break;
      case 3: {
        std::vector<std::pair<std::string, double>> pairs;
        for (const std::string& text : texts)
          pairs.emplace_back(text, random->NextDouble() * 9 - 4);
        value = MakeZset(pairs);
        break;
      }
      default: {
        std::vector<std::pair<std::string, std::string>> pairs;
        for (size_t i = 0; i < count; ++i) pairs.emplace_back(texts[i], texts[count + i]);
        value = MakeHash(pairs);
        break;
      }
    }
    return value;
  }

  static std::string RandomText(helio::Random* random) {
    if (random->OneIn(3))
      return std::to_string(static_cast<int64_t>(random->Next() >> random->Uniform(64)));
    std::string text(random->OneIn(20) ? random->Uniform(300) : random->Uniform(12), '\0');
    for (char& c : text) c = static_cast<char>(random->Next());
    return text;
  }
};

}  // namespace dfly::testing
