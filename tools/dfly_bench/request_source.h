// SPDX-License-Identifier: Apache-2.0
// Which requests a connection sends, and in which order.
//
//   none       SETs and GETs by the ratio, or --command
//   bullmq     EVALSHAs of BullMQ's script that adds a job; connection i adds to queue i modulo the
//              number of queues, or each request to a random one
//   brpop      what Sidekiq's processes do: in each turn a connection pushes --pipeline jobs to
//              random queues, all in one window, and then pops as many, one after the other, each
//              time from all queues in a rotated order. Since a connection pushes before it
//              pops, a pop always finds a job.
//   lua_lists  EVALSHAs of a script that pushes a JSON array to 5 lists
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/dfly_bench/command_template.h"
#include "tools/dfly_bench/load_options.h"
#include "tools/dfly_bench/script_call.h"

namespace dfly::bench {

// A command as its arguments, with the gaps of CommandTemplate.
using CommandArguments = std::vector<std::string>;

// Fills `call` with the script that the scenario calls, if any. Returns what is wrong, or nothing.
std::string ScriptOfScenario(const LoadOptions& options, ScriptCall* call);

// All the commands of the run. `sha`: of the scenario's script. bullmq: one for each queue; brpop:
// a push for each queue and then a pop for each rotation. Returns what is wrong, or nothing.
std::string MakeCommands(const LoadOptions& options, const ScriptCall& call, std::string_view sha,
                         std::vector<CommandArguments>* commands);

// Owner: one thread, for all its connections. Suspends: never.
class RequestSource {
 public:
  // `options` and `values` outlive it.
  RequestSource(const LoadOptions& options, const std::vector<CommandArguments>& commands,
                const ValuePool* values);

  // How many requests a connection sends in all; UINT64_MAX: until it is stopped.
  uint64_t Total() const;
  // Closed loop: how many leave together when `sent` were sent and answered.
  uint64_t Window(uint64_t sent) const;
  // Requests that only prepare jobs are neither timed nor counted as jobs.
  bool IsPreparation(uint64_t request) const;

  // Appends request number `request` of connection number `connection`.
  void Write(uint32_t connection, uint64_t request, KeySource* keys, helio::Random* random,
             helio::IoBuf* out);

 private:
  // brpop: requests from `request` on until the turn's pushes are over; 0 for a pop.
  uint64_t PushesLeft(uint64_t request) const;
  size_t Choose(uint32_t connection, uint64_t request, helio::Random* random) const;

  const LoadOptions& options_;
  std::vector<CommandTemplate> templates_;
};

}  // namespace dfly::bench
