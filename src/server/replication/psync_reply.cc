// SPDX-License-Identifier: Apache-2.0
#include "server/replication/psync_reply.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/text/numbers.h"
#include "server/replication/replication_ids.h"

namespace dfly {

namespace {

constexpr size_t kWordsMax = 4;  // one more than there may be

struct Words {
  std::array<std::string_view, kWordsMax> at;
  size_t count = 0;
};

Words WordsOf(std::string_view line) {
  Words words;
  while (!line.empty() && words.count < kWordsMax) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.at[words.count++] = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

bool IsId(std::string_view text) {
  return text.size() == ReplicationIds::kSize && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

}  // namespace

PsyncReply ParsePsyncReply(std::string_view line) {
  const Words words = WordsOf(line);
  PsyncReply reply;
  if (words.count > 1) reply.id = words.at[1];
  if (words.at[0] == "+CONTINUE") {
    if (words.count <= 2 && (reply.id.empty() || IsId(reply.id))) {
      reply.kind = PsyncReply::Kind::kContinue;
    }
  } else if (words.at[0] == "+FULLRESYNC" && words.count == 3 && IsId(reply.id)) {
    const std::optional<int64_t> offset = ParseInt64(words.at[2]);
    if (offset && *offset >= 0 && *offset <= PsyncReply::kOffsetMax) {
      reply.kind = PsyncReply::Kind::kFullCopy;
      reply.offset = *offset;
    }
  }
  return reply;
}

}  // namespace dfly
