// SPDX-License-Identifier: Apache-2.0
#include "facade/replies/reply_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "facade/replies/resp_writer.h"
#include "helio/base/random.h"

namespace dfly {
namespace {

using helio::Random;
using testing::ElementsAre;
using testing::IsEmpty;

using Calls = std::vector<std::string>;

// Notes what it is called with.
class CallNotes final : public ReplySink {
 public:
  void Status(std::string_view text) override { Note("Status", text); }
  void Error(std::string_view message) override {
    CountError(message);
    Note("Error", message);
  }
  void Integer(int64_t value) override { Note("Integer", std::to_string(value)); }
  void Bulk(std::string_view bytes) override { Note("Bulk", bytes); }
  void Null() override { Note("Null", ""); }
  void NullArray() override { Note("NullArray", ""); }
  void Double(double value) override { Note("Double", std::to_string(value)); }
  void Decimal(std::string_view digits) override { Note("Decimal", digits); }
  void Bool(bool value) override { Note("Bool", value ? "true" : "false"); }
  void BigNumber(std::string_view digits) override { Note("BigNumber", digits); }
  void Verbatim(std::string_view format, std::string_view text) override {
    Note("Verbatim", std::string(format) + "|" + std::string(text));
  }
  void Array(size_t items) override { Note("Array", std::to_string(items)); }
  void Map(size_t pairs) override { Note("Map", std::to_string(pairs)); }
  void Set(size_t items) override { Note("Set", std::to_string(items)); }
  void Push(size_t items) override { Note("Push", std::to_string(items)); }
  void Attribute(size_t pairs) override { Note("Attribute", std::to_string(pairs)); }

  Calls calls;

 private:
  void Note(const char* kind, std::string_view value) {
    calls.push_back(std::string(kind) + "(" + std::string(value) + ")");
  }
};

template <typename Fn>
std::string Written(bool resp3, Fn fn) {
  helio::IoBuf out;
  RespWriter writer(&out, resp3);
  fn(writer);
  return std::string(out.view());
}

template <typename Fn>
Calls Replayed(bool resp3, Fn fn) {
  CallNotes notes;
  ReplayReply(Written(resp3, fn), notes);
  return notes.calls;
}

TEST(ReplyReplayTest, WhatBothProtocolsHaveComesBackAsItWas) {
  for (bool resp3 : {false, true}) {
    SCOPED_TRACE(resp3);
    EXPECT_THAT(Replayed(resp3, [](ReplySink& r) { r.Ok(); }), ElementsAre("Status(OK)"));
    EXPECT_THAT(Replayed(resp3, [](ReplySink& r) { r.Status(""); }), ElementsAre("Status()"));
    EXPECT_THAT(Replayed(resp3, [](ReplySink& r) { r.Error("ERR a b"); }),
                ElementsAre("Error(ERR a b)"));
    for (int64_t value : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{10}, INT64_MAX}) {
      EXPECT_THAT(Replayed(resp3, [&](ReplySink& r) { r.Integer(value); }),
                  ElementsAre("Integer(" + std::to_string(value) + ")"));
    }
    EXPECT_THAT(Replayed(resp3, [](ReplySink& r) { r.Bulk(""); }), ElementsAre("Bulk()"));
    EXPECT_THAT(Replayed(resp3, [](ReplySink& r) { r.Bulk("-1"); }), ElementsAre("Bulk(-1)"));
    EXPECT_THAT(Replayed(resp3, [](ReplySink& r) { r.Null(); }), ElementsAre("Null()"));
    EXPECT_THAT(Replayed(resp3, [](ReplySink& r) { r.Array(0); }), ElementsAre("Array(0)"));
  }
}

TEST(ReplyReplayTest, BytesAreNoFraming) {
  for (const std::string& bytes : {std::string("\r\n"), std::string("$-1\r\n*2\r\n"),
                                   std::string("\0\r\0\n", 4), std::string(70000, '\n')}) {
    EXPECT_THAT(Replayed(false, [&](ReplySink& r) { r.Bulk(bytes); }),
                ElementsAre("Bulk(" + bytes + ")"));
    EXPECT_THAT(Replayed(true, [&](ReplySink& r) { r.Verbatim("mkd", bytes); }),
                ElementsAre("Verbatim(mkd|" + bytes + ")"));
  }
}

TEST(ReplyReplayTest, Resp3TellsEachKind) {
  EXPECT_THAT(Replayed(true,
                       [](ReplySink& r) {
                         r.Push(9);
                         r.NullArray();
                         r.Double(1.5);
                         r.Double(-INFINITY);
                         r.Double(NAN);
                         r.Decimal("0.10");
                         r.Bool(true);
                         r.Bool(false);
                         r.BigNumber("-12345678901234567890");
                         r.Verbatim("txt", "");
                       }),
              ElementsAre("Push(9)", "Null()", "Decimal(1.5)", "Decimal(-inf)", "Decimal(nan)",
                          "Decimal(0.10)", "Bool(true)", "Bool(false)",
                          "BigNumber(-12345678901234567890)", "Verbatim(txt|)"));
  EXPECT_THAT(Replayed(true,
                       [](ReplySink& r) {
                         r.Attribute(1);
                         r.Bulk("ttl");
                         r.Integer(9);
                         r.Map(2);
                         r.Bulk("a");
                         r.Set(1);
                         r.Bulk("b");
                         r.Bulk("c");
                         r.Map(0);
                       }),
              ElementsAre("Attribute(1)", "Bulk(ttl)", "Integer(9)", "Map(2)", "Bulk(a)", "Set(1)",
                          "Bulk(b)", "Bulk(c)", "Map(0)"));
}

TEST(ReplyReplayTest, Resp2TellsWhatItCan) {
  EXPECT_THAT(
      Replayed(false,
               [](ReplySink& r) {
                 r.Map(1);
                 r.Bulk("a");
                 r.Set(3);
                 r.Double(1.5);
                 r.Bool(true);
                 r.Verbatim("txt", "hi");
               }),
      ElementsAre("Array(2)", "Bulk(a)", "Array(3)", "Bulk(1.5)", "Integer(1)", "Bulk(hi)"));
  EXPECT_THAT(Replayed(false, [](ReplySink& r) { r.NullArray(); }), ElementsAre("NullArray()"));
  EXPECT_THAT(Replayed(false, [](ReplySink& r) { r.BigNumber("12"); }), ElementsAre("Bulk(12)"));
  EXPECT_THAT(Replayed(false, [](ReplySink& r) { r.Push(0); }), ElementsAre("Array(0)"));
}

TEST(ReplyReplayTest, NoBytesAreNoReply) {
  EXPECT_THAT(Replayed(false, [](ReplySink&) {}), IsEmpty());
}

TEST(ReplyReplayTest, ErrorsAreCountedAgain) {
  CallNotes notes;
  ReplayReply("*2\r\n-WRONGTYPE of a key\r\n-OOM no room\r\n", notes);
  EXPECT_EQ(notes.error_count(), 2u);
  EXPECT_EQ(notes.last_error_code(), "OOM");
  ReplayReply("-OOM\r\n", notes);  // a text without a word in front of it, as in Redis
  EXPECT_EQ(notes.last_error_code(), "ERR");
}

// One reply of any shape.
void WriteAnything(Random& random, int depth, ReplySink& sink) {
  const auto text = [&] {
    std::string bytes;
    for (uint64_t n = random.Uniform(20); n > 0; --n) bytes += "\r\n$*:-1ab"[random.Uniform(9)];
    return bytes;
  };
  const auto items = [&](size_t count) {
    for (; count > 0; --count) WriteAnything(random, depth - 1, sink);
  };
  const uint64_t kind = random.Uniform(depth > 0 ? 16 : 11);
  const size_t count = random.Uniform(kind == 15 ? 3 : 14);
  switch (kind) {
    case 0:
      return sink.Status("fine");
    case 1:
      return sink.Error("ERR " + text());
    case 2:
      return sink.Integer(static_cast<int64_t>(random.Next()));
    case 3:
    case 4:
      return sink.Bulk(text());
    case 5:
      return sink.Null();
    case 6:
      return sink.NullArray();
    case 7:
      return sink.Double(static_cast<double>(random.Uniform(1000)) / 7);
    case 8:
      return sink.Bool(random.OneIn(2));
    case 9:
      return sink.BigNumber(std::to_string(random.Next()));
    case 10:
      return sink.Verbatim("txt", text());
    case 11:
      sink.Map(count);
      return items(2 * count);
    case 12:
      sink.Set(count);
      return items(count);
    case 13:
      sink.Push(count);
      return items(count);
    case 14:
      sink.Array(count);
      return items(count);
    default:
      if (sink.resp3()) {
        sink.Attribute(count);
        items(2 * count);
      }
      return WriteAnything(random, depth - 1, sink);
  }
}

TEST(ReplyReplayTest, AWriterThatIsCalledAgainWritesTheSameBytes) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    for (bool resp3 : {false, true}) {
      const std::string bytes = Written(resp3, [&](ReplySink& sink) {
        Random random(seed);
        sink.Array(20);
        for (int i = 0; i < 20; ++i) WriteAnything(random, 3, sink);
      });
      EXPECT_EQ(Written(resp3, [&](ReplySink& sink) { ReplayReply(bytes, sink); }), bytes)
          << "seed " << seed << (resp3 ? ", RESP3" : ", RESP2");
    }
  }
}

}  // namespace
}  // namespace dfly
