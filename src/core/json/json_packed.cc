// SPDX-License-Identifier: Apache-2.0
// Packed arrays: FPHA of JSON.SET.
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_doc.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

bool IsPackable(const JsonNode& array) {
  return std::ranges::all_of(array.items(), &JsonNode::is_number) &&
         std::ranges::any_of(array.items(),
                             [](const JsonNode& item) { return item.type() == JsonType::kNumber; });
}

uint64_t BitsAt(const char* number, size_t width) {
  uint64_t bits = 0;
  std::memcpy(&bits, number, width);
  return bits;
}

}  // namespace

JsonFloat JsonNode::packed_type() const {
  DCHECK(is_packed());
  uint32_t type;
  std::memcpy(&type, static_cast<const char*>(block()) + sizeof(uint32_t), sizeof(type));
  return static_cast<JsonFloat>(type);
}

std::string_view JsonNode::packed_bytes() const {
  return {static_cast<const char*>(block()) + 8, size() * FloatBytes(packed_type())};
}

JsonNode JsonNode::PackedItem(size_t index) const {
  DCHECK_LT(index, size());
  const JsonFloat type = packed_type();
  const size_t width = FloatBytes(type);
  char* const number = static_cast<char*>(block()) + 8 + index * width;
  return type == JsonFloat::kFp64 ? Block(kDouble, number) : Float(type, BitsAt(number, width));
}

JsonNode JsonDoc::MakePacked(JsonFloat type, std::string_view bytes) {
  const size_t size = bytes.size() / FloatBytes(type);
  DCHECK(size > 0 && size <= UINT32_MAX && bytes.size() % FloatBytes(type) == 0);
  void* const block = NewBlock(sizeof(Header) + bytes.size());
  const Header header = {static_cast<uint32_t>(size), static_cast<uint32_t>(type)};
  std::memcpy(block, &header, sizeof(header));
  std::memcpy(static_cast<Header*>(block) + 1, bytes.data(), bytes.size());
  return JsonNode::Block(JsonNode::kPacked, block);
}

bool JsonDoc::PackArrays(JsonFloat type) {
  const size_t width = FloatBytes(type);
  std::string bytes;
  const auto pack = [&](JsonNode* array) {
    bytes.clear();
    for (const JsonNode& item : array->items()) {
      const auto bits = EncodeFloat(type, item.AsDouble());
      if (!bits) return false;
      bytes.append(reinterpret_cast<const char*>(&*bits), width);
    }
    Set(array, MakePacked(type, bytes));
    return true;
  };
  std::vector<JsonNode*> todo = {&root_};
  while (!todo.empty()) {
    JsonNode* const node = todo.back();
    todo.pop_back();
    if (node->branches() == 0) continue;
    if (node->is_object()) {
      for (JsonMember& member : node->members()) todo.push_back(&member.value);
    } else if (!IsPackable(*node)) {
      for (JsonNode& item : node->items()) {
        if (item.is_container()) todo.push_back(&item);
      }
    } else if (!pack(node)) {
      return false;
    }
  }
  return true;
}

void JsonDoc::Unpack(JsonNode* array) {
  if (!array->is_packed()) return;
  const size_t size = array->size();
  JsonNode plain = MakeArray(size);
  HeaderOf(plain)->size = static_cast<uint32_t>(size);
  const std::span<JsonNode> items = plain.items();
  for (size_t i = 0; i < size; ++i) {
    const JsonNode item = array->item(i);
    items[i] = item.float_type() ? item : MakeDouble(item.AsDouble());
  }
  Set(array, plain);
}

void JsonDoc::CutPacked(JsonNode* array, size_t size) {
  if (size == 0) return Set(array, JsonNode::EmptyArray());
  HeaderOf(*array)->size = static_cast<uint32_t>(size);
  const size_t room = UsableSize(array->block());
  const bool is_wide = room > 64 && sizeof(Header) + array->packed_bytes().size() < room / 4;
  if (is_wide) Set(array, CopyOf(*array));
}

}  // namespace dfly
