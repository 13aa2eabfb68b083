// SPDX-License-Identifier: Apache-2.0
// The Sentinels that watch this server, as they say it themselves. Sentinel calls its connection
// for commands "sentinel-<8 digits of its id>-cmd", and publishes on it every two seconds
//
//   <ip>,<port>,<id>,<epoch>,<name of the group>,<primary's host>,<primary's port>,<its epoch>
//
// (redis.io, "Sentinels and replicas auto discovery"). After a failover these name another primary.
//
// Thread: that of the session. Suspends: never.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "commands/table/command_table.h"
#include "server/clients/session.h"

namespace dfly {

inline constexpr std::string_view kSentinelHelloChannel = "__sentinel__:hello";

// Of the digits. Empty: it is none.
std::string_view SentinelIdOf(const Session& session);

// `args` publish to that channel.
void NoteSentinelHello(Session& session, Args args);

// What a server tells others as its address, if it does (replica-announce-ip, -port).
struct AnnouncedAddress {
  std::string ip;
  uint16_t port = 0;
};

// The last hello names the server that the Sentinel is connected to. A host that is no IP address
// cannot be compared: then the port counts.
bool NamesThisServer(const Session& session, const AnnouncedAddress& announced);

}  // namespace dfly
