// SPDX-License-Identifier: Apache-2.0
// RESTORE payloads, without their checksum: whatever the bytes are, they are refused, or what comes
// of them is a sound value, which can be read, changed, written and read again, and costs what it
// says it does; and who only skips it finds the same end.
//
//   input   type (1), which limits (1), what follows the type in a payload
#include <gtest/gtest.h>

#include <cmath>

#include "core/rdb/rdb_foreign_testing.h"
#include "core/rdb/rdb_skip.h"
#include "core/rdb/rdb_value.h"
#include "core/rdb/rdb_value_testing.h"
#include "core/text/hash.h"
#include "helio/base/fuzz_target.h"

namespace dfly {
namespace {

using helio::Random;
using testkit::ContentOf;
using testkit::Texts;

void RegisterOnce() {
  [[maybe_unused]] static const bool is_registered = (testkit::RegisterRdbTypes(), true);
}

constexpr size_t kStringMax = 20'000;

RdbLimits LimitsOf(uint8_t choice) {
  RdbLimits limits = testkit::RdbValues().limits_;
  limits.string_max = kStringMax;
  if (choice & 1) {
    limits.list = {.bytes = 100, .entries = 5};
    limits.set = {.integers = 4, .packed = {.entries = 3, .element_bytes = 5}};
    limits.zset = limits.hash = {.entries = 3, .element_bytes = 5};
  }
  return limits;
}

// What the types promise, besides what ContentOf looks at.
void CheckSound(CompactValue& value) {
  CHECK(value.is_string() || !value.IsEmptyObject());
  switch (value.type()) {
    case ValueType::kSet: {
      const SetValue set(&value);
      size_t seen = 0;
      if (set.encoding() == SetValue::kTable) set.table().CheckInvariants();
      set.ForEach([&](std::string_view member) {
        ++seen;
        CHECK(set.Has(member));
      });
      CHECK_EQ(seen, set.size());
      break;
    }
    case ValueType::kHash: {
      const HashValue hash(&value);
      size_t seen = 0;
      if (hash.encoding() == HashValue::kTable) hash.table().CheckInvariants();
      hash.ForEach([&](std::string_view field, std::string_view text) {
        char scratch[HashValue::kScratchSize];
        ++seen;
        CHECK(hash.Get(field, scratch) == text);
      });
      CHECK_EQ(seen, hash.size());
      break;
    }
    case ValueType::kZset: {
      const ZsetValue zset(&value);
      size_t seen = 0;
      double before = -HUGE_VAL;
      std::string member_before;
      zset.ForEach([&](std::string_view member, double score) {
        CHECK(before < score || (before == score && (seen == 0 || member_before < member)));
        CHECK(zset.Rank(member) == std::pair(seen, score));
        before = score;
        member_before = member;
        ++seen;
      });
      CHECK_EQ(seen, zset.size());
      break;
    }
    case ValueType::kStream: {
      const auto& stream = *static_cast<const StreamValue*>(value.object());
      uint64_t forwards = 0, backwards = 0;
      const auto count = [](uint64_t* entries) {
        return [entries](const StreamEntry&) { return ++*entries > 0; };
      };
      stream.entries().ForEach(StreamId::Min(), StreamId::Max(), count(&forwards));
      stream.entries().ForEachBackwards(StreamId::Min(), StreamId::Max(), count(&backwards));
      CHECK_EQ(forwards, stream.size());
      CHECK_EQ(backwards, stream.size());
      break;
    }
    default:
      break;
  }
}

// Written and read again it is the same. REQUIRES: it is not empty.
void CheckRoundTrip(CompactValue& value, const RdbLimits& limits, const Texts& content) {
  using enum RdbWriter::Compression;
  const auto [type, bytes] = testkit::WriteRdb(value, HashKey(content[0]) % 2 ? kLzf : kNone);
  ViewSource source(bytes);
  CompactValue back;
  CHECK(ReadRdbValue(static_cast<uint8_t>(type), limits, &source, &back) == RdbRead::kValue);
  CHECK_EQ(source.left(), 0u);
  CHECK(back.type() == value.type());
  CHECK(ContentOf(back) == content);
}

// --- A few changes, which have to come out as they would of any value ---

void ChangeString(CompactValue* value, Random* random) {
  std::string model = value->ToString();
  const std::string text = testkit::RdbValues::RandomText(random) + "x";
  const size_t at = random->Uniform(model.size() + 3);
  value->SetRange(at, text);
  model.resize(std::max(model.size(), at + text.size()));
  model.replace(at, text.size(), text);
  value->Append("end");
  CHECK_EQ(value->ToString(), model + "end");
}

void ChangeList(QuickList* list, const BlockLimit& limit, Random* random) {
  using End = QuickList::End;
  Texts model;
  for (auto at = list->At(End::kFront); at; at.Next()) model.push_back((*at).ToString());
  for (int i = 0; i < 6; ++i) {
    const std::string text = testkit::RdbValues::RandomText(random);
    const size_t index = random->Uniform(model.size());
    const auto where = model.begin() + static_cast<ptrdiff_t>(index);
    switch (random->Uniform(6)) {
      case 0:
        list->Push(End::kFront, text, limit);
        model.insert(model.begin(), text);
        break;
      case 1:
        list->Push(End::kBack, text, limit);
        model.push_back(text);
        break;
      case 2:
        list->InsertBefore(list->At(index), text, limit);
        model.insert(where, text);
        break;
      case 3:
        list->Replace(list->At(index), text, limit);
        *where = text;
        break;
      case 4: {
        const std::string gone = *where;
        const size_t removed = list->Remove(gone, SIZE_MAX, End::kBack, limit);
        CHECK_EQ(removed, std::erase(model, gone));
        break;
      }
      default:
        list->Pop(End::kFront, limit);
        model.erase(model.begin());
        break;
    }
    if (model.empty()) {
      list->Push(End::kBack, text, limit);
      model.push_back(text);
    }
    CHECK_EQ(list->size(), model.size());
  }
  size_t index = 0;
  for (auto at = list->At(End::kFront); at; at.Next()) CHECK_EQ((*at).ToString(), model[index++]);
}

void ChangeSet(CompactValue* value, const SetLimit& limit, Random* random) {
  SetValue set(value);
  for (int i = 0; i < 6; ++i) {
    char scratch[SetValue::kScratchSize];
    const std::string member = random->OneIn(2) ? testkit::RdbValues::RandomText(random)
                                                : std::string(set.Random(*random, scratch));
    const size_t size = set.size();
    const bool was_there = set.Has(member);
    if (size > 1 && random->OneIn(2)) {
      CHECK_EQ(set.Erase(member), was_there);
      CHECK_EQ(set.size(), size - was_there);
    } else {
      CHECK_EQ(set.Add(member, limit), !was_there);
      CHECK_EQ(set.size(), size + !was_there);
    }
  }
}

void ChangeHash(CompactValue* value, const PackedLimit& limit, Random* random) {
  HashValue hash(value);
  for (int i = 0; i < 6; ++i) {
    std::string field = testkit::RdbValues::RandomText(random);
    if (random->OneIn(2)) {
      hash.Random(*random, [&field](std::string_view one, std::string_view) { field = one; });
    }
    const size_t size = hash.size();
    const bool was_there = hash.Has(field);
    if (size > 1 && random->OneIn(2)) {
      CHECK_EQ(hash.Erase(field), was_there);
      CHECK_EQ(hash.size(), size - was_there);
    } else {
      const std::string text = testkit::RdbValues::RandomText(random);
      CHECK_EQ(hash.Set(field, text, limit), !was_there);
      char scratch[HashValue::kScratchSize];
      CHECK(hash.Get(field, scratch) == text);
    }
  }
}

void ChangeZset(CompactValue* value, const PackedLimit& limit, Random* random) {
  ZsetValue zset(value);
  for (int i = 0; i < 6; ++i) {
    std::string member = testkit::RdbValues::RandomText(random);
    if (random->OneIn(2)) {
      zset.ForRange(random->Uniform(zset.size()), 1, false,
                    [&member](std::string_view one, double) { member = one; });
    }
    const size_t size = zset.size();
    const bool was_there = zset.Score(member).has_value();
    if (size > 1 && random->OneIn(2)) {
      CHECK_EQ(zset.Erase(member), was_there);
      CHECK_EQ(zset.size(), size - was_there);
    } else {
      const double score = random->OneIn(2) ? static_cast<double>(random->Uniform(3)) : 1e300;
      CHECK_EQ(zset.Set(member, score, limit), !was_there);
      CHECK(zset.Score(member) == score);
    }
  }
  if (zset.size() > 2) zset.EraseRange(1, 1 + random->Uniform(zset.size() - 2));
}

void ChangeStream(StreamValue* stream, Random* random) {
  StreamId id = stream->counters().last_id;
  for (int i = 0; i < 4 && id.Increment(); ++i) {
    const std::string_view pairs[] = {"name", "x", "7", "y"};
    stream->Append(id, pairs, {.node_bytes = 4096, .node_entries = random->Uniform(5)});
    CHECK(stream->entries().Last() == id);
  }
  if (const auto first = stream->entries().First()) CHECK(stream->Erase(*first));
  if (random->OneIn(2)) {
    const uint64_t most = random->Uniform(stream->size() + 1);
    stream->Trim({.size_max = most, .is_approximate = random->OneIn(2)});
  }
  Texts names;
  for (const auto& [name, group] : stream->groups()) names.emplace_back(name);
  for (const std::string& name : names) {
    StreamGroup* const group = stream->FindGroup(name);
    stream->LagOf(*group);
    StreamId next = group->last_id;
    if (next.Increment()) stream->AdvanceGroup(group, next);
    stream->AdvanceGroup(group, stream->counters().last_id);
    stream->LagOf(*group);
    if (!group->pending().empty()) {
      CHECK(group->Acknowledge(group->pending().begin()->first));
    }
    StreamConsumer* const taker = group->FindConsumer("taker") != nullptr
                                      ? group->FindConsumer("taker")
                                      : group->AddConsumer("taker", 1);
    if (!group->pending().empty()) group->Assign(group->pending().begin()->first, taker);
    if (random->OneIn(3)) group->RemoveConsumer(group->consumers().begin()->second);
    group->CheckInvariants();
    if (random->OneIn(4)) stream->RemoveGroup(group);
  }
}

void ChangeBloomFilter(BloomFilter* filter, Random* random) {
  for (int i = 0; i < 6; ++i) {
    const std::string item = testkit::RdbValues::RandomText(random);
    // One that is larger would not be read again.
    const auto result = filter->Add(HashItem(item), kStringMax);
    using enum BloomFilter::AddResult;
    CHECK_EQ(filter->Has(HashItem(item)), result == kAdded || result == kWasThere);
  }
}

void ChangeCountMinSketch(CountMinSketch* sketch, Random* random) {
  for (int i = 0; i < 6; ++i) {
    const ItemHash item = HashItem(testkit::RdbValues::RandomText(random));
    const uint64_t count = random->Next() >> random->Uniform(64);
    const uint32_t now = sketch->Add(item, count);
    CHECK_EQ(now, sketch->CountOf(item));
    CHECK_GE(sketch->CountOf(item), std::min<uint64_t>(count, CountMinSketch::kCountMax));
  }
  CHECK_GE(sketch->total(), 0);
}

void ChangeJson(JsonDoc* doc, Random* random) {
  for (int i = 0; i < 6; ++i) {
    JsonNode* node = doc->mutable_root();
    while (node->branches() > 0 && !random->OneIn(3)) {
      const size_t at = random->Uniform(node->size());
      node = node->is_array() ? &node->items()[at] : &node->members()[at].value;
    }
    if (node->size() > 0 && random->OneIn(2)) {
      doc->EraseAt(node, {random->Uniform(node->size())});
    } else if (node->is_array()) {
      doc->Append(node, doc->MakeDouble(random->NextDouble()));
    } else if (node->is_object()) {
      doc->Set(doc->FindOrAdd(node, "name" + std::to_string(random->Uniform(5))),
               doc->MakeText("a text of many bytes"));
    } else {
      doc->Set(node, doc->MakeInt(static_cast<int64_t>(random->Next())));
    }
  }
  doc->CheckInvariants();
}

void ChangeTopK(TopK* top, Random* random) {
  for (int i = 0; i < 6; ++i) {
    const std::string item = testkit::RdbValues::RandomText(random);
    const bool was_listed = top->Has(item);
    const size_t listed = top->listed();
    const auto count = static_cast<uint32_t>(1 + random->Uniform(TopK::kIncrementMax));
    const std::optional<std::string> expelled = top->Add(item, count);
    CHECK_LE(top->listed(), top->options().k);
    if (was_listed) CHECK(top->Has(item) && !expelled);
    if (expelled) CHECK(top->Has(item) && !top->Has(*expelled) && top->listed() == listed);
  }
  CHECK(!top->HasDuplicates());
  CHECK_EQ(top->List().size(), top->listed());
}

// Of fields or members, which may have deadlines.
template <typename V>
void ChangeDeadlines(CompactValue* value, Random* random) {
  const auto next = [value] { return value->NextMemberDeadline(); };
  char scratch[24];
  for (int i = 0; i < 4; ++i) {
    const int64_t at_ms = static_cast<int64_t>(random->Uniform(1 << 20));
    const std::string text = testkit::RdbValues::RandomText(random);
    if constexpr (std::is_same_v<V, SetValue>) {
      const std::string member(SetValue(value).Random(*random, scratch));
      SetValue(value).SetDeadline(member, at_ms);
      CHECK_EQ(*SetValue(value).Deadline(member), at_ms);
    } else {
      std::string field;
      HashValue(value).Random(*random,
                              [&](std::string_view one, std::string_view) { field = one; });
      HashValue(value).SetDeadline(field, at_ms);
      CHECK_EQ(*HashValue(value).Deadline(field), at_ms);
    }
    CHECK_LE(next(), at_ms);
  }
  const int64_t now_ms = next() + 1;
  if (!value->AreAllMembersDue(now_ms)) {
    CHECK_GT(value->EraseDueMembers(now_ms, SIZE_MAX), 0u);
    CHECK_GE(next(), now_ms);
  }
}

void Change(CompactValue* value, const RdbLimits& limits, Random* random) {
  switch (value->type()) {
    case ValueType::kString:
      return ChangeString(value, random);
    case ValueType::kList:
      return ChangeList(static_cast<QuickList*>(value->object()), limits.list, random);
    case ValueType::kSet:
      ChangeSet(value, limits.set, random);
      if (random->OneIn(2)) ChangeDeadlines<SetValue>(value, random);
      return;
    case ValueType::kHash:
      ChangeHash(value, limits.hash, random);
      if (random->OneIn(2)) ChangeDeadlines<HashValue>(value, random);
      return;
    case ValueType::kZset:
      return ChangeZset(value, limits.zset, random);
    case ValueType::kStream:
      return ChangeStream(static_cast<StreamValue*>(value->object()), random);
    case ValueType::kBloomFilter:
      return ChangeBloomFilter(static_cast<BloomFilter*>(value->object()), random);
    case ValueType::kCountMinSketch:
      return ChangeCountMinSketch(static_cast<CountMinSketch*>(value->object()), random);
    case ValueType::kTopK:
      return ChangeTopK(static_cast<TopK*>(value->object()), random);
    case ValueType::kJson:
      return ChangeJson(static_cast<JsonDoc*>(value->object()), random);
  }
}

// Nothing else was allocated in the meantime.
void CheckBytes(const CompactValue& value, std::optional<size_t> allocated_before) {
  if (!allocated_before) return;
  CHECK_EQ(*helio::fuzz::AllocatedBytes() - *allocated_before, value.HeapBytes());
}

// In steps, as large ones are freed; what is left is always known.
void FreeInSteps(CompactValue* value, std::optional<size_t> allocated_before) {
  if (value->is_string()) return;
  const auto& type = ObjectTypeOf(value->type());
  if (type.free_some == nullptr) return;
  while (!type.free_some(value->object(), value->object_encoding(), 3)) {
    CheckBytes(*value, allocated_before);
  }
  CheckBytes(*value, allocated_before);
}

void CheckOneInput(std::string_view data) {
  RegisterOnce();
  if (data.size() < 2) return;
  const RdbLimits limits = LimitsOf(static_cast<uint8_t>(data[1]));
  Random random(HashKey(data));
  const std::optional<size_t> allocated_before = helio::fuzz::AllocatedBytes();
  {
    CompactValue value;
    ViewSource source(data.substr(2));
    ViewSource skipped(data.substr(2));
    const bool is_skipped = SkipRdbValue(static_cast<uint8_t>(data[0]), &skipped);
    const RdbRead read = ReadRdbValue(static_cast<uint8_t>(data[0]), limits, &source, &value);
    if (read != RdbRead::kDamaged) {
      CHECK(is_skipped);
      CHECK_EQ(skipped.left(), source.left());
    }
    if (read == RdbRead::kValue) {
      CheckBytes(value, allocated_before);
      {
        CheckSound(value);
        const Texts content = ContentOf(value);
        CheckRoundTrip(value, limits, content);
        CompactValue copy = value.Clone();
        CHECK(ContentOf(copy) == content);
        Change(&value, limits, &random);
        CheckSound(value);
        CheckRoundTrip(value, limits, ContentOf(value));
        CHECK(ContentOf(copy) == content);
      }
      CheckBytes(value, allocated_before);
      FreeInSteps(&value, allocated_before);
    }
  }
  CHECK(helio::fuzz::AllocatedBytes() == allocated_before);
}

// --- Valid payloads ---

std::string MakeExample(Random* random) {
  RegisterOnce();
  uint8_t type = 0;
  std::string bytes;
  if (random->OneIn(3)) {
    bytes = testkit::ForeignRdb(random, &type);
  } else {
    using enum RdbWriter::Compression;
    const auto [own_type, own_bytes] =
        testkit::WriteRdb(testkit::RdbValues().MakeAny(random), random->OneIn(2) ? kLzf : kNone);
    type = static_cast<uint8_t>(own_type);
    bytes = own_bytes;
  }
  const uint8_t choice = static_cast<uint8_t>(random->Uniform(2));
  ViewSource source(bytes);
  CompactValue value;
  const RdbRead read = ReadRdbValue(type, LimitsOf(choice), &source, &value);
  CHECK(read == RdbRead::kValue) << "no example";
  return std::string{static_cast<char>(type), static_cast<char>(choice)} + bytes;
}

}  // namespace

FUZZ_TARGET(RdbValueFuzz, HostilePayloadsAreRefusedOrSound,
            {.check = CheckOneInput, .make_example = MakeExample, .rounds = 100'000})

}  // namespace dfly
