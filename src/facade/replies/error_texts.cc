// SPDX-License-Identifier: Apache-2.0
#include "facade/replies/error_texts.h"

#include <initializer_list>

#include "helio/base/ascii.h"

namespace dfly {
namespace {

constexpr size_t kShownMax = 128;

std::string Concat(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (std::string_view part : parts) out += part;
  return out;
}

}  // namespace

std::string_view Printed(std::string_view text, size_t max) {
  text = text.substr(0, max);
  return text.substr(0, text.find('\0'));
}

std::string WrongArityError(std::string_view command) {
  return Concat({"ERR wrong number of arguments for '", command, "' command"});
}

std::string ProtectedError(std::string_view command) {
  const bool is_debug = command == "debug";
  return Concat({"ERR ", is_debug ? "DEBUG" : "MODULE", " command not allowed. If the ",
                 is_debug ? "enable-debug-command" : "enable-module-command",
                 " option is set to \"local\", you can run it from a local connection, otherwise "
                 "you need to set this option in the configuration file, and then restart the "
                 "server."});
}

std::string InvalidExpireError(std::string_view command) {
  return Concat({"ERR invalid expire time in '", command, "' command"});
}

std::string UnknownCommandError(std::string_view name, std::span<const std::string_view> args) {
  std::string shown;
  for (std::string_view arg : args) {
    if (shown.size() >= kShownMax) break;
    shown += '\'';
    shown += Printed(arg, kShownMax - (shown.size() - 1));
    shown += "' ";
  }
  return Concat(
      {"ERR unknown command '", Printed(name, kShownMax), "', with args beginning with: ", shown});
}

std::string UnknownSubcommandError(std::string_view command, std::string_view name) {
  return Concat({"ERR unknown subcommand '", Printed(name, kShownMax), "'. Try ",
                 helio::UpperCase(command), " HELP."});
}

std::string SubcommandSyntaxError(std::string_view command, std::string_view name) {
  return Concat({"ERR unknown subcommand or wrong number of arguments for '",
                 Printed(name, kShownMax), "'. Try ", helio::UpperCase(command), " HELP."});
}

std::string SubscribedContextError(std::string_view command) {
  return Concat({"ERR Can't execute '", helio::LowerCase(command),
                 "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in "
                 "this context"});
}

std::string ExecAbortError(std::string_view error) {
  constexpr std::string_view kGeneric = "ERR ";  // other codes are told
  if (error.starts_with(kGeneric)) error.remove_prefix(kGeneric.size());
  return Concat({"EXECABORT Transaction discarded because of: ", error});
}

}  // namespace dfly
