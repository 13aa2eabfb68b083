// SPDX-License-Identifier: Apache-2.0
// Values of all types, as RDB files have them, made and looked at: for tests.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json/json_text.h"
#include "core/rdb/foreign_entries_testing.h"
#include "core/rdb/rdb_stream.h"
#include "core/rdb/rdb_value.h"
#include "core/sketches/bloom_filter.h"
#include "core/sketches/count_min_sketch.h"
#include "core/sketches/top_k.h"
#include "core/text/numbers.h"
#include "core/text/rdb_encoding.h"
#include "core/types/hash_value.h"
#include "core/types/stream_value.h"
#include "core/types/zset_value.h"
#include "helio/base/logging.h"
#include "helio/base/random.h"

namespace dfly::testkit {

inline void RegisterRdbTypes() {
  SetValue::RegisterType();
  ZsetValue::RegisterType();
  HashValue::RegisterType();
  StreamValue::RegisterType();
  BloomFilter::RegisterType();
  CountMinSketch::RegisterType();
  TopK::RegisterType();
  JsonDoc::RegisterType();
  // As commands/collections/list.cc does it.
  RegisterObjectType(
      ValueType::kList,
      {.destroy = [](void* list, uint8_t) { delete static_cast<QuickList*>(list); },
       .bytes = [](const void* list,
                   uint8_t) { return static_cast<const QuickList*>(list)->bytes(); },
       .is_empty = [](const void* list,
                      uint8_t) { return static_cast<const QuickList*>(list)->empty(); },
       .clone = [](const void* list, uint8_t) -> void* {
         return static_cast<const QuickList*>(list)->Clone();
       },
       .move = [](void* list, uint8_t, BlockMover& mover, uint64_t* cursor) -> void* {
         return QuickList::Move(static_cast<QuickList*>(list), mover, cursor);
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
      lines.push_back(id_of(id) + std::string(pending.owner()) + " " +
                      std::to_string(pending.shown_ms()) + " " +
                      std::to_string(pending.deliveries));
    }
    for (StreamId id : group->Returned()) lines.push_back(id_of(id) + "was given back");
  }
  if (const StreamProducers* const producers = stream.producers()) {
    lines.push_back(std::to_string(producers->duration_s) + " s, " +
                    std::to_string(producers->messages_max) + ", added " +
                    std::to_string(producers->added) + ", again " +
                    std::to_string(producers->duplicates));
    producers->ForEach(
        [&](std::string_view name, size_t messages) {
          lines.push_back(std::string(name) + " has sent " + std::to_string(messages));
        },
        [&](std::string_view message, StreamId id) {
          lines.push_back(id_of(id) + std::string(message));
        });
  }
  return lines;
}

inline std::string DeadlineText(int64_t at_ms) {
  return at_ms == INT64_MAX ? "" : " until " + std::to_string(at_ms);
}

inline Texts LinesOf(const TopK& top) {
  const auto& options = top.options();
  Texts lines = {std::to_string(options.k) + " " + std::to_string(options.width) + " " +
                     std::to_string(options.depth) + " " + std::to_string(options.decay),
                 std::to_string(top.chance()), std::string(top.bucket_bytes())};
  top.ForEachListed([&lines](std::string_view item, uint32_t count) {
    lines.push_back(std::string(item) + " " + std::to_string(count));
  });
  return lines;
}

inline Texts LinesOf(const BloomFilter& filter) {
  Texts lines = {filter.Header()};
  for (size_t at = 0; at < filter.bits_bytes(); at += lines.back().size()) {
    lines.emplace_back(filter.BitsAt(at, SIZE_MAX));
  }
  return lines;
}

inline Texts LinesOf(const CountMinSketch& sketch) {
  return {std::to_string(sketch.shape().width) + " " + std::to_string(sketch.shape().depth),
          std::to_string(sketch.total()), std::string(sketch.counter_bytes())};
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
      SetValue(&value).ForEach([&](std::string_view member) {
        lines.push_back(std::string(member) + DeadlineText(*SetValue(value).Deadline(member)));
      });
      break;
    case ValueType::kZset:
      ZsetValue(&value).ForEach([&](std::string_view member, double score) {
        char digits[kDoubleTextMax];
        lines.push_back(std::string(member) + " " + std::string(FormatDouble(score + 0.0, digits)));
      });
      return lines;
    case ValueType::kHash:
      HashValue(value).ForEach([&](std::string_view field, std::string_view text) {
        lines.push_back(std::string(field) + "=" + std::string(text) +
                        DeadlineText(*HashValue(value).Deadline(field)));
      });
      break;
    case ValueType::kStream:
      return LinesOf(*static_cast<const StreamValue*>(value.object()));
    case ValueType::kBloomFilter:
      return LinesOf(*static_cast<const BloomFilter*>(value.object()));
    case ValueType::kCountMinSketch:
      return LinesOf(*static_cast<const CountMinSketch*>(value.object()));
    case ValueType::kTopK:
      return LinesOf(*static_cast<const TopK*>(value.object()));
    case ValueType::kJson: {
      const auto& doc = *static_cast<const JsonDoc*>(value.object());
      doc.CheckInvariants();
      return {JsonText(doc.root())};
    }
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

inline std::pair<RdbType, std::string> WriteRdb(
    const CompactValue& value, RdbWriter::Compression compression = RdbWriter::Compression::kNone) {
  std::string bytes;
  StringSink sink(&bytes);
  const RdbType type = DflyTypeOf(value);
  RdbWriter writer(&sink, compression);
  WriteRdbValue(value, type, &writer);
  writer.Flush();
  return {type, bytes};
}

// As a string of RDB files.
inline std::string Blob(std::string_view block) {
  std::string bytes;
  StringSink sink(&bytes);
  RdbWriter writer(&sink);
  writer.Length(block.size());
  writer.Raw(block);
  writer.Flush();
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
  std::string returned = std::string("\0", 1);
  // For 10 s, 100 of each: one has sent one, as 5-1.
  std::string producers =
      "\x0a\x40\x64\x01\x02"
      "p1\x01\x03"
      "id1\x05\x01\x02\x01";

  std::string Bytes(RdbType type) const {
    const int version = StreamVersionOf(type);
    return nodes + counters + (version >= 2 ? more_counters : "") + "\x01" + group +
           (version >= 2 ? reads : "") + delivered + "\x01" + consumer + seen +
           (version >= 3 ? active : "") + pending + (version >= 5 ? returned : "") +
           (version >= 4 ? producers : "");
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

  // The first, the third and so on have deadlines.
  CompactValue MakeSetWithDeadlines(const Texts& members, int64_t at_ms) const {
    CompactValue value = MakeSet(members);
    for (size_t i = 0; i < members.size(); i += 2) {
      SetValue(&value).SetDeadline(members[i], at_ms + static_cast<int64_t>(i));
    }
    return value;
  }
  CompactValue MakeHashWithDeadlines(const std::vector<std::pair<std::string, std::string>>& pairs,
                                     int64_t at_ms) const {
    CompactValue value = MakeHash(pairs);
    for (size_t i = 0; i < pairs.size(); i += 2) {
      HashValue(&value).SetDeadline(pairs[i].first, at_ms + static_cast<int64_t>(i));
    }
    return value;
  }

  static CompactValue MakeBloomFilter(const Texts& items, uint64_t capacity, bool scales) {
    auto filter = BloomFilter::Make(
        {.error_rate = 0.1, .capacity = capacity, .expansion = scales ? 2u : 0u}, SIZE_MAX);
    for (const std::string& item : items) filter->Add(HashItem(item), SIZE_MAX);
    CompactValue value;
    value.SetObject(ValueType::kBloomFilter, filter.release(), 0);
    return value;
  }
  static CompactValue MakeCountMinSketch(const Texts& items, uint64_t width) {
    auto sketch =
        std::make_unique<CountMinSketch>(CountMinSketch::Shape{.width = width, .depth = 3});
    for (size_t i = 0; i < items.size(); ++i) sketch->Add(HashItem(items[i]), i + 1);
    CompactValue value;
    value.SetObject(ValueType::kCountMinSketch, sketch.release(), 0);
    return value;
  }
  static CompactValue MakeTopK(const Texts& items, uint32_t k) {
    auto top =
        std::make_unique<TopK>(TopK::Options{.k = k, .width = k + 2, .depth = 3, .decay = 0.8}, 7);
    for (size_t i = 0; i < items.size(); ++i) top->Add(items[i], static_cast<uint32_t>(i + 1));
    CompactValue value;
    value.SetObject(ValueType::kTopK, top.release(), 0);
    return value;
  }

  static CompactValue MakeJson(std::string_view text,
                               std::optional<JsonFloat> packed_as = std::nullopt) {
    auto doc = std::make_unique<JsonDoc>();
    CHECK_EQ(ParseJson(text, JsonDoc::kDepthMax, doc.get()), "") << text;
    // What is beyond the type stays as it is.
    if (packed_as) static_cast<void>(doc->PackArrays(*packed_as));
    CompactValue value;
    value.SetObject(ValueType::kJson, doc.release(), 0);
    return value;
  }
  static std::optional<JsonFloat> RandomFloat(helio::Random* random) {
    if (random->OneIn(2)) return std::nullopt;
    return static_cast<JsonFloat>(random->Uniform(kJsonFloats));
  }
  // As text. `depth`: so deep it may be.
  static std::string RandomJson(helio::Random* random, int depth = 4) {
    const auto text = [random] {
      return "\"" + std::string(random->Uniform(random->OneIn(5) ? 60 : 10), 'a') +
             std::to_string(random->Uniform(50)) + "\"";
    };
    switch (random->Uniform(depth > 0 ? 9 : 6)) {
      case 0:
        return random->OneIn(2) ? "true" : "false";
      case 1:
        return "null";
      case 2:
        return std::to_string(static_cast<int64_t>(random->Next() >> random->Uniform(64)));
      case 3:
        return std::to_string(random->NextDouble() * 9 - 4);
      case 4:
        return std::to_string(random->Next() >> random->Uniform(3));
      case 5:
        return text();
      default:
        break;
    }
    if (random->OneIn(4)) {
      std::string numbers = "[0.1";
      for (uint64_t i = random->Uniform(20); i > 0; --i) {
        numbers += "," + std::to_string(random->NextDouble() * 9 - 4);
      }
      return numbers + "]";
    }
    const bool is_object = random->OneIn(2);
    std::string json(1, is_object ? '{' : '[');
    for (uint64_t i = random->Uniform(random->OneIn(9) ? 90 : 6); i > 0; --i) {
      if (json.size() > 1) json += ',';
      if (is_object) json += text() + ":";
      json += RandomJson(random, depth - 1);
    }
    return json + (is_object ? "}" : "]");
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
    const auto at_ms = static_cast<int64_t>(random->Uniform(uint64_t{1} << random->Uniform(50)));
    switch (random->Uniform(11)) {
      case 10:
        return MakeJson(RandomJson(random), RandomFloat(random));
      case 9:
        return MakeTopK(texts, 1 + static_cast<uint32_t>(random->Uniform(20)));
      case 8:
        return MakeCountMinSketch(texts, 1 + random->Uniform(20));
      case 7:
        return MakeBloomFilter(texts, 1 + random->Uniform(100), random->OneIn(2));
      case 6:
        return MakeSetWithDeadlines(texts, at_ms);
      case 5:
        value = MakeStream(texts);
        break;
      case 0:
        value.SetString(texts[0]);
        break;
      case 1:
        if (random->OneIn(2)) {  // of one length, which lists keep in another way
          for (std::string& text : texts) text.resize(3, 'x');
        }
        value = MakeList(texts);
        break;
      case 2:
        if (random->OneIn(3)) {
          for (std::string& text : texts) text = std::to_string(random->Next() >> 1);
        }
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
        value = random->OneIn(2) ? MakeHash(pairs) : MakeHashWithDeadlines(pairs, at_ms);
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

}  // namespace dfly::testkit
