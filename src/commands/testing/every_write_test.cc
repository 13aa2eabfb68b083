// SPDX-License-Identifier: Apache-2.0
// Every command that may write has an effect when it does. A new row without an example here fails,
// so that nobody forgets to think of its `.effect`. (Rows of the server itself:
// server/schedules/server_effects_test.cc.)
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "commands/testing/test_harness.h"
#include "helio/base/ascii.h"

namespace dfly {
namespace {

// What is there before, and, as the last line, the command; in lines.
constexpr std::string_view kExamples[] = {
    "append k v",
    "bf.add b x",
    "bf.insert b items x",
    "bf.madd b x y",
    "bf.reserve b 0.01 100",
    "bitfield k set u8 0 1",
    "set a x\nset b y\nbitop or k a b",
    "rpush a x\nblmove a b left left 0",
    "rpush a x\nblmovem a b left left 0",
    "rpush a x\nblmpop 0 1 a left",
    "rpush a x\nblpop a 0",
    "rpush a x\nbrpop a 0",
    "rpush a x\nbrpoplpush a b 0",
    "zadd z 1 a\nbzmpop 0 1 z min",
    "zadd z 1 a\nbzpopmax z 0",
    "zadd z 1 a\nbzpopmin z 0",
    "cl.throttle k 5 10 60",
    "cms.initbydim c 10 2\ncms.incrby c x 1",
    "cms.initbydim c 10 2",
    "cms.initbyprob c 0.1 0.1",
    "cms.initbydim c 10 2\ncms.initbydim d 10 2\ncms.incrby c x 1\ncms.merge d 1 c",
    "set a 1\ncopy a b",
    "decr k",
    "decrby k 2",
    "set k v\ndel k",
    "set k v\ndelex k ifeq v",
    "set k v\ndelifeq k v",
    "set k v\nexpire k 100",
    "set k v\nexpireat k 1800000000",
    "sadd s a\nfieldexpire s 10 a",
    "sadd s a\nfieldpexpireat s 1800000000000 a",
    "set k v\nflushall",
    "set k v\nflushdb",
    "geoadd g 13 38 p",
    "geoadd g 13 38 p\ngeoradius g 13 38 1 km store d",
    "geoadd g 13 38 p\ngeoradiusbymember g p 1 km store d",
    "geoadd g 13 38 p\ngeosearchstore d g frommember p byradius 1 km",
    "set k v\ngetdel k",
    "set k v\ngetex k ex 10",
    "getset k v",
    "hset h f v\nhdel h f",
    "hset h f v\nhexpire h 10 fields 1 f",
    "hset h f v\nhexpireat h 1800000000 fields 1 f",
    "hset h f v\nhgetdel h fields 1 f",
    "hset h f v\nhgetex h ex 10 fields 1 f",
    "hincrby h f 1",
    "hincrbyfloat h f 1.5",
    "hmset h f v",
    "hsetex h ex 10 fields 1 f v\nhpersist h fields 1 f",
    "hset h f v\nhpexpire h 10000 fields 1 f",
    "hset h f v\nhpexpireat h 1800000000000 fields 1 f",
    "hset h f v",
    "hsetex h ex 10 fields 1 f v",
    "hsetnx h f v",
    "incr k",
    "incrby k 2",
    "incrbyfloat k 1.5",
    "increx k",
    "json.set j $ [1]\njson.arrappend j $ 2",
    "json.set j $ [1]\njson.arrinsert j $ 0 2",
    "json.set j $ [1]\njson.arrpop j",
    "json.set j $ [1]\njson.arrtrim j $ 1 0",
    "json.set j $ [1]\njson.clear j",
    "json.set j $ [1,2]\njson.del j $[0]",
    "json.set j $ [1]\njson.forget j",
    "json.merge j $ {\"a\":1}",
    "json.mset j $ 1 k $ 2",
    "json.set j $ [1]\njson.numincrby j $[0] 2",
    "json.set j $ [0.1,2] FPHA FP16\njson.numincrby j $[1] 2",
    "json.set j $ [1]\njson.nummultby j $[0] 2",
    "json.set j $ {\"a\":1}",
    "json.set j $ \"a\"\njson.strappend j \"b\"",
    "json.set j $ true\njson.toggle j",
    "rpush a x\nlinsert a before x y",
    "rpush a x\nlmove a b left left",
    "rpush a x\nlmovem a b left left",
    "rpush a x\nlmpop 1 a left",
    "rpush a x\nlpop a",
    "lpush a x",
    "rpush a x\nlpushx a y",
    "rpush a x\nlrem a 0 x",
    "rpush a x\nlset a 0 y",
    "rpush a x y\nltrim a 1 1",
    "set k v\nmove k 1",
    "mset a 1 b 2 c 3",
    "msetex 3 a 1 b 2 c 3 ex 10",
    "msetnx a 1 b 2 c 3",
    "setex k 10 v\npersist k",
    "set k v\npexpire k 10000",
    "set k v\npexpireat k 1800000000000",
    "pfadd p x",
    "pfadd p x\npfdebug todense p",
    "pfadd a x\npfadd b y\npfmerge p a b",
    "set k v\nprepend k u",
    "psetex k 10000 v",
    "set a 1\nrename a b",
    "set a 1\nrenamenx a b",
    "rpush a x\nrpop a",
    "rpush a x\nrpoplpush a b",
    "rpush a x",
    "rpush a x\nrpushx a y",
    "sadd s a",
    "saddex s 10 a",
    "sadd a x\nsdiffstore d a b",
    "set k v",
    "setbit k 1 1",
    "setex k 10 v",
    "setnx k v",
    "setrange k 1 v",
    "sadd a x\nsadd b x\nsinterstore d a b",
    "sadd a x\nsmove a b x",
    "rpush a 2 1\nsort a store d",
    "sadd s a\nspop s",
    "sadd s a\nsrem s a",
    "set k v\nstick k",
    "sadd a x\nsunionstore d a b",
    "set k v\nswapdb 0 1",
    "topk.reserve t 2\ntopk.add t x",
    "topk.reserve t 2\ntopk.incrby t x 2",
    "topk.reserve t 2",
    "set k v\nunlink k",
    "xadd s 1-1 f v\nxgroup create s g 0\nxreadgroup group g c streams s >\nxack s g 1-1",
    "xadd s * f v",
    "xadd s 1-1 f v\nxgroup create s g 0\nxreadgroup group g c streams s >\nxautoclaim s g d 0 0",
    "xadd s 1-1 f v\nxgroup create s g 0\nxreadgroup group g c streams s >\nxclaim s g d 0 1-1",
    "xadd s 1-1 f v\nxgroup create s g 0\nxreadgroup group g c streams s >\nxackdel s g ids 1 1-1",
    "xadd s 1-1 f v\nxcfgset s idmp-maxsize 5",
    "xadd s 1-1 f v\nxdel s 1-1",
    "xadd s 1-1 f v\nxdelex s ids 1 1-1",
    "xgroup create s g 0 mkstream",
    "xgroup create s g 0 mkstream\nxgroup createconsumer s g c",
    "xgroup create s g 0 mkstream\nxgroup createconsumer s g c\nxgroup delconsumer s g c",
    "xgroup create s g 0 mkstream\nxgroup destroy s g",
    "xadd s 1-1 f v\nxgroup create s g 0\nxgroup setid s g 1-1",
    "xadd s 1-1 f v\nxidmprecord s p m 1-1",
    "xadd s 1-1 f v\nxgroup create s g 0\nxreadgroup group g c streams s >\nxnack s g fail ids 1 "
    "1-1",
    "xadd s 1-1 f v\nxgroup create s g 0\nxreadgroup group g c streams s >",
    "xadd s 1-1 f v\nxsetid s 2-1",
    "xadd s 1-1 f v\nxtrim s maxlen 0",
    "zadd z 1 a",
    "zadd a 1 x\nzdiffstore d 2 a b",
    "zincrby z 1 a",
    "zadd a 1 x\nzadd b 1 x\nzinterstore d 2 a b",
    "zadd z 1 a\nzmpop 1 z min",
    "zadd z 1 a\nzpopmax z",
    "zadd z 1 a\nzpopmin z",
    "zadd z 1 a\nzrangestore d z 0 -1",
    "zadd z 1 a\nzrem z a",
    "zadd z 1 a\nzremrangebylex z - +",
    "zadd z 1 a\nzremrangebyrank z 0 -1",
    "zadd z 1 a\nzremrangebyscore z 0 2",
    "zadd a 1 x\nzunionstore d 2 a b",
};

class EveryWriteTest : public CommandsTest {
 protected:
  // "xgroup|create", as COMMAND INFO has it.
  std::string NameOf(std::string_view line) {
    const std::vector<std::string_view> words = helio::SplitWords(line);
    const Command* const row = table_.Find(words[0]);
    if (row == nullptr || row->subcommands.empty()) return std::string(words[0]);
    return std::string(words[0]) + "|" + std::string(words[1]);
  }
  void Note(std::string_view line, const std::vector<std::string>& units) {
    EXPECT_FALSE(units.empty()) << line;
    seen_.insert(NameOf(line));
  }

  std::set<std::string, std::less<>> seen_;
};

TEST_P(EveryWriteTest, HasAnEffect) {
  for (std::string_view example : kExamples) {
    Run("flushall");
    std::string_view rest = example, line;
    while (!rest.empty()) {
      line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      Effects();
      const std::string reply = Run(line);
      EXPECT_NE(reply[0], '-') << line << ": " << reply;
    }
    Note(line, Effects());
  }
  // Those whose arguments are no words.
  Run("set k v");
  const std::string dump = Call({"dump", "k"}).text;
  Run("del k");
  Effects();
  RunWords({"restore", "k", "0", dump});
  Note("restore", Effects());

  Run("bf.add from x");
  const RespValue chunk = Call({"bf.scandump", "from", "0"});
  Effects();
  EXPECT_EQ(RunWords({"bf.loadchunk", "to", chunk.items[0].text, chunk.items[1].text}), "+OK");
  Note("bf.loadchunk", Effects());

  for (const Command& row : table_.all()) {
    if (row.subcommands.empty() && (row.flags & kWrite) != 0) {
      EXPECT_TRUE(seen_.contains(row.name)) << row.name << " has no example";
    }
    for (const Command& subcommand : row.subcommands) {
      if ((subcommand.flags & kWrite) == 0) continue;
      EXPECT_TRUE(seen_.contains(subcommand.full_name)) << subcommand.full_name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, EveryWriteTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
