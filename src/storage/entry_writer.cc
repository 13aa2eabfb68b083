// SPDX-License-Identifier: Apache-2.0
#include "storage/entry_writer.h"

#include <absl/strings/str_cat.h>

#include <string>

#include "core/rdb/rdb_stream.h"
#include "core/rdb/rdb_value.h"
#include "core/types/hash_value.h"
#include "core/types/set_value.h"

namespace dfly {

namespace {

// The text of kAuxDeadlines.
std::string DeadlinesOf(const CompactValue& value) {
  std::string text;
  StringSink sink(&text);
  RdbWriter writer(&sink);
  const auto add = [&writer](std::string_view member, std::optional<int64_t> at_ms) {
    if (!at_ms || *at_ms == INT64_MAX) return;
    writer.String(member);
    writer.Little(static_cast<uint64_t>(*at_ms), 8);
  };
  if (value.type() == ValueType::kHash) {
    const HashValue hash(value);
    hash.ForEach(
        [&](std::string_view field, std::string_view) { add(field, hash.Deadline(field)); });
  } else {
    const SetValue set(value);
    set.ForEach([&](std::string_view member) { add(member, set.Deadline(member)); });
  }
  writer.Flush();
  return text;
}

// The text of kAuxProducers.
std::string ProducersOf(const CompactValue& value) {
  std::string text;
  StringSink sink(&text);
  RdbWriter writer(&sink);
  WriteRdbProducers(*static_cast<const StreamValue*>(value.object())->producers(), &writer);
  writer.Flush();
  return text;
}

}  // namespace

void EntryWriter::Aux(std::string_view name, std::string_view text) {
  Opcode(RdbOpcode::kAux);
  writer_.String(name);
  writer_.String(text);
}

void EntryWriter::Function(std::string_view source) {
  Opcode(RdbOpcode::kFunction);
  writer_.String(source);
}

void EntryWriter::SelectDb(int index) {
  Opcode(RdbOpcode::kSelectDb);
  writer_.Length(static_cast<uint64_t>(index));
}

void EntryWriter::Resize(uint64_t keys, uint64_t deadlines) {
  Opcode(RdbOpcode::kResize);
  writer_.Length(keys);
  writer_.Length(deadlines);
}

void EntryWriter::Entry(std::string_view key, const EntryFacts& facts, const CompactValue& value) {
  if (facts.is_sticky) Aux(kAuxSticky, "1");
  if (const MemcachedItem& item = facts.memcached; !item.is_default()) {
    Aux(kAuxMemcached, absl::StrCat(item.client_flags, " ", item.cas, " ", item.marks()));
  }
  const RdbType type = DflyTypeOf(value);
  if (form_.dialect == SnapshotDialect::kOurs || RdbTypeOf(value)) {
    return PlainEntry(type, key, facts, value);
  }
  if (value.type() == ValueType::kHash || value.type() == ValueType::kSet) {
    Aux(kAuxDeadlines, DeadlinesOf(value));
    const bool is_hash = value.type() == ValueType::kHash;
    return PlainEntry(is_hash ? RdbType::kHash : RdbType::kSet, key, facts, value);
  }
  if (value.type() == ValueType::kStream) {
    Aux(kAuxProducers, ProducersOf(value));
    return PlainEntry(RdbType::kStreamListpacks2, key, facts, value);
  }
  std::string entry;
  StringSink sink(&entry);
  EntryWriter(&sink, form_).PlainEntry(type, key, facts, value);  // ends, and flushes, here
  Aux(kAuxEntry, entry);
}

void EntryWriter::PlainEntry(RdbType type, std::string_view key, const EntryFacts& facts,
                             const CompactValue& value) {
  if (facts.deadline_ms) {
    Opcode(RdbOpcode::kDeadlineMs);
    writer_.Little(static_cast<uint64_t>(*facts.deadline_ms), 8);
  }
  writer_.Byte(static_cast<uint8_t>(type));
  writer_.String(key);
  WriteRdbValue(value, type, &writer_);
}

}  // namespace dfly
