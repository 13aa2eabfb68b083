// SPDX-License-Identifier: Apache-2.0
// The worker's commands that need a fiber.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/table/pieces.h"
#include "commands/table/spread.h"
#include "core/memory/large_text.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "helio/base/block_bytes.h"
#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "server/clients/server_state.h"
#include "server/dispatch/primary_replies.h"
#include "server/dispatch/worker.h"

namespace dfly {

namespace {

// Arguments of a command that outlives the receive buffer. A large one is not copied if its
// connection gives it (LargeText::Scope).
class OwnArgs {
 public:
  // `connection`: whose command it is. Of very many arguments it takes the input that they are in.
  OwnArgs(Args args, Connection* connection) {
    if (args.size() >= Command::kManyArgs && connection->TakeInput(args.all(), &taken_)) return;
    size_t copied = 0;
    for (std::string_view arg : args.all()) {
      if (arg.size() < LargeText::kMin || !TakeLarge(arg)) [[likely]]
        copied += arg.size();
    }
    bytes_ = std::make_unique_for_overwrite<char[]>(copied);
    views_.reserve(args.size());
    char* end = bytes_.get();
    auto large = large_.begin();
    for (std::string_view arg : args.all()) {
      if (large != large_.end() && large->view().data() == arg.data()) {
        views_.push_back(large->view());
        ++large;
        continue;
      }
      if (!arg.empty()) memcpy(end, arg.data(), arg.size());
      views_.emplace_back(end, arg.size());
      end += arg.size();
    }
  }
  std::span<const std::string_view> views() const {
    if (taken_.args != nullptr) return {taken_.args.get(), taken_.arg_count};
    return views_;
  }
  size_t memory_used() const {
    size_t large = 0;
    for (const LargeText& text : large_) large += text.capacity();
    return large + helio::BlockBytes(bytes_.get()) + helio::HeapBytes(views_) +
           taken_.bytes.capacity() + taken_.arg_count * sizeof(std::string_view);
  }

 private:
  bool TakeLarge(std::string_view arg) {
    std::optional<LargeText> given = LargeText::Take(arg);
    if (!given) return false;
    large_.push_back(*std::move(given));
    return true;
  }

  Connection::TakenInput taken_;
  std::unique_ptr<char[]> bytes_;
  std::vector<LargeText> large_;
  std::vector<std::string_view> views_;
};

}  // namespace

// Its keys are in one shard. From here nobody can look into another thread's: Batches::GoesHome.
bool Worker::TakesLong(const Session& session, const Command& command, Args args,
                       const KeyPlace& place) {
  const Shard* const shard = state_.local(place.shard);
  return shard != nullptr && !all_remote_ &&
         Exclusion::TakesLong(*shard, session.db_index, command, args, place.hash);
}

void Worker::RunGathered(Connection* connection) {
  const Command& command = gathered_.Take();
  connection->BeginBusy();
  Coordinate(connection, SessionOf(connection), command, nullptr, gathered_.args(),
             gathered_.counts());
  batches_.Send();
}

void Worker::Coordinate(Connection* connection, Session& session, const Command& command,
                        CoordinatorHandler handler, Args args, const Gathered::Counts& counts) {
  const auto count = static_cast<uint32_t>(std::max<size_t>(counts.size(), 1));
  state_.stats.commands_processed += count;
  rates_.Count(helio::UnixMillis());
  state_.stats.coordinated_commands += count;
  session.commands += count;
  session.last_command = &command;
  ++session.coordinators;
  ++state_.coordinators;
  if (gates_.MayWrite(command, args, session)) {
    session.let_in.session = &session;
    state_.let_in.PushBack(&session.let_in);
  }
  lock_watch_.Begin();
  if (monitors_.any()) [[unlikely]] {
    if (&command == exec_) FeedExec(session);
    if (counts.size() > 1) {
      gathered_.ForEach([&](Args each) { FeedMonitors(session, command, each); });
    } else {
      FeedMonitors(session, command, args);
    }
  }

  const bool runs_scripts = command.runs_script || command.needs_script_stack ||
                            (&command == exec_ && session.multi->has_scripts());
  helio::FiberOptions options{.name = "coordinator",
                              .stack_size = runs_scripts ? RunningScripts::kStackBytes : 0};
  helio::Fiber(std::move(options), [this, connection, &session, &command, handler,
                                    own_args = OwnArgs(args, connection), counts, count] {
    const std::span<const std::string_view> views = own_args.views();
    memory_.counted.coordinators += own_args.memory_used();
    helio::IoBuf out;
    RespWriter writer;
    writer.Reset(&out, session.resp3, session.is_memcached);
    CoordinatorContext cx(&shards_, &session, session.db_index,
                          session.ClockOf(helio::UnixMillis()));
    cx.set_command(command.effect, views);
    CachingClient client;
    if (session.tracking != nullptr) {
      client = session.tracking->client;
      cx.set_client(&client, session.tracking->TakeReads(command, false));
    }
    if (gates_.MayWrite(command, Args(views), session))
      exclusion_.AskSnapshots(session, command, Args(views), session.db_index);
    if (runner_.AwaitRoom(command, Args(views), writer, count)) {
      const auto run = [&] {
        if (handler != nullptr) {
          handler(cx, views, writer);
        } else if (views.size() >= Command::kManyArgs && command.can_run_in_pieces() &&
                   session.primary == nullptr) {
          RunInPieces(cx, command, views, writer);
        } else {
          RunSpread(cx, command, views, writer, counts);
        }
      };
      runner_.RunOrRefuse(cx, command, Args(views), writer, run, count);
    }
    // Who publishes after this reply finds the subscriptions changed.
    pubsub_.AwaitChanges(session);
    if (!connection->closing()) {
      const bool drop_reply =
          (command.flags & kPushes) == 0 && &command != exec_ && session.drops_replies();
      session.AdvanceReplyMode();
      helio::IoBuf* target = connection->replies().BeginLocal();
      if (session.primary != nullptr) [[unlikely]]
        DropReply(&out, 0, true);
      constexpr size_t kSwapMin = 64 * 1024;  // below, a copy costs less than another buffer
      if (target->empty() && out.size() >= kSwapMin && !drop_reply) {
        target->Swap(out);
      } else if (!drop_reply) {
        target->Append(out.view());
      }
      connection->replies().Hold(state_.NewestEpochFor(command));
      connection->replies().EndLocal();
      if (session.primary != nullptr) [[unlikely]]
        MarkPrimary(session, ReadOffset(session), false);
      if (session.close_after_reply) connection->CloseWhenSent();
    }
    pubsub_.OnReplied(session);
    monitors_.OnReplied(session);
    tracking_.OnReplied(session);
    client_limiter_.Recount(session);
    memory_.counted.coordinators -= own_args.memory_used();
    session.let_in.Unlink();
    --session.coordinators;
    --state_.coordinators;
    pools_.Note();
    // Whichever comes last, the end of the command or of the connection, deletes the session.
    if (session.connection_closed) state_.Forget(&session);
    connection->EndBusy();  // the session may be gone after this
  }).Detach();
}

}  // namespace dfly
