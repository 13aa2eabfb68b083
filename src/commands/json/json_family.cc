// SPDX-License-Identifier: Apache-2.0
#include "commands/json/json_family.h"

#include <fmt/format.h>

namespace dfly {

bool ParseJsonPath(Args args, size_t at, JsonPathKind kind, ReplySink& reply, JsonPath* path) {
  const std::string_view root = reply.resp3() ? "$" : ".";
  const bool is_replayed = kind == JsonPathKind::kReplayed;
  std::string error = JsonPath::Parse(at < args.size() ? args[at] : root, path, is_replayed);
  if (error.empty() && !is_replayed && path->begins_with_operator()) {
    error = fmt::format("ERR '{}' begins with a word that is an operator: write '{}'",
                        JsonPath::Excerpt(args[at]), JsonPath::Excerpt(path->text()));
  }
  if (error.empty() && kind != JsonPathKind::kQuery && path->projection() != nullptr) {
    error = fmt::format("ERR '{}' computes a value, which only JSON.GET and JSON.MGET show",
                        JsonPath::Excerpt(path->text()));
  }
  if (!error.empty()) reply.Error(error);
  return error.empty();
}

bool FindByPath(ShardContext& cx, JsonDoc& doc, const JsonPath& path, ReplySink& reply,
                JsonMatches* matches) {
  if (FindJson(doc, path.steps(), JsonVisitsMax(cx), matches)) return true;
  reply.Error(kErrJsonTooMuchWork);
  return false;
}

std::unique_ptr<JsonDoc> ParseJsonValue(ShardContext& cx, std::string_view text, ReplySink& reply) {
  auto doc = std::make_unique<JsonDoc>();
  const std::string error = ParseJson(text, JsonDepthMax(cx), doc.get());
  if (error.empty()) return doc;
  reply.Error(error);
  return nullptr;
}

std::string NoSuchPath(const JsonPath& path, std::string_view behind) {
  return fmt::format("ERR Path '{}' does not exist{}", JsonPath::Excerpt(path.text()), behind);
}

std::string WrongJsonType(JsonType expected, JsonType found) {
  return fmt::format("WRONGTYPE wrong type of path value - expected {} but found {}",
                     JsonTypeName(expected), JsonTypeName(found));
}

void RegisterJsonCommands(CommandTable* table) {
  JsonDoc::RegisterType();
  RegisterJsonReads(table);
  RegisterJsonWrites(table);
  RegisterJsonChanges(table);
}

}  // namespace dfly
