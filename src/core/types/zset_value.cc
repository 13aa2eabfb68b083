// SPDX-License-Identifier: Apache-2.0
#include "core/types/zset_value.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <span>

#include "core/memory/prefetch.h"
#include "core/text/hash.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

// Up to here each integer is a double.
constexpr double kIntegersEnd = 9007199254740992.0;

KeyProbe ProbeOf(std::string_view member) { return KeyProbe(member, HashKey(member)); }

void Insert(SortedTable* table, std::string_view member, double score) {
  const auto it = table->scores.Insert(ProbeOf(member));
  it->value = score;
  table->order.Insert(score, it->key);
}

// What each look-up has to wait for is fetched for all of them at once. REQUIRES: they are there.
void EraseAll(std::span<const CompactKeyRef> members, DashTable<double>* scores) {
  uint64_t hashes[ScoreTree::kErasedMax];
  for (const CompactKeyRef& member : members) PrefetchLine(member.HeapAddress());
  for (size_t i = 0; i < members.size(); ++i) {
    char scratch[CompactKeyRef::kScratchSize];
    hashes[i] = HashKey(members[i].View(scratch));
    scores->Prefetch(FetchStage::kBucket, hashes[i]);
  }
  for (size_t i = 0; i < members.size(); ++i) scores->Prefetch(FetchStage::kSlot, hashes[i]);
  for (size_t i = 0; i < members.size(); ++i) {
    char scratch[CompactKeyRef::kScratchSize];
    scores->Erase(scores->Find(KeyProbe(members[i].View(scratch), hashes[i])));
  }
}

// A score as an entry of a block.
class PackedScore {
 public:
  explicit PackedScore(double score) : bytes_(BytesOf(score)), text_(Pack(score)) {}
  PackedScore(const PackedScore&) = delete;
  PackedScore& operator=(const PackedScore&) = delete;
  const PackedText& text() const { return text_; }

 private:
  struct Bytes {
    char data[sizeof(double)];
  };
  static Bytes BytesOf(double score) {
    Bytes bytes;
    std::memcpy(bytes.data, &score, sizeof(score));
    return bytes;
  }
  PackedText Pack(double score) const {
    const bool is_integer = std::abs(score) < kIntegersEnd && score == std::trunc(score);
    if (is_integer) return PackedText(static_cast<int64_t>(score));
    return PackedText::OfBytes({bytes_.data, sizeof(bytes_.data)});
  }

  const Bytes bytes_;
  const PackedText text_;
};

void Destroy(void* object, uint8_t encoding) {
  if (encoding == ZsetValue::kPacked) {
    Free(object);
  } else {
    delete static_cast<SortedTable*>(object);
  }
}

void* Move(void* object, uint8_t encoding, BlockMover& mover, uint64_t* cursor) {
  if (encoding == ZsetValue::kPacked) {
    *cursor = 0;  // it may have been a table before
    return mover.Move(object);
  }
  enum Part : uint32_t { kScores, kOrder };
  auto* table = static_cast<SortedTable*>(object);
  if (*cursor == 0) table = mover.Move(table);
  auto part = static_cast<Part>(*cursor >> 32);
  auto at = static_cast<uint32_t>(*cursor);
  if (part == kScores) {
    at = table->scores.Move(at, mover, [&](auto& slot) {
      slot.key.Move(mover, [&](const CompactKeyRef& key) { table->order.Follow(slot.value, key); });
    });
  } else {
    at = table->order.Move(at, mover);
  }
  if (at == 0) part = static_cast<Part>(part + 1);
  *cursor = part > kOrder ? 0 : uint64_t{part} << 32 | at;
  return table;
}

void Prefetch(const void* object, uint8_t encoding, FetchStage stage, uint64_t hash) {
  if (encoding == ZsetValue::kTable)
    static_cast<const SortedTable*>(object)->scores.Prefetch(stage, hash);
}

bool FreeSome(void* object, uint8_t encoding, size_t budget) {
  if (encoding == ZsetValue::kPacked) return true;
  auto* table = static_cast<SortedTable*>(object);
  return table->order.FreeSome(budget) && table->scores.FreeSome(budget);
}

size_t Bytes(const void* object, uint8_t encoding) {
  if (encoding == ZsetValue::kPacked) return UsableSize(object);
  return static_cast<const SortedTable*>(object)->bytes();
}

bool IsEmpty(const void* object, uint8_t encoding) {
  if (encoding == ZsetValue::kPacked) return PackedBlock(const_cast<void*>(object)).empty();
  return static_cast<const SortedTable*>(object)->scores.size() == 0;
}

void* CloneSome(const void* object, uint8_t encoding, void* copy, uint64_t* cursor) {
  constexpr int kBudget = 1024;
  if (encoding == ZsetValue::kPacked) {
    return PackedBlock(const_cast<void*>(object)).Clone().address();
  }
  auto* const made =
      copy == nullptr ? std::make_unique<SortedTable>().release() : static_cast<SortedTable*>(copy);
  // In their order, which is quick to insert. Members of a sorted set do not go by themselves.
  auto from = static_cast<const SortedTable*>(object)->order.At(made->scores.size());
  for (int left = kBudget; from && left > 0; --left, from.Next()) {
    char scratch[ZsetValue::kScratchSize];
    Insert(made, from.member(scratch), from.score());
  }
  *cursor = from ? made->scores.size() : 0;
  return made;
}

void* Clone(const void* object, uint8_t encoding) {
  void* copy = nullptr;
  uint64_t cursor = 0;
  do {
    copy = CloneSome(object, encoding, copy, &cursor);
  } while (cursor != 0);
  return copy;
}

std::string_view EncodingName(const void*, uint8_t encoding) {
  return encoding == ZsetValue::kPacked ? "listpack" : "skiplist";
}

}  // namespace

void ZsetValue::RegisterType() {
  RegisterObjectType(ValueType::kZset, {.destroy = Destroy,
                                        .bytes = Bytes,
                                        .is_empty = IsEmpty,
                                        .clone = Clone,
                                        .clone_some = CloneSome,
                                        .encoding_name = EncodingName,
                                        .free_some = FreeSome,
                                        .move = Move,
                                        .prefetch = Prefetch});
}

void ZsetValue::Create(CompactValue* value, size_t member_bytes, size_t expected,
                       const PackedLimit& limit) {
  if (expected <= limit.entries && member_bytes <= limit.element_bytes) {
    value->SetObject(ValueType::kZset, PackedBlock::Make().address(), kPacked);
  } else {
    value->SetObject(ValueType::kZset, std::make_unique<SortedTable>().release(), kTable);
  }
}

size_t ZsetValue::size() const {
  return encoding() == kPacked ? block().entries() / 2 : table().scores.size();
}

double ZsetValue::ScoreAt(Place at) {
  const PackedElement element(PackedBlock::Next(at));
  if (const auto number = element.TryInt()) return static_cast<double>(*number);
  char scratch[kScratchSize];
  double score;
  std::memcpy(&score, element.View(scratch).data(), sizeof(score));
  return score;
}

template <typename Before>
size_t ZsetValue::CountPacked(Before before) const {
  const PackedBlock packed = block();
  size_t count = 0;
  char scratch[kScratchSize];
  for (Place at = packed.begin(); at != packed.end(); ++count) {
    if (!before(PackedElement(at).View(scratch), ScoreAt(at))) break;
    at = PackedBlock::Next(PackedBlock::Next(at));
  }
  return count;
}

std::optional<double> ZsetValue::Score(std::string_view member) const {
  if (encoding() == kPacked) {
    const Place at = block().Find(PackedText(member), 2);
    if (at == block().end()) return std::nullopt;
    return ScoreAt(at);
  }
  const auto it = table().scores.Find(ProbeOf(member));
  if (!it) return std::nullopt;
  return it->value;
}

std::optional<std::pair<size_t, double>> ZsetValue::Rank(std::string_view member) const {
  const std::optional<double> score = Score(member);
  if (!score) return std::nullopt;
  if (encoding() == kTable) return std::pair(table().order.Rank(*score, member), *score);
  const size_t rank = CountPacked([&](std::string_view other, double) { return other != member; });
  return std::pair(rank, *score);
}

bool ZsetValue::Set(std::string_view member, double score, const PackedLimit& limit) {
  DCHECK(!std::isnan(score));
  bool is_new = false;
  if (encoding() == kPacked) {
    const Place at = block().Find(PackedText(member), 2);
    is_new = at == block().end();
    const bool fits = size() < limit.entries && member.size() <= limit.element_bytes &&
                      block().entry_bytes() + member.size() <= kBlockMax;
    if (!is_new || fits) {
      SetPacked(member, score, at);
      return is_new;
    }
    MakeTable();
  }
  SetInTable(member, score, &is_new);
  return is_new;
}

void ZsetValue::SetPacked(std::string_view member, double score, Place known) {
  PackedBlock packed = block();
  if (known != packed.end()) packed.Erase(known, 2);
  value_.ReplaceObject(packed.address(), kPacked);
  char scratch[kScratchSize];
  Place at = packed.begin();
  while (at != packed.end() &&
         IsBefore(PackedElement(at).View(scratch), ScoreAt(at), member, score)) {
    at = PackedBlock::Next(PackedBlock::Next(at));
  }
  at = packed.Insert(at, PackedText(member));
  const PackedScore packed_score(score);
  packed.Insert(PackedBlock::Next(at), packed_score.text());
  value_.ReplaceObject(packed.address(), kPacked);
}

void ZsetValue::AppendPacked(std::string_view member, double score, PackedBlockBuilder* to) {
  to->Append(PackedText(member));
  const PackedScore packed_score(score);
  to->Append(packed_score.text());
}

void ZsetValue::SetInTable(std::string_view member, double score, bool* is_new) {
  const auto [it, is_added] = table().scores.FindOrInsert(ProbeOf(member));
  *is_new = is_added;
  if (!is_added) table().order.Erase(it->value, member);
  it->value = score;
  table().order.Insert(score, it->key);
}

bool ZsetValue::Erase(std::string_view member) {
  if (encoding() == kPacked) {
    PackedBlock packed = block();
    const Place at = packed.Find(PackedText(member), 2);
    if (at == packed.end()) return false;
    packed.Erase(at, 2);
    value_.ReplaceObject(packed.address(), kPacked);
    return true;
  }
  const auto it = table().scores.Find(ProbeOf(member));
  if (!it) return false;
  table().order.Erase(it->value, member);
  table().scores.Erase(it);
  return true;
}

size_t ZsetValue::CountBelow(double score) const {
  if (encoding() == kTable) return table().order.CountBelow(score);
  return CountPacked([&](std::string_view, double its_score) { return its_score < score; });
}

size_t ZsetValue::CountUpTo(double score) const {
  if (encoding() == kTable) return table().order.CountUpTo(score);
  return CountPacked([&](std::string_view, double its_score) { return its_score <= score; });
}

size_t ZsetValue::CountBelowMember(std::string_view member) const {
  if (encoding() == kTable) return table().order.CountBelowMember(member);
  return CountPacked([&](std::string_view its_member, double) { return its_member < member; });
}

size_t ZsetValue::CountUpToMember(std::string_view member) const {
  if (encoding() == kTable) return table().order.CountUpToMember(member);
  return CountPacked([&](std::string_view its_member, double) { return its_member <= member; });
}

void ZsetValue::EraseRange(size_t first, size_t count) {
  if (count == 0) return;
  if (encoding() == kPacked) {
    PackedBlock packed = block();
    packed.Erase(packed.At(first * 2), count * 2);
    value_.ReplaceObject(packed.address(), kPacked);
    return;
  }
  // To make a table costs a member about eight times what it costs one to be erased.
  const size_t kept = size() - count;
  if (count > ScoreTree::kErasedMax && kept * 8 < count) {
    auto fresh = std::make_unique<SortedTable>();
    const auto keep = [&fresh](std::string_view member, double score) {
      Insert(fresh.get(), member, score);
    };
    ForRange(0, first, false, keep);
    ForRange(first + count, kept - first, false, keep);
    return ReplaceTable(fresh.release());
  }
  while (count > 0) {
    CompactKeyRef erased[ScoreTree::kErasedMax];
    const uint32_t some = table().order.EraseSome(first, count, erased);
    EraseAll(std::span(erased, some), &table().scores);
    count -= some;
  }
}

void ZsetValue::MakeTable() {
  auto fresh = std::make_unique<SortedTable>();
  ForEach([&](std::string_view member, double score) { Insert(fresh.get(), member, score); });
  Free(value_.object());
  value_.ReplaceObject(fresh.release(), kTable);
}

void ZsetValue::ReplaceTable(SortedTable* table) {
  CompactValue gone;
  gone.SetObject(ValueType::kZset, value_.object(), kTable);
  value_.ReplaceObject(table, kTable);
}

}  // namespace dfly
