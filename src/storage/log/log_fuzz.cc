// SPDX-License-Identifier: Apache-2.0
// Manifests and files of append-only logs: whatever the bytes are, they are refused with a text, or
// read. A manifest is the same when it was written again. A file that was torn has the same
// commands when it was cut as the reader says, and is not torn then. The window changes nothing.
//
//   input   how (1): bit 0: a manifest; bit 1: checksums of epochs are made right
//           the bytes of the file
#include "helio/base/fuzz_target.h"
#include "storage/log/log_reader.h"
#include "storage/log/log_testing.h"
#include "storage/log/manifest.h"
#include "storage/memory_files.h"

#include <gtest/gtest.h>

namespace dfly {
namespace {

using helio::Random;
using Item = LogReader::Item;

constexpr uint8_t kIsManifest = 1;
constexpr uint8_t kIsMended = 2;

void CheckErrorText(const std::string& error) {
  CHECK(!error.empty());
  CHECK_LT(error.size(), 400u) << error;
  for (const char c : error) CHECK(c >= ' ' && c <= '~') << error;
}

void CheckManifest(std::string_view text) {
  Manifest manifest, again;
  const std::string error = ParseManifest(text, &manifest);
  if (!error.empty()) return CheckErrorText(error);
  CHECK_EQ(ParseManifest(FormatManifest(manifest), &again), "");
  CHECK(manifest == again) << FormatManifest(manifest);
}

struct Outcome {
  std::vector<testkit::Words> commands;
  Item last = Item::kEnd;
  uint64_t whole_size = 0;
  std::string error;

  bool operator==(const Outcome&) const = default;
};

Outcome Read(const std::string& text, size_t window) {
  MemoryFiles files;
  files.files["f"] = text;
  std::unique_ptr<InputFile> file;
  CHECK(!files.Open("f", &file));
  LogReader reader(std::move(file), 0, window);
  Outcome outcome;
  bool is_in_multi = false;
  size_t whole_commands = 0;  // of no open MULTI
  for (uint64_t end = 0;;) {
    outcome.last = reader.Next();
    CHECK_LE(end, reader.position());
    if (outcome.last >= Item::kEnd) break;
    end = reader.bytes_read();
    CHECK_LE(reader.position(), end);
    CHECK_LE(end, text.size());
    if (outcome.last != Item::kCommand) continue;
    outcome.commands.emplace_back(reader.args().begin(), reader.args().end());
    is_in_multi = reader.is_in_multi();
    if (reader.whole_size() >= end) whole_commands = outcome.commands.size();
    CHECK(reader.whole_size() >= end || is_in_multi);
  }
  outcome.whole_size = reader.whole_size();
  CHECK_LE(outcome.whole_size, text.size());
  outcome.error = reader.error();
  if (outcome.last != Item::kEnd) CheckErrorText(outcome.error);
  // What was of an open MULTI is taken back.
  if (outcome.last == Item::kTorn) outcome.commands.resize(whole_commands);
  return outcome;
}

// With the checksums that epochs should have, as far as lines look like those of epochs.
std::string Mend(std::string text) {
  constexpr std::string_view kMark = "#EPOCH:";
  for (size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at + 1)) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    const auto header = ParseEpochHeader(std::string_view(text).substr(at, end + 1 - at));
    if (!header || header->bytes > text.size() - end - 1) continue;
    const std::string mended =
        testkit::EpochText(header->number, header->stream_offset,
                           std::string_view(text).substr(end + 1, header->bytes), header->unsynced);
    text.replace(at, mended.size(), mended);
  }
  return text;
}

void CheckOneInput(std::string_view data) {
  const auto how = static_cast<uint8_t>(data.empty() ? 0 : data[0]);
  std::string bytes(data.substr(std::min<size_t>(1, data.size())));
  if ((how & kIsManifest) != 0) return CheckManifest(bytes);
  if ((how & kIsMended) != 0) bytes = Mend(std::move(bytes));
  Outcome outcome = Read(bytes, LogReader::kWindow);
  CHECK(Read(bytes, kAnnotationMax) == outcome);
  if (outcome.last != Item::kTorn) return;
  const Outcome cut = Read(bytes.substr(0, outcome.whole_size), LogReader::kWindow);
  CHECK(cut.last == Item::kEnd) << cut.error;
  CHECK_EQ(cut.whole_size, outcome.whole_size);
  CHECK(cut.commands == outcome.commands);
}

// ------------------------------------------------------------------------------------- examples

std::string ExampleManifest(Random* random) {
  Manifest manifest;
  const auto file = [random](uint64_t seq) {
    constexpr const char* kNames[] = {"appendonly.aof.1.incr.aof", "a b", "q\"", "\x01", "#"};
    return ManifestFile{.name = kNames[random->Uniform(5)], .seq = seq};
  };
  if (random->OneIn(2)) manifest.base = file(1 + random->Uniform(9));
  for (uint64_t i = random->Uniform(3); i > 0; --i) manifest.history.push_back(file(i));
  uint64_t seq = 0;
  for (uint64_t i = random->Uniform(4); i > 0; --i) {
    manifest.incrementals.push_back(file(seq += 1 + random->Uniform(3)));
    if (random->OneIn(2)) manifest.incrementals.back().start_offset = seq;
  }
  return FormatManifest(manifest);
}

std::string ExampleLog(Random* random) {
  std::string text;
  if (random->OneIn(2)) text += kFileMark;
  const uint64_t epochs = random->Uniform(4);
  uint64_t offset = random->Uniform(1000);
  const auto units = [random] {
    std::string content;
    for (uint64_t i = random->Uniform(4); i > 0; --i) {
      for (const testkit::Words& words : testkit::RandomUnit(random)) {
        content += testkit::CommandText(words);
      }
    }
    return content;
  };
  for (uint64_t i = 1; i <= epochs; ++i) {
    if (random->OneIn(3)) text += "#TS:1700000000\r\n";
    const std::string content = units();
    text +=
        testkit::EpochText(i, offset, content, random->Uniform(std::min<uint64_t>(offset, 30) + 1));
    offset += content.size();
  }
  if (random->OneIn(3)) text += "#" + std::string(random->Uniform(80), '.') + "\r\n";
  if (epochs == 0 || random->OneIn(3)) text += units();
  return text;
}

std::string MakeExample(Random* random) {
  const bool is_manifest = random->OneIn(3);
  const uint8_t how = is_manifest ? kIsManifest : random->OneIn(2) ? kIsMended : 0;
  std::string data(1, static_cast<char>(how));
  return data += is_manifest ? ExampleManifest(random) : ExampleLog(random);
}

}  // namespace
}  // namespace dfly

FUZZ_TARGET(LogFuzz, HostileLogsAreRefusedOrRead,
            {.check = dfly::CheckOneInput, .make_example = dfly::MakeExample, .rounds = 60'000})
