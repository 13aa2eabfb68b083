// SPDX-License-Identifier: Apache-2.0
#include "server/clients/client_info.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/clients/client_limiter.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"

namespace dfly {

bool IsValidClientText(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '!' && c <= '~'; });
}

namespace {

bool IsUnix(const Session& session) {
  const std::string& path = session.server.options.unix_socket;
  return !path.empty() && session.local_address.starts_with(path);
}

}  // namespace

ClientInfo InfoOfClient(const Session& session, uint64_t now_ns) {
  const Connection& connection = session.connection;
  const auto seconds_since = [now_ns](uint64_t then_ns) {
    return then_ns < now_ns ? (now_ns - then_ns) / 1'000'000'000 : 0;
  };
  const auto subscribed_to = [&session](ChannelKind kind) -> uint64_t {
    return session.subscriptions == nullptr ? 0 : session.subscriptions->size(kind);
  };
  const Multi* const multi = session.executing != nullptr ? session.executing : session.multi.get();
  const uint64_t multi_bytes = multi == nullptr ? 0 : multi->memory_used();
  const TrackingState* const tracking = session.tracking.get();
  return {
      .id = connection.id(),
      .address = session.peer_address,
      .local_address = session.local_address,
      .fd = connection.socket().fd(),
      .name = session.name,
      .age_s = seconds_since(connection.created_ns()),
      .idle_s = seconds_since(connection.last_active_ns()),
      .is_unix = IsUnix(session),
      .no_evict = session.no_evict,
      .no_touch = session.no_touch,
      .closes_soon = session.close_after_reply || connection.closing(),
      .is_replica = session.feed != nullptr,
      .is_subscribed = session.is_subscribed(),
      .is_monitor = session.monitor != Session::Monitor::kNo,
      .is_blocked = session.blocked != nullptr || connection.held(),
      .is_primary = session.primary != nullptr,
      .tracks = tracking != nullptr,
      .has_broken_redirect = tracking != nullptr && tracking->is_broken,
      .tracks_prefixes = tracking != nullptr && tracking->is_broadcast,
      .redirect = tracking == nullptr ? -1 : static_cast<int64_t>(tracking->redirect),
      .multi_commands = multi == nullptr ? -1 : static_cast<int64_t>(multi->items().size()),
      .multi_bytes = multi_bytes,
      .watched_keys = session.watches.keys.size(),
      .channels = subscribed_to(ChannelKind::kChannel),
      .patterns = subscribed_to(ChannelKind::kPattern),
      .shard_channels = subscribed_to(ChannelKind::kShard),
      .db_index = session.db_index,
      .input_bytes = connection.input_bytes(),
      .input_free_bytes = connection.input_free_bytes(),
      .reply_buffer_bytes = connection.reply_buffer_bytes(),
      .reply_slots = connection.replies().slots(),
      .unsent_bytes = connection.unsent_bytes(),
      .memory_bytes = MemoryOf(session),
      .command = session.last_command == nullptr ? "" : session.last_command->full_name,
      .user = session.user.name,
      .resp3 = session.resp3,
      .lib_name = session.lib_name,
      .lib_version = session.lib_version,
      .received_bytes = connection.executed_bytes() + connection.input_bytes(),
      .sent_bytes = connection.sent_bytes(),
      .commands = session.commands,
  };
}

std::string FlagsOf(const ClientInfo& info) {
  std::string flags;
  if (info.is_replica) flags += 'S';
  if (info.is_monitor) flags += 'O';
  if (info.is_primary) flags += 'M';
  if (info.is_subscribed) flags += 'P';
  if (info.multi_commands >= 0) flags += 'x';
  if (info.is_blocked) flags += 'b';
  if (info.tracks) flags += 't';
  if (info.has_broken_redirect) flags += 'R';
  if (info.tracks_prefixes) flags += 'B';
  if (info.closes_soon) flags += 'c';
  if (info.is_unix) flags += 'U';
  if (info.no_evict) flags += 'e';
  if (info.no_touch) flags += 'T';
  if (flags.empty()) flags += 'N';
  return flags;
}

std::string FormatClient(const ClientInfo& info) {
  return fmt::format(
      "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} "
      "multi={} watch={} qbuf={} qbuf-free={} argv-mem=0 multi-mem={} rbs={} rbp={} obl=0 oll={} "
      "omem={} "
      "tot-mem={} events={} cmd={} user={} redir={} resp={} lib-name={} lib-ver={} "
      "tot-net-in={} tot-net-out={} tot-cmds={}\n",
      info.id, info.address, info.local_address, info.fd, info.name, info.age_s, info.idle_s,
      FlagsOf(info), info.db_index, info.channels, info.patterns, info.shard_channels,
      info.multi_commands, info.watched_keys, info.input_bytes, info.input_free_bytes,
      info.multi_bytes, info.reply_buffer_bytes, info.reply_buffer_bytes, info.reply_slots,
      info.unsent_bytes, info.memory_bytes, info.unsent_bytes > 0 ? "rw" : "r",
      info.command.empty() ? "NULL" : info.command, info.user, info.redirect, info.resp3 ? 3 : 2,
      info.lib_name, info.lib_version, info.received_bytes, info.sent_bytes, info.commands);
}

}  // namespace dfly
