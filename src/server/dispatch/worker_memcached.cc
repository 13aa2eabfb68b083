// SPDX-License-Identifier: Apache-2.0
// The worker's part of memcached's protocol.
#include "engine/hops/coordinator.h"
#include "helio/base/clock.h"
#include "server/clients/server_state.h"
#include "server/dispatch/worker.h"

namespace dfly {

CommandSink::Outcome Worker::OnMemcached(Connection* connection, MemcachedOp op,
                                         std::span<const std::string_view> args) {
  return Dispatch(connection, SessionOf(connection), server_.memcached_rows.row(op), Args(args));
}

void Worker::FlushMemcached(CoordinatorContext& cx) {
  const std::string_view words[] = {"flushdb", "ASYNC"};
  helio::IoBuf out;
  RespWriter ignored(&out);  // with these words it has nothing to refuse
  cx.set_command(EffectRule::kOwn, words);
  commands_.FindByName("flushdb")->coordinate(cx, Args(words), ignored);
  cx.set_command(EffectRule::kNone, {});
}

void Worker::ScheduleMemcachedFlush(int64_t after_ms) {
  memcached_flush_timer_.Disarm();
  if (after_ms <= 0) return;
  memcached_flush_timer_.ArmIn(static_cast<uint64_t>(after_ms) * 1'000'000);
}

void Worker::OnMemcachedFlush() {
  state_.RunOnFiber("memcached_flush", [this] {
    const uint16_t gate = server_.settings.gate.load(std::memory_order_relaxed);
    if ((gate & Settings::kPromotesGate) != 0) return ScheduleMemcachedFlush(1);
    // A replica gets it from its primary.
    if ((gate & Settings::kReadOnlyGate) != 0) return;
    LetIn let_in;
    state_.let_in.PushBack(&let_in);
    CoordinatorContext cx(&shards_, nullptr, 0, helio::UnixMillis());
    FlushMemcached(cx);
  });
}

}  // namespace dfly
