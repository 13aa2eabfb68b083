// SPDX-License-Identifier: Apache-2.0
#include "storage/summary.h"

#include <fmt/format.h>

#include "core/text/numbers.h"

namespace dfly {

void WriteExtras(const SnapshotExtras& extras, EntryWriter* writer) {
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
  if (name == kAuxStreamDb) {
    const auto db = ParseInt64(text);
    if (!db || *db < 0 || *db > INT32_MAX) return false;
    extras->stream_db = static_cast<int>(*db);
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
