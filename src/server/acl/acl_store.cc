// SPDX-License-Identifier: Apache-2.0
#include "server/acl/acl_store.h"

#include <fmt/format.h>

#include <utility>

#include "helio/base/block_bytes.h"
#include "server/base/file_text.h"
#include "server/base/words.h"

namespace dfly {

namespace {

constexpr std::string_view kDuplicate =
    "Duplicate user found. A user can only be defined once in config files";

// With its place in the map.
size_t BytesOf(const AclUser& user) {
  constexpr size_t kNode = 32 + sizeof(std::pair<std::string, AclUserRef>);  // of std::map
  return kNode + helio::HeapBytes(user.name()) + user.memory_used();
}

bool IsUserName(std::string_view name) {
  return name.find_first_of(std::string_view(" \t\n\v\f\r\0", 7)) == std::string_view::npos;
}

}  // namespace

AclStore::AclStore(const CommandTable* commands, const AclOptions& options)
    : commands_(commands),
      file_(options.file),
      option_users_(options.users),
      option_password_(options.password),
      all_channels_(options.all_channels),
      log_(options.log_max) {
  Put(NewDefault());
}

AclUserRef AclStore::NewDefault() const {
  const std::vector<std::string> rules = {"on", "nopass", "+@all", "~*", "&*"};
  auto user = std::make_shared<AclUser>(std::string(kDefaultName), commands_, true);
  std::string at;
  (void)user->Apply(rules, &at);
  return user;
}

std::string AclStore::LoadOptions() {
  if (!file_.empty() && !option_users_.empty()) {
    return "Configuring Redis with users defined in redis.conf and at the same setting an ACL file "
           "path is invalid. This setup is very likely to lead to configuration errors and "
           "security "
           "holes, please define either an ACL file or declare users directly in your redis.conf, "
           "but not both.";
  }
  if (!option_password_.empty()) SetDefaultPassword(option_password_);
  if (!file_.empty()) return LoadFile();
  Users users = users_;
  bool has_default = false;
  std::string_view lines = option_users_;
  while (!lines.empty()) {
    const size_t size = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, size);
    lines.remove_prefix(std::min(size + 1, lines.size()));
    if (SplitWords(line).empty()) continue;
    const std::string_view name = SplitWords(line)[0];
    const bool is_second = name == kDefaultName && std::exchange(has_default, true);
    const std::string error = is_second ? std::string(kDuplicate) : AddLine(line, &users);
    if (!error.empty()) return fmt::format("Error in user declaration '{}': {}", name, error);
  }
  const std::lock_guard lock(mutex_);
  PutAll(std::move(users));
  return "";
}

// --- Looking ---

AclUserRef AclStore::Find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto it = users_.find(name);
  return it == users_.end() ? nullptr : it->second;
}

AclUserRef AclStore::LogIn(std::string_view name, std::string_view password) const {
  // Also for a user that there is not: nobody learns from the time whether there is.
  const std::string hash = AclHash(password);
  AclUserRef user = Find(name);
  if (user == nullptr || !user->is_on() || !user->AcceptsHash(hash)) return nullptr;
  return user;
}

std::vector<AclUserRef> AclStore::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<AclUserRef> all;
  for (const auto& [name, user] : users_) all.push_back(user);
  return all;
}

// --- Changing ---

std::string AclStore::SetUser(std::string_view name, std::span<const std::string_view> rules) {
  if (!IsUserName(name)) return "ERR Usernames can't contain spaces or null characters";
  std::vector<std::string> merged;
  if (std::string error = MergeSelectors(rules, &merged); !error.empty()) return "ERR " + error;
  const std::lock_guard lock(mutex_);
  const auto it = users_.find(name);
  auto user = it != users_.end()
                  ? std::make_shared<AclUser>(*it->second)
                  : std::make_shared<AclUser>(std::string(name), commands_, all_channels_);
  user->set_all_channels(all_channels_);
  std::string at;
  if (std::string error = user->Apply(merged, &at); !error.empty()) {
    return fmt::format("ERR Error in ACL SETUSER modifier '{}': {}", at, error);
  }
  Put(std::move(user));
  return "";
}

bool AclStore::Delete(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto it = users_.find(name);
  if (it == users_.end()) return false;
  bytes_ -= BytesOf(*it->second);
  users_.erase(it);
  return true;
}

void AclStore::SetDefaultPassword(std::string_view password) {
  const std::lock_guard lock(mutex_);
  auto user = std::make_shared<AclUser>(*users_.find(kDefaultName)->second);
  if (password.empty()) {
    user->SetNoPassword();
  } else {
    user->SetPassword(password);
  }
  Put(std::move(user));
}

void AclStore::Put(AclUserRef user) {
  AclUserRef& known = users_[user->name()];
  if (known != nullptr) bytes_ -= BytesOf(*known);
  bytes_ += BytesOf(*user);
  known = std::move(user);
}

void AclStore::PutAll(Users users) {
  users_ = std::move(users);
  size_t bytes = 0;
  for (const auto& [name, user] : users_) bytes += BytesOf(*user);
  bytes_ = bytes;
}

// --- The file ---

std::string AclStore::AddLine(std::string_view line, Users* users) const {
  const std::vector<std::string_view> words = SplitWords(line);
  const std::string name(words[0]);
  if (name != kDefaultName && users->contains(name)) {
    return std::string(kDuplicate);
  }
  std::vector<std::string> rules;
  if (std::string error = MergeSelectors(std::span(words).subspan(1), &rules); !error.empty()) {
    return error;
  }
  auto user = std::make_shared<AclUser>(name, commands_, all_channels_);
  std::string at;
  if (std::string error = user->Apply(rules, &at); !error.empty()) {
    return fmt::format("{} ('{}')", error, at);
  }
  users->insert_or_assign(name, std::move(user));
  return "";
}

std::string AclStore::ReadUsers(std::string_view text, Users* users) const {
  std::string errors;
  bool has_default = false;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t size = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    const std::vector<std::string_view> words = SplitWords(line);
    if (words.empty() || words[0].starts_with('#')) continue;
    if (words[0] != "user" || words.size() < 2) {
      errors += fmt::format("{}:{} should start with user keyword followed by the username. ",
                            file_, number);
      continue;
    }
    if (words[1] == kDefaultName && std::exchange(has_default, true)) {
      errors += fmt::format("WARNING: Duplicate user '{}' found on line {}. ", words[1], number);
      continue;
    }
    if (users->contains(words[1]) && words[1] != kDefaultName) {
      errors += fmt::format("WARNING: Duplicate user '{}' found on line {}. ", words[1], number);
      continue;
    }
    const auto rules = static_cast<size_t>(words[1].data() - line.data());
    if (std::string error = AddLine(line.substr(rules), users); !error.empty()) {
      errors += fmt::format("{}:{}: {}. ", file_, number, error);
    }
  }
  if (errors.empty()) return "";
  return errors +
         "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
}

std::string AclStore::LoadFile() {
  std::string text;
  if (std::string error = ReadTextFile(file_, &text); !error.empty()) {
    return fmt::format("ERR Error loading ACLs, opening file '{}': {}", file_, error);
  }
  Users users;
  users.emplace(kDefaultName, NewDefault());
  if (std::string error = ReadUsers(text, &users); !error.empty()) return "ERR " + error;
  const std::lock_guard lock(mutex_);
  PutAll(std::move(users));
  return "";
}

std::string AclStore::SaveFile() const {
  std::string text;
  for (const AclUserRef& user : All()) text += user->Describe() + '\n';
  if (std::string error = ReplaceTextFile(file_, text); !error.empty()) {
    return fmt::format(
        "ERR There was an error trying to save the ACLs. Please check the server logs for more "
        "information ({})",
        error);
  }
  return "";
}

}  // namespace dfly
