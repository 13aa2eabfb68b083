// SPDX-License-Identifier: Apache-2.0
#include "server/options/arguments.h"

#include <fmt/format.h>
#include <gflags/gflags.h>
#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "server/base/file_text.h"
#include "server/base/words.h"
#include "server/options/directives.h"
#include "server/options/foreign_flags.h"
#include "server/options/redis_conf.h"

namespace dfly {

namespace {

constexpr std::string_view kEnvironmentPrefix = "DFLY_";
constexpr int kIncludesMax = 32;  // of one in another

std::string AbsolutePath(const std::string& path) {
  char absolute[PATH_MAX];
  return realpath(path.c_str(), absolute) == nullptr ? path : absolute;
}

// --- Files ---

class ConfigReader {
 public:
  explicit ConfigReader(FlagSetter* flags) : flags_(*flags) {}

  std::string ReadFile(const std::string& path, int depth = 0) {
    if (depth > kIncludesMax) return fmt::format("{}: includes itself", path);
    std::string text;
    if (std::string error = ReadTextFile(path, &text); !error.empty()) {
      return fmt::format("cannot read the configuration file {}: {}", path, error);
    }
    return ReadText(text, path, depth);
  }
  std::string ReadStdin() {
    std::string text;
    if (std::string error = ReadTextFile("/dev/stdin", &text); !error.empty()) {
      return fmt::format("cannot read stdin: {}", error);
    }
    return ReadText(text, "stdin", 0);
  }

 private:
  std::string ReadText(std::string_view text, std::string_view name, int depth) {
    std::vector<ConfigLine> lines;
    if (std::string error = ParseConfigText(text, name, &lines); !error.empty()) return error;
    for (const ConfigLine& line : lines) {
      const std::string& directive = line.words[0];
      const auto values = std::span(line.words).subspan(1);
      std::string error;
      if (directive == "include") {
        error = Include(values, depth);
        if (!error.empty()) return error;  // says where itself
        continue;
      }
      error = flags_.Set(directive, values, line.where, /*is_file=*/true);
      if (!error.empty()) return fmt::format("{}: {}", line.where, error);
    }
    return "";
  }

  std::string Include(std::span<const std::string> patterns, int depth) {
    for (const std::string& pattern : patterns) {
      glob_t found = {};
      const int result = glob(pattern.c_str(), 0, nullptr, &found);
      std::vector<std::string> paths;
      for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
        paths.emplace_back(found.gl_pathv[i]);
      }
      globfree(&found);
      // A pattern may match nothing; a name must be there.
      const bool is_pattern = pattern.find_first_of("*?[") != std::string::npos;
      if (paths.empty() && !is_pattern) paths.push_back(pattern);
      for (const std::string& path : paths) {
        if (std::string error = ReadFile(path, depth + 1); !error.empty()) return error;
      }
    }
    return "";
  }

  FlagSetter& flags_;
};

// --- Environment ---

std::string ReadEnvironment(std::span<const std::string_view> environment, FlagSetter* flags) {
  flags->BeginSource();
  for (std::string_view variable : environment) {
    if (!variable.starts_with(kEnvironmentPrefix)) continue;
    const size_t equals = std::min(variable.find('='), variable.size());
    const std::string_view name =
        variable.substr(kEnvironmentPrefix.size(), equals - kEnvironmentPrefix.size());
    const std::string where(variable.substr(0, equals));
    if (!IsServerFlag(FlagName(name)) && !IsDirective(name) && FindForeignFlag(name) == nullptr) {
      flags->Warn(fmt::format("the environment's {} names no flag, and is ignored", where));
      continue;
    }
    const std::vector<std::string> values = {
        std::string(variable.substr(std::min(equals + 1, variable.size())))};
    if (std::string error = flags->Set(name, values, where, false); !error.empty()) {
      return fmt::format("{}: {}", where, error);
    }
  }
  return "";
}

// --- Command line ---

bool IsOption(std::string_view argument) {
  if (argument.starts_with("--")) return argument.size() > 2;
  // gflags take one dash, too; "-1" and "-::1" are values.
  const size_t equals = argument.find('=');
  return argument.starts_with('-') && equals != std::string_view::npos &&
         IsServerFlag(FlagName(argument.substr(1, equals - 1)));
}

bool IsBoolFlag(const std::string& name) {
  gflags::CommandLineFlagInfo info;
  return IsServerFlag(name) && gflags::GetCommandLineFlagInfo(name.c_str(), &info) &&
         info.type == "bool";
}

// "--x" that names nothing: the value of an option may begin with dashes.
bool IsKnownOption(std::string_view argument) {
  const std::string name = FlagName(argument.substr(2, argument.find_first_of("= ") - 2));
  const auto is_known = [](const std::string& name) {
    return IsServerFlag(name) || IsDirective(name) || name == "flagfile" ||
           FindForeignFlag(name) != nullptr;
  };
  return is_known(name) || (name.starts_with("no") && is_known(name.substr(2)));
}

std::string ReadOption(std::span<const std::string>* arguments, FlagSetter* flags, int depth = 0);

// A comma between the names of files. A line of one is a flag; what does not begin with a dash
// names programs, in gflags, and is skipped.
std::string ReadFlagFiles(std::string_view names, FlagSetter* flags, int depth) {
  constexpr int kDepthMax = 10;
  if (depth > kDepthMax) return fmt::format("--flagfile: {} is named by itself", names);
  while (!names.empty()) {
    const std::string name(names.substr(0, names.find(',')));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    std::ifstream file(name);
    if (!file) return fmt::format("--flagfile: cannot read {}: {}", name, strerror(errno));
    int number = 0;
    for (std::string text; std::getline(file, text);) {
      ++number;
      std::string_view line = text;
      while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) {
        line.remove_suffix(1);
      }
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      if (!line.starts_with('-')) continue;
      const std::string option(line);
      std::span<const std::string> rest(&option, 1);
      const std::string error = ReadOption(&rest, flags, depth);
      if (!error.empty()) return fmt::format("{}:{}: {}", name, number, error);
    }
  }
  return "";
}

bool WantsUnknownIgnored(std::span<const std::string> arguments,
                         std::span<const std::string_view> environment) {
  const auto is_on = [](std::string_view text) {
    const std::string value = LowerCase(text.substr(std::min(text.find('=') + 1, text.size())));
    return text.find('=') == std::string_view::npos || value == "true" || value == "yes" ||
           value == "1";
  };
  const auto is_flag = [](std::string_view text) {
    return FlagName(text.substr(0, text.find('='))) == "ignore_unknown_flags";
  };
  bool wants = false;
  for (std::string_view variable : environment) {
    if (!variable.starts_with(kEnvironmentPrefix)) continue;
    variable.remove_prefix(kEnvironmentPrefix.size());
    if (is_flag(LowerCase(variable))) wants = is_on(variable);
  }
  for (std::string_view argument : arguments) {
    if (!argument.starts_with('-')) continue;
    argument.remove_prefix(std::min(argument.find_first_not_of('-'), argument.size()));
    if (is_flag(argument)) wants = is_on(argument);
  }
  return wants;
}

// One option and its values: `arguments` begins with it. Empty, or an error; takes what it used off
// `arguments`.
std::string ReadOption(std::span<const std::string>* arguments, FlagSetter* flags, int depth) {
  std::string_view option = arguments->front();
  *arguments = arguments->subspan(1);
  while (option.starts_with('-')) option.remove_prefix(1);
  const size_t end = option.find_first_of("= \t");
  std::string name(option.substr(0, end));
  std::vector<std::string> values;
  if (end != std::string_view::npos && option[end] == '=') {
    values.emplace_back(option.substr(end + 1));
  } else {
    if (end != std::string_view::npos) {  // "--maxmemory '700mb'", a line of a file
      std::vector<ConfigLine> lines;
      const std::string error = ParseConfigText(option, "the command line", &lines);
      if (!error.empty()) return error;
      if (lines.size() != 1) return fmt::format("'--{}' is more than a line", option);
      values.assign(lines[0].words.begin() + 1, lines[0].words.end());
    }
    const auto is_value = [&](const std::string& argument) {
      if (!IsOption(argument)) return true;
      return values.empty() && argument.starts_with("--") && !IsBoolFlag(FlagName(name)) &&
             !IsKnownOption(argument);
    };
    while (!arguments->empty() && is_value(arguments->front())) {
      values.push_back(arguments->front());
      *arguments = arguments->subspan(1);
    }
  }
  if (values.empty() && IsBoolFlag(FlagName(name))) values.emplace_back("true");
  if (values.empty() && name.starts_with("no") && IsBoolFlag(FlagName(name.substr(2)))) {
    name = name.substr(2);
    values.emplace_back("false");
  }
  if (FlagName(name) == "flagfile") {
    if (values.size() != 1) return "'--flagfile' needs the path of a file";
    return ReadFlagFiles(values[0], flags, depth + 1);
  }
  // As "--save 60 1000" in one word, so "--bind '127.0.0.1 ::1'".
  const std::string error = flags->Set(name, values, "the command line", /*is_file=*/false);
  return error.empty() ? "" : fmt::format("--{}: {}", name, error);
}

}  // namespace

std::string ReadArguments(std::span<const std::string> arguments,
                          std::span<const std::string_view> environment, Arguments* out) {
  FlagSetter flags;
  if (WantsUnknownIgnored(arguments, environment)) flags.IgnoreUnknown();
  std::string error = ReadEnvironment(environment, &flags);
  flags.BeginSource();
  if (error.empty() && !arguments.empty() && !IsOption(arguments.front())) {
    ConfigReader reader(&flags);
    const std::string& path = arguments.front();
    error = path == "-" ? reader.ReadStdin() : reader.ReadFile(path);
    if (path != "-") out->config_file = AbsolutePath(path);
    arguments = arguments.subspan(1);
    // redis-server takes the first option without dashes, too.
    if (error.empty() && !arguments.empty()) error = ReadOption(&arguments, &flags);
  }
  while (error.empty() && !arguments.empty()) {
    if (!IsOption(arguments.front())) {
      error = fmt::format("unexpected argument '{}': flags are written --name=value",
                          arguments.front());
      break;
    }
    error = ReadOption(&arguments, &flags);
  }
  out->warnings = flags.warnings();
  return error;
}

}  // namespace dfly
