// SPDX-License-Identifier: Apache-2.0
// What interpreters do and may take long: a script that runs, a source that is compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "helio/base/intrusive_list.h"
#include "scripting/interpreter.h"

namespace dfly {

class RunningScripts;
class WorkerState;

// Gives way to others after each slice of time, and can be killed.
//
// Owner:    the fiber that does it. Kill: anybody on its thread.
// Suspends: OnTick.
class LongRun : public ScriptHost, public helio::ListHook<> {
 public:
  LongRun(const LongRun&) = delete;
  LongRun& operator=(const LongRun&) = delete;

  // For FUNCTION KILL; else for SCRIPT KILL.
  bool is_function() const { return is_function_; }
  bool has_given_way() const { return has_given_way_; }
  // What cannot be taken back: clients may not kill it then.
  bool has_written() const { return has_written_; }
  uint64_t begin_ns() const { return begin_ns_; }
  void Kill() { is_killed_ = true; }
  // It is a ScriptRun; else it compiles.
  virtual bool is_script() const { return false; }

  Verdict OnTick() final;

 protected:
  LongRun(RunningScripts* scripts, bool is_function);
  virtual ~LongRun() = default;

  // It has an interpreter now, until End.
  void Begin();
  void End();
  // A slice is over.
  virtual void OnSlice([[maybe_unused]] uint64_t now_ns) {}
  // Lets others run.
  virtual void GiveWay() = 0;

  RunningScripts& scripts_;  // of its thread
  WorkerState& worker_;
  bool has_written_ = false;
  bool is_killed_ = false;

 private:
  const bool is_function_;
  bool has_given_way_ = false;
  uint64_t begin_ns_ = 0;  // what it has waited for before does not make it slow
  uint64_t slice_begin_ns_ = 0;
};

// A source that is compiled for no run of it: by SCRIPT LOAD, FUNCTION LOAD, FUNCTION RESTORE, or
// with a snapshot. (EVAL and its like compile as a part of their run.) Has an interpreter, and
// waits for nothing else but its turn.
//
// Suspends: also when it begins.
class ScriptLoad final : public LongRun {
 public:
  enum class Of : uint8_t {
    kScript,
    kLibrary,
    kSnapshot,  // a library; what was there before is lost, so no client may kill it
  };
  // `holds_locks`: see InterpreterPool::Take.
  ScriptLoad(RunningScripts* scripts, Of of, bool holds_locks);
  ~ScriptLoad() override;

  Interpreter& interpreter() { return *interpreter_; }

  // ScriptHost. What registers functions calls no commands.
  Verdict Call(Args, ReplySink&, bool) override { return Verdict::kKill; }
  Verdict Finish(ReplySink&) override { return Verdict::kKill; }
  std::optional<bool> IsAllowed(Args) override { return std::nullopt; }

 private:
  void GiveWay() override;

  Interpreter* const interpreter_;
};

}  // namespace dfly
