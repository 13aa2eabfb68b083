// SPDX-License-Identifier: Apache-2.0
#include "server/scripts/script_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "helio/base/ascii.h"
#include "helio/base/clock.h"
#include "scripting/source/auto_async.h"
#include "scripting/source/script_header.h"

namespace dfly {

std::string_view ReachName(Reach reach) {
  switch (reach) {
    case Reach::kDeclared:
      return "declared";
    case Reach::kTags:
      return "tags";
    case Reach::kShard:
      return "shard";
    case Reach::kFar:
      return "far";
  }
  return "";
}

size_t Script::memory_used() const {
  constexpr size_t kCounters = 16;  // of std::shared_ptr, in the same block
  return kCounters + sizeof(*this) + helio::HeapBytes(sha) + helio::HeapBytes(source) +
         helio::HeapBytes(code);
}

void ScriptStore::Count() {
  // Each has its digest once more, as the key.
  constexpr size_t kDigest = 48;
  bytes_ = text_bytes_ + (scripts_.size() + flags_override_.size()) * kDigest +
           helio::MapBytes(scripts_) + helio::MapBytes(flags_override_);
}

ScriptRef ScriptStore::Find(std::string_view sha) {
  const std::string key = helio::LowerCase(sha);
  const std::lock_guard guard(mutex_);
  const auto it = scripts_.find(key);
  return it == scripts_.end() ? nullptr : it->second;
}

ScriptRef ScriptStore::Add(std::string_view source, bool is_evaluated, std::string* error) {
  {
    const std::string sha = Sha1Hex(source);
    const std::lock_guard guard(mutex_);
    if (ScriptRef known = AddAgain(sha, is_evaluated)) return known;
  }
  ScriptRef script = Prepare(source, error);
  return script == nullptr ? nullptr : Add(std::move(script), is_evaluated);
}

ScriptRef ScriptStore::Prepare(std::string_view source, std::string* error) const {
  ScriptHeader header;
  if (std::optional<std::string> wrong = ParseScriptHeader(source, &header)) {
    *error = std::move(*wrong);
    return nullptr;
  }
  auto script = std::make_shared<Script>();
  script->sha = Sha1Hex(source);
  script->source = source;
  script->code = source.substr(header.body_begin);
  if (defers_calls_) {
    if (std::optional<std::string> code = RewriteDiscardedCalls(script->code)) {
      script->code = std::move(*code);
    }
  }
  script->has_shebang = header.has_shebang;
  script->flags = header.has_shebang ? header.flags | default_flags_ : default_flags_;
  script->used_at_s = helio::UnixMillis() / 1000;
  return script;
}

ScriptRef ScriptStore::Add(ScriptRef script, bool is_evaluated) {
  script->is_evaluated = is_evaluated;
  const std::lock_guard guard(mutex_);
  if (ScriptRef known = AddAgain(script->sha, is_evaluated)) return known;  // another thread's
  scripts_[script->sha] = script;
  text_bytes_ += script->memory_used();
  Count();
  const auto override = flags_override_.find(script->sha);
  if (override != flags_override_.end()) script->flags = override->second;
  if (is_evaluated && ++evaluated_ > kEvaluatedMax) ForgetOldest(*script);
  return script;
}

ScriptRef ScriptStore::AddAgain(const std::string& sha, bool is_evaluated) {
  const auto it = scripts_.find(sha);
  if (it == scripts_.end()) return nullptr;
  // One that was evaluated and is loaded now stays.
  if (!is_evaluated && it->second->is_evaluated.exchange(false)) --evaluated_;
  return it->second;
}

void ScriptStore::ForgetOldest(const Script& newest) {
  auto oldest = scripts_.end();
  for (auto it = scripts_.begin(); it != scripts_.end(); ++it) {
    if (!it->second->is_evaluated || it->second.get() == &newest) continue;
    if (oldest == scripts_.end() || it->second->used_at_s < oldest->second->used_at_s) oldest = it;
  }
  text_bytes_ -= oldest->second->memory_used();
  scripts_.erase(oldest);
  Count();
  --evaluated_;
  forgotten_.fetch_add(1, std::memory_order_relaxed);
  version_.fetch_add(1, std::memory_order_release);  // pairs with version()
}

void ScriptStore::SetFlags(std::string_view sha, uint32_t flags) {
  const std::string key = helio::LowerCase(sha);
  const std::lock_guard guard(mutex_);
  if (flags_override_.insert_or_assign(key, flags).second) Count();
  if (const auto it = scripts_.find(key); it != scripts_.end()) it->second->flags = flags;
}

void ScriptStore::Flush() {
  const std::lock_guard guard(mutex_);
  scripts_ = {};
  evaluated_ = text_bytes_ = 0;
  Count();
  version_.fetch_add(1, std::memory_order_release);
}

size_t ScriptStore::size() {
  const std::lock_guard guard(mutex_);
  return scripts_.size();
}

std::vector<ScriptRef> ScriptStore::List() {
  std::vector<ScriptRef> list;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [sha, script] : scripts_) list.push_back(script);
  }
  std::sort(list.begin(), list.end(),
            [](const ScriptRef& a, const ScriptRef& b) { return a->sha < b->sha; });
  return list;
}

void ScriptCache::Refresh() {
  const uint64_t version = store_.version();
  if (version == version_) [[likely]] {
    return;
  }
  version_ = version;
  by_source_.clear();
  for (auto& [sha, script] : by_sha_) retired_.push_back(std::move(script));
  by_sha_.clear();
}

Script* ScriptCache::Keep(ScriptRef script) {
  if (script == nullptr) return nullptr;
  const std::string_view sha = script->sha;
  return by_sha_.try_emplace(sha, std::move(script)).first->second.get();
}

Script* ScriptCache::Find(std::string_view sha) {
  Refresh();
  const auto it = by_sha_.find(sha);
  if (it != by_sha_.end()) [[likely]] {
    return it->second.get();
  }
  return Keep(store_.Find(sha));
}

Script* ScriptCache::Evaluated(std::string_view source, std::string* error) {
  Refresh();
  const auto it = by_source_.find(source);
  if (it != by_source_.end()) [[likely]] {
    return it->second;
  }
  Script* const script = Keep(store_.Add(source, true, error));
  if (script != nullptr) by_source_[script->source] = script;
  return script;
}

}  // namespace dfly
