// SPDX-License-Identifier: Apache-2.0
#include "core/rdb/rdb_value.h"

#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/rdb/foreign_entries.h"
#include "core/rdb/rdb_json.h"
#include "core/rdb/rdb_probabilistic.h"
#include "core/rdb/rdb_stream.h"
#include "core/text/hash.h"
#include "core/text/numbers.h"
#include "core/types/hash_value.h"
#include "core/types/zset_value.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

using Kind = ForeignEntries::Kind;

// The nodes of a quicklist.
constexpr uint64_t kPlainNode = 1;   // one text
constexpr uint64_t kPackedNode = 2;  // a listpack
constexpr size_t kNodeBytes = 8192;
// A larger text has no place in a listpack.
constexpr size_t kPackedTextMax = size_t{1} << 30;

// Members and fields are keys of tables.
constexpr size_t kMemberMax = size_t{512} << 20;

// Larger blocks are filled step by step.
constexpr size_t kBuiltBytesMax = size_t{1} << 20;

// Up to here each integer is a double.
constexpr double kIntegersEnd = 9007199254740992.0;

// Of the earliest of all deadlines, in Unix milliseconds.
constexpr size_t kDeadlineBytes = 8;
constexpr uint64_t kNoDeadline = UINT64_MAX;

// The last one that redis-server 7.0 knows.
constexpr RdbType kRdbTypeWrittenMax = RdbType::kStreamListpacks2;

// ZsetValue is made for who may change the value; nothing here does.
CompactValue* Mutable(const CompactValue& value) { return const_cast<CompactValue*>(&value); }

template <typename T>
const T& ObjectOf(const CompactValue& value) {
  return *static_cast<const T*>(value.object());
}

// --- Writing ---

// A text as a node of its own, which is not copied unless it is compressed.
void WriteLargeNode(std::string_view text, RdbWriter* writer) {
  if (text.size() > kPackedTextMax) {
    writer->Length(kPlainNode);
    return writer->String(text);
  }
  if (writer->MayCompress(text.size())) {
    ListpackWriter packed;
    packed.Append(text);
    writer->Length(kPackedNode);
    return writer->String(packed.Finish());
  }
  const ListpackWriter::Wrapping wrapping = ListpackWriter::WrappingOf(text);
  writer->Length(kPackedNode);
  writer->Length(wrapping.before.size() + text.size() + wrapping.behind.size());
  writer->Raw(wrapping.before);
  writer->Raw(text);
  writer->Raw(wrapping.behind);
}

// Twice the same walk: how many nodes there are comes first.
template <typename Packed, typename Node, typename LargeNode>
void ForEachNode(const QuickList& list, Node node, LargeNode large_node) {
  Packed packed;
  const auto end_node = [&] {
    if (packed.entries() > 0) node(packed);
    packed.Clear();
  };
  char scratch[QuickList::kScratchSize];
  for (auto at = list.At(QuickList::End::kFront); at; at.Next()) {
    const PackedElement element = *at;
    if (const std::optional<int64_t> number = element.TryInt()) {
      if (packed.bytes() >= kNodeBytes) end_node();
      packed.Append(*number);
      continue;
    }
    const std::string_view text = element.View(scratch);
    if (text.size() >= kNodeBytes) {
      end_node();
      large_node(text);
      continue;
    }
    if (packed.bytes() + text.size() > kNodeBytes) end_node();
    packed.AppendText(text);
  }
  end_node();
}

void WriteList(const QuickList& list, RdbWriter* writer) {
  uint64_t nodes = 0;
  ForEachNode<ListpackSizer>(
      list, [&nodes](ListpackSizer&) { ++nodes; }, [&nodes](std::string_view) { ++nodes; });
  writer->Length(nodes);
  ForEachNode<ListpackWriter>(
      list,
      [writer](ListpackWriter& packed) {
        writer->Length(kPackedNode);
        writer->String(packed.Finish());
      },
      [writer](std::string_view text) { WriteLargeNode(text, writer); });
}

void WriteIntegers(const SetValue& set, RdbWriter* writer) {
  const IntSet numbers = set.integers();
  const size_t count = numbers.size();
  // In their order, so the first or the last one is the widest.
  const int64_t first = count == 0 ? 0 : numbers.At(0);
  const int64_t last = count == 0 ? 0 : numbers.At(count - 1);
  const auto fit = [&](auto narrow) {
    using Narrow = decltype(narrow);
    return first == static_cast<Narrow>(first) && last == static_cast<Narrow>(last);
  };
  const size_t width = fit(int16_t()) ? 2 : fit(int32_t()) ? 4 : 8;
  std::string block(8 + width * count, '\0');
  char* at = block.data();
  const auto append = [&at](uint64_t number, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) *at++ = static_cast<char>(number >> (8 * i));
  };
  append(width, 4);
  append(count, 4);
  for (size_t i = 0; i < count; ++i) append(static_cast<uint64_t>(numbers.At(i)), width);
  writer->String(block);
}

void WriteMembers(const SetValue& set, RdbWriter* writer) {
  writer->Length(set.size());
  if (set.encoding() != SetValue::kPacked) {
    return set.ForEach([writer](std::string_view member) { writer->String(member); });
  }
  const PackedBlock block = set.block();
  for (auto at = block.begin(); at != block.end(); at = PackedBlock::Next(at)) {
    const PackedElement element(at);
    char scratch[PackedElement::kScratchSize];
    const std::optional<int64_t> number = element.TryInt();
    number ? writer->String(*number) : writer->String(element.View(scratch));
  }
}

// Of a hash or set; what is due is left out.
template <typename V>
void WriteWithDeadlines(const MemberTable<V>& table, int64_t now_ms, RdbWriter* writer) {
  const int64_t earliest_ms = table.next_deadline();
  writer->Little(static_cast<uint64_t>(earliest_ms), kDeadlineBytes);
  writer->Length(table.size() - table.CountDue(now_ms));
  table.ForEach([&](const typename MemberTable<V>::Slot& slot) {
    if (table.IsDue(slot, now_ms)) return;
    const std::optional<int64_t> at_ms = table.Deadline(slot);
    writer->Length(at_ms ? static_cast<uint64_t>(*at_ms - earliest_ms) + 1 : 0);
    char scratch[CompactKey::kScratchSize];
    writer->String(slot.key.View(scratch));
    if constexpr (std::is_same_v<V, CompactText>) {
      char text[HashValue::kScratchSize];
      writer->String(slot.value.View(text));
    }
  });
}

void WriteScores(const ZsetValue& zset, RdbWriter* writer) {
  writer->Length(zset.size());
  zset.ForEach([writer](std::string_view member, double score) {
    writer->String(member);
    writer->Double(score);
  });
}

void WritePackedScores(const ZsetValue& zset, RdbWriter* writer) {
  ListpackWriter packed;
  zset.ForEach([&packed](std::string_view member, double score) {
    packed.Append(member);
    // Most scores are integers, which need no text. A block has no -0.
    if (std::abs(score) < kIntegersEnd && score == std::trunc(score)) {
      return packed.Append(static_cast<int64_t>(score));
    }
    char digits[kDoubleTextMax];
    packed.Append(FormatDouble(score, digits));
  });
  writer->String(packed.Finish());
}

void WriteFields(const HashValue& hash, RdbWriter* writer) {
  writer->Length(hash.size());
  hash.ForEach([writer](std::string_view field, std::string_view text) {
    writer->String(field);
    writer->String(text);
  });
}

void WritePackedFields(const HashValue& hash, RdbWriter* writer) {
  ListpackWriter packed;
  hash.ForEachElement([&packed](const PackedElement& field, const PackedElement& text) {
    packed.Append(field);
    packed.Append(text);
  });
  writer->String(packed.Finish());
}

// --- Reading ---

// Tells members that have not been seen yet, without a walk over those that have.
class SeenMembers {
 public:
  // False if it may have been seen, or there are too many.
  bool IsNew(std::string_view member) {
    if (2 * count_ >= hashes_.size() && !Grow()) return false;
    ++count_;
    return Insert(HashKey(member) | 1);  // 0: a free place
  }

 private:
  static constexpr size_t kPlacesMin = 64;
  static constexpr size_t kPlacesMax = 4096;

  bool Insert(uint64_t hash) {
    const size_t mask = hashes_.size() - 1;
    size_t at = (hash >> 32) & mask;
    for (; hashes_[at] != 0; at = (at + 1) & mask) {
      if (hashes_[at] == hash) return false;
    }
    hashes_[at] = hash;
    return true;
  }
  bool Grow() {
    if (hashes_.size() >= kPlacesMax) return false;
    const std::vector<uint64_t> old =
        std::exchange(hashes_, std::vector<uint64_t>(std::max(kPlacesMin, 2 * hashes_.size())));
    for (uint64_t hash : old) {
      if (hash != 0) Insert(hash);
    }
    return true;
  }

  std::vector<uint64_t> hashes_;
  size_t count_ = 0;
};

// Each of these fills an empty value; false at the first thing that is wrong, and for a collection
// without elements. ---

class ValueReader {
 public:
  ValueReader(const RdbLimits& limits, ByteSource* source, CompactValue* value)
      : limits_(limits), reader_(source, limits.string_max), value_(*value) {}

  bool Read(RdbType type) {
    switch (type) {
      case RdbType::kString:
        return ReadString();
      case RdbType::kList:
      case RdbType::kListZiplist:
      case RdbType::kListQuicklist:
      case RdbType::kListQuicklist2:
        return ReadList(type);
      case RdbType::kSet:
        return ReadSet();
      case RdbType::kSetIntset:
        return ReadIntset();
      case RdbType::kSetListpack:
        return ReadSetListpack();
      case RdbType::kZset:
      case RdbType::kZset2:
        return ReadZset(type);
      case RdbType::kZsetZiplist:
        return ReadPackedZset(Kind::kZiplist);
      case RdbType::kZsetListpack:
        return ReadPackedZset(Kind::kListpack);
      case RdbType::kHash:
        return ReadHash();
      case RdbType::kHashZiplist:
        return ReadPackedHash(Kind::kZiplist);
      case RdbType::kHashListpack:
        return ReadPackedHash(Kind::kListpack);
      case RdbType::kHashTemplateListpack:
      case RdbType::kHashTemplate:
        return ReadHashWithNames(type);
      case RdbType::kHashTemplateListpackRef:
      case RdbType::kHashTemplateRef:
        return false;
      case RdbType::kStreamListpacks:
      case RdbType::kStreamListpacks2:
      case RdbType::kStreamListpacks3:
      case RdbType::kStreamListpacks4:
      case RdbType::kStreamListpacks5:
        return ReadStream(type);
      case RdbType::kHashMetadata:
      case RdbType::kHashMetadataPreGa:
        return ReadHashWithDeadlines(type);
      case RdbType::kHashListpackEx:
      case RdbType::kHashListpackExPreGa:
        return ReadPackedHashWithDeadlines(type);
      case RdbType::kHashValkey:
        return ReadHashOfValkey();
      case RdbType::kSetMetadata:
        return ReadSetWithDeadlines();
      case RdbType::kBloomFilter:
        return Take(ValueType::kBloomFilter, ReadRdbBloomFilter(limits_.string_max, &reader_));
      case RdbType::kCountMinSketch:
        return Take(ValueType::kCountMinSketch,
                    ReadRdbCountMinSketch(limits_.string_max, &reader_));
      case RdbType::kTopK:
        return Take(ValueType::kTopK, ReadRdbTopK(limits_.string_max, &reader_));
      case RdbType::kJson:
        return Take(ValueType::kJson, ReadRdbJson(&reader_));
    }
    return false;
  }

  // Read returned false only because the collection has no elements.
  bool is_empty() const { return is_empty_; }

 private:
  bool Empty() {
    is_empty_ = true;
    return false;
  }
  // take(text) for each entry of a packed block, until it returns false.
  template <typename F>
  bool ForEachEntry(Kind kind, F&& take) {
    const auto block = reader_.String();
    if (!block) return false;
    ForeignEntries entries(kind, *block);
    while (const auto text = entries.Next()) {
      if (!take(*text)) return false;
    }
    return entries.is_sound();
  }
  // take(text, text behind it), for blocks of pairs.
  template <typename F>
  bool ForEachPairOf(Kind kind, std::string_view block, F&& take) {
    ForeignEntries entries(kind, block);
    while (const auto first = entries.Next()) {
      const auto second = entries.Next();
      if (!second || !take(*first, *second)) return false;
    }
    return entries.is_sound();
  }

  bool ReadString() {
    const auto text = reader_.String();
    if (text) value_.SetString(*text);
    return text.has_value();
  }

  bool ReadList(RdbType type) {
    value_.SetObject(ValueType::kList, std::make_unique<QuickList>().release(), 0);
    auto& list = *static_cast<QuickList*>(value_.object());
    const auto push = [&](std::string_view text) {
      if (text.size() > QuickList::kElementMax) return false;
      list.Push(QuickList::End::kBack, text, limits_.list);
      return true;
    };
    if (type == RdbType::kListZiplist) {
      if (!ForEachEntry(Kind::kZiplist, push)) return false;
      return !list.empty() || Empty();
    }
    const auto count = reader_.Count();
    if (!count) return false;
    for (uint64_t i = 0; i < *count; ++i) {
      bool is_plain = type == RdbType::kList;
      if (type == RdbType::kListQuicklist2) {
        const auto container = reader_.Length();
        if (container != kPlainNode && container != kPackedNode) return false;
        is_plain = container == kPlainNode;
      }
      if (!is_plain) {
        const auto kind = type == RdbType::kListQuicklist ? Kind::kZiplist : Kind::kListpack;
        if (!ForEachEntry(kind, push)) return false;
        continue;
      }
      const auto text = reader_.String();
      if (!text || !push(*text)) return false;
    }
    return !list.empty() || Empty();
  }

  // The first element makes the value another one than the empty text.
  bool HasElements() { return !value_.is_string() || Empty(); }

  // A member that is there already is an error.
  bool AddMember(std::string_view member, size_t expected) {
    if (member.size() > kMemberMax) return false;
    if (value_.is_string()) SetValue::Create(&value_, member, expected, limits_.set);
    return SetValue(&value_).Add(member, limits_.set);
  }

  bool ReadSet() {
    const auto count = reader_.Count();
    if (!count) return false;
    if (*count == 0) return Empty();
    // A block is built as long as all is as it would be there; one of integers alone is none.
    PackedBlockBuilder packed;
    SeenMembers seen;
    bool is_built = *count <= limits_.set.packed.entries;
    const auto take_built = [&] {
      if (packed.entries() == 0) return;
      value_.SetObject(ValueType::kSet, packed.Build().address(), SetValue::kPacked);
    };
    for (uint64_t i = 0; i < *count; ++i) {
      const auto member = reader_.String();
      if (!member) return false;
      if (is_built) {
        is_built = member->size() <= limits_.set.packed.element_bytes &&
                   packed.entry_bytes() <= kBuiltBytesMax && (i > 0 || !ParseInt64(*member)) &&
                   seen.IsNew(*member);
        if (is_built) {
          packed.Append(PackedText(*member));
          continue;
        }
        take_built();
      }
      if (!AddMember(*member, *count)) return false;
    }
    if (is_built) take_built();
    return true;
  }

  bool ReadSetListpack() {
    const bool is_read = ForEachEntry(
        Kind::kListpack, [this](std::string_view member) { return AddMember(member, 1); });
    return is_read && HasElements();
  }

  bool ReadIntset() {
    const auto block = reader_.String();
    if (!block || block->size() < 8) return false;
    const uint64_t width = packed::ReadLittle(block->data(), 4);
    const uint64_t count = packed::ReadLittle(block->data() + 4, 4);
    if ((width != 2 && width != 4 && width != 8) || count == 0 ||
        block->size() != 8 + width * count) {
      return false;
    }
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t bits = packed::ReadLittle(block->data() + 8 + i * width, width);
      const auto unused = static_cast<int>(64 - 8 * width);
      const int64_t number = static_cast<int64_t>(bits << unused) >> unused;
      if (!AddMember(std::to_string(number), count)) return false;
    }
    return true;
  }

  static std::optional<double> ParseScore(std::string_view text) {
    if (const std::optional<int64_t> number = ParseInt64(text)) {
      return static_cast<double>(*number);
    }
    // Plain decimals, which cannot overflow, the quick way.
    double score;
    const char* const end = text.data() + text.size();
    if (text.size() < 40 && text.find_first_not_of("-.0123456789") == text.npos &&
        std::from_chars(text.data(), end, score).ptr == end) {
      return score;
    }
    return ParseDouble(text);
  }

  bool AddScore(std::string_view member, double score, size_t expected) {
    if (member.size() > kMemberMax || std::isnan(score)) return false;
    if (value_.is_string()) ZsetValue::Create(&value_, member.size(), expected, limits_.zset);
    return ZsetValue(&value_).Set(member, score, limits_.zset);
  }

  bool ReadZset(RdbType type) {
    const auto count = reader_.Count();
    if (!count) return false;
    if (*count == 0) return Empty();
    for (uint64_t i = 0; i < *count; ++i) {
      const auto text = reader_.String();
      if (!text) return false;
      const std::string member(*text);
      const auto score = type == RdbType::kZset2 ? reader_.Double() : reader_.TextDouble();
      if (!score || !AddScore(member, *score, *count)) return false;
    }
    return true;
  }

  // A block in its order, without what only a table may have. False: the long way has to tell.
  bool BuildZset(Kind kind, std::string_view block) {
    PackedBlockBuilder packed;
    SeenMembers seen;
    std::string before;
    double score_before = 0;
    ForeignEntries entries(kind, block);
    while (const auto member = entries.Next()) {
      const auto text = entries.Next();
      const auto score = text ? ParseScore(*text) : std::nullopt;
      const bool is_next = packed.entries() == 0 ||
                           (score && ZsetValue::IsBefore(before, score_before, *member, *score));
      if (!score || std::isnan(*score) || !is_next ||
          packed.entries() / 2 >= limits_.zset.entries ||
          member->size() > limits_.zset.element_bytes || packed.entry_bytes() > kBuiltBytesMax ||
          !seen.IsNew(*member)) {
        return false;
      }
      ZsetValue::AppendPacked(*member, *score, &packed);
      before = *member;
      score_before = *score;
    }
    if (!entries.is_sound() || packed.entries() == 0) return false;
    value_.SetObject(ValueType::kZset, packed.Build().address(), ZsetValue::kPacked);
    return true;
  }

  bool ReadPackedZset(Kind kind) {
    const auto block = reader_.String();
    if (!block) return false;
    if (BuildZset(kind, *block)) return true;
    const bool is_read =
        ForEachPairOf(kind, *block, [this](std::string_view member, std::string_view text) {
          const auto score = ParseScore(text);
          return score && AddScore(member, *score, 1);
        });
    return is_read && HasElements();
  }

  bool AddField(std::string_view field, std::string_view text) {
    if (field.size() > kMemberMax) return false;
    if (value_.is_string()) HashValue::Create(&value_);
    return HashValue(&value_).Set(field, text, limits_.hash);
  }

  bool ReadHash() {
    const auto count = reader_.Count();
    if (!count) return false;
    if (*count == 0) return Empty();
    HashValue::Create(&value_);
    if (*count > limits_.hash.entries) HashValue(&value_).MakeTable();
    for (uint64_t i = 0; i < *count; ++i) {
      const auto name = reader_.String();
      if (!name) return false;
      const std::string field(*name);
      const auto text = reader_.String();
      if (!text || !AddField(field, *text)) return false;
    }
    return true;
  }

  // As BuildZset.
  bool BuildHash(Kind kind, std::string_view block) {
    PackedBlockBuilder packed;
    SeenMembers seen;
    ForeignEntries entries(kind, block);
    while (const auto field = entries.Next()) {
      const auto text = entries.Next();
      if (!text || packed.entries() / 2 >= limits_.hash.entries ||
          std::max(field->size(), text->size()) > limits_.hash.element_bytes ||
          packed.entry_bytes() > kBuiltBytesMax || !seen.IsNew(*field)) {
        return false;
      }
      packed.Append(PackedText(*field));
      packed.Append(PackedText(*text));
    }
    if (!entries.is_sound() || packed.entries() == 0) return false;
    value_.SetObject(ValueType::kHash, packed.Build().address(), HashValue::kPacked);
    return true;
  }

  bool ReadPackedHash(Kind kind) {
    const auto block = reader_.String();
    if (!block) return false;
    if (BuildHash(kind, *block)) return true;
    const bool is_read = ForEachPairOf(
        kind, *block,
        [this](std::string_view field, std::string_view text) { return AddField(field, text); });
    return is_read && HasElements();
  }

  // In a row as Redis has them, by length and then by bytes, each once.
  bool ReadNames(std::vector<std::string>* names) {
    const auto add = [names](std::string_view name) {
      const bool is_next = names->empty() || names->back().size() < name.size() ||
                           (names->back().size() == name.size() && names->back() < name);
      if (is_next) names->emplace_back(name);
      return is_next;
    };
    const auto form = reader_.Length();
    if (form == kNamesInListpack) return ForEachEntry(Kind::kListpack, add) && !names->empty();
    if (form != kNamesInStrings) return false;
    const auto count = reader_.Count();
    if (!count || *count == 0) return false;
    for (uint64_t i = 0; i < *count; ++i) {
      const auto name = reader_.String();
      if (!name || !add(*name)) return false;
    }
    return true;
  }

  bool ReadHashWithNames(RdbType type) {
    std::vector<std::string> names;
    if (!ReadNames(&names)) return false;
    if (type == RdbType::kHashTemplate) {
      return std::all_of(names.begin(), names.end(), [this](const std::string& name) {
        const auto text = reader_.String();
        return text && AddField(name, *text);
      });
    }
    const auto block = reader_.String();
    if (!block) return false;
    ForeignEntries entries(Kind::kListpack, *block);
    const auto id = entries.Next();  // by which its server knew the names
    if (!id || !ParseInt64(*id)) return false;
    for (const std::string& name : names) {
      const auto text = entries.Next();
      if (!text || !AddField(name, *text)) return false;
    }
    return !entries.Next() && entries.is_sound();
  }

  // add(deadline) for each member of a hash or set, which reads what follows the deadline, and
  // returns false at the first thing that is wrong.
  template <typename F>
  bool ForEachDeadline(bool has_earliest, F&& add) {
    const auto earliest_ms = has_earliest ? reader_.Little(kDeadlineBytes) : 1;
    const auto count = earliest_ms ? reader_.Count() : std::nullopt;
    if (!count) return false;
    if (*count == 0) return Empty();
    for (uint64_t i = 0; i < *count; ++i) {
      const auto later_ms = reader_.Length();
      if (!later_ms) return false;
      uint64_t at_ms = kNoDeadline;
      if (*later_ms != 0 && (__builtin_add_overflow(*earliest_ms, *later_ms - 1, &at_ms) ||
                             at_ms > HashValue::Table::kDeadlineMax)) {
        return false;
      }
      if (!add(at_ms)) return false;
    }
    return true;
  }

  bool AddFieldUntil(std::string_view field, std::string_view text, uint64_t at_ms) {
    if (!AddField(field, text)) return false;
    if (at_ms != kNoDeadline) HashValue(&value_).SetDeadline(field, static_cast<int64_t>(at_ms));
    return true;
  }

  bool ReadHashWithDeadlines(RdbType type) {
    return ForEachDeadline(type == RdbType::kHashMetadata, [this](uint64_t at_ms) {
      const auto name = reader_.String();
      if (!name) return false;
      const std::string field(*name);
      const auto text = reader_.String();
      return text && AddFieldUntil(field, *text, at_ms);
    });
  }

  bool ReadPackedHashWithDeadlines(RdbType type) {
    // The entries tell it, too.
    if (type == RdbType::kHashListpackEx && !reader_.Little(kDeadlineBytes)) return false;
    const auto block = reader_.String();
    if (!block) return false;
    ForeignEntries entries(Kind::kListpack, *block);
    while (const auto name = entries.Next()) {
      const std::string field(*name);
      const auto text = entries.Next();
      const auto digits = text ? entries.Next() : std::nullopt;
      const auto at_ms = digits ? ParseInt64(*digits) : std::nullopt;
      if (!at_ms || *at_ms < 0 || *at_ms > HashValue::Table::kDeadlineMax ||
          !AddFieldUntil(field, *text, *at_ms == 0 ? kNoDeadline : static_cast<uint64_t>(*at_ms))) {
        return false;
      }
    }
    return entries.is_sound() && HasElements();
  }

  bool ReadHashOfValkey() {
    const auto count = reader_.Count();
    if (!count) return false;
    if (*count == 0) return Empty();
    for (uint64_t i = 0; i < *count; ++i) {
      const auto name = reader_.String();
      if (!name) return false;
      const std::string field(*name);
      const auto text = reader_.String();
      if (!text) return false;
      const std::string copy(*text);
      const auto at_ms = reader_.Little(kDeadlineBytes);
      if (!at_ms || (*at_ms != kNoDeadline && *at_ms > uint64_t{HashValue::Table::kDeadlineMax}) ||
          !AddFieldUntil(field, copy, *at_ms)) {
        return false;
      }
    }
    return true;
  }

  bool ReadSetWithDeadlines() {
    return ForEachDeadline(true, [this](uint64_t at_ms) {
      const auto text = reader_.String();
      if (!text) return false;
      const std::string member(*text);
      if (!AddMember(member, 1)) return false;
      if (at_ms != kNoDeadline) {
        SetValue(&value_).SetDeadline(member, static_cast<int64_t>(at_ms));
      }
      return true;
    });
  }

  template <typename T>
  bool Take(ValueType type, std::unique_ptr<T> object) {
    if (object == nullptr) return false;
    value_.SetObject(type, object.release(), 0);
    return true;
  }

  bool ReadStream(RdbType type) {
    value_.SetObject(ValueType::kStream, std::make_unique<StreamValue>().release(), 0);
    return ReadRdbStream(type, &reader_, static_cast<StreamValue*>(value_.object()));
  }

  const RdbLimits& limits_;
  RdbReader reader_;
  CompactValue& value_;
  bool is_empty_ = false;
};

}  // namespace

std::optional<RdbType> RdbTypeOf(const CompactValue& value) {
  const RdbType type = DflyTypeOf(value);
  if (type > kRdbTypeWrittenMax) return std::nullopt;
  return type;
}

RdbType DflyTypeOf(const CompactValue& value) {
  const auto encoding = value.is_string() ? uint8_t{0} : value.object_encoding();
  switch (value.type()) {
    case ValueType::kString:
      return RdbType::kString;
    case ValueType::kList:
      return RdbType::kListQuicklist2;
    case ValueType::kSet:
      if (encoding == SetValue::kIntegers) return RdbType::kSetIntset;
      if (encoding == SetValue::kPacked) return RdbType::kSet;
      return SetValue(value).table().has_deadlines() ? RdbType::kSetMetadata : RdbType::kSet;
    case ValueType::kZset:
      return encoding == ZsetValue::kPacked ? RdbType::kZsetListpack : RdbType::kZset2;
    case ValueType::kHash:
      if (encoding != HashValue::kTable) return RdbType::kHashListpack;
      return HashValue(value).table().has_deadlines() ? RdbType::kHashMetadata : RdbType::kHash;
    case ValueType::kStream:
      return ObjectOf<StreamValue>(value).producers() == nullptr ? RdbType::kStreamListpacks2
                                                                 : RdbType::kStreamListpacks4;
    case ValueType::kBloomFilter:
      return RdbType::kBloomFilter;
    case ValueType::kCountMinSketch:
      return RdbType::kCountMinSketch;
    case ValueType::kTopK:
      return RdbType::kTopK;
    case ValueType::kJson:
      return RdbType::kJson;
  }
  LOG(FATAL) << "no such type: " << static_cast<int>(value.type());
}

void WriteRdbValue(const CompactValue& value, RdbType type, RdbWriter* writer, int64_t now_ms) {
  switch (type) {
    case RdbType::kString: {
      if (value.is_int()) return writer->String(value.AsInt());
      char scratch[CompactValue::kScratchSize];
      return writer->String(value.View(scratch));
    }
    case RdbType::kListQuicklist2:
      return WriteList(ObjectOf<QuickList>(value), writer);
    case RdbType::kSet:
      return WriteMembers(SetValue(value, now_ms), writer);
    case RdbType::kSetIntset:
      return WriteIntegers(SetValue(value), writer);
    case RdbType::kSetMetadata:
      return WriteWithDeadlines(SetValue(value).table(), now_ms, writer);
    case RdbType::kZset2:
      return WriteScores(ZsetValue(Mutable(value)), writer);
    case RdbType::kZsetListpack:
      return WritePackedScores(ZsetValue(Mutable(value)), writer);
    case RdbType::kHash:
      return WriteFields(HashValue(value, now_ms), writer);
    case RdbType::kHashListpack:
      return WritePackedFields(HashValue(value), writer);
    case RdbType::kHashMetadata:
      return WriteWithDeadlines(HashValue(value).table(), now_ms, writer);
    case RdbType::kStreamListpacks2:
    case RdbType::kStreamListpacks4:
      return WriteRdbStream(ObjectOf<StreamValue>(value), type, writer);
    case RdbType::kBloomFilter:
      return WriteRdbBloomFilter(ObjectOf<BloomFilter>(value), writer);
    case RdbType::kCountMinSketch:
      return WriteRdbCountMinSketch(ObjectOf<CountMinSketch>(value), writer);
    case RdbType::kTopK:
      return WriteRdbTopK(ObjectOf<TopK>(value), writer);
    case RdbType::kJson:
      return WriteRdbJson(ObjectOf<JsonDoc>(value), writer);
    default:
      LOG(FATAL) << "not written: type " << static_cast<int>(type);
  }
}

RdbRead ReadRdbValue(uint8_t type, const RdbLimits& limits, ByteSource* source,
                     CompactValue* value) {
  *value = CompactValue();
  ValueReader reader(limits, source, value);
  if (reader.Read(static_cast<RdbType>(type))) {
    if (value->type() == ValueType::kHash) HashValue(value).ShareNames();
    return RdbRead::kValue;
  }
  return reader.is_empty() ? RdbRead::kEmpty : RdbRead::kDamaged;
}

}  // namespace dfly
