// SPDX-License-Identifier: Apache-2.0
// What a session knows of CLIENT TRACKING.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/keyspace/read_tracker.h"
#include "helio/base/counters.h"
#include "helio/base/io_buf.h"

namespace dfly {

// What CLIENT TRACKING has set. Owner: the session.
struct TrackingState {
  CachingClient client;
  bool is_broadcast = false;
  bool opt_in = false;
  bool opt_out = false;
  bool has_caching = false;  // CLIENT CACHING came before the command that is next
  bool is_broken = false;    // who the messages go to has left
  uint64_t redirect = 0;     // the client that gets the messages; 0: this one
  uint32_t redirect_thread = 0;
  std::vector<std::string> prefixes;
  helio::IoBuf held;  // messages behind a reply that a fiber is about to write

  // May the command that is next note what it reads? Ends what CLIENT CACHING has said.
  bool TakeReads(const Command& command, bool is_queued);
};

// For INFO.
struct TrackingCounts {
  uint64_t clients = 0;
  uint64_t keys = 0;      // that somebody has read
  uint64_t items = 0;     // the same, for each client
  uint64_t prefixes = 0;  // the same on all threads

  static constexpr helio::CounterOf<TrackingCounts> kCounters[] = {
      &TrackingCounts::clients,
      &TrackingCounts::keys,
      &TrackingCounts::items,
      {&TrackingCounts::prefixes, helio::Merge::kSame}};
};
static_assert(helio::ListsAll<TrackingCounts>());

}  // namespace dfly
