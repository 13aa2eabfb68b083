// SPDX-License-Identifier: Apache-2.0
// The libraries of FUNCTION LOAD. A function runs as a script does: it is a Script, whose code is
// its library's.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "helio/base/spin_lock.h"
#include "scripting/interpreter.h"
#include "server/scripts/script_store.h"

namespace dfly {

// Owner: those who hold a LibraryRef. Does not change, except for what is atomic in a Script.
struct FunctionLibrary {
  struct Function {
    Interpreter::FunctionInfo info;
    ScriptRef script;
  };

  std::shared_ptr<const LibraryCode> code;
  std::string source;  // as the client sent it
  std::vector<Function> functions;

  size_t memory_used() const;
};
using LibraryRef = std::shared_ptr<const FunctionLibrary>;

// All that there is at one moment.
// Owner: the FunctionStore, and the threads that look at it. Never changes.
struct FunctionTable {
  // Names of functions in whatever case are the same.
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const;
  };
  struct NameEqual {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const;
  };

  std::map<std::string, LibraryRef, std::less<>> libraries;
  absl::flat_hash_map<std::string_view, Script*, NameHash, NameEqual> functions;  // of these
  size_t memory_used = 0;
};
using FunctionTableRef = std::shared_ptr<const FunctionTable>;

// Owner:    the server. Thread: any.
// Suspends: Compile. What returns an optional text returns an error, with its code, if it fails.
class FunctionStore {
 public:
  // What happens to libraries that are there.
  enum class Policy : uint8_t {
    kAppend,   // none may have the name of a new one
    kReplace,  // those that have the name of a new one go
    kFlush,    // all go
  };

  // As ScriptStore's.
  FunctionStore(uint32_t default_flags, bool defers_calls)
      : default_flags_(default_flags),
        defers_calls_(defers_calls),
        table_(std::make_shared<FunctionTable>()) {}

  // The library of that source, which is not stored yet. It is loaded into `interpreter`, whose
  // functions tell what it has. `host`: as for LoadLibrary, may be null. Suspends as that does.
  LibraryRef Compile(std::string_view source, const ScriptHeader& header, Interpreter* interpreter,
                     ScriptHost* host, std::string* error);
  // All of them or, if something stands against one, none.
  std::optional<std::string> Add(const std::vector<LibraryRef>& libraries, Policy policy);
  // In two steps: a table of these libraries alone, which may fail, and what makes it the store's.
  static std::optional<std::string> MakeTable(const std::vector<LibraryRef>& libraries,
                                              FunctionTableRef* table);
  void Replace(FunctionTableRef table);
  // False if there is none.
  bool Delete(std::string_view name);
  void Flush();

  FunctionTableRef table();
  size_t memory_used() const { return memory_used_.load(std::memory_order_relaxed); }
  // Changes with the table.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // All libraries in the payload of redis-server.
  std::string Dump();
  // The sources in such a payload. `string_max`: none is longer.
  static std::optional<std::string> SourcesIn(std::string_view payload, size_t string_max,
                                              std::vector<std::string>* sources);

 private:
  using Libraries = decltype(FunctionTable::libraries);
  // Adds them to `all`.
  static std::optional<std::string> Join(const std::vector<LibraryRef>& libraries, Libraries* all);
  static std::optional<std::string> MakeTable(Libraries libraries, FunctionTableRef* table);
  // Makes these the table.
  std::optional<std::string> Set(Libraries libraries);
  // REQUIRES: lock_ is held.
  void SetTable(FunctionTableRef table);

  const uint32_t default_flags_;
  const bool defers_calls_;
  std::atomic<uint64_t> library_versions_{0};
  std::atomic<uint64_t> version_{1};
  std::atomic<size_t> memory_used_{0};
  helio::SpinLock lock_;    // held to copy the table's pointers
  FunctionTableRef table_;  // guarded by lock_
};

// One thread's view of the store, which costs no lock.
class FunctionCache {
 public:
  explicit FunctionCache(FunctionStore* store) : store_(*store) {}

  // Null if there is none. What it returns lives until Settle, and longer if somebody holds a
  // ScriptRef.
  Script* Find(std::string_view name);
  // Nobody uses any more what was found before.
  void Settle() {
    if (!retired_.empty()) [[unlikely]]
      retired_.clear();
  }

 private:
  FunctionStore& store_;
  uint64_t version_ = 0;
  FunctionTableRef table_;
  std::vector<FunctionTableRef> retired_;
};

}  // namespace dfly
