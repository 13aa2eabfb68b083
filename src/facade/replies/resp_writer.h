// SPDX-License-Identifier: Apache-2.0
// Replies as RESP2 or RESP3 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "facade/replies/reply_sink.h"
#include "helio/base/io_buf.h"

namespace dfly {

// Appends to an IoBuf that it does not own.
//
// Owner:    one connection or one shard batch, on its thread; cheap to re-target for each command.
// Suspends: never.
class RespWriter final : public ReplySink {
 public:
  RespWriter() = default;
  explicit RespWriter(helio::IoBuf* out, bool resp3 = false) { Reset(out, resp3); }

  // From now on write to `out`, which must outlive the writing. Keeps the error counters.
  // `is_memcached`: errors are those of memcached's text protocol.
  void Reset(helio::IoBuf* out, bool resp3, bool is_memcached = false) {
    out_ = out;
    resp3_ = resp3;
    is_memcached_ = is_memcached;
  }
  helio::IoBuf* out() const { return out_; }

  void Status(std::string_view text) override;
  void Error(std::string_view message) override;
  void Integer(int64_t value) override;
  void Bulk(std::string_view bytes) override;
  void LentBulk(char* data, size_t size) override;
  void Null() override;
  void NullArray() override;
  void Double(double value) override;
  void Decimal(std::string_view digits) override;
  void Bool(bool value) override;
  void BigNumber(std::string_view digits) override;
  void Verbatim(std::string_view format, std::string_view text) override;
  void Array(size_t items) override;
  void Map(size_t pairs) override;
  void Set(size_t items) override;
  void Push(size_t items) override;
  void Attribute(size_t pairs) override;

  // Appends bytes that are a complete reply already, in this writer's protocol.
  void Raw(std::string_view bytes) override { out_->Append(bytes); }

 private:
  void Header(char type, size_t count);
  // <type><size>\r\n<prefix><bytes>\r\n, where size counts the prefix too.
  void Blob(char type, std::string_view prefix, std::string_view bytes);
  void Line(char type, std::string_view text);

  void MemcachedError(std::string_view message);

  helio::IoBuf* out_ = nullptr;
  bool is_memcached_ = false;
};

}  // namespace dfly
