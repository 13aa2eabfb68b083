// SPDX-License-Identifier: Apache-2.0
// Commands that may write and have passed the gates, and are not over. A change of the server's
// role waits for them; what comes behind them is refused or held.
#pragma once

#include "helio/base/intrusive_list.h"

namespace dfly {

class Connection;
class Session;

// Owner: a worker's thread. A batch that writes, or a command that runs on a fiber; while it is
// under way it is in WorkerState::let_in, in the order in which they came.
struct LetIn : helio::ListHook<LetIn> {
  const Session* session = nullptr;  // of a command that may wait for a key
  Connection* cut_for = nullptr;     // of a batch that goes on when this has sent its replies
  bool is_mark = false;              // it is none: somebody waits for those before it
};
using LetInList = helio::IntrusiveList<LetIn, LetIn>;

}  // namespace dfly
