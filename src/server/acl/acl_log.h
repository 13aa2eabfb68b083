// SPDX-License-Identifier: Apache-2.0
// ACL LOG: what was refused, and failed logins. The newest first; what is the same within a minute
// is one entry that counts.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/acl/acl_user.h"

namespace dfly {

// The reasons of entries: "auth", "command", "key", "channel", "tls-cert" and "database". INFO
// counts them in this order.
inline constexpr size_t kAclRefusals = 6;

enum class AclContext : uint8_t { kToplevel, kMulti, kLua };

// Thread: any. A refusal is no hot path, so one mutex guards it; nobody suspends under it.
class AclLog {
 public:
  struct Entry {
    uint64_t id = 0;
    uint64_t count = 1;
    std::string_view reason;  // one of these
    AclContext context = AclContext::kToplevel;
    std::string object;  // the command's name, the key, the channel, or "AUTH"
    std::string user;
    std::string client;  // as CLIENT LIST shows it, when it happened for the last time
    int64_t created_ms = 0;
    int64_t updated_ms = 0;
  };
  static constexpr int64_t kGroupingMs = 60'000;
  // Bytes of one text: clients choose the names of keys, users and themselves.
  static constexpr size_t kTextMax = 1024;

  explicit AclLog(size_t entries_max) : entries_max_(entries_max) {}

  // `entry`: without id, count and times. Texts beyond kTextMax are cut.
  void Add(Entry entry, int64_t now_ms);
  std::vector<Entry> Newest(size_t count) const;
  void Reset();
  // How many of each kind since the start. CONFIG RESETSTAT leaves them, as in Redis.
  std::array<uint64_t, kAclRefusals> refusals() const;
  // --acllog_max_len.
  void SetMax(size_t entries_max);

 private:
  void Shrink();

  mutable std::mutex mutex_;
  std::list<Entry> entries_;
  size_t entries_max_;
  uint64_t next_id_ = 0;
  std::array<uint64_t, kAclRefusals> refusals_ = {};
};

std::string_view ReasonOf(AclDenial denial);

}  // namespace dfly
