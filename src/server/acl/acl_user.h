// SPDX-License-Identifier: Apache-2.0
// A user of the access control list (ACL), and what it may do: rules, their texts, and the check of
// one command. The language of rules is that of Redis 7 (redis.io, "ACL"). Pure.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <climits>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"

namespace dfly {

// Why a command is refused.
enum class AclDenial : uint8_t {
  kNone,
  kDatabase,
  kCommand,
  kKey,
  kChannel,
  kSortBy,   // SORT ... BY reads keys that are not among its arguments
  kSortGet,  // SORT ... GET
};

struct AclVerdict {
  AclDenial denial = AclDenial::kNone;
  size_t argument = 0;  // kDatabase, kKey, kChannel: the one that is meant

  bool is_denied() const { return denial != AclDenial::kNone; }
};

// Where a command would run: the database, and how many there are.
struct AclDb {
  int index = 0;
  int count = INT_MAX;
};

enum class AclSubscription : uint8_t { kName, kPattern };

// A set of rules for commands, databases, keys and channels. A command is allowed if one selector
// of the user allows all of it.
class AclSelector {
 public:
  // Nothing is allowed, but all databases, and all channels if `all_channels`.
  AclSelector(const CommandTable* commands, bool all_channels);

  // One rule, such as "+get", "~key*" or "resetchannels". Empty, or why it makes no sense.
  [[nodiscard]] std::string Apply(std::string_view rule);

  // REQUIRES: `command` accepts the arguments; it is a subcommand where there is one.
  AclVerdict Check(const Command& command, Args args, AclDb db) const;
  // May it subscribe to this? A pattern has to be allowed literally.
  bool AllowsChannel(std::string_view channel, AclSubscription kind) const;
  bool MayReadKey(std::string_view key) const {
    return has_all_keys_ || AllowsKey(key, true, false);
  }
  bool allows_everything() const {
    return has_all_commands_ && has_all_keys_ && has_all_channels_ && has_all_dbs_ &&
           denied_count_ == 0;
  }

  // As ACL GETUSER tells them.
  const std::string& commands() const { return rules_text_; }
  std::string keys() const;
  std::string channels() const;
  std::string databases() const;
  bool has_all_dbs() const { return has_all_dbs_; }
  // As ACL LIST does: all of it, and it can be applied again.
  std::string Describe() const;
  // Besides the object itself.
  size_t heap_bytes() const;

 private:
  struct KeyPattern {
    std::string pattern;
    bool reads;
    bool writes;
  };
  struct CommandRule {
    bool allows;
    std::string name;  // "get", "config|set", "select|0", "@string"
  };

  // The first argument that the selector forbids. (Of several selectors, the verdict with the last
  // such argument is replied: that selector comes closest to allowing the command.)
  AclVerdict CheckDatabases(const Command& command, Args args, AclDb db) const;
  bool AllowsDb(int64_t index) const;
  AclVerdict CheckKeys(const Command& command, Args args) const;
  AclVerdict CheckChannels(const Command& command, Args args) const;
  AclVerdict CheckSort(const Command& command, Args args) const;
  bool AllowsCommand(const Command& command, Args args) const;
  bool AllowsKey(std::string_view key, bool reads, bool writes) const;
  bool ReadsAllKeys() const;

  std::string SetDatabases(std::string_view list);
  std::string AddKeyPattern(std::string_view pattern, bool reads, bool writes);
  std::string AddChannel(std::string_view pattern);
  std::string ChangeCommand(std::string_view name, bool allows);
  std::string ChangeCategory(std::string_view category, bool allows);
  std::string AllowFirstArgument(std::string_view name);
  void SetAll(bool allows);
  // With its subcommands.
  void Set(const Command& command, bool allows);
  // `covers(rule)`: the new one makes it superfluous.
  template <typename Covers>
  void AddRule(bool allows, std::string name, Covers covers);
  void WriteRules();

  const CommandTable* commands_;
  std::vector<bool> allowed_;  // by Command::id
  size_t denied_count_ = 0;    // the commands that are false in allowed_
  // By Command::id, for a command that is not allowed: the first arguments with which it is.
  absl::flat_hash_map<uint32_t, std::vector<std::string>> first_arguments_;
  bool has_all_commands_ = false;  // also those that a later version may add
  std::vector<CommandRule> rules_;
  std::string rules_text_;
  std::vector<KeyPattern> keys_;
  bool has_all_keys_ = false;
  std::vector<std::string> channels_;
  bool has_all_channels_;
  std::vector<int> dbs_;  // sorted
  bool has_all_dbs_ = true;
};

// A user. Sessions have an immutable one (AclUserRef): ACL SETUSER changes a copy, which then takes
// its place.
class AclUser {
 public:
  AclUser(std::string name, const CommandTable* commands, bool all_channels);

  // Applies the rules in their order. Returns an empty text, or the error of the first rule that is
  // wrong, which `error_at` gets; the rules before that one are applied then.
  [[nodiscard]] std::string Apply(std::span<const std::string> rules, std::string* error_at);
  // --acl_pubsub_default, for what Apply makes new.
  void set_all_channels(bool all_channels) { all_channels_ = all_channels; }
  // The rule "nopass": the user needs no password, and every password is right.
  void SetNoPassword();
  // Replaces all passwords by this one.
  void SetPassword(std::string_view password);

  const std::string& name() const { return name_; }
  bool is_on() const { return is_on_; }
  bool has_nopass() const { return has_nopass_; }
  // "sanitize-payload", or "skip-sanitize-payload" if that was said.
  std::string_view sanitizing() const { return sanitizing_; }
  // `hash`: AclHash of the password that a client sent. Takes the same time whatever the hash is.
  bool AcceptsHash(std::string_view hash) const;
  // A new client is this user without AUTH. REQUIRES: it is the default user.
  bool lets_in() const { return is_on_ && has_nopass_; }

  AclVerdict Check(const Command& command, Args args, AclDb db = {}) const;
  bool AllowsChannel(std::string_view channel, AclSubscription kind) const;
  bool MayReadKey(std::string_view key) const;
  bool may_do_everything() const;

  const std::vector<std::string>& password_hashes() const { return passwords_; }
  // The first one has the rules that stand in no parentheses.
  const std::vector<AclSelector>& selectors() const { return selectors_; }
  // As ACL LIST shows it: "user alice on ...".
  std::string Describe() const;
  // Bytes of the object with all that belongs to it. REQUIRES: std::make_shared has made it.
  size_t memory_used() const;

 private:
  std::string ApplyOne(std::string_view rule);
  std::string AddHash(std::string hash);
  std::string RemoveHash(std::string_view hash);
  std::string AddSelector(std::string_view rules);

  std::string name_;
  const CommandTable* commands_;
  bool all_channels_;
  bool is_on_ = false;
  bool has_nopass_ = false;
  // Payloads of RESTORE are always checked; it is kept as files may say it.
  std::string_view sanitizing_ = "sanitize-payload";
  std::vector<std::string> passwords_;  // hashes
  std::vector<AclSelector> selectors_;
};

using AclUserRef = std::shared_ptr<const AclUser>;

// For whom a script runs, on whatever thread.
struct AclCaller {
  AclUserRef user;   // null: it may do everything
  std::string name;  // the user's
  uint64_t client_id;
  std::string address;
  std::string client_name;
  int db_index;        // the client's; the script may have selected another one
  std::string client;  // as CLIENT LIST shows it
};
using AclCallerRef = std::shared_ptr<const AclCaller>;

// SHA-256 in 64 hexadecimal digits.
std::string AclHash(std::string_view password);

// Joins the parts of selectors: "(+get", "~key)" are one rule. Empty, or an error.
[[nodiscard]] std::string MergeSelectors(std::span<const std::string_view> words,
                                         std::vector<std::string>* rules);

// What is refused, for ACL LOG: the command's name, or the argument that is meant.
std::string_view DeniedObject(const AclVerdict& verdict, const Command& command, Args args);
// "User alice has no permissions ..." as ACL DRYRUN says it.
std::string DescribeDenial(const AclVerdict& verdict, std::string_view user, const Command& command,
                           Args args);
// As a client is told.
std::string DenialError(const AclVerdict& verdict, std::string_view user, const Command& command);
// As a script is told by redis.call.
std::string ScriptDenialError(const AclVerdict& verdict, std::string_view user,
                              const Command& command);
// As EXEC tells what became forbidden after it was queued.
std::string ExecDenialError(const AclVerdict& verdict);

}  // namespace dfly
