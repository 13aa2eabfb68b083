// SPDX-License-Identifier: Apache-2.0
#include "facade/replies/resp_reader.h"

#include <algorithm>
#include <cstring>

namespace dfly {
namespace {

constexpr int64_t kCountMax = int64_t{1} << 40;  // of bytes or values; keeps every sum in range

bool ParseCount(const char* p, const char* end, int64_t* value) {
  if (end - p == 1 && *p >= '0' && *p <= '9') {
    *value = *p - '0';
    return true;
  }
  if (end - p == 2 && p[0] == '-' && p[1] == '1') {
    *value = -1;
    return true;
  }
  if (p == end || end - p > 13) return false;
  int64_t result = 0;
  for (; p < end; p++) {
    if (*p < '0' || *p > '9') return false;
    result = result * 10 + (*p - '0');
  }
  *value = result;
  return result <= kCountMax;
}

// What the type byte says.
enum class Shape : uint8_t { kLine, kBlob, kAggregate, kAttribute, kUnknown };

struct Type {
  Shape shape;
  ReplyKind kind;
  uint8_t per_count;  // values for each unit of an aggregate's count
};

Type TypeOf(char c) {
  switch (c) {
    case '+':
      return {Shape::kLine, ReplyKind::kStatus, 0};
    case '-':
      return {Shape::kLine, ReplyKind::kError, 0};
    case ':':
      return {Shape::kLine, ReplyKind::kInteger, 0};
    case '_':
      return {Shape::kLine, ReplyKind::kNull, 0};
    case ',':
      return {Shape::kLine, ReplyKind::kDouble, 0};
    case '#':
      return {Shape::kLine, ReplyKind::kBool, 0};
    case '(':
      return {Shape::kLine, ReplyKind::kBigNumber, 0};
    case '$':
      return {Shape::kBlob, ReplyKind::kBulk, 0};
    case '!':
      return {Shape::kBlob, ReplyKind::kError, 0};
    case '=':
      return {Shape::kBlob, ReplyKind::kVerbatim, 0};
    case '*':
      return {Shape::kAggregate, ReplyKind::kArray, 1};
    case '%':
      return {Shape::kAggregate, ReplyKind::kMap, 2};
    case '~':
      return {Shape::kAggregate, ReplyKind::kSet, 1};
    case '>':
      return {Shape::kAggregate, ReplyKind::kPush, 1};
    case '|':
      return {Shape::kAttribute, ReplyKind::kMap, 2};
    default:
      return {Shape::kUnknown, ReplyKind::kNull, 0};
  }
}

}  // namespace

RespReader::Status RespReader::Parse(std::string_view input) {
  const char* const begin = input.data();
  const char* const end = begin + input.size();
  consumed_ = 0;
  while (true) {
    const char* const p = begin + offset_;
    const Type type = p < end ? TypeOf(*p) : Type{Shape::kLine, ReplyKind::kNull, 0};
    if (type.shape == Shape::kUnknown) return Fail("unknown reply type");
    const char* const from = std::max(p, begin + scanned_);
    const char* const cr =
        from < end ? static_cast<const char*>(memchr(from, '\r', static_cast<size_t>(end - from)))
                   : nullptr;
    if (cr == nullptr || end - cr < 2) {
      scanned_ = static_cast<size_t>((cr == nullptr ? end : cr) - begin);
      return Status::kNeedMore;
    }
    if (cr[1] != '\n') return Fail("CR without LF");

    const char* next = cr + 2;
    ReplyKind kind = type.kind;
    size_t items = 0;
    std::string_view text;
    if (type.shape == Shape::kLine) {
      text = {p + 1, static_cast<size_t>(cr - p - 1)};
    } else {
      int64_t count = 0;
      if (!ParseCount(p + 1, cr, &count)) return Fail("bad length");
      if (count < 0) {
        if (*p != '$' && *p != '*') return Fail("bad length");
        kind = ReplyKind::kNull;
      } else if (type.shape == Shape::kBlob) {
        if (end - next < count + 2) {
          scanned_ = static_cast<size_t>(cr - begin);  // the header is looked at again, no more
          return Status::kNeedMore;
        }
        if (next[count] != '\r' || next[count + 1] != '\n') return Fail("blob without CR LF");
        text = {next, static_cast<size_t>(count)};
        next += count + 2;
      } else {
        items = static_cast<size_t>(count) * type.per_count;
      }
    }

    // The outermost value is the first one that is not inside of an attribute.
    if (!started_ && left_ == 1 && type.shape != Shape::kAttribute) {
      started_ = true;
      kind_ = kind;
      items_ = items;
      text_offset_ = static_cast<size_t>(text.data() == nullptr ? 0 : text.data() - begin);
      text_size_ = text.size();
    }
    if (items > static_cast<uint64_t>(kCountMax) * 4 - left_) return Fail("too many values");
    left_ += items;
    if (type.shape != Shape::kAttribute) left_--;
    offset_ = static_cast<size_t>(next - begin);
    if (left_ == 0) {
      consumed_ = offset_;
      text_ = input.substr(text_offset_, text_size_);
      offset_ = scanned_ = 0;
      left_ = 1;
      started_ = false;
      return Status::kReply;
    }
  }
}

namespace {

// Moves `*p` behind the value and returns true, or returns false.
bool ReadTree(const char** p, const char* end, int depth, RespValue* value) {
  constexpr int kDepthMax = 200;
  if (depth > kDepthMax || *p == end) return false;
  const char* const start = *p;
  const Type type = TypeOf(*start);
  if (type.shape == Shape::kUnknown) return false;
  const void* found = memchr(start, '\r', static_cast<size_t>(end - start));
  if (found == nullptr) return false;
  const char* const cr = static_cast<const char*>(found);
  if (end - cr < 2) return false;
  *p = cr + 2;
  *value = RespValue();
  value->kind = type.kind;
  if (type.shape == Shape::kLine) {
    value->text.assign(start + 1, cr);
    return true;
  }
  int64_t count = 0;
  if (!ParseCount(start + 1, cr, &count)) return false;
  if (count < 0) {
    value->kind = ReplyKind::kNull;
    return true;
  }
  if (type.shape == Shape::kBlob) {
    if (end - *p < count + 2) return false;
    value->text.assign(*p, static_cast<size_t>(count));
    *p += count + 2;
    return true;
  }
  for (int64_t i = 0; i < count * type.per_count; i++) {
    value->items.emplace_back();
    if (!ReadTree(p, end, depth + 1, &value->items.back())) return false;
  }
  return type.shape == Shape::kAttribute ? ReadTree(p, end, depth + 1, value) : true;
}

}  // namespace

size_t ReadRespValue(std::string_view input, RespValue* value) {
  const char* p = input.data();
  if (!ReadTree(&p, input.data() + input.size(), 0, value)) return 0;
  return static_cast<size_t>(p - input.data());
}

std::string RespValue::ToString() const {
  auto list = [this](std::string_view open, std::string_view close) {
    std::string out(open);
    for (size_t i = 0; i < items.size(); i++) {
      if (i > 0) out += kind == ReplyKind::kMap && i % 2 == 1 ? ": " : ", ";
      out += items[i].ToString();
    }
    return out += close;
  };
  switch (kind) {
    case ReplyKind::kStatus:
      return "+" + text;
    case ReplyKind::kError:
      return "-" + text;
    case ReplyKind::kInteger:
      return ":" + text;
    case ReplyKind::kBulk:
      return '"' + text + '"';
    case ReplyKind::kNull:
      return "(nil)";
    case ReplyKind::kDouble:
      return "," + text;
    case ReplyKind::kBool:
      return "#" + text;
    case ReplyKind::kBigNumber:
      return "(" + text;
    case ReplyKind::kVerbatim:
      return "=\"" + text + '"';
    case ReplyKind::kArray:
      return list("[", "]");
    case ReplyKind::kMap:
      return list("{", "}");
    case ReplyKind::kSet:
      return list("~[", "]");
    case ReplyKind::kPush:
      return list(">[", "]");
  }
  return "?";
}

}  // namespace dfly
