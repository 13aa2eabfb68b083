// SPDX-License-Identifier: Apache-2.0
// Where serialized values go and come from: memory here, files in the layers above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dfly {

// Owner: who writes; used on one thread. Suspends: a sink may, until there is room; those here
// don't.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual void Append(std::string_view bytes) = 0;
};

// What has been fetched already, a window, is taken without a virtual call.
//
// Owner: who reads; used on one thread. Suspends: a source may, until there is more; those here
// don't.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // The next `count` bytes, valid until the next call. None: there are not so many.
  std::optional<std::string_view> Take(size_t count) {
    if (count > window_.size()) [[unlikely]] {
      return TakeBeyond(count);
    }
    return TakeOfWindow(count);
  }
  // Takes the next `count` bytes without a look at them. False: there are not so many.
  bool Skip(uint64_t count) {
    if (count > window_.size()) [[unlikely]] {
      return SkipBeyond(count);
    }
    window_.remove_prefix(count);
    return true;
  }
  // The next bytes, as far as they have been fetched; valid until another function is called.
  std::string_view window() const { return window_; }
  // No more than so many bytes follow. A number of elements that is larger is a lie.
  uint64_t left() const { return window_.size() + left_behind(); }

 protected:
  // REQUIRES: count <= window_.size().
  std::string_view TakeOfWindow(size_t count) {
    const std::string_view taken = window_.substr(0, count);
    window_.remove_prefix(count);
    return taken;
  }

  std::string_view window_;  // the next bytes

 private:
  // Take, when the window has fewer; may change the window.
  virtual std::optional<std::string_view> TakeBeyond(size_t count) = 0;
  // Skip, when the window has fewer.
  virtual bool SkipBeyond(uint64_t count) = 0;
  // No more than so many bytes follow the window.
  virtual uint64_t left_behind() const = 0;
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
  explicit ViewSource(std::string_view bytes) { window_ = bytes; }

 private:
  std::optional<std::string_view> TakeBeyond(size_t) override { return std::nullopt; }
  bool SkipBeyond(uint64_t) override { return false; }
  uint64_t left_behind() const override { return 0; }
};

}  // namespace dfly
