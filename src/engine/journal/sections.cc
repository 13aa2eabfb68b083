// SPDX-License-Identifier: Apache-2.0
#include "engine/journal/sections.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <utility>

#include "helio/base/logging.h"

namespace dfly {

namespace {

constexpr std::string_view kMulti = "*1\r\n$5\r\nMULTI\r\n";
constexpr std::string_view kExec = "*1\r\n$4\r\nEXEC\r\n";
constexpr size_t kSelectMax = 48;  // bytes of a SELECT

// Of a command that stands behind ECHO: "*2\r\n$4\r\nECHO\r\n$<n>\r\n", the mark, "\r\n".
constexpr std::string_view kEcho = "*2\r\n$4\r\nECHO\r\n$";
constexpr size_t kPrivateMax = kEcho.size() + 20 + 2 + kPrivateMark.size() + 2;

// An upper bound of what WriteUnit writes.
size_t UnitBytesMax(const Effects& effects) {
  if (effects.size() == 1) return effects.bytes() + kPrivateMax;
  return effects.bytes() + kMulti.size() + kExec.size() +
         effects.size() * (kSelectMax + kPrivateMax);
}

// The first word of a command in RESP.
std::string_view NameOf(std::string_view resp) {
  resp.remove_prefix(resp.find('\n') + 2);  // "*n\r\n$"
  const size_t length = resp.find('\r');
  size_t bytes = 0;
  for (const char digit : resp.substr(0, length))
    bytes = bytes * 10 + static_cast<size_t>(digit - '0');
  return resp.substr(length + 2, bytes);
}

char* Put(char* to, std::string_view text) { return std::copy(text.begin(), text.end(), to); }

char* PutPrivate(char* to, std::string_view resp) {
  to = Put(to, kEcho);
  to = std::to_chars(to, to + 20, kPrivateMark.size() + resp.size()).ptr;
  to = Put(to, "\r\n");
  to = Put(to, kPrivateMark);
  to = Put(to, resp);
  return Put(to, "\r\n");
}

}  // namespace

// Several commands stand between MULTI and EXEC.
Section::UnitText Section::Write(const Effects& effects, IsPrivateFn is_private, char* to) {
  UnitText text = {.end = to};
  const bool is_several = effects.size() > 1;
  effects.ForEach([&](int db_index, std::string_view resp) {
    if (text.first_db < 0) {
      text.first_db = db_index;
      if (is_several) text.end = Put(text.end, kMulti);
    } else if (db_index != text.last_db) {
      text.end = Put(text.end, SelectCommand(db_index));
    }
    text.last_db = db_index;
    text.end = is_private != nullptr && is_private(NameOf(resp)) ? PutPrivate(text.end, resp)
                                                                 : Put(text.end, resp);
  });
  if (is_several) text.end = Put(text.end, kExec);
  return text;
}

std::string SelectCommand(int db_index) {
  const std::string digits = absl::StrCat(db_index);
  return absl::StrCat("*2\r\n$6\r\nSELECT\r\n$", digits.size(), "\r\n", digits, "\r\n");
}

std::unique_ptr<Section::Block> Section::TakeBlock(size_t bytes) {
  if (bytes <= kBlockBytes) {
    const std::lock_guard guard(lock_);
    if (spare_ != nullptr) return std::move(spare_);
  }
  const size_t capacity = std::max(bytes, kBlockBytes);
  return std::make_unique<Block>(Block{.number = 0,
                                       .capacity = capacity,
                                       .bytes = std::make_unique_for_overwrite<char[]>(capacity)});
}

std::unique_ptr<Section::Block> Section::MakeRoom(size_t bytes) {
  if (room_ >= bytes) [[likely]]
    return nullptr;
  std::unique_ptr<Block> fresh = TakeBlock(bytes);
  fresh->number = ++last_block_;
  current_ = fresh->bytes.get();
  room_ = fresh->capacity;
  return fresh;
}

uint64_t Section::Append(const Effects& effects, UnitOrigin origin, IsPrivateFn is_private,
                         const std::atomic<uint64_t>& epoch, std::atomic<uint64_t>* clock) {
  DCHECK(!effects.empty());
  std::unique_ptr<Block> fresh = MakeRoom(UnitBytesMax(effects));
  return Note(std::move(fresh), Write(effects, is_private, current_), origin, epoch, clock);
}

uint64_t Section::Append(int db_index, std::span<const std::string_view> words,
                         const std::atomic<uint64_t>& epoch, std::atomic<uint64_t>* clock) {
  std::unique_ptr<Block> fresh = MakeRoom(CommandBytesMax(words));
  const UnitText text = {
      .first_db = db_index, .last_db = db_index, .end = WriteCommand(words, current_)};
  return Note(std::move(fresh), text, UnitOrigin::kShard, epoch, clock);
}

uint64_t Section::Note(std::unique_ptr<Block> fresh, const UnitText& text, UnitOrigin origin,
                       const std::atomic<uint64_t>& epoch, std::atomic<uint64_t>* clock) {
  char* const begin = current_;
  const size_t bytes = static_cast<size_t>(text.end - begin);
  const bool is_local = origin == UnitOrigin::kShard;
  const uint64_t now = is_local ? clock->load(std::memory_order_acquire)
                                : clock->fetch_add(1, std::memory_order_acq_rel) + 1;
  // A block for one large unit is freed as soon as that is written.
  const bool is_sealed = fresh != nullptr && fresh->capacity > kBlockBytes;
  current_ = is_sealed ? nullptr : text.end;
  room_ = is_sealed ? 0 : room_ - bytes;

  const std::lock_guard guard(lock_);
  if (fresh != nullptr) {
    open_block_ = is_sealed ? UINT64_MAX : last_block_;
    blocks_.push_back(std::move(fresh));
  }
  const uint64_t number = epoch.load(std::memory_order_acquire);
  Half& half = halves_[number & 1];
  ++half.units;
  half.bytes += bytes;
  JournalPiece* const last = half.pieces.empty() ? nullptr : &half.pieces.back();
  if (last != nullptr && is_local && last->is_local && last->clock == now &&
      last->last_db == text.first_db && last->text + last->bytes == begin) {
    last->bytes += bytes;
    last->last_db = text.last_db;
  } else {
    half.pieces.push_back({now, is_local, text.first_db, text.last_db, begin, bytes, last_block_});
  }
  newest_.store(number, std::memory_order_relaxed);
  appended_bytes_.store(appended_bytes_.load(std::memory_order_relaxed) + bytes,
                        std::memory_order_relaxed);
  return number;
}

void Section::Take(uint64_t epoch, ClosedEpoch* closed) {
  // Whoever has read the old number has appended by now; who comes later reads the new one.
  { const std::lock_guard guard(lock_); }
  const Half& half = halves_[epoch & 1];
  closed->sorted.insert(closed->sorted.end(), half.pieces.begin(), half.pieces.end());
  closed->units += half.units;
}

void Section::Release(uint64_t epoch) {
  Half& half = halves_[epoch & 1];
  if (half.pieces.empty()) return;
  half.pieces.clear();
  half.units = 0;
  released_bytes_.store(
      released_bytes_.load(std::memory_order_relaxed) + std::exchange(half.bytes, 0),
      std::memory_order_relaxed);
  std::vector<std::unique_ptr<Block>> freed;  // not under the lock
  const std::lock_guard guard(lock_);
  // A block may have the end of this epoch and the beginning of the next one.
  const std::vector<JournalPiece>& next = halves_[(epoch + 1) & 1].pieces;
  const uint64_t needed = next.empty() ? open_block_ : next.front().block;
  while (!blocks_.empty() && blocks_.front()->number < needed) {
    if (spare_ == nullptr && blocks_.front()->capacity == kBlockBytes) {
      spare_ = std::move(blocks_.front());
    } else {
      freed.push_back(std::move(blocks_.front()));
    }
    blocks_.pop_front();
  }
}

Sections::Sections(uint32_t threads, uint64_t first_epoch, IsPrivateFn is_private)
    : epoch_(first_epoch),
      sections_(std::make_unique<Section[]>(threads)),
      threads_(threads),
      is_private_(is_private) {
  CHECK_GT(first_epoch, 0u);
}

uint64_t Sections::Append(uint32_t thread, int db_index, std::span<const std::string_view> words) {
  if (is_private_ != nullptr && is_private_(words.front())) {
    Effects effects;
    effects.Add(db_index, words);
    return Append(thread, effects, UnitOrigin::kShard);
  }
  return sections_[thread].Append(db_index, words, epoch_, &clock_);
}

uint64_t Sections::newest() const {
  uint64_t newest = 0;
  for (uint32_t i = 0; i < threads_; ++i) newest = std::max(newest, sections_[i].newest());
  return newest;
}

uint64_t Sections::waiting_bytes() const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < threads_; ++i) bytes += sections_[i].waiting_bytes();
  return bytes;
}

std::string_view Sections::SelectText(int db_index) {
  while (select_texts_.size() <= static_cast<size_t>(db_index)) {
    select_texts_.push_back(SelectCommand(static_cast<int>(select_texts_.size())));
  }
  return select_texts_[static_cast<size_t>(db_index)];
}

void Sections::Close(ClosedEpoch* closed) {
  const uint64_t number = epoch_.fetch_add(1, std::memory_order_seq_cst);
  closed->sorted.clear();
  closed->pieces.clear();
  closed->units = 0;
  for (uint32_t i = 0; i < threads_; ++i) sections_[i].Take(number, closed);

  const auto comes_before = [](const JournalPiece& a, const JournalPiece& b) {
    return a.clock != b.clock ? a.clock < b.clock : a.is_local < b.is_local;
  };
  if (!std::is_sorted(closed->sorted.begin(), closed->sorted.end(), comes_before)) {
    std::stable_sort(closed->sorted.begin(), closed->sorted.end(), comes_before);
  }
  Epoch& epoch = closed->epoch;
  epoch.number = number;
  epoch.bytes = 0;
  epoch.first_db = epoch.last_db = closed->sorted.empty() ? 0 : closed->sorted.front().first_db;
  const auto add = [&](std::string_view text) {
    closed->pieces.push_back(text);
    epoch.bytes += text.size();
  };
  for (const JournalPiece& piece : closed->sorted) {
    if (piece.first_db != epoch.last_db) add(SelectText(piece.first_db));
    add({piece.text, piece.bytes});
    epoch.last_db = piece.last_db;
  }
  epoch.pieces = closed->pieces;
}

void Sections::Release(const ClosedEpoch& closed) {
  for (uint32_t i = 0; i < threads_; ++i) sections_[i].Release(closed.epoch.number);
}

}  // namespace dfly
