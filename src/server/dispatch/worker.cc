// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "commands/table/lookup.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "helio/base/cycle_clock.h"
#include "helio/base/log_text.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/dispatch/blocking.h"
#include "server/dispatch/inner_client.h"
#include "server/dispatch/primary_replies.h"

namespace dfly {

namespace {

// Of what the client of a feed may send.
bool HasNoReply(Args args) {
  if (IsWord(args.name(), "psync") || IsWord(args.name(), "sync")) return true;
  return IsWord(args.name(), "replconf") && args.size() % 2 == 1 && args.size() > 1 &&
         (IsWord(args[1], "ack") || IsWord(args[1], "getack"));
}

}  // namespace

Worker::Worker(ServerState* server, helio::Proactor* proactor)
    : PerThread(this),
      state_(server, proactor),
      script_finder_(server),
      memory_(&state_, &pubsub_, &tracking_, &script_finder_),
      running_scripts_(&state_, &memory_),
      pools_(&state_, &memory_, &running_scripts_),
      defrag_(&state_, &memory_, &pools_),
      care_(&state_, &memory_, &pools_, &running_scripts_, &defrag_),
      lock_watch_(&state_, &running_scripts_),
      rates_(&state_, &pools_),
      runner_(&state_, &care_),
      exclusion_(&state_),
      execs_(&state_, &memory_, &pools_, &care_, &runner_),
      jobs_(&state_, &script_finder_, &running_scripts_, &care_, &runner_),
      batches_(&state_, &pools_, &runner_, &exclusion_, &execs_, &jobs_, this),
      gates_(&state_, &script_finder_),
      quotas_(&state_),
      users_(&state_, &quotas_),
      server_(*server),
      proactor_(*proactor),
      shards_(*server->shards),
      commands_(server->commands),
      exec_(commands_.FindByName("exec")),
      all_remote_(server->options.all_remote),
      migrates_(server->options.migrate_connections && server->pool.size() > 1),
      stage_hook_([](helio::LoopHook* hook) { static_cast<StageHook*>(hook)->worker->RunStage(); }),
      sweep_timer_(this, proactor),
      memcached_flush_timer_(this, proactor),
      client_limiter_(&state_),
      pubsub_(&state_),
      tracking_(&state_),
      monitors_(&state_) {
  stage_hook_.worker = this;
  state_.buffers.on_change = [this] {
    memory_.Settle();
    client_limiter_.OnMemoryChange();
    quotas_.OnClientMemory();
    pools_.Note();
  };
  pools_.Add(this);
  client_limiter_.SetOutputLimits(server->options.output_limits);
  noted_.reserve(kNotedMax);
  proactor_.SetStageTask([this] { RunStage(); });
  SetKeyEvents(server->options.key_events);
}

void Worker::SetKeyEvents(KeyEventClasses classes) {
  key_notifier_.set_classes(classes);
  care_.SetPreciseExpiry(classes.is_on() && classes.has(KeyEventClasses::kExpired));
  state_.ForEachShard([&](Shard& shard) {
    shard.set_key_events(classes.is_on() ? &key_notifier_ : nullptr, classes.tells_fields());
  });
}

Worker::~Worker() {
  proactor_.SetStageTask(nullptr);
  proactor_.CancelHook(&stage_hook_);
}

// --- Connections ---

void Worker::OnClosed(Connection* connection) {
  Session* session = &SessionOf(connection);
  if (session->primary != nullptr) OnPrimaryClosed(*connection, *session);
  for (PendingReplies* batch : std::exchange(session->cut_batches, {})) {
    batches_.Continue(static_cast<ShardBatch*>(batch));
  }
  pubsub_.OnClosed(*session);
  tracking_.OnClosed(*session);
  monitors_.End(*session);
  client_limiter_.OnLeft(*session);
  quotas_.Leave(*session);
  state_.Remove(connection);
  pools_.Note();
  server_.connections.OnClosed(index(), session->user.is_admin);
  session->connection_closed = true;
  if (session->inner_call != nullptr) session->inner_call->EndSide();
  execs_.Unwatch(*session);
  state_.Forget(session);
}

void Worker::CloseAllConnections() {
  state_.ForEachSession([](Session& session) { session.connection.CloseNow(); });
}

// --- Dispatch ---

CommandSink::Outcome Worker::OnCommand(Connection* connection,
                                       std::span<const std::string_view> raw_args) {
  Session& session = SessionOf(connection);
  const Args args(raw_args);
  if (session.primary != nullptr) [[unlikely]] {
    const auto outcome = TakeOfPrimary(connection, session, args);
    if (outcome) return *outcome;
  }
  if (session.feed != nullptr && !HasNoReply(args)) [[unlikely]] {
    return EndFeed(session, args);
  }
  const Lookup found = Find(commands_, args);
  if (gathered_.is_open()) [[unlikely]] {
    const bool joins = found.is_found() && gathered_.Join(*found.row, args);
    return joins ? Outcome::kTaken : Outcome::kBarrier;
  }
  if (!found.is_found() || (found.row->flags & kMemcached) != 0) [[unlikely]] {
    return RefuseUnfound(connection, session, found, args);
  }
  return Dispatch(connection, session, *found.row, args);
}

// Its reply would stand in the middle of the stream.
CommandSink::Outcome Worker::EndFeed(Session& session, Args args) {
  RunNoted();
  session.feed->End(fmt::format("it has sent '{}'", helio::LogText(args.name())));
  return Outcome::kClose;
}

CommandSink::Outcome Worker::RefuseUnfound(Connection* connection, Session& session,
                                           const Lookup& found, Args args) {
  if (found.row == nullptr && (IsWord(args.name(), "post") || IsWord(args.name(), "host:"))) {
    // A web page that makes its reader's browser talk to us, most likely.
    LOG(WARNING) << "possible security attack: closing connection " << connection->id() << " of "
                 << session.peer_address << ", which sent '" << args.name() << "' as a command";
    RunNoted();
    connection->CloseNow();
    return Outcome::kClose;
  }
  if (session.quotas != nullptr) [[unlikely]] {
    if (const auto outcome = CheckUser(connection, session, nullptr, args)) return *outcome;
  }
  const bool is_unknown = found.row == nullptr || (found.row->flags & kMemcached) != 0;
  const Lookup lookup = is_unknown ? Lookup{.end = Lookup::End::kUnknown} : found;
  AbortMulti(session, lookup.row);
  const bool is_of_row = lookup.end == Lookup::End::kWrongArity;
  return Refuse(connection, lookup.row, args,
                {.error = lookup.Error(args), .is_of_row = is_of_row});
}

CommandSink::Outcome Worker::Refuse(Connection* connection, const Command* row, Args args,
                                    Refusal refusal, Action action) {
  if (Session& session = SessionOf(connection); session.feed != nullptr) {
    return EndFeed(session, args);
  }
  refusals_.push_back(std::move(refusal));
  Note(connection, action, row, args, 0, 0);
  return Outcome::kTaken;
}

CommandSink::Outcome Worker::Dispatch(Connection* connection, Session& session,
                                      const Command& command, Args args) {
  const bool is_of_primary = session.primary != nullptr;
  if (is_of_primary) [[unlikely]] {
    const auto outcome = DispatchPrimary(connection, session, command, args);
    if (outcome) return *outcome;
  }
  if ((command.flags & (kAdminPort | kProtected)) != 0) [[unlikely]] {
    if (std::string error = gates_.RefusalOf(command, session); !error.empty()) {
      AbortMulti(session, &command);
      return Refuse(connection, &command, args, {.error = std::move(error)});
    }
  }
  if (session.is_checked()) [[unlikely]] {
    if (const auto outcome = CheckUser(connection, session, &command, args)) return *outcome;
  }
  if (const uint16_t gate = server_.settings.gate.load(std::memory_order_relaxed); gate != 0)
      [[unlikely]] {
    if ((gate & Settings::kStoppingGate) != 0) {
      // It is not carried out any more, and its client will see the end of the connection.
      RunNoted();
      connection->set_held(true);
      return Outcome::kBarrier;
    }
    std::string error = is_of_primary ? "" : gates_.ErrorOf(command, args, session);
    if (!error.empty()) {
      AbortMulti(session, &command);
      return Refuse(connection, &command, args, {.error = std::move(error)});
    }
  }
  if (session.subscriptions != nullptr) [[unlikely]] {
    const auto outcome = DispatchSubscribed(connection, session, command, args);
    if (outcome) return *outcome;
  }
  const uint32_t holds = server_.settings.write_holds.load(std::memory_order_relaxed);
  const bool is_paused = !is_of_primary && gates_.IsPaused(command, args, session);
  const bool is_held = (holds != 0 && gates_.IsHeld(holds, command, args, session)) ||
                       (is_of_primary && gates_.LacksDisk(command, args, session));
  if (is_paused || is_held) [[unlikely]] {
    if (is_held) ++state_.stats.writes_held;
    // Everything before it is executed; it stays in the input until it may go on. ReleaseHeld comes
    // as a message, so not between the look and this.
    RunNoted();
    connection->set_held(true, is_paused);
    if (is_paused && connection->recv_ended()) connection->SendAndCloseNow();  // OnPeerShutdown
    return Outcome::kBarrier;
  }

  if (command.other_db != nullptr) [[unlikely]] {
    if (quotas_.limits_databases() && !session.user.is_admin && !is_of_primary) {
      std::string error = quotas_.MemoryErrorOf(command, args, -1);
      if (!error.empty()) {
        AbortMulti(session, &command);
        return Refuse(connection, &command, args, {.error = std::move(error)});
      }
    }
  }
  if (session.multi != nullptr && (command.flags & kNotQueued) == 0) [[unlikely]]
    return Queue(connection, session, command, args);
  const bool may_wait = command.blocking != nullptr && command.blocking->MayWait(args);
  if (command.is_plain || (command.blocking != nullptr && !may_wait)) [[likely]] {
    if (args.size() >= Command::kManyArgs && command.can_run_in_pieces() && !is_of_primary)
        [[unlikely]] {
      if (!BarrierIsOpen(connection)) return Outcome::kBarrier;
      Coordinate(connection, session, command, nullptr, args);
      return Outcome::kBusy;
    }
    const KeyPlace place = PlaceOf(command, args, shards_);
    if (place.is_one_shard && !(command.slices && TakesLong(session, command, args, place)))
        [[likely]] {
      const bool is_here = state_.local(place.shard) != nullptr && !all_remote_;
      Note(connection, is_here ? Action::kLocal : Action::kRemote, &command, args, place.shard,
           place.hash);
      return Outcome::kTaken;
    }
    if (!BarrierIsOpen(connection)) return Outcome::kBarrier;
    // The audit log has a line for each.
    if (Gathered::Takes(command, args) && session.is_plain() && server_.audit == nullptr) {
      gathered_.Open(command, args);
      return Outcome::kTaken;
    }
    Coordinate(connection, session, command, command.across, args);
    return Outcome::kBusy;
  }

  if (command.runs_script) return DispatchScript(connection, session, command, args);
  if (command.channel_at != 0) return DispatchPublish(connection, command, args);
  if (may_wait) return DispatchBlocking(connection, session, command, args);
  if ((command.flags & kPushes) != 0) return DispatchChange(connection, session, command, args);
  if (command.coordinate != nullptr) {
    if (!BarrierIsOpen(connection)) return Outcome::kBarrier;
    if ((command.flags & kBlocking) != 0) {
      return CoordinateWait(connection, session, command, command.coordinate, args);
    }
    Coordinate(connection, session, command, command.coordinate, args);
    return Outcome::kBusy;
  }

  if (&command == exec_) return Exec(connection, session, command, args);

  if ((command.flags & kBarrier) == 0) {
    Note(connection, Action::kSession, &command, args, 0, 0);
    // Its reply may be long, and is counted before the next command is taken.
    if ((command.flags & (kFast | kRunNow)) != kFast) RunNoted();
    return Outcome::kTaken;
  }
  if (!BarrierIsOpen(connection)) return Outcome::kBarrier;
  Note(connection, Action::kSession, &command, args, 0, 0);
  RunNoted();
  return session.close_after_reply ? Outcome::kClose : Outcome::kTaken;
}

CommandSink::Outcome Worker::DispatchBlocking(Connection* connection, Session& session,
                                              const Command& command, Args args) {
  // What it waits for may come after replies that are pending, and its own reply has to come first.
  if (!BarrierIsOpen(connection)) return Outcome::kBarrier;
  if (!server_.options.singlehop_blocking) {
    return CoordinateWait(connection, session, command, RunBlocking, args);
  }
  const KeyPlace place = PlaceOf(command, args, shards_);
  if (place.is_one_shard) NoteAffinity(session, place.shard);
  const BlockingForm& form = *command.blocking;
  const bool may_try = place.is_one_shard || (form.try_here == nullptr && form.target_at == 0);
  Shard* const shard = all_remote_ ? nullptr : state_.local(place.shard);
  if (may_try && shard != nullptr &&
      !exclusion_.IsExcluded(*shard, command, args, place.hash, session.db_index, &tags_)) {
    must_wait_ = false;
    Note(connection, Action::kTry, &command, args, place.shard, place.hash);
    RunNoted();
    if (!must_wait_) return Outcome::kTaken;
  } else if (may_try && session.missed_tries < kMissedTriesMax &&
             session.reply_mode == ReplyMode::kOn) {
    Note(connection, Action::kTryByBatch, &command, args, place.shard, place.hash);
    RunNoted();
    return Outcome::kWaits;  // EndTry ends that
  }
  return CoordinateWait(connection, session, command, RunBlocking, args);
}

CommandSink::Outcome Worker::CoordinateWait(Connection* connection, Session& session,
                                            const Command& command, CoordinatorHandler handler,
                                            Args args) {
  // Each has a fiber, whose stack takes two of the maps that the kernel gives a process.
  const uint32_t threads = shards_.pool().size();
  if (blocked_clients_ >= std::max(1u, server_.options.blocked_clients_max / threads)) {
    return Refuse(connection, &command, args, {.error = std::string(kErrTooManyBlocked)});
  }
  Coordinate(connection, session, command, handler, args);
  return Outcome::kWaits;
}

// `refused`, null if it is unknown, is not carried out: EXEC will refuse. If it is EXEC itself, the
// MULTI ends, and what comes next is queued no more.
void Worker::AbortMulti(Session& session, const Command* refused) {
  if (refused == exec_) {
    execs_.EndMulti(session);
  } else if (session.multi != nullptr) {
    session.multi->is_aborted = true;
  }
}

bool Worker::BarrierIsOpen(Connection* connection) {
  RunNoted();
  return connection->replies().empty();
}

void Worker::Note(Connection* connection, Action action, const Command* command, Args args,
                  ShardId shard, uint64_t hash, Script* script) {
  noted_.push_back({.command = command,
                    .connection = connection,
                    .hash = hash,
                    .shard = shard,
                    .first_arg = static_cast<uint32_t>(noted_args_.size()),
                    .arg_count = static_cast<uint32_t>(args.size()),
                    .action = action,
                    .deferred = false,
                    .script = script});
  if (action == Action::kRefused || action == Action::kScriptRefused) [[unlikely]]
    noted_.back().refusal = &refusals_.back();
  noted_args_.insert(noted_args_.end(), args.all().begin(), args.all().end());
  ++noted_of_input_;
  if (noted_.size() == kNotedMax) RunNoted();
}

void Worker::OnInputPause(Connection* connection) {
  if (Session& session = SessionOf(connection); session.primary != nullptr) [[unlikely]]
    return PausePrimary(connection, session);
  if (gathered_.is_open()) [[unlikely]]
    return RunGathered(connection);
  if (noted_of_input_ == 1 && Defer()) return;
  RunNoted();
  batches_.Send();
}

bool Worker::Defer() {
  Noted& noted = noted_.back();
  if (!deferred_args_.Copy(std::span(noted_args_).subspan(noted.first_arg, noted.arg_count))) {
    return false;
  }
  noted.deferred = true;
  noted.connection->AddDeferred(1);
  noted_of_input_ = 0;
  // Input is also executed by fibers, timers and hooks, after which no stage may come for long.
  proactor_.AtIterationEnd(&stage_hook_);
  return true;
}

void Worker::RunStage() {
  if (batches_.has_arrived()) batches_.RunArrived();
  if (!noted_.empty()) {
    RunNoted();
    batches_.Send();
  }
  pubsub_.Flush();
  tracking_.Flush();
  memory_.Settle();
}

void Worker::RunNoted() {
  noted_of_input_ = 0;
  if (noted_.empty()) return;
  proactor_.CancelHook(&stage_hook_);
  now_ms_ = helio::UnixMillis();
  state_.stats.commands_processed += noted_.size();
  rates_.Count(now_ms_);
  if (noted_.size() > 1) PrefetchNoted();
  std::optional<ShardTurn> in_place;
  runner_.BeginUntimed(helio::CycleClock::Now());
  for (const Noted& noted : noted_) {
    if (!noted.connection->closing()) [[likely]]
      RunOne(noted, &in_place);
    if (noted.deferred) noted.connection->DeferredDone(1);
  }
  state_.timer.caller() = Caller();
  in_place.reset();
  noted_.clear();
  noted_args_.clear();
  if (!refusals_.empty()) [[unlikely]]
    refusals_.clear();
  deferred_args_.Clear();
  script_finder_.Settle();
}

// The look-ups of a pipeline, or of many connections.
void Worker::PrefetchNoted() {
  PrefetchTogether([&](auto&& visit) {
    for (const Noted& noted : noted_) {
      if (noted.action != Action::kLocal && noted.action != Action::kScript) continue;
      const Shard* const shard = state_.local(noted.shard);
      if (shard == nullptr) continue;  // a script's may be another thread's
      const Database* const database = shard->FindDb(SessionOf(noted.connection).db_index);
      if (database != nullptr) {
        visit(*database, noted.hash, noted.command->ElementOf(ArgsOf(noted)));
      }
    }
  });
}

bool Worker::TakesBatch(const Noted& noted, const Session& session) {
  if (noted.action == Action::kRemote || noted.action == Action::kTryByBatch) return true;
  if (noted.action != Action::kLocal && noted.action != Action::kExec &&
      noted.action != Action::kScript) {
    return false;
  }
  // A batch stops when its replies are long; what was noted together with this one does not.
  const bool is_long =
      noted.connection->unsent_bytes() > server_.options.limits.reply_bytes_max / 2;
  const bool is_plain = noted.action == Action::kLocal && batches_.local() == 0 && !is_long;
  if (is_plain && state_.local(noted.shard)->runs_freely()) [[likely]] {
    return false;
  }
  return MustQueue(noted, session, is_long);
}

bool Worker::MustQueue(const Noted& noted, const Session& session, bool is_long) {
  const bool is_here = state_.local(noted.shard) != nullptr && !all_remote_;
  if (!is_here) return true;
  Shard& shard = *state_.local(noted.shard);
  if (batches_.local() == 0 && shard.runs_freely() && !is_long) return false;
  if (is_long || session.local_batches > 0) return true;
  if (noted.action == Action::kExec)
    return exclusion_.IsExecExcluded(shard, *session.multi, &tags_);
  if (noted.action == Action::kScript) {
    return exclusion_.IsScriptExcluded(shard, *noted.script, *noted.command, ArgsOf(noted),
                                       session.db_index, &tags_);
  }
  return exclusion_.IsExcluded(shard, *noted.command, ArgsOf(noted), noted.hash, session.db_index,
                               &tags_);
}

ShardTurn& Worker::Enter(Shard& shard, const Session& session, std::optional<ShardTurn>* in_place) {
  if (!*in_place || &(*in_place)->shard() != &shard) in_place->emplace(shard);
  ShardContext& cx = (*in_place)->Begin(session.db_index, session.ClockOf(now_ms_));
  cx.set_no_touch(session.no_touch);
  cx.set_client(nullptr, false);
  return **in_place;
}

void Worker::RunOne(const Noted& noted, std::optional<ShardTurn>* in_place) {
  Connection* connection = noted.connection;
  Session& session = SessionOf(connection);
  const Args args = ArgsOf(noted);
  ++session.commands;
  if (noted.command != nullptr) session.last_command = noted.command;
  const CachingClient* client = nullptr;
  bool notes_reads = false;
  if (session.tracking != nullptr && noted.command != nullptr) [[unlikely]] {
    client = &session.tracking->client;
    notes_reads = session.tracking->TakeReads(*noted.command, noted.action == Action::kQueued);
  }
  const ReplyMode mode_before = session.reply_mode;
  const bool is_of_primary = session.primary != nullptr;
  bool drop_reply = session.drops_replies() || is_of_primary;
  ReplyQueue& replies = connection->replies();
  if (noted.action == Action::kLocal || noted.action == Action::kRemote ||
      noted.action == Action::kExec || noted.action == Action::kScript) {
    NoteAffinity(session, noted.shard);
    if (monitors_.any()) [[unlikely]] {
      if (noted.action == Action::kExec) FeedExec(session);
      FeedMonitors(session, *noted.command, args);
    }
  }

  if (TakesBatch(noted, session)) {
    ++state_.stats.remote_commands;
    ShardBatch* batch = batches_.For(connection, session, noted.shard);
    if (client != nullptr) [[unlikely]]
      batch->client = *client;
    if (noted.action == Action::kExec) [[unlikely]] {
      session.watches = {};  // EXEC ends them on their shard
      batch->AddExec(noted.command, std::move(session.multi), noted.hash, drop_reply);
    } else if (noted.action == Action::kTryByBatch) {
      batch->AddTry(noted.command, args, noted.hash);
    } else if (noted.action == Action::kScript) {
      batch->AddScript(noted.command, args, noted.hash, drop_reply,
                       noted.script->shared_from_this());
      batch->caller = users_.CallerOf(session);
    } else {
      batch->Add(noted.command, args, noted.hash, drop_reply);
    }
    if (notes_reads) [[unlikely]]
      batch->NoteReads();
    replies.AddRemote(batch);
  } else {
    helio::IoBuf* out = replies.BeginLocal();
    const size_t size_before = out->size();
    writer_.Reset(out, session.resp3, session.is_memcached);
    state_.timer.caller().session = &session;
    switch (noted.action) {
      case Action::kLocal: {
        ++state_.stats.local_commands;
        ShardTurn& turn = Enter(*state_.local(noted.shard), session, in_place);
        if (client != nullptr) [[unlikely]]
          turn.cx().set_client(client, notes_reads);
        runner_.RunOnShard(turn, *noted.command, args, noted.hash, writer_);
        break;
      }
      case Action::kTry: {
        ShardTurn& turn = Enter(*state_.local(noted.shard), session, in_place);
        turn.cx().set_client(client, notes_reads);
        turn.cx().SetKeyHash(args[noted.command->routed_by(args)], noted.hash);
        must_wait_ = !runner_.TryBlocking(turn, *noted.command, args, writer_);
        if (must_wait_) {
          // It comes again, by Coordinate, which does the rest.
          --session.commands;
          --state_.stats.commands_processed;
          replies.EndLocal();
          return;
        }
        if (monitors_.any()) [[unlikely]]
          FeedMonitors(session, *noted.command, args);
        break;
      }
      case Action::kExec: {
        ShardTurn& turn = Enter(*state_.local(noted.shard), session, in_place);
        turn.cx().set_client(client, notes_reads);
        std::unique_ptr<Multi> multi = std::move(session.multi);
        session.watches = {};  // RunExec ends them on their shard
        execs_.Run(turn, *noted.command, *multi, session.ClockOf(now_ms_), writer_);
        execs_.Recycle(std::move(multi));
        break;
      }
      case Action::kScript: {
        in_place->reset();
        ScriptJob* const job = jobs_.New();
        job->command = noted.command;
        job->script = noted.script;
        job->shard = state_.local(noted.shard);
        job->db_index = session.db_index;
        job->no_touch = session.no_touch;
        job->caller = users_.CallerOf(session);
        job->client_id = connection->id();
        if (client != nullptr) job->client = *client;
        job->notes_reads = notes_reads;
        job->is_read_only = IsReadOnly(*noted.command, *noted.script);
        job->args.assign(args.all().begin(), args.all().end());
        job->call = ScriptArgsOf(Args(job->args));
        job->writer.Reset(out, session.resp3);
        const bool is_over = jobs_.Run(job);
        if (is_over) {
          jobs_.Recycle(job);
          runner_.BeginUntimed(helio::CycleClock::Now());
          break;
        }
        replies.EndLocal();  // nothing was written: its place is taken by the batch
        batches_.AddRunning(noted, args, session, users_.CallerOf(session), job, drop_reply);
        session.AdvanceReplyMode();
        return;
      }
      case Action::kScriptRefused:
        // As in Redis it has run: it is shown, timed, and a failed call.
        if (monitors_.any()) [[unlikely]]
          FeedMonitors(session, *noted.command, args);
        runner_.RunCounted(*noted.command, args, writer_,
                           [&] { writer_.Error(noted.refusal->error); });
        break;
      case Action::kQueued:
        writer_.Status("QUEUED");
        break;
      case Action::kSession: {
        in_place->reset();  // it may ask the shard
        const uint64_t errors_before = writer_.error_count();
        if (runner_.RunCounted<CommandRunner::Timing::kSampled>(
                *noted.command, args, writer_,
                [&] { noted.command->session(session, args, writer_); }) &&
            out->size() > size_before) {
          runner_.NoteReply(*noted.command, args, out->size() - size_before);
        }
        if (monitors_.any()) [[unlikely]]
          FeedMonitors(session, *noted.command, args);
        if (server_.audit != nullptr) [[unlikely]]
          runner_.Audit(&session, *noted.command, args, writer_, errors_before);
        client_limiter_.Recount(session);
        // CLIENT REPLY ON is answered itself.
        if (session.reply_mode == ReplyMode::kOn && mode_before != ReplyMode::kOn) {
          drop_reply = false;
        }
        break;
      }
      case Action::kRefused:
        if (noted.refusal->verdict.is_denied()) {
          users_.LogDenial(noted.refusal->verdict, session, *noted.command, args);
        }
        if (noted.refusal->is_of_row) {
          runner_.Reject(*noted.command, noted.refusal->error, writer_);
        } else {
          writer_.Error(noted.refusal->error);
          runner_.CountRejected(nullptr, writer_);
        }
        break;
      case Action::kRemote:
      case Action::kTryByBatch:
        break;
    }
    if (connection->closing()) return;  // by the command itself; all replies are gone
    if (drop_reply) DropReply(out, size_before, is_of_primary);
    if (state_.awaits_journal()) [[unlikely]]
      replies.Hold(EpochOf(noted, args));
    replies.EndLocal();
  }
  session.AdvanceReplyMode();
}

uint64_t Worker::EpochOf(const Noted& noted, Args args) const {
  switch (noted.action) {
    case Action::kLocal:
    case Action::kTry:
      return state_.EpochOf(*state_.local(noted.shard), *noted.command, args, noted.hash);
    case Action::kExec:
    case Action::kScript:
      return state_.NewestEpoch();
    case Action::kSession:
      return state_.NewestEpochFor(*noted.command);
    default:
      return 0;
  }
}

bool Worker::OnTryBack(ShardBatch* batch) {
  Session& session = SessionOf(batch->connection);
  const ShardBatch::Entry& entry = batch->first();
  std::vector<std::string_view> args;
  if (!batch->must_wait) {
    session.missed_tries = 0;
    if (monitors_.any()) [[unlikely]] {
      batch->ViewArgs(entry, &args);
      FeedMonitors(session, *entry.command, args);
    }
    return true;
  }
  ++session.missed_tries;
  // It comes again.
  --session.commands;
  --state_.stats.commands_processed;
  batch->ViewArgs(entry, &args);
  const Outcome outcome =
      CoordinateWait(batch->connection, session, *entry.command, RunBlocking, args);
  if (outcome == Outcome::kWaits) return false;
  RunNoted();  // it is refused
  return true;
}

// --- MULTI, EVAL ---

CommandSink::Outcome Worker::Queue(Connection* connection, Session& session, const Command& command,
                                   Args args) {
  Multi& multi = *session.multi;
  if ((command.flags & kNoMulti) != 0) {
    multi.is_aborted = true;
    return Refuse(connection, &command, args,
                  {.error = "ERR Command not allowed inside a transaction"});
  }
  // Whatever it is: queues take memory, too.
  if (server_.memory.is_exhausted()) {
    multi.is_aborted = true;
    return Refuse(connection, &command, args, {.error = std::string(kErrOutOfMemory)});
  }
  if (!multi.is_aborted) {  // else it will never run
    multi.Add(command, script_finder_.FlagsOf(command, args), args, shards_);
    memory_.Settle();
    client_limiter_.Recount(session);
    quotas_.OnQueued(session);
  }
  if (multi.bytes() > state_.buffers.bounds.input_max && session.primary == nullptr) {
    ++state_.stats.large_inputs;
    LOG(WARNING) << "closing connection " << connection->id() << " of " << session.peer_address
                 << ": its MULTI has " << multi.bytes()
                 << " bytes of commands, more than client-query-buffer-limit";
    connection->CloseNow();
    return Outcome::kTaken;
  }
  Note(connection, Action::kQueued, &command, args, 0, 0);
  return Outcome::kTaken;
}

CommandSink::Outcome Worker::Exec(Connection* connection, Session& session, const Command& command,
                                  Args args) {
  Multi* const multi = session.multi.get();
  if (multi != nullptr && (multi->command_flags() & kDenyOom) != 0 &&
      server_.memory.is_exhausted()) {
    execs_.EndMulti(session);
    return Refuse(connection, &command, args, {.error = std::string(kErrOutOfMemory)});
  }
  if (multi != nullptr && quotas_.limits_databases() && session.primary == nullptr) [[unlikely]] {
    if (std::string error = quotas_.MemoryErrorOf(*multi); !error.empty()) {
      execs_.EndMulti(session);
      return Refuse(connection, &command, args, {.error = std::move(error)});
    }
  }
  if (multi == nullptr || multi->is_aborted) {
    Note(connection, Action::kSession, &command, args, 0, 0);
    RunNoted();
    return Outcome::kTaken;
  }
  if (session.user.acl != nullptr) [[unlikely]]
    users_.CheckMulti(session);
  if (multi->is_one_shard() && session.watches.are_in(multi->shard())) {
    multi->watcher = session.watches.empty() ? 0 : session.watches.watcher;
    Note(connection, Action::kExec, &command, args, multi->shard(), multi->items().front().hash);
    RunNoted();
    return Outcome::kTaken;
  }
  if (!BarrierIsOpen(connection)) return Outcome::kBarrier;
  Coordinate(connection, session, command, &Execs::RunAcross, args);
  return Outcome::kBusy;
}

CommandSink::Outcome Worker::DispatchScript(Connection* connection, Session& session,
                                            const Command& command, Args args) {
  ScriptArgs call;
  std::string error;
  Script* const script = script_finder_.Find(command, args, &call, &error);
  if (script == nullptr) {
    if (error == kErrOutOfMemory) return Refuse(connection, &command, args, {.error = error});
    return Refuse(connection, &command, args, {.error = std::move(error)}, Action::kScriptRefused);
  }
  const ScriptJobs::Plan plan = jobs_.PlanOf(*script, call.keys);
  if (plan.way == ScriptJobs::Plan::Way::kInPlace) {
    Note(connection, Action::kScript, &command, args, plan.shard, plan.hash, script);
    return Outcome::kTaken;
  }
  if (!BarrierIsOpen(connection)) return Outcome::kBarrier;
  Coordinate(connection, session, command, &ScriptJobs::OverShards, args);
  return Outcome::kBusy;
}

void Worker::OnRoom(Connection* connection) {
  if (OutputFeed* feed = SessionOf(connection).feed.get(); feed != nullptr) return feed->OnRoom();
  batches_.OnRoom(connection);
}

void Worker::ReleaseScratch() {
  if (!noted_.empty()) return;
  Release(&noted_args_);
  Release(&tags_);
}

void Worker::OnWatchedSent(Connection* connection) {
  state_.timer.slow_log().OnSent(connection->id(), helio::CycleClock::Now(),
                                 connection->TakeGateCycles());
}

bool Worker::OnProtocolError(Connection*, std::string_view) {
  if (gathered_.is_open()) return false;
  ++state_.stats.protocol_errors;
  runner_.CountError("ERR");
  RunNoted();
  batches_.Send();
  return true;
}

}  // namespace dfly
