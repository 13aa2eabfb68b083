// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_text.h"

#include <absl/container/inlined_vector.h>
// As Debian has built it.
#define SIMDJSON_THREADS_ENABLED 1
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>

#include "core/json/json_walk.h"

namespace dfly {

namespace {

namespace dom = simdjson::dom;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A thread keeps a parser and a buffer for texts up to this size.
constexpr size_t kKeptBytes = 256 << 10;

struct Reader {
  dom::parser parser;
  std::unique_ptr<char[]> buffer;
  size_t capacity = 0;

  simdjson::error_code Parse(std::string_view text, size_t depth_max, dom::element* root) {
    const size_t needed = text.size() + simdjson::SIMDJSON_PADDING;
    if (capacity < needed) {
      buffer = std::make_unique_for_overwrite<char[]>(needed);
      capacity = needed;
    }
    if (!text.empty()) std::memcpy(buffer.get(), text.data(), text.size());
    std::memset(buffer.get() + text.size(), 0, simdjson::SIMDJSON_PADDING);
    if (parser.capacity() < text.size() || parser.max_depth() != depth_max) {
      const size_t wanted = std::max(text.size(), parser.capacity());
      if (const auto error = parser.allocate(wanted, depth_max)) return error;
    }
    return parser.parse(buffer.get(), text.size(), false).get(*root);
  }
};

// Integers of more digits than 64 bits have become doubles. Empty: there is none.
std::string WithLargeIntegersAsDoubles(std::string_view text) {
  constexpr size_t kDigitsMax = 18;  // no more are surely an int64
  std::string changed;
  size_t copied = 0;
  bool is_quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_quoted) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        is_quoted = false;
      }
      continue;
    }
    if (text[i] == '"') is_quoted = true;
    if (!IsDigit(text[i])) continue;
    const size_t begin = i;
    while (i < text.size() && IsDigit(text[i])) ++i;
    const bool is_integer = i == text.size() || (text[i] != '.' && (text[i] | 32) != 'e');
    const bool is_fraction = begin > 0 && (text[begin - 1] == '.' || (text[begin - 1] | 32) == 'e');
    if (is_integer && !is_fraction && i - begin > kDigitsMax) {
      uint64_t number;
      const bool is_negative = begin > 0 && text[begin - 1] == '-';
      const auto result = std::from_chars(text.data() + begin, text.data() + i, number);
      const bool fits = result.ec == std::errc() && (!is_negative || number <= uint64_t{1} << 63);
      if (!fits) {
        changed += text.substr(copied, i - copied);
        changed += "e0";
        copied = i;
      }
    }
    --i;
  }
  if (copied > 0) changed += text.substr(copied);
  return changed;
}

JsonNode ScalarOf(const dom::element& from, JsonDoc* doc) {
  switch (from.type()) {
    case dom::element_type::INT64:
      return doc->MakeInt(from.get_int64().value_unsafe());
    case dom::element_type::UINT64:
      return doc->MakeUint(from.get_uint64().value_unsafe());
    case dom::element_type::DOUBLE:
      return doc->MakeDouble(from.get_double().value_unsafe());
    case dom::element_type::STRING:
      return doc->MakeText(from.get_string().value_unsafe());
    case dom::element_type::BOOL:
      return JsonNode::Bool(from.get_bool().value_unsafe());
    default:
      return JsonNode();
  }
}

// False: it is deeper than `depth_max`.
bool Build(const dom::element& root, size_t depth_max, JsonDoc* doc) {
  struct Frame {
    JsonNode* container;
    bool is_object;
    dom::array::iterator item, items_end;
    dom::object::iterator member, members_end;
  };
  absl::InlinedVector<Frame, 8> frames;
  const auto put = [&](const dom::element& from, JsonNode* to) {
    if (from.type() == dom::element_type::ARRAY) {
      const dom::array array = from.get_array().value_unsafe();
      const size_t size = array.size();
      if (frames.size() == depth_max) return false;
      *to = doc->MakeArray(size);
      if (size == 0) return true;
      frames.push_back({to, false, array.begin(), array.end(), {}, {}});
    } else if (from.type() == dom::element_type::OBJECT) {
      const dom::object object = from.get_object().value_unsafe();
      const size_t size = object.size();
      if (frames.size() == depth_max) return false;
      *to = doc->MakeObject(size);
      if (size == 0) return true;
      frames.push_back({to, true, {}, {}, object.begin(), object.end()});
    } else {
      *to = ScalarOf(from, doc);
    }
    return true;
  };
  if (!put(root, doc->mutable_root())) return false;
  while (!frames.empty()) {
    Frame& frame = frames.back();
    if (frame.is_object) {
      if (!(frame.member != frame.members_end)) {
        frames.pop_back();
        continue;
      }
      JsonNode* const to = doc->FindOrAdd(frame.container, frame.member.key());
      const dom::element from = frame.member.value();
      ++frame.member;
      doc->Clear(to);
      if (!put(from, to)) return false;
    } else {
      if (!(frame.item != frame.items_end)) {
        frames.pop_back();
        continue;
      }
      const dom::element from = *frame.item;
      ++frame.item;
      doc->Append(frame.container, JsonNode());
      if (!put(from, &frame.container->items().back())) return false;
    }
  }
  return true;
}

std::string ErrorText(simdjson::error_code error) {
  if (error == simdjson::DEPTH_ERROR) return "recursion limit exceeded";
  return std::string("expected a JSON value: ") + simdjson::error_message(error);
}

}  // namespace

std::string ParseJson(std::string_view text, size_t depth_max, JsonDoc* doc) {
  thread_local Reader kept;
  Reader large;
  Reader& reader = text.size() <= kKeptBytes ? kept : large;
  // It counts scalars as a level, too.
  const size_t parser_depth = depth_max + 2;
  dom::element root;
  simdjson::error_code error = reader.Parse(text, parser_depth, &root);
  if (error != simdjson::SUCCESS && error != simdjson::DEPTH_ERROR) {
    const std::string changed = WithLargeIntegersAsDoubles(text);
    if (!changed.empty()) error = reader.Parse(changed, parser_depth, &root);
  }
  if (error != simdjson::SUCCESS) return ErrorText(error);
  if (Build(root, depth_max, doc)) return {};
  doc->Clear(doc->mutable_root());
  return ErrorText(simdjson::DEPTH_ERROR);
}

bool IsUtf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

// --- Writing ---

void AppendJsonText(std::string_view text, std::string* to) {
  // What stands behind the backslash; 1: \u00xx; 0: it is written as it is.
  static constexpr std::array<char, 256> kEscapes = [] {
    std::array<char, 256> escapes{};
    for (size_t i = 0; i < 32; ++i) escapes[i] = 1;
    escapes['"'] = '"';
    escapes['\\'] = '\\';
    escapes['\b'] = 'b';
    escapes['\f'] = 'f';
    escapes['\n'] = 'n';
    escapes['\r'] = 'r';
    escapes['\t'] = 't';
    return escapes;
  }();
  to->push_back('"');
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char escape = kEscapes[static_cast<uint8_t>(text[i])];
    if (escape == 0) continue;
    to->append(text, begin, i - begin);
    begin = i + 1;
    to->push_back('\\');
    if (escape != 1) {
      to->push_back(escape);
    } else {
      constexpr std::string_view kHex = "0123456789abcdef";
      to->append("u00");
      to->push_back(kHex[static_cast<uint8_t>(text[i]) >> 4]);
      to->push_back(kHex[static_cast<uint8_t>(text[i]) & 15]);
    }
  }
  to->append(text, begin, text.size() - begin);
  to->push_back('"');
}

namespace {

// `text`: digits * 10^exponent. With a point from 1e-5 up to 1e16, as Redis does.
void AppendScientific(double number, std::string_view text, std::string* to) {
  if (text.front() == '-') {
    to->push_back('-');
    text.remove_prefix(1);
  }
  const size_t at = text.find('e');
  std::string_view power = text.substr(at + 1);
  const bool is_small = power.front() == '-';
  power.remove_prefix(1);
  int exponent = 0;
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  if (is_small) exponent = -exponent;
  char without_point[24] = {text[0]};
  if (at > 2) text.copy(without_point + 1, at - 2, 2);
  const std::string_view digits(without_point, at > 2 ? at - 1 : 1);
  const int count = static_cast<int>(digits.size());
  const int point = exponent + 1;  // so many digits stand before it
  if (number == 0) {
    to->append("0.0");
  } else if (point >= count && point <= 16) {
    to->append(digits).append(static_cast<size_t>(point - count), '0').append(".0");
  } else if (point > 0 && point <= 16) {
    to->append(digits, 0, static_cast<size_t>(point)).append(".");
    to->append(digits, static_cast<size_t>(point));
  } else if (point > -5 && point <= 0) {
    to->append("0.").append(static_cast<size_t>(-point), '0').append(digits);
  } else {
    to->push_back(digits[0]);
    if (count > 1) to->append(".").append(digits, 1);
    to->append("e").append(std::to_string(exponent));
  }
}

constexpr double kTiny = 1e-17;

// With as few decimals as read back as the same number of its type. REQUIRES: it is no whole
// number, and above kTiny.
double ShortestOf(JsonFloat type, uint32_t bits, double number) {
  constexpr double kPowersOf10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  constexpr int kUsualDigits = 4;
  const auto rounded = [&](int decimals) {
    const double power = kPowersOf10[decimals];
    return std::nearbyint(number * power) / power;
  };
  const auto reads_back = [&](int decimals) {
    return EncodeFloat(type, rounded(decimals)) == bits;
  };
  const auto magnitude = static_cast<int>(std::floor(std::log10(std::fabs(number))));
  int decimals = std::clamp(kUsualDigits - 1 - magnitude, 1, 22);
  while (decimals < 22 && !reads_back(decimals)) ++decimals;
  while (decimals > 1 && reads_back(decimals - 1)) --decimals;
  return rounded(decimals);
}

// As few digits as read back as the same number of its type; whole numbers are exact.
void AppendJsonFloat(JsonFloat type, uint32_t bits, std::string* to) {
  constexpr int kDigitsMax = 5;  // of 2 bytes, behind the point
  char scratch[40];
  const double number = DecodeFloat(type, bits);
  const double size = std::fabs(number);
  if (size < 1e15 && number == std::trunc(number)) return AppendJsonDouble(number, to);
  if (type != JsonFloat::kFp32 && size > kTiny && size < 1e15) {
    return AppendJsonDouble(ShortestOf(type, bits, number), to);
  }
  if (type == JsonFloat::kFp32) {
    const auto end = std::to_chars(scratch, scratch + sizeof(scratch), static_cast<float>(number),
                                   std::chars_format::scientific);
    return AppendScientific(number, {scratch, static_cast<size_t>(end.ptr - scratch)}, to);
  }
  std::string_view text;
  const auto reads_back = [&](int digits) {
    const auto end = std::to_chars(scratch, scratch + sizeof(scratch), number,
                                   std::chars_format::scientific, digits);
    text = {scratch, static_cast<size_t>(end.ptr - scratch)};
    double read = 0;
    std::from_chars(text.data(), text.data() + text.size(), read);
    return EncodeFloat(type, read) == bits;
  };
  for (int digits = 0; !reads_back(digits) && digits < kDigitsMax;) ++digits;
  AppendScientific(number, text, to);
}

}  // namespace

void AppendJsonDouble(double number, std::string* to) {
  char scratch[40];
  const auto end =
      std::to_chars(scratch, scratch + sizeof(scratch), number, std::chars_format::scientific).ptr;
  AppendScientific(number, {scratch, static_cast<size_t>(end - scratch)}, to);
}

namespace {

void AppendScalar(const JsonNode& node, std::string* to) {
  char digits[24];
  switch (node.type()) {
    case JsonType::kNull:
      to->append("null");
      break;
    case JsonType::kBool:
      to->append(node.AsBool() ? "true" : "false");
      break;
    case JsonType::kInteger: {
      const auto end = node.is_uint()
                           ? std::to_chars(digits, digits + sizeof(digits), node.AsUint()).ptr
                           : std::to_chars(digits, digits + sizeof(digits), node.AsInt()).ptr;
      to->append(digits, end);
      break;
    }
    case JsonType::kNumber:
      if (const auto type = node.float_type()) {
        AppendJsonFloat(*type, node.float_bits(), to);
      } else {
        AppendJsonDouble(node.AsDouble(), to);
      }
      break;
    case JsonType::kString:
      AppendJsonText(node.AsText(), to);
      break;
    case JsonType::kArray:
    case JsonType::kObject:
      break;
  }
}

struct Writer {
  void Begin(const JsonNode& node) {
    to.push_back(node.is_array() ? '[' : '{');
    ++level;
  }
  void End(const JsonNode& node) {
    --level;
    if (is_pretty && node.size() > 0) StartLine();
    to.push_back(node.is_array() ? ']' : '}');
  }
  void Scalar(const JsonNode& node) { AppendScalar(node, &to); }
  void Element(const JsonNode& container, size_t index) {
    if (index > 0) to.push_back(',');
    if (is_pretty) StartLine();
    if (container.is_array()) return;
    AppendJsonText(container.members()[index].name.AsText(), &to);
    to.push_back(':');
    if (is_pretty) to.append(format.space);
  }
  void StartLine() {
    to.append(format.newline);
    for (size_t i = 0; i < level; ++i) to.append(format.indent);
  }

  std::string& to;
  const JsonFormat& format;
  size_t level;
  bool is_pretty;
};

}  // namespace

void AppendJson(const JsonNode& node, const JsonFormat& format, size_t level, std::string* to) {
  const bool is_pretty = !format.indent.empty() || !format.newline.empty() || !format.space.empty();
  Writer writer{*to, format, level, is_pretty};
  WalkJson(node, writer);
}

void AppendJson(const JsonNode& node, std::string* to) { AppendJson(node, {}, 0, to); }

std::string JsonText(const JsonNode& node) {
  std::string text;
  AppendJson(node, &text);
  return text;
}

}  // namespace dfly
