// SPDX-License-Identifier: Apache-2.0
#include "server/clients/audit_log.h"

#include <algorithm>
#include <array>

#include "helio/base/clock.h"
#include "server/acl/command_facts.h"
#include "server/base/json_text.h"
#include "server/clients/session.h"
#include "server/meters/logged_args.h"

namespace dfly {

namespace {

// Bytes of one text that clients choose.
constexpr size_t kTextMax = 1024;

bool IsAudited(const Command& command) {
  // What replicas and Sentinels send all the time is none of an administrator.
  constexpr std::array<std::string_view, 2> kNot = {"replconf", "sentinel"};
  if (std::ranges::find(kNot, command.full_name) != kNot.end()) return false;
  const auto categories = AclCategoriesOf(command);
  const auto has = [&](std::string_view name) {
    return std::ranges::find(categories, name) != categories.end();
  };
  if (has("@admin")) return true;
  return has("@write") && !command.keys.has_keys() && (has("@dangerous") || has("@scripting"));
}

JsonLine Begin(std::string_view event) {
  JsonLine line;
  line.Text("time", JsonTime(helio::UnixMicros())).Text("event", event);
  return line;
}

void AddClient(uint64_t id, std::string_view address, std::string_view name, JsonLine* line) {
  line->Number("client_id", static_cast<int64_t>(id)).Text("address", address);
  if (!name.empty()) line->Text("client_name", name.substr(0, kTextMax));
}

void AddClient(const Session& session, JsonLine* line) {
  AddClient(session.connection.id(), session.peer_address, session.name, line);
}

void AddCaller(const AclCaller& caller, JsonLine* line) {
  line->Text("user", caller.name.substr(0, kTextMax));
  AddClient(caller.client_id, caller.address, caller.client_name, line);
}

std::string EndCommand(JsonLine& line, const Command& command, Args args, int db_index,
                       std::string_view error) {
  // Passwords may be in the command that ACL DRYRUN tries.
  const Args shown = command.full_name == "acl|dryrun" ? Args(args.all().first(4)) : args;
  std::string words;
  for (const std::string& word : LoggedArgs(command, shown)) {
    words += words.empty() ? '[' : ',';
    AppendJsonForLog(word, &words);
  }
  line.Number("db", db_index).Raw("command", words + ']');
  return line.Text("result", error.empty() ? "ok" : error).Take();
}

std::string EndDenied(JsonLine& line, const Command& command, std::string_view reason,
                      std::string_view object) {
  line.Text("command", command.full_name).Text("reason", reason);
  return line.Text("object", object.substr(0, kTextMax)).Text("result", "NOPERM").Take();
}

}  // namespace

AuditLog::AuditLog(const std::string& path, size_t buffered_max, const CommandTable& commands)
    : wanted_(commands.id_count(), false), writer_(path, buffered_max, "audit log") {
  const auto look = [this](const auto& self, const Command& command) -> void {
    wanted_[command.id] = command.subcommands.empty() && IsAudited(command);
    for (const Command& subcommand : command.subcommands) self(self, subcommand);
  };
  for (const Command& command : commands.all()) look(look, command);
}

void AuditLog::OnCommand(const Session& session, const Command& command, Args args,
                         std::string_view error) {
  JsonLine line = Begin("command");
  line.Text("user", session.user.name);
  AddClient(session, &line);
  writer_.Write(EndCommand(line, command, args, session.db_index, error));
}

void AuditLog::OnScripted(const AclCaller* caller, int db_index, const Command& command, Args args,
                          std::string_view error) {
  JsonLine line = Begin("command");
  if (caller != nullptr) AddCaller(*caller, &line);
  line.Text("from", "script");
  writer_.Write(EndCommand(line, command, args, db_index, error));
}

void AuditLog::OnLogin(const Session& session, std::string_view user, std::string_view how,
                       bool succeeds) {
  JsonLine line = Begin("login");
  // Who fails needs no right to be here, and shall not fill the buffer.
  constexpr size_t kUnknownMax = 128;
  line.Text("user", user.substr(0, succeeds ? kTextMax : kUnknownMax));
  AddClient(session, &line);
  writer_.Write(line.Text("method", how).Text("result", succeeds ? "ok" : "denied").Take());
}

void AuditLog::OnDenied(const Session& session, std::string_view user, const Command& command,
                        std::string_view reason, std::string_view object) {
  JsonLine line = Begin("denied");
  line.Text("user", user.substr(0, kTextMax));
  AddClient(session, &line);
  writer_.Write(EndDenied(line, command, reason, object));
}

void AuditLog::OnScriptDenied(const AclCaller& caller, const Command& command,
                              std::string_view reason, std::string_view object) {
  JsonLine line = Begin("denied");
  AddCaller(caller, &line);
  line.Text("from", "script");
  writer_.Write(EndDenied(line, command, reason, object));
}

}  // namespace dfly
