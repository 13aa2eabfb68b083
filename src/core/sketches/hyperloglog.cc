// SPDX-License-Identifier: Apache-2.0
#include "core/sketches/hyperloglog.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "helio/base/logging.h"

namespace dfly {

namespace {

constexpr std::string_view kMagic = "HYLL";
constexpr size_t kEncodingAt = 4;
constexpr size_t kCountAt = 8;
constexpr char kDense = 0;
constexpr char kSparse = 1;
constexpr uint8_t kStaleBit = 0x80;  // of the count's last byte

constexpr uint64_t kHashSeed = 0xadc83b19;
constexpr uint32_t kIndexBits = 14;
constexpr uint32_t kHashBits = 64 - kIndexBits;  // of which zeros are counted

uint64_t LoadLittle64(const char* at) {
  uint64_t word = 0;
  for (size_t i = 8; i-- > 0;) word = word << 8 | static_cast<uint8_t>(at[i]);
  return word;
}

// MurmurHash64A by Austin Appleby (public domain).
uint64_t MurmurHash64A(std::string_view bytes, uint64_t seed) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
  constexpr int kShift = 47;
  uint64_t hash = seed ^ (bytes.size() * kFactor);
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word = LoadLittle64(bytes.data()) * kFactor;
    word ^= word >> kShift;
    hash = (hash ^ (word * kFactor)) * kFactor;
  }
  if (!bytes.empty()) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      hash ^= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    }
    hash *= kFactor;
  }
  hash ^= hash >> kShift;
  hash *= kFactor;
  return hash ^ (hash >> kShift);
}

// --- Runs of the sparse form ---

constexpr uint32_t kValueMax = 32;
constexpr uint32_t kValueRunMax = 4;
constexpr uint32_t kShortZerosMax = 64;

struct Run {
  uint32_t registers = 0;
  uint8_t value = 0;
  uint8_t bytes = 1;
};

// The run that begins `bytes`; none if it is cut off.
std::optional<Run> FirstRun(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  const auto head = static_cast<uint8_t>(bytes[0]);
  if (head & 0x80) {
    return Run{.registers = (head & 3u) + 1, .value = static_cast<uint8_t>((head >> 2 & 31) + 1)};
  }
  if ((head & 0x40) == 0) return Run{.registers = (head & 63u) + 1};
  if (bytes.size() < 2) return std::nullopt;
  const uint32_t low = static_cast<uint8_t>(bytes[1]);
  return Run{.registers = ((head & 63u) << 8 | low) + 1, .value = 0, .bytes = 2};
}

// The run with a register.
struct Place {
  size_t at = 0;        // where the run begins
  size_t previous = 0;  // where the run before it begins, or the same
  uint32_t first = 0;   // its first register
  Run run = {};
};

// None if the runs up to there make no sense. Every PFADD goes this way, so it is spelled out.
std::optional<Place> FindRun(std::string_view bytes, uint32_t index) {
  Place place = {.at = HyperLogLog::kHeaderBytes, .previous = HyperLogLog::kHeaderBytes};
  while (place.at < bytes.size()) {
    const auto head = static_cast<uint8_t>(bytes[place.at]);
    uint32_t registers = (head & 63u) + 1;
    size_t run_bytes = 1;
    if (head & 0x80) {
      registers = (head & 3u) + 1;
    } else if (head & 0x40) {
      if (place.at + 1 == bytes.size()) return std::nullopt;
      registers = ((head & 63u) << 8 | static_cast<uint8_t>(bytes[place.at + 1])) + 1;
      run_bytes = 2;
    }
    if (index < place.first + registers) {
      if (place.first + registers > HyperLogLog::kRegisters) return std::nullopt;
      place.run = *FirstRun(bytes.substr(place.at));
      return place;
    }
    place.previous = place.at;
    place.at += run_bytes;
    place.first += registers;
  }
  return std::nullopt;
}

void AppendZeros(uint32_t registers, std::string* to) {
  const uint32_t coded = registers - 1;
  if (registers > kShortZerosMax) {
    to->push_back(static_cast<char>(0x40 | coded >> 8));
    to->push_back(static_cast<char>(coded & 0xFF));
  } else {
    to->push_back(static_cast<char>(coded));
  }
}

char ValueRun(uint8_t value, uint32_t registers) {
  return static_cast<char>(0x80 | (value - 1) << 2 | (registers - 1));
}

// Calls visit(first register, run) for all of them. False: they make no sense together.
template <typename Visit>
bool ForEachRun(std::string_view bytes, Visit visit) {
  uint32_t first = 0;
  for (bytes.remove_prefix(HyperLogLog::kHeaderBytes); !bytes.empty();) {
    const std::optional<Run> run = FirstRun(bytes);
    if (!run || first + run->registers > HyperLogLog::kRegisters) return false;
    visit(first, *run);
    first += run->registers;
    bytes.remove_prefix(run->bytes);
  }
  return first == HyperLogLog::kRegisters;
}

// --- The dense form ---

// Four registers are three bytes, so of each group of 24 bits one register after another.
uint32_t LoadGroup(const char* at) {
  return static_cast<uint32_t>(static_cast<uint8_t>(at[0])) |
         static_cast<uint32_t>(static_cast<uint8_t>(at[1])) << 8 |
         static_cast<uint32_t>(static_cast<uint8_t>(at[2])) << 16;
}

// --- The estimator; names as in the paper ---

double Sigma(double x) {
  if (x == 1.0) return INFINITY;
  double y = 1.0;
  double z = x;
  for (;;) {
    x *= x;
    const double before = z;
    z += x * y;
    y += y;
    if (z == before) return z;
  }
}

double Tau(double x) {
  if (x == 0.0 || x == 1.0) return 0.0;
  double y = 1.0;
  double z = 1.0 - x;
  for (;;) {
    x = std::sqrt(x);
    const double before = z;
    y *= 0.5;
    z -= (1.0 - x) * (1.0 - x) * y;
    if (z == before) return z / 3.0;
  }
}

}  // namespace

HyperLogLog::Mark HyperLogLog::MarkOf(std::string_view element) {
  const uint64_t hash = MurmurHash64A(element, kHashSeed);
  const uint64_t rest = hash >> kIndexBits | uint64_t{1} << kHashBits;
  return {.index = static_cast<uint32_t>(hash & (kRegisters - 1)),
          .value = static_cast<uint8_t>(std::countr_zero(rest) + 1)};
}

uint64_t HyperLogLog::Estimate(const Registers& registers) {
  constexpr double kM = kRegisters;
  constexpr double kAlpha = 0.721347520444481703680;  // 1 / (2 ln 2)
  uint32_t counts[64] = {};
  for (uint8_t value : registers) ++counts[value & 63];
  double z = kM * Tau((kM - counts[kHashBits + 1]) / kM);
  for (uint32_t k = kHashBits; k >= 1; --k) z = (z + counts[k]) * 0.5;
  z += kM * Sigma(counts[0] / kM);
  return static_cast<uint64_t>(llroundl(static_cast<long double>(kAlpha * kM * kM / z)));
}

bool HyperLogLog::IsValid(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes || bytes.substr(0, kMagic.size()) != kMagic) return false;
  if (bytes[kEncodingAt] == kDense) return bytes.size() == kDenseBytes;
  return bytes[kEncodingAt] == kSparse;
}

std::optional<uint64_t> HyperLogLog::CachedCount(std::string_view bytes) {
  if (static_cast<uint8_t>(bytes[kCountAt + 7]) & kStaleBit) return std::nullopt;
  return LoadLittle64(bytes.data() + kCountAt);
}

void HyperLogLog::CacheCount(std::span<char> bytes, uint64_t count) {
  for (size_t i = 0; i < 8; ++i) bytes[kCountAt + i] = static_cast<char>(count >> (8 * i));
}

void HyperLogLog::MakeStale(std::span<char> bytes) {
  bytes[kCountAt + 7] = static_cast<char>(static_cast<uint8_t>(bytes[kCountAt + 7]) | kStaleBit);
}

bool HyperLogLog::Merge(std::string_view bytes, Registers* registers) {
  uint8_t* const to = registers->data();
  if (!IsDense(bytes)) {
    return ForEachRun(bytes, [to](uint32_t first, const Run& run) {
      if (run.value == 0) return;
      for (uint32_t i = first; i < first + run.registers; ++i) to[i] = std::max(to[i], run.value);
    });
  }
  const char* at = bytes.data() + kHeaderBytes;
  for (size_t i = 0; i < kRegisters; i += 4, at += 3) {
    const uint32_t group = LoadGroup(at);
    for (size_t j = 0; j < 4; ++j) {
      to[i + j] = std::max(to[i + j], static_cast<uint8_t>(group >> (6 * j) & 63));
    }
  }
  return true;
}

bool HyperLogLog::RaiseDense(std::span<char> bytes, Mark mark) {
  char* const at = bytes.data() + kHeaderBytes + mark.index / 4 * 3;
  const uint32_t shift = mark.index % 4 * 6;
  const uint32_t group = LoadGroup(at);
  if ((group >> shift & 63) >= mark.value) return false;
  const uint32_t raised = (group & ~(63u << shift)) | uint32_t{mark.value} << shift;
  for (size_t i = 0; i < 3; ++i) at[i] = static_cast<char>(raised >> (8 * i));
  return true;
}

std::optional<std::string> HyperLogLog::DescribeRuns(std::string_view bytes) {
  std::string text;
  const bool is_sound = ForEachRun(bytes, [&text](uint32_t, const Run& run) {
    if (!text.empty()) text.push_back(' ');
    if (run.value == 0) {
      text += fmt::format("{}:{}", run.bytes == 2 ? 'Z' : 'z', run.registers);
    } else {
      text += fmt::format("v:{},{}", run.value, run.registers);
    }
  });
  return is_sound ? std::optional(std::move(text)) : std::nullopt;
}

HyperLogLog::HyperLogLog() : bytes_(kHeaderBytes, '\0') {
  std::copy(kMagic.begin(), kMagic.end(), bytes_.begin());
  bytes_[kEncodingAt] = kSparse;
  AppendZeros(kRegisters, &bytes_);
}

HyperLogLog::Result HyperLogLog::Raise(Mark mark, size_t sparse_max) {
  DCHECK_LT(mark.index, kRegisters);
  if (!IsDense(bytes_)) return RaiseSparse(mark, sparse_max);
  return RaiseDense(bytes_, mark) ? Result::kRaised : Result::kUnchanged;
}

HyperLogLog::Result HyperLogLog::TestSparse(std::string_view bytes, Mark mark) {
  DCHECK(!IsDense(bytes));
  const std::optional<Place> place = FindRun(bytes, mark.index);
  if (!place) return Result::kCorrupt;
  return place->run.value < mark.value ? Result::kRaised : Result::kUnchanged;
}

bool HyperLogLog::MakeDense() {
  if (IsDense(bytes_)) return true;
  std::string dense(kDenseBytes, '\0');
  std::copy_n(bytes_.begin(), kHeaderBytes, dense.begin());
  dense[kEncodingAt] = kDense;
  const bool is_sound = ForEachRun(bytes_, [&dense](uint32_t first, const Run& run) {
    if (run.value == 0) return;
    for (uint32_t i = first; i < first + run.registers; ++i) RaiseDense(dense, {i, run.value});
  });
  if (is_sound) bytes_ = std::move(dense);
  return is_sound;
}

HyperLogLog::Result HyperLogLog::Promote(Mark mark) {
  if (!MakeDense()) return Result::kCorrupt;
  return RaiseDense(bytes_, mark) ? Result::kRaised : Result::kUnchanged;
}

// Splits the run that has the register into what comes before it, the register, and what comes
// after, and joins what fits together then. What bytes result is a part of the format: replicas
// and tests compare them.
HyperLogLog::Result HyperLogLog::RaiseSparse(Mark mark, size_t sparse_max) {
  if (mark.value > kValueMax) return Promote(mark);
  const std::optional<Place> place = FindRun(bytes_, mark.index);
  if (!place) return Result::kCorrupt;
  const Run& run = place->run;
  if (run.value >= mark.value) return Result::kUnchanged;

  if (run.registers == 1 && run.bytes == 1) {
    bytes_[place->at] = ValueRun(mark.value, 1);
  } else {
    std::string split;
    const auto append_rest = [&](uint32_t registers) {
      if (registers == 0) return;
      if (run.value == 0) {
        AppendZeros(registers, &split);
      } else {
        split.push_back(ValueRun(run.value, registers));
      }
    };
    append_rest(mark.index - place->first);
    split.push_back(ValueRun(mark.value, 1));
    append_rest(place->first + run.registers - 1 - mark.index);
    if (split.size() > run.bytes && bytes_.size() + split.size() - run.bytes > sparse_max) {
      return Promote(mark);
    }
    bytes_.replace(place->at, run.bytes, split);
  }
  JoinRuns(place->previous);
  return Result::kRaised;
}

void HyperLogLog::JoinRuns(size_t at) {
  // The change made at most three runs of one; their neighbours are the other two.
  for (int looked_at = 0; looked_at < 5 && at < bytes_.size(); ++looked_at) {
    const std::optional<Run> run = FirstRun(std::string_view(bytes_).substr(at));
    if (!run) return;
    const auto next = FirstRun(std::string_view(bytes_).substr(at + run->bytes));
    if (run->value != 0 && next && next->value == run->value &&
        run->registers + next->registers <= kValueRunMax) {
      bytes_.erase(at, 1);
      bytes_[at] = ValueRun(run->value, run->registers + next->registers);
    } else {
      at += run->bytes;
    }
  }
}

}  // namespace dfly
