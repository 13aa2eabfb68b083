// SPDX-License-Identifier: Apache-2.0
// What commands there are, and all that is known about each: one row is the only truth for its
// arity, flags and keys.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/args.h"
#include "core/text/numbers.h"
#include "engine/keyspace/effects.h"
#include "engine/queue/lock_table.h"
#include "facade/replies/reply_sink.h"

namespace dfly {

class CommandClient;
class CompactValue;
class CoordinatorContext;
struct BlockingForm;
class ShardContext;

// Runs on the shard that owns every key of the command. Never suspends.
using ShardHandler = void (*)(ShardContext& cx, Args args, ReplySink& reply);
// Runs on a fiber of the connection's thread; may hop to shards and wait.
using CoordinatorHandler = void (*)(CoordinatorContext& cx, Args args, ReplySink& reply);
// Runs at once on the connection's thread and touches no keys. Never suspends.
using SessionHandler = void (*)(CommandClient& client, Args args, ReplySink& reply);

// The same without a client; on any thread. Never suspends.
using ScriptedHandler = void (*)(Args args, ReplySink& reply);
// What needs no client, as a SessionHandler.
template <ScriptedHandler kHandler>
void ForClient(CommandClient&, Args args, ReplySink& reply) {
  kHandler(args, reply);
}

enum CommandFlag : uint32_t {
  kWrite = 1 << 0,
  kReadonly = 1 << 1,
  kDenyOom = 1 << 2,
  kAdmin = 1 << 3,
  kFast = 1 << 4,
  kNoScript = 1 << 5,
  kBlocking = 1 << 6,
  kLoading = 1 << 7,  // allowed while a snapshot is being loaded
  kStale = 1 << 8,
  kNoAuth = 1 << 9,  // allowed before AUTH
  kNoMulti = 1 << 10,
  kPubsub = 1 << 11,
  kSkipMonitor = 1 << 12,
  kSkipSlowlog = 1 << 13,
  kAllowBusy = 1 << 14,
  kMovableKeys = 1 << 15,
  // Ours:
  kBarrier = 1 << 16,         // waits for the replies of the connection's earlier commands
  kRunNow = 1 << 17,          // changes how the next command is taken
  kNotQueued = 1 << 18,       // executed between MULTI and EXEC
  kPushes = 1 << 19,          // its reply is messages, which CLIENT REPLY OFF does not drop
  kSubscribed = 1 << 20,      // allowed to a RESP2 client that is subscribed
  kNoAsyncLoading = 1 << 21,  // refused while a replica loads a copy and serves its old data
  kAdminPort = 1 << 22,       // only for clients of that port (--restricted_commands)
  kMemcached = 1 << 23,  // only for clients of memcached's protocol; others know no such command
  kProtected = 1 << 24,  // only for those whom --enable_debug_command or _module_command allows it
  // As in Redis: it may write, or does what replicas have to hear of. CLIENT PAUSE WRITE holds it,
  // and scripts that only read may not call it. Not in COMMAND INFO.
  kMayReplicate = 1 << 25,
  // Allowed in spite of kNoAsyncLoading, as it ends that load. Not in COMMAND INFO.
  kEndsAsyncLoading = 1 << 26,
};

// ACL categories besides those that follow from flags (@read, @write, @admin, @fast, @slow,
// @blocking, @pubsub).
enum AclCategory : uint32_t {
  kAclKeyspace = 1 << 0,
  kAclString = 1 << 1,
  kAclConnection = 1 << 2,
  kAclDangerous = 1 << 3,
  kAclTransaction = 1 << 4,
  kAclScripting = 1 << 5,
  kAclList = 1 << 6,
  kAclHash = 1 << 7,
  kAclSet = 1 << 8,
  kAclSortedSet = 1 << 9,
  kAclStream = 1 << 10,
  kAclBitmap = 1 << 11,
  kAclHyperLogLog = 1 << 12,
  kAclGeo = 1 << 13,
  kAclAdmin = 1 << 14,  // without being kAdmin
  kAclJson = 1 << 15,
};

// The keys of one call: args[first] up to args[end].
struct KeyRange {
  size_t first;
  size_t end;
};

// Where the keys stand among the arguments, as COMMAND INFO tells it. `last` below 0 counts from
// the end.
struct KeySpec {
  int first = 0;
  int last = 0;
  int step = 0;
  // What happens to them, in the words of COMMAND INFO, between single spaces. Empty: what follows
  // from kReadonly ("RO access") or kWrite ("RW update").
  std::string_view flags = {};
  // Not 0: `last` is unused, and this argument says how many keys there are behind it. A `first`
  // before it is one more key (ZUNIONSTORE).
  int count_at = 0;
  std::string_view second_flags = {};  // of all but the first key, where they are used otherwise
  // Options, in upper case between single spaces, each with a key behind it, and where options
  // begin. The last one that is there counts (GEORADIUS ... STORE key).
  std::string_view options = {};
  int options_from = 0;
  // How many arguments, of which none is an option, stand behind this one. Null: behind none but
  // `options`.
  size_t (*values_behind)(std::string_view argument) = nullptr;
  // Not null: it alone knows; none if there is no key. `first` is then an argument that there
  // always is, and COMMAND INFO tells of keys behind the only one of `options`; as many arguments
  // that are no keys follow them (XREAD ... STREAMS).
  std::optional<KeyRange> (*find)(Args args) = nullptr;
  // Not 0: what this argument names is looked up in the value of the key (the field of HGET).
  int element_at = 0;

  bool has_keys() const { return first > 0; }
};
constexpr KeySpec KeyAt(int position, std::string_view flags = {}) {
  return {position, position, 1, flags};
}
constexpr KeySpec KeysFrom(int first, int step = 1, std::string_view flags = {}) {
  return {first, -1, step, flags};
}
constexpr KeySpec KeyAndElement(int element_at, std::string_view flags = {}) {
  return {.first = 1, .last = 1, .step = 1, .flags = flags, .element_at = element_at};
}
// LMOVE: from the one to the other.
constexpr KeySpec TwoKeys(std::string_view first_flags, std::string_view second_flags) {
  return {1, 2, 1, first_flags, 0, second_flags};
}
// SINTERSTORE: what is written, and all that is read.
constexpr KeySpec TargetAndKeys(std::string_view first_flags, std::string_view second_flags) {
  return {1, -1, 1, first_flags, 0, second_flags};
}
// LMPOP: their number at `position`, and then they.
constexpr KeySpec KeysCountedAt(int position, std::string_view flags = {}) {
  return {position + 1, 0, 1, flags, position};
}

// ZUNIONSTORE: what is written, the number of the others, and they.
constexpr KeySpec TargetAndKeysCounted(std::string_view first_flags,
                                       std::string_view second_flags) {
  return {1, 0, 1, first_flags, 2, second_flags};
}
// GEORADIUS: one, and another one behind one of those options.
constexpr KeySpec KeyAndOption(std::string_view flags, std::string_view options, int options_from,
                               std::string_view option_flags,
                               size_t (*values_behind)(std::string_view argument) = nullptr) {
  return {1, 1, 1, flags, 0, option_flags, options, options_from, values_behind};
}
// XREAD: behind an option, in the first half of the rest.
constexpr KeySpec KeysBehind(std::string_view option, int from,
                             std::optional<KeyRange> (*find)(Args args),
                             std::string_view flags = {}) {
  return {.first = 1,
          .last = 0,
          .step = 1,
          .flags = flags,
          .options = option,
          .options_from = from,
          .find = find};
}

// The indexes of a command's keys among its arguments, each key's of them in the order of the
// specification:  for (size_t i : command.KeysOf(args)) ...
class KeyIndexes {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // `first`, `second`, and then each `step` before `end`; and `last` if it is not kNone.
  KeyIndexes(size_t first, size_t second, size_t end, size_t step, size_t last = kNone)
      : first_(first), second_(second), end_(end), step_(step), last_(last) {}

  size_t first() const { return first_; }

  class Iterator {
   public:
    Iterator(const KeyIndexes& all, size_t at) : all_(all), at_(at) {}
    size_t operator*() const { return at_; }
    Iterator& operator++() {
      at_ = all_.Behind(at_);
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    const KeyIndexes& all_;
    size_t at_;
  };
  Iterator begin() const { return {*this, first_ < end_ ? first_ : kNone}; }
  Iterator end() const { return {*this, kNone}; }

 private:
  size_t Behind(size_t at) const {
    if (at == last_) return kNone;
    const size_t next = at == first_ ? second_ : at + step_;
    return next < end_ ? next : last_;
  }

  size_t first_, second_, end_, step_, last_;
};

// How a command whose keys turn out to be in several shards is made of its forms for one shard.
enum class Spread : uint8_t {
  kNone,         // by `across`, or not at all
  kSumIntegers,  // DEL: run on each shard, add the integers
  kKeepOrder,    // MGET: run on each shard, put the arrays' items in the order of the keys
  kAllOk,        // MSET: run on each shard, one OK
};

// How the replies to the pieces of a command become one. Errors come from the first piece only.
enum class PieceReplies : uint8_t {
  kNone,   // it is never cut
  kSum,    // integers, of which the sum is replied (SADD)
  kLast,   // that of the last piece is the command's (RPUSH)
  kItems,  // arrays, one behind the other (HMGET)
};

// A command with very many arguments runs in pieces: `run` gets what stands before the first item,
// and some of the items, in a hop for each piece (commands/table/pieces.h).
struct Pieces {
  PieceReplies replies = PieceReplies::kNone;
  size_t step = 1;  // arguments of an item: 2 are a field and its value
  // Where the first item is; none if there is an error, which it replies: whatever `run` may find
  // wrong with the arguments, as no piece may fail behind another one. Null: behind the key, and
  // only the number of arguments can be wrong. May suspend.
  std::optional<size_t> (*check)(Args args, ReplySink& reply) = nullptr;
};

struct CommandDocs {
  std::string_view summary;
  std::string_view since;
  std::string_view group;
  std::string_view complexity;
  std::string_view deprecated_since = {};
  std::string_view replaced_by = {};  // in the words of COMMAND DOCS
};

struct Command {
  std::string_view name;  // lower case; static
  // What clients call it: `name`, unless CommandTable::Rename was called. Empty: they cannot.
  std::string called = {};
  ShardHandler run = nullptr;
  CoordinatorHandler across = nullptr;  // its keys are in several shards
  // `across` is for keys in one shard, too, if one of their values is large (but not for what EXEC
  // or a script runs): it works in slices, and others run in between.
  bool slices = false;
  // With `slices`: whether it may need much of such a value. Null: it needs all.
  bool (*asks_for_many)(Args args) = nullptr;
  // Besides, for what only a look at the large value of the key `args[key_at]` can tell: whether it
  // needs much of this one. Cheap: it is called before each such command. Null: it does.
  bool (*takes_many)(const CompactValue& value, Args args, size_t key_at) = nullptr;
  // With `slices`: whether what it is given is much, which alone decides then (RESTORE). Or null.
  bool (*brings_much)(Args args) = nullptr;
  Pieces pieces = {};
  const BlockingForm* blocking = nullptr;  // `run` and `across` are what it does if it cannot wait
  SessionHandler session = nullptr;        // instead of `run`: no keys
  // With `session`: what it does for a script, wherever that runs (TIME). It knows no client.
  ScriptedHandler scripted = nullptr;
  // Instead of `run`: EVAL and its like, which dispatch carries out itself.
  bool runs_script = false;
  CoordinatorHandler coordinate =
      nullptr;  // instead of `run`: no keys, or keys in whatever shard; may wait
  bool needs_script_stack = false;  // with `coordinate`: it runs Lua
  int arity = 0;                    // with the name; negative: at least
  uint32_t flags = 0;
  uint32_t categories = 0;
  EffectRule effect = EffectRule::kOwn;
  KeySpec keys = {};
  // Not 0: `run` is for the shard that this argument hashes to, although it is no key (PUBLISH).
  // Nothing is locked for it.
  int channel_at = 0;
  Spread spread = Spread::kNone;
  // MOVE: the database in which it uses its keys' names as well, or -1. Null: there is none.
  int (*other_db)(Args args) = nullptr;
  CommandDocs docs = {};
  std::string_view tips = {};             // for clients, between single spaces
  std::vector<Command> subcommands = {};  // the row of CLIENT ID has the name "id"

  // Set by Add.
  uint32_t id = 0;             // below CommandTable::id_count(); subcommands have their own
  bool has_one_key = false;    // always
  bool is_plain = false;       // `run`, and nothing that dispatch does otherwise
  uint32_t only_key = 0;       // where its key is, if that is always its only name; else 0
  bool is_scriptable = false;  // `run`, and scripts may call it by its name
  std::string full_name = {};  // "get", "client|id"

  // The argument whose hash decides on the shard. REQUIRES: `run`.
  size_t routed_by(Args args) const {
    if (keys.find != nullptr) [[unlikely]]
      return KeysOf(args).first();
    return static_cast<size_t>(channel_at != 0 ? channel_at : keys.first);
  }
  // See KeySpec::element_at; null: there is none.
  std::string_view ElementOf(Args args) const {
    const auto at = static_cast<size_t>(keys.element_at);
    return at != 0 && at < args.size() ? args[at] : std::string_view();
  }
  // So many arguments are much: it had better run in pieces, if it can.
  static constexpr size_t kManyArgs = 2048;
  bool can_run_in_pieces() const {
    return pieces.replies != PieceReplies::kNone || spread != Spread::kNone;
  }
  // `of_call`: ScriptFinder::FlagsOf.
  bool MayWrite(uint32_t of_call) const {
    return (of_call & kWrite) != 0 || (runs_script && (of_call & kMayReplicate) != 0);
  }
  LockMode lock_mode() const {
    return (flags & kWrite) != 0 ? LockMode::kExclusive : LockMode::kShared;
  }
  // None if the number of keys makes no sense. REQUIRES: it has keys and accepts the arguments.
  std::optional<KeyIndexes> FindKeys(Args args) const;
  // The same for dispatch, which takes at least one for a key and leaves the error to the handler.
  KeyIndexes KeysOf(Args args) const {
    const auto first = static_cast<size_t>(keys.first);
    return FindKeys(args).value_or(KeyIndexes(first, first + 1, first + 1, 1));
  }
};

// Owner: built once before the threads start, read-only afterwards, by all threads.
class CommandTable {
 public:
  // REQUIRES: no row of that name, and exactly one of `run`, `session` and `coordinate`, or
  // subcommands.
  void Add(Command command);

  // "flushall", "config", which is all its subcommands, or "config|set": from now on they are for
  // clients of the admin port, and not for scripts. False: there is no such command.
  [[nodiscard]] bool Restrict(std::string_view name);

  // Clients, and their scripts, have to call it `to` from now on; empty: they cannot call it.
  // Everybody else has it under its name. Returns why that cannot be, as redis-server says it, or
  // nothing.
  [[nodiscard]] std::string Rename(std::string_view name, std::string_view to);

  // What clients call `name`, whatever its case. Null if there is none.
  const Command* Find(std::string_view name) const;
  // The same, but renamed or not. Slow.
  const Command* FindByName(std::string_view name) const;
  // The row of args[1] among the subcommands of `command`. Null if there is none.
  static const Command* FindSubcommand(const Command& command, std::string_view name);

  const std::deque<Command>& all() const { return commands_; }
  // How many ids are in use: for arrays with an item for each command and subcommand.
  uint32_t id_count() const { return id_count_; }

 private:
  static constexpr size_t kNameMax = 32;
  // A name in lower case, and zeros behind it.
  struct FoldedName {
    explicit FoldedName(std::string_view name);
    uint64_t Hash() const;
    std::string_view text() const { return {reinterpret_cast<const char*>(words), size}; }

    size_t size;
    uint64_t words[kNameMax / 8] = {};
  };
  struct Slot {
    uint64_t first_word = 0;  // of the folded name: nearly always enough to tell
    const Command* command = nullptr;
  };
  void Index(const Command* command);

  uint32_t id_count_ = 0;
  std::deque<Command> commands_;  // a deque: rows keep their address
  std::vector<Slot> slots_;       // open addressing; a power of two, at most half full
};

// Each family has one of these, in its own file.
void RegisterStringCommands(CommandTable* table);
void RegisterKeyCommands(CommandTable* table);     // with those of key_moves.h
void RegisterListCommands(CommandTable* table);    // and the type
void RegisterZsetCommands(CommandTable* table);    // and the type
void RegisterHashCommands(CommandTable* table);    // and the type
void RegisterSetCommands(CommandTable* table);     // and the type
void RegisterStreamCommands(CommandTable* table);  // and the type
void RegisterBitmapCommands(CommandTable* table);
void RegisterHyperLogLogCommands(CommandTable* table);
void RegisterProbabilisticCommands(CommandTable* table);  // and the types
void RegisterJsonCommands(CommandTable* table);           // and the type

}  // namespace dfly
