// SPDX-License-Identifier: Apache-2.0
#include "storage/load_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/table/compact_key.h"
#include "core/text/byte_stream.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "storage/entry_reader.h"
#include "storage/snapshot_load.h"

namespace dfly {

void LoadBatch::Add(int db_index, std::string_view key, uint64_t hash, const EntryFacts& facts,
                    uint8_t type, std::string_view value, std::string_view beside) {
  entries_.push_back({.hash = hash,
                      .facts = facts,
                      .db_index = db_index,
                      .key_size = static_cast<uint32_t>(key.size()),
                      .value_size = static_cast<uint32_t>(value.size()),
                      .deadlines_size = static_cast<uint32_t>(beside.size()),
                      .type = type,
                      .is_made = false});
  bytes_ += key;
  bytes_ += value;
  bytes_ += beside;
}

void LoadBatch::Add(int db_index, std::string_view key, uint64_t hash, const EntryFacts& facts,
                    CompactValue value) {
  Add(db_index, key, hash, facts, 0, {}, {});
  entries_.back().is_made = true;
  made_.push_back(std::move(value));
}

std::string LoadBatch::LoadInto(DatabaseSet& databases, const RdbLimits& limits,
                                LoadProgress* progress) {
  for (const Entry& entry : entries_)
    databases.Make(entry.db_index).Prefetch(FetchStage::kBucket, entry.hash);
  for (const Entry& entry : entries_)
    databases.Make(entry.db_index).Prefetch(FetchStage::kSlot, entry.hash);
  std::string error;
  std::string_view rest = bytes_;
  const auto take = [&rest](size_t count) {
    const std::string_view taken = rest.substr(0, count);
    rest.remove_prefix(count);
    return taken;
  };
  auto made = made_.begin();
  uint64_t loaded = 0;
  const int64_t now_ms = helio::UnixMillis();
  for (const Entry& entry : entries_) {
    const std::string_view key = take(entry.key_size);
    ViewSource bytes(take(entry.value_size));
    const std::string_view deadlines = take(entry.deadlines_size);
    CompactValue value;
    if (entry.is_made) {
      value = std::move(*made++);
    } else {
      const RdbRead read = ReadRdbValue(entry.type, limits, &bytes, &value);
      if (read == RdbRead::kEmpty) {
        NoteEmptyKey(key, progress);
        continue;
      }
      if (read == RdbRead::kDamaged) {
        error = DamagedValueError(key, entry.type);
        break;
      }
      if (!AddBeside(deadlines, &value)) {
        error = DamagedDeadlinesError(key);
        break;
      }
    }
    if (!databases.Make(entry.db_index)
             .Load(KeyProbe(key, entry.hash), std::move(value), entry.facts.deadline_ms,
                   entry.facts.is_sticky, now_ms)) {
      error = KeyTwiceError(key);
      break;
    }
    ++loaded;
    if (entry.db_index == 0 && !entry.facts.memcached.is_default()) {
      databases.memcached().Put(key, entry.facts.memcached);
    }
  }
  bytes_.clear();
  entries_.clear();
  made_.clear();
  progress->keys.fetch_add(loaded, std::memory_order_relaxed);
  return error;
}

void NoteEmptyKey(std::string_view key, LoadProgress* progress) {
  constexpr uint64_t kLogged = 10;
  if (progress->empty_keys.fetch_add(1, std::memory_order_relaxed) < kLogged) {
    LOG(INFO) << "skipping empty key: " << helio::LogText(key);
  }
}

std::string QuotedKey(std::string_view key) {
  constexpr size_t kShown = 64;
  std::string text;
  for (char c : key.substr(0, kShown)) {
    const bool is_plain = c >= ' ' && c <= '~';
    text += is_plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  }
  return fmt::format("'{}{}'", text, key.size() > kShown ? "..." : "");
}

std::string DamagedValueError(std::string_view key, uint8_t type) {
  return fmt::format("key {}: {} (type {}), which is {}", QuotedKey(key), RdbTypeName(type),
                     RdbNumberOf(type),
                     IsRdbTypeRead(type) ? "damaged" : "not read by this server");
}

std::string DamagedDeadlinesError(std::string_view key) {
  return fmt::format("the deadlines of members of key {} are damaged", QuotedKey(key));
}

std::string KeyTwiceError(std::string_view key) {
  return fmt::format("key {} is there twice", QuotedKey(key));
}

}  // namespace dfly
