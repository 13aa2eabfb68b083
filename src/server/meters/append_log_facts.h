// SPDX-License-Identifier: Apache-2.0
// What is known of the append-only log, for INFO.
#pragma once

#include <cstdint>

namespace dfly {

struct AppendLogFacts {
  bool is_on = false;
  bool is_rewriting = false;
  bool is_rewrite_scheduled = false;  // a snapshot is made first
  bool is_last_rewrite_ok = true;
  bool is_write_ok = true;
  int64_t last_rewrite_s = -1;     // how long it took; -1: there was none
  int64_t current_rewrite_s = -1;  // so far; -1: there is none
  uint64_t rewrites = 0;
  uint64_t failures = 0;  // of rewrites, since the last good one
  // The rest only while it is on.
  uint64_t bytes = 0;           // of all its files
  uint64_t base_bytes = 0;      // the same, after the last rewrite or at the start
  uint64_t waiting_bytes = 0;   // that are not written
  uint64_t unsynced_bytes = 0;  // that are written and not on the device; everysec
  bool is_behind = false;       // these two are more than journal_buffer_limit
  uint64_t epochs = 0;          // that are written
  uint64_t syncs = 0;
  uint64_t syncs_delayed = 0;  // that took more than a second
  uint64_t sync_last_us = 0;
  uint64_t sync_max_us = 0;
  uint64_t errors = 0;           // of the disk
  uint64_t history_bytes = 0;    // of what rewrites have replaced, and what is kept
  int64_t history_oldest_s = 0;  // Unix time to which it reaches back; 0: there is none
};

}  // namespace dfly
