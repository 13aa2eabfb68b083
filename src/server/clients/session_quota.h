// SPDX-License-Identifier: Apache-2.0
// What a session has to do with quotas, and a thread's part of one. server/quotas/quotas.h tells
// how they belong together.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "helio/base/intrusive_list.h"
#include "server/meters/quota.h"

namespace dfly {

class Session;
struct QuotaSeat;
struct SessionQuota;

// Owner: a thread's Quotas.
struct QuotaShare {
  explicit QuotaShare(std::shared_ptr<Quota> its_quota) : quota(std::move(its_quota)) {}

  const std::shared_ptr<Quota> quota;
  int64_t commands = 0;                        // tokens that are left
  int64_t bytes = 0;                           // the same
  helio::IntrusiveList<SessionQuota> waiting;  // for tokens, in their order
  helio::IntrusiveList<QuotaSeat> unpaid;      // have gone on; their replies may not be paid for
  // Of Quota::memory, what was told: of a user by this thread, of a database by each of its shards.
  std::vector<int64_t> told_bytes;
};

// A session's part in one share; if it has one of bytes, the hook is that of its `unpaid`.
struct QuotaSeat : helio::ListHook<> {
  explicit QuotaSeat(SessionQuota* its_session) : its(*its_session) {}

  SessionQuota& its;
  QuotaShare* share = nullptr;  // null: there is no quota
  bool has_place = false;
};

// Owner: a thread's Quotas.
struct SessionQuota : helio::ListHook<> {
  static constexpr uint64_t kNone = UINT64_MAX;

  Session* session = nullptr;
  QuotaSeat user{this};
  QuotaSeat db{this};
  QuotaShare* waits_for = nullptr;  // in whose list it is
  // A command is known by the bytes before it (Connection::executed_bytes): one that comes again,
  // as it had to wait for something, is counted once.
  uint64_t charged_at = kNone;
  uint64_t delayed_at = kNone;
  uint64_t charged_bytes = 0;  // received and sent, up to there
  bool skips_bytes = false;    // of a command that was refused
};

}  // namespace dfly
