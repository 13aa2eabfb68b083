// SPDX-License-Identifier: Apache-2.0
// HRANDFIELD and SRANDMEMBER, if they ask for many members of a large value: in slices. `Walk` is
// the family's, as for member_scans.h, and has besides
//   bool DrawsQuickly(ShardContext&, const ShardContext::ReadHandle&): a draw need not walk
//   void Draw(ShardContext&, const ShardContext::ReadHandle&, fn): fn for one, each as probable
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "commands/table/local_random.h"
#include "commands/table/long_reads.h"
#include "core/text/numbers.h"
#include "core/types/set_value.h"
#include "helio/fibers/long_work.h"

namespace dfly {

// For CopyInSlices.
template <typename Walk>
class RandomCopy {
 public:
  // As the commands have it: below 0 so many, and the same one may come again. `has_texts`: what
  // belongs to a member comes, too.
  RandomCopy(int64_t count, bool has_texts)
      : repeats_(count < 0),
        wanted_(static_cast<uint64_t>(count < 0 ? -count : count)),
        stride_(has_texts ? 2 : 1) {}

  bool CopySome(ShardContext& cx, const ShardContext::ReadHandle& value) {
    has_value_ = true;
    const size_t size = Walk::Size(cx, value);
    if (!way_) Begin(size, Walk::DrawsQuickly(cx, value));
    const size_t slice = SliceOf(*value, size);
    switch (*way_) {
      case Way::kCopyAll:
        return Scan(cx, value, slice, [](size_t) { return true; });
      case Way::kChoose:
        // Each in turn with the probability that just so many come out (Knuth, TAOCP 3.4.2, S).
        return Scan(cx, value, slice, [this](size_t chosen) {
          return left_ > 0 && LocalRandom().Uniform(left_--) < wanted_ - chosen;
        });
      case Way::kDraw:
        break;
    }
    for (size_t i = 0; i < slice && count() < wanted_; ++i) {
      Walk::Draw(cx, value, [this](std::string_view member, auto... text) {
        if (repeats_ || drawn_.Add(member)) Add(member, text...);
      });
    }
    return count() < wanted_;
  }

  // There was a key.
  bool has_value() const { return has_value_; }
  // How many are replied.
  size_t reply_size() const { return *way_ == Way::kCopyAll ? wanted_ : count(); }
  // fn(member, text) for each of these; without texts that is empty. Frees them on the way, unless
  // any may come next. Suspends.
  template <typename F>
  void ForEachOfReply(F fn) {
    helio::LongWork work;
    for (size_t i = 0; i < reply_size(); ++i) {
      if (*way_ != Way::kCopyAll) texts_.FreeBefore(i * stride_);
      const size_t at = *way_ == Way::kCopyAll ? LocalRandom().Uniform(count()) : i;
      fn(texts_[at * stride_], stride_ == 2 ? texts_[at * 2 + 1] : std::string_view());
      work.Step();
    }
    while (!drawn_.FreeSome(kSliceMembers)) work.Step();
  }

 private:
  enum class Way : uint8_t {
    kDraw,    // one after another
    kChoose,  // walks over all
    kCopyAll  // draws from a copy of all
  };

  size_t count() const { return texts_.size() / stride_; }
  void Begin(size_t size, bool draws_quickly) {
    if (repeats_) {
      way_ = draws_quickly ? Way::kDraw : Way::kCopyAll;
      return;
    }
    wanted_ = std::min<uint64_t>(wanted_, size);
    left_ = size;
    way_ = draws_quickly && wanted_ <= size / 3 ? Way::kDraw : Way::kChoose;
  }
  // takes(count()) for about `slice` members more. False: it has all.
  template <typename Takes>
  bool Scan(ShardContext& cx, const ShardContext::ReadHandle& value, size_t slice, Takes takes) {
    size_t seen = 0;
    do {
      cursor_ = Walk::Scan(cx, value, cursor_, [&](std::string_view member, auto... text) {
        ++seen;
        if (takes(count())) Add(member, text...);
      });
    } while (cursor_ != 0 && seen < slice);
    return cursor_ != 0 && (repeats_ || count() < wanted_);
  }
  void Add(std::string_view member, auto... text) {
    texts_.Add(member);
    if (stride_ == 2) (texts_.Add(text), ...);
  }

  const bool repeats_;
  uint64_t wanted_;
  const size_t stride_;  // texts of a member
  bool has_value_ = false;
  std::optional<Way> way_;
  size_t left_ = 0;  // to choose from
  uint32_t cursor_ = 0;
  MemberList texts_;
  SetValue::Table drawn_;
};

// Command::asks_for_many. Args[2] is the count.
inline bool AsksForManyRandom(Args args) {
  const std::optional<int64_t> count = args.size() > 2 ? ParseInt64(args[2]) : std::nullopt;
  constexpr auto kMany = static_cast<int64_t>(kLargeMembers);
  return count && (*count >= kMany || *count <= -kMany);
}

}  // namespace dfly
