// SPDX-License-Identifier: Apache-2.0
// Runs Lua scripts as Redis 7.0 does: its globals, libraries, conversions and texts of errors, on
// Lua 5.4 with the habits of 5.1 that scripts rely on. Knows no keys, no locks, no threads: what a
// script asks of the server goes to a ScriptHost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/args.h"
#include "facade/replies/reply_sink.h"
#include "scripting/source/script_header.h"

namespace dfly {

// The server's side of one running script.
//
// Owner:    whoever calls Interpreter::Run, for as long as that runs.
// Suspends: each of these may, except IsAllowed. They must not throw, and must not use the
//           interpreter.
class ScriptHost {
 public:
  enum class Verdict : uint8_t {
    kGoOn,
    // The script ends here without noticing: no pcall of its own catches it. Nothing is replied.
    kAbandon,
    // The same, but the reply is Redis' error for SCRIPT KILL.
    kKill,
    // Of Call only: the command is executed later, and nothing was written.
    kDeferred,
  };

  virtual ~ScriptHost() = default;

  // redis.call and redis.pcall; `may_defer` for redis.acall and redis.apcall. args[0] is the
  // command's name. Writes exactly one reply, unless the verdict is not kGoOn. `args` are views,
  // which live until Call returns.
  virtual Verdict Call(Args args, ReplySink& reply, bool may_defer) = 0;
  // The script has ended, by itself or with an error of its own (not by a verdict). Does what was
  // deferred; writes the first Error of that, which then is the script's, or nothing.
  virtual Verdict Finish(ReplySink& reply) = 0;
  // Every Interpreter::kTickOccasions jumps and calls, or as much other work.
  virtual Verdict OnTick() = 0;
  // redis.acl_check_cmd. None if there is no such command.
  virtual std::optional<bool> IsAllowed(Args args) = 0;
};

struct ScriptCall {
  std::string_view sha;  // of a function: unused
  std::span<const std::string_view> keys;
  std::span<const std::string_view> args;
};

struct ScriptState;

// One Lua state with what it has compiled.
//
// Owner:    one thread. One script at a time; several interpreters on one thread.
// Suspends: Run, CallFunction, Load and LoadLibrary, as far as the host does. See kStackBytes.
class Interpreter {
 public:
  // A tick comes after so many jumps and calls, or as much work in functions of libraries: every 10
  // to 50 microseconds.
  static constexpr int kTickOccasions = 1000;
  // Stack that Run and CallFunction need below the caller's frame, besides what the host uses.
  // Most scripts use 3 KB; nested calls out of Lua's C functions are an error from 96 KB on, and
  // cjson needs up to 100 KB of it for 1000 nested values.
  static constexpr size_t kStackBytes = 216 << 10;
  // The same for Load and LoadLibrary.
  static constexpr size_t kLoadStackBytes = 48 << 10;

  // `memory_max`: bytes that scripts may use; beyond it, they fail with "not enough memory".
  // `redis_version`: what redis.REDIS_VERSION tells.
  explicit Interpreter(size_t memory_max, std::string_view redis_version = "7.4.0");
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Compiles `body`, the source from ScriptHeader::body_begin on, unless that was done already.
  // False: `error` has the reply, "ERR Error compiling script (new function): user_script:1: ...".
  // `host`, if there is one, has ticks meanwhile, as a source may be large; its verdict may be
  // kKill. Suspends as those do.
  [[nodiscard]] bool Load(std::string_view sha, std::string_view body, std::string* error,
                          ScriptHost* host = nullptr);
  bool IsLoaded(std::string_view sha) const;
  void Forget(std::string_view sha);

  enum class Outcome : uint8_t { kDone, kAbandoned };

  // Writes one reply if kDone. REQUIRES: IsLoaded(call.sha).
  Outcome Run(const ScriptCall& call, ScriptHost* host, ReplySink& reply);

  struct FunctionInfo {
    std::string name;
    std::string description;  // has_description: may be empty and still be there
    bool has_description = false;
    uint32_t flags = 0;  // ScriptFlags
  };

  // Runs the code of a library, from its header's body_begin on, which registers its functions.
  // `functions` gets what it registered. A library of that name is replaced, if this succeeds.
  // A function takes the place of one with its name, whatever library that is of: the server sees
  // to it that only what is outdated is lost so. `version` tells codes of one name apart.
  // `host`: as for Load, also while the code runs.
  [[nodiscard]] bool LoadLibrary(std::string_view name, std::string_view body,
                                 std::vector<FunctionInfo>* functions, std::string* error,
                                 uint64_t version = 0, ScriptHost* host = nullptr);
  void DeleteLibrary(std::string_view name);
  bool HasFunction(std::string_view function, uint64_t version = 0) const;
  // Writes one reply if kDone. REQUIRES: HasFunction(function).
  Outcome CallFunction(std::string_view function, const ScriptCall& call, ScriptHost* host,
                       ReplySink& reply);

  size_t memory_used() const;
  // Before the first of some CollectStep, each time after a script ran.
  void BeginCollection();
  // While no script runs. One step of the collector, some microseconds; many large strings cost
  // more. True: it was the last one of a cycle. What was garbage when a cycle began is free at its
  // end, so who comes in the middle of one needs two.
  bool CollectStep();
  // While no script runs. Nothing is loaded any more; a collection frees it.
  void ForgetAll();

 private:
  Outcome Execute(int arguments, std::string_view name, ReplySink& reply);
  bool RunLibrary(std::string_view name, std::string_view body,
                  std::vector<FunctionInfo>* functions, std::string* error);
  bool Compile(std::string_view name, std::string_view body, const char* chunk, const char* wrong,
               std::string* error);
  std::string DescribedError(std::string_view name) const;
  // The globals KEYS and ARGV.
  void ShowArrays();
  void HideArrays();

  std::unique_ptr<ScriptState> state_;
};

}  // namespace dfly
