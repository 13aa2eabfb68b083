// SPDX-License-Identifier: Apache-2.0
// Fuzzers. A target is one function that takes any bytes and ends the process (CHECK) if something
// is wrong; everything else, randomness too, comes out of these bytes.
//
// It runs in two ways: as an ordinary test, with seeded mutations of valid examples (RunSeeded),
// and under libFuzzer, which looks for inputs that reach more of the code (tools/fuzz.sh).
//
//   DFLY_SEED, DFLY_FUZZ_ROUNDS   other inputs, more of them
//   DFLY_FUZZ_INPUT                    one input in hex, as a failure prints it, and nothing else
//   DFLY_FUZZ_KEPT                     a file with inputs in hex, a line each, that are run first:
//                                      what libFuzzer has found to reach the most (tests/corpus)
//   DFLY_FUZZ_CORPUS                   libFuzzer only: a folder, where examples, and what is kept,
//                                      are written first
//
// Thread: one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "helio/base/logging.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

#ifdef DFLY_SANITIZED
#include <sanitizer/common_interface_defs.h>
// Of <sanitizer/allocator_interface.h>, which g++ has not.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace helio::fuzz {

struct Target {
  void (*check)(std::string_view data);
  std::string (*make_example)(Random* random);  // valid bytes
  uint64_t rounds;                              // of an ordinary run: a second or two
};

// Bytes that are allocated now, exactly as they were asked for. None without a sanitizer that
// counts them.
inline std::optional<size_t> AllocatedBytes() {
#ifdef DFLY_SANITIZED
  return __sanitizer_get_current_allocated_bytes();
#else
  return std::nullopt;
#endif
}

// Decisions out of the bytes of an input; zeros when they are used up.
class Feed {
 public:
  explicit Feed(std::string_view bytes) : left_(bytes) {}

  bool empty() const { return left_.empty(); }
  std::string_view rest() const { return left_; }
  std::string_view Take(size_t count) {
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(taken.size());
    return taken;
  }
  uint8_t Byte() {
    const std::string_view taken = Take(1);
    return taken.empty() ? 0 : static_cast<uint8_t>(taken[0]);
  }
  // Of `bytes` bytes, the lowest one first.
  uint64_t Number(size_t bytes) {
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; ++i) number |= uint64_t{Byte()} << (8 * i);
    return number;
  }
  // A number or bytes, of the lengths at which encodings change, too.
  std::string Text() {
    const uint8_t what = Byte();
    const size_t size = what & 31u;
    switch (what >> 5) {
      case 0:  // of any width
        return std::to_string(static_cast<int64_t>(Number(1 + size % 8) << (56 - size % 8 * 8)) >>
                              (56 - size % 8 * 8));
      case 1:
        return std::to_string(-static_cast<int64_t>(Number(1 + size % 4)));
      case 2:  // near a power of two
        return std::to_string(static_cast<int64_t>((uint64_t{1} << Byte() % 64) + size - 16));
      case 3:  // one like another one
        return std::string(1, static_cast<char>('a' + size % 8));
      case 4:  // a length near a power of two; the last one is 16384
        return std::string((size_t{1} << Byte() % 15) + size - std::min<size_t>(size, 1), 'x');
      case 5:
        return std::string(60 + size, static_cast<char>(Byte()));
      default:
        return std::string(Take(size));
    }
  }

 private:
  std::string_view left_;
};

// --- The rest is for RunSeeded ---

inline std::optional<uint64_t> NumberFromEnv(const char* name) {
  const char* const text = getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

inline std::string ToHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<uint8_t>(c) >> 4];
    hex += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return hex;
}

inline std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::strtoul(std::string(hex.substr(i, 2)).c_str(), nullptr, 16));
  }
  return bytes;
}

// Of DFLY_FUZZ_KEPT.
inline std::vector<std::string> KeptInputs() {
  std::vector<std::string> inputs;
  const char* const path = getenv("DFLY_FUZZ_KEPT");
  if (path == nullptr) return inputs;
  std::ifstream file(path);
  CHECK(file) << path;
  for (std::string line; std::getline(file, line);) inputs.push_back(FromHex(line));
  return inputs;
}

// What is running, for who has to say how it ended.
struct Running {
  uint64_t seed = 0;
  uint64_t round = 0;
  std::string_view data;
};
inline Running running;

inline void PrintRunning() {
  std::fprintf(stderr, "DFLY_SEED=%llu, round %llu, DFLY_FUZZ_INPUT=%s\n",
               static_cast<unsigned long long>(running.seed),
               static_cast<unsigned long long>(running.round), ToHex(running.data).c_str());
}

inline void PrintRunningWhenItDies() {
#ifdef DFLY_SANITIZED
  __sanitizer_set_death_callback(PrintRunning);
#endif
  const auto print = [](int signal) {
    std::signal(signal, SIG_DFL);
    PrintRunning();
    std::raise(signal);
  };
  std::signal(SIGABRT, print);
#ifndef DFLY_SANITIZED
  std::signal(SIGSEGV, print);
#endif
}

// `data` in memory of exactly its size, so that a sanitizer sees who reads beyond it.
inline void CheckExact(const Target& target, uint64_t seed, uint64_t round, std::string_view data) {
  const auto exact = std::make_unique<char[]>(data.size());
  std::copy(data.begin(), data.end(), exact.get());
  running = {.seed = seed, .round = round, .data = {exact.get(), data.size()}};
  target.check(running.data);
  running.data = {};
}

inline std::string Mutate(std::string data, const std::string& other, Random* random) {
  for (uint64_t i = random->Uniform(random->OneIn(4) ? 12 : 4); i > 0 && !data.empty(); --i) {
    // Half of them near the front, where headers are.
    const size_t most = random->OneIn(2) ? std::min<size_t>(data.size(), 24) : data.size();
    const size_t at = random->Uniform(most);
    switch (random->Uniform(9)) {
      case 0:
        data[at] = static_cast<char>(data[at] ^ (1 << random->Uniform(8)));
        break;
      case 1:
        data[at] = static_cast<char>(random->Next());
        break;
      case 2:
        data[at] = static_cast<char>(data[at] + (random->OneIn(2) ? 1 : -1));
        break;
      case 3: {  // what a length or a number may not be
        constexpr uint64_t kEdges[] = {0,          1,         0x7F,       0x80,
                                       0xFF,       0x7FFF,    0xFFFF,     0x7FFFFFFF,
                                       0xFFFFFFFF, INT64_MAX, UINT64_MAX, 1ull << 63};
        uint64_t edge = kEdges[random->Uniform(std::size(kEdges))];
        if (random->OneIn(2)) edge = __builtin_bswap64(edge);
        const size_t bytes = std::min<size_t>(size_t{1} << random->Uniform(4), data.size() - at);
        std::memcpy(data.data() + at, &edge, bytes);
        break;
      }
      case 4:
        data.resize(at);
        break;
      case 5:
        data.erase(at, random->Between(1, random->OneIn(4) ? 40 : 4));
        break;
      case 6:
        data.insert(at, random->Between(1, 4), static_cast<char>(random->Next()));
        break;
      case 7:  // a part of itself once more
        data.insert(random->Uniform(data.size()), data.substr(at, random->Between(1, 30)));
        break;
      default:  // the front of this one, the back of the other one
        data.resize(at);
        data += other.substr(std::min(at, other.size()));
    }
  }
  return data;
}

// Runs the target as the environment says. A failure ends the process and prints how to have it
// again.
inline void RunSeeded(const Target& target) {
  PrintRunningWhenItDies();
  const uint64_t seed = TestSeed();
  if (const char* const hex = getenv("DFLY_FUZZ_INPUT")) {
    return CheckExact(target, seed, 0, FromHex(hex));
  }
#ifdef DFLY_SANITIZED
  constexpr uint64_t kSlower = 5;
#else
  constexpr uint64_t kSlower = 1;
#endif
  for (const std::string& input : KeptInputs()) CheckExact(target, seed, 0, input);
  const uint64_t rounds = NumberFromEnv("DFLY_FUZZ_ROUNDS").value_or(target.rounds / kSlower);
  Random random(seed);
  std::string example = target.make_example(&random), other = example;
  for (uint64_t i = 0; i < rounds; ++i) {
    if (i % 8 == 0) {  // they cost more than what is made of them
      other = std::move(example);
      example = target.make_example(&random);
      CheckExact(target, seed, i, example);
    }
    CheckExact(target, seed, i, Mutate(example, other, &random));
  }
}

// What libFuzzer begins with.
inline void WriteCorpus(const Target& target) {
  const char* const folder = getenv("DFLY_FUZZ_CORPUS");
  if (folder == nullptr) return;
  const auto write = [folder](const char* kind, size_t number, std::string_view input) {
    const std::string path = std::string(folder) + "/" + kind + std::to_string(number);
    std::ofstream(path, std::ios::binary) << input;
  };
  Random random(1);
  for (size_t i = 0; i < 300; ++i) write("example", i, target.make_example(&random));
  const std::vector<std::string> kept = KeptInputs();
  for (size_t i = 0; i < kept.size(); ++i) write("kept", i, kept[i]);
}

}  // namespace helio::fuzz

// Makes the test SUITE.NAME of a target, and what libFuzzer calls. Not in an unnamed namespace.
#define FUZZ_TARGET(SUITE, NAME, ...)                                         \
  TEST(SUITE, NAME) { helio::fuzz::RunSeeded(__VA_ARGS__); }                  \
  extern "C" int LLVMFuzzerInitialize(int*, char***) {                        \
    helio::fuzz::WriteCorpus(__VA_ARGS__);                                    \
    return 0;                                                                 \
  }                                                                           \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) { \
    static constexpr helio::fuzz::Target kTarget = __VA_ARGS__;               \
    kTarget.check({reinterpret_cast<const char*>(bytes), count});             \
    return 0;                                                                 \
  }
