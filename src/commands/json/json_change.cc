// SPDX-License-Identifier: Apache-2.0
// Changes of values in place: JSON.NUMINCRBY JSON.NUMMULTBY JSON.STRAPPEND JSON.TOGGLE
// JSON.ARRAPPEND JSON.ARRINSERT JSON.ARRPOP JSON.ARRTRIM
#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "commands/json/json_family.h"
#include "commands/table/rows.h"
#include "core/json/json_number.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

using DocPtr = std::unique_ptr<JsonDoc>;

// --- One change of each match ---

struct Target {
  ShardContext& cx;
  Args args;
  size_t path_at;
  JsonType wanted;  // kNumber: integers, too
  KeyEvent event;
  // What an older path's error says behind "does not exist".
  std::string_view or_not;

  bool Fits(const JsonNode& node) const {
    return wanted == JsonType::kNumber ? node.is_number() : node.type() == wanted;
  }
};

// check(doc, fitting, matches) returns an error, or nothing. `fitting`: the matches of the type,
// each value once. Then change(doc, node) changes each of these and returns what it has to say.
// finish(path, answers) replies: an answer for each match, null for those of another type.
template <typename Check, typename Change, typename Finish>
void ChangeEach(const Target& target, ReplySink& reply, Check check, Change change, Finish finish) {
  using Answer = decltype(change(std::declval<JsonDoc&>(), std::declval<JsonNode*>()));
  JsonPath path;
  if (!ParseJsonPath(target.args, target.path_at, JsonPlaces(target.cx.is_replayed()), reply,
                     &path))
    return;
  const std::string_view key = target.args.key();
  const auto handle = target.cx.FindMutable(key, ValueType::kJson);
  if (handle.is_wrong_type()) return reply.Error(kErrNotJson);
  if (!handle) return reply.Error(kErrNoDocument);
  JsonDoc& doc = JsonIn(handle);
  JsonMatches matches;
  if (!FindByPath(target.cx, doc, path, reply, &matches)) return;
  JsonMatches fitting;
  for (const JsonMatch& match : matches) {
    if (target.Fits(match.value())) fitting.push_back(match);
  }
  if (path.is_legacy() && fitting.empty()) return reply.Error(NoSuchPath(path, target.or_not));
  SortForChange(&fitting);
  const std::string error = check(doc, fitting, matches);
  if (!error.empty()) return reply.Error(error);
  if (IsTooLargeUnpacked(target.cx, doc, fitting)) return reply.Error(kErrJsonTooLarge);
  UnpackForChange(doc, &fitting);
  // Those of arrays that are still packed do not fit.
  for (JsonMatch& match : matches) {
    if (match.node != nullptr || match.parent->is_packed()) continue;
    match.node = &match.parent->items()[match.at];
  }
  absl::flat_hash_map<const JsonNode*, Answer> answers;
  for (const JsonMatch& match : fitting) answers.emplace(match.node, change(doc, match.node));
  if (!fitting.empty()) target.cx.Changed(key, target.event, fitting.size());
  std::vector<const Answer*> in_order;
  for (const JsonMatch& match : matches) {
    const auto answer = answers.find(match.node);
    in_order.push_back(answer == answers.end() ? nullptr : &answer->second);
  }
  finish(path, in_order);
}

// With an older path there is one answer: that of the last match that has one.
template <typename Answer>
const Answer& LastOf(const std::vector<const Answer*>& answers) {
  return **std::find_if(answers.rbegin(), answers.rend(),
                        [](const Answer* answer) { return answer != nullptr; });
}

// show(answer) replies one; others are null.
template <typename Show>
auto ShowAnswers(ReplySink& reply, Show show) {
  return [&reply, show](const JsonPath& path, const auto& answers) {
    if (path.is_legacy()) return show(LastOf(answers));
    reply.Array(answers.size());
    for (const auto& answer : answers) answer ? show(*answer) : reply.Null();
  };
}

auto ShowIntegers(ReplySink& reply) {
  return ShowAnswers(reply, [&reply](int64_t answer) { reply.Integer(answer); });
}

constexpr auto kNoCheck = [](JsonDoc&, const JsonMatches&, const JsonMatches&) {
  return std::string();
};

// --- Numbers ---

void AppendNumber(const JsonNumber& number, std::string* to) {
  if (!number.is_integer) return AppendJsonDouble(number.real, to);
  to->append(std::to_string(number.integer));
}

// JSON.NUMINCRBY key path value, JSON.NUMMULTBY key path value
template <char kSign, KeyEvent kEvent>
void ChangeNumbers(ShardContext& cx, Args args, ReplySink& reply) {
  const DocPtr value = ParseJsonValue(cx, args[3], reply);
  if (value == nullptr) return;
  if (!value->root().is_number()) return reply.Error("ERR bad input number");
  const JsonNumber by = JsonNumber::Of(value->root());
  const Target target = {cx, args, 2, JsonType::kNumber, kEvent, " or does not contains a number"};
  const auto check = [&](JsonDoc&, const JsonMatches& matches, const JsonMatches&) {
    const bool are_finite =
        std::all_of(matches.begin(), matches.end(), [&](const JsonMatch& match) {
          return ComputeJson(kSign, JsonNumber::Of(match.value()), by).has_value();
        });
    return std::string(are_finite ? "" : "ERR result is not a number");
  };
  const auto change = [&](JsonDoc& doc, JsonNode* node) {
    const JsonNumber result = *ComputeJson(kSign, JsonNumber::Of(*node), by);
    doc.Set(node, result.NodeIn(&doc));
    return result;
  };
  const auto finish = [&](const JsonPath& path, const auto& answers) {
    const auto show = [&](const JsonNumber& number) {
      number.is_integer ? reply.Integer(number.integer) : reply.Double(number.real);
    };
    std::string text;
    if (path.is_legacy()) {
      const JsonNumber& last = LastOf(answers);
      if (reply.resp3()) {
        reply.Array(1);
        return show(last);
      }
      AppendNumber(last, &text);
      return reply.Bulk(text);
    }
    if (reply.resp3()) {
      reply.Array(answers.size());
      for (const auto& answer : answers) answer ? show(*answer) : reply.Null();
      return;
    }
    text.push_back('[');
    for (const auto& answer : answers) {
      if (text.size() > 1) text.push_back(',');
      answer ? AppendNumber(*answer, &text) : static_cast<void>(text.append("null"));
    }
    text.push_back(']');
    reply.Bulk(text);
  };
  ChangeEach(target, reply, check, change, finish);
}

// --- Strings, booleans ---

// JSON.STRAPPEND key [path] value
void StrAppend(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 4) return reply.Error(WrongArityError("json.strappend"));
  const DocPtr value = ParseJsonValue(cx, args[args.size() - 1], reply);
  if (value == nullptr) return;
  if (!value->root().is_string()) {
    return reply.Error(WrongJsonType(JsonType::kString, value->root().type()));
  }
  const std::string_view more = value->root().AsText();
  const Target target = {cx,
                         args,
                         args.size() == 4 ? 2 : args.size(),
                         JsonType::kString,
                         KeyEvent::kJsonStrAppend,
                         " or not a string"};
  const auto check = [&](JsonDoc& doc, const JsonMatches& matches, const JsonMatches&) {
    size_t bytes = doc.bytes();
    for (const JsonMatch& match : matches) bytes += match.node->AsText().size() + more.size();
    return std::string(bytes > JsonBytesMax(cx) ? kErrJsonTooLarge : "");
  };
  const auto change = [&](JsonDoc& doc, JsonNode* node) {
    std::string text(node->AsText());
    text += more;
    doc.Set(node, doc.MakeText(text));
    return static_cast<int64_t>(text.size());
  };
  ChangeEach(target, reply, check, change, ShowIntegers(reply));
}

// JSON.TOGGLE key [path]
void Toggle(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 3) return reply.Error(WrongArityError("json.toggle"));
  const Target target = {cx, args, 2, JsonType::kBool, KeyEvent::kJsonToggle, " or not a bool"};
  const auto change = [](JsonDoc&, JsonNode* node) {
    const bool is_true = !node->AsBool();
    *node = JsonNode::Bool(is_true);
    return static_cast<int64_t>(is_true);
  };
  ChangeEach(target, reply, kNoCheck, change, ShowIntegers(reply));
}

// --- Arrays ---

constexpr std::string_view kOrNotArray = " or not an array";

// The values of args[from] and what follows. False: one is none, which was replied.
bool ParseValues(ShardContext& cx, Args args, size_t from, ReplySink& reply,
                 std::vector<DocPtr>* values) {
  for (size_t i = from; i < args.size(); ++i) {
    values->push_back(ParseJsonValue(cx, args[i], reply));
    if (values->back() == nullptr) return false;
  }
  return true;
}

// Whether they may come into these arrays.
std::string CheckRoom(ShardContext& cx, const JsonDoc& doc, const std::vector<DocPtr>& values,
                      const JsonMatches& matches) {
  if (matches.empty()) return {};
  size_t bytes = 0, depth = 0;
  for (const DocPtr& value : values) {
    bytes += sizeof(JsonNode) + value->heap_bytes();
    depth = std::max(depth, JsonDoc::DepthOf(value->root()));
  }
  // The deepest is the first one.
  if (matches[0].depth + 1 + depth > JsonDepthMax(cx)) {
    return std::string(kErrJsonTooDeep);
  }
  const size_t most = JsonBytesMax(cx);
  size_t bytes_now = doc.bytes();
  for (const JsonMatch& match : matches) {
    if (match.node->is_packed()) bytes_now += sizeof(JsonNode) * match.node->size();
  }
  const bool fits = bytes_now <= most && matches.size() <= (most - bytes_now) / bytes;
  return std::string(fits ? "" : kErrJsonTooLarge);
}

// JSON.ARRAPPEND key path value [value ...]
void ArrAppend(ShardContext& cx, Args args, ReplySink& reply) {
  std::vector<DocPtr> values;
  if (!ParseValues(cx, args, 3, reply, &values)) return;
  const Target target = {cx, args, 2, JsonType::kArray, KeyEvent::kJsonArrAppend, kOrNotArray};
  const auto check = [&](JsonDoc& doc, const JsonMatches& matches, const JsonMatches&) {
    return CheckRoom(cx, doc, values, matches);
  };
  const auto change = [&](JsonDoc& doc, JsonNode* node) {
    for (const DocPtr& value : values) doc.Append(node, doc.CopyOf(value->root()));
    return static_cast<int64_t>(node->size());
  };
  ChangeEach(target, reply, check, change, ShowIntegers(reply));
}

// Below 0: from the end. None: it is beyond the array.
std::optional<size_t> PlaceIn(const JsonNode& array, int64_t index) {
  const auto size = static_cast<int64_t>(array.size());
  if (index < 0) index += size;
  if (index < 0 || index > size) return std::nullopt;
  return static_cast<size_t>(index);
}

// JSON.ARRINSERT key path index value [value ...]
void ArrInsert(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<int64_t> index = ParseInt64(args[3]);
  if (!index) return reply.Error(kErrNotInteger);
  std::vector<DocPtr> values;
  if (!ParseValues(cx, args, 4, reply, &values)) return;
  const Target target = {cx, args, 2, JsonType::kArray, KeyEvent::kJsonArrInsert, kOrNotArray};
  const auto check = [&](JsonDoc& doc, const JsonMatches& matches, const JsonMatches&) {
    for (const JsonMatch& match : matches) {
      if (!PlaceIn(*match.node, *index)) return std::string("ERR index out of bounds");
    }
    return CheckRoom(cx, doc, values, matches);
  };
  const auto change = [&](JsonDoc& doc, JsonNode* node) {
    std::vector<JsonNode> copies;
    for (const DocPtr& value : values) copies.push_back(doc.CopyOf(value->root()));
    doc.InsertAll(node, *PlaceIn(*node, *index), copies);
    return static_cast<int64_t>(node->size());
  };
  ChangeEach(target, reply, check, change, ShowIntegers(reply));
}

// JSON.ARRPOP key [path [index]]
void ArrPop(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 4) return reply.Error(WrongArityError("json.arrpop"));
  const std::optional<int64_t> index = args.size() == 4 ? ParseInt64(args[3]) : -1;
  if (!index) return reply.Error(kErrNotInteger);
  const Target target = {cx, args, 2, JsonType::kArray, KeyEvent::kJsonArrPop, kOrNotArray};
  const auto index_in = [&](const JsonNode& node) {
    const auto size = static_cast<int64_t>(node.size());
    return static_cast<size_t>(
        std::clamp<int64_t>(*index < 0 ? *index + size : *index, 0, size - 1));
  };
  // A path may select one array many times. What is inside of an element may go before it does, so
  // it is no longer then than now.
  const auto check = [&](JsonDoc&, const JsonMatches& fitting, const JsonMatches& matches) {
    if (matches.size() < 2) return std::string();
    absl::flat_hash_map<const JsonNode*, size_t> bytes;
    for (const JsonMatch& match : fitting) {
      const JsonNode& node = *match.node;
      if (node.size() != 0) bytes[&node] = JsonText(node.item(index_in(node))).size();
    }
    size_t left = JsonBytesMax(cx);
    for (const JsonMatch& match : matches) {
      const auto it = bytes.find(match.node);
      const size_t its_bytes = it == bytes.end() ? 0 : it->second;
      if (its_bytes > left) return std::string(kErrJsonReplyTooLarge);
      left -= its_bytes;
    }
    return std::string();
  };
  // Empty: there was nothing.
  const auto change = [&](JsonDoc& doc, JsonNode* node) {
    if (node->size() == 0) return std::string();
    JsonNode item = doc.TakeItem(node, index_in(*node));
    std::string text = JsonText(item);
    doc.Clear(&item);
    return text;
  };
  const auto show = [&](const std::string& text) {
    text.empty() ? reply.Null() : reply.Bulk(text);
  };
  ChangeEach(target, reply, check, change, ShowAnswers(reply, show));
}

// JSON.ARRTRIM key path start stop
void ArrTrim(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<int64_t> start = ParseInt64(args[3]);
  const std::optional<int64_t> stop = ParseInt64(args[4]);
  if (!start || !stop) return reply.Error(kErrNotInteger);
  const Target target = {cx, args, 2, JsonType::kArray, KeyEvent::kJsonArrTrim, kOrNotArray};
  const auto change = [&](JsonDoc& doc, JsonNode* node) {
    const auto size = static_cast<int64_t>(node->size());
    const int64_t first = std::max<int64_t>(*start < 0 ? *start + size : *start, 0);
    const int64_t last = std::min(*stop < 0 ? *stop + size : *stop, size - 1);
    if (first > last) {
      doc.EraseItems(node, 0, node->size());
    } else {
      doc.EraseItems(node, static_cast<size_t>(last + 1), static_cast<size_t>(size - last - 1));
      doc.EraseItems(node, 0, static_cast<size_t>(first));
    }
    return static_cast<int64_t>(node->size());
  };
  ChangeEach(target, reply, kNoCheck, change, ShowIntegers(reply));
}

}  // namespace

void RegisterJsonChanges(CommandTable* table) {
  constexpr std::string_view kVisits =
      "O(1) for one place, O(N) for several, where N is the size of the document.";
  constexpr std::string_view kArray = "O(N) where N is the size of the arrays.";
  constexpr std::string_view kUpdate = "RW access update";
  const FamilyRows add(table, "json", kAclJson);
  add("json.numincrby", ChangeNumbers<'+', KeyEvent::kJsonNumIncrBy>, 4, kWrite | kDenyOom,
      KeyAt(1, kUpdate), "Adds to numbers.", "1.0.0", kVisits);
  add("json.nummultby", ChangeNumbers<'*', KeyEvent::kJsonNumMultBy>, 4, kWrite | kDenyOom,
      KeyAt(1, kUpdate), "Multiplies numbers.", "1.0.0", kVisits);
  add("json.strappend", StrAppend, -3, kWrite | kDenyOom, KeyAt(1, kUpdate), "Appends to strings.",
      "1.0.0", kVisits);
  add("json.toggle", Toggle, -2, kWrite | kDenyOom, KeyAt(1, kUpdate),
      "Makes true of false, and false of true.", "2.0.0", kVisits);
  add("json.arrappend", ArrAppend, -4, kWrite | kDenyOom, KeyAt(1, kUpdate),
      "Appends values to arrays.", "1.0.0", kVisits);
  add("json.arrinsert", ArrInsert, -5, kWrite | kDenyOom, KeyAt(1, kUpdate),
      "Inserts values into arrays.", "1.0.0", kArray);
  add("json.arrpop", ArrPop, -2, kWrite, KeyAt(1, "RW access delete"),
      "Takes an element out of arrays.", "1.0.0", kArray);
  add("json.arrtrim", ArrTrim, 5, kWrite, KeyAt(1, "RW delete"),
      "Cuts arrays down to a range of their elements.", "1.0.0", kArray);
}

}  // namespace dfly
