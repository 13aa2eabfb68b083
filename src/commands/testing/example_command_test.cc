// SPDX-License-Identifier: Apache-2.0
// The example of docs/contributing.md, "Add a command": what is there is what this file has.
#include <cstdint>
#include <optional>

#include "commands/table/args.h"
#include "commands/testing/doc_examples.h"
#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

// doc-example: begin command handler
void Truncate(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<int64_t> length = ParseInt64(args[2]);
  if (!length || *length < 0) return reply.Error(kErrNotInteger);
  auto value = cx.FindMutable(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Integer(0);
  const auto size = static_cast<int64_t>(value->StringSize());
  if (size <= *length) return reply.Integer(size);
  char scratch[CompactValue::kScratchSize];
  value->SetString(value->View(scratch).substr(0, static_cast<size_t>(*length)));
  cx.Changed(args.key(), KeyEvent::kSetRange);
  reply.Integer(*length);
}
// doc-example: end

void RegisterExample(CommandTable* table) {
  // doc-example: begin command row
  table->Add({.name = "truncate",
              .run = Truncate,
              .arity = 3,
              .flags = kWrite | kFast,
              .categories = kAclString,
              .effect = EffectRule::kOwn,
              .keys = KeyAt(1),
              .docs = {"Cuts a string to a length.", "7.2.0", "string", "O(N)"}});
  // doc-example: end
}

class StringCommandsTest : public CommandsTest {
 public:
  StringCommandsTest() { RegisterExample(&table_); }
};

// doc-example: begin command test
TEST_P(StringCommandsTest, TruncateCutsOnlyWhatIsLonger) {
  EXPECT_EQ(Run("truncate k 3"), ":0");
  EXPECT_EQ(Run("exists k"), ":0");
  Run("set k abcdef");
  EXPECT_EQ(Run("truncate k 10"), ":6");
  EXPECT_EQ(Run("truncate k 3"), ":3");
  EXPECT_EQ(Run("get k"), "\"abc\"");
  EXPECT_EQ(Run("truncate k -1"), kNotInteger);
  MakeHash("h");
  EXPECT_EQ(Run("truncate h 1"), kWrongType);
}
// doc-example: end

TEST_P(StringCommandsTest, TheDocsHaveThisText) {
  for (const char* name : {"command handler", "command row", "command test"}) {
    ExpectInDocs("docs/contributing.md", "src/commands/testing/example_command_test.cc", name);
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, StringCommandsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
