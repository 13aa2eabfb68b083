// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/key_events.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "helio/base/logging.h"

namespace dfly {
namespace {

using Classes = KeyEventClasses;

// In the order of redis-server's CONFIG GET.
constexpr std::pair<char, uint32_t> kLetters[] = {{'g', Classes::kGeneric},
                                                  {'$', Classes::kString},
                                                  {'l', Classes::kList},
                                                  {'s', Classes::kSet},
                                                  {'h', Classes::kHash},
                                                  {'z', Classes::kZset},
                                                  {'x', Classes::kExpired},
                                                  {'e', Classes::kEvicted},
                                                  {'t', Classes::kStream},
                                                  {'d', Classes::kModule},
                                                  {'n', Classes::kNew},
                                                  {'K', Classes::kKeyspace},
                                                  {'E', Classes::kKeyevent},
                                                  {'m', Classes::kMiss},
                                                  {'S', Classes::kSubkeyspace},
                                                  {'T', Classes::kSubkeyevent},
                                                  {'I', Classes::kSubkeyspaceItem},
                                                  {'V', Classes::kSubkeyspaceEvent}};

struct Row {
  KeyEvent event;
  std::string_view name;
  uint32_t bits;  // its class
};
constexpr Row kRows[] = {
    {KeyEvent::kNone, "", 0},
    {KeyEvent::kDel, "del", Classes::kGeneric},
    {KeyEvent::kRenameFrom, "rename_from", Classes::kGeneric},
    {KeyEvent::kRenameTo, "rename_to", Classes::kGeneric},
    {KeyEvent::kMoveFrom, "move_from", Classes::kGeneric},
    {KeyEvent::kMoveTo, "move_to", Classes::kGeneric},
    {KeyEvent::kCopyTo, "copy_to", Classes::kGeneric},
    {KeyEvent::kRestore, "restore", Classes::kGeneric},
    {KeyEvent::kExpire, "expire", Classes::kGeneric},
    {KeyEvent::kPersist, "persist", Classes::kGeneric},
    {KeyEvent::kSet, "set", Classes::kString},
    {KeyEvent::kSetRange, "setrange", Classes::kString},
    {KeyEvent::kIncrBy, "incrby", Classes::kString},
    {KeyEvent::kIncrByFloat, "incrbyfloat", Classes::kString},
    {KeyEvent::kAppend, "append", Classes::kString},
    {KeyEvent::kPrepend, "prepend", Classes::kString},
    {KeyEvent::kSetBit, "setbit", Classes::kString},
    {KeyEvent::kPfAdd, "pfadd", Classes::kString},
    {KeyEvent::kLPush, "lpush", Classes::kList},
    {KeyEvent::kRPush, "rpush", Classes::kList},
    {KeyEvent::kLPop, "lpop", Classes::kList},
    {KeyEvent::kRPop, "rpop", Classes::kList},
    {KeyEvent::kLInsert, "linsert", Classes::kList},
    {KeyEvent::kLSet, "lset", Classes::kList},
    {KeyEvent::kLRem, "lrem", Classes::kList},
    {KeyEvent::kLTrim, "ltrim", Classes::kList},
    {KeyEvent::kSortStore, "sortstore", Classes::kList},
    {KeyEvent::kSAdd, "sadd", Classes::kSet},
    {KeyEvent::kSRem, "srem", Classes::kSet},
    {KeyEvent::kSPop, "spop", Classes::kSet},
    {KeyEvent::kSInterStore, "sinterstore", Classes::kSet},
    {KeyEvent::kSUnionStore, "sunionstore", Classes::kSet},
    {KeyEvent::kSDiffStore, "sdiffstore", Classes::kSet},
    {KeyEvent::kSExpire, "sexpire", Classes::kSet},
    {KeyEvent::kSExpired, "sexpired", Classes::kSet},
    {KeyEvent::kHSet, "hset", Classes::kHash},
    {KeyEvent::kHIncrBy, "hincrby", Classes::kHash},
    {KeyEvent::kHIncrByFloat, "hincrbyfloat", Classes::kHash},
    {KeyEvent::kHDel, "hdel", Classes::kHash},
    {KeyEvent::kHExpire, "hexpire", Classes::kHash},
    {KeyEvent::kHExpired, "hexpired", Classes::kHash},
    {KeyEvent::kHPersist, "hpersist", Classes::kHash},
    {KeyEvent::kZAdd, "zadd", Classes::kZset},
    {KeyEvent::kZIncr, "zincr", Classes::kZset},
    {KeyEvent::kZRem, "zrem", Classes::kZset},
    {KeyEvent::kZRemRangeByScore, "zremrangebyscore", Classes::kZset},
    {KeyEvent::kZRemRangeByRank, "zremrangebyrank", Classes::kZset},
    {KeyEvent::kZRemRangeByLex, "zremrangebylex", Classes::kZset},
    {KeyEvent::kZPopMin, "zpopmin", Classes::kZset},
    {KeyEvent::kZPopMax, "zpopmax", Classes::kZset},
    {KeyEvent::kZInterStore, "zinterstore", Classes::kZset},
    {KeyEvent::kZUnionStore, "zunionstore", Classes::kZset},
    {KeyEvent::kZDiffStore, "zdiffstore", Classes::kZset},
    {KeyEvent::kZRangeStore, "zrangestore", Classes::kZset},
    {KeyEvent::kGeoSearchStore, "geosearchstore", Classes::kZset},
    {KeyEvent::kGeoRadiusStore, "georadiusstore", Classes::kZset},
    {KeyEvent::kXAdd, "xadd", Classes::kStream},
    {KeyEvent::kXTrim, "xtrim", Classes::kStream},
    {KeyEvent::kXDel, "xdel", Classes::kStream},
    {KeyEvent::kXSetId, "xsetid", Classes::kStream},
    {KeyEvent::kXGroupCreate, "xgroup-create", Classes::kStream},
    {KeyEvent::kXGroupCreateConsumer, "xgroup-createconsumer", Classes::kStream},
    {KeyEvent::kXGroupDelConsumer, "xgroup-delconsumer", Classes::kStream},
    {KeyEvent::kXGroupDestroy, "xgroup-destroy", Classes::kStream},
    {KeyEvent::kXGroupSetId, "xgroup-setid", Classes::kStream},
    {KeyEvent::kXClaim, "xclaim", Classes::kStream},
    {KeyEvent::kXAutoClaim, "xautoclaim", Classes::kStream},
    {KeyEvent::kBfReserve, "bf.reserve", Classes::kModule},
    {KeyEvent::kBfAdd, "bf.add", Classes::kModule},
    {KeyEvent::kBfLoadChunk, "bf.loadchunk", Classes::kModule},
    {KeyEvent::kCmsInit, "cms.init", Classes::kModule},
    {KeyEvent::kCmsIncrBy, "cms.incrby", Classes::kModule},
    {KeyEvent::kCmsMerge, "cms.merge", Classes::kModule},
    {KeyEvent::kTopKReserve, "topk.reserve", Classes::kModule},
    {KeyEvent::kTopKAdd, "topk.add", Classes::kModule},
    {KeyEvent::kTopKIncrBy, "topk.incrby", Classes::kModule},
    {KeyEvent::kJsonSet, "json.set", Classes::kModule},
    {KeyEvent::kJsonMSet, "json.mset", Classes::kModule},
    {KeyEvent::kJsonMerge, "json.merge", Classes::kModule},
    {KeyEvent::kJsonDel, "json.del", Classes::kModule},
    {KeyEvent::kJsonClear, "json.clear", Classes::kModule},
    {KeyEvent::kJsonNumIncrBy, "json.numincrby", Classes::kModule},
    {KeyEvent::kJsonNumMultBy, "json.nummultby", Classes::kModule},
    {KeyEvent::kJsonStrAppend, "json.strappend", Classes::kModule},
    {KeyEvent::kJsonToggle, "json.toggle", Classes::kModule},
    {KeyEvent::kJsonArrAppend, "json.arrappend", Classes::kModule},
    {KeyEvent::kJsonArrInsert, "json.arrinsert", Classes::kModule},
    {KeyEvent::kJsonArrPop, "json.arrpop", Classes::kModule},
    {KeyEvent::kJsonArrTrim, "json.arrtrim", Classes::kModule},
    {KeyEvent::kExpired, "expired", Classes::kExpired},
    {KeyEvent::kEvicted, "evicted", Classes::kEvicted},
    {KeyEvent::kNew, "new", Classes::kNew},
    {KeyEvent::kKeyMiss, "keymiss", Classes::kMiss},
};
static_assert(std::ranges::all_of(kRows, [](const Row& row) {
  return &row - kRows == static_cast<ptrdiff_t>(row.event);
}));

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

std::string_view NameOf(KeyEvent event) { return kRows[static_cast<size_t>(event)].name; }

uint32_t ClassOf(KeyEvent event) {
  DCHECK(event != KeyEvent::kNone);
  return kRows[static_cast<size_t>(event)].bits;
}

}  // namespace dfly
