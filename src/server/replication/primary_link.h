// SPDX-License-Identifier: Apache-2.0
// The replica's side of replication: the link with its primary.
//
//   connect, handshake, PSYNC
//     +FULLRESYNC   the copy goes to a file, the shards are emptied and filled from that; or, with
//                   repl-diskless-load, it is loaded beside the data as it comes, and takes its
//                   place
//     +CONTINUE     what this server has is enough
//   the stream      the socket becomes a connection, whose client is the primary: its commands take
//                   the way of every pipeline (server/dispatch/worker_primary.cc)
//
// When the link ends, for whatever reason, it begins anew, a second later at the latest, and asks
// for what comes behind the last command that was carried out.
//
// What comes goes to the backlog of Replicas, too, for this server's own replicas.
//
// REPLICAOF only says what the server is to be. The fiber of the link carries that out, as it needs
// all locks; until a promotion is done, clients that write wait.
//
// While the server is a replica nothing expires or is evicted by itself: the primary says what
// goes.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "helio/fibers/sync.h"
#include "helio/net/tls.h"
#include "server/clients/primary_stream.h"
#include "server/meters/primary_link_facts.h"
#include "server/options/options.h"
#include "server/replication/link_socket.h"
#include "server/replication/replication_ids.h"
#include "storage/snapshot_extras.h"

namespace dfly {

class AppendLog;
class CopySource;
class Persistence;
class Replicas;
class Session;
struct PsyncReply;
struct ServerState;

// Owner:    the server. All of it is on proactor 0.
// Suspends: what says so.
class PrimaryLink final : private PrimaryStreamOwner {
 public:
  // All outlive it.
  PrimaryLink(ServerState* server, Persistence* persistence, AppendLog* log, Replicas* replicas,
              const ReplicationOptions& options);
  ~PrimaryLink();

  // Of FAILOVER: whether the other one has become a primary.
  enum class HandOver : uint8_t { kNone, kAsks, kTaken, kRefused };

  // REPLICAOF host port: the server is a replica from now on; the link begins in the background.
  // False: it has been one of that primary already. kAsks: that one is to take this server's role.
  bool Follow(std::string_view host, uint16_t port, HandOver hand_over = HandOver::kNone);
  // --take_over: follows the process at the other end of this connected socket, which asks for no
  // password and has no TLS. When the socket ends there is no other one.
  void FollowSocket(int fd);
  // REPLICAOF NO ONE. What the server has stays.
  void Leave();
  bool is_replica() const { return !host_.empty(); }
  // A promotion is done: the role of the last Leave.
  bool is_settled() const { return !is_running_; }
  // The same. Thread: any.
  bool is_known_replica() const { return is_known_replica_.load(std::memory_order_relaxed); }
  // The stream of the primary runs. Thread: any.
  bool is_linked() const { return is_linked_.load(std::memory_order_relaxed); }
  // As `replicaof` has it; empty: a primary.
  std::string primary() const;
  HandOver hand_over() const { return hand_over_; }
  // Why there is no link.
  const std::string& last_error() const { return last_error_; }

  // The data that was loaded is of a stream, and this database is selected where it ends.
  void OnResumed(const StreamPlace& place) {
    offset_ = static_cast<int64_t>(place.offset);
    db_index_ = place.db_index;
  }
  // CONFIG SET.
  void SetOptions(const ReplicationOptions& options);
  // For the links to come. Null: they have no TLS.
  void SetTlsContext(std::shared_ptr<const helio::TlsContext> context) {
    tls_context_ = std::move(context);
  }
  // The end of the server. With a log the stream comes to rest first, for so long at most, so that
  // the log has a place in it. Suspends until nothing runs any more.
  void Stop(uint64_t patience_ms);

  // For a copy or a snapshot of this replica: nothing more of the stream is carried out, and what
  // was begun is done. False: there is no stream, or it does not come to rest within repl-timeout.
  // Suspends.
  bool HoldStream() { return HoldStreamFor(options_.timeout_s * 1'000); }
  void LetStreamGo();
  // Where it is held. None: the link has ended meanwhile.
  std::optional<StreamPlace> held_place() const;

  // What the server has is that of the stream up to there. An empty id: that is not known, or it is
  // no replica. REQUIRES: Stop, and nothing of the stream is carried out any more.
  StreamPlace place_at_end() const;

  // replica-read-only was off since the last copy: what clients have written is in no stream.
  bool may_have_own_writes() const { return may_have_own_writes_; }

  const ReplicationIds& ids() const { return ids_; }
  // Of what is carried out.
  int64_t offset() const { return offset_; }
  PrimaryLinkFacts Facts() const;

 private:
  enum class State : uint8_t { kConnect, kConnecting, kHandshake, kSync, kConnected };
  static constexpr uint64_t kRetryMillisMax = 60'000;

  bool HoldStreamFor(uint64_t patience_ms);
  int64_t ToldOffset() const;

  // PrimaryStreamOwner
  void OnBytes(std::string_view bytes) override;
  void OnWhole(int64_t offset) override;
  void OnRest() override;
  void OnApplied(int64_t offset) override;
  std::optional<int64_t> durable() override;
  void OnStreamError(std::string_view error) override;
  void OnStreamCorrupt() override;
  void OnStreamEnd(int64_t offset, int db_index, bool is_exact) override;

  void Run();
  void Demote();
  void Promote();
  // After Promote, or when it was asked to follow and to leave before Demote had begun.
  void BecomePrimary();
  // From the connection to its end. An error, or nothing. Suspends, as what follows.
  std::string RunLink();
  int Connect(std::string* error);
  std::string RunSocket(LinkSocket& socket);
  std::string Handshake(LinkSocket& socket);
  // Where this server's own replicas, and clients, can come to.
  uint16_t ListeningPort() const;
  // Sends a command and reads its reply. None: the socket has an error.
  std::optional<std::string> Ask(LinkSocket& socket, std::initializer_list<std::string_view> words);
  std::string Synchronize(LinkSocket& socket);
  std::string Continue(const PsyncReply& reply);
  std::string FullCopy(LinkSocket& socket, const PsyncReply& reply);
  // repl-diskless-load, and what there is, want that.
  bool LoadsBeside();
  // What is wrong with the copy is known before the data goes.
  std::string CopyByFile(CopySource& source, const PsyncReply& reply);
  std::string ReceiveCopy(CopySource& source, const std::string& path);
  // Empties the shards and fills them from the file.
  std::string LoadCopy(const std::string& path, const PsyncReply& reply);
  // Loads the copy beside the data as it comes, and changes over to it.
  std::string SwapCopy(CopySource& source, const PsyncReply& reply);
  // What the shards have is that copy from now on.
  void Adopt(const PsyncReply& reply, int db_index);
  void TellLog(std::string_view error);  // of AppendLog::BeginAnew
  std::string RunStream(LinkSocket& socket);
  // Until then (monotonic), or something else is to be done.
  void AwaitRetry(uint64_t end_ns);

  // The link that is under way ends soon; the next one is another.
  void EndLink();
  void SetReplica(bool is_replica);
  void UnblockClients();
  // Clients that write wait until a promotion is carried out.
  void SetHoldsWrites(bool holds);
  void UpdateGates();
  void Tick();
  // In the log: what the stream's commands were answered with, unless it is there already.
  void TellErrors();
  bool is_current(uint64_t generation) const { return generation == generation_ && !stops_; }
  uint64_t timeout_ns() const { return options_.timeout_s * 1'000'000'000; }

  ServerState& server_;
  Persistence& persistence_;
  AppendLog& log_;
  Replicas& replicas_;
  ReplicationOptions options_;
  std::shared_ptr<const helio::TlsContext> tls_context_;

  std::atomic<bool> is_known_replica_{false};
  std::atomic<bool> is_linked_{false};
  std::string host_;  // empty: no replica
  uint16_t port_ = 0;
  HandOver hand_over_ = HandOver::kNone;
  uint64_t generation_ = 0;  // of what was asked for
  bool stops_ = false;
  bool is_handed_ = false;     // FollowSocket
  int handed_fd_ = -1;         // its socket, until it is connected
  bool is_running_ = false;    // Run
  bool follows_ = false;       // between Demote and Promote
  bool holds_writes_ = false;  // SetHoldsWrites
  bool may_have_own_writes_ = false;
  // Of whom its offset tells: there was no link since it was a primary, or only with another one.
  enum class Past : uint8_t { kPrimary, kOtherPrimary, kThisPrimary };
  Past past_ = Past::kPrimary;
  uint64_t tick_task_ = 0;  // 0: none
  helio::Mutex mutex_;      // CondVar wants one
  helio::CondVar changed_;

  State state_ = State::kConnect;
  LinkSocket* socket_ = nullptr;  // while there is one
  Session* session_ = nullptr;    // while the stream runs
  bool wants_rest_ = false;       // HoldStream waits for that
  bool is_held_ = false;          // and it rests, until LetStreamGo
  bool is_loading_ = false;
  bool is_ours_ = false;  // the primary: it may say what no Redis knows
  uint64_t retry_ms_;
  std::string last_error_;            // that is in the log
  uint64_t down_since_ns_ = 0;        // 0: never up
  const CopySource* copy_ = nullptr;  // while a full copy comes

  ReplicationIds& ids_;
  int64_t offset_ = 0;
  // With a log: which of its epochs has all up to an offset; of those that may not be on the disk.
  struct Applied {
    uint64_t epoch;
    int64_t offset;
  };
  static constexpr size_t kAppliedMax = 1'000;
  std::deque<Applied> applied_;
  int64_t durable_ = 0;
  bool can_continue_ = false;  // what is here is of ids_, at offset_
  int db_index_ = 0;           // that the stream has selected there
  uint64_t errors_ = 0;
  uint64_t errors_told_ = 0;
  std::string last_stream_error_;
};

}  // namespace dfly
