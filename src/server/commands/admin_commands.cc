// SPDX-License-Identifier: Apache-2.0
// TIME DEBUG, and MEMORY's row.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/shard_set.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/base/version.h"
#include "server/base/words.h"
#include "server/care/defrag_pacer.h"
#include "server/care/shard_care.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/commands/families.h"
#include "server/commands/memory_commands.h"
#include "server/dispatch/worker.h"
#include "server/persistence/append_log.h"
#include "server/persistence/persistence.h"
#include "server/run/server.h"

namespace dfly {

namespace {

void Time(Args, ReplySink& reply) {
  const int64_t now_us = helio::UnixMicros();
  reply.Array(2);
  reply.Bulk(fmt::format("{}", now_us / 1'000'000));
  reply.Bulk(fmt::format("{}", now_us % 1'000'000));
}

// LOLWUT [VERSION version] [argument ...]
void Lolwut(Args args, ReplySink& reply) {
  constexpr std::string_view kPicture = R"(
      .--.         .--.
   .-'    `-.___.-'    `-.
   `-.__    ( o )    __.-'
   .-'  `-.__|=|__.-'  `-.
   `-.______ |=| ______.-'
             |=|
             |=|
             `-'
)";
  if (args.size() >= 3 && IsWord(args[1], "version") && !ParseInt64(args[2])) {
    return reply.Error(kErrNotInteger);
  }
  reply.Verbatim("txt", fmt::format("{}Redis ver. {}\n", kPicture, kRedisVersion));
}

// --- DEBUG ---

// Waits without holding anything, but no longer than the client is there.
void DebugSleep(CoordinatorContext& cx, std::string_view seconds_text, ReplySink& reply) {
  constexpr double kMaxSeconds = 1e9;
  constexpr uint64_t kSliceNanos = 100'000'000;
  // What is no number counts as 0, as in Redis.
  const double seconds = std::clamp(ParseDouble(seconds_text).value_or(0), 0.0, kMaxSeconds);
  const uint64_t end_ns = helio::MonotonicNanos() + static_cast<uint64_t>(seconds * 1e9);
  const helio::BoundedWait wait(kItsTime);
  for (uint64_t now_ns = helio::MonotonicNanos();
       now_ns < end_ns && !SessionOf(cx).connection.closing(); now_ns = helio::MonotonicNanos()) {
    helio::this_fiber::SleepUntil(std::min(end_ns, now_ns + kSliceNanos));
  }
  reply.Ok();
}

// DEBUG STALL thread seconds: the thread does nothing meanwhile, as one that is stuck. For tests of
// what is told and done about it.
void DebugStall(CoordinatorContext& cx, Args args, ReplySink& reply) {
  constexpr int64_t kSecondsMax = 1000;
  helio::ProactorPool& pool = SessionOf(cx).server.pool;
  const auto thread = ParseInt64(args[2]);
  const auto seconds = ParseInt64(args[3]);
  if (!thread || *thread < 0 || *thread >= pool.size() || !seconds || *seconds < 0 ||
      *seconds > kSecondsMax) {
    return reply.Error(kErrOutOfRange);
  }
  // The reply goes first, if it is its own thread.
  pool.at(static_cast<uint32_t>(*thread))
      ->DispatchFiber("stall", [thread = *thread, seconds = *seconds] {
        helio::this_fiber::SleepForMillis(100);
        LOG(WARNING) << "DEBUG STALL: thread " << thread << " stands still";
        sleep(static_cast<unsigned>(seconds));
      });
  reply.Ok();
}

// DEBUG POPULATE count [prefix] [size]: "prefix:N" gets "value:N", cut or filled up with zeros to
// `size` bytes. Keys that exist stay as they are.
void DebugPopulate(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const auto count = ParseInt64(args[2]);
  if (!count || *count < 0) return reply.Error(kErrNotPositive);
  const std::string prefix(args.size() > 3 ? args[3] : "key");
  size_t size = 0;
  if (args.size() > 4) {
    const auto parsed = ParseInt64(args[4]);
    if (!parsed || *parsed < 0) return reply.Error(kErrNotPositive);
    size = static_cast<size_t>(*parsed);
    if (*count > 0 && size > cx.shards().string_max()) {
      return reply.Error(kErrStringTooLong);
    }
  }

  // Few enough that no shard is busy with them for long.
  const int64_t batch = size > 100'000 ? 1 : 512;
  ServerState& server = SessionOf(cx).server;
  for (int64_t begin = 0; begin < *count; begin += batch) {
    if (SessionOf(cx).connection.closing()) return reply.Ok();  // nobody waits for it
    if (server.memory.is_over() && !ShardCare::Here().AwaitRoom({}))
      return reply.Error(kErrOutOfMemory);
    std::vector<std::vector<int64_t>> numbers(cx.shards().size());
    for (int64_t i = begin; i < std::min(begin + batch, *count); ++i) {
      const std::string key = fmt::format("{}:{}", prefix, i);
      numbers[cx.shards().ShardOfKey(key, HashKey(key))].push_back(i);
    }
    cx.HopToAll([&](ShardContext& shard_cx) {
      for (int64_t number : numbers[shard_cx.shard().id()]) {
        const std::string key = fmt::format("{}:{}", prefix, number);
        if (shard_cx.Peek(key)) continue;
        std::string value = fmt::format("value:{}", number);
        if (args.size() > 4) value.resize(size);
        const std::string_view effect[] = {"SET", key, value};
        const EffectScope scope(shard_cx, EffectRule::kOwn, effect);
        shard_cx.SetString(key, value);
      }
    });
  }
  reply.Ok();
}

void DebugObject(CoordinatorContext& cx, std::string_view key, ReplySink& reply) {
  struct Found {
    const void* address = nullptr;
    std::string_view encoding;
    size_t bytes = 0;
    uint32_t idle_s = 0;
  };
  const ShardId shard = cx.shards().ShardOfKey(key, HashKey(key));
  const Found found = cx.Hop(shard, [key](ShardContext& shard_cx) {
    const auto value = shard_cx.Peek(key);
    if (!value) return Found();
    return Found{
        .address = &*value,
        .encoding = value->is_string() ? value->StringEncoding() : value->ObjectEncodingName(),
        .bytes = value->is_string() ? value->StringSize() : value->HeapBytes(),
        .idle_s =
            shard_cx.eviction_rules().counts_hits() ? 0 : shard_cx.IdleSeconds(key).value_or(0)};
  });
  if (found.address == nullptr) return reply.Error(kErrNoSuchKey);
  const int64_t lru_clock = (helio::UnixMillis() / 1000 - found.idle_s) & 0xffffff;
  reply.Status(fmt::format(
      "Value at:{} refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
      found.address, found.encoding, found.bytes, lru_clock, found.idle_s));
}

// DEBUG SHARD key: where it is, or would be.
void DebugShard(CoordinatorContext& cx, std::string_view key, ReplySink& reply) {
  reply.Integer(cx.shards().ShardOfKey(key, HashKey(key)));
}

// DEBUG MIGRATE thread: this connection moves there when it is answered.
void DebugMigrate(CoordinatorContext& cx, std::string_view text, ReplySink& reply) {
  const std::optional<int64_t> thread = ParseInt64(text);
  if (!thread || *thread < 0 || *thread >= cx.shards().pool().size()) {
    return reply.Error("ERR no such thread");
  }
  Worker::Here().MoveSoon(SessionOf(cx), static_cast<uint32_t>(*thread));
  reply.Ok();
}

// DEBUG SET-ACTIVE-EXPIRE 0 | 1
void DebugSetActiveExpire(CoordinatorContext& cx, std::string_view text, ReplySink& reply) {
  const bool is_on = ParseInt64(text).value_or(0) != 0;  // what is no number counts as 0
  AwaitOnAll<ShardCare>(SessionOf(cx).server,
                        [is_on](ShardCare& care) { care.SetActiveExpiry(is_on); });
  reply.Ok();
}

// Of all that scripts may not call, tests of the replies that they get need DEBUG alone.
void DebugSetDisableDenyScripts(Session& session, std::string_view text, ReplySink& reply) {
  session.server.settings.scripts_may_debug = ParseInt64(text).value_or(0) != 0;
  reply.Ok();
}

// DEBUG PROTOCOL type: a reply of that type, for the tests of clients.
void DebugProtocol(std::string_view type, ReplySink& reply) {
  if (IsWord(type, "string")) return reply.Bulk("Hello World");
  if (IsWord(type, "integer")) return reply.Integer(12345);
  if (IsWord(type, "double")) return reply.Double(3.141);
  if (IsWord(type, "bignum")) return reply.BigNumber("1234567999999999999999999999999999999");
  if (IsWord(type, "null")) return reply.Null();
  if (IsWord(type, "verbatim")) return reply.Verbatim("txt", "This is a verbatim\nstring");
  if (IsWord(type, "true")) return reply.Bool(true);
  if (IsWord(type, "false")) return reply.Bool(false);
  if (IsWord(type, "array") || IsWord(type, "set")) {
    IsWord(type, "array") ? reply.Array(3) : reply.Set(3);
    for (int i = 0; i < 3; ++i) reply.Integer(i);
    return;
  }
  if (IsWord(type, "map")) {
    reply.Map(3);
    for (int i = 0; i < 3; ++i) {
      reply.Integer(i);
      reply.Bool(i == 1);
    }
    return;
  }
  if (IsWord(type, "attrib")) {
    if (reply.resp3()) {
      reply.Attribute(1);
      reply.Bulk("key-popularity");
      reply.Array(2);
      reply.Bulk("key:123");
      reply.Integer(90);
    }
    return reply.Bulk("Some real reply following the attribute");
  }
  if (IsWord(type, "push")) {
    if (!reply.resp3()) return reply.Error("ERR RESP2 is not supported by this command");
    reply.Push(2);
    reply.Bulk("server-cpu-usage");
    reply.Integer(42);
    return reply.Bulk("Some real reply following the push reply");
  }
  reply.Error(
      "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|"
      "null|array|set|map|attrib|push|verbatim|true|false");
}

// DEBUG RELOAD [NOSAVE]: what the server has when it starts again.
void DebugReload(CoordinatorContext& cx, Args args, ReplySink& reply) {
  // It needs all locks, and an EXEC would hold some of them.
  if (cx.outer() != nullptr) return reply.Error("ERR DEBUG RELOAD is not possible inside a MULTI");
  bool saves = true;
  for (std::string_view word : args.from(2)) {
    if (!IsWord(word, "nosave")) {
      return reply.Error("ERR DEBUG RELOAD only supports the NOSAVE option.");
    }
    saves = false;
  }
  Persistence& persistence = Server::Here().persistence();
  std::string error;
  cx.shards().pool().at(0)->AwaitFiber("reload", [&] {
    error = persistence.Reload(saves);
    // The log's commands do not lead to what was loaded.
    if (error.empty() && !saves) error = Server::Here().append_log().BeginAnew();
  });
  if (!error.empty()) return reply.Error(fmt::format("ERR {}", error));
  reply.Ok();
}

// DEBUG LOADAOF: what the server has when it loads its append-only log.
void DebugLoadAof(CoordinatorContext& cx, ReplySink& reply) {
  if (cx.outer() != nullptr) return reply.Error("ERR DEBUG LOADAOF is not possible inside a MULTI");
  std::string error;
  cx.shards().pool().at(0)->AwaitFiber("loadaof",
                                       [&] { error = Server::Here().append_log().Reload(); });
  if (!error.empty()) return reply.Error(fmt::format("ERR {}", error));
  reply.Ok();
}

void DebugHelp(ReplySink& reply) {
  ReplyHelp(reply, "DEBUG",
            {"CHECK",
             "    Count again what all keys use, and end the process if that is not what it knows.",
             "DEFRAG",
             "    Let all keys and values move to other memory, in the background.",
             "ERROR <string>",
             "    Return a Redis protocol error with <string> as message. Useful for clients",
             "    unit tests to simulate Redis errors.",
             "LOADAOF",
             "    Write and sync the append-only log, empty all databases, and load the log.",
             "OBJECT <key>",
             "    Show low level info about `key` and associated value.",
             "MIGRATE <thread>",
             "    Move this connection to a thread, once it is answered.",
             "POPULATE <count> [<prefix>] [<size>]",
             "    Create <count> string keys named key:<num>. If <prefix> is specified then",
             "    it is used instead of the 'key' prefix. These are not propagated to",
             "    replicas. Cluster slots are not respected so keys not belonging to the",
             "    current node can be created in cluster mode.",
             "PROTOCOL <type>",
             "    Reply with a test value of the specified type. <type> can be: string,",
             "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
             "    true, false.",
             "RELOAD [NOSAVE]",
             "    Save a snapshot, unless NOSAVE is given, empty all databases, and load the last",
             "    snapshot.",
             "SET-ACTIVE-EXPIRE <0|1>",
             "    0: keys expire only when somebody asks for them. 1: in the background, too.",
             "SET-DISABLE-DENY-SCRIPTS <0|1>",
             "    1: scripts may call DEBUG.",
             "SHARD <key>",
             "    The number of the shard that has the key, or would have it.",
             "SLEEP <seconds>",
             "    Let this client wait for <seconds>. Decimals allowed. Others go on.",
             "STALL <thread> <seconds>",
             "    Let a thread do nothing, soon, for <seconds>: no client of it is served.",
             "THREAD",
             "    The number of the thread that this connection is on."});
}

// DEBUG SEGFAULT and PANIC, for the test of what a crash prints.
[[noreturn]] void DebugCrash(std::string_view how) {
  LOG(WARNING) << "DEBUG " << how << " was called";
  if (how == "segfault") raise(SIGSEGV);
  abort();
}

void Debug(CoordinatorContext& cx, Args args, ReplySink& reply) {
  // Allowed then in Redis; but what it does to keys would meet those that come.
  const uint16_t gate = SessionOf(cx).server.settings.gate.load(std::memory_order_relaxed);
  if ((gate & Settings::kLoadingGate) != 0) return reply.Error(kErrLoading);
  const std::string name = LowerCase(args[1]);
  if (name == "help" && args.size() == 2) return DebugHelp(reply);
  if (name == "sleep" && args.size() == 3) return DebugSleep(cx, args[2], reply);
  if (name == "populate" && args.size() >= 3 && args.size() <= 5) {
    return DebugPopulate(cx, args, reply);
  }
  if (name == "error" && args.size() == 3) return reply.Error(args[2]);
  if (name == "object" && args.size() == 3) return DebugObject(cx, args[2], reply);
  if (name == "migrate" && args.size() == 3) return DebugMigrate(cx, args[2], reply);
  if (name == "thread" && args.size() == 2) return reply.Integer(SessionOf(cx).worker.index());
  if (name == "shard" && args.size() == 3) return DebugShard(cx, args[2], reply);
  if (name == "protocol" && args.size() == 3) return DebugProtocol(args[2], reply);
  if (name == "loadaof") return DebugLoadAof(cx, reply);
  if (name == "reload") return DebugReload(cx, args, reply);
  if ((name == "segfault" || name == "panic") && args.size() == 2) {
    DebugCrash(name);
  }
  if (name == "stall" && args.size() == 4) return DebugStall(cx, args, reply);
  if (name == "check" && args.size() == 2) {
    SessionOf(cx).server.shards->AwaitOnAll([](Shard& shard) { shard.CheckInvariants(); });
    return reply.Ok();
  }
  if (name == "defrag" && args.size() == 2) {
    AwaitOnAll<DefragPacer>(SessionOf(cx).server, [](DefragPacer& defrag) { defrag.MoveAll(); });
    return reply.Ok();
  }
  if (name == "set-active-expire" && args.size() == 3) {
    return DebugSetActiveExpire(cx, args[2], reply);
  }
  if (name == "set-disable-deny-scripts" && args.size() == 3) {
    return DebugSetDisableDenyScripts(SessionOf(cx), args[2], reply);
  }
  reply.Error(SubcommandSyntaxError("debug", args[1]));
}

void ModuleList(Session&, Args, ReplySink& reply) { reply.Array(0); }

// LOAD and LOADEX. redis-server tells as little to the client.
void ModuleLoad(Session&, Args args, ReplySink& reply) {
  LOG(WARNING) << "MODULE " << args[1] << ": this server loads no modules";
  reply.Error("ERR Error loading the extension. Please check the server logs.");
}

void ModuleUnload(Session&, Args, ReplySink& reply) {
  reply.Error("ERR Error unloading module: no such module with that name");
}

void ModuleHelp(Session&, Args, ReplySink& reply) {
  ReplyHelp(reply, "MODULE",
            {"LIST", "    An empty list: there are no modules.", "LOAD <path> [<arg> ...]",
             "    An error: this server loads no modules.",
             "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
             "    An error: this server loads no modules.", "UNLOAD <name>",
             "    An error: there are no modules."});
}

Command ModuleContainer() {
  Command module{.name = "module",
                 .arity = -2,
                 .docs = {"A container for commands about modules.", "4.0.0", "server",
                          "Depends on subcommand."}};
  constexpr uint32_t kChange = kAdmin | kNoScript | kNoAsyncLoading | kProtected;
  module.subcommands = {
      {.name = "list",
       .session = ForSession<ModuleList>,
       .arity = 2,
       .flags = kAdmin | kNoScript,
       .categories = kAclDangerous,
       .docs = {"Lists modules, of which there are none.", "4.0.0", "server", "O(1)"},
       .tips = "nondeterministic_output_order"},
      {.name = "load",
       .session = ForSession<ModuleLoad>,
       .arity = -3,
       .flags = kChange,
       .categories = kAclDangerous,
       .docs = {"Fails: this server loads no modules.", "4.0.0", "server", "O(1)"}},
      {.name = "loadex",
       .session = ForSession<ModuleLoad>,
       .arity = -3,
       .flags = kChange,
       .categories = kAclDangerous,
       .docs = {"Fails: this server loads no modules.", "7.0.0", "server", "O(1)"}},
      {.name = "unload",
       .session = ForSession<ModuleUnload>,
       .arity = 3,
       .flags = kChange,
       .categories = kAclDangerous,
       .docs = {"Fails: there is no module.", "4.0.0", "server", "O(1)"}},
      {.name = "help",
       .session = ForSession<ModuleHelp>,
       .arity = 2,
       .flags = kLoading | kStale,
       .docs = {"Tells about the subcommands.", "5.0.0", "server", "O(1)"}}};
  return module;
}

}  // namespace

void RegisterAdminCommands(CommandTable* table) {
  table->Add({.name = "time",
              .session = ForClient<Time>,
              .scripted = Time,
              .arity = 1,
              .flags = kLoading | kStale | kFast,
              .docs = {"Returns the server's time.", "2.6.0", "server", "O(1)"},
              .tips = "nondeterministic_output"});
  table->Add({.name = "debug",
              .coordinate = Debug,
              .arity = -2,
              .flags = kAdmin | kNoScript | kLoading | kStale | kProtected,
              .categories = kAclDangerous,
              .docs = {"A container for debugging commands.", "1.0.0", "server",
                       "Depends on subcommand."}});
  table->Add({.name = "lolwut",
              .session = ForClient<Lolwut>,
              .scripted = Lolwut,
              .arity = -1,
              .flags = kReadonly | kFast,
              .docs = {"Draws a picture, and tells the version.", "5.0.0", "server", "O(1)"}});
  table->Add(ModuleContainer());
  table->Add(MemoryContainer());
}

}  // namespace dfly
