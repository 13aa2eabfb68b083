// SPDX-License-Identifier: Apache-2.0
// Random changes of keys, for tests whose seed decides everything.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/rdb/rdb_value_testing.h"
#include "engine/keyspace/shard_context.h"
#include "helio/base/random.h"

namespace dfly::testkit {

// Changes one key, or two, as a command does that replaces values: stores, deletes, renames,
// copies, gives or takes a deadline or a mark. `any_key()` gives the name of a key, of the second
// one as well. Values may be of any type that `values` makes; what is in a value does not change.
template <typename AnyKey>
void ChangeAnyKey(ShardContext& cx, helio::Random* random, RdbValues* values, AnyKey any_key) {
  const std::string key = any_key();
  const auto deadline_ms = [&](int64_t from) {
    return cx.now_ms() + from + static_cast<int64_t>(random->Uniform(500));
  };
  switch (random->Uniform(11)) {
    case 0:
      cx.SetString(key, RdbValues::RandomText(random));
      break;
    case 1:
      cx.SetString(key, std::string(random->Uniform(3000), 'x'), {.deadline_ms = deadline_ms(1)});
      break;
    case 2:
      cx.Delete(key);
      break;
    case 3:
      if (auto detached = cx.Take(key, KeyEvent::kRenameFrom)) {
        cx.Put(any_key(), std::move(*detached), KeyEvent::kRenameTo);
      }
      break;
    case 4:
      if (auto copy = cx.Copy(key)) cx.Put(any_key(), std::move(*copy), KeyEvent::kCopyTo);
      break;
    case 5:
      cx.SetDeadline(key, deadline_ms(-10));
      break;
    case 6:
      cx.Persist(key);
      break;
    case 7:
      cx.SetSticky(key, random->OneIn(2));
      break;
    default: {
      ShardContext::Detached made;
      made.value = values->MakeAny(random);
      cx.Put(key, std::move(made), KeyEvent::kRestore);
    }
  }
}

}  // namespace dfly::testkit
