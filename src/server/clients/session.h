// SPDX-License-Identifier: Apache-2.0
// What the server knows about one client besides its bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/hops/coordinator.h"
#include "facade/connection.h"
#include "helio/base/block_bytes.h"
#include "helio/fibers/inbox.h"
#include "server/acl/acl_store.h"
#include "server/clients/affinity.h"
#include "server/clients/client_wait.h"
#include "server/clients/let_in.h"
#include "server/clients/multi.h"
#include "server/clients/output_feed.h"
#include "server/clients/primary_stream.h"
#include "server/clients/session_quota.h"
#include "server/clients/subscriptions.h"
#include "server/clients/tracking_state.h"
#include "server/options/protected_action.h"

namespace dfly {

struct ServerState;
class WorkerState;

enum class ReplyMode : uint8_t {
  kOn,
  kOff,
  kSkipNext,  // CLIENT REPLY SKIP was executed: the next command's reply is dropped
  kSkipThis,  // it is the next command now
};

// Who the client is.
struct SessionUser {
  std::string name{AclStore::kDefaultName};
  // What it may do; null: everything. Changed by Users::OnChanged when the user is.
  AclUserRef acl;
  // Who it is for its scripts; null: not known yet. They run on other threads, too.
  AclCallerRef caller;
  bool is_authenticated = false;
  bool is_checked = true;  // Session::UpdateChecked
  uint64_t unauthenticated_since_ns = 0;
  bool is_admin = false;           // came to the admin port
  bool needs_no_password = false;  // as there is none on that
  bool is_process = false;         // no user, but the process that takes over: may do everything
};

// What a Sentinel has published last about itself and the primary.
struct SentinelHello {
  std::string primary_host;
  uint16_t primary_port = 0;
  bool is_told = false;   // that it names another server, in the log
  uint64_t heard_ns = 0;  // when it said something last, as it was looked at last; monotonic

  // False: since it was said, or looked at, it was silent for `patience_ns` at least. To be called
  // a few times in that time. last_ns: when it said something last.
  bool HasLasted(uint64_t last_ns, uint64_t now_ns, uint64_t patience_ns) {
    const uint64_t before_ns = std::exchange(heard_ns, last_ns);
    return last_ns < before_ns + patience_ns && now_ns < last_ns + patience_ns;
  }
};

// What goes along when the connection goes on on another thread: what the client has set or shows.
struct MovedSession {
  std::string name;
  std::string lib_name;
  std::string lib_version;
  size_t counted_texts = 0;  // of these, as memory of the connection: CountTexts
  SessionUser user;
  std::string peer_address;
  std::string local_address;
  int db_index = 0;
  bool resp3 = false;
  bool is_memcached = false;             // speaks its protocol; never RESP
  std::unique_ptr<SentinelHello> hello;  // null: it is no Sentinel that has said one
  bool no_touch = false;
  bool no_evict = false;
  ReplyMode reply_mode = ReplyMode::kOn;
  // Blocking commands in a row that found nothing where they looked first.
  uint32_t missed_tries = 0;
  uint64_t commands = 0;
  const Command* last_command = nullptr;
  Affinity affinity;
};

// Owner: the connection's thread.
class Session final : public CommandClient, public MovedSession {
 public:
  Session(WorkerState* worker, Connection* connection);
  // `from`, whose connection goes on on another thread. What is not in MovedSession is as new:
  // only a session without it moves (Worker::MayMove).
  Session(WorkerState* worker, Session&& from);

  ServerState& server;
  WorkerState& worker;
  Connection& connection;

  // --- Its commands ---

  uint32_t coordinators = 0;  // fibers that run commands of this client, and may use all this
  // Batches for shards of its own thread that are not back yet: none may overtake them.
  size_t local_batches = 0;
  // Came back before their end, because their replies are long; they go on when those are sent.
  std::vector<PendingReplies*> cut_batches;
  ClientWait* blocked = nullptr;           // what waits for a key
  LetIn let_in;                            // its command that runs on a fiber and may write
  RunningInnerCall* inner_call = nullptr;  // what it asks for over HTTP
  std::unique_ptr<Multi> multi;            // between MULTI and EXEC
  const Multi* executing = nullptr;        // what EXEC carries out, if that takes several shards
  std::unique_ptr<PrimaryStream> primary;  // null: the client is not the primary of this server
  Watches watches;

  // --- What it is sent without asking ---

  // Null: it is subscribed to nothing. PubSub's, as is the last change whose confirmation was sent
  // or has its place among the replies.
  std::unique_ptr<Subscriptions> subscriptions;
  uint64_t subscriptions_told = 0;
  std::unique_ptr<TrackingState> tracking;  // null: it does not track what it reads
  bool is_redirect_target = false;          // of the messages of another one that does
  enum class Monitor : uint8_t { kNo, kBegins, kYes };
  Monitor monitor = Monitor::kNo;

  // --- If it is a replica ---

  std::unique_ptr<ReplicaOffer> replica_offer;  // null: it has not sent REPLCONF
  std::unique_ptr<OutputFeed> feed;             // null: it gets no stream

  // --- Its connection ---

  bool close_after_reply = false;  // a handler asks for it: QUIT
  // `connection` has ended, and lives only while one of `coordinators` runs.
  bool connection_closed = false;
  bool is_known_http = false;  // some request of it was that of a user
  int64_t counted_extra = 0;   // ClientLimiter's
  // Null: neither its user nor its database has a quota. Of its thread's Quotas.
  std::unique_ptr<SessionQuota> quotas;
  uint32_t move_to = 0;  // the thread that it was told to move to
  struct Move : helio::Message {
    Session* session = nullptr;
  };
  Move move;

  // After a change of what the client has given itself as names: they count as its memory.
  void CountTexts() {
    const size_t bytes =
        helio::HeapBytes(name) + helio::HeapBytes(lib_name) + helio::HeapBytes(lib_version);
    connection.CountUserData(static_cast<int64_t>(bytes) - static_cast<int64_t>(counted_texts));
    counted_texts = bytes;
  }

  // The clock of its commands: a primary says itself which keys are due.
  int64_t ClockOf(int64_t now_ms) const { return primary != nullptr ? 0 : now_ms; }
  bool drops_replies() const {
    return reply_mode == ReplyMode::kOff || reply_mode == ReplyMode::kSkipThis;
  }
  // After each command.
  void AdvanceReplyMode() {
    if (reply_mode == ReplyMode::kSkipThis) {
      reply_mode = ReplyMode::kOn;
    } else if (reply_mode == ReplyMode::kSkipNext) {
      reply_mode = ReplyMode::kSkipThis;
    }
  }
  // Dispatch has to look whether it may run the next command.
  bool is_checked() const { return user.is_checked; }
  // After a change of what that depends on.
  void UpdateChecked() {
    user.is_checked = !user.is_authenticated || user.acl != nullptr || quotas != nullptr;
  }
  // It has sent nothing that makes its commands, or their replies, unlike those of others.
  bool is_plain() const {
    return multi == nullptr && primary == nullptr && tracking == nullptr &&
           subscriptions == nullptr && reply_mode == ReplyMode::kOn && !is_checked();
  }
  bool is_subscribed() const { return subscriptions != nullptr && !subscriptions->empty(); }
  // By a setting of the start. A client that came by HTTP is where its browser is.
  bool IsAllowed(ProtectedAction action) const;
  // A fiber of it has not written its reply yet, and does not wait for a key: what is pushed now
  // would come before that reply.
  bool owes_reply() const;
};

inline Session& SessionOf(const Connection* connection) {
  return *static_cast<Session*>(connection->user_data());
}
// Of the client whose command it is. REQUIRES: cx.has_client().
inline Session& SessionOf(CoordinatorContext& cx) {
  return static_cast<Session&>(cx.command_client());
}

// A handler that takes a Session, as a SessionHandler.
template <void (*kHandler)(Session&, Args, ReplySink&)>
void ForSession(CommandClient& client, Args args, ReplySink& reply) {
  kHandler(static_cast<Session&>(client), args, reply);
}

}  // namespace dfly
