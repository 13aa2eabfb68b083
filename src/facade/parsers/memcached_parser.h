// SPDX-License-Identifier: Apache-2.0
// Requests of memcached's text protocol, the meta commands included.
//
// One that fetches several keys (get a b c) is handed out as one command for each key, and one for
// its end: each goes to its key's shard as commands of a pipeline do, and a line of any length
// needs no more of the connection than its keys one by one.
//
// What is wrong with a line is told as the command kError, so that it is answered in its turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

enum class MemcachedOp : uint8_t {
  kGet,   // name key
  kGets,  // the same, with the cas unique
  kGat,   // name key exptime
  kGats,
  kEnd,  // of those: name
  kSet,  // name key flags exptime data [noreply]
  kAdd,
  kReplace,
  kAppend,
  kPrepend,
  kCas,       // name key flags exptime data unique [noreply]
  kTooLarge,  // the same, but the data is left out: name key verb [noreply]
  kIncr,      // name key delta [noreply]
  kDecr,
  kDelete,          // name key [noreply]
  kTouch,           // name key exptime [noreply]
  kMetaGet,         // name key flag ...
  kMetaGetOrMake,   // the same, with a flag that may change the item
  kMetaSet,         // name key data flag ...
  kMetaDelete,      // name key flag ...
  kMetaArithmetic,  // name key flag ...
  kMetaDebug,       // name key flag ...
  kMetaNoop,
  kFlushAll,  // name [delay] [noreply]
  kStats,     // name [what]
  kVersion,
  kVerbosity,  // name level [noreply]
  kQuit,
  kAuth,   // name data: a set, before the client has authenticated
  kError,  // name text: the line, or "" if the client asked for silence
  kCount
};

// Owner:    one connection, on its thread.
// Suspends: never.
class MemcachedParser {
 public:
  static constexpr size_t kKeyMax = 250;
  static constexpr size_t kLineMax = 2048;  // of what does not fetch
  static constexpr size_t kAuthMax = 1024;  // bytes of a user and a password

  struct Limits {
    size_t value_bytes_max = 1 << 20;  // a larger one is refused and skipped
    size_t line_bytes_max = 1 << 20;   // of get, gets, gat, gats
  };

  enum class Status : uint8_t { kNeedMore, kCommand, kError };

  explicit MemcachedParser(const Limits& limits) : limits_(limits) {}

  // Looks at `data`, which begins where the last Parse or Take has ended.
  //   kNeedMore: consumed() bytes are done with; the same data again, and more, the next time
  //   kCommand:  op() and args(), views into `data`; the command is parsed again until Take
  //   kError:    the stream makes no sense any more, as error() says
  Status Parse(std::string_view data);
  // The command was taken. Returns how many bytes of `data` it had.
  size_t Take();

  size_t consumed() const { return consumed_; }
  MemcachedOp op() const { return op_; }
  std::span<const std::string_view> args() const { return args_; }
  std::string_view error() const { return error_; }
  // Some of args() are the parser's own, and live until the next Parse.
  bool holds_args() const { return holds_args_; }
  // A command has arrived in part; so many bytes of it are still to come, at least.
  bool in_command() const { return in_command_; }
  size_t needed() const { return needed_; }

  void set_authenticated(bool authenticated) { authenticated_ = authenticated; }
  size_t memory_used() const;
  // Frees what is kept for reuse.
  void Release();

 private:
  Status ParseNext(std::string_view data);
  Status ParseLine(std::string_view line, size_t line_size, std::string_view data);
  Status NeedMore(size_t consumed, size_t needed);
  Status NextKey(std::string_view data);
  Status BeginFetch(MemcachedOp op, std::string_view data, size_t line_size);
  Status Store(MemcachedOp op, std::string_view data, size_t line_size);
  Status MetaSet(std::string_view data, size_t line_size);
  Status Meta(MemcachedOp op, size_t line_size);
  Status Delta(MemcachedOp op, size_t line_size);
  Status Plain(MemcachedOp op, size_t line_size);
  Status Fail(std::string_view text, size_t line_size, size_t skipped = 0);
  // The data block behind a line; of no memory if it does not end as it should. False: not all is
  // here.
  bool FindBlock(std::string_view data, size_t line_size, size_t size, std::string_view* block);
  bool DecodeKey();
  Status Accept(MemcachedOp op, size_t size);
  bool EndsWithNoreply() const;

  const Limits limits_;
  bool authenticated_ = true;
  MemcachedOp op_ = MemcachedOp::kError;
  std::vector<std::string_view> args_;
  std::vector<std::string_view> words_;  // of the line
  std::string decoded_;                  // a key that came in base64
  std::string exptime_;                  // of the gat whose keys come
  std::string_view error_;
  size_t consumed_ = 0;
  size_t taken_ = 0;  // by the command that was parsed
  size_t needed_ = 0;
  size_t wanted_ = 0;      // with less than so many bytes nothing new can be said
  size_t scanned_ = 0;     // without the end of a line
  size_t skip_ = 0;        // bytes of a block that nobody wants
  size_t skip_after_ = 0;  // the same, behind the command that was parsed
  bool holds_args_ = false;
  bool in_command_ = false;
  bool fetches_ = false;  // the rest of a line has keys, for fetch_op_
  bool fetches_next_ = false;
  MemcachedOp fetch_op_ = MemcachedOp::kGet;
};

}  // namespace dfly
