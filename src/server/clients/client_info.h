// SPDX-License-Identifier: Apache-2.0
// What CLIENT LIST tells about a client.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dfly {

class Session;

inline constexpr std::string_view kErrClientName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

// True if CLIENT LIST can show `text`: no blanks, no control characters. Empty is fine.
bool IsValidClientText(std::string_view text);

struct ClientInfo {
  uint64_t id = 0;
  std::string address;
  std::string local_address;
  int fd = -1;
  std::string name;
  uint64_t age_s = 0;
  uint64_t idle_s = 0;
  bool is_unix = false;
  bool no_evict = false;
  bool no_touch = false;
  bool closes_soon = false;
  bool is_replica = false;
  bool is_subscribed = false;
  bool is_monitor = false;
  bool is_blocked = false;  // waits for a key
  bool is_primary = false;  // of this server
  bool tracks = false;
  bool has_broken_redirect = false;
  bool tracks_prefixes = false;
  int64_t redirect = -1;
  int64_t multi_commands = -1;  // queued; -1: none, as there is no MULTI
  uint64_t multi_bytes = 0;
  uint64_t watched_keys = 0;
  uint64_t channels = 0;
  uint64_t patterns = 0;
  uint64_t shard_channels = 0;
  int db_index = 0;
  uint64_t input_bytes = 0;
  uint64_t input_free_bytes = 0;
  uint64_t reply_buffer_bytes = 0;
  uint64_t reply_slots = 0;
  uint64_t unsent_bytes = 0;
  uint64_t memory_bytes = 0;
  std::string command;  // "client|list"; empty: none yet
  std::string user;
  bool resp3 = false;
  std::string lib_name;
  std::string lib_version;
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  uint64_t commands = 0;  // before the one that runs
};

// Thread: the session's.
ClientInfo InfoOfClient(const Session& session, uint64_t now_ns);
// Those of Redis and Valkey, not all of which are set here.
inline constexpr std::string_view kClientFlags = "bcdeirtuxABEIMNOPRSTU";
// "N", or a letter for each of what is not usual about it.
std::string FlagsOf(const ClientInfo& info);
// One line with the fields of Redis 8 in its order, with its line end.
std::string FormatClient(const ClientInfo& info);

}  // namespace dfly
