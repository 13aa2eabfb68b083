// SPDX-License-Identifier: Apache-2.0
// Keyspace events: what they are called, which classes they have, and who hears of them.
//
// Names and classes are those of Redis' "keyspace notifications"; a class is a letter of
// notify-keyspace-events. Events of probabilistic types and of JSON are of the
// class of modules.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dfly {

// In the order of the table in key_events.cc, by class.
enum class KeyEvent : uint8_t {
  kNone,  // the keyspace hears nothing of it
  kDel,
  kRenameFrom,
  kRenameTo,
  kMoveFrom,
  kMoveTo,
  kCopyTo,
  kRestore,
  kExpire,
  kPersist,
  kSet,
  kSetRange,
  kIncrBy,
  kIncrByFloat,
  kAppend,
  kPrepend,
  kSetBit,
  kPfAdd,
  kLPush,
  kRPush,
  kLPop,
  kRPop,
  kLInsert,
  kLSet,
  kLRem,
  kLTrim,
  kSortStore,
  kSAdd,
  kSRem,
  kSPop,
  kSInterStore,
  kSUnionStore,
  kSDiffStore,
  kSExpire,
  kSExpired,
  kHSet,
  kHIncrBy,
  kHIncrByFloat,
  kHDel,
  kHExpire,
  kHExpired,
  kHPersist,
  kZAdd,
  kZIncr,
  kZRem,
  kZRemRangeByScore,
  kZRemRangeByRank,
  kZRemRangeByLex,
  kZPopMin,
  kZPopMax,
  kZInterStore,
  kZUnionStore,
  kZDiffStore,
  kZRangeStore,
  kGeoSearchStore,
  kGeoRadiusStore,
  kXAdd,
  kXTrim,
  kXDel,
  kXSetId,
  kXGroupCreate,
  kXGroupCreateConsumer,
  kXGroupDelConsumer,
  kXGroupDestroy,
  kXGroupSetId,
  kXClaim,
  kXAutoClaim,
  kBfReserve,
  kBfAdd,
  kBfLoadChunk,
  kCmsInit,
  kCmsIncrBy,
  kCmsMerge,
  kTopKReserve,
  kTopKAdd,
  kTopKIncrBy,
  kJsonSet,
  kJsonMSet,
  kJsonMerge,
  kJsonDel,
  kJsonClear,
  kJsonNumIncrBy,
  kJsonNumMultBy,
  kJsonStrAppend,
  kJsonToggle,
  kJsonArrAppend,
  kJsonArrInsert,
  kJsonArrPop,
  kJsonArrTrim,
  kExpired,
  kEvicted,
  kNew,
  kKeyMiss,
};

// "set", "hexpired" ... Empty: kNone.
std::string_view NameOf(KeyEvent event);
// One bit of KeyEventClasses. REQUIRES: not kNone.
uint32_t ClassOf(KeyEvent event);

// A set of classes, and where to publish. Thread: any.
class KeyEventClasses {
 public:
  static constexpr uint32_t kKeyspace = 1 << 0;  // K: to __keyspace@<db>__:<key>
  static constexpr uint32_t kKeyevent = 1 << 1;  // E: to __keyevent@<db>__:<event>
  static constexpr uint32_t kGeneric = 1 << 2;   // g
  static constexpr uint32_t kString = 1 << 3;    // $
  static constexpr uint32_t kList = 1 << 4;      // l
  static constexpr uint32_t kSet = 1 << 5;       // s
  static constexpr uint32_t kHash = 1 << 6;      // h
  static constexpr uint32_t kZset = 1 << 7;      // z
  static constexpr uint32_t kExpired = 1 << 8;   // x
  static constexpr uint32_t kEvicted = 1 << 9;   // e
  static constexpr uint32_t kStream = 1 << 10;   // t
  static constexpr uint32_t kModule = 1 << 11;   // d
  static constexpr uint32_t kNew = 1 << 12;      // n, not in A
  static constexpr uint32_t kMiss = 1 << 13;     // m, not in A
  // Of fields of hashes, each to its channel (docs/notifications.md).
  static constexpr uint32_t kSubkeyspace = 1 << 14;       // S
  static constexpr uint32_t kSubkeyevent = 1 << 15;       // T
  static constexpr uint32_t kSubkeyspaceItem = 1 << 16;   // I
  static constexpr uint32_t kSubkeyspaceEvent = 1 << 17;  // V
  static constexpr uint32_t kAll = kNew - kGeneric;       // A

  KeyEventClasses() = default;
  // None: a letter is no class.
  static std::optional<KeyEventClasses> Parse(std::string_view letters);
  // As CONFIG GET shows them.
  std::string ToString() const;

  bool has(uint32_t bits) const { return (bits_ & bits) != 0; }
  // Somebody could hear of an event.
  bool is_on() const {
    return (has(kKeyspace | kKeyevent) && has(kAll | kNew | kMiss)) || tells_fields();
  }
  // Only hashes have fields, so these letters alone mean hashes.
  bool tells_fields() const {
    return has(kSubkeyspace | kSubkeyevent | kSubkeyspaceItem | kSubkeyspaceEvent) &&
           (has(kHash) || !has(kAll | kNew | kMiss));
  }

 private:
  uint32_t bits_ = 0;
};

// Hears of what happens to the keys of a thread's shards. Owner: the shards' thread.
class KeyEventListener {
 public:
  // Called in the middle of a command, behind the change: must not change keys, nor suspend.
  virtual void OnKeyEvent(uint32_t shard, int db_index, std::string_view key, KeyEvent event) = 0;
  // Behind it: it was about these fields of a hash. REQUIRES: HearsFields.
  virtual void OnFieldEvent(uint32_t shard, int db_index, std::string_view key, KeyEvent event,
                            std::span<const std::string_view> fields) = 0;
  // False: it does nothing with fields of hashes of that shard now, so nobody need copy them.
  virtual bool HearsFields(uint32_t shard) const = 0;

 protected:
  ~KeyEventListener() = default;
};

}  // namespace dfly
