// SPDX-License-Identifier: Apache-2.0
// How blocking commands wait (BLPOP). commands/table/blocking.h says what each of them does.
//
//   keys in one shard      one hop tries, and leaves a waiter if there is nothing
//                          (--singlehop_blocking; dispatch tries in place if the shard is here)
//   in several shards      a transaction looks, and takes, or leaves a waiter in each shard
//   BLMOVE to another      a transaction moves, or leaves a waiter that is only woken: it then
//   shard                  tries again, and keeps its place meanwhile
//
// Whoever makes a key ready serves the first waiter at once, on the shard
// (engine/keyspace/waiter_table.h).
#pragma once

#include <absl/container/fixed_array.h>
#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "commands/table/blocking.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/waiter_table.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/io_buf.h"
#include "helio/fibers/inbox.h"
#include "helio/fibers/sync.h"
#include "server/clients/client_wait.h"

namespace dfly {

class Session;

// Owner: the fiber that runs the command; shards call Serve on their threads.
class BlockedCommand final : public Waiter, public ClientWait {
 public:
  // All of these outlive it.
  BlockedCommand(CoordinatorContext& cx, const BlockingForm& form, Args args, BlockingCall* call);

  // The whole of it. Suspends.
  void Run(ReplySink& reply);

  // --- For a command without keys, instead of Run ---

  // Until its timeout, Wake, or what else ends a wait. Suspends.
  End Wait();
  // Thread: any. It lives until this is over.
  void Wake();
  // Of a wait that ended so. REQUIRES: kUnblockedWithError or kDenied, or the form has
  // reply_nothing.
  void ReplyTo(End how, ReplySink& reply);

  bool EndWait(End how) override;
  void Deny(std::string error) override;
  Args args() const override { return args_; }
  bool waits() const override { return end_ == End::kNone; }
  std::vector<std::string> Keys() const override;
  uint64_t since_ns() const override { return since_ns_; }

  bool IsReady(Shard& shard, const WaiterNode& node) const override;
  Outcome Serve(Shard& shard, WaiterNode& node) override;

 private:
  struct Told : helio::Message {
    BlockedCommand* command = nullptr;
    End how = End::kNone;
  };

  std::span<WaiterNode> nodes() { return {nodes_.data(), nodes_count_}; }
  std::span<const WaiterNode> nodes() const { return {nodes_.data(), nodes_count_}; }
  void LockAll(Transaction* tx);
  bool TryInOneHop(ReplySink& reply);
  bool IsHindered(const Shard& shard) const;
  bool TryInHops(ReplySink& reply);
  void RunAcross(ReplySink& reply);
  // On the shard's thread: leaves its nodes there.
  void Register(Shard& shard);
  // On the shard's thread: its key is looked at again when it may be ready by itself.
  void LookLater(Shard& shard, const ShardContext& shard_cx, WaiterNode* node);
  void Unregister();
  // Of its nodes, when they are not on the fiber's stack.
  size_t NodeBytes() const;
  void Tell(End how);

  CoordinatorContext& cx_;
  Session& session_;
  const BlockingForm& form_;
  const Args args_;
  BlockingCall& call_;  // changed by the first try only
  const bool resp3_;
  const bool is_direct_;  // shards of this thread are reached without a message; not in some tests
  helio::Proactor* const home_;
  const uint64_t since_ns_;
  const uint64_t deadline_ns_;             // monotonic; 0: none
  absl::FixedArray<WaiterNode, 1> nodes_;  // of its keys, each once, and as many more as it
                                           // names twice
  size_t nodes_count_ = 0;
  absl::InlinedVector<ShardId, 4> ids_;  // of their shards, each once
  ShardId target_shard_ = 0;
  uint64_t target_lock_ = 0;
  bool is_across_ = false;  // its target is in another shard

  std::string denial_;   // kDenied: the error
  helio::IoBuf served_;  // the reply, when a shard has served it
  Told told_;
  helio::Mutex mutex_;
  helio::CondVar has_ended_;
  End end_ = End::kNone;
};

// The CoordinatorHandler of all blocking commands that may wait. Suspends.
void RunBlocking(CoordinatorContext& cx, Args args, ReplySink& reply);

}  // namespace dfly
