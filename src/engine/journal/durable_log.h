// SPDX-License-Identifier: Apache-2.0
// Where the journal's epochs go: an interface, so that the engine knows no files.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace dfly {

// What all threads have done since the epoch before. It has every unit as a whole, and of two units
// that touched the same keys the one that came first stands first, or in an earlier epoch.
struct Epoch {
  uint64_t number = 0;  // 1, 2, 3 ..., in the order of Write
  // The database that has to be selected before its first byte (-1: any, as it begins with SELECT),
  // and the one behind its last.
  int first_db = 0;
  int last_db = 0;
  // Commands in RESP, with SELECT where the database changes inside. Cut anywhere, even in a word.
  std::span<const std::string_view> pieces;
  uint64_t bytes = 0;  // of all pieces
  // PSYNC's id of the stream that it is a part of, and where there; empty: of none. From
  // EffectStream.
  std::string_view stream_id = {};
  uint64_t stream_offset = 0;
};

// Owner:    who makes it; it outlives its Journal.
// Suspends: Write.
class DurableLog {
 public:
  // Returns true once the epoch is as durable as the log's policy promises: an error of the disk is
  // the log's to mend, however long that takes. False: the log was stopped before that, and the
  // journal writes no more. One call at a time, from fibers of any proactor.
  [[nodiscard]] virtual bool Write(const Epoch& epoch) = 0;

 protected:
  ~DurableLog() = default;
};

}  // namespace dfly
