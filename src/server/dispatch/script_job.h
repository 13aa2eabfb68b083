// SPDX-License-Identifier: Apache-2.0
// A script in place, from its start to its reply.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "facade/replies/resp_writer.h"
#include "server/care/script_args.h"
#include "server/dispatch/script_run.h"

namespace dfly {

class ShardBatch;
class ScriptJobs;

// Nearly always it begins and ends within one call, and its reply goes where any command's would.
// If it gives way it needs a batch, whose next command it is then: the reply goes there, and the
// batch waits for it.
// Owner: the worker of its shard, which pools it.
struct ScriptJob {
  ScriptJobs* jobs = nullptr;
  const Command* command = nullptr;
  Script* script = nullptr;
  Shard* shard = nullptr;
  int db_index = 0;
  bool no_touch = false;
  bool is_read_only = false;
  TxEntry* queued = nullptr;  // it ran as this entry of the queue
  AclCallerRef caller;
  uint64_t client_id = 0;
  CachingClient client;
  bool notes_reads = false;
  std::vector<std::string_view> args;
  ScriptArgs call;    // parts of `args`
  RespWriter writer;  // where its reply goes
  ShardBatch* batch = nullptr;
  std::optional<ScriptInPlace> run;
  void (*on_end)(ScriptJob*) = nullptr;  // called when it has given way, and is over
  bool has_given_way = false;
  bool is_abandoned = false;
};

}  // namespace dfly
