// SPDX-License-Identifier: Apache-2.0
// What was done to the data, as commands that do the same anywhere: without a clock, without
// chance, without the order of a hash table. For a log and for replicas.
//
// A *unit* is what has to be seen as one: a command, an EXEC, a script, a waiter that is served, a
// key that expires. A unit that has changed nothing has no effects, whatever was said of it. The
// effect of a command is the command itself as it came (`SET k v`), unless its handler says another
// one (`SPOP k` is `SREM k m`).
#pragma once

#include <absl/container/inlined_vector.h>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace dfly {

// A word of an effect: a text, or a number as text. Owner: the expression that makes it.
class EffectWord {
 public:
  template <typename Number>
  requires std::integral<Number> EffectWord(Number number)  // NOLINT(google-explicit-constructor)
      : text_(digits_, static_cast<size_t>(std::to_chars(digits_, std::end(digits_), number).ptr -
                                           digits_)) {}
  EffectWord(std::string_view text) : text_(text) {}    // NOLINT(google-explicit-constructor)
  EffectWord(const char* text) : text_(text) {}         // NOLINT(google-explicit-constructor)
  EffectWord(const std::string& text) : text_(text) {}  // NOLINT(google-explicit-constructor)
  EffectWord(const EffectWord&) = delete;
  EffectWord& operator=(const EffectWord&) = delete;

  std::string_view text() const { return text_; }

 private:
  char digits_[20];
  std::string_view text_;
};

// Whether a command is its own effect.
enum class EffectRule : uint8_t {
  kOwn,   // as it came, unless its handler says what it did
  kTold,  // its handler always says, if it has changed something
  kNone,  // what it runs says so itself (EXEC, EVAL), or there is nothing that anybody has to know
};

// A command in RESP. `to` has room for CommandBytesMax bytes; returns where the text ends.
size_t CommandBytesMax(std::span<const std::string_view> words);
char* WriteCommand(std::span<const std::string_view> words, char* to);
std::string CommandText(std::span<const std::string_view> words);

// Commands in RESP, in their order, each with the database that it is for.
class Effects {
 public:
  void Add(int db_index, std::span<const std::string_view> words);
  void Append(const Effects& other);
  // Forgets those behind the first `count`.
  void Truncate(size_t count);
  void Clear() { Truncate(0); }

  size_t size() const { return commands_.size(); }
  bool empty() const { return commands_.empty(); }
  size_t bytes() const { return bytes_.size(); }
  // fn(int db_index, std::string_view resp)
  template <typename F>
  void ForEach(F fn) const {
    size_t begin = 0;
    for (const Command& command : commands_) {
      fn(command.db_index, std::string_view(bytes_).substr(begin, command.end - begin));
      begin = command.end;
    }
  }

 private:
  struct Command {
    int db_index;
    size_t end;  // in bytes_
  };

  std::string bytes_;
  absl::InlinedVector<Command, 2> commands_;
};

// Who delivers a unit.
enum class UnitOrigin : uint8_t {
  kShard,        // the thread of the only shard that it is of
  kCoordinator,  // the fiber that has run it, before it lets its locks go
};

// Gets the effects of each unit once it is over, before anybody else can see or change what it has
// locked. On the thread that has run the unit: it must not change keys, nor suspend.
class EffectSink {
 public:
  // Returns the epoch of the journal that the unit is in (engine/journal/); 0: there is none.
  virtual uint64_t OnUnit(const Effects& effects, UnitOrigin origin) = 0;
  // The same of a unit of one shard that is one command as it came. Most are: a copy less.
  virtual uint64_t OnCommand(int db_index, std::span<const std::string_view> words) {
    Effects effects;
    effects.Add(db_index, words);
    return OnUnit(effects, UnitOrigin::kShard);
  }

 protected:
  ~EffectSink() = default;
};

// Owner: who runs the unit. Threads that touch it one after the other are ordered by messages.
class Unit {
 public:
  // A command of the unit. `args` have to live until EndCommand.
  void BeginCommand(EffectRule rule, int db_index, std::span<const std::string_view> args);
  void EndCommand();
  // The same of the only command of a unit. True: its effect is the command as it came, and is not
  // in effects(). REQUIRES: effects() were empty when it began.
  [[nodiscard]] bool EndOnlyCommand();
  // False: it is over, or what runs is only a part of one that another shard or fiber has begun.
  bool in_command() const { return in_command_; }
  // Of the command that has begun last, until its args are gone.
  int db_index() const { return db_index_; }
  std::span<const std::string_view> args() const { return args_; }

  // What the command does, or a part of that. The first of them replaces the command's own effect.
  void Tell(int db_index, std::span<const std::string_view> words) {
    effects_.Add(db_index, words);
  }
  // A key was changed.
  void NoteChange() { has_changed_ = true; }

  // What ran on one shard is a part of this.
  void Merge(const Unit& part);

  const Effects& effects() const { return effects_; }
  void Clear() {
    effects_.Clear();
    has_changed_ = was_over_ = false;
  }

 private:
  Effects effects_;
  bool has_changed_ = false;  // since the command began
  bool was_over_ = false;     // a command has ended that has effects
  bool in_command_ = false;
  EffectRule rule_ = EffectRule::kOwn;
  int db_index_ = 0;
  std::span<const std::string_view> args_;
  size_t begin_ = 0;  // of the command's effects
};

}  // namespace dfly
