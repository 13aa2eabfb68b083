// SPDX-License-Identifier: Apache-2.0
#include "core/rdb/rdb_json.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/json/json_text.h"
#include "core/json/json_walk.h"

namespace dfly {

namespace {

enum class NodeKind : uint8_t {
  kNull,
  kFalse,
  kTrue,
  kInt,
  kUint,
  kDouble,
  kText,
  kArray,
  kObject,
  kPacked,
  kFloat,  // and the others of JsonFloat
  kFloatEnd = kFloat + 3,
};
constexpr size_t kNumberBytes = 8;
// Room for elements is made for so many at a time: their number may be a lie.
constexpr size_t kRoomMax = 1 << 12;

struct JsonNodeWriter {
  void Begin(const JsonNode& node) {
    Kind(node.is_array() ? NodeKind::kArray : NodeKind::kObject);
    writer.Length(node.size());
  }
  void End(const JsonNode&) {}
  void Packed(const JsonNode& node) {
    Kind(NodeKind::kPacked);
    writer.Byte(static_cast<uint8_t>(node.packed_type()));
    writer.String(node.packed_bytes());
  }
  void Element(const JsonNode& container, size_t index) {
    if (container.is_object()) Scalar(container.members()[index].name);
  }
  void Scalar(const JsonNode& node) {
    switch (node.type()) {
      case JsonType::kBool:
        return Kind(node.AsBool() ? NodeKind::kTrue : NodeKind::kFalse);
      case JsonType::kInteger:
        Kind(node.is_uint() ? NodeKind::kUint : NodeKind::kInt);
        return writer.Little(node.AsUint(), kNumberBytes);
      case JsonType::kNumber:
        if (const auto type = node.float_type()) {
          writer.Byte(static_cast<uint8_t>(NodeKind::kFloat) + static_cast<uint8_t>(*type));
          return writer.Little(node.float_bits(), FloatBytes(*type));
        }
        Kind(NodeKind::kDouble);
        return writer.Double(node.AsDouble());
      case JsonType::kString:
        Kind(NodeKind::kText);
        return writer.String(node.AsText());
      default:
        return Kind(NodeKind::kNull);
    }
  }
  void Kind(NodeKind kind) { writer.Byte(static_cast<uint8_t>(kind)); }

  RdbWriter& writer;
};

// None: it is another kind.
std::optional<JsonFloat> FloatOf(uint8_t kind) {
  constexpr auto kFirst = static_cast<uint8_t>(NodeKind::kFloat);
  if (kind < kFirst || kind >= static_cast<uint8_t>(NodeKind::kFloatEnd)) return std::nullopt;
  return static_cast<JsonFloat>(kind - kFirst);
}

class JsonNodeReader {
 public:
  JsonNodeReader(RdbReader* reader, JsonDoc* doc) : reader_(*reader), doc_(*doc) {}

  bool Read() {
    if (!ReadNode(doc_.mutable_root())) return false;
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (frame.left == 0) {
        frames_.pop_back();
        continue;
      }
      --frame.left;
      JsonNode* to;
      if (frame.container->is_array()) {
        doc_.Append(frame.container, JsonNode());
        to = &frame.container->items().back();
      } else {
        if (reader_.Byte() != static_cast<uint8_t>(NodeKind::kText)) return false;
        const auto name = Text();
        const size_t size = frame.container->size();
        if (!name) return false;
        to = doc_.FindOrAdd(frame.container, *name);
        if (frame.container->size() == size) return false;  // twice
      }
      if (!ReadNode(to)) return false;
    }
    return true;
  }

 private:
  struct Frame {
    JsonNode* container;
    uint64_t left;
  };

  std::optional<std::string_view> Text() {
    const auto text = reader_.String();
    return text && IsUtf8(*text) ? text : std::nullopt;
  }

  bool ReadNode(JsonNode* to) {
    const auto kind = reader_.Byte();
    if (!kind) return false;
    switch (static_cast<NodeKind>(*kind)) {
      case NodeKind::kNull:
        return true;
      case NodeKind::kFalse:
      case NodeKind::kTrue:
        *to = JsonNode::Bool(static_cast<NodeKind>(*kind) == NodeKind::kTrue);
        return true;
      case NodeKind::kInt:
      case NodeKind::kUint: {
        const auto number = reader_.Little(kNumberBytes);
        if (!number) return false;
        *to = static_cast<NodeKind>(*kind) == NodeKind::kInt
                  ? doc_.MakeInt(static_cast<int64_t>(*number))
                  : doc_.MakeUint(*number);
        return true;
      }
      case NodeKind::kDouble: {
        const auto number = reader_.Double();
        if (!number || !std::isfinite(*number)) return false;
        *to = doc_.MakeDouble(*number);
        return true;
      }
      case NodeKind::kText: {
        const auto text = Text();
        if (!text) return false;
        *to = doc_.MakeText(*text);
        return true;
      }
      case NodeKind::kArray:
      case NodeKind::kObject: {
        const auto count = reader_.Count();
        if (!count || frames_.size() == JsonDoc::kDepthMax) return false;
        const size_t room = std::min<size_t>(*count, kRoomMax);
        *to = static_cast<NodeKind>(*kind) == NodeKind::kArray ? doc_.MakeArray(room)
                                                               : doc_.MakeObject(room);
        if (*count > 0) frames_.push_back({to, *count});
        return true;
      }
      case NodeKind::kPacked:
        return frames_.size() < JsonDoc::kDepthMax && ReadPacked(to);
      default:
        return ReadFloat(*kind, to);
    }
  }

  bool ReadFloat(uint8_t kind, JsonNode* to) {
    const auto type = FloatOf(kind);
    const auto bits = type ? reader_.Little(FloatBytes(*type)) : std::nullopt;
    if (!bits || !std::isfinite(DecodeFloat(*type, *bits))) return false;
    *to = JsonNode::Float(*type, *bits);
    return true;
  }

  bool ReadPacked(JsonNode* to) {
    const auto type = reader_.Byte();
    if (!type || *type >= kJsonFloats) return false;
    const auto bytes = reader_.String();
    if (!bytes || bytes->empty() || bytes->size() % FloatBytes(JsonFloat{*type}) != 0) return false;
    *to = doc_.MakePacked(JsonFloat{*type}, *bytes);
    for (size_t i = 0; i < to->size(); ++i) {
      if (!std::isfinite(to->item(i).AsDouble())) return false;
    }
    return true;
  }

  RdbReader& reader_;
  JsonDoc& doc_;
  absl::InlinedVector<Frame, 16> frames_;
};

}  // namespace

void WriteRdbJson(const JsonDoc& doc, RdbWriter* writer) {
  JsonNodeWriter nodes{*writer};
  WalkJson(doc.root(), nodes);
}

std::unique_ptr<JsonDoc> ReadRdbJson(RdbReader* reader) {
  auto doc = std::make_unique<JsonDoc>();
  if (!JsonNodeReader(reader, doc.get()).Read()) return nullptr;
  return doc;
}

bool SkipRdbJson(RdbReader* reader) {
  for (uint64_t left = 1; left > 0; --left) {
    const auto kind = reader->Byte();
    if (!kind) return false;
    switch (static_cast<NodeKind>(*kind)) {
      case NodeKind::kNull:
      case NodeKind::kFalse:
      case NodeKind::kTrue:
        break;
      case NodeKind::kInt:
      case NodeKind::kUint:
      case NodeKind::kDouble:
        if (!reader->Skip(kNumberBytes)) return false;
        break;
      case NodeKind::kText:
        if (!reader->SkipString()) return false;
        break;
      case NodeKind::kArray:
      case NodeKind::kObject: {
        const auto count = reader->Count();
        if (!count || *count > UINT32_MAX) return false;
        left += static_cast<NodeKind>(*kind) == NodeKind::kArray ? *count : 2 * *count;
        break;
      }
      case NodeKind::kPacked: {
        const auto type = reader->Byte();
        if (!type || *type >= kJsonFloats || !reader->SkipString()) return false;
        break;
      }
      default: {
        const auto type = FloatOf(*kind);
        if (!type || !reader->Skip(FloatBytes(*type))) return false;
      }
    }
  }
  return true;
}

}  // namespace dfly
