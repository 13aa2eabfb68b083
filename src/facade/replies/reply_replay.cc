// SPDX-License-Identifier: Apache-2.0
#include "facade/replies/reply_replay.h"

#include <charconv>
#include <cstdint>

#include "helio/base/logging.h"

namespace dfly {

namespace {

int64_t Number(std::string_view line) {
  int64_t value = 0;
  std::from_chars(line.data(), line.data() + line.size(), value);
  return value;
}

}  // namespace

void ReplayReply(std::string_view bytes, ReplySink& sink) {
  while (!bytes.empty()) {
    const size_t end = bytes.find("\r\n");
    CHECK_NE(end, std::string_view::npos) << "no complete reply";
    const char type = bytes[0];
    const std::string_view line = bytes.substr(1, end - 1);
    bytes.remove_prefix(end + 2);
    const auto blob = [&] {
      const auto size = static_cast<size_t>(Number(line));
      const std::string_view text = bytes.substr(0, size);
      bytes.remove_prefix(size + 2);
      return text;
    };
    const auto count = [&] { return static_cast<size_t>(Number(line)); };
    switch (type) {
      case '+':
        sink.Status(line);
        break;
      case '-':
        sink.Error(line);
        break;
      case ':':
        sink.Integer(Number(line));
        break;
      case '$':
        if (line == "-1") {
          sink.Null();
        } else {
          sink.Bulk(blob());
        }
        break;
      case '*':
        if (line == "-1") {
          sink.NullArray();
        } else {
          sink.Array(count());
        }
        break;
      case '_':
        sink.Null();
        break;
      case ',':
        sink.Decimal(line);
        break;
      case '#':
        sink.Bool(line == "t");
        break;
      case '(':
        sink.BigNumber(line);
        break;
      case '=': {
        const std::string_view text = blob();
        sink.Verbatim(text.substr(0, 3), text.substr(4));
        break;
      }
      case '%':
        sink.Map(count());
        break;
      case '~':
        sink.Set(count());
        break;
      case '>':
        sink.Push(count());
        break;
      case '|':
        sink.Attribute(count());
        break;
      default:
        LOG(FATAL) << "no reply: " << type << line;
    }
  }
}

}  // namespace dfly
