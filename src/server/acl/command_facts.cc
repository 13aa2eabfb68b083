// SPDX-License-Identifier: Apache-2.0
#include "server/acl/command_facts.h"

#include <algorithm>
#include <iterator>

#include "helio/base/ascii.h"

namespace dfly {

namespace {

struct Named {
  uint32_t bit;
  std::string_view name;
};

constexpr Named kFlagNames[] = {
    {kWrite, "write"},
    {kReadonly, "readonly"},
    {kDenyOom, "denyoom"},
    {kAdmin, "admin"},
    {kPubsub, "pubsub"},
    {kNoScript, "noscript"},
    {kBlocking, "blocking"},
    {kLoading, "loading"},
    {kStale, "stale"},
    {kSkipMonitor, "skip_monitor"},
    {kSkipSlowlog, "skip_slowlog"},
    {kFast, "fast"},
    {kNoAuth, "no_auth"},
    {kNoMulti, "no_multi"},
    {kNoAsyncLoading, "no_async_loading"},
    {kMovableKeys, "movablekeys"},
    {kAllowBusy, "allow_busy"},
};

struct Category {
  uint32_t own;   // of the row's categories
  uint32_t flag;  // or it follows from this flag
  std::string_view name;
};

constexpr Category kCategories[] = {
    {kAclKeyspace, 0, "@keyspace"},
    {0, kReadonly, "@read"},
    {0, kWrite, "@write"},
    {kAclSet, 0, "@set"},
    {kAclSortedSet, 0, "@sortedset"},
    {kAclList, 0, "@list"},
    {kAclHash, 0, "@hash"},
    {kAclString, 0, "@string"},
    {kAclBitmap, 0, "@bitmap"},
    {kAclHyperLogLog, 0, "@hyperloglog"},
    {kAclGeo, 0, "@geo"},
    {kAclStream, 0, "@stream"},
    {0, kPubsub, "@pubsub"},
    {kAclAdmin, kAdmin, "@admin"},
    {0, kFast, "@fast"},
    {0, 0, "@slow"},  // whatever is not fast
    {0, kBlocking, "@blocking"},
    {kAclDangerous, kAdmin, "@dangerous"},
    {kAclConnection, 0, "@connection"},
    {kAclTransaction, 0, "@transaction"},
    {kAclScripting, 0, "@scripting"},
    {kAclJson, 0, "@json"},  // since 8.0
};

// Whether it has GET and OVERFLOW only. What makes no sense counts as a write, as in Redis.
bool IsBitFieldReadOnly(Args args) {
  for (size_t i = 2; i < args.size();) {
    const size_t left = args.size() - i - 1;
    if (IsOption(args[i], "GET") && left >= 2) {
      i += 3;
    } else if (IsOption(args[i], "OVERFLOW") && left >= 1) {
      i += 2;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<std::string_view> FlagsOf(const Command& command) {
  std::vector<std::string_view> names;
  for (const Named& named : kFlagNames) {
    if ((command.flags & named.bit) != 0) names.push_back(named.name);
  }
  if (command.runs_script) {
    names.push_back("no_mandatory_keys");
    names.push_back("script_runner");
  }
  return names;
}

std::vector<std::string_view> AclCategoriesOf(const Command& command) {
  std::vector<std::string_view> names;
  for (const Category& category : kCategories) {
    const bool is_slow = category.own == 0 && category.flag == 0;
    // What a script reads is for its calls to say.
    if (category.flag == kReadonly && command.runs_script) continue;
    const bool belongs =
        is_slow ? (command.flags & kFast) == 0
                : (command.categories & category.own) != 0 || (command.flags & category.flag) != 0;
    if (belongs) names.push_back(category.name);
  }
  return names;
}

std::vector<std::string_view> AclCategories() {
  std::vector<std::string_view> names;
  for (const Category& category : kCategories) names.push_back(category.name);
  return names;
}

std::vector<std::string_view> KeyFlagsOf(const Command& command) {
  if (!command.keys.flags.empty()) return helio::SplitWords(command.keys.flags);
  if ((command.flags & kWrite) != 0) return {"RW", "update"};
  return {"RO", "access"};
}

std::vector<std::string_view> KeyFlagsOf(const Command& command, Args args) {
  std::vector<std::string_view> flags = KeyFlagsOf(command);
  if (flags.back() != "variable_flags") return flags;
  if ((command.categories & kAclBitmap) != 0) {
    if (IsBitFieldReadOnly(args)) return {"RO", "access"};
    return {"RW", "access", "update"};
  }
  if (command.name == "delex") {
    if (args.size() > 2) return {"RW", "access", "delete"};
    return {"RM", "delete"};
  }
  // SET: what it is to return or to compare it must read.
  constexpr std::string_view kReading[] = {"GET", "IFEQ", "IFNE", "IFDEQ", "IFDNE"};
  const auto options = args.from(std::min<size_t>(args.size(), 3));
  const bool reads = std::any_of(options.begin(), options.end(), [&](std::string_view option) {
    return std::any_of(std::begin(kReading), std::end(kReading),
                       [&](std::string_view name) { return IsOption(option, name); });
  });
  if (reads) return {"RW", "access", "update"};
  return {"OW", "update"};
}

std::string_view GroupOf(const Command& command) {
  if (!command.docs.group.empty()) return command.docs.group;
  static constexpr struct {
    uint32_t category;
    std::string_view group;
  } kGroups[] = {
      {kAclString, "string"},
      {kAclList, "list"},
      {kAclHash, "hash"},
      {kAclSortedSet, "sorted-set"},
      {kAclSet, "set"},
      {kAclStream, "stream"},
      {kAclBitmap, "bitmap"},
      {kAclHyperLogLog, "hyperloglog"},
      {kAclGeo, "geo"},
      {kAclTransaction, "transactions"},
      {kAclScripting, "scripting"},
      {kAclKeyspace, "generic"},
      {kAclConnection, "connection"},
  };
  for (const auto& group : kGroups) {
    if ((command.categories & group.category) != 0) return group.group;
  }
  return (command.flags & kPubsub) != 0 ? "pubsub" : "server";
}

}  // namespace dfly
