// SPDX-License-Identifier: Apache-2.0
// What the commands of JSON share. Data: core/json. Shapes of replies are those of Redis 8: with a
// path that begins with $ there is an item for each match, with an older one there is one reply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "commands/table/command_table.h"
#include "core/json/json_doc.h"
#include "core/json/json_match.h"
#include "core/json/json_path.h"
#include "core/json/json_text.h"
#include "engine/keyspace/shard_context.h"

namespace dfly {

inline constexpr std::string_view kErrNotJson = "WRONGTYPE Existing key has wrong Redis type";
inline constexpr std::string_view kErrNoDocument =
    "ERR could not perform this operation on a key that doesn't exist";
inline constexpr std::string_view kErrJsonTooLarge =
    "ERR it would take more bytes than --max_bulk_len allows";
inline constexpr std::string_view kErrJsonReplyTooLarge =
    "ERR the reply would take more bytes than --max_bulk_len allows";
inline constexpr std::string_view kErrJsonTooDeep = "ERR recursion limit exceeded";
inline constexpr std::string_view kErrJsonTooMuchWork =
    "ERR the path visits more nodes than --json_path_visits_max allows";

// A command that is replayed is refused nothing.
inline size_t JsonDepthMax(ShardContext& cx) {
  return cx.is_replayed() ? JsonDoc::kDepthMax : cx.shard().limits().json_depth;
}
inline uint64_t JsonVisitsMax(ShardContext& cx) {
  return cx.is_replayed() ? UINT64_MAX : cx.shard().limits().json_path_visits;
}
inline size_t JsonBytesMax(const ShardContext& cx) {
  return cx.is_replayed() ? SIZE_MAX / 2 : cx.string_max();
}

// Whether that is so of a document if these change. REQUIRES: they are sorted.
inline bool IsTooLargeUnpacked(const ShardContext& cx, const JsonDoc& doc,
                               const JsonMatches& matches) {
  const size_t more = BytesToUnpack(matches);
  return more > 0 && doc.bytes() + more > JsonBytesMax(cx);
}

template <typename Handle>
JsonDoc& JsonIn(const Handle& value) {
  return *static_cast<JsonDoc*>(value->object());
}

// What a path may be.
enum class JsonPathKind : uint8_t {
  kPlaces,    // it selects places
  kQuery,     // or a projection
  kReplayed,  // it selects places, and was written before words were reserved
};
// What a path may be that selects places.
inline JsonPathKind JsonPlaces(bool is_replayed) {
  return is_replayed ? JsonPathKind::kReplayed : JsonPathKind::kPlaces;
}
// The path of args[at], or the root. False: it is none, which was replied.
[[nodiscard]] bool ParseJsonPath(Args args, size_t at, JsonPathKind kind, ReplySink& reply,
                                 JsonPath* path);
// False: it took too much, which was replied.
[[nodiscard]] bool FindByPath(ShardContext& cx, JsonDoc& doc, const JsonPath& path,
                              ReplySink& reply, JsonMatches* matches);
// Null: `text` is no value, which was replied.
std::unique_ptr<JsonDoc> ParseJsonValue(ShardContext& cx, std::string_view text, ReplySink& reply);

// "ERR Path '$.a' does not exist", and what stands behind it.
std::string NoSuchPath(const JsonPath& path, std::string_view behind = {});
std::string WrongJsonType(JsonType expected, JsonType found);

void RegisterJsonReads(CommandTable* table);
void RegisterJsonWrites(CommandTable* table);
void RegisterJsonChanges(CommandTable* table);

}  // namespace dfly
