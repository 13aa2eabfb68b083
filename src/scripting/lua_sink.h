// SPDX-License-Identifier: Apache-2.0
// A command's reply as a Lua value, with Redis' rules (those of RESP2, or of redis.setresp(3)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "facade/replies/reply_sink.h"

struct lua_State;

namespace dfly {

// The field of an error's table that says it was counted already.
constexpr const char* kKnownErrorField = "ignore_error_stats_update";
// Does the value on the top of the stack have it? Pushes nothing.
bool IsKnownError(lua_State* lua);

// Owner:    one ScriptState, inside an UnlimitedScope: so no call here can raise a Lua error.
// Suspends: never.
class LuaSink final : public ReplySink {
 public:
  // The value will be pushed on `lua`'s stack.
  void Begin(lua_State* lua, bool resp3);
  // True if exactly one whole value stands on the stack's top.
  bool is_complete() const { return complete_ && !failed_; }
  // Of a complete value: it is an error reply, a table with the field `err`.
  bool is_error() const { return is_error_; }

  void Status(std::string_view text) override;
  void Error(std::string_view message) override;
  void Integer(int64_t value) override;
  void Bulk(std::string_view bytes) override;
  void Null() override;
  void NullArray() override { Null(); }
  void Double(double value) override;
  void Decimal(std::string_view digits) override;
  void Bool(bool value) override;
  void BigNumber(std::string_view digits) override;
  void Verbatim(std::string_view format, std::string_view text) override;
  void Array(size_t items) override;
  void Map(size_t pairs) override;
  void Set(size_t items) override;
  void Push(size_t items) override { Array(items); }
  void Attribute(size_t pairs) override;

 private:
  enum class Kind : uint8_t { kArray, kMapKey, kMapValue, kSet, kSkipped };
  struct Open {
    Kind kind;
    size_t left;  // items still to come; of a map, keys and values
    int64_t next_index;
  };

  bool Reserve();
  void Field(const char* name, std::string_view text);
  void OpenTable(Kind kind, size_t items, size_t array, size_t pairs, const char* wrapper);
  // The value on the top of the stack is whole: to where it belongs.
  void Place();

  lua_State* lua_ = nullptr;
  std::vector<Open> open_;  // aggregates that lack items, outermost first
  bool complete_ = false;
  bool failed_ = false;  // Lua's stack cannot hold the nesting
  bool is_error_ = false;
};

}  // namespace dfly
