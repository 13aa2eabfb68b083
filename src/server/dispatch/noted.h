// SPDX-License-Identifier: Apache-2.0
// A command that dispatch has looked up but not yet run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

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

// Room for the arguments of commands that stay noted when their receive buffer is gone.
template <size_t kCommands>
class DeferredArgs {
 public:
  // The views are of copies from here on. False: they are too large for that.
  bool Copy(std::span<std::string_view> args) {
    size_t bytes = 0;
    for (std::string_view arg : args) bytes += arg.size();
    if (bytes > kBytesMax) return false;
    for (std::string_view& arg : args) {
      char* const copy = bytes_ + size_;
      memcpy(copy, arg.data(), arg.size());
      size_ += arg.size();
      arg = {copy, arg.size()};
    }
    return true;
  }
  // REQUIRES: at most kCommands commands were copied since.
  void Clear() { size_ = 0; }

 private:
  static constexpr size_t kBytesMax = 512;  // of one command

  char bytes_[kCommands * kBytesMax];
  size_t size_ = 0;
};

}  // namespace dfly
