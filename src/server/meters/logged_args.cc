// SPDX-License-Identifier: Apache-2.0
#include "server/meters/logged_args.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/base/words.h"

namespace dfly {

namespace {

bool IsSecretSetting(std::string_view name) {
  constexpr std::string_view kSecret[] = {"masteruser", "masterauth", "requirepass",
                                          "tls-key-file-pass", "tls-client-key-file-pass"};
  std::string dashed(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');  // CONFIG knows both
  return std::any_of(std::begin(kSecret), std::end(kSecret),
                     [&dashed](std::string_view secret) { return IsWord(dashed, secret); });
}

// The arguments that follow the word at `from` or behind it, up to `count` of them.
bool IsBehind(Args args, size_t i, size_t from, std::string_view word, size_t count) {
  for (size_t at = i > count ? i - count : 0; at < i; ++at) {
    if (at >= from && IsWord(args[at], word)) return true;
  }
  return false;
}

// As redis-cli prints strings.
void AppendQuoted(std::string_view bytes, std::string* out) {
  *out += '"';
  for (char c : bytes) {
    switch (c) {
      case '\\':
      case '"':
        *out += '\\';
        *out += c;
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      case '\a':
        *out += "\\a";
        break;
      case '\b':
        *out += "\\b";
        break;
      default:
        if (c >= ' ' && c <= '~') {
          *out += c;
        } else {
          fmt::format_to(std::back_inserter(*out), "\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
  }
  *out += '"';
}

}  // namespace

bool IsSecretArg(const Command& command, Args args, size_t i) {
  if (i == 0) return false;
  const std::string_view name = command.full_name;
  if (name == "auth") return true;
  if (name == "hello") return IsBehind(args, i, 2, "auth", 2);
  if (name == "config|set") return i >= 3 && i % 2 == 1 && IsSecretSetting(args[i - 1]);
  if (name == "acl|setuser") return i >= 2;
  if (name == "migrate") {
    return IsBehind(args, i, 6, "auth", 1) || IsBehind(args, i, 6, "auth2", 2);
  }
  return false;
}

std::vector<std::string> LoggedArgs(const Command& command, Args args, LoggedLimits limits) {
  std::vector<std::string> logged;
  const size_t shown = args.size() > limits.args ? limits.args - 1 : args.size();
  logged.reserve(shown + 1);
  for (size_t i = 0; i < shown; ++i) {
    const std::string_view arg = args[i];
    if (IsSecretArg(command, args, i)) {
      logged.emplace_back(kRedacted);
    } else if (arg.size() > limits.bytes) {
      logged.push_back(fmt::format("{}... ({} more bytes)", arg.substr(0, limits.bytes),
                                   arg.size() - limits.bytes));
    } else {
      logged.emplace_back(arg);
    }
  }
  if (shown < args.size()) {
    logged.push_back(fmt::format("... ({} more arguments)", args.size() - shown));
  }
  return logged;
}

std::string MonitorLine(int64_t now_us, int db_index, std::string_view client,
                        const Command& command, Args args) {
  std::string line =
      fmt::format("+{}.{:06} [{} {}]", now_us / 1'000'000, now_us % 1'000'000, db_index, client);
  for (size_t i = 0; i < args.size(); ++i) {
    line += ' ';
    AppendQuoted(IsSecretArg(command, args, i) ? kRedacted : args[i], &line);
  }
  line += "\r\n";
  return line;
}

}  // namespace dfly
