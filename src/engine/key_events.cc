// SPDX-License-Identifier: Apache-2.0
#include "engine/key_events.h"

#include <absl/container/flat_hash_map.h>

#include <utility>

#include "helio/base/logging.h"

namespace dfly {
namespace {

using Classes = KeyEventClasses;

// In the order of redis-server's CONFIG GET.
constexpr std::pair<char, uint32_t> kLetters[] = {
    {'g', Classes::kGeneric},  {'$', Classes::kString},  {'l', Classes::kList},
    {'s', Classes::kSet},      {'h', Classes::kHash},    {'z', Classes::kZset},
    {'x', Classes::kExpired},  {'e', Classes::kEvicted}, {'t', Classes::kStream},
    {'d', Classes::kModule},   {'n', Classes::kNew},     {'K', Classes::kKeyspace},
    {'E', Classes::kKeyevent}, {'m', Classes::kMiss}};

struct EventsOfClass {
  uint32_t bits;
  std::string_view names[16];
};
constexpr EventsOfClass kEvents[] = {
    {Classes::kGeneric,
     {"del", "rename_from", "rename_to", "move_from", "move_to", "copy_to", "restore", "expire",
      "persist"}},
    {Classes::kString,
     {"set", "setrange", "incrby", "incrbyfloat", "append", "prepend", "setbit", "pfadd"}},
    {Classes::kList,
     {"lpush", "rpush", "lpop", "rpop", "linsert", "lset", "lrem", "ltrim", "sortstore"}},
    {Classes::kSet,
     {"sadd", "srem", "spop", "sinterstore", "sunionstore", "sdiffstore", "sexpire", "sexpired"}},
    {Classes::kHash,
     {"hset", "hincrby", "hincrbyfloat", "hdel", "hexpire", "hexpired", "hpersist"}},
    {Classes::kZset,
     {"zadd", "zincr", "zrem", "zremrangebyscore", "zremrangebyrank", "zremrangebylex", "zpopmin",
      "zpopmax", "zinterstore", "zunionstore", "zdiffstore", "zrangestore", "geosearchstore",
      "georadiusstore"}},
    {Classes::kStream,
     {"xadd", "xtrim", "xdel", "xsetid", "xgroup-create", "xgroup-createconsumer",
      "xgroup-delconsumer", "xgroup-destroy", "xgroup-setid", "xclaim", "xautoclaim"}},
    {Classes::kModule,
     {"bf.reserve", "bf.add", "bf.loadchunk", "cms.init", "cms.incrby", "cms.merge", "topk.reserve",
      "topk.add", "topk.incrby"}},
    {Classes::kExpired, {"expired"}},
    {Classes::kEvicted, {"evicted"}},
    {Classes::kNew, {"new"}},
    {Classes::kMiss, {"keymiss"}},
};

}  // namespace

std::optional<KeyEventClasses> KeyEventClasses::Parse(std::string_view letters) {
  KeyEventClasses classes;
  for (const char letter : letters) {
    uint32_t bits = letter == 'A' ? kAll : 0;
    for (const auto& [known, its_bits] : kLetters) {
      if (known == letter) bits = its_bits;
    }
    if (bits == 0) return std::nullopt;
    classes.bits_ |= bits;
  }
  return classes;
}

std::string KeyEventClasses::ToString() const {
  const bool has_all = (bits_ & kAll) == kAll;
  std::string letters = has_all ? "A" : "";
  for (const auto& [letter, bits] : kLetters) {
    // redis-server 7.0 forgets the n behind an A; then its CONFIG REWRITE does, too.
    const bool is_told = has_all && (bits & kAll) != 0;
    if (has(bits) && !is_told) letters += letter;
  }
  return letters;
}

uint32_t ClassOfKeyEvent(std::string_view event) {
  static const auto classes = [] {
    absl::flat_hash_map<std::string_view, uint32_t> made;
    for (const auto& [bits, names] : kEvents) {
      for (const std::string_view name : names) {
        if (!name.empty()) made.emplace(name, bits);
      }
    }
    return made;
  }();
  const auto it = classes.find(event);
  DCHECK(it != classes.end()) << "there is no event " << event;
  return it == classes.end() ? KeyEventClasses::kGeneric : it->second;
}

}  // namespace dfly
