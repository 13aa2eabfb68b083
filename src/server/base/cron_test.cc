// SPDX-License-Identifier: Apache-2.0
#include "server/base/cron.h"

#include <gtest/gtest.h>

namespace dfly {
namespace {

std::tm At(int month, int day, int weekday, int hour, int minute) {
  std::tm time{};
  time.tm_mon = month - 1;
  time.tm_mday = day;
  time.tm_wday = weekday;
  time.tm_hour = hour;
  time.tm_min = minute;
  return time;
}

bool Matches(const char* cron, const std::tm& time) {
  const auto parsed = Cron::Parse(cron);
  EXPECT_TRUE(parsed) << cron;
  return parsed && parsed->Matches(time);
}

TEST(CronTest, Matches) {
  const std::tm time = At(11, 22, 0, 14, 30);  // a Sunday
  for (const char* cron :
       {"* * * * *", "30 14 22 11 0", "30 14 22 11 7", "*/15 * * * *", "0-40/10 10-14 * * *",
        "1,30 * * * *", "* * 22 * 3", "* * 3 * 0", "* * * * 5-7", "* * 20-25/2 * *"}) {
    EXPECT_TRUE(Matches(cron, time)) << cron;
  }
  for (const char* cron : {"31 * * * *", "* 15 * * *", "* * 21 * *", "* * * 10 *", "* * * * 1",
                           "*/7 * * * *", "* * 21 * 1", "10-50/15 * * * *"}) {
    EXPECT_FALSE(Matches(cron, time)) << cron;
  }
}

TEST(CronTest, WhatMakesNoSenseIsNone) {
  for (const char* cron : {"",           "* * * *",     "* * * * * *", "60 * * * *",
                           "* 24 * * *", "* * 0 * *",   "* * 32 * *",  "* * * 0 *",
                           "* * * 13 *", "* * * * 8",   "a * * * *",   "1- * * * *",
                           "-1 * * * *", "5-1 * * * *", "*/0 * * * *", "1/2 * * * *",
                           ", * * * *",  "1,, * * * *", "1.5 * * * *", "99999999999 * * * *"}) {
    EXPECT_FALSE(Cron::Parse(cron)) << cron;
  }
}

}  // namespace
}  // namespace dfly
