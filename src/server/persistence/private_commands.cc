// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/private_commands.h"

#include <array>
#include <cstdint>

#include "helio/base/ascii.h"

namespace dfly {

namespace {

// All that write, and are not in COMMAND LIST of redis-server 7.0.15.
constexpr std::array<std::string_view, 53> kNames = {
    "bf.add",         "bf.insert",      "bf.loadchunk", "bf.madd",        "bf.reserve",
    "blmovem",        "cl.throttle",    "cms.incrby",   "cms.initbydim",  "cms.initbyprob",
    "cms.merge",      "delex",          "delifeq",      "fieldexpire",    "fieldpexpireat",
    "hexpire",        "hexpireat",      "hgetdel",      "hgetex",         "hpersist",
    "hpexpire",       "hpexpireat",     "hsetex",       "increx",         "json.arrappend",
    "json.arrinsert", "json.arrpop",    "json.arrtrim", "json.clear",     "json.del",
    "json.forget",    "json.merge",     "json.mset",    "json.numincrby", "json.nummultby",
    "json.set",       "json.strappend", "json.toggle",  "lmovem",         "memcached",
    "msetex",         "prepend",        "saddex",       "stick",          "topk.add",
    "topk.incrby",    "topk.reserve",   "unstick",      "xackdel",        "xcfgset",
    "xdelex",         "xidmprecord",    "xnack"};

// By first letter (in lower case): a bit for each length. Nearly all other names end here.
constexpr auto kLengths = [] {
  std::array<uint32_t, 256> lengths{};
  for (const std::string_view name : kNames) {
    lengths[static_cast<uint8_t>(name[0])] |= 1u << name.size();
  }
  return lengths;
}();

}  // namespace

bool IsPrivateCommand(std::string_view name) {
  if (name.empty() || name.size() > 31) return false;
  const uint32_t lengths = kLengths[static_cast<uint8_t>(helio::ToLower(name[0]))];
  if ((lengths >> name.size() & 1) == 0) return false;
  for (const std::string_view known : kNames) {
    if (helio::EqualsIgnoreCase(known, name)) return true;
  }
  return false;
}

}  // namespace dfly
