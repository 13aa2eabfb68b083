// SPDX-License-Identifier: Apache-2.0
// CLUSTER, CLUSTERSCAN, READONLY, READWRITE, ASKING for --cluster_mode=emulated: to clients of
// Redis Cluster this one server is a cluster of one node that has all slots. Nothing is moved or
// refused; commands may use keys of any slots.
#include <absl/functional/function_ref.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "commands/keys/key_scan.h"
#include "commands/table/command_table.h"
#include "commands/table/rows.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/commands/cluster_slots.h"
#include "server/commands/families.h"

namespace dfly {

namespace {

constexpr std::string_view kErrDisabled = "ERR This instance has cluster support disabled";
constexpr std::string_view kErrSlot = "ERR Invalid slot";
constexpr std::string_view kErrSlotOrCount = "ERR Invalid slot or number of keys";
// Of a call of CLUSTERSCAN with SLOT, some milliseconds; others run in between.
constexpr uint64_t kBucketsOfSlot = 10'000;

bool IsEmulated(ServerState& server) { return server.options.emulates_cluster; }

// --- The node ---

struct Endpoint {
  std::string host;
  uint16_t port = 0;
};

// Where the client reached us, so that it does again; or what --cluster_announce_* say.
Endpoint EndpointOf(const Session& session) {
  const ServerOptions& options = session.server.options;
  Endpoint endpoint = {.host = "127.0.0.1", .port = session.server.port};
  const std::string_view address = session.local_address;
  const size_t colon = address.rfind(':');
  const auto port =
      colon == std::string_view::npos ? std::nullopt : ParseInt64(address.substr(colon + 1));
  if (port && *port > 0 && *port <= UINT16_MAX) {
    std::string_view host = address.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    endpoint = {std::string(host), static_cast<uint16_t>(*port)};
  }
  if (!options.cluster_announce_ip.empty()) endpoint.host = options.cluster_announce_ip;
  if (options.cluster_announce_port != 0) endpoint.port = options.cluster_announce_port;
  return endpoint;
}

void Slots(Session& session, Args, ReplySink& reply) {
  const Endpoint endpoint = EndpointOf(session);
  reply.Array(1);
  reply.Array(3);
  reply.Integer(0);
  reply.Integer(kClusterSlots - 1);
  reply.Array(4);
  reply.Bulk(endpoint.host);
  reply.Integer(endpoint.port);
  reply.Bulk(session.server.run_id);
  reply.Array(0);
}

void Shards(Session& session, Args, ReplySink& reply) {
  const Endpoint endpoint = EndpointOf(session);
  reply.Array(1);
  reply.Map(2);
  reply.Bulk("slots");
  reply.Array(2);
  reply.Integer(0);
  reply.Integer(kClusterSlots - 1);
  reply.Bulk("nodes");
  reply.Array(1);
  reply.Map(7);
  reply.Bulk("id");
  reply.Bulk(session.server.run_id);
  reply.Bulk("port");
  reply.Integer(endpoint.port);
  reply.Bulk("ip");
  reply.Bulk(endpoint.host);
  reply.Bulk("endpoint");
  reply.Bulk(endpoint.host);
  reply.Bulk("role");
  reply.Bulk("master");
  reply.Bulk("replication-offset");
  reply.Integer(0);
  reply.Bulk("health");
  reply.Bulk("online");
}

void Nodes(Session& session, Args, ReplySink& reply) {
  const Endpoint endpoint = EndpointOf(session);
  reply.Verbatim("txt", fmt::format("{} {}:{}@{} myself,master - 0 0 1 connected 0-{}\n",
                                    session.server.run_id, endpoint.host, endpoint.port,
                                    endpoint.port + 10000, kClusterSlots - 1));
}

void Info(Session&, Args, ReplySink& reply) {
  reply.Verbatim(
      "txt",
      fmt::format("cluster_state:ok\r\ncluster_slots_assigned:{0}\r\ncluster_slots_ok:{0}\r\n"
                  "cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:1\r\n"
                  "cluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n"
                  "cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n"
                  "total_cluster_links_buffer_limit_exceeded:0\r\n",
                  kClusterSlots));
}

void MyId(Session& session, Args, ReplySink& reply) { reply.Bulk(session.server.run_id); }

void Links(Session&, Args, ReplySink& reply) { reply.Array(0); }

void KeySlot(Session&, Args args, ReplySink& reply) { reply.Integer(ClusterSlotOf(args[2])); }

// There are no other nodes.
void Replicas(Session& session, Args args, ReplySink& reply) {
  if (args[2] != session.server.run_id) {
    return reply.Error(fmt::format("ERR Unknown node {}", Printed(args[2])));
  }
  reply.Array(0);
}

// --- Keys of a slot ---

// Calls look(key) for the keys of the slot until there were `count` of them. May suspend.
void WalkSlot(CoordinatorContext& cx, uint16_t slot, uint64_t count,
              absl::FunctionRef<void(std::string_view)> look) {
  uint64_t found = 0;
  const KeyScan all = {.count = count, .buckets = std::numeric_limits<uint64_t>::max()};
  WalkKeys(cx, all, [&](std::string_view key, const CompactValue&) {
    if (found == count || ClusterSlotOf(key) != slot) return false;
    ++found;
    look(key);
    return true;
  });
}

std::optional<uint16_t> SlotFrom(int64_t number) {
  if (number < 0 || number >= kClusterSlots) return {};
  return static_cast<uint16_t>(number);
}

void CountKeysInSlot(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (!IsEmulated(SessionOf(cx).server)) return reply.Error(kErrDisabled);
  const auto number = ParseInt64(args[2]);
  if (!number) return reply.Error(kErrNotInteger);
  const auto slot = SlotFrom(*number);
  if (!slot) return reply.Error(kErrSlot);
  int64_t count = 0;
  WalkSlot(cx, *slot, std::numeric_limits<uint64_t>::max(), [&](std::string_view) { ++count; });
  reply.Integer(count);
}

void GetKeysInSlot(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (!IsEmulated(SessionOf(cx).server)) return reply.Error(kErrDisabled);
  const auto number = ParseInt64(args[2]);
  const auto count = ParseInt64(args[3]);
  if (!number || !count) return reply.Error(kErrNotInteger);
  const auto slot = SlotFrom(*number);
  if (!slot || *count < 0) return reply.Error(kErrSlotOrCount);
  MemberList keys;
  WalkSlot(cx, *slot, static_cast<uint64_t>(*count), [&](std::string_view key) { keys.Add(key); });
  reply.Array(keys.size());
  ReplyWithMembers(keys, reply);
}

// --- CLUSTERSCAN ---

// The cursor is fingerprint-{tag}-position. The tag's slot is where the walk begins, and what a
// client sends the next call by; the position is that of SCAN, of this run of the server.
struct ClusterCursor {
  std::string_view tag;  // with its braces
  uint16_t slot = 0;
  uint64_t position = 0;
};

std::string_view FingerprintOf(ServerState& server) {
  return std::string_view(server.run_id).substr(0, 8);
}

std::optional<ClusterCursor> ParseClusterCursor(std::string_view text, ServerState& server) {
  const size_t first = text.find('-');
  if (first == text.npos) return {};
  const size_t second = text.find('-', first + 1);
  if (second == text.npos) return {};
  const std::string_view digits = text.substr(second + 1);
  ClusterCursor cursor = {.tag = text.substr(first + 1, second - first - 1)};
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, cursor.position);
  if (stop != end || error != std::errc()) return {};
  cursor.slot = ClusterSlotOf(cursor.tag);
  // One of another run begins its walk again.
  if (text.substr(0, first) != FingerprintOf(server)) cursor.position = 0;
  return cursor;
}

// Takes SLOT out of the options; the others are those of SCAN. None: the error is replied.
struct ClusterScanOptions {
  KeyScanOptions keys;
  std::optional<uint16_t> slot;
};

std::optional<ClusterScanOptions> ParseClusterScanOptions(std::span<const std::string_view> args,
                                                          ReplySink& reply) {
  std::vector<std::string_view> others;
  std::optional<uint16_t> slot;
  const auto refuse = [&reply](std::string_view error) -> std::optional<ClusterScanOptions> {
    reply.Error(error);
    return {};
  };
  for (size_t i = 0; i < args.size(); i += 2) {
    if (i + 1 == args.size()) return refuse(kErrSyntax);
    if (IsOption(args[i], "SLOT")) {
      if (slot) return refuse("ERR SLOT option can only be specified once");
      const auto number = ParseInt64(args[i + 1]);
      if (number) slot = SlotFrom(*number);
      if (!slot) return refuse("ERR Invalid or out of range slot");
    } else {
      others.insert(others.end(), {args[i], args[i + 1]});
    }
  }
  const auto keys = ParseKeyScanOptions(others, reply);
  if (!keys) return {};
  return ClusterScanOptions{.keys = *keys, .slot = slot};
}

// CLUSTERSCAN cursor [MATCH pattern] [COUNT count] [TYPE type] [SLOT slot]. Of Valkey 9.1. May
// suspend.
void ClusterScan(CoordinatorContext& cx, Args args, ReplySink& reply) {
  ServerState& server = SessionOf(cx).server;
  if (!IsEmulated(server)) return reply.Error(kErrDisabled);
  const bool is_begin = args[1] == "0";
  const auto options = ParseClusterScanOptions(args.from(2), reply);
  if (!options) return;
  const auto cursor = is_begin ? ClusterCursor{} : ParseClusterCursor(args[1], server);
  if (!cursor) return reply.Error("ERR Invalid cursor");
  MemberList keys;
  if (is_begin) {
    const std::string tag = ClusterTagOf(options->slot.value_or(0));
    return ReplyWithKeys(fmt::format("0-{{{}}}-0", tag), keys, reply);
  }
  if (options->slot && *options->slot != cursor->slot) {
    return reply.Error("ERR Cursor slot mismatch with SLOT argument");
  }
  const uint16_t end = options->slot ? cursor->slot : kClusterSlots - 1;
  const bool takes_all = cursor->slot == 0 && !options->slot;
  const uint64_t count = options->keys.count;
  // Few keys are in one slot: the more may be looked at.
  const KeyScan scan = {.cursor = cursor->position,
                        .count = count,
                        .buckets = std::max(BucketsFor(count), options->slot ? kBucketsOfSlot : 0)};
  const uint64_t next = WalkKeys(cx, scan, [&](std::string_view key, const CompactValue& value) {
    if (!takes_all) {
      const uint16_t slot = ClusterSlotOf(key);
      if (slot < cursor->slot || slot > end) return false;
    }
    if (options->keys.filter.Accepts(key, value)) keys.Add(key);
    return true;
  });
  const std::string position = fmt::format("{}-{}-{}", FingerprintOf(server), cursor->tag, next);
  ReplyWithKeys(next == 0 ? "0" : position, keys, reply);
}

// CLUSTER RESET [HARD | SOFT]: there is nothing to forget, but keys must not be left behind.
void Reset(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (!IsEmulated(SessionOf(cx).server)) return reply.Error(kErrDisabled);
  if (args.size() > 3) return reply.Error(SubcommandSyntaxError("cluster", args[1]));
  if (args.size() == 3 && !IsWord(args[2], "hard") && !IsWord(args[2], "soft")) {
    return reply.Error(kErrSyntax);
  }
  std::vector<uint64_t> sizes(cx.shards().size());
  cx.HopToAll([&](ShardContext& shard_cx) { sizes[shard_cx.shard().id()] = shard_cx.db_size(); });
  for (uint64_t size : sizes) {
    if (size > 0) {
      return reply.Error("ERR CLUSTER RESET can't be called with master nodes containing keys");
    }
  }
  reply.Ok();
}

void Help(Args, ReplySink& reply) {
  ReplyHelp(reply, "CLUSTER",
            {"COUNTKEYSINSLOT <slot>",
             "    Return the number of keys in <slot>.",
             "GETKEYSINSLOT <slot> <count>",
             "    Return up to <count> keys of <slot>.",
             "INFO",
             "    Return what is known about the cluster.",
             "KEYSLOT <key>",
             "    Return the slot of <key>.",
             "LINKS",
             "    Return the links to other nodes; there are none.",
             "MYID",
             "    Return the id of this node.",
             "NODES",
             "    Return the nodes, which is this one, as text.",
             "REPLICAS <node-id>",
             "    Return the replicas of a node; there are none.",
             "RESET [HARD|SOFT]",
             "    Does nothing, and only without keys.",
             "SHARDS",
             "    Return the nodes with their slots.",
             "SLOTS",
             "    Return the slots."});
}

// The same, for whom emulation is on.
template <void (*kHandler)(Session&, Args, ReplySink&)>
void IfEmulated(CommandClient& client, Args args, ReplySink& reply) {
  auto& session = static_cast<Session&>(client);
  if (!IsEmulated(session.server)) return reply.Error(kErrDisabled);
  kHandler(session, args, reply);
}

void Ok(Session&, Args, ReplySink& reply) { reply.Ok(); }

CommandDocs Docs(std::string_view summary, std::string_view since,
                 std::string_view complexity = "O(1)") {
  return {summary, since, "cluster", complexity};
}

}  // namespace

void RegisterClusterCommands(CommandTable* table) {
  Command cluster = {.name = "cluster",
                     .arity = -2,
                     .docs = Docs("A container for commands of Redis Cluster.", "3.0.0",
                                  "Depends on subcommand.")};
  const auto look = [](std::string_view name, SessionHandler handler, int arity, CommandDocs docs,
                       std::string_view tips = {}) {
    return Command{.name = name,
                   .session = handler,
                   .arity = arity,
                   .flags = kStale,
                   .docs = docs,
                   .tips = tips};
  };
  static constexpr std::string_view kChanges = "nondeterministic_output";
  const auto replicas = [](std::string_view name, CommandDocs docs) {
    return Command{.name = name,
                   .session = IfEmulated<Replicas>,
                   .arity = 3,
                   .flags = kAdmin | kStale,
                   .docs = docs,
                   .tips = kChanges};
  };
  cluster.subcommands = {
      {.name = "countkeysinslot",
       .coordinate = CountKeysInSlot,
       .arity = 3,
       .flags = kStale,
       .docs = Docs("Counts the keys of a slot.", "3.0.0", "O(N), N keys of the database")},
      {.name = "getkeysinslot",
       .coordinate = GetKeysInSlot,
       .arity = 4,
       .flags = kStale,
       .docs = Docs("Returns keys of a slot.", "3.0.0", "O(N), N keys of the database"),
       .tips = kChanges},
      look("info", IfEmulated<Info>, 2, Docs("Tells what is known about the cluster.", "3.0.0"),
           kChanges),
      look("keyslot", IfEmulated<KeySlot>, 3, Docs("Returns the slot of a key.", "3.0.0")),
      look("links", IfEmulated<Links>, 2, Docs("Lists the links to other nodes.", "7.0.0"),
           kChanges),
      look("myid", IfEmulated<MyId>, 2, Docs("Returns the id of this node.", "3.0.0")),
      look("nodes", IfEmulated<Nodes>, 2, Docs("Lists the nodes as text.", "3.0.0"), kChanges),
      replicas("replicas", Docs("Lists replicas of a node.", "5.0.0")),
      {.name = "reset",
       .coordinate = Reset,
       .arity = -2,
       .flags = kAdmin | kStale | kNoScript,
       .docs = Docs("Does nothing, and only without keys.", "3.0.0")},
      look("shards", IfEmulated<Shards>, 2, Docs("Lists the nodes with their slots.", "7.0.0"),
           kChanges),
      replicas("slaves", {"Lists replicas of a node.", "3.0.0", "cluster", "O(1)", "5.0.0",
                          "`CLUSTER REPLICAS`"}),
      look("slots", IfEmulated<Slots>, 2,
           {"Lists the slots.", "3.0.0", "cluster", "O(1)", "7.0.0", "`CLUSTER SHARDS`"}, kChanges),
      HelpRow<Help>("5.0.0", "cluster"),
  };
  table->Add(std::move(cluster));
  const auto add_ok = [table](std::string_view name, std::string_view summary, uint32_t flags) {
    table->Add({.name = name,
                .session = IfEmulated<Ok>,
                .arity = 1,
                .flags = flags,
                .categories = kAclConnection,
                .docs = Docs(summary, "3.0.0")});
  };
  table->Add({.name = "clusterscan",
              .coordinate = ClusterScan,
              .arity = -2,
              .flags = kReadonly,
              .categories = kAclKeyspace,
              .docs = Docs("Walks over the keys of the cluster, some at a time.", "9.1.0",
                           "O(1) for each call; O(N) with SLOT, N keys of the database"),
              .tips = "nondeterministic_output request_policy:special response_policy:special"});
  add_ok("readonly", "Reads from a replica, if it is one.", kFast | kLoading | kStale);
  add_ok("readwrite", "Ends READONLY.", kFast | kLoading | kStale);
  add_ok("asking", "Announces what follows a redirection.", kFast);
}

}  // namespace dfly
