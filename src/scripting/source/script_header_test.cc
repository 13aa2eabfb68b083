// SPDX-License-Identifier: Apache-2.0
#include "scripting/source/script_header.h"

#include <gtest/gtest.h>

namespace dfly {
namespace {

// The flags of a script, or its error.
std::string Script(std::string_view line) {
  ScriptHeader header;
  const std::string source = std::string(line) + "\nreturn 1";
  if (auto error = ParseScriptHeader(source, &header)) return *error;
  EXPECT_EQ(source.substr(header.body_begin), header.has_shebang ? "\nreturn 1" : source);
  return std::to_string(header.flags);
}

// The name of a library, or its error.
std::string Library(std::string_view line) {
  ScriptHeader header;
  if (auto error = ParseLibraryHeader(std::string(line) + "\nx()", &header)) return *error;
  return header.name;
}

// All texts as redis-server 7.0.15 gives them.
TEST(ScriptHeaderTest, FlagsOfScripts) {
  EXPECT_EQ(Script("return 2"), "0");
  EXPECT_EQ(Script("#!lua"), "0");
  EXPECT_EQ(Script("#!lua flags="), "0");
  EXPECT_EQ(Script("#!lua flags=no-writes"), "1");
  EXPECT_EQ(Script("#!lua flags=no-writes\r"), "1");
  EXPECT_EQ(Script("#!lua  flags=no-writes,allow-oom \t flags=allow-stale"), "7");
  EXPECT_EQ(Script("#!lua flags=disable-atomicity,allow-undeclared-keys"), "96");
  EXPECT_EQ(Script("#!lua \"flags=no-writes\""), "1");
  EXPECT_EQ(Script("#!lua flags=no-writes,"), "ERR Unexpected flag in script shebang: ");
  EXPECT_EQ(Script("#!lua flags=,no-writes"), "ERR Unexpected flag in script shebang: ");
  EXPECT_EQ(Script("#!lua flags=no-writes, allow-oom"), "ERR Unexpected flag in script shebang: ");
  EXPECT_EQ(Script("#!lua flags=NO-writes"), "ERR Unexpected flag in script shebang: NO-writes");
  EXPECT_EQ(Script("#!lua name=x"), "ERR Unknown lua shebang option: name=x");
  EXPECT_EQ(Script("#!lua FLAGS=no-writes"), "ERR Unknown lua shebang option: FLAGS=no-writes");
  EXPECT_EQ(Script("#!python"), "ERR Unexpected engine in script shebang: #!python");
  EXPECT_EQ(Script("#!LUA"), "ERR Unexpected engine in script shebang: #!LUA");
  EXPECT_EQ(Script("#! lua"), "ERR Unexpected engine in script shebang: #!");
  EXPECT_EQ(Script("#!lua \"flags=no-wri"), "ERR Invalid engine in script shebang");
  ScriptHeader header;
  EXPECT_EQ(ParseScriptHeader("#!lua", &header), "ERR Invalid script shebang");
}

TEST(ScriptHeaderTest, NamesOfLibraries) {
  const std::string bad_name =
      "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least "
      "one character long";
  EXPECT_EQ(Library("#!lua name=my_lib1"), "my_lib1");
  EXPECT_EQ(Library("#!LUA NAME=x"), "x");
  EXPECT_EQ(Library("#!lua"), "ERR Library name was not given");
  EXPECT_EQ(Library("#!lua name="), bad_name);
  EXPECT_EQ(Library("#!lua name=a-b"), bad_name);
  EXPECT_EQ(Library("#!lua name=x name=y"),
            "ERR Invalid metadata value, name argument was given multiple times");
  EXPECT_EQ(Library("#!lua name=x foo=y"), "ERR Invalid metadata value given: foo=y");
  EXPECT_EQ(Library("#!js name=x"), "ERR Engine 'js' not found");
  EXPECT_EQ(Library("lua"), "ERR Missing library metadata");
  ScriptHeader header;
  EXPECT_EQ(ParseLibraryHeader("#!lua name=x", &header), "ERR Invalid library metadata");
}

}  // namespace
}  // namespace dfly
