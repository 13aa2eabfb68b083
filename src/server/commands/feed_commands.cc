// SPDX-License-Identifier: Apache-2.0
// What a replica says to its primary: PSYNC SYNC REPLCONF.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "helio/base/ascii.h"
#include "helio/base/logging.h"
#include "server/base/words.h"
#include "server/clients/session.h"
#include "server/commands/families.h"
#include "server/replication/failover.h"
#include "server/replication/peer_host.h"
#include "server/replication/primary_link.h"
#include "server/replication/replicas.h"
#include "server/run/server.h"

namespace dfly {

namespace {

constexpr size_t kHostMax = 255;

ReplicaOffer& OfferOf(Session& session) {
  if (session.replica_offer == nullptr) session.replica_offer = std::make_unique<ReplicaOffer>();
  return *session.replica_offer;
}

// Without the port, and the brackets of IPv6.
std::string HostOf(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

// The primary that this server follows hands its role over, to this one (FAILOVER). On proactor 0.
void TakeRole(Replica& replica) {
  Server& server = Server::Here();
  PrimaryLink& link = server.primary_link();
  if (!link.is_replica()) {
    replica.refusal = "ERR PSYNC FAILOVER can't be sent to a master.";
  } else if (!helio::EqualsIgnoreCase(replica.wanted_id, link.ids().id)) {
    replica.refusal = "ERR PSYNC FAILOVER replid must match my replid.";
  } else {
    LOG(INFO) << "the primary hands its role over to this server";
    link.Leave();
    server.config().Note("replicaof", "");
  }
}

void Follow(Session& session, std::shared_ptr<Replica> replica, ReplySink& reply,
            bool takes_role = false) {
  if (session.feed != nullptr) return;  // it gets the stream already
  // What is pushed to it would stand in the middle of the stream.
  if (session.is_subscribed() || session.tracking != nullptr ||
      session.monitor != Session::Monitor::kNo) {
    return reply.Error(
        "ERR Can't SYNC a client that is subscribed, monitors, or tracks keys: send RESET first");
  }
  if (Server::Here().failover().is_under_way() && !takes_role) {
    return reply.Error("NOMASTERLINK Can't SYNC while failing over");
  }
  const PrimaryLink& link = Server::Here().primary_link();
  if (takes_role) {
    // Before the feed's request, which goes the same way.
    Server::Here().state().pool.at(0)->Dispatch([replica] { TakeRole(*replica); });
  } else if (link.is_known_replica() && !link.is_linked()) {
    return reply.Error("NOMASTERLINK Can't SYNC while not connected with my master");
  }
  replica->offer = OfferOf(session);
  replica->is_process = session.user.is_process;
  if (!replica->offer.wants_keys && !replica->offer.has_eof) {
    return reply.Error("ERR Filtered replica requires EOF capability");
  }
  replica->ip = replica->offer.announced_ip.empty() ? HostOf(session.peer_address)
                                                    : replica->offer.announced_ip;
  session.feed = Server::Here().replicas().NewFeed(&session, replica);
}

// PSYNC replicationid offset [FAILOVER]. Its replies are the feed's.
void Psync(Session& session, Args args, ReplySink& reply) {
  const std::optional<int64_t> offset = ParseInt64(args[2]);
  if (!offset) return reply.Error(kErrNotInteger);
  const bool takes_role = args.size() > 3 && IsWord(args[3], "failover");
  if (takes_role && !Server::Here().primary_link().is_known_replica()) {
    return reply.Error("ERR PSYNC FAILOVER can't be sent to a master.");
  }
  auto replica = std::make_shared<Replica>();
  replica->wanted_id = args[1];
  replica->wanted_offset = *offset;
  Follow(session, std::move(replica), reply, takes_role);
}

void Sync(Session& session, Args, ReplySink& reply) {
  auto replica = std::make_shared<Replica>();
  replica->is_old_command = true;
  Follow(session, std::move(replica), reply);
}

// Which parts of the data a copy is to have: the words; none: nothing at all. As what follows.
std::string TakeFilter(ReplicaOffer* offer, std::string_view words) {
  offer->wants_keys = offer->wants_functions = false;
  for (const std::string_view word : SplitWords(words)) {
    if (!IsWord(word, "functions")) {
      return fmt::format("ERR Unsupported rdb-filter-only option: {}", Printed(word));
    }
    offer->wants_functions = true;
  }
  return "";
}

// An error, or nothing.
std::string Take(ReplicaOffer* offer, std::string_view name, std::string_view value) {
  if (IsWord(name, "listening-port")) {
    const std::optional<int64_t> port = ParseInt64(value);
    if (!port || *port < 0 || *port > UINT16_MAX) return std::string(kErrNotInteger);
    offer->port = static_cast<uint16_t>(*port);
  } else if (IsWord(name, "ip-address")) {
    if (value.size() > kHostMax) {
      return fmt::format(
          "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
          value.size());
    }
    if (!value.empty() && !IsPeerHost(value)) return "ERR Invalid REPLCONF ip-address";
    offer->announced_ip = value;
  } else if (IsWord(name, "capa")) {
    // Others are for what this server does not offer.
    if (IsWord(value, "eof")) offer->has_eof = true;
    if (IsWord(value, "psync2")) offer->has_psync2 = true;
  } else if (IsWord(name, "rdb-only")) {
    if (value != "0" && value != "1") {
      return "ERR value is out of range, value must between 0 and 1";
    }
    offer->is_rdb_only = value == "1";
  } else if (IsWord(name, "rdb-filter-only")) {
    return TakeFilter(offer, value);
  } else if (!IsWord(name, "version") && !IsWord(name, "dragonfly")) {
    return fmt::format("ERR Unrecognized REPLCONF option: {}", Printed(name));
  }
  return "";
}

// REPLCONF ACK offset [FACK offset]. It has no reply.
void Ack(Session& session, Args args) {
  if (session.feed == nullptr) return;
  const std::optional<int64_t> offset = ParseInt64(args[2]);
  if (!offset || *offset < 0) return;
  std::optional<uint64_t> durable;
  if (args.size() > 4 && IsWord(args[3], "fack")) {
    if (const auto fack = ParseInt64(args[4]); fack && *fack >= 0) {
      durable = static_cast<uint64_t>(*fack);
    }
  }
  static_cast<ReplicaFeed&>(*session.feed).OnAck(static_cast<uint64_t>(*offset), durable);
}

void ReplConf(Session& session, Args args, ReplySink& reply) {
  if (args.size() % 2 == 0) return reply.Error(kErrSyntax);
  for (size_t i = 1; i < args.size(); i += 2) {
    if (IsWord(args[i], "ack")) return Ack(session, args.from(i - 1));
    if (IsWord(args[i], "getack")) return;  // a primary's, to its replica
    const std::string error = Take(&OfferOf(session), args[i], args[i + 1]);
    if (!error.empty()) return reply.Error(error);
  }
  reply.Ok();
}

}  // namespace

void RegisterFeedCommands(CommandTable* table) {
  constexpr uint32_t kFollow = kAdmin | kNoScript | kNoAsyncLoading | kNoMulti | kBarrier;
  table->Add({.name = "psync",
              .session = ForSession<Psync>,
              .arity = -3,
              .flags = kFollow,
              .categories = kAclDangerous,
              .docs = {"Begins to send all changes to a replica, from an offset on.", "2.8.0",
                       "server", ""}});
  table->Add({.name = "sync",
              .session = ForSession<Sync>,
              .arity = 1,
              .flags = kFollow,
              .categories = kAclDangerous,
              .docs = {"Sends a copy of all data, and then all changes.", "1.0.0", "server", ""}});
  table->Add({.name = "replconf",
              .session = ForSession<ReplConf>,
              .arity = -1,
              .flags = kAdmin | kNoScript | kLoading | kStale | kAllowBusy,
              .categories = kAclDangerous,
              .docs = {"What replicas and primaries tell each other.", "3.0.0", "server", "O(1)"}});
}

}  // namespace dfly
