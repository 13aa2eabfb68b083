// SPDX-License-Identifier: Apache-2.0
#include "server/meters/quota.h"

#include <fmt/format.h>

namespace dfly {

void Quota::SetLimits(const QuotaLimits& limits) {
  commands.SetRate(limits.commands);
  bytes.SetRate(limits.bytes);
  commands_max_.store(limits.commands, std::memory_order_relaxed);
  bytes_max_.store(limits.bytes, std::memory_order_relaxed);
  connections_max_.store(limits.connections, std::memory_order_relaxed);
  memory_max_.store(limits.memory, std::memory_order_relaxed);
  is_error_.store(limits.action == QuotaAction::kError, std::memory_order_relaxed);
}

QuotaLimits Quota::limits() const {
  return {.commands = commands_max_.load(std::memory_order_relaxed),
          .bytes = bytes_max_.load(std::memory_order_relaxed),
          .connections = connections_max(),
          .memory = memory_max(),
          .action = is_error() ? QuotaAction::kError : QuotaAction::kDelay};
}

void Quota::ResetStats() {
  counters.delayed.store(0, std::memory_order_relaxed);
  counters.refused.store(0, std::memory_order_relaxed);
  counters.refused_connections.store(0, std::memory_order_relaxed);
  counters.refused_writes.store(0, std::memory_order_relaxed);
  counters.evicted.store(0, std::memory_order_relaxed);
}

bool Quota::TakePlace() {
  const int64_t before = connections.fetch_add(1, std::memory_order_relaxed);
  const uint64_t most = connections_max();
  if (most == 0 || before < static_cast<int64_t>(most)) return true;
  GivePlace();
  return false;
}

std::string Quota::Name() const {
  return owner.is_user() ? fmt::format("user '{}'", owner.user)
                         : fmt::format("database {}", owner.db_index);
}

QuotaTableRef MakeQuotaTable(const QuotaSettings& settings, const QuotaTableRef& before) {
  auto table = std::make_shared<QuotaTable>();
  for (const auto& [owner, limits] : settings.all) {
    std::shared_ptr<Quota>& quota = (*table)[owner];
    if (before != nullptr) {
      if (const auto it = before->find(owner); it != before->end()) quota = it->second;
    }
    if (quota == nullptr) quota = std::make_shared<Quota>(owner);
    quota->SetLimits(limits);
  }
  return table;
}

}  // namespace dfly
