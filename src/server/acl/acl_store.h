// SPDX-License-Identifier: Apache-2.0
// All users there are, and the file that they come from.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/acl/acl_log.h"
#include "server/acl/acl_user.h"
#include "server/options/options.h"

namespace dfly {

// Thread: any. Looking for a user happens when somebody logs in, so one mutex guards the map;
// what it gives out never changes. Whoever changes a user tells the workers afterwards
// (Users::TellChanged), which look here for what their sessions have.
class AclStore {
 public:
  // Only the default user is there, and may do everything without a password.
  AclStore(const CommandTable* commands, const AclOptions& options);

  // At the start, before anybody else: the users that the options name. Empty, or why not.
  [[nodiscard]] std::string LoadOptions();

  AclUserRef Find(std::string_view name) const;  // null: there is none
  AclUserRef default_user() const { return Find(kDefaultName); }
  // Who this password belongs to; null: it is wrong, or the user is off.
  AclUserRef LogIn(std::string_view name, std::string_view password) const;
  // By name.
  std::vector<AclUserRef> All() const;

  // ACL SETUSER: all of the rules or none. Empty, or an error reply.
  [[nodiscard]] std::string SetUser(std::string_view name, std::span<const std::string_view> rules);
  // False: there is no such. REQUIRES: not the default one.
  bool Delete(std::string_view name);
  // CONFIG SET requirepass.
  void SetDefaultPassword(std::string_view password);
  void SetPubSubDefault(bool all_channels) { all_channels_ = all_channels; }

  const std::string& file() const { return file_; }
  // ACL LOAD: all of the file or, if something is wrong in it, nothing. Reads the disk. Empty, or
  // an error reply.
  [[nodiscard]] std::string LoadFile();
  // ACL SAVE. Replaces the file as a whole, or not at all.
  [[nodiscard]] std::string SaveFile() const;

  AclLog& log() { return log_; }
  // Of the users.
  size_t memory_used() const { return bytes_.load(std::memory_order_relaxed); }

  static constexpr std::string_view kDefaultName = "default";

 private:
  using Users = std::map<std::string, AclUserRef, std::less<>>;

  AclUserRef NewDefault() const;
  // One line "user name rule ..."; `line` without the first word.
  std::string AddLine(std::string_view line, Users* users) const;
  std::string ReadUsers(std::string_view text, Users* users) const;
  // The only ways to change users_. REQUIRES: mutex_ is held.
  void Put(AclUserRef user);
  void PutAll(Users users);

  const CommandTable* const commands_;
  const std::string file_;
  const std::string option_users_;
  const std::string option_password_;
  std::atomic<bool> all_channels_;
  mutable std::mutex mutex_;
  Users users_;                   // guarded by mutex_
  std::atomic<size_t> bytes_{0};  // of them; changed under mutex_
  AclLog log_;
};

}  // namespace dfly
