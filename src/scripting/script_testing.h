// SPDX-License-Identifier: Apache-2.0
// For tests: a host with a few commands, and scripts run to the bytes of their replies.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "commands/table/args.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/logging.h"
#include "scripting/interpreter.h"

namespace dfly {

class FakeHost final : public ScriptHost {
 public:
  Verdict Call(Args args, ReplySink& reply, bool may_defer) override {
    calls.emplace_back(args.all().begin(), args.all().end());
    deferred += may_defer;
    if (verdict != Verdict::kGoOn) return verdict;
    if (on_call) {
      on_call(args, reply);
    } else {
      Answer(args, reply);
    }
    return Verdict::kGoOn;
  }

  Verdict Finish(ReplySink& reply) override {
    if (!finish_error.empty()) reply.Error(finish_error);
    return finish_verdict;
  }

  Verdict OnTick() override {
    ++ticks;
    if (on_tick) on_tick();
    return ticks >= ticks_max ? tick_verdict : Verdict::kGoOn;
  }

  std::optional<bool> IsAllowed(Args args) override {
    if (args.name() == "none") return std::nullopt;
    return args.name() != "forbidden";
  }

  std::vector<std::vector<std::string>> calls;
  std::function<void(Args, ReplySink&)> on_call;
  std::function<void()> on_tick;
  Verdict verdict = Verdict::kGoOn;
  Verdict finish_verdict = Verdict::kGoOn;
  Verdict tick_verdict = Verdict::kGoOn;
  std::string finish_error;
  int deferred = 0;
  int ticks = 0;
  int ticks_max = 0;

 private:
  static void Answer(Args args, ReplySink& reply) {
    const std::string_view name = args.name();
    if (name == "echo" && args.size() == 2) {
      reply.Bulk(args[1]);
    } else if (name == "ping") {
      reply.Status("PONG");
    } else if (name == "one") {
      reply.Integer(1);
    } else if (name == "null") {
      reply.Null();
    } else if (name == "nullarray") {
      reply.NullArray();
    } else if (name == "array") {
      reply.Array(args.size() - 1);
      for (std::string_view arg : args.from(1)) reply.Bulk(arg);
    } else if (name == "map") {
      reply.Map(2);
      reply.Bulk("a");
      reply.Array(2);
      reply.Integer(1);
      reply.Null();
      reply.Bulk("b");
      reply.Set(1);
      reply.Bulk("x");
    } else if (name == "set") {
      reply.Set(2);
      reply.Bulk("x");
      reply.Bulk("y");
    } else if (name == "double") {
      reply.Double(3.25);
    } else if (name == "bool") {
      reply.Bool(true);
    } else if (name == "big") {
      reply.BigNumber("123456789012345678901234567890");
    } else if (name == "verbatim") {
      reply.Verbatim("txt", "text");
    } else if (name == "attribute") {
      if (reply.resp3()) {
        reply.Attribute(1);
        reply.Bulk("ttl");
        reply.Array(1);
        reply.Integer(3600);
      }
      reply.Bulk("value");
    } else if (name == "wrong") {
      reply.Error("WRONGTYPE Operation against a key holding the wrong kind of value");
    } else if (name == "nested") {
      for (int i = 0; i < 5000; ++i) reply.Array(1);
      reply.Array(0);
    } else {
      reply.Error("ERR Unknown Redis command called from script");
    }
  }
};

// One interpreter and one host. Scripts are known by a SHA that is always the same.
class ScriptRunner {
 public:
  static constexpr std::string_view kSha = "0123456789012345678901234567890123456789";

  explicit ScriptRunner(size_t memory_max = 64 << 20) : interpreter_(memory_max, "7.0.15") {}

  // The bytes of the reply; nothing if the script was abandoned.
  std::string Run(std::string_view source, std::vector<std::string_view> keys = {},
                  std::vector<std::string_view> args = {}) {
    ScriptHeader header;
    helio::IoBuf out;
    RespWriter reply(&out, resp3);
    if (auto error = ParseScriptHeader(source, &header)) {
      reply.Error(*error);
      return Take(&out);
    }
    std::string error;
    interpreter_.Forget(kSha);
    if (!interpreter_.Load(kSha, source.substr(header.body_begin), &error)) {
      reply.Error(error);
      return Take(&out);
    }
    outcome = interpreter_.Run({.sha = kSha, .keys = keys, .args = args}, &host, reply);
    return Take(&out);
  }

  std::string CallFunction(std::string_view function, std::vector<std::string_view> keys = {},
                           std::vector<std::string_view> args = {}) {
    helio::IoBuf out;
    RespWriter reply(&out, resp3);
    CHECK(interpreter_.HasFunction(function)) << function;
    outcome =
        interpreter_.CallFunction(function, {.sha = {}, .keys = keys, .args = args}, &host, reply);
    return Take(&out);
  }

  Interpreter& interpreter() { return interpreter_; }

  FakeHost host;
  bool resp3 = false;
  Interpreter::Outcome outcome = Interpreter::Outcome::kDone;

 private:
  static std::string Take(helio::IoBuf* out) { return std::string(out->data(), out->size()); }

  Interpreter interpreter_;
};

}  // namespace dfly
