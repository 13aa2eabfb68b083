// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>

#include "facade/error_texts.h"
#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "server/held_locks.h"
#include "server/machine.h"

namespace dfly {

namespace {

// How long a script may hinder the end of the server, and for how much longer if it has written.
constexpr uint64_t kScriptPatienceNanos = 500'000'000;
constexpr uint64_t kScriptGraceNanos = 2'000'000'000;

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
  shards_->set_after_work([](Shard& shard) { local_worker_->AfterShardWork(shard); });
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

bool Server::AbortStop() {
  if (!is_preparing_stop_) return false;
  pool_.at(0)->AwaitFiber("abort stop", [this] { persistence_.CancelSave(); });
  return true;
}

uint64_t Server::ShutdownPatienceNanos() const {
#ifdef DFLY_SANITIZED
  constexpr uint64_t kSlowness = 10;
#else
  constexpr uint64_t kSlowness = 1;
#endif
  return std::max<uint64_t>(shutdown_timeout_s_, 1) * kSlowness * 1'000'000'000;
}

std::string Server::PrepareStop(std::optional<bool> saves, bool must_stop, uint64_t locks_wait_ns) {
  if (is_prepared_to_stop_) return "";
  if (is_preparing_stop_.exchange(true)) return "the server is stopping already";
  std::string error;
  const auto save = [&] {
    if (persistence_.is_loading()) return;  // what there is was not changed
    if (saves.value_or(persistence_.has_rules() && persistence_.is_enabled())) {
      error = persistence_.SaveForStop();
    } else {
      persistence_.CancelSave();
    }
  };
  std::atomic<bool> is_over{false};
  std::string late;  // who had the locks when they were given up
  helio::BlockingCounter watched(1);
  const auto watch = [&] {
    const uint64_t begin_ns = helio::MonotonicNanos();
    while (!is_over) {
      helio::this_fiber::SleepForMillis(10);
      const uint64_t waited_ns = helio::MonotonicNanos() - begin_ns;
      if (waited_ns < kScriptPatienceNanos || persistence_.has_cut()) continue;
      // Scripts may hold what the cut waits for: those that have written get some time.
      const bool is_late = waited_ns > kScriptPatienceNanos + kScriptGraceNanos;
      AwaitOnWorkers([is_late](Worker& worker) {
        worker.ForEachScript([is_late](LongRun& run) {
          if (is_late || !run.has_written()) run.Kill();
        });
      });
      if (waited_ns < locks_wait_ns || persistence_.has_cut()) continue;
      std::string who = DescribeHang();
      if (persistence_.has_cut()) continue;
      late = std::move(who);
      persistence_.CancelSave();
    }
    watched.Done();
  };
  pool_.at(0)->DispatchFiber("watch stop", watch);
  if (helio::Proactor::Current() == pool_.at(0)) {
    save();
  } else {
    pool_.at(0)->AwaitFiber("save at the end", save);
  }
  is_over = true;
  watched.Wait();
  if (!error.empty() && !late.empty()) {
    error = fmt::format("the snapshot does not get its locks: {}", late);
  }
  is_prepared_to_stop_ = error.empty() || must_stop;
  is_preparing_stop_ = false;
  return error;
}

void Server::TakeBackStop() {
  persistence_.EndStop();
  is_prepared_to_stop_ = false;
}

std::string Server::DescribeHang() {
  constexpr uint64_t kPatienceNanos = 1'000'000'000;
  constexpr uint64_t kLookNanos = 5'000'000;
  struct Part {
    std::string text;
    std::atomic<bool> is_there{false};
  };
  // A thread that hangs may look at it when nobody is here any more.
  const auto parts = std::make_shared<std::vector<Part>>(pool_.size());
  for (uint32_t i = 0; i < pool_.size(); ++i) {
    pool_.at(i)->Dispatch([parts, i] {
      Part& part = (*parts)[i];
      if (local_worker_ != nullptr) {
        local_worker_->ForEachShard([&part](Shard& shard) {
          shard.transactions().ForEach([&](const TxEntry& entry) {
            if (HoldsLocks(entry)) part.text += "; locks of " + DescribeHolder(entry, shard.id());
          });
        });
      }
      part.is_there = true;
    });
  }
  const uint64_t end_ns = helio::MonotonicNanos() + kPatienceNanos;
  const auto is_there = [](const Part& part) { return part.is_there.load(); };
  while (!std::all_of(parts->begin(), parts->end(), is_there) && helio::MonotonicNanos() < end_ns) {
    helio::Waiter().WaitUntil(helio::MonotonicNanos() + kLookNanos);
  }
  std::string all;
  for (uint32_t i = 0; i < pool_.size(); ++i) {
    const Part& part = (*parts)[i];
    all += part.is_there ? part.text : fmt::format("; thread {} does not answer", i);
  }
  return all.empty() ? "nobody has locks" : all.substr(2);
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

void Server::Stop() {
  if (shards_ == nullptr) return;
  // No thread hints others to evict any more, and the hints that were sent have arrived: workers
  // end one by one.
  settings_.maxmemory = 0;
  memory_.set_evicts(false);
  if (!workers_.empty()) {
    for (int round = 0; round < 2; ++round) AwaitOnWorkers([](Worker&) {});
  }
  pool_.at(0)->AwaitFiber("close listeners", [this] {
    if (listeners_ != nullptr) listeners_->Close();
    persistence_.CancelLoad();  // its end would start the rules
    persistence_.StopRules();
    persistence_.CancelSave();
    persistence_.RefuseAll();
  });
  // What waits for the locks of the last snapshot was never carried out, as far as clients know:
  // they are gone before it is.
  AwaitOnWorkers([](Worker& worker) { worker.CloseAllConnections(); });
  pool_.at(0)->AwaitFiber("end stop", [this] { persistence_.EndStop(); });
  // A connection that was accepted before may still be on its way to its worker: so until nothing
  // is left anywhere.
  uint64_t left = 1;
  const uint64_t begin_ns = helio::MonotonicNanos();
  constexpr uint64_t kLongNanos = 10'000'000'000;
  bool was_told = false;
  while (left > 0) {
    const bool is_late = helio::MonotonicNanos() - begin_ns > kScriptGraceNanos;
    AwaitOnWorkers([is_late](Worker& worker) {
      worker.CloseAllConnections();
      worker.ForEachScript([is_late](LongRun& run) {
        if (is_late || !run.has_written()) run.Kill();
      });
    });
    pool_.at(0)->AwaitFiber("settle", [] { helio::this_fiber::SleepForMillis(1); });
    // First the connections: while one lives it may still send batches.
    left = connections();
    std::atomic<uint64_t> in_flight{0};
    AwaitOnWorkers(
        [&](Worker& worker) { in_flight += worker.batches_in_flight() + worker.coordinators(); });
    left += in_flight + pubsub_load_.messages.load(std::memory_order_relaxed);
    if (left == 0 || was_told || helio::MonotonicNanos() - begin_ns < kLongNanos) continue;
    was_told = true;
    std::atomic<uint64_t> batches{0}, waiting{0};
    AwaitOnWorkers([&](Worker& worker) {
      batches += worker.batches_in_flight();
      worker.ForEachShard([&](Shard& shard) {
        waiting += shard.transactions().length();
        LOG_IF(WARNING, shard.transactions().length() > 0)
            << "transactions on shard " << shard.id() << ": " << shard.transactions().Describe();
      });
    });
    LOG(WARNING) << "stopping: still waiting for the end of " << connections() << " connections, "
                 << batches << " batches and " << in_flight - batches << " commands; " << waiting
                 << " entries in transaction queues";
  }
  shards_->set_after_work(nullptr);
  shards_->set_after_flush_all(nullptr);
  AwaitOnWorkers([this](Worker& worker) {
    local_worker_ = nullptr;
    workers_[worker.index()].reset();
  });
#ifdef DFLY_SANITIZED
  shards_.reset();
#else
  (void)shards_.release();
#endif
  pool_.Stop();
}

}  // namespace dfly
