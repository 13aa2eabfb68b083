// SPDX-License-Identifier: Apache-2.0
// What a primary sends before its stream: its answer to PSYNC, and a copy. Whatever the bytes are,
// they are refused with a text, or read; in what pieces they come changes nothing; and of a copy
// comes out what stands between its header and its end.
//
//   input   how (1): bit 0: the answer to PSYNC; bit 1: a copy's checksum is not made right
//           the seed of the pieces (1)
//           what the primary sends
#include "core/text/crc64.h"
#include "helio/base/fuzz_target.h"
#include "server/replication/copy_reader.h"
#include "server/replication/psync_reply.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {
namespace {

using helio::Random;
using Status = CopyReader::Status;

constexpr uint8_t kIsReply = 1;
constexpr uint8_t kIsAsItCame = 2;
constexpr size_t kMarkBytes = 40;
constexpr size_t kChecksumBytes = 8;

void CheckErrorText(const std::string& error) {
  CHECK(!error.empty());
  CHECK_LT(error.size(), 700u) << error;
  for (const char c : error) CHECK(static_cast<uint8_t>(c) >= ' ') << error;
}

void CheckReply(std::string_view line) {
  const PsyncReply reply = ParsePsyncReply(line);
  if (reply.kind == PsyncReply::Kind::kOther) return;
  CHECK(reply.id.empty() || line.find(reply.id) != std::string_view::npos);
  const bool is_full = reply.kind == PsyncReply::Kind::kFullCopy;
  CHECK(!is_full || (reply.offset >= 0 && reply.offset <= PsyncReply::kOffsetMax));
  CHECK(reply.id.size() == kMarkBytes || (reply.id.empty() && !is_full));
  const std::string again = is_full ? fmt::format("+FULLRESYNC {} {}", reply.id, reply.offset)
                                    : fmt::format("+CONTINUE {}", reply.id);
  const PsyncReply reread = ParsePsyncReply(again);
  CHECK(reread.kind == reply.kind && reread.id == reply.id && reread.offset == reply.offset);
}

struct Outcome {
  Status status = Status::kMore;
  std::string rdb;
  size_t taken = 0;
  std::string error;
  uint64_t bytes_total = 0;
  bool has_header = false;
};

Outcome ReadInPieces(std::string_view text, const std::vector<size_t>& sizes) {
  CopyReader reader;
  Outcome outcome;
  size_t at = 0;
  for (size_t i = 0; at < text.size() && outcome.status == Status::kMore; ++i) {
    const std::string_view piece = text.substr(at, sizes[i % sizes.size()]);
    size_t taken = 0;
    outcome.status = reader.Take(piece, &outcome.rdb, &taken);
    CHECK_LE(taken, piece.size());
    if (outcome.status == Status::kMore) CHECK_EQ(taken, piece.size());
    at += taken;
    CHECK_LE(outcome.rdb.size(), at);
  }
  CHECK_EQ(outcome.rdb.size(), reader.bytes_read());
  outcome.taken = at;
  outcome.error = reader.error();
  outcome.bytes_total = reader.bytes_total();
  outcome.has_header = reader.has_header();
  return outcome;
}

// Where the RDB begins, if the text has a header; else 0.
size_t BeginOfRdb(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return 0;
    if (end > at && text.substr(at, end - at) != "\r") return end + 1;
    at = end + 1;
  }
  return 0;
}

// A copy that is read in one piece, looked at the simple way.
void CheckDone(std::string_view text, const Outcome& outcome) {
  const size_t begin = BeginOfRdb(text);
  CHECK_GT(begin, 0u);
  CHECK_EQ(outcome.rdb, text.substr(begin, outcome.rdb.size()));
  size_t end = begin + outcome.rdb.size();
  if (outcome.bytes_total == 0) {
    const size_t header = text.rfind("$EOF:", begin);
    const std::string_view mark = text.substr(header + 5, kMarkBytes);
    CHECK_EQ(text.find(mark, begin), end);
    end += kMarkBytes;
  } else {
    CHECK_EQ(outcome.rdb.size(), outcome.bytes_total);
  }
  CHECK_EQ(outcome.taken, end);
}

// With the checksum that the RDB should have, so that more than refusals is reached.
std::string Mend(std::string text) {
  const size_t begin = BeginOfRdb(text);
  const size_t header = text.rfind("$EOF:", begin);
  if (begin == 0 || header == std::string::npos || begin < header + 5 + kMarkBytes) return text;
  const std::string mark = text.substr(header + 5, kMarkBytes);
  const size_t end = text.find(mark, begin);
  if (end == std::string::npos || end < begin + kChecksumBytes) return text;
  const size_t at = end - kChecksumBytes;
  const uint64_t crc = Crc64(0, std::string_view(text).substr(begin, at - begin));
  for (size_t i = 0; i < kChecksumBytes; ++i) text[at + i] = static_cast<char>(crc >> (8 * i));
  return text;
}

void CheckCopy(const std::string& text, uint64_t seed) {
  const Outcome whole = ReadInPieces(text, {text.size() + 1});
  if (whole.status == Status::kError) CheckErrorText(whole.error);
  if (whole.status == Status::kDone) CheckDone(text, whole);
  Random random(seed);
  std::vector<size_t> sizes;
  for (int i = 0; i < 8; ++i) sizes.push_back(1 + random.Uniform(random.OneIn(2) ? 3 : 90));
  const Outcome pieces = ReadInPieces(text, sizes);
  CHECK(pieces.status == whole.status) << pieces.error << " / " << whole.error;
  CHECK_EQ(pieces.error, whole.error);
  CHECK_EQ(pieces.bytes_total, whole.bytes_total);
  if (whole.status == Status::kError) return;
  CHECK_EQ(pieces.rdb, whole.rdb);
  CHECK_EQ(pieces.taken, whole.taken);
}

void CheckOneInput(std::string_view data) {
  helio::fuzz::Feed feed(data);
  const uint8_t how = feed.Byte();
  const uint8_t seed = feed.Byte();
  if ((how & kIsReply) != 0) return CheckReply(feed.rest());
  std::string text(feed.rest());
  if ((how & kIsAsItCame) == 0) text = Mend(std::move(text));
  CheckCopy(text, seed);
}

// ------------------------------------------------------------------------------------- examples

std::string Digits(Random* random) {
  std::string digits;
  while (digits.size() < kMarkBytes) digits += "0123456789abcdef"[random->Uniform(16)];
  return digits;
}

std::string ExampleReply(Random* random) {
  constexpr uint64_t kOffsets[] = {0, 1, 1234567, 1ull << 62, INT64_MAX, UINT64_MAX};
  switch (random->Uniform(4)) {
    case 0:
      return "+CONTINUE";
    case 1:
      return "+CONTINUE " + Digits(random);
    case 2:
      return fmt::format("+FULLRESYNC {} {}", Digits(random), kOffsets[random->Uniform(6)]);
    default:
      return "-NOMASTERLINK Can't SYNC while not connected with my master";
  }
}

std::string ExampleCopy(Random* random) {
  const std::string mark = Digits(random);
  std::string rdb = "REDIS0010";
  for (uint64_t i = random->Uniform(6); i > 0; --i) {
    // Beginnings of the mark, too, which are not it.
    rdb += random->OneIn(2) ? mark.substr(0, random->Uniform(kMarkBytes))
                            : std::string(random->Uniform(60), static_cast<char>(random->Next()));
  }
  rdb += '\xff';
  const uint64_t crc = random->OneIn(4) ? 0 : Crc64(0, rdb);
  for (size_t i = 0; i < kChecksumBytes; ++i) rdb += static_cast<char>(crc >> (8 * i));
  std::string text(random->Uniform(3), '\n');
  text += random->OneIn(2) ? fmt::format("${}\r\n{}", rdb.size(), rdb)
                           : fmt::format("$EOF:{}\r\n{}{}", mark, rdb, mark);
  if (random->OneIn(2)) text += "*1\r\n$4\r\nPING\r\n";
  return text;
}

std::string MakeExample(Random* random) {
  const bool is_reply = random->OneIn(4);
  std::string data(1, static_cast<char>(is_reply ? kIsReply : random->OneIn(3) ? kIsAsItCame : 0));
  data += static_cast<char>(random->Next());
  return data += is_reply ? ExampleReply(random) : ExampleCopy(random);
}

}  // namespace
}  // namespace dfly

FUZZ_TARGET(PrimaryLinkFuzz, HostilePrimariesAreRefusedOrRead,
            {.check = dfly::CheckOneInput, .make_example = dfly::MakeExample, .rounds = 300'000})
