// SPDX-License-Identifier: Apache-2.0
#include "server/replication/replica_files.h"

#include <string_view>

#include "helio/base/ascii.h"
#include "helio/fibers/fiber.h"
#include "server/persistence/append_log.h"
#include "server/replication/replicas.h"
#include "storage/log/log_stream.h"

namespace dfly {

namespace {

// Of a part, that its replica has not taken yet.
constexpr uint64_t kWindow = 4 << 20;
// So often the files are looked at for what they do not have yet; kLookMillis between.
constexpr int kTriesMax = 250;

}  // namespace

bool ReplicaFiles::MayHave(uint64_t offset) const {
  return log_.is_on() && offset >= lacks_before_;
}

void ReplicaFiles::Seek(const std::shared_ptr<Replica>& replica) {
  replica->state = ReplicaState::kSeeks;
  ++seeks_;
  helio::Fiber("log for replica", [this, replica] {
    Send(replica);
    --seeks_;
  }).Detach();
}

void ReplicaFiles::Send(const std::shared_ptr<Replica>& replica) {
  LogStream files(&log_.files(), [this] { return log_.StreamFiles(); });
  const auto offset = static_cast<uint64_t>(replica->wanted_offset) - 1;
  const ReplicationIds& ids = replicas_.ids();
  const bool is_own = helio::EqualsIgnoreCase(replica->wanted_id, ids.id);
  const bool is_found = files.Seek(is_own ? ids.id : ids.id2, offset);
  if (!replicas_.IsHere(replica)) return;
  if (!is_found) return replicas_.GiveCopy(replica);
  const auto part = std::make_shared<FilePart>(offset);
  replicas_.BeginStream(replica, offset, part);
  if (SendPart(replica, files, *part)) return replicas_.OnCaughtUp(*replica);
  if (!replicas_.IsHere(replica)) return;
  // It comes back, and then gets a copy.
  lacks_before_ = replicas_.backlog().begin();
  OnFeed(replica, [](ReplicaFeed& feed) { feed.End("the log's files lack a part of the stream"); });
}

bool ReplicaFiles::SendPart(const std::shared_ptr<Replica>& replica, LogStream& files,
                            FilePart& part) {
  int tries = 0;
  while (replicas_.IsHere(replica)) {
    if (part.bytes.end() - part.bytes.FirstPinned() > kWindow) {
      helio::this_fiber::SleepForMillis(kLookSoonMillis);
      continue;
    }
    replica->pin = replicas_.backlog().Pin(files.offset());
    if (replica->pin != nullptr) {
      part.is_complete = true;
      replicas_.feeds().Wake();
      return true;
    }
    const std::string_view bytes = files.Next();
    if (!bytes.empty()) {
      tries = 0;
      part.bytes.Append(bytes);
      part.bytes.Publish();
      replicas_.feeds().Wake();
      continue;
    }
    // The log is some epochs behind the backlog, or has gone on under this server's id.
    const ReplicationIds& ids = replicas_.ids();
    if (static_cast<int64_t>(files.offset()) + 1 == ids.second_offset &&
        files.Seek(ids.id, files.offset())) {
      continue;
    }
    if (++tries > kTriesMax) return false;
    helio::this_fiber::SleepForMillis(kLookMillis);
  }
  return false;
}

}  // namespace dfly
