// SPDX-License-Identifier: Apache-2.0
// --audit_log: who has logged in, who was refused, and who has run which command of an
// administrator. docs/security.md says what its lines have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "server/acl/acl_user.h"
#include "server/base/line_writer.h"

namespace dfly {

class Session;

// Thread: any, for the sessions of that thread. Suspends: never.
class AuditLog {
 public:
  AuditLog(const std::string& path, size_t buffered_max, const CommandTable& commands);

  [[nodiscard]] std::string Open() { return writer_.Open(); }
  void Reopen() { writer_.Reopen(); }
  [[nodiscard]] bool EndWithin(uint64_t millis) { return writer_.EndWithin(millis); }

  // It is one of those that are written: of @admin, or it changes all data (FLUSHALL, SWAPDB) or
  // what others run (FUNCTION LOAD).
  bool Wants(const Command& command) const { return wanted_[command.id]; }
  // It has run. `error`: the code of its error reply, or empty.
  void OnCommand(const Session& session, const Command& command, Args args, std::string_view error);
  // The same for what a script called, in the database that it had selected. Null: nobody has
  // called the script.
  void OnScripted(const AclCaller* caller, int db_index, const Command& command, Args args,
                  std::string_view error);
  // `how`: "AUTH", "HELLO", "HTTP", "memcached" or "certificate".
  void OnLogin(const Session& session, std::string_view user, std::string_view how, bool succeeds);
  // `reason`: as ACL LOG has it; `object`: what was refused.
  void OnDenied(const Session& session, std::string_view user, const Command& command,
                std::string_view reason, std::string_view object);
  // The same for what a script called.
  void OnScriptDenied(const AclCaller& caller, const Command& command, std::string_view reason,
                      std::string_view object);

  const LineWriter& writer() const { return writer_; }

 private:
  std::vector<bool> wanted_;  // by Command::id
  LineWriter writer_;
};

}  // namespace dfly
