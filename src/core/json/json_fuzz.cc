// SPDX-License-Identifier: Apache-2.0
// Paths and documents of any bytes: a text is refused, or is the document that another parser reads
// in it; what a path selects can be changed and erased, and the document stays whole.
//
// Packed arrays behave as those of nodes with the same numbers do.
//
//   input   size of the path (1), path, depth_max (1), what to do (1), the document's text
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_doc.h"
#include "core/json/json_match.h"
#include "core/json/json_path.h"
#include "core/json/json_text.h"
#include "helio/base/fuzz_target.h"

namespace dfly {
namespace {

using helio::Random;

constexpr uint64_t kWorkMax = 20'000;

// Whether both have the same text, which nlohmann's reader of numbers does not say for doubles.
bool IsSame(const JsonNode& node, const nlohmann::json& model) {
  switch (node.type()) {
    case JsonType::kNull:
      return model.is_null();
    case JsonType::kBool:
      return model.is_boolean() && model.get<bool>() == node.AsBool();
    case JsonType::kInteger:
      if (node.is_uint()) return model.is_number() && model.get<uint64_t>() == node.AsUint();
      return model.is_number() && model.get<int64_t>() == node.AsInt();
    case JsonType::kNumber:
      return model.is_number() && model.get<double>() == node.AsDouble();
    case JsonType::kString:
      return model.is_string() && model.get_ref<const std::string&>() == node.AsText();
    case JsonType::kArray:
      if (!model.is_array() || model.size() != node.size()) return false;
      for (size_t i = 0; i < node.size(); ++i) {
        if (!IsSame(node.items()[i], model[i])) return false;
      }
      return true;
    case JsonType::kObject:
      if (!model.is_object() || model.size() != node.size()) return false;
      for (const JsonMember& member : node.members()) {
        const auto found = model.find(std::string(member.name.AsText()));
        if (found == model.end() || !IsSame(member.value, *found)) return false;
      }
      return true;
  }
  return false;
}

void ChangeMatches(JsonDoc* doc, JsonMatches* matches, uint8_t what) {
  SortForChange(matches);
  UnpackForChange(*doc, matches);
  for (const JsonMatch& match : *matches) {
    switch (what % 4) {
      case 0:
        doc->Set(match.node, doc->MakeText("something of many bytes"));
        break;
      case 1:
        if (match.node->is_array()) doc->Append(match.node, doc->MakeDouble(0.1));
        if (match.node->is_object()) doc->FindOrAdd(match.node, "another name");
        break;
      case 2:
        doc->Set(match.node, doc->CopyOf(doc->root()));
        if (doc->heap_bytes() > 100'000) return;
        break;
      default:
        if (match.node->size() > 0) doc->EraseAt(match.node, {match.node->size() - 1});
        break;
    }
  }
}

// What the path finds, and what the document is after a change of that. Empty: it was too much.
std::vector<std::string> Outcome(JsonDoc* doc, const JsonPath& path, uint8_t what) {
  std::vector<std::string> texts;
  if (path.projection() != nullptr) {
    const auto show = [&](std::span<const JsonNode> nodes) {
      for (const JsonNode& node : nodes) texts.push_back(JsonText(node));
      texts.emplace_back();
    };
    uint64_t work_left = kWorkMax;
    return ProjectJson(*doc, *path.projection(), &work_left, show) ? texts
                                                                   : std::vector<std::string>();
  }
  JsonMatches matches;
  if (!FindJson(*doc, path.steps(), kWorkMax, &matches)) return {};
  for (const JsonMatch& match : matches) texts.push_back(JsonText(match.value()));
  if (what % 4 == 2) return texts;  // depends on the order in which they change
  ChangeMatches(doc, &matches, what);
  doc->CheckInvariants();
  texts.push_back(JsonText(doc->root()));
  return texts;
}

void CheckPacked(std::string_view text, const JsonPath& path, uint8_t what) {
  JsonDoc packed, plain;
  CHECK_EQ(ParseJson(text, JsonDoc::kDepthMax, &packed), "");
  if (!packed.PackArrays(static_cast<JsonFloat>(what / 4 % kJsonFloats))) return;
  packed.CheckInvariants();
  *plain.mutable_root() = plain.CopyOf(packed.root());
  std::vector<JsonNode*> todo = {plain.mutable_root()};
  while (!todo.empty()) {
    JsonNode* const node = todo.back();
    todo.pop_back();
    if (node->is_array()) {
      plain.Unpack(node);
      for (JsonNode& item : node->items()) todo.push_back(&item);
    } else if (node->is_object()) {
      for (JsonMember& member : node->members()) todo.push_back(&member.value);
    }
  }
  plain.CheckInvariants();
  CHECK_EQ(JsonText(packed.root()), JsonText(plain.root()));
  CHECK(JsonDoc::IsEqual(packed.root(), plain.root()));
  const auto of_packed = Outcome(&packed, path, what);
  const auto of_plain = Outcome(&plain, path, what);
  if (of_packed.empty() || of_plain.empty()) return;
  CHECK(of_packed == of_plain) << text << " " << path.text();
}

void CheckOneInput(std::string_view data) {
  helio::fuzz::Feed feed(data);
  const std::string path_text(feed.Take(feed.Byte()));
  const size_t depth_max = 1 + feed.Byte() % 60;
  const uint8_t what = feed.Byte();
  const std::string text(feed.Take(data.size()));

  JsonDoc doc;
  const std::string error = ParseJson(text, depth_max, &doc);
  doc.CheckInvariants();
  if (text.find('\0') != std::string::npos) {  // where the other parser ends
    CHECK(!error.empty()) << text;
    return;
  }
  const auto model = nlohmann::json::parse(text, nullptr, false);
  if (!error.empty()) {
    CHECK(doc.root().is_null());
    CHECK(model.is_discarded() || error.find("recursion") != std::string::npos) << error << text;
    return;
  }
  CHECK(!model.is_discarded()) << text;
  CHECK(IsSame(doc.root(), model)) << text << " is " << JsonText(doc.root());
  CHECK_LE(JsonDoc::DepthOf(doc.root()), depth_max);

  const std::string written = JsonText(doc.root());
  JsonDoc again;
  CHECK_EQ(ParseJson(written, depth_max, &again), "");
  CHECK_EQ(JsonText(again.root()), written);

  JsonPath path;
  if (!JsonPath::Parse(path_text, &path).empty()) return;
  CheckPacked(text, path, what);
  if (path.projection() != nullptr) {
    std::string shown;
    const auto show = [&](std::span<const JsonNode> nodes) {
      for (const JsonNode& node : nodes) {
        JsonDoc same;
        shown = JsonText(node);
        CHECK_EQ(ParseJson(shown, JsonDoc::kDepthMax, &same), "");
        CHECK_EQ(JsonText(same.root()), shown);
      }
    };
    uint64_t work_left = kWorkMax;
    [[maybe_unused]] const bool fits = ProjectJson(doc, *path.projection(), &work_left, show);
    CHECK_EQ(JsonText(doc.root()), written) << "a look changed it";
    doc.CheckInvariants();
    return;
  }
  JsonMatches matches;
  if (!FindJson(doc, path.steps(), kWorkMax, &matches)) return;
  for (const JsonMatch& match : matches) {
    if (match.parent != nullptr) CHECK_LT(match.index(), match.parent->size());
  }
  ChangeMatches(&doc, &matches, what);
  doc.CheckInvariants();
  while (!doc.FreeSome(3)) CHECK_EQ(doc.heap_bytes(), JsonDoc::BytesOf(doc.root()));
  CHECK_EQ(doc.heap_bytes(), 0u);
}

std::string RandomText(Random* random, int depth) {
  static constexpr const char* kScalars[] = {"0",
                                             "-1",
                                             "1.5",
                                             "1e3",
                                             "18446744073709551615",
                                             "-9223372036854775808",
                                             "0.1",
                                             "\"a\"",
                                             "\"\\u00e4\\n\"",
                                             "\"a text of many bytes\"",
                                             "true",
                                             "false",
                                             "null",
                                             "[]",
                                             "{}",
                                             "[0.1,2,-3.5]",
                                             "[1.5]"};
  static constexpr const char* kNames[] = {"a", "b", "c", "a long name", ""};
  if (depth == 0 || random->OneIn(3)) return kScalars[random->Uniform(std::size(kScalars))];
  const bool is_object = random->OneIn(2);
  std::string text(1, is_object ? '{' : '[');
  for (uint64_t i = random->Uniform(5); i > 0; --i) {
    if (text.size() > 1) text += ',';
    if (is_object) text += '"' + std::string(kNames[random->Uniform(std::size(kNames))]) + "\":";
    text += RandomText(random, depth - 1);
  }
  return text + (is_object ? '}' : ']');
}

// An expression, of `root` most of the time.
std::string RandomValue(Random* random, int depth, const char* root) {
  static constexpr const char* kLeaves[] = {"",    ".a",   ".b", "[0]", "[*]",       "..*",
                                            "..a", "[1:]", "~",  ".*~", "[?(@ > 1)]"};
  static constexpr const char* kLiterals[] = {"1",         "-2.5", "'a'", "[1,2]",
                                              "{\"a\":1}", "0",    "true"};
  static constexpr const char* kFunctions[] = {
      "length", "count", "value",  "keys",  "abs",    "ceiling", "floor",  "first",
      "last",   "min",   "max",    "avg",   "sum",    "stddev",  "concat", "append",
      "index",  "match", "search", "anyof", "noneof", "subsetof"};
  static constexpr const char* kOperators[] = {
      " + ",   " - ",  " * ",  " / ",    " % ",     " == ", " != ", " < ",     " in ",
      " nin ", " && ", " || ", " size ", " empty ", " =~ ", " >= ", " anyof ", " noneof "};
  static constexpr const char* kSigns[] = {"-", "+", "!"};
  const auto one_of = [&](const auto& words) {
    return std::string(words[random->Uniform(std::size(words))]);
  };
  const auto value = [&] { return RandomValue(random, depth - 1, root); };
  if (depth == 0 || random->OneIn(4)) {
    return random->OneIn(4) ? one_of(kLiterals) : root + one_of(kLeaves);
  }
  switch (random->Uniform(6)) {
    case 0:
      return one_of(kFunctions) + "(" + value() + ")";
    case 1:
      return one_of(kFunctions) + "(" + value() + ", " + value() + ")";
    case 2:
      return value() + "." + one_of(kFunctions) + "(" + (random->OneIn(2) ? value() : "") + ")";
    case 3:
      return one_of(kSigns) + value();
    case 4:
      return "(" + value() + ")";
    default:
      return value() + one_of(kOperators) + value();
  }
}

std::string RandomPath(Random* random) {
  static constexpr const char* kSteps[] = {".a",
                                           "..a",
                                           "[0]",
                                           "[-1]",
                                           "[*]",
                                           "..*",
                                           "['a long name']",
                                           "[0,1]",
                                           "['a','b']",
                                           "[::2]",
                                           "[1:]",
                                           "[?(@.a)]",
                                           "[?(@ > 1)]",
                                           "[?(@.a == 1 || !@.b)]",
                                           "..[?(@ =~ \"a\")]",
                                           "['']",
                                           "[?(@ == [])]",
                                           "[?($.a && @)]"};
  if (random->OneIn(3)) return RandomValue(random, 3, "$");
  std::string path = random->OneIn(8) ? "" : "$";
  for (uint64_t i = random->Uniform(4); i > 0; --i) {
    path += random->OneIn(3) ? "[?" + RandomValue(random, 2, "@") + "]"
                             : kSteps[random->Uniform(std::size(kSteps))];
  }
  return path;
}

std::string MakeExample(Random* random) {
  std::string path = RandomPath(random);
  if (path.size() > 255) path = "$";
  std::string bytes(1, static_cast<char>(path.size()));
  bytes += path;
  bytes += static_cast<char>(random->Next());
  bytes += static_cast<char>(random->Next());
  return bytes + RandomText(random, 4);
}

}  // namespace

FUZZ_TARGET(JsonFuzz, DocumentsStayWhole,
            {.check = CheckOneInput, .make_example = MakeExample, .rounds = 5'000})

}  // namespace dfly
