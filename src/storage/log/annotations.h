// SPDX-License-Identifier: Apache-2.0
// Lines of the append-only log that are no commands. Redis 7 and Valkey skip lines that begin with
// '#' where a command could begin (shared/journal.md, section 4), so logs of ours load there.
//
//   #DRAGONFLY:1\r\n       the first line of a file of ours, synced when the file is made
//   #STREAM:<id> <offset> <database>\r\n    the second one, if the file is a part of a replication
//                          stream: its epochs begin there. SELECT of that database follows, which
//                          is not of the stream; -1: none, as the first epoch has its own
//   #EPOCH:<number> <stream offset> <bytes> <unsynced> <checksum>\r\n    in front of each epoch
//   #TS:<seconds>\r\n       Redis' own; in front of an epoch
//   #......\r\n            filler: written ahead, or up to a block's end
//
// An epoch is `bytes` bytes of commands behind its line. The stream is the log without its '#'
// lines, and the stream offset says how many bytes of it are before the epoch. The last `unsynced`
// of those were possibly not on the device when the epoch was written: with --appendfsync=everysec
// a machine that stops may keep an epoch and lose one before it. The checksum is the CRC-32C of the
// line up to and with the blank before the checksum, and of the commands; it has 8 hex digits.
// Other numbers are decimal, without leading zeros.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dfly {

// Redis reads a line into so many bytes; one that has no end by then is no annotation.
inline constexpr size_t kAnnotationMax = 1024;

// By it a reader knows that a file whose first append was torn is not of Redis.
inline constexpr std::string_view kFileMark = "#DRAGONFLY:1\r\n";

// What a file of ours begins with.
struct LogFileHeader {
  size_t size = 0;             // bytes, with SELECT
  std::string stream_id = {};  // empty: of no replication stream
  uint64_t stream_offset = 0;
  int db_index = -1;  // that is selected behind it; -1: none
};

inline constexpr size_t kLogFileHeaderMax = 192;
std::string WriteLogFileHeader(std::string_view stream_id, uint64_t stream_offset, int db_index);
// `text` is how a file begins: kLogFileHeaderMax bytes, or all it has. None: it is not of ours. A
// second line that makes no sense is left out.
std::optional<LogFileHeader> ParseLogFileHeader(std::string_view text);

struct EpochHeader {
  uint64_t number = 0;
  uint64_t stream_offset = 0;  // bytes
  uint64_t bytes = 0;          // of commands behind the line
  uint64_t unsynced = 0;       // bytes of the stream before the epoch
  uint32_t crc = 0;            // as the line has it
  uint32_t line_crc = 0;       // of the part of the line that it covers; the commands are to follow

  uint64_t stream_end() const { return stream_offset + bytes; }
  // The stream was on the device up to there.
  uint64_t synced_end() const { return stream_offset - unsynced; }
  bool operator==(const EpochHeader&) const = default;
};

inline constexpr size_t kEpochHeaderMax = 7 + 4 * (20 + 1) + 8 + 2;
// The line of an epoch whose commands are `pieces`, one after the other. `buffer` has room for
// kEpochHeaderMax bytes; the text is in it. REQUIRES: unsynced <= stream_offset.
std::string_view WriteEpochHeader(uint64_t number, uint64_t stream_offset,
                                  std::span<const std::string_view> pieces, char* buffer,
                                  uint64_t unsynced = 0);
// `line` with its end. None: it is not exactly as above. Says nothing about the commands.
std::optional<EpochHeader> ParseEpochHeader(std::string_view line);

inline constexpr size_t kTimestampMax = 4 + 20 + 2;
// Unix time in seconds. `buffer` has room for kTimestampMax bytes.
std::string_view WriteTimestamp(int64_t seconds, char* buffer);
// `line` with its end, which may be without '\r'.
std::optional<int64_t> ParseTimestamp(std::string_view line);

// WriteFiller (storage/append_file.h) makes filler. `line` with its end, of any length.
bool IsFiller(std::string_view line);

}  // namespace dfly
