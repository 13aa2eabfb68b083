// SPDX-License-Identifier: Apache-2.0
// JSON documents as text (RFC 8259), read with simdjson. Of the libraries that Debian has it was
// the fastest by far: 0.23 us for a document of 210 bytes, where RapidJSON took 0.70 (with the
// checks that both make; docs/json.md has the table).
//
// Integers of 64 bits stay integers, larger ones become doubles. A double is written as the
// shortest digits that read back as it, with a point or an exponent: 1.0, 0.1, 1e16. Of equal names
// in an object the last one's value counts.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/json/json_doc.h"

namespace dfly {

// `doc`, which is null, becomes what `text` says. Returns why not, or nothing.
[[nodiscard]] std::string ParseJson(std::string_view text, size_t depth_max, JsonDoc* doc);

bool IsUtf8(std::string_view text);

// Pretty printing, as the options of JSON.GET have it. All are empty: no line breaks.
struct JsonFormat {
  std::string_view indent;
  std::string_view newline;
  std::string_view space;
};
void AppendJson(const JsonNode& node, std::string* to);
// `level`: how deep it stands in what is written already.
void AppendJson(const JsonNode& node, const JsonFormat& format, size_t level, std::string* to);
void AppendJsonText(std::string_view text, std::string* to);  // with quotes
void AppendJsonDouble(double number, std::string* to);

std::string JsonText(const JsonNode& node);

}  // namespace dfly
