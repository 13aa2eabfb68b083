// SPDX-License-Identifier: Apache-2.0
#include "server/scripts/function_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "commands/keys/dump.h"
#include "core/text/byte_stream.h"
#include "core/text/rdb_encoding.h"
#include "helio/base/ascii.h"
#include "helio/base/clock.h"
#include "scripting/source/auto_async.h"
#include "scripting/source/script_header.h"

namespace dfly {

namespace {

// In front of a library's source in a payload, and in RDB files since 7.0.
constexpr uint8_t kOpcodeFunction = 0xF5;

}  // namespace

size_t FunctionLibrary::memory_used() const {
  size_t bytes = sizeof(FunctionLibrary) + sizeof(LibraryCode) + source.size() + code->code.size();
  for (const Function& function : functions) {
    bytes += sizeof(Function) + sizeof(Script) + function.info.name.size() +
             function.info.description.size();
  }
  return bytes;
}

size_t FunctionTable::NameHash::operator()(std::string_view name) const {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(helio::ToLower(c))) * 0x100000001b3;
  return hash;
}

bool FunctionTable::NameEqual::operator()(std::string_view a, std::string_view b) const {
  return helio::EqualsIgnoreCase(a, b);
}

LibraryRef FunctionStore::Compile(std::string_view source, const ScriptHeader& header,
                                  Interpreter* interpreter, ScriptHost* host, std::string* error) {
  auto code = std::make_shared<LibraryCode>();
  code->name = header.name;
  code->version = library_versions_.fetch_add(1, std::memory_order_relaxed) + 1;
  code->code = source.substr(header.body_begin);
  if (defers_calls_) {
    if (std::optional<std::string> rewritten = RewriteDiscardedCalls(code->code)) {
      code->code = std::move(*rewritten);
    }
  }
  std::vector<Interpreter::FunctionInfo> infos;
  if (!interpreter->LoadLibrary(code->name, code->code, &infos, error, code->version, host)) {
    return nullptr;
  }
  auto library = std::make_shared<FunctionLibrary>();
  library->code = code;
  library->source = source;
  for (Interpreter::FunctionInfo& info : infos) {
    auto script = std::make_shared<Script>();
    script->sha = info.name;
    script->library = code;
    script->has_shebang = true;
    script->flags = info.flags | default_flags_;
    script->used_at_s = helio::UnixMillis() / 1000;
    library->functions.push_back({std::move(info), std::move(script)});
  }
  return library;
}

std::optional<std::string> FunctionStore::Add(const std::vector<LibraryRef>& libraries,
                                              Policy policy) {
  std::lock_guard guard(lock_);
  Libraries all;
  if (policy != Policy::kFlush) all = table_->libraries;
  if (policy == Policy::kReplace) {
    for (const LibraryRef& library : libraries) all.erase(library->code->name);
  }
  if (auto error = Join(libraries, &all)) return error;
  return Set(std::move(all));
}

std::optional<std::string> FunctionStore::Join(const std::vector<LibraryRef>& libraries,
                                               Libraries* all) {
  for (const LibraryRef& library : libraries) {
    if (!all->try_emplace(library->code->name, library).second) {
      return fmt::format("ERR Library {} already exists", library->code->name);
    }
  }
  return {};
}

std::optional<std::string> FunctionStore::MakeTable(const std::vector<LibraryRef>& libraries,
                                                    FunctionTableRef* table) {
  Libraries all;
  if (auto error = Join(libraries, &all)) return error;
  return MakeTable(std::move(all), table);
}

void FunctionStore::Replace(FunctionTableRef table) {
  std::lock_guard guard(lock_);
  SetTable(std::move(table));
}

bool FunctionStore::Delete(std::string_view name) {
  std::lock_guard guard(lock_);
  Libraries all = table_->libraries;
  const auto it = all.find(name);
  if (it == all.end()) return false;
  all.erase(it);
  Set(std::move(all));
  return true;
}

void FunctionStore::Flush() {
  std::lock_guard guard(lock_);
  Set({});
}

std::optional<std::string> FunctionStore::Set(Libraries libraries) {
  FunctionTableRef table;
  if (auto error = MakeTable(std::move(libraries), &table)) return error;
  SetTable(std::move(table));
  return {};
}

std::optional<std::string> FunctionStore::MakeTable(Libraries libraries, FunctionTableRef* made) {
  auto table = std::make_shared<FunctionTable>();
  table->libraries = std::move(libraries);
  for (const auto& [name, library] : table->libraries) {
    table->memory_used += library->memory_used();
    for (const FunctionLibrary::Function& function : library->functions) {
      if (!table->functions.try_emplace(function.info.name, function.script.get()).second) {
        return fmt::format("ERR Function {} already exists", function.info.name);
      }
    }
  }
  *made = std::move(table);
  return {};
}

void FunctionStore::SetTable(FunctionTableRef table) {
  memory_used_.store(table->memory_used, std::memory_order_relaxed);
  table_ = std::move(table);
  version_.fetch_add(1, std::memory_order_release);  // pairs with version()
}

FunctionTableRef FunctionStore::table() {
  std::lock_guard guard(lock_);
  return table_;
}

std::string FunctionStore::Dump() {
  std::string payload;
  StringSink sink(&payload);
  RdbWriter writer(&sink);
  for (const auto& [name, library] : table()->libraries) {
    writer.Byte(kOpcodeFunction);
    writer.String(library->source);
  }
  writer.Flush();
  SealPayload(&payload);
  return payload;
}

std::optional<std::string> FunctionStore::SourcesIn(std::string_view payload, size_t string_max,
                                                    std::vector<std::string>* sources) {
  const std::optional<Payload> unsealed = UnsealPayload(payload);
  if (!unsealed) return std::string(kErrDumpPayload);
  ViewSource source(unsealed->bytes);
  RdbReader reader(&source, string_max);
  while (const std::optional<uint8_t> opcode = reader.Byte()) {
    if (*opcode != kOpcodeFunction) return "ERR given type is not a function";
    const std::optional<std::string_view> text = reader.String();
    if (!text) return "ERR Failed loading library payload";
    sources->emplace_back(*text);
  }
  return {};
}

Script* FunctionCache::Find(std::string_view name) {
  if (const uint64_t version = store_.version(); version != version_) [[unlikely]] {
    if (table_ != nullptr) retired_.push_back(std::move(table_));
    version_ = version;  // the table may be newer already: then it is fetched twice
    table_ = store_.table();
  }
  const auto it = table_->functions.find(name);
  return it == table_->functions.end() ? nullptr : it->second;
}

}  // namespace dfly
