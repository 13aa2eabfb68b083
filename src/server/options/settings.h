// SPDX-License-Identifier: Apache-2.0
// What CONFIG SET may change and every thread reads.
#pragma once

#include <atomic>
#include <cstdint>

namespace dfly {

// tls-auth-clients-user: where the certificate of a client has the name of its user.
enum class CertificateUser : uint8_t { kOff, kCommonName, kUri };

// Thread: any reads; changed by CONFIG SET. Numbers that stand alone, so relaxed order is enough.
// The rows of the settings give the first values (SettingRow::live).
struct Settings {
  // Why commands are refused; 0 nearly always.
  static constexpr uint16_t kLoadingGate = 1;   // all that have not kLoading
  static constexpr uint16_t kNoWritesGate = 2;  // those with kWrite: no snapshot can be made
  static constexpr uint16_t kStoppingGate = 4;  // all, without an answer: the last snapshot is made
  static constexpr uint16_t kNoLogGate = 8;     // as kNoWritesGate: the log cannot be written
  static constexpr uint16_t kReadOnlyGate = 16;  // those with kWrite: this is a replica
  static constexpr uint16_t kStaleGate = 32;  // all without kStale: a replica that has no primary
  static constexpr uint16_t kNoReplicasGate = 64;  // those with kWrite: min-replicas-to-write
  // Those with kNoAsyncLoading: a replica loads a copy beside its data.
  static constexpr uint16_t kAsyncLoadingGate = 128;
  // What scripts write that were let in while this was a replica: its stream is not open yet. All
  // others that write wait meanwhile (write_holds).
  static constexpr uint16_t kPromotesGate = 256;
  static constexpr uint16_t kNoDiskGates = kNoWritesGate | kNoLogGate;
  std::atomic<uint16_t> gate{0};
  std::atomic<int> log_errno{0};  // why not; 0: it can, or there is none
  // A snapshot is being made, so shards may have a CutGuard.
  std::atomic<bool> is_saving{false};
  // How many have more in memory than their disk takes: shards of a snapshot, and the log. While it
  // is not 0 commands that write wait at their connections; see WorkerState::HoldWrites.
  std::atomic<uint32_t> write_holds{0};
  static constexpr uint32_t kHoldsAll = 1U << 31;  // in it: all other commands wait, too
  // replica-ignore-disk-write-errors: what the primary sends does not wait for a disk that fails.
  std::atomic<bool> ignores_disk_errors{false};
  std::atomic<uint64_t> backlog_bytes{0};  // repl-backlog-size
  std::atomic<uint64_t> maxmemory{0};      // bytes of all that is known; 0: no limit
  std::atomic<uint32_t> maxclients{0};
  std::atomic<bool> limits_databases{false};  // some have a quota of memory
  std::atomic<uint32_t> tcp_keepalive_s{0};
  // Milliseconds after which a script is slow: who has to wait for it is told BUSY. 0: never.
  std::atomic<uint64_t> busy_reply_threshold_ms{0};
  std::atomic<uint64_t> snapshot_buffer_limit{0};  // bytes; 0: no limit
  std::atomic<uint64_t> journal_buffer_limit{0};   // the same
  // Memory is moved when what is resident is more than what is used by so many percent, and bytes.
  std::atomic<bool> active_defrag{false};
  std::atomic<uint32_t> defrag_threshold_percent{0};
  std::atomic<uint64_t> defrag_ignore_bytes{0};
  std::atomic<uint32_t> defrag_cycle_percent{0};  // of a thread's time, at most
  std::atomic<bool> protected_mode{false};
  std::atomic<uint64_t> auth_timeout_s{0};           // 0: no limit
  std::atomic<uint64_t> tracking_table_max_keys{0};  // of all shards together; 0: no limit
  std::atomic<uint64_t> slowlog_max_len{0};
  std::atomic<uint64_t> keysizes_keys_max{0};  // 0: no limit
  std::atomic<uint64_t> large_request_max_len{0};
  std::atomic<uint64_t> large_reply_max_len{0};
  std::atomic<uint64_t> lock_warning_ms{0};     // 0: nobody is told
  std::atomic<uint32_t> latency_monitor_ms{0};  // 0: off
  std::atomic<CertificateUser> certificate_user{CertificateUser::kOff};
  std::atomic<bool> scripts_may_debug{false};  // DEBUG SET-DISABLE-DENY-SCRIPTS
};

}  // namespace dfly
