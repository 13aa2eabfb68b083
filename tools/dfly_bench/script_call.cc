// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/script_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace dfly::bench {

namespace {

constexpr char kLuaLists[] = R"lua(
local items = cjson.decode(ARGV[1])
for _, key in ipairs(KEYS) do
  for _, item in ipairs(items) do
    redis.call('LPUSH', key, item)
  end
  redis.call('LTRIM', key, 0, 49)
end
return #items
)lua";
constexpr int kLuaListsItems = 9;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Returns false if a backslash begins neither \\ nor \xHH.
bool Unescape(std::string_view text, std::string* out) {
  out->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      *out += text[i];
    } else if (text.substr(i, 2) == "\\\\") {
      *out += '\\';
      ++i;
    } else {
      if (i + 3 >= text.size() || text[i + 1] != 'x') return false;
      const int high = HexDigit(text[i + 2]);
      const int low = HexDigit(text[i + 3]);
      if (high < 0 || low < 0) return false;
      *out += static_cast<char>(high * 16 + low);
      i += 3;
    }
  }
  return true;
}

void ReplaceAll(std::string_view gap, std::string_view with, std::string* text) {
  for (size_t at = text->find(gap); at != std::string::npos;
       at = text->find(gap, at + with.size())) {
    text->replace(at, gap.size(), with);
  }
}

// MessagePack's str format family: fixstr up to 31 bytes, str 8 up to 255, str 16 above.
std::string PackString(std::string_view text) {
  const size_t size = text.size();
  std::string out;
  if (size < 32) {
    out += static_cast<char>(0xa0 | size);
  } else if (size < 256) {
    out += '\xd9';
    out += static_cast<char>(size);
  } else {
    out += '\xda';
    out += static_cast<char>(size >> 8);
    out += static_cast<char>(size & 0xff);
  }
  return out.append(text);
}

}  // namespace

std::string ParseScriptCall(std::string_view text, ScriptCall* call) {
  *call = ScriptCall();
  int number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const size_t blank = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, blank);
    std::string value;
    if (blank == line.size() || !Unescape(line.substr(blank + 1), &value)) {
      return fmt::format("line {}: 'script', 'key' or 'arg', a blank and a text are expected",
                         number);
    }
    if (word == "script" && call->script.empty()) {
      call->script = std::move(value);
    } else if (word == "key") {
      call->keys.push_back(std::move(value));
    } else if (word == "arg") {
      call->args.push_back(std::move(value));
    } else {
      return fmt::format("line {}: unexpected '{}'", number, word);
    }
  }
  return call->script.empty() ? "there is no script" : "";
}

std::string ReadScriptCall(const std::string& path, ScriptCall* call) {
  FILE* file = fopen(path.c_str(), "r");
  if (file == nullptr) return fmt::format("{}: {}", path, strerror(errno));
  std::string text;
  char buffer[4096];
  for (size_t got; (got = fread(buffer, 1, sizeof(buffer), file)) > 0;) text.append(buffer, got);
  fclose(file);
  const std::string error = ParseScriptCall(text, call);
  return error.empty() ? "" : fmt::format("{}: {}", path, error);
}

std::string QueueName(const LoadOptions& options, uint32_t queue) {
  return options.braces ? fmt::format("{}:{{q{}}}", options.queue_prefix, queue)
                        : fmt::format("{}:q{}", options.queue_prefix, queue);
}

ScriptCall CallForQueue(const ScriptCall& call, std::string_view queue_name) {
  const std::string packed = PackString(fmt::format("{}:", queue_name));
  ScriptCall filled = call;
  for (auto* texts : {&filled.keys, &filled.args}) {
    for (std::string& text : *texts) {
      ReplaceAll("__queue__", queue_name, &text);
      ReplaceAll("__packed_queue__", packed, &text);
    }
  }
  return filled;
}

std::vector<std::string> EvalSha(std::string_view sha, const ScriptCall& call) {
  std::vector<std::string> arguments = {"EVALSHA", std::string(sha),
                                        std::to_string(call.keys.size())};
  arguments.insert(arguments.end(), call.keys.begin(), call.keys.end());
  arguments.insert(arguments.end(), call.args.begin(), call.args.end());
  return arguments;
}

ScriptCall LuaListsCall(const std::vector<std::string>& keys) {
  std::string json;
  for (int i = 0; i < kLuaListsItems; ++i) json += i == 0 ? "[\"__data__\"" : ",\"__data__\"";
  return {kLuaLists, keys, {json + "]"}};
}

}  // namespace dfly::bench
