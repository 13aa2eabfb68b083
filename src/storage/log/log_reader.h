// SPDX-License-Identifier: Apache-2.0
// Reads one file of an append-only log, command by command.
//
// A file of ours consists of epochs (storage/log/annotations.h). The checksum of an epoch is
// compared before the first of its commands is handed out. Other files have commands, and are
// trusted command by command, as Redis does (shared/journal.md, section 4).
//
// How a file may end that was not finished, because the machine stopped:
//
//   ours    An epoch that is cut off, or whose checksum is wrong, or anything but a line of
//           annotations.h where an epoch could begin: this epoch and all behind it is left out.
//           A good epoch behind it that was written when this one had been synced means that the
//           file was damaged later.
//   others  A command, a MULTI without its EXEC or a '#' line that is cut off. All else is damage.
//
// When Redis has loaded a file of ours it appends commands without epochs to it. Such a file is
// mixed; from there on it is read like others. A part of Redis has to be told from what is left of
// an epoch of which a machine that stopped has kept other sectors than the first. A sector that was
// not written has what was there before: nothing, zeros, or filler. So
//
// * directly behind an epoch, its #TS line included, '*' is the first byte of a part of Redis;
// * behind filler a part of Redis begins where a block ends, as every file with filler does. It
//   begins with SELECT, also inside of a MULTI, and has no filler behind it. An epoch has, unless
//   it is longer than the filler was.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/file_layer.h"
#include "storage/log/annotations.h"

namespace dfly {

// Owner:    who loads; on one thread after the other.
// Suspends: Next.
// Memory:   a window of the file, which grows as far as one command, with all its arguments, needs.
//           Never more than the file has.
// Errors:   error() says what is wrong, and where in the file.
class LogReader {
 public:
  static constexpr size_t kWindow = 512 * 1024;  // bytes

  enum class Item : uint8_t {
    kCommand,    // args(), is_in_multi()
    kEpoch,      // epoch(); its commands are next, and are whole
    kTimestamp,  // timestamp_s()
    kEnd,
    kTorn,    // what is behind whole_size() was not finished; error() says what
    kDamaged  // error(); also if it cannot be read
  };

  // From the offset `begin` on: behind an RDB file that commands follow.
  explicit LogReader(std::unique_ptr<InputFile> file, uint64_t begin = 0, size_t window = kWindow);

  // Where in the stream the first epoch is to begin, if that is known.
  void set_stream_begin(uint64_t offset) { stream_begin_ = offset; }

  // May not be called again after one of the last three.
  Item Next();

  // Instead of Next(), behind kEpoch: the bytes of its commands, piece by piece; none: there are no
  // more, or they cannot be read any more, which Next() will find, too. Valid until the next call.
  std::string_view NextRaw();
  // As if NextRaw had given so many of them.
  void SkipRaw(uint64_t count) { at_ = std::min(at_ + count, epoch_end_); }

  // How the file begins; empty if it is not of ours. After the first Next().
  const LogFileHeader& header() const { return header_; }
  // Valid until the next call.
  std::span<const std::string_view> args() const { return args_; }
  // The command is of a MULTI .. EXEC, or one of these two. Whether there is an EXEC is known only
  // in an epoch.
  bool is_in_multi() const { return is_in_multi_; }
  const EpochHeader& epoch() const { return epoch_; }
  int64_t timestamp_s() const { return timestamp_s_; }

  uint64_t position() const { return position_; }  // of the item, in the file
  uint64_t bytes_read() const { return at_; }      // up to its end
  uint64_t size() const { return size_; }          // of the file
  // The part of the file that is to stay: up to the end of the last epoch, or of the last command
  // that is of no open MULTI. After kEnd less than size() only if filler follows.
  uint64_t whole_size() const { return whole_size_; }
  // It was, as far as it has been read, written by this server, and possibly by Redis after that.
  bool has_epochs() const { return has_epochs_; }
  bool is_mixed() const { return has_epochs_ && has_bare_; }
  // It has commands that are of no epoch.
  bool has_bare() const { return has_bare_; }
  const std::string& error() const { return error_; }

 private:
  enum class Parsed : uint8_t { kOk, kShort, kBad, kFailed };

  Item NextInEpoch();
  // False: it cannot be read.
  bool TakeFileHeader();
  Item NextBare();
  Item BeginEpoch(std::string_view line);
  Item CutOff(std::string_view what);
  // What is at `at_` makes no sense.
  Item Bad(std::string_view what);
  Item Damaged(std::string_view what);

  // Reads a command at at_, which may go up to `limit`.
  Parsed ParseCommand(uint64_t limit);
  // Reads the line at at_ and its end.
  Parsed ReadLine(std::string_view* line);
  // The window is [at_, at_ + n) or more, or all up to `limit` if that is less. False: it cannot be
  // read.
  bool Fetch(uint64_t at, uint64_t count, uint64_t limit);
  std::string_view Window(uint64_t at, uint64_t limit) const;
  bool HasGoodContent(uint64_t at, const EpochHeader& header);
  // Is there an epoch behind `at` that says that what is at `at` was on the device? None: it cannot
  // be read.
  std::optional<bool> WasSynced(uint64_t at);
  std::optional<bool> IsZeros(uint64_t at);
  // The last line of the file, which is longer than `at`.
  std::optional<bool> EndsWithoutFiller(uint64_t at);
  // May commands at `at` be Redis', behind epochs of ours? None: it cannot be read.
  std::optional<bool> MayBeMixed(uint64_t at);
  void FollowMulti();

  const std::unique_ptr<InputFile> file_;
  const uint64_t size_;
  const size_t window_size_;

  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0;
  uint64_t buffer_begin_ = 0;  // in the file
  size_t buffer_size_ = 0;

  uint64_t at_;
  uint64_t position_;
  uint64_t whole_size_;
  std::vector<std::string_view> args_;
  LogFileHeader header_;
  EpochHeader epoch_;
  std::optional<uint64_t> stream_begin_;
  uint64_t epoch_end_ = 0;   // in the file; at_ is before it while the epoch has commands
  uint64_t filler_end_ = 0;  // of the last line since the last epoch; 0: there was none
  int64_t timestamp_s_ = 0;
  bool has_epochs_ = false;
  bool is_ours_ = false;   // it has a line that only this server writes
  bool has_bare_ = false;  // commands that are of no epoch
  bool is_in_multi_ = false;
  bool is_multi_open_ = false;
  std::string error_;
};

}  // namespace dfly
