// SPDX-License-Identifier: Apache-2.0
#include "commands/table/pieces.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/kept_reply.h"
#include "commands/table/long_reads.h"
#include "commands/table/spread.h"
#include "core/text/hash.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/key_events.h"
#include "engine/keyspace/read_tracker.h"
#include "engine/keyspace/shard_turn.h"
#include "facade/replies/error_texts.h"
#include "facade/replies/refusing_sink.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

// Keeps what the pieces of a command reply.
class PieceReply final : public RefusingSink {
 public:
  explicit PieceReply(PieceReplies how) : how_(how) {}

  bool is_error() const { return error_.has_value(); }
  // `items`: of the command. Suspends.
  void GiveTo(ReplySink& reply, size_t items) {
    if (error_) return reply.Error(*error_);
    if (how_ == PieceReplies::kItems) {
      reply.Array(items);
      items_.GiveInSlices(reply);
    } else if (status_) {
      reply.Status(*status_);
    } else {
      reply.Integer(integer_);
    }
  }

  void Status(std::string_view text) override { status_.emplace(text); }
  void Error(std::string_view message) override { error_.emplace(message); }
  void Integer(int64_t value) override {
    if (how_ == PieceReplies::kItems) return items_.Integer(value);
    integer_ = how_ == PieceReplies::kSum ? integer_ + value : value;
  }
  void Bulk(std::string_view text) override { items_.Bulk(text); }
  void Null() override { items_.Null(); }
  void Double(double value) override { items_.Double(value); }
  void Array(size_t) override {}  // that of the command has all items

 private:
  void Refuse() override { LOG(DFATAL) << "a command with such replies does not come in pieces"; }

  const PieceReplies how_;
  std::optional<std::string> error_, status_;
  int64_t integer_ = 0;
  KeptReply items_;
};

// Passes on what the pieces of a command tell of its key, but nothing twice. The first piece that
// has something to tell does: who hears of it and looks at the key waits for the last one.
class ToldOnce final : public KeyEventListener, public ReadTracker {
 public:
  // For as long as a piece runs on the shard.
  class Scope {
   public:
    Scope(Shard& shard, ToldOnce* told)
        : shard_(shard), events_(shard.key_events()), tracker_(shard.tracker()) {
      told->events_ = events_;
      told->tracker_ = tracker_;
      if (events_ != nullptr) shard.ExchangeKeyEvents(told);
      if (tracker_ != nullptr) shard.set_tracker(told);
    }
    ~Scope() {
      if (events_ != nullptr) shard_.ExchangeKeyEvents(events_);
      shard_.set_tracker(tracker_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Shard& shard_;
    KeyEventListener* const events_;
    ReadTracker* const tracker_;
  };

  void OnKeyEvent(uint32_t shard, int db_index, std::string_view key, KeyEvent event) override {
    if (!IsOfClock(event)) {
      if (std::find(told_.begin(), told_.end(), event) != told_.end()) return;
      told_.push_back(event);
    }
    events_->OnKeyEvent(shard, db_index, key, event);
  }
  void OnFieldEvent(uint32_t shard, int db_index, std::string_view key, KeyEvent event,
                    std::span<const std::string_view> fields) override {
    events_->OnFieldEvent(shard, db_index, key, event, fields);
  }
  bool HearsFields(uint32_t shard) const override { return events_->HearsFields(shard); }

  void OnRead(uint32_t shard, std::string_view key, const CachingClient& reader) override {
    tracker_->OnRead(shard, key, reader);
  }
  void OnKeyChanged(uint32_t shard, std::string_view key, const CachingClient* by) override {
    if (!std::exchange(has_changed_, true)) tracker_->OnKeyChanged(shard, key, by);
  }
  void OnFlushed(uint32_t shard, uint64_t count) override { tracker_->OnFlushed(shard, count); }

 private:
  // Is told by whichever piece meets what is due.
  static bool IsOfClock(KeyEvent event) {
    return event == KeyEvent::kExpired || event == KeyEvent::kHExpired;
  }

  KeyEventListener* events_ = nullptr;
  ReadTracker* tracker_ = nullptr;
  absl::InlinedVector<KeyEvent, 4> told_;
  bool has_changed_ = false;
};

// The items of a command, a piece after the other.
class PieceCutter {
 public:
  PieceCutter(Args args, size_t first, size_t step, size_t items_each)
      : args_(args), first_(first), step_(step), items_each_(items_each), next_(first) {
    const auto all = args.all();
    piece_.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(first));
  }

  bool is_first() const { return next_ == first_; }
  bool has_more() const { return next_ < args_.size(); }
  size_t items() const { return (args_.size() - first_) / step_; }

  // What `run` gets next: at least one item, all that are left with `all`.
  Args Next(bool all) {
    const size_t end = all ? args_.size() : End();
    if (is_first() && end == args_.size()) {
      next_ = end;
      return args_;
    }
    piece_.resize(first_);
    const auto items = args_.all().subspan(next_, end - next_);
    piece_.insert(piece_.end(), items.begin(), items.end());
    next_ = end;
    return piece_;
  }

 private:
  size_t End() const {
    const size_t most = std::min(args_.size(), next_ + items_each_ * step_);
    size_t bytes = 0;
    size_t end = next_;
    while (end < most && bytes < kSliceBytes) {
      for (size_t i = 0; i < step_; ++i) bytes += args_[end++].size();
    }
    return end;
  }

  const Args args_;
  const size_t first_;
  const size_t step_;
  const size_t items_each_;
  size_t next_;
  std::vector<std::string_view> piece_;
};

}  // namespace

void RunInPieces(CoordinatorContext& cx, const Command& command, Args args, ReplySink& reply,
                 size_t items_each) {
  if (command.spread != Spread::kNone) {
    return RunSpreadInPieces(cx, command, args, reply, items_each);
  }
  const Pieces& pieces = command.pieces;
  const auto key_at = static_cast<size_t>(command.keys.first);
  size_t first = key_at + 1;
  if (pieces.check != nullptr) {
    const std::optional<size_t> found = pieces.check(args, reply);
    if (!found) return;
    first = *found;
  } else if ((args.size() - first) % pieces.step != 0) {
    return reply.Error(WrongArityError(command.full_name));
  }
  const std::string_view key = args[key_at];
  const uint64_t hash = HashKey(key);
  const ShardId id = cx.shards().ShardOfKey(key, hash);
  PieceCutter cutter(args, first, pieces.step, items_each);
  PieceReply kept(pieces.replies);
  ToldOnce told;
  bool is_whole = false;
  const auto run_piece = [&](ShardTurn& turn) {
    Shard& shard = turn.shard();
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    shard_cx.SetKeyHash(key, hash);
    const bool is_first = cutter.is_first();
    // Who hears of fields hears of all of them together.
    const bool all = (command.categories & kAclHash) != 0 && shard.key_events() != nullptr &&
                     shard.tells_fields();
    const Args piece = cutter.Next(all);
    is_whole = is_first && !cutter.has_more();
    if (is_whole) return command.run(shard_cx, piece, reply);
    const ToldOnce::Scope scope(shard, &told);
    if (is_first) return command.run(shard_cx, piece, kept);
    // The command has looked the key up once, and once only.
    const uint64_t hits = shard.stats().hits, misses = shard.stats().misses;
    shard_cx.set_no_touch(true);
    command.run(shard_cx, piece, kept);
    shard.stats().hits = hits;
    shard.stats().misses = misses;
  };
  Transaction tx(cx);
  tx.Lock(id, {cx.shards().LockOfKey(key, hash, cx.db_index()), command.lock_mode()});
  if (!tx.ScheduleAndHop(run_piece)) return;
  helio::LongWork work(1);  // a hop to this thread's own shard does not wait
  while (cutter.has_more() && !kept.is_error()) {
    work.Step();
    tx.HopOn({&id, 1}, run_piece);
  }
  tx.Conclude();
  if (!is_whole) kept.GiveTo(reply, cutter.items());
}

}  // namespace dfly
