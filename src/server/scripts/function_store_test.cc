// SPDX-License-Identifier: Apache-2.0
#include "server/scripts/function_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "commands/keys/dump.h"
#include "scripting/source/script_header.h"

namespace dfly {
namespace {

using Policy = FunctionStore::Policy;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kStringMax = 1 << 20;

class FunctionStoreTest : public testing::Test {
 protected:
  // A library with functions of these names.
  static std::string Source(std::string_view library, std::vector<std::string> functions) {
    std::string source = "#!lua name=" + std::string(library) + "\n";
    for (const std::string& name : functions) {
      source += "redis.register_function('" + name + "', function() return 1 end) ";
    }
    return source;
  }

  LibraryRef Compile(const std::string& source) {
    ScriptHeader header;
    EXPECT_EQ(ParseLibraryHeader(source, &header), std::nullopt);
    return store_.Compile(source, header, &interpreter_, nullptr, &error_);
  }
  LibraryRef Library(std::string_view library, std::vector<std::string> functions) {
    return Compile(Source(library, std::move(functions)));
  }
  // "" if there is no error.
  std::string Add(const std::vector<LibraryRef>& libraries, Policy policy = Policy::kAppend) {
    return store_.Add(libraries, policy).value_or("");
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& [name, library] : store_.table()->libraries) names.push_back(name);
    return names;
  }

  FunctionStore store_{kAllowUndeclaredKeys, false};
  FunctionCache cache_{&store_};
  Interpreter interpreter_{16 << 20};
  std::string error_;
};

TEST_F(FunctionStoreTest, AFunctionIsFoundByItsNameInAnyCase) {
  ASSERT_EQ(Add({Library("lib", {"Add", "sub"})}), "");
  for (const char* name : {"Add", "add", "ADD"}) {
    Script* const script = cache_.Find(name);
    ASSERT_NE(script, nullptr) << name;
    EXPECT_EQ(script->sha, "Add");
    EXPECT_TRUE(script->is_function());
    EXPECT_EQ(script->library->name, "lib");
  }
  EXPECT_EQ(cache_.Find("lib"), nullptr);
  EXPECT_EQ(cache_.Find(""), nullptr);
}

TEST_F(FunctionStoreTest, ScriptsOfALibraryHaveTheDefaultFlagsToo) {
  ASSERT_EQ(Add({Compile("#!lua name=l\nredis.register_function{function_name='f', "
                         "callback=function() end, flags={'no-writes'}}")}),
            "");
  EXPECT_EQ(cache_.Find("f")->flags, kNoWrites | kAllowUndeclaredKeys);
  EXPECT_EQ(store_.table()->libraries.find("l")->second->functions[0].info.flags, kNoWrites);
}

TEST_F(FunctionStoreTest, NamesOfLibrariesAndOfFunctionsAreUnique) {
  ASSERT_EQ(Add({Library("a", {"f"})}), "");
  EXPECT_EQ(Add({Library("a", {"g"})}), "ERR Library a already exists");
  EXPECT_EQ(Add({Library("b", {"f"})}), "ERR Function f already exists");
  EXPECT_EQ(Add({Library("b", {"x", "F"})}), "ERR Function F already exists");
  EXPECT_EQ(Add({Library("b", {"x", "X"})}), "ERR Function X already exists");
  EXPECT_EQ(Add({Library("A", {"g"})}), "") << "the case of a library's name counts";
  EXPECT_THAT(Names(), ElementsAre("A", "a"));
  EXPECT_EQ(cache_.Find("x"), nullptr);
}

TEST_F(FunctionStoreTest, AllAreAddedOrNone) {
  ASSERT_EQ(Add({Library("a", {"f"})}), "");
  EXPECT_EQ(Add({Library("b", {"g"}), Library("c", {"f"})}), "ERR Function f already exists");
  EXPECT_EQ(Add({Library("b", {"g"}), Library("b", {"h"})}), "ERR Library b already exists");
  EXPECT_EQ(Add({Library("a", {"z"}), Library("b", {"z"})}, Policy::kReplace),
            "ERR Function z already exists");
  EXPECT_THAT(Names(), ElementsAre("a"));
  EXPECT_NE(cache_.Find("f"), nullptr);
}

TEST_F(FunctionStoreTest, APolicySaysWhichLibrariesGo) {
  ASSERT_EQ(Add({Library("a", {"f"}), Library("b", {"g"})}), "");
  EXPECT_EQ(Add({Library("a", {"g"})}, Policy::kReplace), "ERR Function g already exists");
  EXPECT_EQ(Add({Library("a", {"h"})}, Policy::kReplace), "");
  EXPECT_EQ(cache_.Find("f"), nullptr);
  EXPECT_NE(cache_.Find("h"), nullptr);
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  EXPECT_EQ(Add({Library("c", {"f"})}, Policy::kFlush), "");
  EXPECT_THAT(Names(), ElementsAre("c"));
}

TEST_F(FunctionStoreTest, WhatIsDeletedLivesUntilTheThreadSettles) {
  ASSERT_EQ(Add({Library("a", {"f"})}), "");
  Script* const script = cache_.Find("f");
  const std::weak_ptr<Script> watched = script->weak_from_this();
  EXPECT_FALSE(store_.Delete("A"));
  EXPECT_TRUE(store_.Delete("a"));
  EXPECT_EQ(cache_.Find("f"), nullptr);
  EXPECT_FALSE(watched.expired());
  cache_.Settle();
  EXPECT_TRUE(watched.expired());
}

TEST_F(FunctionStoreTest, AnInterpreterTellsVersionsApart) {
  const LibraryRef old_one = Library("a", {"f"});
  EXPECT_TRUE(interpreter_.HasFunction("f", old_one->code->version));
  const LibraryRef new_one = Library("a", {"f", "g"});
  EXPECT_FALSE(interpreter_.HasFunction("f", old_one->code->version));
  EXPECT_TRUE(interpreter_.HasFunction("f", new_one->code->version));
  // As after FUNCTION DELETE and FUNCTION LOAD, which this interpreter did not hear of.
  const LibraryRef other = Library("b", {"f"});
  EXPECT_TRUE(interpreter_.HasFunction("f", other->code->version));
  EXPECT_FALSE(interpreter_.HasFunction("f", new_one->code->version));
  EXPECT_TRUE(interpreter_.HasFunction("g", new_one->code->version));
}

TEST_F(FunctionStoreTest, CodeThatFailsIsNoLibrary) {
  EXPECT_EQ(Compile("#!lua name=a\nlocal x = 1"), nullptr);
  EXPECT_EQ(error_, "ERR No functions registered");
  EXPECT_EQ(Compile("#!lua name=a\nx"), nullptr);
  EXPECT_THAT(error_, testing::StartsWith("ERR Error compiling function: user_function:2: "));
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(FunctionStoreTest, MemoryIsThatOfWhatIsThere) {
  EXPECT_EQ(store_.table()->memory_used, 0u);
  const std::string source = Source("a", {"f"}) + std::string(5000, ' ');
  ASSERT_EQ(Add({Compile(source)}), "");
  EXPECT_GT(store_.table()->memory_used, source.size());
  store_.Flush();
  EXPECT_EQ(store_.table()->memory_used, 0u);
  EXPECT_EQ(cache_.Find("f"), nullptr);
}

TEST_F(FunctionStoreTest, ADumpHasTheSourcesOfAllLibraries) {
  ASSERT_EQ(Add({Library("b", {"f"}), Library("a", {"g"})}), "");
  std::vector<std::string> sources;
  EXPECT_EQ(FunctionStore::SourcesIn(store_.Dump(), kStringMax, &sources), std::nullopt);
  EXPECT_THAT(sources, ElementsAre(Source("a", {"g"}), Source("b", {"f"})));
}

TEST_F(FunctionStoreTest, ADumpHasTheBytesOfRedis) {
  EXPECT_EQ(store_.Dump(), std::string("\x0a\x00\x5d\x9b\x5c\x40\x0f\x7f\xa2\xda", 10))
      << "of redis-server 7.0, with no libraries";
  // Of redis-server 7.0, too.
  std::vector<std::string> sources;
  const std::string payload(
      "\xf5@I#!lua name=l1\nredis.register_function('f', function() return 'small' end)\n\x00w\x9cX"
      "\xc2Wjz8",
      86);
  EXPECT_EQ(FunctionStore::SourcesIn(payload, kStringMax, &sources), std::nullopt);
  ASSERT_EQ(sources.size(), 1u);
  ASSERT_EQ(Add({Compile(sources[0])}), "");
  EXPECT_EQ(store_.Dump(), payload);
}

TEST_F(FunctionStoreTest, NothingInAPayloadIsTrusted) {
  const auto error_of = [](std::string bytes, bool is_sealed = true) {
    if (is_sealed) SealPayload(&bytes);
    std::vector<std::string> sources;
    return FunctionStore::SourcesIn(bytes, 100, &sources).value_or("");
  };
  EXPECT_EQ(error_of(""), "");
  EXPECT_EQ(error_of("", false), "ERR DUMP payload version or checksum are wrong");
  EXPECT_EQ(error_of("0123456789", false), "ERR DUMP payload version or checksum are wrong");
  EXPECT_EQ(error_of(std::string("\x00\x01v", 3)), "ERR given type is not a function");
  EXPECT_EQ(error_of("\xf5"), "ERR Failed loading library payload");
  EXPECT_EQ(error_of("\xf5\x05"
                     "ab"),
            "ERR Failed loading library payload");
  EXPECT_EQ(error_of("\xf5\x40\x65" + std::string(101, 'x')), "ERR Failed loading library payload");
  EXPECT_EQ(error_of("\xf5\x40\x64" + std::string(100, 'x')), "");
}

}  // namespace
}  // namespace dfly
