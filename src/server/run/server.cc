// SPDX-License-Identifier: Apache-2.0
#include "server/run/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "engine/hops/late_locks.h"
#include "engine/hops/shard_set.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/acl/acl_store.h"
#include "server/base/machine.h"
#include "server/care/shard_care.h"
#include "server/clients/audit_log.h"
#include "server/clients/listeners.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/dispatch/users.h"
#include "server/dispatch/worker.h"
#include "server/meters/quota.h"
#include "server/persistence/append_log.h"
#include "server/persistence/effect_stream.h"
#include "server/persistence/persistence.h"
#include "server/replication/failover.h"
#include "server/replication/primary_link.h"
#include "server/replication/replicas.h"
#include "server/replication/take_over_hold.h"

namespace dfly {

Server::Server(ServerOptions options, const ServerParts& parts)
    : state_(std::move(options)),
      tls_([this](const TlsContexts& contexts) {
        // A connection of a port that is gone may still be on its way to its thread.
        if (contexts.ports != nullptr) {
          AwaitOnAll<Worker>(state_, [&](Worker& worker) { worker.SetTlsContext(contexts.ports); });
        }
        state_.pool.at(0)->Await([&] { primary_link_->SetTlsContext(contexts.link); });
      }),
      persistence_(std::make_unique<Persistence>(&state_, state_.options.persistence)),
      stream_(std::make_unique<EffectStream>(&state_)),
      append_log_(std::make_unique<AppendLog>(&state_, persistence_.get(), stream_.get(),
                                              state_.options.log)),
      replicas_(std::make_unique<Replicas>(&state_, persistence_.get(), stream_.get(),
                                           append_log_.get(), state_.options.replication)),
      primary_link_(std::make_unique<PrimaryLink>(&state_, persistence_.get(), append_log_.get(),
                                                  replicas_.get(), state_.options.replication)),
      failover_(std::make_unique<Failover>(
          &state_, replicas_.get(), primary_link_.get(),
          [this](const std::string& primary) { config_.Note("replicaof", primary); })),
      take_over_hold_(std::make_unique<TakeOverHold>(&state_, replicas_.get(), append_log_.get())),
      on_sigint_(state_.options.on_sigint),
      on_sigterm_(state_.options.on_sigterm),
      shutdown_timeout_s_(state_.options.shutdown_timeout_s),
      config_(parts.settings, state_.options, &state_.settings, this) {
  CHECK_GT(state_.options.db_count, 0) << "ServerOptions without values; see DefaultOptions";
  state_.http = parts.http;
  if (parts.add_commands != nullptr) {
    parts.add_commands(&state_.commands, &state_.memcached_rows);
  }
  if (state_.options.add_commands) state_.options.add_commands(&state_.commands);
  SetQuotas(state_.options.quotas);
  state_.acl = std::make_unique<AclStore>(&state_.commands, state_.options.acl);
}

void Server::SetEviction(const EvictionSettings& eviction) {
  state_.memory.set_has_policy(eviction.evicts(state_.options.db_count));
  AwaitOnAll<ShardCare>(state_, [&eviction](ShardCare& care) { care.SetEviction(eviction); });
}

void Server::SetQuotas(const QuotaSettings& settings) {
  state_.quotas = MakeQuotaTable(settings, state_.quotas);
  const bool limits_databases = std::ranges::any_of(settings.all, [](const auto& entry) {
    return !entry.first.is_user() && entry.second.memory != 0;
  });
  state_.settings.limits_databases.store(limits_databases, std::memory_order_relaxed);
}

void Server::EvictToLimit() {
  constexpr uint64_t kMostNanos = 2'000'000'000;  // the rest is done in the background
  const uint64_t begin_ns = helio::MonotonicNanos();
  while (state_.memory.evicts() && state_.memory.is_over() &&
         helio::MonotonicNanos() - begin_ns < kMostNanos) {
    std::atomic<bool> has_room{false};
    const int64_t before = state_.memory.used();
    state_.shards->AwaitOnAll([&](Shard& shard) {
      if (ShardCare::Here().MakeRoom(shard, {})) has_room = true;
    });
    if (state_.memory.used() >= before && !state_.memory.is_beyond()) break;
    if (!has_room && state_.memory.used() >= before) break;
  }
}

uint64_t Server::UpdatePeakMemory(uint64_t used_bytes) {
  uint64_t peak = peak_memory_bytes_.load(std::memory_order_relaxed);
  while (used_bytes > peak &&
         !peak_memory_bytes_.compare_exchange_weak(peak, used_bytes, std::memory_order_relaxed)) {
  }
  return std::max(peak, used_bytes);
}

void Server::SetMaxBulkLen(size_t bytes) {
  state_.shards->SetStringMax(bytes);
  AwaitOnAllSessions<WorkerState>(state_, [bytes](WorkerState& worker) {
    worker.ForEachSession([bytes](Session& session) { session.connection.SetMaxBulkLen(bytes); });
  });
}

Server::~Server() { Stop(); }

std::string Server::Start() {
  if (std::string error = state_.acl->LoadOptions(); !error.empty()) {
    return "Aborting startup because of ACL errors: " + error;
  }
  if (const std::string& path = state_.options.audit_log; !path.empty()) {
    state_.audit =
        std::make_unique<AuditLog>(path, state_.options.audit_buffer_limit, state_.commands);
    if (std::string error = state_.audit->Open(); !error.empty()) return "--audit_log: " + error;
  }
  state_.pool.Start();
  const uint32_t num_shards =
      state_.options.num_shards != 0 ? state_.options.num_shards : state_.options.threads;
  state_.shards = std::make_unique<ShardSet>(
      &state_.pool, num_shards, state_.options.db_count, state_.options.limits.parser.max_bulk_len,
      state_.options.tag_rules, state_.options.placement_rules);
  SetValueSizes(state_.options.value_sizes);
  workers_.resize(state_.pool.size());
  state_.pool.AwaitOnAll([this](helio::Proactor* proactor) {
    here_ = this;
    auto& worker = workers_[proactor->index()];
    worker = std::make_unique<Worker>(&state_, proactor);
    Users::Here().SetIdleTimeout(state_.options.idle_timeout_s);
    Users::Here().OnChanged();
  });
  state_.shards->set_after_flush_all(
      [this] { state_.pool.at(0)->Dispatch([this] { persistence_->SaveAfterFlush(); }); });
  if (state_.options.schedule_seed != 0) {
    CHECK_EQ(state_.options.threads, 1u);
    state_.shards->set_post_hook(
        [](ShardId, helio::Message* message) { WorkerState::Here().shuffle->Add(message, 0); });
  }
  SetEviction(state_.options.eviction);
  std::string error;
  state_.pool.at(0)->AwaitFiber("find snapshot", [&] {
    const bool takes_over = !state_.options.take_over.empty();  // also the data
    const bool has_log = state_.options.log.is_on && !takes_over;
    if (has_log) error = append_log_->Find();
    if (error.empty() && !append_log_->has_log() && !takes_over) {
      error = persistence_->FindSnapshot();
    }
    if (has_log) {
      persistence_->SetLoad([this](LoadProgress* progress) { return LoadLog(progress); });
    } else if (persistence_->has_snapshot()) {
      persistence_->SetLoad([this](LoadProgress*) { return LoadSnapshot(); });
    }
    persistence_->UpdateGate();  // before there is a client
    replicas_->BeginSync();
  });
  // With the threads that the files have needed, and before any client needs something.
  resident_at_start_ = ReadResidentMemory(state_);
  resident_at_start_.rss -= state_.acl->memory_used();  // they count for themselves
  base_memory_bytes_ = resident_at_start_.rss - resident_at_start_.files;
  state_.memory.Add(static_cast<int64_t>(base_memory_bytes_), 0);
  for (const auto& [name, to] : state_.options.renamed_commands) {
    if (!error.empty()) break;
    const std::string why = state_.commands.Rename(name, to);
    if (!why.empty()) error = fmt::format("rename-command {} \"{}\": {}", name, to, why);
  }
  for (const std::string& name : state_.options.restricted_commands) {
    if (!error.empty() || state_.commands.Restrict(name)) continue;
    error = fmt::format("--restricted_commands: there is no command '{}'", name);
  }
  if (error.empty()) error = tls_.Load(state_.options, state_.options.has_tls());
  if (error.empty() && state_.options.take_over.empty()) error = OpenListeners();
  if (error.empty()) SetTlsReload(state_.options.tls_reload_s);
  if (!error.empty()) Stop();
  return error;
}

void Server::Load(std::function<void(std::string error)> on_end) {
  const auto end = [this, on_end = std::move(on_end)](std::string error) {
    if (error.empty()) {
      persistence_->StartRules();
      BeginReplication();
    }
    on_end(std::move(error));
  };
  state_.pool.at(0)->Dispatch([this, end] {
    if (persistence_->has_load()) {
      persistence_->Load(end);
    } else {
      end("");
    }
  });
}

std::string Server::LoadLog(LoadProgress* progress) {
  std::string error = append_log_->Load(progress);
  if (error.empty()) ResumeStream(append_log_->loaded_place());
  return error;
}

std::string Server::LoadSnapshot() {
  std::string error = persistence_->LoadSnapshot();
  if (error.empty()) ResumeStream(persistence_->loaded_place());
  return error;
}

void Server::ResumeStream(const StreamPlace& place) {
  if (!place.id.empty()) replicas_->Resume(place);
}

void Server::AwaitSettings() {
  state_.pool.at(0)->AwaitFiber("await settings", [this] {
    append_log().AwaitSettings();
    replicas_->AwaitSync();
  });
}

void Server::BeginReplication() {
  replicas_->CheckGoodReplicas();
  const std::string& primary = state_.options.replication.primary;
  if (primary.empty()) return replicas_->EndBeginSync();
  const size_t space = primary.find(' ');
  CHECK_NE(space, std::string::npos) << "the row of replicaof has let it in";
  primary_link_->Follow(primary.substr(0, space),
                        static_cast<uint16_t>(std::stoi(primary.substr(space + 1))));
  replicas_->EndBeginSync();
}

void Server::SetValueSizes(const ValueSizes& sizes) {
  const ShardLimits limits = sizes.Limits();
  state_.shards->AwaitOnAll([&limits](Shard& shard) { shard.limits() = limits; });
}

}  // namespace dfly
