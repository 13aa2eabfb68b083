// SPDX-License-Identifier: Apache-2.0
// The worker's part of noticing that clients have left while their connections wait or are not
// received from.
#include "helio/base/clock.h"
#include "server/dispatch/blocking.h"
#include "server/dispatch/inner_client.h"
#include "server/dispatch/worker.h"

namespace dfly {

void Worker::OnPeerShutdown(Connection* connection) {
  Session& session = SessionOf(connection);
  // Nobody reads what it waits for, and what it takes would be lost. What a pause or a
  // quota holds back is not carried out for who has left, as in Redis.
  const bool is_paused = connection->held() && (connection->waits() || Quotas::waits(session));
  if (session.blocked != nullptr || is_paused) return connection->SendAndCloseNow();
  if (session.inner_call != nullptr) session.inner_call->EndSide();
}

void Worker::OnClosing(Connection* connection) {
  // At once: CLIENT LIST does not show the connection any more, and what another client pushes from
  // now on must not be given to it.
  Session& session = SessionOf(connection);
  if (session.blocked != nullptr) session.blocked->EndWait(ClientWait::End::kGone);
  if (session.feed != nullptr) session.feed->OnClosing();
}

void Worker::OnRecvStopped(Connection*) { SweepSoon(); }

void Worker::OnBlocked(int change) {
  DCHECK(change > 0 || blocked_clients_ > 0);
  blocked_clients_ += static_cast<size_t>(change);
  if (change > 0) SweepSoon();
}

void Worker::SweepSoon() {
  if (sweep_timer_.armed()) return;
  sweep_timer_.ArmIn(kSweepMs * helio::kNanosPerMilli);
}

void Worker::SweepEnds() {
  bool goes_on = false;
  state_.ForEachSession([&](Session& session) {
    Connection& connection = session.connection;
    if (!connection.is_to_be_looked_at()) return;
    goes_on = true;
    if (connection.LookForEnd()) ++state_.stats.ends_swept;
  });
  if (goes_on) SweepSoon();
}

}  // namespace dfly
