// SPDX-License-Identifier: Apache-2.0
#include "server/clients/server_state.h"

#include <algorithm>
#include <utility>

#include "engine/hops/late_locks.h"
#include "engine/hops/shard_set.h"
#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "server/acl/acl_store.h"
#include "server/base/huge_page_care.h"
#include "server/base/random_id.h"
#include "server/base/waits.h"
#include "server/clients/audit_log.h"

namespace dfly {

// --- What all clients take ---

uint64_t ClientMemory::Limit(uint64_t maxmemory) const {
  const uint32_t percent = limit_percent.load(std::memory_order_relaxed);
  const uint64_t limit =
      percent == 0 ? limit_bytes.load(std::memory_order_relaxed) : maxmemory / 100 * percent;
  return limit == 0 ? 0 : std::max(limit, kLeastLimit);
}

uint64_t ClientMemory::UsedBytes() const {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < threads; ++i) sum += used_by[i].bytes.load(std::memory_order_relaxed);
  return sum;
}

// --- Connections ---

Moves::Ban::Ban(Moves* moves) : moves_(*moves) {
  moves_.bans_.fetch_add(1);
  while (moves_.moves_.load() > 0) {
    const helio::BoundedWait wait(kMoves);
    helio::this_fiber::SleepUntil(helio::MonotonicNanos() + 50'000);
  }
}

void ConnectionCounts::Count(int change, bool is_admin) {
  const auto add = static_cast<uint64_t>(int64_t{change});
  all_.fetch_add(add, std::memory_order_relaxed);
  if (is_admin) admin_.fetch_add(add, std::memory_order_relaxed);
}

uint32_t ConnectionCounts::Accept(bool is_admin) {
  Count(1, is_admin);
  const auto least = std::min_element(by_thread_.begin(), by_thread_.end());
  ++*least;
  return static_cast<uint32_t>(least - by_thread_.begin());
}

void ConnectionCounts::OnInner(uint32_t thread, bool is_admin) {
  Count(1, is_admin);
  pool_.at(0)->Dispatch([this, thread] { ++by_thread_[thread]; });
}

void ConnectionCounts::OnClosed(uint32_t thread, bool is_admin) {
  Count(-1, is_admin);
  pool_.at(0)->Dispatch([this, thread] { --by_thread_[thread]; });
}

void ConnectionCounts::OnMoved(uint32_t from, uint32_t to) {
  pool_.at(0)->Dispatch([this, from, to] {
    --by_thread_[from];
    ++by_thread_[to];
  });
}

// --- ServerState ---

ServerState::ServerState(ServerOptions its_options)
    : options(std::move(its_options)),
      start_time_ms(helio::UnixMillis()),
      run_id(RandomId()),
      memory(&settings.maxmemory, options.threads),
      huge_pages(std::make_unique<HugePageCare>(options.huge_pages)),
      scripts(options.default_lua_flags, options.lua_auto_async),
      functions(options.default_lua_flags, options.lua_auto_async),
      upgrade(std::make_unique<Upgrade>()),
      pool({.threads = options.threads,
            .force_epoll = options.force_epoll,
            .slice_us = options.thread_slice_us}),
      client_memory(options.threads),
      monitor_loads(std::make_unique<MonitorLoad[]>(options.threads)),
      eviction_hints(std::make_unique<EvictionHint[]>(options.threads)) {
  client_memory.Set(options.maxmemory_clients);
}

ServerState::~ServerState() = default;

}  // namespace dfly
