// SPDX-License-Identifier: Apache-2.0
// A part of a reply that is kept, to be given on later: when it is known how many items there are,
// or on another thread and in slices.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory/work_bytes.h"
#include "facade/replies/refusing_sink.h"
#include "facade/replies/reply_sink.h"
#include "helio/base/logging.h"
#include "helio/fibers/long_work.h"

namespace dfly {

// What is written lies in blocks, which never move: it grows to many megabytes without a pause.
//
//   record   kind (1 byte) | number, 7 bits in each byte, the lowest ones first | text of a bulk
//
// Owner:    the command whose reply it is; shards write to it, one at a time.
// Suspends: GiveInSlices.
class KeptReply final : public RefusingSink {
 public:
  bool empty() const { return blocks_.empty(); }
  void GiveTo(ReplySink& reply) const {
    for (const Block& block : blocks_) Give(block, reply, [] {});
  }
  // The same, while others run in between; frees it on the way. It stays counted until its end, as
  // the reply has the bytes then. Suspends.
  void GiveInSlices(ReplySink& reply) {
    helio::LongWork work;
    for (Block& block : blocks_) {
      Give(block, reply, [&work] { work.Step(); });
      block = {};
    }
  }

  void Bulk(std::string_view text) override {
    char* const at = Add(Kind::kBulk, text.size(), text.size());
    if (!text.empty()) memcpy(at, text.data(), text.size());
  }
  void Integer(int64_t value) override { Add(Kind::kInteger, static_cast<uint64_t>(value)); }
  void Double(double value) override { Add(Kind::kDouble, std::bit_cast<uint64_t>(value)); }
  void Null() override { Add(Kind::kNull, 0); }
  void NullArray() override { Add(Kind::kNullArray, 0); }
  void Array(size_t items) override { Add(Kind::kArray, items); }
  void Map(size_t pairs) override { Add(Kind::kMap, pairs); }

 private:
  enum class Kind : uint8_t { kBulk, kInteger, kDouble, kNull, kNullArray, kArray, kMap };
  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t used = 0;
  };
  static constexpr size_t kHeadMax = 11;  // bytes of a record without the text

  // Of the record's text.
  char* Add(Kind kind, uint64_t number, size_t text_bytes = 0) {
    if (left_ < kHeadMax + text_bytes) AddBlock(kHeadMax + text_bytes);
    Block& block = blocks_.back();
    char* at = block.bytes.get() + block.used;
    *at++ = static_cast<char>(kind);
    for (; number >= 128; number >>= 7) *at++ = static_cast<char>(number | 128);
    *at++ = static_cast<char>(number);
    const size_t end = static_cast<size_t>(at - block.bytes.get()) + text_bytes;
    left_ -= end - block.used;
    block.used = end;
    return at;
  }
  void AddBlock(size_t bytes) {
    constexpr size_t kFirst = 256;
    constexpr size_t kMost = 64 * 1024;
    left_ = std::max(bytes, std::min(kMost, kFirst << std::min<size_t>(blocks_.size(), 8)));
    blocks_.push_back({.bytes = std::make_unique_for_overwrite<char[]>(left_)});
    counted_.AddBlock(left_);
  }

  template <typename Step>
  static void Give(const Block& block, ReplySink& reply, Step step) {
    const char* at = block.bytes.get();
    for (const char* const end = at + block.used; at != end; step()) {
      const auto kind = static_cast<Kind>(*at++);
      uint64_t number = 0;
      for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<uint8_t>(*at++);
        number |= uint64_t{byte & 127u} << shift;
        if (byte < 128) break;
      }
      switch (kind) {
        case Kind::kBulk:
          reply.Bulk({at, number});
          at += number;
          break;
        case Kind::kInteger:
          reply.Integer(static_cast<int64_t>(number));
          break;
        case Kind::kDouble:
          reply.Double(std::bit_cast<double>(number));
          break;
        case Kind::kNull:
          reply.Null();
          break;
        case Kind::kNullArray:
          reply.NullArray();
          break;
        case Kind::kArray:
          reply.Array(number);
          break;
        case Kind::kMap:
          reply.Map(number);
          break;
      }
    }
  }
  void Refuse() override { LOG(DFATAL) << "a reply that cannot be kept"; }

  std::vector<Block> blocks_;
  size_t left_ = 0;  // in the last block
  WorkBytes counted_;
};

}  // namespace dfly
