// SPDX-License-Identifier: Apache-2.0
// A command that dispatch has looked up but not yet run.
#pragma once

#include <cstdint>
#include <string>

#include "commands/table/command_table.h"
#include "engine/hops/shard_set.h"
#include "server/acl/acl_user.h"
#include "server/scripts/script_store.h"

namespace dfly {

class Connection;

// What is to be done with it.
enum class Action : uint8_t {
  kLocal,
  kRemote,
  kSession,
  kRefused,     // by `refusal`
  kTry,         // a blocking command, on a shard of ours
  kTryByBatch,  // the same, by a batch
  kQueued,      // by MULTI
  kExec,        // session.multi, in one shard
  kScript,      // in place
  kScriptRefused
};

// Why a command is not carried out, as dispatch has decided. It is answered in order.
struct Refusal {
  std::string error;        // what the client gets
  AclVerdict verdict = {};  // denied: by its user's ACL, whose log has it
  bool is_of_row = true;    // it counts for the command; else there is no such
};

// Its arguments are views into the receive buffer.
struct Noted {
  const Command* command;
  Connection* connection;
  uint64_t hash;
  ShardId shard;
  uint32_t first_arg;
  uint32_t arg_count;
  Action action;
  bool deferred;  // its arguments are in Worker's deferred_args_
  union {
    Script* script;          // kScript: lives until ScriptFinder::Settle; else null
    const Refusal* refusal;  // kRefused, kScriptRefused: one of Worker's refusals_
  };
};

}  // namespace dfly
