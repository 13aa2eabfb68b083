// SPDX-License-Identifier: Apache-2.0
// Where serialized values go and come from: memory here, files in the layers above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dfly {

// Owner: who writes; used on one thread. Suspends: never.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual void Append(std::string_view bytes) = 0;
};

// Owner: who reads; used on one thread. Suspends: never.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // The next `count` bytes, valid until the next call. None: there are not so many.
  virtual std::optional<std::string_view> Take(size_t count) = 0;
  // No more than so many bytes follow. A number of elements that is larger is a lie.
  virtual uint64_t left() const = 0;
};

class StringSink final : public ByteSink {
 public:
  explicit StringSink(std::string* to) : to_(*to) {}
  void Append(std::string_view bytes) override { to_.append(bytes); }

 private:
  std::string& to_;
};

// Bytes that live elsewhere; what it gives is a part of them.
class ViewSource final : public ByteSource {
 public:
  explicit ViewSource(std::string_view bytes) : bytes_(bytes) {}
  std::optional<std::string_view> Take(size_t count) override {
    if (count > bytes_.size()) return std::nullopt;
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  uint64_t left() const override { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

}  // namespace dfly
