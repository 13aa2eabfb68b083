// SPDX-License-Identifier: Apache-2.0
// What memcached's clients ask of the server as a whole, and the table of all their commands.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "commands/memcached/memcached.h"
#include "helio/base/clock.h"
#include "server/acl/acl_store.h"
#include "server/base/version.h"
#include "server/care/shard_care.h"
#include "server/clients/memcached_rows.h"
#include "server/clients/server_state.h"
#include "server/commands/families.h"
#include "server/dispatch/users.h"
#include "server/dispatch/worker.h"
#include "server/info/info_facts.h"
#include "server/quotas/quotas.h"

namespace dfly {

namespace {

using Op = MemcachedOp;

// Clients look which commands there are by it.
constexpr std::string_view kProtocolVersion = "1.6.18";

bool IsSilent(Args args) { return args.size() > 1 && args[args.size() - 1] == "noreply"; }

void End(Session&, Args, ReplySink& reply) { reply.Raw("END\r\n"); }

void Error(Session&, Args args, ReplySink& reply) {
  if (args[1].empty()) return;
  reply.Raw(args[1]);
  reply.Raw("\r\n");
}

void MetaNoop(Session&, Args, ReplySink& reply) { reply.Raw("MN\r\n"); }

void Version(Session&, Args, ReplySink& reply) {
  reply.Raw(fmt::format("VERSION {} dragonfly-{}\r\n", kProtocolVersion, kVersion));
}

// How much the server logs is not for its clients to say (--loglevel, CONFIG SET loglevel).
void Verbosity(Session&, Args args, ReplySink& reply) {
  if (!IsSilent(args)) reply.Raw("OK\r\n");
}

void Quit(Session& session, Args, ReplySink&) { session.close_after_reply = true; }

// A set whose data is "user password".
void Authenticate(Session& session, Args args, ReplySink& reply) {
  const size_t blank = args[1].find(' ');
  if (blank == std::string_view::npos) {
    return reply.Raw("CLIENT_ERROR bad authentication token format\r\n");
  }
  const std::string_view name = args[1].substr(0, blank);
  const AclUserRef user = session.server.acl->LogIn(name, args[1].substr(blank + 1));
  if (user == nullptr) {
    Users::Here().LogFailedLogin(session, name);
    return reply.Raw("CLIENT_ERROR authentication failure\r\n");
  }
  if (!Quotas::Here().EnterUser(session, user->name()).empty()) {
    return reply.Raw("SERVER_ERROR the user has as many connections as it may have\r\n");
  }
  Users::Here().Become(session, user);
  Users::Here().LogLogin(session, name);
  reply.Raw("STORED\r\n");
}

void FlushAll(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const bool has_delay = args.size() > (IsSilent(args) ? 2u : 1u);
  const int64_t delay_s = has_delay ? MemcachedNumberOf<int64_t>(args[1]) : 0;
  ServerState& server = SessionOf(cx).server;
  // One at a time is pending, on the first thread; a new one comes instead of it.
  const MemcachedEnd end = MemcachedEndOf(delay_s, cx.now_ms());
  const int64_t after_ms = end.at_ms ? *end.at_ms - cx.now_ms() : 0;
  server.pool.at(0)->Await([&] { Worker::Here().ScheduleMemcachedFlush(after_ms); });
  if (after_ms == 0) Worker::Here().FlushMemcached(cx);
  if (!IsSilent(args)) reply.Raw("OK\r\n");
}

MemcachedStats SumStats(CoordinatorContext& cx) {
  std::vector<MemcachedStats> parts(cx.shards().size());
  cx.HopToAll([&](ShardContext& shard_cx) {
    parts[shard_cx.shard().id()] = shard_cx.shard().memcached().stats();
  });
  MemcachedStats sum;
  for (const MemcachedStats& part : parts) helio::AddCounters(&sum, part);
  return sum;
}

class StatLines {
 public:
  template <typename T>
  void Add(std::string_view name, const T& value) {
    fmt::format_to(std::back_inserter(text_), "STAT {} {}\r\n", name, value);
  }
  void Send(ReplySink& reply) {
    text_ += "END\r\n";
    reply.Raw(text_);
  }

 private:
  std::string text_;
};

std::string Seconds(double seconds) { return fmt::format("{:.6f}", seconds); }

void GeneralStats(CoordinatorContext& cx, ReplySink& reply) {
  ServerState& server = SessionOf(cx).server;
  const MemcachedStats stats = SumStats(cx);
  const InfoFacts facts = GatherInfo(server);
  const std::vector<DatabaseFacts>& databases = facts.counts.databases;
  StatLines out;
  out.Add("pid", getpid());
  out.Add("uptime", (helio::UnixMillis() - server.start_time_ms) / 1000);
  out.Add("time", helio::UnixMillis() / 1000);
  out.Add("version", fmt::format("{} dragonfly-{}", kProtocolVersion, kVersion));
  out.Add("pointer_size", sizeof(void*) * 8);
  out.Add("rusage_user", Seconds(facts.cpu_user_s));
  out.Add("rusage_system", Seconds(facts.cpu_sys_s));
  out.Add("max_connections", facts.maxclients);
  out.Add("curr_connections", facts.clients);
  out.Add("total_connections", facts.counts.worker.connections_received);
  out.Add("rejected_connections", facts.rejected_connections);
  out.Add("cmd_get", stats.get_hits + stats.get_misses);
  out.Add("cmd_set", stats.sets);
  out.Add("cmd_touch", stats.touch_hits + stats.touch_misses);
  out.Add("cmd_meta", stats.metas);
  out.Add("get_hits", stats.get_hits);
  out.Add("get_misses", stats.get_misses);
  out.Add("delete_misses", stats.delete_misses);
  out.Add("delete_hits", stats.delete_hits);
  out.Add("incr_misses", stats.incr_misses);
  out.Add("incr_hits", stats.incr_hits);
  out.Add("decr_misses", stats.decr_misses);
  out.Add("decr_hits", stats.decr_hits);
  out.Add("cas_misses", stats.cas_misses);
  out.Add("cas_hits", stats.cas_hits);
  out.Add("cas_badval", stats.cas_badval);
  out.Add("touch_hits", stats.touch_hits);
  out.Add("touch_misses", stats.touch_misses);
  out.Add("store_too_large", stats.too_large);
  out.Add("bytes_read", facts.counts.traffic.received_bytes);
  out.Add("bytes_written", facts.counts.traffic.sent_bytes);
  out.Add("limit_maxbytes", facts.maxmemory);
  out.Add("accepting_conns", 1);
  out.Add("threads", server.pool.size());
  out.Add("bytes", facts.data_memory);
  out.Add("curr_items", databases.empty() ? 0 : databases[0].keys);
  out.Add("evictions", facts.counts.shards.evicted_keys);
  out.Add("reclaimed", facts.counts.shards.expired_keys);
  out.Send(reply);
}

void SettingsStats(CoordinatorContext& cx, ReplySink& reply) {
  const ServerState& server = SessionOf(cx).server;
  const ServerOptions& options = server.options;
  StatLines out;
  out.Add("maxbytes", server.settings.maxmemory.load());
  out.Add("maxconns", server.settings.maxclients.load());
  out.Add("tcpport", options.memcached_port);
  out.Add("udpport", 0);
  out.Add("evictions", ShardCare::Here().eviction().Of(0).evicts() ? "on" : "off");
  out.Add("num_threads", options.threads);
  out.Add("cas_enabled", "yes");
  out.Add("tcp_backlog", options.backlog);
  out.Add("auth_enabled_ascii",
          SessionOf(cx).server.acl->default_user()->has_nopass() ? "no" : "yes");
  out.Add("item_size_max", options.limits.memcached.value_bytes_max);
  out.Add("flush_enabled", "yes");
  out.Add("shutdown_command", "no");
  out.Add("ssl_enabled", options.tls ? "yes" : "no");
  out.Send(reply);
}

// Items are in no slabs, so there is nothing to tell of them.
void Stats(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (args.size() == 1) return GeneralStats(cx, reply);
  if (args[1] == "settings") return SettingsStats(cx, reply);
  if (args[1] == "items" || args[1] == "slabs") return reply.Raw("END\r\n");
  if (args[1] == "sizes") return reply.Raw("STAT sizes_status disabled\r\nEND\r\n");
  if (args[1] != "reset") return reply.Raw("ERROR\r\n");
  cx.HopToAll([](ShardContext& shard_cx) { shard_cx.shard().memcached().stats() = {}; });
  reply.Raw("RESET\r\n");
}

constexpr uint32_t kAlways = kMemcached | kNoScript | kLoading | kStale | kFast;
constexpr uint32_t kWayIn = kAlways | kNoAuth | kAllowBusy;
constexpr uint32_t kReads = kMemcached | kNoScript | kReadonly | kFast;
constexpr uint32_t kWrites = kMemcached | kNoScript | kWrite | kFast;

Command OfKey(std::string_view name, ShardHandler run, int arity, uint32_t flags) {
  return {.name = name,
          .run = run,
          .arity = arity,
          .flags = flags,
          .categories = kAclString,
          .keys = KeyAt(1)};
}

Command OfSession(std::string_view name, SessionHandler session, int arity, uint32_t flags) {
  return {.name = name,
          .session = session,
          .arity = arity,
          .flags = flags,
          .categories = kAclConnection};
}

Command OfServer(std::string_view name, CoordinatorHandler coordinate, uint32_t flags,
                 uint32_t categories) {
  return {.name = name,
          .coordinate = coordinate,
          .arity = -1,
          .flags = flags,
          .categories = categories};
}

std::vector<std::pair<Op, Command>> Rows() {
  constexpr uint32_t kStores = kWrites | kDenyOom;
  return {
      {Op::kGet, OfKey("get", MemcachedGet, 2, kReads)},
      {Op::kGets, OfKey("gets", MemcachedGets, 2, kReads)},
      {Op::kGat, OfKey("gat", MemcachedGat, 3, kWrites)},
      {Op::kGats, OfKey("gats", MemcachedGats, 3, kWrites)},
      {Op::kEnd, OfSession("end", ForSession<End>, 1, kWayIn)},
      {Op::kSet, OfKey("set", MemcachedSet, -5, kStores)},
      {Op::kAdd, OfKey("add", MemcachedAdd, -5, kStores)},
      {Op::kReplace, OfKey("replace", MemcachedReplace, -5, kStores)},
      {Op::kAppend, OfKey("append", MemcachedAppend, -5, kStores)},
      {Op::kPrepend, OfKey("prepend", MemcachedPrepend, -5, kStores)},
      {Op::kCas, OfKey("cas", MemcachedCas, -6, kStores)},
      {Op::kTooLarge, OfKey("toolarge", MemcachedTooLarge, -3, kWrites)},
      {Op::kIncr, OfKey("incr", MemcachedIncr, -3, kStores)},
      {Op::kDecr, OfKey("decr", MemcachedDecr, -3, kStores)},
      {Op::kDelete, OfKey("delete", MemcachedDelete, -2, kWrites)},
      {Op::kTouch, OfKey("touch", MemcachedTouch, -3, kWrites)},
      {Op::kMetaGet, OfKey("mg", MemcachedMetaGet, -2, kReads)},
      {Op::kMetaGetOrMake, OfKey("mgmake", MemcachedMetaGet, -2, kStores)},
      {Op::kMetaSet, OfKey("ms", MemcachedMetaSet, -3, kStores)},
      {Op::kMetaDelete, OfKey("md", MemcachedMetaDelete, -2, kWrites)},
      {Op::kMetaArithmetic, OfKey("ma", MemcachedMetaArithmetic, -2, kStores)},
      {Op::kMetaDebug, OfKey("me", MemcachedMetaDebug, -2, kReads)},
      {Op::kMetaNoop, OfSession("mn", ForSession<MetaNoop>, -1, kAlways)},
      {Op::kFlushAll, OfServer("flush_all", FlushAll, kMemcached | kNoScript | kWrite,
                               kAclKeyspace | kAclDangerous)},
      {Op::kStats, OfServer("stats", Stats, kAlways, kAclDangerous)},
      {Op::kVersion, OfSession("version", ForSession<Version>, -1, kAlways)},
      {Op::kVerbosity, OfSession("verbosity", ForSession<Verbosity>, -2, kAlways)},
      {Op::kQuit, OfSession("quit", ForSession<Quit>, -1, kWayIn | kBarrier)},
      {Op::kAuth, OfSession("auth", ForSession<Authenticate>, 2, kWayIn | kBarrier)},
      {Op::kError, OfSession("error", ForSession<Error>, 2, kWayIn)},
  };
}

}  // namespace

void RegisterMemcachedCommands(CommandTable* table, MemcachedRows* memcached_rows) {
  std::vector<std::pair<Op, Command>> rows = Rows();
  CHECK_EQ(rows.size(), static_cast<size_t>(MemcachedOp::kCount));
  Command memcached = {.name = "memcached", .arity = -2, .flags = kMemcached | kNoScript};
  for (auto& [op, row] : rows) {
    row.effect = EffectRule::kNone;  // nobody else knows these commands: they tell others
    memcached.subcommands.push_back(row);
  }
  Command item = OfKey("item", MemcachedSetItem, 6, kWrites);
  item.keys = KeyAt(2);
  item.effect = EffectRule::kTold;
  memcached.subcommands.push_back(item);
  table->Add(std::move(memcached));
  const Command* const parent = table->FindByName("memcached");
  for (size_t i = 0; i < rows.size(); ++i) {
    memcached_rows->Set(rows[i].first, &parent->subcommands[i]);
  }
}

}  // namespace dfly
