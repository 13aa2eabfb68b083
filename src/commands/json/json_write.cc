// SPDX-License-Identifier: Apache-2.0
// JSON.SET JSON.MSET JSON.MERGE JSON.DEL JSON.FORGET JSON.CLEAR
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "commands/json/json_family.h"
#include "commands/table/rows.h"
#include "engine/hops/transaction.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

using DocPtr = std::unique_ptr<JsonDoc>;

enum class Condition : uint8_t { kAlways, kIfAbsent, kIfThere };
enum class How : uint8_t { kReplace, kMerge };

// What SET and MERGE do at a path.
struct Setting {
  std::string_view key;
  const JsonPath& path;
  JsonDoc& value;  // may be used up
  How how = How::kReplace;
  Condition condition = Condition::kAlways;
  KeyEvent event = KeyEvent::kJsonSet;
};

// Not done: an error, or the condition is not met (empty).
struct Outcome {
  bool is_done = false;
  std::string_view error = {};
};

// --- Merging (RFC 7396) ---

// A patch for what is not there yet: without the members that are null.
void MergeInto(JsonDoc& doc, JsonNode* node, const JsonNode& patch) {
  struct Merging {
    JsonNode* to;
    const JsonNode* patch;
  };
  std::vector<Merging> todo = {{node, &patch}};
  while (!todo.empty()) {
    const auto [to, from] = todo.back();
    todo.pop_back();
    if (!from->is_object()) {
      doc.Set(to, doc.CopyOf(*from));
      continue;
    }
    if (!to->is_object()) doc.Set(to, JsonNode::EmptyObject());
    for (const JsonMember& member : from->members()) {
      const std::string_view name = member.name.AsText();
      if (member.value.is_null()) {
        JsonMember* const old = JsonDoc::FindMember(*to, name);
        if (old != nullptr) doc.EraseMember(to, static_cast<size_t>(old - to->members().data()));
        continue;
      }
      JsonNode* const child = doc.FindOrAdd(to, name);
      if (!member.value.is_object()) doc.Set(child, doc.CopyOf(member.value));
    }
    // Now that no member of it moves any more.
    for (const JsonMember& member : from->members()) {
      if (!member.value.is_object()) continue;
      todo.push_back({JsonDoc::Find(*to, member.name.AsText()), &member.value});
    }
  }
}

void PutAt(JsonDoc& doc, JsonNode* node, const Setting& setting, bool is_last) {
  if (setting.how == How::kMerge) return MergeInto(doc, node, setting.value.root());
  doc.Set(node, is_last ? doc.TakeRoot(&setting.value) : doc.CopyOf(setting.value.root()));
}

// --- Erasing ---

// Those that are not inside of others.
void KeepOutermost(JsonDoc& doc, JsonMatches* matches) {
  const bool are_level = std::all_of(matches->begin(), matches->end(), [&](const JsonMatch& match) {
    return match.depth == matches->front().depth;
  });
  if (are_level) return;
  absl::flat_hash_set<const JsonNode*> chosen;
  for (const JsonMatch& match : *matches) chosen.insert(match.node);
  absl::flat_hash_set<const JsonNode*> outermost;  // and packed arrays that are not chosen
  std::vector<const JsonNode*> todo = {&doc.root()};
  while (!todo.empty()) {
    const JsonNode* const node = todo.back();
    todo.pop_back();
    if (chosen.contains(node)) {
      outermost.insert(node);
      continue;
    }
    if (node->is_packed()) outermost.insert(node);
    for (size_t i = 0; i < node->branches(); ++i) {
      const JsonNode& element = node->is_array() ? node->items()[i] : node->members()[i].value;
      if (element.size() > 0 || chosen.contains(&element)) todo.push_back(&element);
    }
  }
  const auto is_inside = [&](const JsonMatch& match) {
    if (match.node != nullptr) return !outermost.contains(match.node);
    return chosen.contains(match.parent) || !outermost.contains(match.parent);
  };
  matches->erase(std::remove_if(matches->begin(), matches->end(), is_inside), matches->end());
}

// Returns how many there were. REQUIRES: the root is not among them.
size_t EraseMatches(JsonDoc& doc, JsonMatches* matches) {
  if (matches->empty()) return 0;
  SortForChange(matches);
  KeepOutermost(doc, matches);
  const size_t count = matches->size();
  // What is deep goes before its parent's neighbours do, and of one parent all at once.
  for (size_t i = 0; i < count;) {
    size_t end = i;
    const uint32_t depth = (*matches)[i].depth;
    std::map<JsonNode*, std::vector<size_t>> positions;  // by parent
    for (; end < count && (*matches)[end].depth == depth; ++end) {
      positions[(*matches)[end].parent].push_back((*matches)[end].index());
    }
    for (auto& [parent, at] : positions) {
      std::sort(at.begin(), at.end());
      doc.EraseAt(parent, at);
    }
    i = end;
  }
  return count;
}

// --- Setting ---

// What holds a document would take with so much more.
bool IsTooLarge(ShardContext& cx, size_t bytes, size_t more, size_t times = 1) {
  const size_t most = JsonBytesMax(cx);
  return bytes > most || (more > 0 && times > (most - bytes) / more);
}

Outcome SetNewKey(ShardContext& cx, const Setting& setting) {
  if (setting.condition == Condition::kIfThere) return {};
  if (!setting.path.is_root()) return {.error = "ERR new objects must be created at the root"};
  auto doc = std::make_unique<JsonDoc>();
  if (IsTooLarge(cx, doc->bytes(), setting.value.heap_bytes())) return {.error = kErrJsonTooLarge};
  PutAt(*doc, doc->mutable_root(), setting, true);
  cx.FindOrCreate(setting.key, ValueType::kJson)->SetObject(ValueType::kJson, doc.release(), 0);
  cx.Changed(setting.key, setting.event);
  return {.is_done = true};
}

// The member that the path's last name stands for is not there yet.
Outcome AddMember(ShardContext& cx, JsonDoc& doc, const Setting& setting) {
  if (!setting.path.is_static()) return {.error = "ERR wrong static path"};
  const std::vector<JsonStep>& steps = setting.path.steps();
  JsonMatches parents;
  const std::span<const JsonStep> before = std::span(steps).first(steps.size() - 1);
  if (!FindJson(doc, before, JsonVisitsMax(cx), &parents)) {
    return {.error = kErrJsonTooMuchWork};
  }
  // What has no node is a number.
  if (parents.empty() || parents[0].node == nullptr) return {};
  JsonNode* const parent = parents[0].node;
  const JsonSelector& last = steps.back().selectors[0];
  if (last.kind == JsonSelector::Kind::kIndex) {
    if (parent->is_array()) return {.error = "ERR index out of bounds"};
    return {};
  }
  if (!parent->is_object()) return {};
  const size_t depth = parents[0].depth + 1 + JsonDoc::DepthOf(setting.value.root());
  if (depth > JsonDepthMax(cx)) return {.error = kErrJsonTooDeep};
  if (IsTooLarge(cx, doc.bytes() + last.name.size(), setting.value.heap_bytes())) {
    return {.error = kErrJsonTooLarge};
  }
  if (setting.how == How::kMerge && setting.value.root().is_null()) return {.is_done = true};
  PutAt(doc, doc.FindOrAdd(parent, last.name), setting, true);
  cx.Changed(setting.key, setting.event);
  return {.is_done = true};
}

Outcome SetAt(ShardContext& cx, const Setting& setting) {
  const auto handle = cx.FindMutable(setting.key, ValueType::kJson);
  if (handle.is_wrong_type()) return {.error = kErrNotJson};
  if (!handle) return SetNewKey(cx, setting);
  if (setting.path.is_root() && setting.how == How::kReplace) {
    if (setting.condition == Condition::kIfAbsent) return {};
    auto doc = std::make_unique<JsonDoc>();
    *doc->mutable_root() = doc->TakeRoot(&setting.value);
    if (IsTooLarge(cx, doc->bytes(), 0)) return {.error = kErrJsonTooLarge};
    handle->SetObject(ValueType::kJson, doc.release(), 0);
    cx.Changed(setting.key, setting.event);
    return {.is_done = true};
  }
  JsonDoc& doc = JsonIn(handle);
  JsonMatches matches;
  if (!FindJson(doc, setting.path.steps(), JsonVisitsMax(cx), &matches)) {
    return {.error = kErrJsonTooMuchWork};
  }
  if (matches.empty()) {
    if (setting.condition == Condition::kIfThere) return {};
    return AddMember(cx, doc, setting);
  }
  if (setting.condition == Condition::kIfAbsent) return {};
  SortForChange(&matches);
  const size_t depth = matches.front().depth + JsonDoc::DepthOf(setting.value.root());
  if (depth > JsonDepthMax(cx)) return {.error = kErrJsonTooDeep};
  if (IsTooLarge(cx, doc.bytes() + BytesToUnpack(matches), setting.value.heap_bytes(),
                 matches.size())) {
    return {.error = kErrJsonTooLarge};
  }
  if (setting.how == How::kMerge && setting.value.root().is_null() && !setting.path.is_root()) {
    EraseMatches(doc, &matches);
  } else {
    UnpackForChange(doc, &matches);
    for (const JsonMatch& match : matches) {
      PutAt(doc, match.node, setting, &match == &matches.back());
    }
  }
  cx.Changed(setting.key, setting.event, matches.size());
  return {.is_done = true};
}

void ReplyOutcome(const Outcome& outcome, ReplySink& reply) {
  if (!outcome.error.empty()) return reply.Error(outcome.error);
  outcome.is_done ? reply.Ok() : reply.Null();
}

std::optional<JsonFloat> JsonFloatOf(std::string_view name) {
  for (size_t i = 0; i < kJsonFloats; ++i) {
    const auto type = static_cast<JsonFloat>(i);
    if (IsOption(name, FloatName(type))) return type;
  }
  return std::nullopt;
}

// JSON.SET key path value [NX | XX] [FPHA FP16 | BF16 | FP32 | FP64]
void Set(ShardContext& cx, Args args, ReplySink& reply) {
  auto condition = Condition::kAlways;
  std::optional<JsonFloat> packed_as;
  for (size_t i = 4; i < args.size(); ++i) {
    if (IsOption(args[i], "FPHA") && i + 1 < args.size() && !packed_as) {
      packed_as = JsonFloatOf(args[++i]);
      if (!packed_as) return reply.Error(kErrSyntax);
      continue;
    }
    const bool is_absent = IsOption(args[i], "NX");
    if ((!is_absent && !IsOption(args[i], "XX")) || condition != Condition::kAlways) {
      return reply.Error(kErrSyntax);
    }
    condition = is_absent ? Condition::kIfAbsent : Condition::kIfThere;
  }
  JsonPath path;
  if (!ParseJsonPath(args, 2, JsonPlaces(cx.is_replayed()), reply, &path)) return;
  const DocPtr value = ParseJsonValue(cx, args[3], reply);
  if (value == nullptr) return;
  if (packed_as && !value->PackArrays(*packed_as)) {
    return reply.Error("ERR value out of range for " + std::string(FloatName(*packed_as)));
  }
  ReplyOutcome(
      SetAt(cx, {.key = args.key(), .path = path, .value = *value, .condition = condition}), reply);
}

// JSON.MERGE key path value
void Merge(ShardContext& cx, Args args, ReplySink& reply) {
  JsonPath path;
  if (!ParseJsonPath(args, 2, JsonPlaces(cx.is_replayed()), reply, &path)) return;
  const DocPtr value = ParseJsonValue(cx, args[3], reply);
  if (value == nullptr) return;
  ReplyOutcome(SetAt(cx, {.key = args.key(),
                          .path = path,
                          .value = *value,
                          .how = How::kMerge,
                          .event = KeyEvent::kJsonMerge}),
               reply);
}

// --- JSON.MSET key path value [key path value ...] ---

bool HasWholeTriplets(Args args) { return args.size() % 3 == 1; }

// What stands at `at` and behind it. All of them are looked at first; then all are set, and those
// whose path leads nowhere change nothing.
struct Triplet {
  size_t at;
  JsonPath path;
  DocPtr value = nullptr;

  std::string_view key(Args args) const { return args[at]; }
};

// Returns the error, or nothing. Fills in the values, which belong to the shard's thread.
std::string CheckTriplets(ShardContext& cx, Args args, std::vector<Triplet*> triplets) {
  absl::flat_hash_set<std::string_view> made;
  uint64_t work_left = JsonVisitsMax(cx);
  for (Triplet* const triplet : triplets) {
    triplet->value = std::make_unique<JsonDoc>();
    std::string error = ParseJson(args[triplet->at + 2], JsonDepthMax(cx), triplet->value.get());
    if (!error.empty()) return error;
    const std::string_view key = triplet->key(args);
    const auto handle = cx.FindMutable(key, ValueType::kJson);
    if (handle.is_wrong_type()) return std::string(kErrNotJson);
    if (!handle && !triplet->path.is_root() && !made.contains(key)) {
      return "ERR new objects must be created at the root";
    }
    made.insert(key);
    const size_t value_depth = JsonDoc::DepthOf(triplet->value->root());
    if (triplet->path.is_static() &&
        triplet->path.steps().size() + value_depth > JsonDepthMax(cx)) {
      return std::string(kErrJsonTooDeep);
    }
    if (handle) {
      JsonMatches matches;
      if (!FindJson(JsonIn(handle), triplet->path.steps(), &work_left, &matches)) {
        return std::string(kErrJsonTooMuchWork);
      }
      SortForChange(&matches);
      if (!matches.empty() && matches.front().depth + value_depth > JsonDepthMax(cx)) {
        return std::string(kErrJsonTooDeep);
      }
      const size_t bytes = JsonIn(handle).bytes() + BytesToUnpack(matches);
      if (IsTooLarge(cx, bytes, triplet->value->heap_bytes(), matches.size())) {
        return std::string(kErrJsonTooLarge);
      }
    }
    const size_t bytes = handle ? JsonIn(handle).bytes() : 0;
    if (IsTooLarge(cx, bytes, triplet->value->heap_bytes())) return std::string(kErrJsonTooLarge);
  }
  return {};
}

void SetTriplets(ShardContext& cx, Args args, const std::vector<Triplet*>& triplets) {
  for (Triplet* const triplet : triplets) {
    SetAt(cx, {.key = triplet->key(args),
               .path = triplet->path,
               .value = *triplet->value,
               .event = KeyEvent::kJsonMSet});
  }
}

// False: the error was replied.
bool ParseTriplets(Args args, JsonPathKind kind, ReplySink& reply, std::vector<Triplet>* triplets) {
  if (!HasWholeTriplets(args)) {
    reply.Error(WrongArityError("json.mset"));
    return false;
  }
  for (size_t i = 1; i < args.size(); i += 3) {
    triplets->push_back({.at = i, .path = {}});
    if (!ParseJsonPath(args, i + 1, kind, reply, &triplets->back().path)) return false;
  }
  return true;
}

void MSet(ShardContext& cx, Args args, ReplySink& reply) {
  std::vector<Triplet> triplets;
  if (!ParseTriplets(args, JsonPlaces(cx.is_replayed()), reply, &triplets)) return;
  std::vector<Triplet*> all;
  for (Triplet& triplet : triplets) all.push_back(&triplet);
  const std::string error = CheckTriplets(cx, args, all);
  if (!error.empty()) return reply.Error(error);
  SetTriplets(cx, args, all);
  reply.Ok();
}

// Asks all shards, then sets on all. Suspends.
void MSetAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  std::vector<Triplet> triplets;
  if (!ParseTriplets(args, JsonPlaces(cx.is_replayed()), reply, &triplets)) return;
  std::vector<std::vector<Triplet*>> parts(cx.shards().size());
  std::vector<ShardId> ids;
  Transaction tx(cx);
  for (Triplet& triplet : triplets) {
    const std::string_view key = triplet.key(args);
    const uint64_t hash = HashKey(key);
    const ShardId id = cx.shards().ShardOfKey(key, hash);
    if (parts[id].empty()) ids.push_back(id);
    parts[id].push_back(&triplet);
    tx.Lock(id, {cx.shards().LockOfKey(key, hash, cx.db_index()), LockMode::kExclusive});
  }
  if (!tx.Schedule()) return;
  std::vector<std::string> errors(cx.shards().size());
  tx.Hop([&](ShardTurn& turn) {
    const auto id = turn.shard().id();
    errors[id] = CheckTriplets(turn.Begin(cx.db_index(), cx.now_ms()), args, parts[id]);
  });
  for (const std::string& error : errors) {
    if (!error.empty()) return reply.Error(error);
  }
  tx.HopAndConclude(ids, [&](ShardTurn& turn) {
    SetTriplets(turn.Begin(cx.db_index(), cx.now_ms()), args, parts[turn.shard().id()]);
  });
  reply.Ok();
}

// --- JSON.DEL, JSON.CLEAR ---

// JSON.DEL key [path]
void Del(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 3) return reply.Error(WrongArityError("json.del"));
  JsonPath path;
  if (!ParseJsonPath(args, 2, JsonPlaces(cx.is_replayed()), reply, &path)) return;
  const auto handle = cx.FindMutable(args.key(), ValueType::kJson);
  if (handle.is_wrong_type()) return reply.Error(kErrNotJson);
  if (!handle) return reply.Integer(0);
  if (path.is_root()) {
    cx.Delete(args.key(), KeyEvent::kJsonDel);
    return reply.Integer(1);
  }
  JsonDoc& doc = JsonIn(handle);
  JsonMatches matches;
  if (!FindByPath(cx, doc, path, reply, &matches)) return;
  const size_t count = EraseMatches(doc, &matches);
  if (count > 0) {
    const bool is_empty = doc.root().size() == 0;
    cx.Changed(args.key(), KeyEvent::kJsonDel, count);
    if (is_empty) cx.Delete(args.key(), KeyEvent::kDel);
  }
  reply.Integer(static_cast<int64_t>(count));
}

bool IsClear(const JsonNode& node) {
  if (node.is_container()) return node.size() == 0;
  return !node.is_number() ||
         (node.type() == JsonType::kInteger ? node.AsUint() == 0 : node.AsDouble() == 0);
}

// JSON.CLEAR key [path]
void Clear(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 3) return reply.Error(WrongArityError("json.clear"));
  JsonPath path;
  if (!ParseJsonPath(args, 2, JsonPlaces(cx.is_replayed()), reply, &path)) return;
  const auto handle = cx.FindMutable(args.key(), ValueType::kJson);
  if (handle.is_wrong_type()) return reply.Error(kErrNotJson);
  if (!handle) return reply.Error(kErrNoDocument);
  JsonDoc& doc = JsonIn(handle);
  JsonMatches matches;
  if (!FindByPath(cx, doc, path, reply, &matches)) return;
  std::erase_if(matches, [](const JsonMatch& match) { return IsClear(match.value()); });
  SortForChange(&matches);
  if (IsTooLargeUnpacked(cx, doc, matches)) return reply.Error(kErrJsonTooLarge);
  UnpackForChange(doc, &matches);
  const size_t count = matches.size();
  for (const JsonMatch& match : matches) {
    doc.Set(match.node, match.node->is_array()    ? JsonNode::EmptyArray()
                        : match.node->is_object() ? JsonNode::EmptyObject()
                                                  : doc.MakeInt(0));
  }
  if (count > 0) cx.Changed(args.key(), KeyEvent::kJsonClear, count);
  reply.Integer(static_cast<int64_t>(count));
}

}  // namespace

void RegisterJsonWrites(CommandTable* table) {
  constexpr std::string_view kSizes =
      "O(M+N) where M is the size of what was there and N is the size of the value.";
  constexpr std::string_view kSize = "O(N) where N is the size of the values.";
  const FamilyRows add(table, "json", kAclJson);
  add("json.set", Set, -4, kWrite | kDenyOom, KeyAt(1, "RW access update"),
      "Sets the values at a path.", "1.0.0", kSizes);
  table->Add({.name = "json.mset",
              .run = MSet,
              .across = MSetAcross,
              .arity = -4,
              .flags = kWrite | kDenyOom,
              .categories = kAclJson,
              .keys = KeysFrom(1, 3, "RW access update"),
              .docs = {"Sets values at paths of several documents.", "2.6.0", "json",
                       "O(K*(M+N)) where K is the number of keys, M is the size of what was there "
                       "and N is the size of a value."},
              .tips = "request_policy:multi_shard response_policy:all_succeeded"});
  add("json.merge", Merge, 4, kWrite | kDenyOom, KeyAt(1, "RW access update"),
      "Merges a value into those at a path (RFC 7396).", "2.6.0", kSizes);
  add("json.del", Del, -2, kWrite, KeyAt(1, "RW delete"), "Deletes the values at a path.", "1.0.0",
      kSize);
  add("json.forget", Del, -2, kWrite, KeyAt(1, "RW delete"), "Deletes the values at a path.",
      "1.0.0", kSize);
  add("json.clear", Clear, -2, kWrite, KeyAt(1, "RW update"),
      "Empties arrays and objects, and sets numbers to 0.", "2.0.0", kSize);
}

}  // namespace dfly
