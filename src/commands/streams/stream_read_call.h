// SPDX-License-Identifier: Apache-2.0
// What a call of XREAD or XREADGROUP asks for, and what it may get.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "commands/streams/stream_support.h"
#include "commands/table/args.h"
#include "facade/replies/reply_sink.h"

namespace dfly {

struct ReadCall {
  bool of_group = false;  // XREADGROUP
  std::string_view group;
  std::string_view consumer;
  bool no_ack = false;
  uint64_t count = 0;                  // of entries of each key; 0: all of them
  uint64_t most_entries = UINT64_MAX;  // MAXCOUNT, of all keys together
  uint64_t most_bytes = UINT64_MAX;    // MAXSIZE, of their entries in the reply
  std::optional<int64_t> timeout_ms;   // none: does not wait
  // CLAIM: what was delivered so long ago comes first, whoever has got it.
  std::optional<int64_t> claim_idle_ms;
  std::span<const std::string_view> keys;
  std::span<const std::string_view> ids;

  bool has_budget() const { return most_entries != UINT64_MAX || most_bytes != UINT64_MAX; }
};

// None: the error was replied.
std::optional<ReadCall> ParseRead(Args args, ReplySink& reply);
// Dispatch goes by these before there is a handler: FindStreamKeys finds the same keys as
// ParseRead. Whether the call has BLOCK.
std::optional<KeyRange> FindStreamKeys(Args args);
bool HasTimeout(Args args);
// Command::asks_for_many. A call that may wait is tried where its key is, in one step.
bool AsksForManyBehind(Args args);
// Command::takes_many.
bool TakesManyBehind(const CompactValue& value, Args args, size_t key_at);

// --- The bytes of a reply in RESP ---

inline constexpr size_t Digits(uint64_t number) {
  size_t digits = 1;
  for (; number >= 10; number /= 10) ++digits;
  return digits;
}
inline size_t BulkBytes(size_t size) { return 5 + Digits(size) + size; }
inline size_t IdBytes(StreamId id) {
  char scratch[StreamId::kTextMax];
  return BulkBytes(id.Format(scratch).size());
}
inline size_t IntegerBytes(uint64_t number) { return 3 + Digits(number); }
inline constexpr size_t kSmallArrayBytes = 4;  // "*2\r\n"
inline constexpr size_t kNullArrayBytes = 5;   // "*-1\r\n"

// Of a key before its entries; they are counted as if they were less than ten.
inline size_t HeaderBytes(std::string_view key) {
  return 2 * kSmallArrayBytes + BulkBytes(key.size());
}

// Of an entry in an array of RESP.
inline size_t EntryBytes(const StreamEntry& entry) {
  size_t bytes = kSmallArrayBytes + IdBytes(entry.id) + IntegerBytes(entry.fields * 2);
  entry.ForEachField([&bytes](PackedElement name, PackedElement value) {
    char scratch[PackedElement::kScratchSize];
    bytes += BulkBytes(name.View(scratch).size());
    bytes += BulkBytes(value.View(scratch).size());
  });
  return bytes;
}

// What a call may still get of MAXCOUNT and MAXSIZE. Whoever reads asks for each entry, before
// anything happens to it.
class Budget {
 public:
  explicit Budget(const ReadCall& call) : entries_(call.most_entries), bytes_(call.most_bytes) {}

  bool is_spent() const { return entries_ == 0; }
  void BeginKey(std::string_view key) {
    if (counts_bytes()) header_bytes_ = HeaderBytes(key);
  }
  // of(): the size of the entry, if that matters. False: the call gets no more. It always gets one.
  template <typename Size>
  bool Take(Size of) {
    if (is_spent()) return false;
    if (counts_bytes()) {
      const size_t bytes = std::exchange(header_bytes_, 0) + of();
      if (bytes > bytes_ && !is_new_) {
        entries_ = 0;
        return false;
      }
      bytes_ -= std::min<uint64_t>(bytes, bytes_);
    }
    is_new_ = false;
    has_key_ = true;
    --entries_;
    return true;
  }
  // For a key that has no entries to give, but is replied. False: it does not fit.
  bool TakeEmptyKey() {
    const size_t bytes = std::exchange(header_bytes_, 0);
    if (bytes > bytes_ && has_key_) {
      if (!is_new_) entries_ = 0;
      return false;
    }
    bytes_ -= std::min<uint64_t>(bytes, bytes_);
    has_key_ = true;
    return true;
  }

 private:
  bool counts_bytes() const { return bytes_ != UINT64_MAX; }

  uint64_t entries_;
  uint64_t bytes_;
  size_t header_bytes_ = 0;  // of a key that has got none yet
  bool is_new_ = true;       // no entry was taken
  bool has_key_ = false;     // something is replied
};

}  // namespace dfly
