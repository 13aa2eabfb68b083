// SPDX-License-Identifier: Apache-2.0
// cmsgpack.unpack: any bytes are refused, or make values that pack and unpack to the same bytes
// again. struct.unpack and cjson.decode: any bytes are refused or read. Within a limit of memory.
//
//   input   what to do (1), then the bytes
#include <gtest/gtest.h>

#include <iterator>

#include "helio/base/fuzz_target.h"
#include "scripting/script_testing.h"

namespace dfly {
namespace {

using helio::Random;

// Packing is not unique, as a table has no order and bytes are strings: what is packed once is
// unpacked and packed again.
constexpr std::string_view kMessagePack =
    "local values = {cmsgpack.unpack(ARGV[1])} "
    "for i = 1, #values do "
    "  local packed = cmsgpack.pack(values[i]) "
    "  local again = cmsgpack.unpack(packed) "
    "  if #cmsgpack.pack(again) ~= #packed then return 'differs' end "
    "end "
    "local offset = 0 "
    "while offset >= 0 and offset < #ARGV[1] do offset = cmsgpack.unpack_one(ARGV[1], offset) end "
    "return 'fine'";
constexpr std::string_view kStruct =
    "local size = string.byte(ARGV[1]) or 0 "
    "struct.unpack(string.sub(ARGV[1], 2, size), string.sub(ARGV[1], size + 1)) return 'fine'";
constexpr std::string_view kJson =
    "local value = cjson.decode(ARGV[1]) cjson.encode(value) return 'fine'";
constexpr std::string_view kScripts[] = {kMessagePack, kStruct, kJson};

void Check(std::string_view data) {
  // Never destroyed: what belongs to the thread dies before what is static.
  static ScriptRunner& runner = *new ScriptRunner(8 << 20);
  helio::fuzz::Feed feed(data);
  const std::string_view source = kScripts[feed.Byte() % std::size(kScripts)];
  const std::string reply = runner.Run(source, {}, {feed.rest()});
  CHECK(reply == "$4\r\nfine\r\n" || reply[0] == '-') << reply;
  CHECK_LE(runner.interpreter().memory_used(), size_t{8} << 20);
}

std::string MakeExample(Random* random) {
  static ScriptRunner& runner = *new ScriptRunner;
  constexpr std::string_view kSources[] = {
      "return cmsgpack.pack({1, -1, 1.5, 'text', {a = {true, false}}, 2^40}, string.rep('x', 40))",
      "return '\\9>hi4!8bd' .. struct.pack('>hi4!8bd', 1, 2, 3, 4)",
      "return cjson.encode({a = {1, 2.5, 'x', {b = cjson.null}}, c = {true}})"};
  const size_t which = random->Uniform(std::size(kSources));
  const std::string reply = runner.Run(kSources[which]);
  const size_t begin = reply.find('\n') + 1;
  return static_cast<char>(which) + reply.substr(begin, reply.size() - begin - 2);
}

}  // namespace

FUZZ_TARGET(MessagePackFuzz, AnyBytesAreRefusedOrRead,
            {.check = Check, .make_example = MakeExample, .rounds = 20'000})

}  // namespace dfly
