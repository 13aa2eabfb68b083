// SPDX-License-Identifier: Apache-2.0
#include "server/options/arguments.h"

#include <gflags/gflags.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "helio/base/logging.h"
#include "server/options/directives.h"
#include "server/settings/rows.h"

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ArgumentsTest : public testing::Test {
 protected:
  ArgumentsTest() : folder_(testing::TempDir() + "/arguments_test") {
    if (RegisteredSettings().empty()) RegisterSettings(AllSettings());
    saver_.emplace();  // of all of them
    std::filesystem::create_directories(folder_);
  }
  ~ArgumentsTest() override { std::filesystem::remove_all(folder_); }

  std::string Read(std::vector<std::string> arguments,
                   std::vector<std::string_view> environment = {}) {
    read_ = {};
    return ReadArguments(arguments, environment, &read_);
  }
  std::string File(const std::string& name, std::string_view text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  static std::string Flag(const char* name) {
    return gflags::GetCommandLineFlagInfoOrDie(name).current_value;
  }

  std::optional<gflags::FlagSaver> saver_;
  const std::string folder_;
  Arguments read_;
};

TEST_F(ArgumentsTest, FlagsAreWrittenInManyWays) {
  EXPECT_EQ(Read({"--port=1", "--maxclients", "5", "-dbnum=3", "--tcp-keepalive", "7"}), "");
  EXPECT_EQ(Flag("port"), "1");
  EXPECT_EQ(Flag("maxclients"), "5");
  EXPECT_EQ(Flag("dbnum"), "3");
  EXPECT_EQ(Flag("tcp_keepalive"), "7");
  EXPECT_EQ(Read({"--force_epoll", "--noactivedefrag", "--cache-mode", "yes"}), "");
  EXPECT_EQ(Flag("force_epoll"), "true");
  EXPECT_EQ(Flag("activedefrag"), "false");
  EXPECT_EQ(Flag("cache_mode"), "true");
}

TEST_F(ArgumentsTest, AsForRedisServer) {
  EXPECT_EQ(Read({"--port", "6380", "--save", "", "--bind", "127.0.0.1", "-::1", "--databases", "2",
                  "--list-max-ziplist-size", "-1"}),
            "");
  EXPECT_EQ(Flag("port"), "6380");
  EXPECT_EQ(Flag("save"), "");
  EXPECT_EQ(Flag("bind"), "127.0.0.1 -::1");
  EXPECT_EQ(Flag("dbnum"), "2");
  EXPECT_EQ(Flag("list_max_listpack_size"), "-1");
  EXPECT_EQ(Read({"--save", "60", "1000", "--save", "300 10"}), "");
  EXPECT_EQ(Flag("save"), "60 1000 300 10");
}

// What redis-server 7 takes, too.
TEST_F(ArgumentsTest, AnOptionAndItsValueInOneWord) {
  EXPECT_EQ(Read({"--maxmemory 700mb", "--bind '127.0.0.1 ::1'", "--save 60 1000", "300", "10"}),
            "");
  EXPECT_EQ(Flag("maxmemory"), "700mb");
  EXPECT_EQ(Flag("bind"), "127.0.0.1 ::1");
  EXPECT_EQ(Flag("save"), "60 1000 300 10");
  EXPECT_EQ(Read({File("a.conf", ""), "loglevel", "verbose", "--port", "7"}), "");
  EXPECT_EQ(Flag("loglevel"), "verbose");
  EXPECT_EQ(Flag("port"), "7");
  EXPECT_EQ(Read({"--requirepass=a b"}), "");
  EXPECT_EQ(Flag("requirepass"), "a b");
  EXPECT_THAT(Read({"--port 1\n--timeout 2"}), HasSubstr("more than a line"));
  EXPECT_THAT(Read({"--bind '127.0.0.1"}), HasSubstr("the command line"));
}

TEST_F(ArgumentsTest, ValuesThatBeginWithDashes) {
  EXPECT_EQ(Read({"--requirepass", "--secret", "--port", "7"}), "");
  EXPECT_EQ(Flag("requirepass"), "--secret");
  EXPECT_EQ(Flag("port"), "7");
  EXPECT_THAT(Read({"--port", "--bla", "--timeout", "1"}), HasSubstr("'--bla' is no value"));
  EXPECT_THAT(Read({"--requirepass", "--port", "7"}), HasSubstr("needs a value"));
  EXPECT_THAT(Read({"--force_epoll", "--bla"}), HasSubstr("no flag --bla"));
}

TEST_F(ArgumentsTest, SaveWithoutPointsMeansNone) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--save", "--port", "7"}, {"--port", "7", "--save"}}) {
    EXPECT_EQ(Read({"--save", "1 1"}), "");
    EXPECT_EQ(Read(arguments), "");
    EXPECT_EQ(Flag("save"), "");
    EXPECT_EQ(Flag("port"), "7");
  }
}

TEST_F(ArgumentsTest, WhatIsWrongOnTheCommandLine) {
  EXPECT_THAT(Read({"--nosuch=1"}), HasSubstr("no flag --nosuch"));
  EXPECT_THAT(Read({"--port"}), HasSubstr("needs a value"));
  EXPECT_THAT(Read({"--port=x"}), HasSubstr("'x' is no value of 'port'"));
  EXPECT_THAT(Read({"--port", "1", "2"}), HasSubstr("takes one value"));
  EXPECT_THAT(Read({"--port=1", "extra"}), HasSubstr("unexpected argument 'extra'"));
  EXPECT_THAT(Read({"--cache_mode=perhaps"}), HasSubstr("yes or no"));
  EXPECT_THAT(Read({"--aof-use-rdb-preamble", "no"}), HasSubstr("a base is always an RDB file"));
  EXPECT_THAT(Read({"--flagfile=/no/such"}), HasSubstr("No such file"));
}

TEST_F(ArgumentsTest, LaterSourcesOverruleEarlierOnes) {
  const std::string file = File("a.conf", "port 2\ntimeout 2\nsave 1 1\nsave 2 2\n");
  EXPECT_EQ(Read({file, "--timeout=3"}, {"DFLY_port=1", "DFLY_MAXCLIENTS=9", "OTHER=x"}), "");
  EXPECT_EQ(Flag("port"), "2");
  EXPECT_EQ(Flag("timeout"), "3");
  EXPECT_EQ(Flag("maxclients"), "9");
  EXPECT_EQ(Flag("save"), "1 1 2 2");
  EXPECT_EQ(read_.config_file, std::filesystem::canonical(file));
  EXPECT_EQ(FlagOrigin("port"), " (" + file + ":1)");
  EXPECT_EQ(Read({file, "--save", "9 9"}), "");
  EXPECT_EQ(Flag("save"), "1 1 2 2 9 9");
  EXPECT_EQ(Read({file, "--save", ""}), "");
  EXPECT_EQ(Flag("save"), "");
  EXPECT_EQ(Read({file, "--save", "", "--save", "9 9"}), "");
  EXPECT_EQ(Flag("save"), "9 9");
  EXPECT_EQ(Read({"--save", "9 9"}, {"DFLY_save=1 1"}), "");
  EXPECT_EQ(Flag("save"), "9 9");
}

TEST_F(ArgumentsTest, TheEnvironment) {
  EXPECT_EQ(Read({}, {"DFLY_nosuch=1"}), "");
  EXPECT_THAT(read_.warnings, ElementsAre(HasSubstr("DFLY_nosuch names no flag")));
  EXPECT_THAT(Read({}, {"DFLY_port=x"}), HasSubstr("DFLY_port: 'x'"));
}

TEST_F(ArgumentsTest, DirectivesOfRedis) {
  const std::string file = File("a.conf",
                                "no-appendfsync-on-rewrite yes\nhz 10\nhz 20\nnosuch 1\n"
                                "maxmemory 1gb\nhll-sparse-max-bytes 2kb\nappendonly no\n"
                                "repl-backlog-size 1mb\nactivedefrag yes\n");
  EXPECT_EQ(Read({file}), "");
  EXPECT_THAT(read_.warnings,
              ElementsAre(HasSubstr(":1: 'no-appendfsync-on-rewrite' has no effect"),
                          HasSubstr(":3: 'hz'"), HasSubstr(":4: 'nosuch' is unknown")));
  EXPECT_EQ(Flag("maxmemory"), "1gb");
  EXPECT_EQ(Flag("hll_sparse_max_bytes"), "2048");
  EXPECT_EQ(Read({"--hz", "30", "--replica_lazy_flush=yes", "--slave-ignore-maxmemory", "no"}), "");
  EXPECT_THAT(read_.warnings,
              ElementsAre(HasSubstr("'hz' has no effect"), HasSubstr("'replica_lazy_flush'"),
                          HasSubstr("'slave-ignore-maxmemory'")));
}

TEST_F(ArgumentsTest, WhatHasNoEffectIsCheckedAllTheSame) {
  EXPECT_THAT(Read({File("a.conf", "hz x\n")}),
              HasSubstr("a.conf:1: 'hz': argument couldn't be parsed into an integer"));
  EXPECT_THAT(Read({"--io-threads", "0"}), HasSubstr("between 1 and 128 inclusive"));
  EXPECT_THAT(Read({"--hz", "1", "2"}), HasSubstr("wrong number of arguments"));
  EXPECT_EQ(Read({"--oom-score-adj-values", "1", "2", "3"}), "");
  EXPECT_THAT(Read({"--oom-score-adj-values", "1", "2"}), HasSubstr("wrong number of arguments"));
}

TEST_F(ArgumentsTest, WhatWouldPromiseTooMuchIsRefused) {
  for (const char* line : {"aof-use-rdb-preamble no", "loadmodule x.so", "cluster-enabled yes",
                           "locale-collate de_DE", "supervised upstart"}) {
    EXPECT_THAT(Read({File("a.conf", line)}), HasSubstr("a.conf:1: ")) << line;
  }
  for (const char* line : {"aof-use-rdb-preamble yes", "replicaof no one", "min-slaves-to-write 2",
                           "cluster-enabled no", "locale-collate C", "supervised systemd"}) {
    EXPECT_EQ(Read({File("a.conf", line)}), "") << line;
  }
}

TEST_F(ArgumentsTest, WhatIsWrongInAFileIsToldWithItsLine) {
  EXPECT_THAT(Read({File("a.conf", "\nport x\n")}), HasSubstr("a.conf:2: 'x' is no value"));
  EXPECT_THAT(Read({File("a.conf", "port\n")}), HasSubstr("a.conf:1: 'port' needs a value"));
  EXPECT_THAT(Read({File("a.conf", "locale-collate de_DE\n")}),
              HasSubstr("a.conf:1: 'locale-collate'"));
  EXPECT_THAT(Read({File("a.conf", "cluster-enabled yes\n")}), HasSubstr("cannot be ignored"));
  EXPECT_EQ(Read({File("a.conf", "cluster-enabled no\n")}), "");
  EXPECT_THAT(Read({folder_ + "/nosuch.conf"}), HasSubstr("No such file"));
  EXPECT_THAT(Read({folder_}), HasSubstr("Is a directory"));
}

TEST_F(ArgumentsTest, FilesIncludeOthers) {
  File("1.inc", "port 11\n");
  File("2.inc", "timeout 12\n");
  const std::string file = File(
      "a.conf", "port 1\ninclude " + folder_ + "/*.inc " + folder_ + "/*.none\nmaxclients 13\n");
  EXPECT_EQ(Read({file}), "");
  EXPECT_EQ(Flag("port"), "11");
  EXPECT_EQ(Flag("timeout"), "12");
  EXPECT_EQ(Flag("maxclients"), "13");
  EXPECT_THAT(Read({File("b.conf", "include " + folder_ + "/nosuch\n")}),
              HasSubstr("No such file"));
  EXPECT_THAT(Read({File("c.conf", "include " + folder_ + "/c.conf\n")}),
              HasSubstr("includes itself"));
}

TEST_F(ArgumentsTest, FlagFiles) {
  const std::string file = File("flags", "--port=21\n# comment\n--nocache_mode\n");
  EXPECT_EQ(Read({"--flagfile=" + file, "--timeout=22"}), "");
  EXPECT_EQ(Flag("port"), "21");
  EXPECT_EQ(Flag("timeout"), "22");
}

TEST_F(ArgumentsTest, ALineOfAFlagFileThatIsWrongIsNamed) {
  const std::string file = File("flags", "--port=21\n\n  --nonsense=1\n");
  EXPECT_EQ(Read({"--flagfile=" + file}),
            file + ":3: --nonsense: there is no flag --nonsense; --help lists the usual ones");
  EXPECT_EQ(Read({"--flagfile=" + file, "--ignore_unknown_flags"}), "");
  EXPECT_EQ(Flag("port"), "21");
}

TEST_F(ArgumentsTest, FlagsOfDragonflyThatTuneWhatIsNotHereAreWarnings) {
  EXPECT_EQ(Read({"--pipeline_squash=3", "--version-check", "false", "--nobackground_heartbeat",
                  "--port=7"},
                 {"DFLY_tiered_min_value_size=64"}),
            "");
  EXPECT_EQ(Flag("port"), "7");
  EXPECT_THAT(read_.warnings,
              ElementsAre(HasSubstr("DFLY_tiered_min_value_size: --tiered_min_value_size: a flag "
                                    "of Dragonfly without effect here: all data is in memory"),
                          HasSubstr("--pipeline_squash"), HasSubstr("--version_check"),
                          HasSubstr("--background_heartbeat")));
}

TEST_F(ArgumentsTest, FlagsOfDragonflyThatWouldBeMissedAreErrors) {
  EXPECT_EQ(Read({"--tiered_prefix="}), "");
  EXPECT_THAT(Read({"--tiered_prefix=/x"}), HasSubstr("--tiered_prefix: a flag of Dragonfly that"));
  EXPECT_EQ(Read({"--tiered_prefix=/x", "--ignore_unknown_flags"}), "");
  EXPECT_THAT(read_.warnings, ElementsAre(HasSubstr("--tiered_prefix is ignored")));
  EXPECT_THAT(Read({"--tiered_prefix=/x", "--ignore_unknown_flags=false"}), HasSubstr("not here"));
  EXPECT_THAT(Read({"--dir=s3://bucket/x"}), HasSubstr("--after_save_command"));
  EXPECT_THAT(Read({"--user=dfly"}), HasSubstr("User= of systemd"));
}

TEST_F(ArgumentsTest, FlagsOfDragonflyWithOtherNamesAndForms) {
  EXPECT_EQ(
      Read({"--announce_port=77", "--interpreter_per_thread", "3", "--save_schedule=23:05",
            "--replicaof=[::1]:6379", "--compression_mode=2", "--rename_command=a=b, c=d,e="}),
      "");
  EXPECT_EQ(Flag("replica_announce_port"), "77");
  EXPECT_EQ(Flag("interpreters_per_thread"), "3");
  EXPECT_EQ(Flag("snapshot_cron"), "5 23 * * *");
  EXPECT_EQ(Flag("replicaof"), "::1 6379");
  EXPECT_EQ(Flag("compression_mode"), "zstd");
  EXPECT_EQ(Flag("rename_command"), "a b\n c d\ne ");
  EXPECT_EQ(Read({"--save_schedule=*:*"}), "");
  EXPECT_EQ(Flag("snapshot_cron"), "* * * * *");
  for (const char* wrong : {"24:00", "1", "a:b", ":", "1:60", "-1:0", "1:2:3"}) {
    EXPECT_THAT(Read({std::string("--save_schedule=") + wrong}), HasSubstr("is no HH:MM")) << wrong;
  }
}

}  // namespace
}  // namespace dfly
