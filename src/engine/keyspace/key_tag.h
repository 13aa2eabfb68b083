// SPDX-License-Identifier: Apache-2.0
// The tag: the part of a key that decides its shard and, optionally, what its commands lock.
//
//   key                  tag        why
//   {user1}:name         user1      the hash tag of the Redis cluster specification
//   name                 name       the key has none: the whole of it
//
// A second shape serves clients that write no braces (--locktag_prefix, --locktag_delimiter,
// --locktag_skip_n_end_delimiters). With the prefix "bull" and the delimiter ':':
//
//   bull:mail:12         mail       from the delimiter at the prefix's end, or the first one behind
//                                   the prefix, to the next one
//   bull:mail:12         mail:12    ... with 1 delimiter to skip, if another one followed: here it
//                                   is the whole key
//   bull:mail:12:lock    mail:12    ... and here it is this
//   bull:{mail}:12       mail       braces go first: what has the same hash tag is in one shard
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dfly {

// The text between the first '{' and the next '}'; empty if there is none.
inline std::string_view HashTag(std::string_view key) {
  const size_t open = key.find('{');
  if (open == std::string_view::npos) [[likely]] {
    return {};
  }
  const size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos) return {};
  return key.substr(open + 1, close - open - 1);
}

// Owner: written before the threads start, then read by all.
struct TagRules {
  std::string prefix = {};           // of the keys that have the second shape; empty: none have
  char delimiter = '\0';             // REQUIRES: given with a prefix
  uint32_t skip_end_delimiters = 0;  // the tag has so many of them within it
  bool locks_tags = false;           // --lock_on_hashtags

  std::string_view TagOf(std::string_view key) const {
    if (const std::string_view tag = HashTag(key); !tag.empty()) return tag;
    if (prefix.empty()) [[likely]] {
      return key;
    }
    return DelimitedTag(key);
  }

 private:
  std::string_view DelimitedTag(std::string_view key) const {
    if (!key.starts_with(prefix)) return key;
    const size_t open = key.find(delimiter, prefix.size() - 1);  // the prefix may end with it
    if (open == std::string_view::npos) return key;
    size_t close = open;
    for (uint32_t i = 0; i <= skip_end_delimiters; ++i) {
      close = key.find(delimiter, close + 1);
      if (close == std::string_view::npos) return key;
    }
    return close == open + 1 ? key : key.substr(open + 1, close - open - 1);
  }
};

}  // namespace dfly
