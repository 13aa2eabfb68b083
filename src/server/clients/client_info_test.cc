// SPDX-License-Identifier: Apache-2.0
#include "server/clients/client_info.h"

#include <gtest/gtest.h>

namespace dfly {
namespace {

TEST(ClientInfoTest, AFreshClientLooksAsInRedis) {
  ClientInfo info;
  info.id = 3;
  info.address = "127.0.0.1:5000";
  info.local_address = "127.0.0.1:6379";
  info.fd = 8;
  info.user = "default";
  info.memory_bytes = 900;
  EXPECT_EQ(
      FormatClient(info),
      "id=3 addr=127.0.0.1:5000 laddr=127.0.0.1:6379 fd=8 name= age=0 idle=0 flags=N db=0 "
      "sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 "
      "obl=0 oll=0 omem=0 tot-mem=900 events=r cmd=NULL user=default redir=-1 resp=2 "
      "lib-name= lib-ver= tot-net-in=0 tot-net-out=0 tot-cmds=0\n");
}

TEST(ClientInfoTest, ShowsWhatTheClientHasSet) {
  ClientInfo info;
  info.name = "me";
  info.is_unix = info.no_evict = info.no_touch = info.closes_soon = true;
  info.db_index = 5;
  info.unsent_bytes = 7;
  info.command = "client|list";
  info.resp3 = true;
  info.lib_name = "redis-py";
  info.lib_version = "5.0";
  info.received_bytes = 70;
  info.sent_bytes = 80;
  info.commands = 9;
  const std::string line = FormatClient(info);
  for (const char* part : {" name=me ", " flags=cUeT ", " db=5 ", " omem=7 ", " events=rw ",
                           " cmd=client|list ", " resp=3 ", " lib-name=redis-py lib-ver=5.0 ",
                           " tot-net-in=70 tot-net-out=80 tot-cmds=9\n"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
  }
}

TEST(ClientInfoTest, ASubscriberIsToldByFlagsAndNumbers) {
  ClientInfo info;
  info.is_subscribed = info.closes_soon = true;
  info.channels = 2;
  info.patterns = 3;
  info.shard_channels = 4;
  const std::string line = FormatClient(info);
  EXPECT_NE(line.find(" flags=Pc db=0 sub=2 psub=3 ssub=4 multi="), std::string::npos) << line;
}

TEST(ClientInfoTest, WhatIsQueuedForExecIsTold) {
  ClientInfo info;
  info.multi_commands = 0;
  EXPECT_NE(FormatClient(info).find(" flags=x db=0 sub=0 psub=0 ssub=0 multi=0 "),
            std::string::npos);
  info.multi_commands = 3;
  info.multi_bytes = 500;
  const std::string line = FormatClient(info);
  EXPECT_NE(line.find(" multi=3 "), std::string::npos) << line;
  EXPECT_NE(line.find(" multi-mem=500 "), std::string::npos) << line;
}

TEST(ClientInfoTest, TextWithBlanksOrControlCharactersCannotBeShown) {
  EXPECT_TRUE(IsValidClientText(""));
  EXPECT_TRUE(IsValidClientText("a-b_c!~"));
  constexpr std::string_view kBad[] = {"a b", "a\n", "\x7f", "caf\xc3\xa9", {"\0", 1}};
  for (std::string_view text : kBad) {
    EXPECT_FALSE(IsValidClientText(text)) << text;
  }
}

}  // namespace
}  // namespace dfly
