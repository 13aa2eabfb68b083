// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/key_events.h"

#include <gtest/gtest.h>

namespace dfly {
namespace {

std::string Canonical(std::string_view letters) {
  const auto classes = KeyEventClasses::Parse(letters);
  return classes ? classes->ToString() : "none";
}

TEST(KeyEventsTest, ClassesAreShownAsInRedis) {
  EXPECT_EQ(Canonical(""), "");
  EXPECT_EQ(Canonical("KEA"), "AKE");
  EXPECT_EQ(Canonical("g$lshzxetdmnKE"), "AnKEm");
  EXPECT_EQ(Canonical("zhsltKm"), "lshztKm");
  EXPECT_EQ(Canonical("mn"), "nm");
  EXPECT_EQ(Canonical("gq"), "none");
  EXPECT_EQ(Canonical("k"), "none");
}

TEST(KeyEventsTest, IsOnOnlyIfSomethingIsPublishedSomewhere) {
  EXPECT_FALSE(KeyEventClasses::Parse("KE")->is_on());
  EXPECT_FALSE(KeyEventClasses::Parse("A")->is_on());
  EXPECT_FALSE(KeyEventClasses().is_on());
  EXPECT_TRUE(KeyEventClasses::Parse("Km")->is_on());
  EXPECT_TRUE(KeyEventClasses::Parse("Ex")->is_on());
  for (const char* letter : {"S", "T", "I", "V"}) {
    const std::string letters = letter;
    EXPECT_FALSE(KeyEventClasses::Parse(letters + "gx$")->is_on());  // only hashes have fields
    EXPECT_TRUE(KeyEventClasses::Parse(letters + "h")->tells_fields());
    EXPECT_TRUE(KeyEventClasses::Parse("A" + letters)->is_on());
    EXPECT_TRUE(KeyEventClasses::Parse(letters)->tells_fields());
    EXPECT_TRUE(KeyEventClasses::Parse(letters + "KE")->tells_fields());
    EXPECT_FALSE(KeyEventClasses::Parse(letters + "n")->tells_fields());
    EXPECT_FALSE(KeyEventClasses::Parse(letters)->has(ClassOf(KeyEvent::kHSet)));
  }
  EXPECT_FALSE(KeyEventClasses::Parse("AKE")->tells_fields());
}

TEST(KeyEventsTest, AllHasNeitherNewKeysNorMisses) {
  const KeyEventClasses all = *KeyEventClasses::Parse("A");
  EXPECT_TRUE(all.has(ClassOf(KeyEvent::kSet)));
  EXPECT_TRUE(all.has(ClassOf(KeyEvent::kExpired)));
  EXPECT_TRUE(all.has(ClassOf(KeyEvent::kBfAdd)));
  EXPECT_FALSE(all.has(ClassOf(KeyEvent::kNew)));
  EXPECT_FALSE(all.has(ClassOf(KeyEvent::kKeyMiss)));
}

}  // namespace
}  // namespace dfly
