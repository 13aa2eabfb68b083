// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>

#include "facade/error_texts.h"
#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "server/machine.h"

namespace dfly {

namespace {

std::string MakeRunId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 5; ++i) id += fmt::format("{:08x}", random());
  return id;
}

}  // namespace

Server::Server(ServerOptions options)
    : options_(std::move(options)),
      start_time_ms_(helio::UnixMillis()),
      memory_(&settings_.maxmemory, options_.threads),
      eviction_(options_.eviction),
      monitor_loads_(std::make_unique<MonitorLoad[]>(options_.threads)),
      scripts_(options_.default_lua_flags, options_.lua_auto_async),
      functions_(options_.default_lua_flags, options_.lua_auto_async),
      tls_(this, options_.tls_options),
      persistence_(this, options_.persistence),
      on_sigint_(options_.on_sigint),
      on_sigterm_(options_.on_sigterm),
      shutdown_timeout_s_(options_.shutdown_timeout_s),
      run_id_(MakeRunId()),
      pool_({.threads = options_.threads, .force_epoll = options_.force_epoll}) {
  RegisterStringCommands(&commands_);
  RegisterStreamCommands(&commands_);
  RegisterKeyCommands(&commands_);
  RegisterListCommands(&commands_);
  RegisterZsetCommands(&commands_);
  RegisterHashCommands(&commands_);
  RegisterSetCommands(&commands_);
  RegisterBitmapCommands(&commands_);
  RegisterHyperLogLogCommands(&commands_);
  RegisterProbabilisticCommands(&commands_);
  RegisterConnectionCommands(&commands_);
  RegisterClientCommands(&commands_);
  RegisterAclCommands(&commands_);
  RegisterClusterCommands(&commands_);
  RegisterConfigCommands(&commands_);
  RegisterInfoCommands(&commands_);
  RegisterCommandCommands(&commands_);
  RegisterAdminCommands(&commands_);
  RegisterSlowLogCommands(&commands_);
  RegisterLatencyCommands(&commands_);
  RegisterMonitorCommand(&commands_);
  RegisterSaveCommands(&commands_);
  RegisterMultiCommands(&commands_);
  RegisterScriptCommands(&commands_);
  RegisterFunctionCommands(&commands_);
  RegisterWait(&commands_);
  RegisterPubSubCommands(&commands_);
  settings_.maxmemory = options_.maxmemory;
  settings_.active_defrag = options_.active_defrag;
  settings_.defrag_threshold_percent = options_.defrag_threshold_percent;
  settings_.defrag_ignore_bytes = options_.defrag_ignore_bytes;
  settings_.defrag_cycle_percent = options_.defrag_cycle_percent;
  settings_.maxclients = options_.maxclients;
  settings_.protected_mode = options_.protected_mode;
  settings_.auth_timeout_s = options_.auth_timeout_s;
  settings_.busy_reply_threshold_ms = options_.busy_reply_threshold_ms;
  settings_.tcp_keepalive_s = options_.tcp_keepalive_s;
  settings_.slowlog_max_len = options_.slowlog_max_len;
  settings_.lock_warning_ms = options_.lock_warning_ms;
  settings_.latency_monitor_ms = options_.latency_monitor_threshold_ms;
  client_memory_.Set(options_.maxmemory_clients);
  settings_.tracking_table_max_keys = options_.tracking_table_max_keys;
  settings_.snapshot_buffer_limit = options_.snapshot_buffer_limit;
  if (options_.add_commands) options_.add_commands(&commands_);
  acl_ = std::make_unique<AclStore>(&commands_, options_.acl);
  AddSettings(this, &config_);
  tls_.AddTo(&config_);
}

void Server::ChangeEvictionRules(const std::function<void(EvictionRules& rules)>& change) {
  change(eviction_);
  policy_ = eviction_.policy;
  memory_.set_evicts(eviction_.policy != EvictionPolicy::kNone);
  AwaitOnWorkers([this](Worker& worker) { worker.SetEvictionRules(eviction_); });
}

bool Server::AwaitRoom(const SparedKeys& spared) {
  std::atomic<bool> has_room{false};
  shards_->AwaitOnAll([&](Shard& shard) {
    if (LocalWorker()->MakeRoom(shard, spared)) has_room = true;
  });
  return !memory_.is_over() || (has_room && !memory_.is_beyond());
}

void Server::EvictToLimit() {
  constexpr uint64_t kMostNanos = 2'000'000'000;  // the rest is done in the background
  const uint64_t begin_ns = helio::MonotonicNanos();
  while (memory_.evicts() && memory_.is_over() && helio::MonotonicNanos() - begin_ns < kMostNanos) {
    std::atomic<bool> has_room{false};
    const int64_t before = memory_.used();
    shards_->AwaitOnAll([&](Shard& shard) {
      if (LocalWorker()->MakeRoom(shard, {})) has_room = true;
    });
    if (memory_.used() >= before && !memory_.is_beyond()) break;
    if (!has_room && memory_.used() >= before) break;
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
  shards_->SetStringMax(bytes);
  AwaitOnSessions([bytes](Worker& worker) {
    worker.ForEachSession([bytes](Session& session) { session.connection.SetMaxBulkLen(bytes); });
  });
}

void Server::OnUsersChanged() {
  AwaitOnSessions([](Worker& worker) { worker.OnUsersChanged(); });
}

Server::~Server() { Stop(); }

std::string Server::Start() {
  if (std::string error = acl_->LoadOptions(); !error.empty()) {
    return "Aborting startup because of ACL errors: " + error;
  }
  pool_.Start();
  const uint32_t num_shards = options_.num_shards != 0 ? options_.num_shards : options_.threads;
  shards_ = std::make_unique<ShardSet>(&pool_, num_shards, options_.db_count,
                                       options_.limits.parser.max_bulk_len, options_.tag_rules,
                                       options_.placement_rules);
  SetListLimit(options_.list_max_listpack_size);
  SetHashLimit(options_.hash_limit);
  SetZsetLimit(options_.zset_limit);
  ChangeSetLimit([this](SetLimit& limit) { limit = options_.set_limit; });
  ChangeStreamLimit([this](StreamLimit& limit) { limit = options_.stream_limit; });
  SetHllSparseMaxBytes(options_.hll_sparse_max_bytes);
  workers_.resize(pool_.size());
  connections_of_.resize(pool_.size());
  pool_.AwaitOnAll([this](helio::Proactor* proactor) {
    workers_[proactor->index()] = std::make_unique<Worker>(this, proactor);
    local_worker_ = workers_[proactor->index()].get();
    local_worker_->SetIdleTimeout(options_.idle_timeout_s);
    local_worker_->OnUsersChanged();
  });
  shards_->set_after_flush_all(
      [this] { pool_.at(0)->Dispatch([this] { persistence_.SaveAfterFlush(); }); });
  if (options_.schedule_seed != 0) {
    CHECK_EQ(options_.threads, 1u);
    shards_->set_post_hook(
        [](ShardId, helio::Message* message) { local_worker_->shuffle()->Add(message, 0); });
  }
  ChangeEvictionRules([](EvictionRules&) {});
  std::string error;
  pool_.at(0)->AwaitFiber("find snapshot", [&] {
    error = persistence_.FindSnapshot();
    persistence_.UpdateGate();  // before there is a client
  });
  // With the threads that the files have needed, and before any client needs something.
  resident_at_start_ = ReadResidentMemory(*this);
  resident_at_start_.rss -= acl_->memory_used();  // they count for themselves
  base_memory_bytes_ = resident_at_start_.rss - resident_at_start_.files;
  memory_.Add(static_cast<int64_t>(base_memory_bytes_), 0);
  for (const auto& [name, to] : options_.renamed_commands) {
    if (!error.empty()) break;
    const std::string why = commands_.Rename(name, to);
    if (!why.empty()) error = fmt::format("rename-command {} \"{}\": {}", name, to, why);
  }
  for (const std::string& name : options_.restricted_commands) {
    if (!error.empty() || commands_.Restrict(name)) continue;
    error = fmt::format("--restricted_commands: there is no command '{}'", name);
  }
  if (error.empty() && options_.has_tls()) error = tls_.Load();
  if (error.empty()) error = OpenListeners();
  if (!error.empty()) Stop();
  return error;
}

void Server::Load(std::function<void(std::string error)> on_end) {
  const auto end = [this, on_end = std::move(on_end)](std::string error) {
    if (error.empty()) persistence_.StartRules();
    on_end(std::move(error));
  };
  pool_.at(0)->Dispatch([this, end] {
    if (persistence_.has_snapshot()) {
      persistence_.Load(end);
    } else {
      end("");
    }
  });
}

void Server::SetListLimit(int64_t setting) {
  const BlockLimit limit = BlockLimit::FromSetting(setting);
  shards_->AwaitOnAll([&limit](Shard& shard) { shard.set_list_limit(limit); });
}

void Server::SetHashLimit(const PackedLimit& limit) {
  shards_->AwaitOnAll([&limit](Shard& shard) { shard.set_hash_limit(limit); });
}

void Server::SetZsetLimit(const PackedLimit& limit) {
  shards_->AwaitOnAll([&limit](Shard& shard) { shard.set_zset_limit(limit); });
}

void Server::ChangeStreamLimit(const std::function<void(StreamLimit& limit)>& change) {
  shards_->AwaitOnAll([&change](Shard& shard) {
    StreamLimit limit = shard.stream_limit();
    change(limit);
    shard.set_stream_limit(limit);
  });
}

void Server::ChangeSetLimit(const std::function<void(SetLimit& limit)>& change) {
  shards_->AwaitOnAll([&change](Shard& shard) {
    SetLimit limit = shard.set_limit();
    change(limit);
    shard.set_set_limit(limit);
  });
}

void Server::SetHllSparseMaxBytes(size_t bytes) {
  shards_->AwaitOnAll([bytes](Shard& shard) { shard.set_hll_sparse_max_bytes(bytes); });
}

void Server::ReleaseHeld() {
  for (uint32_t i = 0; i < pool_.size(); ++i) {
    pool_.at(i)->Dispatch([] {
      if (local_worker_ != nullptr) local_worker_->ReleaseHeld();
    });
  }
}

void Server::OnSnapshotBehind(bool is_behind) {
  if (is_behind) {
    settings_.shards_behind.fetch_add(1);
  } else if (settings_.shards_behind.fetch_sub(1) == 1) {
    ReleaseHeld();
  }
}

void Server::RefuseBusyWaiters() {
  for (uint32_t i = 0; i < pool_.size(); ++i) {
    pool_.at(i)->Dispatch([] {
      if (local_worker_ != nullptr) local_worker_->RefuseBusyWaiters();
    });
  }
}

}  // namespace dfly
