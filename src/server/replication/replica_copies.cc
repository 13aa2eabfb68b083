// SPDX-License-Identifier: Apache-2.0
#include "server/replication/replica_copies.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/base/random_id.h"
#include "server/clients/server_state.h"
#include "server/persistence/persistence.h"
#include "server/replication/replicas.h"

namespace dfly {

namespace {

// Of a copy, that its slowest reader has not taken yet.
constexpr uint64_t kCopyWindow = 4 << 20;
constexpr size_t kPieceBytes = 64 * 1024;  // of a copy's file

// The last part of the copy before this one may still be on its way to others.
bool Copies(const Replica& replica, const ReplicaCopy* copy) {
  return replica.state == ReplicaState::kCopies && replica.copy == copy;
}
CopyForm FormOf(const Replica& replica) {
  const ReplicaOffer& offer = replica.offer;
  return {.has_keys = offer.wants_keys,
          .has_functions = offer.wants_functions,
          .is_sized = !offer.has_eof};
}

}  // namespace

// The RDB, on its way to the replicas.
class ReplicaCopies::Output final : public OutputFile {
 public:
  // `file`: where it goes first, if its size is to be known; else null.
  Output(ReplicaCopies* copies, std::shared_ptr<ReplicaCopy> copy, std::unique_ptr<OutputFile> file,
         const std::atomic<bool>* is_cancelled)
      : copies_(*copies),
        copy_(std::move(copy)),
        file_(std::move(file)),
        is_cancelled_(is_cancelled) {}

  std::error_code Write(std::string_view bytes) override {
    const helio::BoundedWait wait(kSnapshotFile);
    if (file_ == nullptr) return copies_.Append(*copy_, bytes, is_cancelled_);
    if (copy_->readers == 0) return std::make_error_code(std::errc::operation_canceled);
    return file_->Write(bytes);
  }

  std::error_code SyncAndClose() override {
    if (file_ != nullptr) return file_->SyncAndClose();
    copy_->bytes.Append(copy_->mark);
    copy_->bytes.Publish();
    copy_->is_complete = true;
    copies_.replicas_.feeds().Wake();
    return {};
  }

 private:
  ReplicaCopies& copies_;
  const std::shared_ptr<ReplicaCopy> copy_;
  const std::unique_ptr<OutputFile> file_;
  const std::atomic<bool>* const is_cancelled_;
};

ReplicaCopies::ReplicaCopies(ServerState* server, Persistence* persistence, Replicas* replicas)
    : server_(*server),
      persistence_(*persistence),
      replicas_(*replicas),
      options_(server->options.replication) {}

bool ReplicaCopies::HasWaiting() const {
  return std::any_of(replicas_.all().begin(), replicas_.all().end(),
                     [](const auto& replica) { return WaitsForCopy(*replica); });
}

bool ReplicaCopies::HasWaiting(const CopyForm& form) const {
  return std::any_of(replicas_.all().begin(), replicas_.all().end(), [&form](const auto& replica) {
    return WaitsForCopy(*replica) && FormOf(*replica) == form;
  });
}

void ReplicaCopies::RunAlone(std::function<void()> work) {
  if (std::exchange(is_busy_, true)) return;
  helio::Fiber("copies", [this, work = std::move(work)] {
    work();
    RunAll();
    is_busy_ = false;
  }).Detach();
}

void ReplicaCopies::RunAll() {
  while (!replicas_.ends() && HasWaiting()) {
    AwaitOthers();
    if (!replicas_.ends() && HasWaiting()) Run();
  }
}

// One copy is for all that come within some time.
void ReplicaCopies::AwaitOthers() {
  const uint64_t end_ns = helio::MonotonicNanos() + options_.copy_delay_s * helio::kNanosPerSecond;
  while (!replicas_.ends() && HasWaiting() && helio::MonotonicNanos() < end_ns) {
    const auto& all = replicas_.all();
    const auto count = std::count_if(all.begin(), all.end(),
                                     [](const auto& replica) { return WaitsForCopy(*replica); });
    const bool hurries = std::any_of(all.begin(), all.end(), [](const auto& replica) {
      return replica->is_process && WaitsForCopy(*replica);
    });
    if (hurries) return;
    const uint64_t enough = options_.copy_replicas_max;
    if (enough != 0 && static_cast<uint64_t>(count) >= enough) return;
    helio::this_fiber::SleepForMillis(kLookMillis);
  }
}

void ReplicaCopies::Run() {
  const auto copy = std::make_shared<ReplicaCopy>();
  const auto first = std::find_if(replicas_.all().begin(), replicas_.all().end(),
                                  [](const auto& replica) { return WaitsForCopy(*replica); });
  copy->form = FormOf(**first);
  copy->mark = RandomId();
  copy->may_attach = replicas_.MayAttach();
  if (copy->may_attach) replicas_.OpenStream();
  const std::string& directory = persistence_.directory();
  const std::string path =
      fmt::format("{}temp-copy-{}.{}.rdb", directory.empty() ? "" : directory + "/",
                  helio::UnixMillis() / 1000, getpid());
  std::string error = Save(copy, path);
  if (error.empty() && copy->form.is_sized) error = SendSized(*copy, path);
  if (copy->form.is_sized) {
    LOG_IF(WARNING, server_.options.persistence.files->Remove(path))
        << helio::LogText(path) << " cannot be removed";
  }
  End(copy, error);
}

std::string ReplicaCopies::Save(const std::shared_ptr<ReplicaCopy>& copy, const std::string& path) {
  std::unique_ptr<OutputFile> file;
  if (copy->form.is_sized) {
    if (auto error = server_.options.persistence.files->Create(path, &file)) {
      return fmt::format("{}: {}", path, error.message());
    }
  }
  LogBase base;
  base.make_output = [this, copy, &file](const std::atomic<bool>* is_cancelled) {
    return std::make_unique<Output>(this, copy, std::move(file), is_cancelled);
  };
  base.has_keys = copy->form.has_keys;
  base.has_functions = copy->form.has_functions;
  base.cut_lock = copy->may_attach ? LockMode::kExclusive : LockMode::kShared;
  base.before_cut = [this, copy] { return Begin(copy); };
  base.place = [copy] { return copy->place; };
  return persistence_.SaveLogBase(std::move(base));
}

std::string ReplicaCopies::SendSized(ReplicaCopy& copy, const std::string& path) {
  std::unique_ptr<InputFile> file;
  std::error_code error = server_.options.persistence.files->Open(path, &file);
  if (!error) error = Append(copy, fmt::format("${}\r\n", file->size()), nullptr);
  const auto piece = std::make_unique<char[]>(kPieceBytes);
  for (uint64_t at = 0; !error && at < file->size();) {
    size_t size = 0;
    error = file->ReadAt(at, piece.get(), kPieceBytes, &size);
    if (!error && size == 0) error = std::make_error_code(std::errc::io_error);
    if (!error) error = Append(copy, {piece.get(), size}, nullptr);
    at += size;
  }
  if (error) return fmt::format("{}: {}", path, error.message());
  copy.is_complete = true;
  replicas_.feeds().Wake();
  return "";
}

std::error_code ReplicaCopies::Append(ReplicaCopy& copy, std::string_view bytes,
                                      const std::atomic<bool>* is_cancelled) {
  copy.bytes.Append(bytes);
  copy.bytes.Publish();
  replicas_.feeds().Wake();
  while (true) {
    if (replicas_.ends() || copy.readers == 0 || (is_cancelled != nullptr && *is_cancelled)) {
      return std::make_error_code(std::errc::operation_canceled);
    }
    if (copy.bytes.end() - copy.bytes.FirstPinned() <= kCopyWindow) return {};
    if (persistence_.shards_behind() > 0) {
      // Compared only: who is in another copy is not meant.
      server_.pool.at(0)->Dispatch(
          [this, &copy, end = copy.bytes.end()] { EndSlowReaders(&copy, end); });
    }
    helio::this_fiber::SleepForMillis(kLookSoonMillis);
  }
}

bool ReplicaCopies::Begin(const std::shared_ptr<ReplicaCopy>& copy) {
  if (replicas_.ends() || !HasWaiting(copy->form)) return false;
  const helio::BoundedWait wait(kSnapshotFile);
  if (!replicas_.FindPlace(copy.get())) return false;
  Send(copy);
  return true;
}

void ReplicaCopies::Send(const std::shared_ptr<ReplicaCopy>& copy) {
  copy->has_begun = true;
  replicas_.ids().is_told = true;
  for (const auto& replica : replicas_.all()) {
    if (!WaitsForCopy(*replica) || FormOf(*replica) != copy->form) continue;
    replica->pin = replicas_.backlog().Pin(copy->place.offset);
    if (replica->pin == nullptr) continue;  // no: nothing was trimmed past the end
    replica->state = ReplicaState::kCopies;
    ++count_;
    copy->readers.fetch_add(1);
    std::string reply =
        replica->is_old_command
            ? ""
            : fmt::format("+FULLRESYNC {} {}\r\n", replicas_.ids().id, copy->place.offset);
    if (!copy->form.is_sized) reply += fmt::format("$EOF:{}\r\n", copy->mark);
    const std::shared_ptr<StreamPin> pin = copy->bytes.Pin(0);
    replica->copy = copy.get();
    replica->copy_pin = pin;
    replica->proactor->Dispatch([replica, reply, copy, pin] {
      if (replica->feed != nullptr) return replica->feed->BeginCopy(reply, copy, pin);
      copy->bytes.Unpin(pin);
      copy->readers.fetch_sub(1);
    });
  }
}

void ReplicaCopies::End(const std::shared_ptr<ReplicaCopy>& copy, const std::string& error) {
  if (copy->may_attach) replicas_.CloseStream();
  if (error.empty()) return;
  LOG(WARNING) << "no copy for the replicas: " << helio::LogText(error);
  for (const auto& replica : replicas_.all()) {
    // Who has come since it began gets the next one.
    const bool is_concerned =
        Copies(*replica, copy.get()) ||
        (!copy->has_begun && WaitsForCopy(*replica) && FormOf(*replica) == copy->form);
    if (!is_concerned) continue;
    OnFeed(replica, [](ReplicaFeed& feed) { feed.End("there is no copy for it"); });
  }
}

void ReplicaCopies::EndSlowReaders(const ReplicaCopy* copy, uint64_t end) {
  for (const auto& replica : replicas_.all()) {
    if (!Copies(*replica, copy) || end - replica->copy_pin->offset <= kCopyWindow) continue;
    OnFeed(replica, [](ReplicaFeed& feed) {
      feed.End(
          "it takes its copy so slowly that clients that write would have to wait: more than "
          "snapshot_buffer_limit is kept for it");
    });
  }
}

}  // namespace dfly
