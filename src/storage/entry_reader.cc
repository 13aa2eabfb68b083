// SPDX-License-Identifier: Apache-2.0
#include "storage/entry_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>

#include "core/rdb/foreign_entries.h"
#include "core/rdb/rdb_stream.h"
#include "core/text/numbers.h"
#include "core/types/hash_value.h"
#include "core/types/set_value.h"

namespace dfly {

namespace {

// The text of kAuxMemcached. False: it makes no sense.
bool ReadMemcached(std::string_view text, MemcachedItem* item) {
  uint64_t numbers[3];
  for (uint64_t& number : numbers) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  if (!text.empty() || numbers[0] > UINT32_MAX || numbers[2] > 3) return false;
  item->client_flags = static_cast<uint32_t>(numbers[0]);
  item->cas = numbers[1];
  item->set_marks(static_cast<uint32_t>(numbers[2]));
  return true;
}

}  // namespace

EntryReader::EntryReader(ByteSource* source, size_t string_max, bool has_end, RdbFamily family)
    : source_(*source),
      reader_(source, string_max),
      string_max_(string_max),
      has_end_(has_end),
      family_(family) {}

EntryReader::Item EntryReader::Fail(std::string_view what) {
  if (error_.empty()) error_ = what;
  return Item::kError;
}

EntryReader::Item EntryReader::Next() {
  if (is_between_) {
    facts_ = {};
    beside_.clear();
    wrapped_ = nullptr;
  }
  is_between_ = true;
  while (true) {
    if (!has_end_ && source_.left() == 0) return Item::kEnd;
    const auto byte = reader_.Byte();
    if (!byte) return CutOff();
    switch (static_cast<RdbOpcode>(*byte)) {
      case RdbOpcode::kEnd:
        return has_end_ ? Item::kEnd : Fail("an end in the middle");
      case RdbOpcode::kSelectDb: {
        const auto index = reader_.Length();
        if (!index) return CutOff();
        if (*index > INT32_MAX) return Fail("a database that cannot be");
        db_index_ = static_cast<int>(*index);
        continue;
      }
      case RdbOpcode::kResize: {
        const auto keys = reader_.Length();
        const auto deadlines = reader_.Length();
        if (!keys || !deadlines) return CutOff();
        keys_ = *keys;
        deadlines_ = *deadlines;
        return Item::kSizes;
      }
      case RdbOpcode::kHashNames:
        if (family_ != RdbFamily::kRedis) break;
        if (!ReadNames()) return CutOff();
        continue;
      case RdbOpcode::kSlotInfo:
        if (!reader_.Length() || !reader_.Length() || !reader_.Length()) return CutOff();
        continue;
      case RdbOpcode::kDeadlineMs: {
        const auto deadline = reader_.Little(8);
        if (!deadline) return CutOff();
        facts_.deadline_ms = static_cast<int64_t>(*deadline);
        continue;
      }
      case RdbOpcode::kDeadline: {
        const auto deadline = reader_.Little(4);
        if (!deadline) return CutOff();
        facts_.deadline_ms = static_cast<int64_t>(*deadline) * 1000;
        continue;
      }
      case RdbOpcode::kIdle:
        if (!reader_.Length()) return CutOff();
        continue;
      case RdbOpcode::kFrequency:
        if (!reader_.Byte()) return CutOff();
        continue;
      case RdbOpcode::kAux: {
        const Item item = ReadAux();
        if (item == Item::kAux && is_between_) return item;
        if (item != Item::kAux) return item;
        is_between_ = true;
        continue;
      }
      case RdbOpcode::kFunction: {
        const auto text = reader_.String();
        if (!text) return CutOff();
        text_ = *text;
        return Item::kFunction;
      }
      case RdbOpcode::kFunctionOfRc:
        return Fail("a function as release candidates of Redis 7.0 wrote it, which is not read");
      case RdbOpcode::kSlotImport:
        // Keys of such slots are none before the import is over, and this does not tell them apart.
        return Fail(family_ == RdbFamily::kValkey
                        ? "slots were being imported by a node of a Valkey cluster when this was "
                          "saved, which is not read; save again when the import is over"
                        : "data that Redis modules keep about a key, which is not read");
      case RdbOpcode::kModuleAux:
        return Fail("data of a Redis module, which is not read");
    }
    return ReadEntry(&reader_, *byte);
  }
}

EntryReader::Item EntryReader::ReadAux() {
  const auto name = reader_.String();
  if (!name) return CutOff();
  name_ = *name;
  const auto text = reader_.String();
  if (!text) return CutOff();
  if (name_ == kAuxSticky) {
    facts_.is_sticky = true;
    is_between_ = false;
    return Item::kAux;
  }
  if (name_ == kAuxDeadlines || name_ == kAuxProducers) {
    beside_ = *text;
    is_between_ = false;
    return Item::kAux;
  }
  if (name_ == kAuxMemcached) {
    if (!ReadMemcached(*text, &facts_.memcached))
      return Fail("flags of memcached that make no sense");
    is_between_ = false;
    return Item::kAux;
  }
  text_ = *text;
  return name_ == kAuxEntry ? ReadWrapped() : Item::kAux;
}

EntryReader::Item EntryReader::ReadWrapped() {
  wrapped_ = std::make_unique<ViewSource>(text_);
  RdbReader reader(wrapped_.get(), string_max_);
  auto byte = reader.Byte();
  if (byte == static_cast<uint8_t>(RdbOpcode::kDeadlineMs)) {
    const auto deadline = reader.Little(8);
    if (!deadline) return CutOff();
    facts_.deadline_ms = static_cast<int64_t>(*deadline);
    byte = reader.Byte();
  }
  return byte ? ReadEntry(&reader, *byte) : CutOff();
}

EntryReader::Item EntryReader::ReadEntry(RdbReader* reader, uint8_t type) {
  const auto key = reader->String();
  if (!key) return CutOff();
  key_ = *key;
  type_ = RdbTypeIn(family_, type);
  const auto read_as = static_cast<RdbType>(type_);
  if (read_as == RdbType::kHashTemplateRef || read_as == RdbType::kHashTemplateListpackRef) {
    if (!AddNames(reader)) return Fail("a hash whose fields have no names");
  }
  return Item::kEntry;
}

bool EntryReader::ReadNames() {
  const auto id = reader_.Length();
  const auto count = id ? reader_.Count() : std::nullopt;
  if (!count || *count == 0) return false;
  const auto [it, is_new] = names_.try_emplace(*id);
  if (!is_new) return false;
  for (uint64_t i = 0; i < *count; ++i) {
    const auto name = reader_.String();
    if (!name) return false;
    it->second.emplace_back(*name);
  }
  return true;
}

bool EntryReader::AddNames(RdbReader* reader) {
  std::string whole;
  StringSink sink(&whole);
  RdbWriter writer(&sink);
  const auto begin = [&](std::optional<uint64_t> id) {
    const auto found = id ? names_.find(*id) : names_.end();
    if (found == names_.end()) return static_cast<const std::vector<std::string>*>(nullptr);
    writer.Length(found->second.size());
    return &std::as_const(found->second);
  };
  if (static_cast<RdbType>(type_) == RdbType::kHashTemplateRef) {
    const auto* const names = begin(reader->Length());
    if (names == nullptr) return false;
    for (const std::string& name : *names) {
      const auto text = reader->String();
      if (!text) return false;
      writer.String(name);
      writer.String(*text);
    }
  } else {
    const auto block = reader->String();
    if (!block) return false;
    ForeignEntries entries(ForeignEntries::Kind::kListpack, *block);
    const auto first = entries.Next();
    const auto number = first ? ParseInt64(*first) : std::nullopt;
    const auto* const names = begin(number ? std::optional<uint64_t>(*number) : std::nullopt);
    if (names == nullptr) return false;
    for (const std::string& name : *names) {
      const auto text = entries.Next();
      if (!text) return false;
      writer.String(name);
      writer.String(*text);
    }
    if (entries.Next() || !entries.is_sound()) return false;
  }
  writer.Flush();
  text_ = std::move(whole);
  wrapped_ = std::make_unique<ViewSource>(text_);
  type_ = static_cast<uint8_t>(RdbType::kHash);
  return true;
}

bool AddBeside(std::string_view beside, CompactValue* value) {
  ViewSource source(beside);
  RdbReader reader(&source, beside.size());
  if (value->type() == ValueType::kStream && source.left() != 0) {
    auto& stream = *static_cast<StreamValue*>(value->object());
    return stream.producers() == nullptr && ReadRdbProducers(&reader, &stream);
  }
  while (source.left() != 0) {
    const auto text = reader.String();
    if (!text) return false;
    const std::string member(*text);
    const auto at_ms = reader.Little(8);
    if (!at_ms || *at_ms > uint64_t{HashValue::Table::kDeadlineMax}) return false;
    if (value->type() == ValueType::kHash && HashValue(*value).Has(member)) {
      HashValue(value).SetDeadline(member, static_cast<int64_t>(*at_ms));
    } else if (value->type() == ValueType::kSet && SetValue(*value).Has(member)) {
      SetValue(value).SetDeadline(member, static_cast<int64_t>(*at_ms));
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace dfly
