// SPDX-License-Identifier: Apache-2.0
// Replies that wait for replicas: --min_replicas_to_ack, --fence_without_sentinels.
//
// With rules that hold replies each epoch ends at once and asks replicas how far they are. A reply
// waits at the gate of its thread, as it does for the disk; AckQuorum says up to which epoch
// replies may leave, and the journal tells the gates.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "server/clients/sentinels.h"
#include "server/meters/replicas_facts.h"
#include "server/options/options.h"
#include "server/replication/acks/ack_quorum.h"

namespace dfly {

class EffectStream;
struct ServerState;

// Owner:    Replicas. What says nothing else belongs to proactor 0.
// Suspends: what says so.
class SyncReplies {
 public:
  // Both outlive it.
  SyncReplies(ServerState* server, EffectStream* stream);
  ~SyncReplies();

  // From the next epoch on. REQUIRES: the stream has its listener, all shards are locked. Suspends.
  void Apply(const AckQuorum::Rules& rules);
  // Nobody is told of what waits: another server is the primary now. Then nothing waits any more.
  // REQUIRES: as Apply. Suspends.
  void FailAll();
  const AckQuorum::Rules& rules() const { return rules_; }
  // ack_timeout_ms: replies that have waited for so long are never told; 0: they wait for ever. And
  // where Sentinels know this server. Suspends.
  void SetOptions(const ReplicationOptions& options);
  // The end. Suspends.
  void Stop();

  void SetVoters(std::vector<std::shared_ptr<const AckState>> voters);
  // Thread: any. As AckQuorum::OnEpoch.
  void OnEpoch(uint64_t epoch, uint64_t end) { quorum_.OnEpoch(epoch, end); }
  // Thread: any proactor's. What replicas have acknowledged has grown.
  void Release();

  void AddFacts(ReplicasFacts* facts) const;

 private:
  struct Thread;

  // Each thread looks at its connections from time to time, while there is a reason.
  void UpdateTicks();
  void Tick(Thread* thread, uint32_t index);
  bool HoldsFenceOpen(Session& session, const Thread& thread, uint64_t now_ns);

  ServerState& server_;
  EffectStream& stream_;
  AckQuorum quorum_;
  AckQuorum::Rules rules_;
  AnnouncedAddress announced_;
  std::atomic<bool> holds_{false};  // the rules do
  std::atomic<uint64_t> timeout_ns_{0};
  std::atomic<uint64_t> timeouts_{0};
  const std::unique_ptr<Thread[]> threads_;
};

}  // namespace dfly
