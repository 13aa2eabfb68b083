// SPDX-License-Identifier: Apache-2.0
// JSON.GET JSON.MGET JSON.TYPE JSON.STRLEN JSON.ARRLEN JSON.OBJLEN JSON.OBJKEYS JSON.ARRINDEX
// JSON.RESP JSON.DEBUG
#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "commands/json/json_family.h"
#include "commands/table/rows.h"
#include "core/json/json_walk.h"
#include "engine/hops/transaction.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

// --- JSON.GET ---

// Of AppendQuery: its caller has other words.
constexpr std::string_view kErrNoPlace = "ERR path does not exist";

// As JSON: one value, or an array of all. node_of(i): the i-th. False: that takes more than `most`
// bytes, and is not all.
template <typename NodeOf>
[[nodiscard]] bool AppendNodes(size_t count, NodeOf node_of, bool as_array,
                               const JsonFormat& format, size_t level, size_t most,
                               std::string* to) {
  if (!as_array) {
    AppendJson(node_of(0), format, level, to);
    return to->size() <= most;
  }
  const auto start_line = [&](size_t of) {
    to->append(format.newline);
    for (size_t i = 0; i < of; ++i) to->append(format.indent);
  };
  to->push_back('[');
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) to->push_back(',');
    start_line(level + 1);
    AppendJson(node_of(i), format, level + 1, to);
    if (to->size() > most) return false;
  }
  if (count > 0) start_line(level);
  to->push_back(']');
  return true;
}

// What a projection computes. Returns the error, or nothing.
std::string_view AppendProjection(ShardContext& cx, JsonDoc& doc, const JsonExpr& projection,
                                  const JsonFormat& format, size_t level, uint64_t* work_left,
                                  std::string* to) {
  bool fits = true;
  const auto show = [&](std::span<const JsonNode> nodes) {
    const auto node_of = [&](size_t i) { return nodes[i]; };
    fits = AppendNodes(nodes.size(), node_of, true, format, level, cx.string_max(), to);
  };
  if (!ProjectJson(doc, projection, work_left, show)) return kErrJsonTooMuchWork;
  return fits ? std::string_view() : kErrJsonReplyTooLarge;
}

// What a path selects or computes. Returns the error, or nothing. `as_array`: not only the first.
std::string_view AppendQuery(ShardContext& cx, JsonDoc& doc, const JsonPath& path, bool as_array,
                             const JsonFormat& format, size_t level, uint64_t* work_left,
                             std::string* to) {
  if (path.projection() != nullptr) {
    return AppendProjection(cx, doc, *path.projection(), format, level, work_left, to);
  }
  JsonMatches matches;
  if (!FindJson(doc, path.steps(), work_left, &matches)) return kErrJsonTooMuchWork;
  if (!as_array && matches.empty()) return kErrNoPlace;
  const auto node_of = [&](size_t i) { return matches[i].value(); };
  const size_t most = cx.string_max();
  const bool fits = AppendNodes(matches.size(), node_of, as_array, format, level, most, to);
  return fits ? std::string_view() : kErrJsonReplyTooLarge;
}

struct GetRequest {
  JsonFormat format;
  std::vector<JsonPath> paths;
};

// False: the error was replied.
bool ParseGet(Args args, ReplySink& reply, GetRequest* request) {
  size_t i = 2;
  for (; i < args.size(); ++i) {
    const bool has_value = i + 1 < args.size();
    if (IsOption(args[i], "INDENT") && has_value) {
      request->format.indent = args[++i];
    } else if (IsOption(args[i], "NEWLINE") && has_value) {
      request->format.newline = args[++i];
    } else if (IsOption(args[i], "SPACE") && has_value) {
      request->format.space = args[++i];
    } else if (!IsOption(args[i], "NOESCAPE")) {
      break;
    }
  }
  do {
    if (!ParseJsonPath(args, i, JsonPathKind::kQuery, reply, &request->paths.emplace_back()))
      return false;
  } while (++i < args.size());
  return true;
}

// JSON.GET key [INDENT indent] [NEWLINE newline] [SPACE space] [path ...]
void Get(ShardContext& cx, Args args, ReplySink& reply) {
  GetRequest request;
  if (!ParseGet(args, reply, &request)) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kJson);
  if (value.is_wrong_type()) return reply.Error(kErrNotJson);
  if (!value) return reply.Null();
  const bool are_legacy = std::all_of(request.paths.begin(), request.paths.end(),
                                      [](const JsonPath& path) { return path.is_legacy(); });
  const bool is_one = request.paths.size() == 1;
  const JsonFormat& format = request.format;
  const auto start_line = [&](std::string* to, size_t level) {
    to->append(format.newline);
    if (level > 0) to->append(format.indent);
  };
  uint64_t work_left = JsonVisitsMax(cx);
  std::string text;
  if (!is_one) text.push_back('{');
  for (size_t i = 0; i < request.paths.size(); ++i) {
    const JsonPath& path = request.paths[i];
    if (!is_one) {
      if (i > 0) text.push_back(',');
      start_line(&text, 1);
      AppendJsonText(args[args.size() - request.paths.size() + i], &text);
      text.push_back(':');
      text.append(format.space);
    }
    const size_t level = is_one ? 0 : 1;
    const std::string_view error =
        AppendQuery(cx, JsonIn(value), path, !are_legacy, format, level, &work_left, &text);
    if (error == kErrNoPlace) return reply.Error(NoSuchPath(path));
    if (!error.empty()) return reply.Error(error);
  }
  if (!is_one) {
    start_line(&text, 0);
    text.push_back('}');
  }
  reply.Bulk(text);
}

// --- JSON.MGET key [key ...] path ---

using Texts = std::vector<std::optional<std::string>>;

// Of one shard: what `path` selects in the documents args[at[i]], as (*texts)[at[i] - 1]. None for
// what is no document, has nothing there or too much. False: all of them took too much work.
[[nodiscard]] bool GetAll(ShardContext& cx, Args args, std::span<const size_t> at,
                          const JsonPath& path, Texts* texts) {
  uint64_t work_left = JsonVisitsMax(cx);
  for (const size_t i : at) {
    const auto value = cx.FindReadOnly(args[i], ValueType::kJson);
    if (!value) continue;
    std::string text;
    const std::string_view error =
        AppendQuery(cx, JsonIn(value), path, !path.is_legacy(), {}, 0, &work_left, &text);
    if (error == kErrJsonTooMuchWork) return false;
    if (error.empty()) (*texts)[i - 1] = std::move(text);
  }
  return true;
}

void ReplyTexts(const Texts& texts, ReplySink& reply) {
  reply.Array(texts.size());
  for (const auto& text : texts) text ? reply.Bulk(*text) : reply.Null();
}

void MGet(ShardContext& cx, Args args, ReplySink& reply) {
  JsonPath path;
  if (!ParseJsonPath(args, args.size() - 1, JsonPathKind::kQuery, reply, &path)) return;
  std::vector<size_t> all(args.size() - 2);
  std::iota(all.begin(), all.end(), size_t{1});
  Texts texts(all.size());
  if (!GetAll(cx, args, all, path, &texts)) return reply.Error(kErrJsonTooMuchWork);
  ReplyTexts(texts, reply);
}

// Suspends.
void MGetAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  JsonPath path;
  if (!ParseJsonPath(args, args.size() - 1, JsonPathKind::kQuery, reply, &path)) return;
  struct Part {
    std::vector<size_t> keys;  // where they are in args
    bool is_done = true;
  };
  std::vector<Part> parts(cx.shards().size());
  std::vector<ShardId> ids;
  Transaction tx(cx);
  for (size_t i = 1; i + 1 < args.size(); ++i) {
    const uint64_t hash = HashKey(args[i]);
    const ShardId id = cx.shards().ShardOfKey(args[i], hash);
    if (parts[id].keys.empty()) ids.push_back(id);
    parts[id].keys.push_back(i);
    tx.Lock(id, {cx.shards().LockOfKey(args[i], hash, cx.db_index()), LockMode::kShared});
  }
  if (!tx.Schedule()) return;
  Texts texts(args.size() - 2);
  tx.HopAndConclude(ids, [&](ShardTurn& turn) {
    Part& part = parts[turn.shard().id()];
    part.is_done = GetAll(turn.Begin(cx.db_index(), cx.now_ms()), args, part.keys, path, &texts);
  });
  if (!std::ranges::all_of(parts, &Part::is_done)) return reply.Error(kErrJsonTooMuchWork);
  ReplyTexts(texts, reply);
}

// --- An answer for each match ---

// What a command with an older path says if nothing is there, or no document.
enum class IfNone : uint8_t { kNull, kError };

constexpr size_t kNumberBytes = 4;  // in a reply, about

// A path may select one value many times, so a reply may be much larger than the document.
// bytes_of(node): what it takes in the reply, about. False: that is too much, which was replied.
template <typename BytesOf>
[[nodiscard]] bool FitsReply(ShardContext& cx, const JsonMatches& matches, ReplySink& reply,
                             BytesOf bytes_of) {
  size_t left = cx.string_max();
  for (const JsonMatch& match : matches) {
    const size_t bytes = match.node == nullptr ? kNumberBytes : bytes_of(*match.node);
    if (bytes > left) {
      reply.Error(kErrJsonReplyTooLarge);
      return false;
    }
    left -= bytes;
  }
  return true;
}

// What `make` has said of a value, for a path that selects it once more.
template <typename Answer, typename Make>
auto Remembered(Make make) {
  return
      [make, known = absl::flat_hash_map<const JsonNode*, Answer>()](const JsonNode& node) mutable {
        const auto [it, is_new] = known.try_emplace(&node);
        if (is_new) it->second = make(node);
        return it->second;
      };
}

constexpr auto kFewBytes = [](const JsonNode&) { return size_t{4}; };

// show(node) replies for a match of the type; others are null, or an error for an older path.
template <typename Show, typename BytesOf = decltype(kFewBytes)>
void ShowEach(ShardContext& cx, Args args, size_t path_at, JsonType wanted, IfNone if_none,
              ReplySink& reply, Show show, BytesOf bytes_of = kFewBytes) {
  JsonPath path;
  if (!ParseJsonPath(args, path_at, JsonPathKind::kPlaces, reply, &path)) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kJson);
  if (value.is_wrong_type()) return reply.Error(kErrNotJson);
  if (!value) return path.is_legacy() ? reply.Null() : reply.Error(kErrNoDocument);
  JsonMatches matches;
  if (!FindByPath(cx, JsonIn(value), path, reply, &matches)) return;
  if (!path.is_legacy()) {
    if (!FitsReply(cx, matches, reply, bytes_of)) return;
    reply.Array(matches.size());
    for (const JsonMatch& match : matches) {
      // What has no node is a number, which nobody wants.
      match.value().type() == wanted ? show(*match.node) : reply.Null();
    }
    return;
  }
  if (matches.empty()) {
    return if_none == IfNone::kNull ? reply.Null() : reply.Error(NoSuchPath(path));
  }
  const JsonNode node = matches[0].value();
  if (node.type() != wanted) return reply.Error(WrongJsonType(wanted, node.type()));
  show(node);
}

// JSON.STRLEN key [path]
void StrLen(ShardContext& cx, Args args, ReplySink& reply) {
  ShowEach(cx, args, 2, JsonType::kString, IfNone::kError, reply, [&](const JsonNode& node) {
    reply.Integer(static_cast<int64_t>(node.AsText().size()));
  });
}

// JSON.ARRLEN key [path], JSON.OBJLEN key [path]
template <JsonType kType>
void Length(ShardContext& cx, Args args, ReplySink& reply) {
  ShowEach(cx, args, 2, kType, IfNone::kNull, reply,
           [&](const JsonNode& node) { reply.Integer(static_cast<int64_t>(node.size())); });
}

// JSON.OBJKEYS key [path]
void ObjKeys(ShardContext& cx, Args args, ReplySink& reply) {
  const auto show = [&](const JsonNode& node) {
    reply.Array(node.size());
    for (const JsonMember& member : node.members()) reply.Bulk(member.name.AsText());
  };
  const auto bytes_of = Remembered<size_t>([](const JsonNode& node) {
    size_t bytes = 8;
    if (!node.is_object()) return bytes;
    for (const JsonMember& member : node.members()) bytes += 6 + member.name.AsText().size();
    return bytes;
  });
  ShowEach(cx, args, 2, JsonType::kObject, IfNone::kNull, reply, show, bytes_of);
}

// JSON.ARRINDEX key path value [start [stop]]
void ArrIndex(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 6) return reply.Error(WrongArityError("json.arrindex"));
  const auto wanted = ParseJsonValue(cx, args[3], reply);
  if (wanted == nullptr) return;
  int64_t bounds[2] = {0, 0};
  for (size_t i = 4; i < args.size(); ++i) {
    const std::optional<int64_t> bound = ParseInt64(args[i]);
    if (!bound) return reply.Error(kErrNotInteger);
    bounds[i - 4] = *bound;
  }
  auto find = Remembered<int64_t>([&](const JsonNode& node) {
    const auto size = static_cast<int64_t>(node.size());
    const auto position = [size](int64_t index) {
      return index < 0 ? std::max<int64_t>(index + size, 0) : std::min(index, size);
    };
    const int64_t begin = position(bounds[0]);
    const int64_t end = bounds[1] == 0 ? size : position(bounds[1]);
    int64_t found = -1;
    for (int64_t i = begin; i < end && found < 0; ++i) {
      if (JsonDoc::IsEqual(node.item(static_cast<size_t>(i)), wanted->root())) found = i;
    }
    return found;
  });
  ShowEach(cx, args, 2, JsonType::kArray, IfNone::kError, reply,
           [&](const JsonNode& node) { reply.Integer(find(node)); });
}

// JSON.TYPE key [path]
void Type(ShardContext& cx, Args args, ReplySink& reply) {
  JsonPath path;
  if (!ParseJsonPath(args, 2, JsonPathKind::kPlaces, reply, &path)) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kJson);
  if (value.is_wrong_type()) return reply.Error(kErrNotJson);
  JsonMatches matches;
  if (value && !FindByPath(cx, JsonIn(value), path, reply, &matches)) return;
  if (reply.resp3()) reply.Array(1);
  if (!value) return reply.Null();
  if (path.is_legacy()) {
    return matches.empty() ? reply.Null() : reply.Bulk(JsonTypeName(matches[0].value().type()));
  }
  reply.Array(matches.size());
  for (const JsonMatch& match : matches) reply.Bulk(JsonTypeName(match.value().type()));
}

// --- JSON.RESP key [path] ---

void ShowDouble(double number, ReplySink& reply) { reply.Bulk(fmt::format("{:.17g}", number)); }

struct RespWalker {
  void Begin(const JsonNode& node) {
    reply.Array(1 + (node.is_array() ? node.size() : 2 * node.size()));
    reply.Status(node.is_array() ? "[" : "{");
  }
  void End(const JsonNode&) {}
  void Element(const JsonNode& container, size_t index) {
    if (container.is_object()) reply.Bulk(container.members()[index].name.AsText());
  }
  void Scalar(const JsonNode& node) {
    switch (node.type()) {
      case JsonType::kBool:
        return reply.Status(node.AsBool() ? "true" : "false");
      case JsonType::kInteger:
        return node.is_uint() ? reply.Bulk(std::to_string(node.AsUint()))
                              : reply.Integer(node.AsInt());
      case JsonType::kNumber:
        return ShowDouble(node.AsDouble(), reply);
      case JsonType::kString:
        return reply.Bulk(node.AsText());
      default:
        return reply.Null();
    }
  }

  ReplySink& reply;
};

// What a value takes as RESP, about.
size_t RespBytesOf(const JsonNode& node) {
  struct Sum {
    void Begin(const JsonNode&) { bytes += 8; }
    void End(const JsonNode&) {}
    void Element(const JsonNode& container, size_t index) {
      if (container.is_object()) bytes += 6 + container.members()[index].name.AsText().size();
    }
    void Scalar(const JsonNode& of) {
      bytes += of.type() == JsonType::kString ? 6 + of.AsText().size() : 4;
    }
    size_t bytes = 0;
  } sum;
  WalkJson(node, sum);
  return sum.bytes;
}

void Resp(ShardContext& cx, Args args, ReplySink& reply) {
  JsonPath path;
  if (!ParseJsonPath(args, 2, JsonPathKind::kPlaces, reply, &path)) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kJson);
  if (value.is_wrong_type()) return reply.Error(kErrNotJson);
  if (!value) return reply.Null();
  JsonMatches matches;
  if (!FindByPath(cx, JsonIn(value), path, reply, &matches)) return;
  RespWalker walker{reply};
  if (path.is_legacy() && matches.empty()) return reply.Error(NoSuchPath(path));
  if (path.is_legacy()) matches.erase(matches.begin() + 1, matches.end());
  if (!FitsReply(cx, matches, reply, Remembered<size_t>(RespBytesOf))) return;
  if (path.is_legacy()) return WalkJson(matches[0].value(), walker);
  reply.Array(matches.size());
  for (const JsonMatch& match : matches) WalkJson(match.value(), walker);
}

// --- JSON.DEBUG ---

// JSON.DEBUG MEMORY key [path]
void DebugMemory(ShardContext& cx, Args args, ReplySink& reply) {
  JsonPath path;
  if (!ParseJsonPath(args, 3, JsonPathKind::kPlaces, reply, &path)) return;
  const auto value = cx.FindReadOnly(args[2], ValueType::kJson);
  if (value.is_wrong_type()) return reply.Error(kErrNotJson);
  if (!value) return path.is_legacy() ? reply.Integer(0) : reply.Array(0);
  JsonMatches matches;
  if (!FindByPath(cx, JsonIn(value), path, reply, &matches)) return;
  auto bytes_of = Remembered<size_t>(JsonDoc::BytesOf);
  const auto show = [&](const JsonMatch& match) {
    const size_t bytes = match.node == nullptr ? FloatBytes(match.parent->packed_type())
                                               : sizeof(JsonNode) + bytes_of(*match.node);
    reply.Integer(static_cast<int64_t>(bytes));
  };
  if (path.is_legacy()) {
    return matches.empty() ? reply.Error(NoSuchPath(path)) : show(matches[0]);
  }
  reply.Array(matches.size());
  for (const JsonMatch& match : matches) show(match);
}

void DebugHelp(Args, ReplySink& reply) {
  reply.Array(2);
  reply.Bulk("MEMORY <key> [path] - bytes that the values at the path take");
  reply.Bulk("HELP - this text");
}

}  // namespace

void RegisterJsonReads(CommandTable* table) {
  constexpr std::string_view kVisits =
      "O(1) for one place, O(N) for several, where N is the size of the document.";
  constexpr std::string_view kSize = "O(N) where N is the size of the values.";
  const FamilyRows add(table, "json", kAclJson);
  add("json.get", Get, -2, kReadonly, KeyAt(1), "Gives the values at paths as JSON.", "1.0.0",
      kSize);
  table->Add({.name = "json.mget",
              .run = MGet,
              .across = MGetAcross,
              .arity = -3,
              .flags = kReadonly,
              .categories = kAclJson,
              .keys = {.first = 1, .last = -2, .step = 1},
              .docs = {"Gives the values at a path of several documents as JSON.", "1.0.0", "json",
                       "O(M*N) where M is the number of keys and N is the size of the values."},
              .tips = "request_policy:multi_shard"});
  add("json.type", Type, -2, kReadonly, KeyAt(1), "Gives the types of the values at a path.",
      "1.0.0", kVisits);
  add("json.strlen", StrLen, -2, kReadonly, KeyAt(1), "Gives the lengths of strings.", "1.0.0",
      kVisits);
  add("json.arrlen", Length<JsonType::kArray>, -2, kReadonly, KeyAt(1),
      "Gives the lengths of arrays.", "1.0.0", kVisits);
  add("json.objlen", Length<JsonType::kObject>, -2, kReadonly, KeyAt(1),
      "Gives how many members objects have.", "1.0.0", kVisits);
  add("json.objkeys", ObjKeys, -2, kReadonly, KeyAt(1), "Gives the names of members of objects.",
      "1.0.0", kSize);
  add("json.arrindex", ArrIndex, -4, kReadonly, KeyAt(1), "Finds a value in arrays.", "1.0.0",
      "O(N) where N is the size of the arrays.");
  add("json.resp", Resp, -2, kReadonly, KeyAt(1), "Gives the values at a path as RESP.", "1.0.0",
      kSize);
  Command debug = {.name = "json.debug",
                   .arity = -2,
                   .docs = {"Tells about documents; see its subcommands.", "1.0.0", "json",
                            "That of the subcommand."}};
  debug.subcommands.push_back(
      {.name = "memory",
       .run = DebugMemory,
       .arity = -3,
       .flags = kReadonly,
       .categories = kAclJson,
       .keys = KeyAt(2),
       .docs = {"Gives how many bytes the values at a path take.", "1.0.0", "json", kSize}});
  debug.subcommands.push_back(HelpRow<DebugHelp>("1.0.0", "json", kAclJson));
  table->Add(std::move(debug));
}

}  // namespace dfly
