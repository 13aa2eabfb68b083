// SPDX-License-Identifier: Apache-2.0
// WAIT WAITAOF: until what was written is on replicas, or on disks.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "helio/fibers/sync.h"
#include "server/commands/families.h"
#include "server/dispatch/blocking.h"
#include "server/persistence/append_log.h"
#include "server/replication/primary_link.h"
#include "server/replication/replicas.h"
#include "server/run/server.h"

namespace dfly {

namespace {

constexpr std::string_view kErrNotZeroOrOne =
    "ERR value is out of range, value must between 0 and 1";
constexpr std::string_view kErrNotPositive = "ERR value is out of range, must be positive";
constexpr std::string_view kErrNoLog =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

constexpr std::string_view kErrWaitOnReplica =
    "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a "
    "replica is configured to be writable (which is not the default) writes to replicas are just "
    "local and are not propagated.";
constexpr std::string_view kErrWaitAofOnReplica =
    "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas "
    "are just local and are not propagated.";

std::optional<int64_t> ParseTimeout(CoordinatorContext& cx, std::string_view text,
                                    ReplySink& reply) {
  const std::optional<int64_t> timeout_ms = ParseInt64(text);
  if (!timeout_ms) {
    reply.Error(kErrTimeoutNotInteger);
  } else if (*timeout_ms > INT64_MAX - cx.now_ms()) {
    reply.Error(kErrTimeoutOutOfRange);
  } else if (*timeout_ms < 0) {
    reply.Error(kErrTimeoutNegative);
  } else {
    return timeout_ms;
  }
  return std::nullopt;
}

BlockingForm FormOf(void (*reply_nothing)(ReplySink& reply)) {
  return {.parse = nullptr,
          .type = ValueType::kString,
          .take = nullptr,
          .reply_nothing = reply_nothing,
          .take_across = nullptr};
}

// What a call knows of the replicas, which are proactor 0's.
class ReplicasWait {
 public:
  explicit ReplicasWait(CoordinatorContext& cx) : proactor_(*cx.shards().pool().at(0)) {}

  // From now on `on_end` may be called, on proactor 0, when so many replicas have all that was done
  // before; with `is_durable`, on their disks. End has to follow. False: they have it already, and
  // it is not called. Suspends.
  bool Begin(uint64_t wanted, bool is_durable, std::function<void()> on_end) {
    return proactor_.Await([&] {
      wait_.wanted = wanted;
      wait_.is_durable = is_durable;
      wait_.on_end = std::move(on_end);
      return Server::Here().replicas().waits().Begin(&wait_);
    });
  }
  // How many have. Suspends.
  uint64_t End() {
    return proactor_.Await([this] { return Server::Here().replicas().waits().End(&wait_); });
  }

 private:
  helio::Proactor& proactor_;
  AckWaits::Wait wait_;
};

// WAIT numreplicas timeout. For all that was done before, whoever did it. Suspends.
void Wait(CoordinatorContext& cx, Args args, ReplySink& reply) {
  using End = ClientWait::End;
  if (Server::Here().primary_link().is_known_replica()) return reply.Error(kErrWaitOnReplica);
  const std::optional<int64_t> replicas = ParseInt64(args[1]);
  if (!replicas) return reply.Error(kErrNotInteger);
  const std::optional<int64_t> timeout_ms = ParseTimeout(cx, args[2], reply);
  if (!timeout_ms) return;
  const auto wanted = static_cast<uint64_t>(std::max<int64_t>(*replicas, 0));
  const bool may_wait = cx.outer() == nullptr && !cx.is_scripted();
  ReplicasWait wait(cx);
  if (!may_wait) {
    wait.Begin(UINT64_MAX, false, nullptr);
    return reply.Integer(static_cast<int64_t>(wait.End()));
  }
  const BlockingForm form = FormOf(nullptr);
  BlockingCall call = {.keys = {}, .timeout_ms = *timeout_ms};
  BlockedCommand command(cx, form, args, &call);
  End how = End::kNone;
  if (wait.Begin(wanted, false, [&command] { command.Wake(); })) how = command.Wait();
  const uint64_t count = wait.End();
  if (how == End::kUnblockedWithError || how == End::kDenied) return command.ReplyTo(how, reply);
  reply.Integer(static_cast<int64_t>(count));
}

// What a call of WAITAOF knows of the log, which is proactor 0's.
class DiskWait {
 public:
  enum class State : uint8_t { kOff, kNotSynced, kSynced };

  explicit DiskWait(CoordinatorContext& cx) : proactor_(*cx.shards().pool().at(0)) {}

  // Of all that was done before. Suspends.
  State Look() {
    return proactor_.Await([] {
      const AppendLog& log = Server::Here().append_log();
      if (!log.is_on()) return State::kOff;
      return log.is_synced() ? State::kSynced : State::kNotSynced;
    });
  }
  // From now on `on_end` may be called, on proactor 0, when that is on the disk, or the log is off.
  // End has to follow. Suspends.
  void Begin(std::function<void()> on_end) {
    proactor_.Await([&] {
      wait_.on_end = std::move(on_end);
      Server::Here().append_log().BeginWait(&wait_);
    });
  }
  // What became of it. Suspends.
  State End() {
    return proactor_.Await([this] {
      const bool is_synced = Server::Here().append_log().EndWait(&wait_);
      if (wait_.is_off) return State::kOff;
      return is_synced ? State::kSynced : State::kNotSynced;
    });
  }
  // The log is off. On proactor 0.
  bool is_off() const { return wait_.is_off; }

 private:
  helio::Proactor& proactor_;
  AppendLog::SyncWait wait_;
};

void ReplyCounts(DiskWait::State state, uint64_t replicas, ReplySink& reply) {
  reply.Array(2);
  reply.Integer(state == DiskWait::State::kSynced ? 1 : 0);
  reply.Integer(static_cast<int64_t>(replicas));
}

// WAITAOF numlocal numreplicas timeout. It waits for all that was done before, whoever did it: for
// what this client has read, too. Suspends.
void WaitAof(CoordinatorContext& cx, Args args, ReplySink& reply) {
  using State = DiskWait::State;
  using End = ClientWait::End;
  const std::optional<int64_t> local = ParseInt64(args[1]);
  if (!local) return reply.Error(kErrNotInteger);
  if (*local < 0 || *local > 1) return reply.Error(kErrNotZeroOrOne);
  const std::optional<int64_t> replicas = ParseInt64(args[2]);
  if (!replicas || *replicas < 0) return reply.Error(kErrNotPositive);
  const std::optional<int64_t> timeout_ms = ParseTimeout(cx, args[3], reply);
  if (!timeout_ms) return;

  if (Server::Here().primary_link().is_known_replica()) {
    return reply.Error(kErrWaitAofOnReplica);
  }
  const bool needs_log = *local > 0;
  const auto wanted = static_cast<uint64_t>(*replicas);
  const bool may_wait = cx.outer() == nullptr && !cx.is_scripted();
  DiskWait disk(cx);
  ReplicasWait others(cx);
  State state = disk.Look();
  if (state == State::kOff && needs_log) return reply.Error(kErrNoLog);

  const BlockingForm form = FormOf(nullptr);
  BlockingCall call = {.keys = {}, .timeout_ms = *timeout_ms};
  BlockedCommand command(cx, form, args, &call);
  // Both are told on proactor 0: the later one wakes the command.
  bool is_synced = !needs_log || state == State::kSynced;
  bool has_replicas = false;
  const bool waits = others.Begin(may_wait ? wanted : UINT64_MAX, true, [&] {
    has_replicas = true;
    if (is_synced) command.Wake();
  });
  if (!waits) has_replicas = true;
  End how = End::kNone;
  if (may_wait && (waits || !is_synced)) {
    const bool waits_for_disk = !is_synced;
    if (waits_for_disk) {
      disk.Begin([&] {
        is_synced = true;
        if (has_replicas || disk.is_off()) command.Wake();
      });
    }
    how = command.Wait();
    if (waits_for_disk) state = disk.End();
  }
  const uint64_t acked = others.End();
  if (how == End::kUnblockedWithError || how == End::kDenied) return command.ReplyTo(how, reply);
  if (state == State::kOff && needs_log) return reply.Error(kErrNoLog);
  ReplyCounts(state, acked, reply);
}

}  // namespace

void RegisterWaitCommands(CommandTable* table) {
  table->Add(
      {.name = "wait",
       .coordinate = Wait,
       .arity = 3,
       .flags = kBlocking,
       .categories = kAclConnection,
       .docs = {"Waits until replicas have what was written before.", "3.0.0", "generic", "O(1)"},
       .tips = "request_policy:all_shards response_policy:agg_min"});
  table->Add(
      {.name = "waitaof",
       .coordinate = WaitAof,
       .arity = 4,
       .flags = kBlocking,
       .categories = kAclConnection,
       .docs = {"Waits until what was written before is on the disk, and on those of replicas.",
                "7.2.0", "generic", "O(1)"},
       .tips = "request_policy:all_shards response_policy:agg_min"});
}

}  // namespace dfly
