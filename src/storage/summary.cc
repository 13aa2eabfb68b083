// SPDX-License-Identifier: Apache-2.0
#include "storage/summary.h"

#include <fmt/format.h>

#include "core/text/numbers.h"

namespace dfly {

namespace {

// As the digits of an id are the server's own business, only that they can be asked for is checked.
bool IsStreamId(std::string_view text) {
  constexpr size_t kDigits = 40;
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

template <typename Number>
bool ReadNumber(std::string_view text, int64_t max, Number* to) {
  const auto number = ParseInt64(text);
  if (!number || *number < 0 || *number > max) return false;
  *to = static_cast<Number>(*number);
  return true;
}

}  // namespace

void WriteExtras(const SnapshotExtras& extras, EntryWriter* writer) {
  if (!extras.place.id.empty()) {
    writer->Aux(kAuxStreamDb, fmt::format("{}", extras.place.db_index));
    writer->Aux(kAuxStreamId, extras.place.id);
    writer->Aux(kAuxStreamOffset, fmt::format("{}", extras.place.offset));
  }
  for (const auto& [tag, shard] : extras.placements) {
    writer->Aux(kAuxPlacement, fmt::format("{} {}", tag, shard));
  }
  for (const std::string& script : extras.scripts) writer->Aux(kAuxScript, script);
  for (const std::string& source : extras.functions) writer->Function(source);
}

bool ReadExtra(std::string_view name, std::string_view text, SnapshotExtras* extras) {
  if (name == kAuxScript) {
    extras->scripts.emplace_back(text);
    return true;
  }
  if (name == kAuxStreamDb) return ReadNumber(text, INT32_MAX, &extras->place.db_index);
  if (name == kAuxStreamOffset) return ReadNumber(text, INT64_MAX / 2, &extras->place.offset);
  if (name == kAuxStreamId) {
    if (!IsStreamId(text)) return false;
    extras->place.id = text;
    return true;
  }
  if (name != kAuxPlacement) return false;
  const size_t blank = text.rfind(' ');
  if (blank == std::string_view::npos) return false;
  const auto shard = ParseInt64(text.substr(blank + 1));
  if (!shard || *shard < 0 || *shard > UINT32_MAX) return false;
  extras->placements.emplace_back(text.substr(0, blank), static_cast<uint32_t>(*shard));
  return true;
}

}  // namespace dfly
