// SPDX-License-Identifier: Apache-2.0
// A command that dispatch has looked up but not yet run.
#pragma once

#include <cstdint>

#include "commands/command_table.h"
#include "engine/shard_set.h"
#include "server/script_store.h"

namespace dfly {

class Connection;

// What is to be done with it.
enum class Action : uint8_t {
  kLocal,
  kRemote,
  kSession,
  kUnknown,
  kUnknownSubcommand,
  kWrongArity,
  kNoAuth,
  kDenied,  // by its user's ACL
  kAdminPortOnly,
  kProtected,   // DEBUG, by --enable_debug_command
  kTry,         // a blocking command, on a shard of ours
  kTryByBatch,  // the same, by a batch
  kSubscribed,  // refused, as the client is subscribed
  kQueued,      // by MULTI
  kNotInMulti,  // refused by it
  kOutOfMemory,
  kGated,  // by Settings::gate
  kTooManyBlocked,
  kExec,    // session.multi, in one shard
  kScript,  // in place
  kScriptRefused
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
  bool deferred;   // its arguments are in Worker's deferred_args_
  Script* script;  // lives until ScriptFinder::Settle
};

}  // namespace dfly
