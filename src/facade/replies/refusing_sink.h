// SPDX-License-Identifier: Apache-2.0
// For sinks that know some kinds of replies only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "facade/replies/reply_sink.h"

namespace dfly {

// Whatever is not overridden is refused.
class RefusingSink : public ReplySink {
 public:
  void Status(std::string_view) override { Refuse(); }
  void Error(std::string_view) override { Refuse(); }
  void Integer(int64_t) override { Refuse(); }
  void Bulk(std::string_view) override { Refuse(); }
  void Null() override { Refuse(); }
  void NullArray() override { Refuse(); }
  void Double(double) override { Refuse(); }
  void Decimal(std::string_view) override { Refuse(); }
  void Bool(bool) override { Refuse(); }
  void BigNumber(std::string_view) override { Refuse(); }
  void Verbatim(std::string_view, std::string_view) override { Refuse(); }
  void Array(size_t) override { Refuse(); }
  void Map(size_t) override { Refuse(); }
  void Set(size_t) override { Refuse(); }
  void Push(size_t) override { Refuse(); }
  void Attribute(size_t) override { Refuse(); }

 protected:
  // A reply has come that this sink does not know, and is dropped.
  virtual void Refuse() = 0;
};

}  // namespace dfly
