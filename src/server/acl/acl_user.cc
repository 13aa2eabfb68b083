// SPDX-License-Identifier: Apache-2.0
#include "server/acl/acl_user.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/text/glob.h"
#include "core/text/numbers.h"
#include "helio/base/ascii.h"
#include "helio/base/block_bytes.h"
#include "server/acl/command_facts.h"
#include "server/base/words.h"

namespace dfly {

namespace {

constexpr std::string_view kUnknownName = "Unknown command or category name in ACL";
constexpr std::string_view kSyntax = "Syntax error";
constexpr std::string_view kBadHash =
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal "
    "characters";
constexpr std::string_view kSanitize = "sanitize-payload";
constexpr std::string_view kSkipSanitize = "skip-sanitize-payload";
constexpr size_t kHashSize = 64;

bool IsHash(std::string_view text) {
  return text.size() == kHashSize && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool HasWord(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct Access {
  bool reads;
  bool writes;
};

// What a key's flags, in the words of COMMAND INFO, ask for. Neither: any permission will do.
Access AccessOf(std::span<const std::string_view> flags) {
  return {HasWord(flags, "access"),
          HasWord(flags, "update") || HasWord(flags, "insert") || HasWord(flags, "delete")};
}

bool IsSubscribing(const Command& command) {
  return command.name == "subscribe" || command.name == "psubscribe" ||
         command.name == "ssubscribe";
}

void AppendWord(std::string* text, std::string_view word) {
  if (!text->empty()) text->push_back(' ');
  text->append(word);
}

size_t BytesOf(const std::vector<std::string>& texts) {
  size_t bytes = helio::HeapBytes(texts);
  for (const std::string& text : texts) bytes += helio::HeapBytes(text);
  return bytes;
}

bool HasBlanks(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return c == '\0' || (c >= '\t' && c <= '\r') || c == ' '; });
}

}  // namespace

std::string AclHash(std::string_view password) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(password.data()), password.size(), digest.data());
  std::string hash;
  for (unsigned char byte : digest) fmt::format_to(std::back_inserter(hash), "{:02x}", byte);
  return hash;
}

// --- Selectors: the check ---

AclSelector::AclSelector(const CommandTable* commands, bool all_channels)
    : commands_(commands),
      allowed_(commands->id_count(), false),
      denied_count_(commands->id_count()),
      has_all_channels_(all_channels) {
  WriteRules();
}

AclVerdict AclSelector::Check(const Command& command, Args args, AclDb db) const {
  if (!AllowsCommand(command, args)) return {AclDenial::kCommand};
  if (!has_all_dbs_) {
    const AclVerdict verdict = CheckDatabases(command, args, db);
    if (verdict.is_denied()) return verdict;
  }
  if (const AclVerdict verdict = CheckKeys(command, args); verdict.is_denied()) return verdict;
  if (const AclVerdict verdict = CheckChannels(command, args); verdict.is_denied()) return verdict;
  return CheckSort(command, args);
}

bool AclSelector::AllowsCommand(const Command& command, Args args) const {
  if (allowed_[command.id] || (command.flags & kNoAuth) != 0) return true;
  const auto it = first_arguments_.find(command.id);
  if (it == first_arguments_.end() || args.size() < 2) return false;
  return std::any_of(it->second.begin(), it->second.end(),
                     [&](const std::string& first) { return LowerCase(args[1]) == first; });
}

bool AclSelector::AllowsDb(int64_t index) const {
  return std::any_of(dbs_.begin(), dbs_.end(), [index](int allowed) { return allowed == index; });
}

// As Valkey 9.1 has it. What names no database that there is, the command itself refuses.
AclVerdict AclSelector::CheckDatabases(const Command& command, Args args, AclDb db) const {
  const auto is_denied = [&](size_t i) {
    const auto index = ParseInt64(args[i]);
    return index && *index >= 0 && *index < db.count && !AllowsDb(*index);
  };
  const std::string_view name = command.full_name;
  if (name == "flushall") return {AclDenial::kDatabase, 0};
  if (name == "select" || name == "swapdb") {
    for (size_t i = 1; i < args.size(); ++i) {
      const bool is_number = ParseInt64(args[i]).has_value();
      if (!is_number) return {};
    }
    for (size_t i = 1; i < args.size(); ++i) {
      if (is_denied(i)) return {AclDenial::kDatabase, i};
    }
    return {};
  }
  const bool has_keys = command.keys.has_keys() && command.keys.flags != "not_key";
  const bool uses_database =
      has_keys || (command.flags & (kReadonly | kWrite)) != 0 || name == "object|help";
  if (name == "move" && is_denied(2)) return {AclDenial::kDatabase, 2};
  for (size_t i = 3; name == "copy" && i + 1 < args.size(); ++i) {
    if (!IsWord(args[i], "db")) continue;
    if (is_denied(++i)) return {AclDenial::kDatabase, i};
    if (!ParseInt64(args[i])) break;  // it is no COPY
  }
  if (uses_database && !AllowsDb(db.index)) return {AclDenial::kDatabase, 0};
  return {};
}

AclVerdict AclSelector::CheckKeys(const Command& command, Args args) const {
  if (has_all_keys_ || !command.keys.has_keys() || command.keys.flags == "not_key") return {};
  const auto indexes = command.FindKeys(args);
  if (!indexes) return {};  // the command itself says what is wrong with it
  const Access first = AccessOf(KeyFlagsOf(command, args));
  const Access second =
      command.keys.second_flags.empty() ? first : AccessOf(SplitWords(command.keys.second_flags));
  bool is_first = true;
  for (size_t i : *indexes) {
    const Access& access = std::exchange(is_first, false) ? first : second;
    if (!AllowsKey(args[i], access.reads, access.writes)) return {AclDenial::kKey, i};
  }
  return {};
}

bool AclSelector::AllowsKey(std::string_view key, bool reads, bool writes) const {
  return std::any_of(keys_.begin(), keys_.end(), [&](const KeyPattern& it) {
    return (it.reads || !reads) && (it.writes || !writes) && GlobMatch(it.pattern, key);
  });
}

AclVerdict AclSelector::CheckChannels(const Command& command, Args args) const {
  if (has_all_channels_ || (command.flags & kPubsub) == 0) return {};
  if (command.channel_at != 0) {
    const auto at = static_cast<size_t>(command.channel_at);
    if (AllowsChannel(args[at], AclSubscription::kName)) return {};
    return {AclDenial::kChannel, at};
  }
  if (!IsSubscribing(command)) return {};
  const auto kind =
      command.name == "psubscribe" ? AclSubscription::kPattern : AclSubscription::kName;
  for (size_t i = 1; i < args.size(); ++i) {
    if (!AllowsChannel(args[i], kind)) return {AclDenial::kChannel, i};
  }
  return {};
}

bool AclSelector::AllowsChannel(std::string_view channel, AclSubscription kind) const {
  if (has_all_channels_) return true;
  return std::any_of(channels_.begin(), channels_.end(), [&](const std::string& pattern) {
    return kind == AclSubscription::kPattern ? pattern == channel : GlobMatch(pattern, channel);
  });
}

bool AclSelector::ReadsAllKeys() const {
  return has_all_keys_ || std::any_of(keys_.begin(), keys_.end(), [](const KeyPattern& it) {
           return it.reads && it.pattern == "*";
         });
}

AclVerdict AclSelector::CheckSort(const Command& command, Args args) const {
  if (command.name != "sort" && command.name != "sort_ro") return {};
  if (ReadsAllKeys()) return {};
  for (size_t i = 2; i < args.size(); ++i) {
    const size_t left = args.size() - i - 1;
    if (IsWord(args[i], "limit") && left >= 2) {
      i += 2;
    } else if (IsWord(args[i], "store") && left >= 1) {
      ++i;
    } else if (IsWord(args[i], "by") && left >= 1) {
      // Without an asterisk it says not to sort, and no key is read.
      if (args[++i].find('*') != std::string_view::npos) return {AclDenial::kSortBy, i};
    } else if (IsWord(args[i], "get") && left >= 1) {
      return {AclDenial::kSortGet, ++i};
    }
  }
  return {};
}

// --- Selectors: rules ---

std::string AclSelector::Apply(std::string_view rule) {
  const std::string word = LowerCase(rule);
  if (word == "allkeys" || rule == "~*") {
    keys_.clear();
    has_all_keys_ = true;
  } else if (word == "resetkeys") {
    keys_.clear();
    has_all_keys_ = false;
  } else if (word == "allchannels" || rule == "&*") {
    channels_.clear();
    has_all_channels_ = true;
  } else if (word == "resetchannels") {
    channels_.clear();
    has_all_channels_ = false;
  } else if (word == "alldbs") {
    dbs_.clear();
    has_all_dbs_ = true;
  } else if (word == "resetdbs") {
    dbs_.clear();
    has_all_dbs_ = false;
  } else if (word.starts_with("db=")) {
    return SetDatabases(rule.substr(3));
  } else if (word == "allcommands" || word == "+@all") {
    SetAll(true);
  } else if (word == "nocommands" || word == "-@all") {
    SetAll(false);
  } else if (rule.starts_with('~')) {
    return AddKeyPattern(rule.substr(1), true, true);
  } else if (rule.starts_with('%')) {
    bool reads = false;
    bool writes = false;
    size_t at = 1;
    for (; at < rule.size() && rule[at] != '~'; ++at) {
      const char letter = helio::ToLower(rule[at]);
      bool& has = letter == 'r' ? reads : writes;
      if ((letter != 'r' && letter != 'w') || has) return std::string(kSyntax);
      has = true;
    }
    if (!reads && !writes) return std::string(kSyntax);
    // As in Redis: without a pattern it is one that only the empty key matches.
    return AddKeyPattern(rule.substr(std::min(at + 1, rule.size())), reads, writes);
  } else if (rule.starts_with('&')) {
    return AddChannel(rule.substr(1));
  } else if (word.starts_with("+@") || word.starts_with("-@")) {
    return ChangeCategory(std::string_view(word).substr(1), word[0] == '+');
  } else if (word.starts_with('+') || word.starts_with('-')) {
    return ChangeCommand(std::string_view(word).substr(1), word[0] == '+');
  } else {
    return std::string(kSyntax);
  }
  return "";
}

// "0,1,5". As Valkey reads it: blanks and a sign may be in front of a number.
std::string AclSelector::SetDatabases(std::string_view list) {
  std::vector<int> dbs;
  while (true) {
    std::string_view text = list.substr(0, list.find(','));
    const bool is_last = text.size() == list.size();
    list.remove_prefix(is_last ? list.size() : text.size() + 1);
    while (!text.empty() && (text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r'))) {
      text.remove_prefix(1);
    }
    const bool is_negative = text.starts_with('-');
    if (is_negative || text.starts_with('+')) text.remove_prefix(1);
    const bool is_number =
        !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) return std::string(kSyntax);
    int64_t value = 0;
    for (char c : text) value = std::min<int64_t>(value * 10 + (c - '0'), INT64_MAX / 100);
    if (value > INT_MAX || (is_negative && value != 0)) {
      return "The provided database ID is out of range";
    }
    dbs.push_back(static_cast<int>(value));
    if (is_last) break;
  }
  std::ranges::sort(dbs);
  dbs.erase(std::unique(dbs.begin(), dbs.end()), dbs.end());
  dbs_ = std::move(dbs);
  has_all_dbs_ = false;
  return "";
}

std::string AclSelector::AddKeyPattern(std::string_view pattern, bool reads, bool writes) {
  if (has_all_keys_) {
    return "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not "
           "have any effect. Try 'resetkeys' to start with an empty list of patterns";
  }
  if (HasBlanks(pattern)) return std::string(kSyntax);
  const auto it = std::find_if(keys_.begin(), keys_.end(),
                               [&](const KeyPattern& known) { return known.pattern == pattern; });
  if (it == keys_.end()) {
    keys_.push_back({std::string(pattern), reads, writes});
  } else {
    it->reads |= reads;
    it->writes |= writes;
  }
  return "";
}

std::string AclSelector::AddChannel(std::string_view pattern) {
  if (has_all_channels_) {
    return "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does "
           "not have any effect. Try 'resetchannels' to start with an empty list of channels";
  }
  if (HasBlanks(pattern)) return std::string(kSyntax);
  if (std::find(channels_.begin(), channels_.end(), pattern) == channels_.end()) {
    channels_.emplace_back(pattern);
  }
  return "";
}

void AclSelector::SetAll(bool allows) {
  allowed_.assign(allowed_.size(), allows);
  denied_count_ = allows ? 0 : allowed_.size();
  first_arguments_.clear();
  has_all_commands_ = allows;
  rules_.clear();
  WriteRules();
}

void AclSelector::Set(const Command& command, bool allows) {
  if (allowed_[command.id] != allows) {
    allowed_[command.id] = allows;
    denied_count_ += allows ? -size_t{1} : size_t{1};
  }
  first_arguments_.erase(command.id);
  for (const Command& subcommand : command.subcommands) Set(subcommand, allows);
}

std::string AclSelector::ChangeCommand(std::string_view name, bool allows) {
  const size_t bar = name.find('|');
  const Command* command = commands_->FindByName(name.substr(0, bar));
  if (command == nullptr) return std::string(kUnknownName);
  if (bar == std::string_view::npos) {
    Set(*command, allows);
    AddRule(allows, command->full_name, [&](const CommandRule& rule) {
      return rule.name == command->full_name || rule.name.starts_with(command->full_name + '|');
    });
    return "";
  }
  const std::string_view rest = name.substr(bar + 1);
  if (command->subcommands.empty()) {
    if (!allows || rest.empty() || rest.find('|') != std::string_view::npos) {
      return std::string(kUnknownName);
    }
    return AllowFirstArgument(name);
  }
  const Command* subcommand =
      CommandTable::FindSubcommand(*command, rest.substr(0, rest.find('|')));
  if (subcommand == nullptr) return std::string(kUnknownName);
  if (rest.find('|') != std::string_view::npos) {
    return "Allowing first-arg of a subcommand is not supported";
  }
  Set(*subcommand, allows);
  AddRule(allows, subcommand->full_name,
          [&](const CommandRule& rule) { return rule.name == subcommand->full_name; });
  return "";
}

std::string AclSelector::AllowFirstArgument(std::string_view name) {
  const size_t bar = name.find('|');
  const Command* command = commands_->FindByName(name.substr(0, bar));
  if (!allowed_[command->id]) {
    std::vector<std::string>& arguments = first_arguments_[command->id];
    const std::string argument(name.substr(bar + 1));
    if (std::find(arguments.begin(), arguments.end(), argument) == arguments.end()) {
      arguments.push_back(argument);
    }
  }
  AddRule(true, std::string(name), [&](const CommandRule& rule) { return rule.name == name; });
  return "";
}

std::string AclSelector::ChangeCategory(std::string_view category, bool allows) {
  bool is_known = false;
  const auto visit = [&](const auto& self, const Command& command) -> void {
    if (HasWord(AclCategoriesOf(command), category)) {
      is_known = true;
      if (command.subcommands.empty()) {
        Set(command, allows);
      } else if (allowed_[command.id] != allows) {
        // Its subcommands have categories of their own.
        allowed_[command.id] = allows;
        denied_count_ += allows ? -size_t{1} : size_t{1};
      }
    }
    for (const Command& subcommand : command.subcommands) self(self, subcommand);
  };
  for (const Command& command : commands_->all()) visit(visit, command);
  if (!is_known && !IsAclCategory(category)) return std::string(kUnknownName);
  AddRule(allows, std::string(category),
          [&](const CommandRule& rule) { return rule.name == category; });
  return "";
}

template <typename Covers>
void AclSelector::AddRule(bool allows, std::string name, Covers covers) {
  std::erase_if(rules_, covers);
  rules_.push_back({allows, std::move(name)});
  // What is so from the beginning need not be said.
  while (!rules_.empty() && rules_.front().allows == has_all_commands_) {
    rules_.erase(rules_.begin());
  }
  WriteRules();
}

void AclSelector::WriteRules() {
  rules_text_ = has_all_commands_ ? "+@all" : "-@all";
  for (const CommandRule& rule : rules_) {
    AppendWord(&rules_text_, (rule.allows ? "+" : "-") + rule.name);
  }
}

// --- Selectors: texts ---

std::string AclSelector::keys() const {
  if (has_all_keys_) return "~*";
  std::string text;
  for (const KeyPattern& it : keys_) {
    const std::string_view kind = it.reads && it.writes ? "~" : it.reads ? "%R~" : "%W~";
    AppendWord(&text, fmt::format("{}{}", kind, it.pattern));
  }
  return text;
}

std::string AclSelector::channels() const {
  if (has_all_channels_) return "&*";
  std::string text;
  for (const std::string& pattern : channels_) AppendWord(&text, '&' + pattern);
  return text;
}

std::string AclSelector::databases() const {
  if (has_all_dbs_) return "alldbs";
  return dbs_.empty() ? "" : fmt::format("db={}", fmt::join(dbs_, ","));
}

std::string AclSelector::Describe() const {
  std::string text = keys();
  if (!has_all_channels_) AppendWord(&text, "resetchannels");
  if (const std::string its_channels = channels(); !its_channels.empty()) {
    AppendWord(&text, its_channels);
  }
  if (!has_all_dbs_) AppendWord(&text, dbs_.empty() ? "resetdbs" : databases());
  AppendWord(&text, rules_text_);
  return text;
}

size_t AclSelector::heap_bytes() const {
  size_t bytes = allowed_.capacity() / 8 + helio::MapBytes(first_arguments_) +
                 helio::HeapBytes(rules_) + helio::HeapBytes(rules_text_) +
                 helio::HeapBytes(keys_) + BytesOf(channels_) + helio::HeapBytes(dbs_);
  for (const auto& [id, arguments] : first_arguments_) bytes += BytesOf(arguments);
  for (const CommandRule& rule : rules_) bytes += helio::HeapBytes(rule.name);
  for (const KeyPattern& key : keys_) bytes += helio::HeapBytes(key.pattern);
  return bytes;
}

// --- Users ---

AclUser::AclUser(std::string name, const CommandTable* commands, bool all_channels)
    : name_(std::move(name)), commands_(commands), all_channels_(all_channels) {
  selectors_.emplace_back(commands, all_channels);
}

void AclUser::SetNoPassword() {
  passwords_.clear();
  has_nopass_ = true;
}

void AclUser::SetPassword(std::string_view password) {
  passwords_.clear();
  has_nopass_ = false;
  AddHash(AclHash(password));
}

size_t AclUser::memory_used() const {
  constexpr size_t kCounters = 16;  // of std::shared_ptr, in the same block
  size_t bytes = kCounters + sizeof(*this) + helio::HeapBytes(name_) + BytesOf(passwords_) +
                 helio::HeapBytes(selectors_);
  for (const AclSelector& selector : selectors_) bytes += selector.heap_bytes();
  return bytes;
}

bool AclUser::AcceptsHash(std::string_view hash) const {
  if (has_nopass_) return true;
  bool is_right = false;
  for (const std::string& known : passwords_) {
    is_right |= CRYPTO_memcmp(known.data(), hash.data(), kHashSize) == 0;
  }
  return is_right;
}

// What came furthest explains the best: a key that is forbidden rather than a command.
AclVerdict AclUser::Check(const Command& command, Args args, AclDb db) const {
  AclVerdict closest;
  for (const AclSelector& selector : selectors_) {
    const AclVerdict verdict = selector.Check(command, args, db);
    if (!verdict.is_denied()) return {};
    if (verdict.denial > closest.denial ||
        (verdict.denial == closest.denial && verdict.argument > closest.argument)) {
      closest = verdict;
    }
  }
  return closest;
}

bool AclUser::AllowsChannel(std::string_view channel, AclSubscription kind) const {
  return std::any_of(selectors_.begin(), selectors_.end(), [&](const AclSelector& selector) {
    return selector.AllowsChannel(channel, kind);
  });
}

bool AclUser::MayReadKey(std::string_view key) const {
  return std::any_of(selectors_.begin(), selectors_.end(),
                     [key](const AclSelector& selector) { return selector.MayReadKey(key); });
}

bool AclUser::may_do_everything() const {
  return std::any_of(selectors_.begin(), selectors_.end(),
                     [](const AclSelector& selector) { return selector.allows_everything(); });
}

std::string AclUser::Apply(std::span<const std::string> rules, std::string* error_at) {
  for (const std::string& rule : rules) {
    std::string error = ApplyOne(rule);
    if (error.empty()) continue;
    *error_at = rule;
    return error;
  }
  return "";
}

std::string AclUser::ApplyOne(std::string_view rule) {
  const std::string word = LowerCase(rule);
  if (word == "on" || word == "off") {
    is_on_ = word == "on";
  } else if (word == "nopass") {
    SetNoPassword();
  } else if (word == "resetpass") {
    passwords_.clear();
    has_nopass_ = false;
  } else if (word == kSanitize || word == kSkipSanitize) {
    sanitizing_ = word == kSanitize ? kSanitize : kSkipSanitize;
  } else if (rule.starts_with('>')) {
    return AddHash(AclHash(rule.substr(1)));
  } else if (rule.starts_with('#')) {
    return AddHash(std::string(rule.substr(1)));
  } else if (rule.starts_with('<')) {
    return RemoveHash(AclHash(rule.substr(1)));
  } else if (rule.starts_with('!')) {
    return RemoveHash(rule.substr(1));
  } else if (word == "clearselectors") {
    selectors_.erase(selectors_.begin() + 1, selectors_.end());
  } else if (rule.starts_with('(')) {
    return AddSelector(rule);
  } else if (word == "reset") {
    *this = AclUser(name_, commands_, all_channels_);
  } else {
    return selectors_.front().Apply(rule);
  }
  return "";
}

std::string AclUser::AddHash(std::string hash) {
  if (!IsHash(hash)) return std::string(kBadHash);
  if (std::find(passwords_.begin(), passwords_.end(), hash) == passwords_.end()) {
    passwords_.push_back(std::move(hash));
  }
  has_nopass_ = false;
  return "";
}

std::string AclUser::RemoveHash(std::string_view hash) {
  if (!IsHash(hash)) return std::string(kBadHash);
  if (std::erase(passwords_, hash) > 0) return "";
  return "The password you are trying to remove from the user does not exist";
}

std::string AclUser::AddSelector(std::string_view rules) {
  if (!rules.ends_with(')')) return std::string(kSyntax);
  AclSelector selector(commands_, all_channels_);
  for (std::string_view rule : SplitWords(rules.substr(1, rules.size() - 2))) {
    if (rule.empty()) continue;
    if (std::string error = selector.Apply(rule); !error.empty()) return error;
  }
  selectors_.push_back(std::move(selector));
  return "";
}

std::string AclUser::Describe() const {
  std::string text = fmt::format("user {} {}", name_, is_on_ ? "on" : "off");
  if (has_nopass_) AppendWord(&text, "nopass");
  AppendWord(&text, sanitizing_);
  for (const std::string& hash : passwords_) AppendWord(&text, '#' + hash);
  AppendWord(&text, selectors_.front().Describe());
  for (const AclSelector& selector : std::span(selectors_).subspan(1)) {
    AppendWord(&text, '(' + selector.Describe() + ')');
  }
  return text;
}

std::string MergeSelectors(std::span<const std::string_view> words,
                           std::vector<std::string>* rules) {
  std::string selector;
  std::string_view began;
  for (std::string_view word : words) {
    if (selector.empty() && !word.starts_with('(')) {
      rules->emplace_back(word);
      continue;
    }
    if (selector.empty()) {
      began = word;
      selector = word;
    } else {
      AppendWord(&selector, word);
    }
    if (!word.ends_with(')')) continue;
    rules->push_back(std::move(selector));
    selector.clear();
  }
  if (selector.empty()) return "";
  return fmt::format("Unmatched parenthesis in acl selector starting at '{}'.", began);
}

// --- What clients are told ---

namespace {

constexpr std::string_view kSortByDenied =
    "BY option of SORT denied due to insufficient ACL permissions.";
constexpr std::string_view kSortGetDenied =
    "GET option of SORT denied due to insufficient ACL permissions.";

// Without a code.
std::string DenialText(const AclVerdict& verdict, std::string_view user, const Command& command) {
  switch (verdict.denial) {
    case AclDenial::kDatabase:
      return "No permissions to access database";
    case AclDenial::kKey:
      return "No permissions to access a key";
    case AclDenial::kChannel:
      return "No permissions to access a channel";
    case AclDenial::kSortBy:
      return std::string(kSortByDenied);
    case AclDenial::kSortGet:
      return std::string(kSortGetDenied);
    default:
      return fmt::format("User {} has no permissions to run the '{}' command", user,
                         command.full_name);
  }
}

// The command itself refuses them, with an error of its own.
bool IsOfSort(AclDenial denial) {
  return denial == AclDenial::kSortBy || denial == AclDenial::kSortGet;
}

}  // namespace

std::string_view DeniedObject(const AclVerdict& verdict, const Command& command, Args args) {
  const bool is_command = verdict.denial == AclDenial::kCommand ||
                          (verdict.denial == AclDenial::kDatabase && verdict.argument == 0);
  return is_command ? command.full_name : args[verdict.argument];
}

std::string DescribeDenial(const AclVerdict& verdict, std::string_view user, const Command& command,
                           Args args) {
  if (verdict.denial == AclDenial::kDatabase) {
    return fmt::format("User {} has no permissions to access database {}", user,
                       args[verdict.argument]);
  }
  if (verdict.denial != AclDenial::kKey && verdict.denial != AclDenial::kChannel) {
    return DenialText(verdict, user, command);
  }
  return fmt::format("User {} has no permissions to access the '{}' {}", user,
                     args[verdict.argument], verdict.denial == AclDenial::kKey ? "key" : "channel");
}

std::string DenialError(const AclVerdict& verdict, std::string_view user, const Command& command) {
  return (IsOfSort(verdict.denial) ? "ERR " : "NOPERM ") + DenialText(verdict, user, command);
}

std::string ScriptDenialError(const AclVerdict& verdict, std::string_view user,
                              const Command& command) {
  return (IsOfSort(verdict.denial) ? "ERR " : "ERR ACL failure in script: ") +
         DenialText(verdict, user, command);
}

std::string ExecDenialError(const AclVerdict& verdict) {
  const std::string_view why =
      verdict.denial == AclDenial::kCommand ? "no permission to execute the command or subcommand"
      : verdict.denial == AclDenial::kDatabase ? "no permission"
      : verdict.denial == AclDenial::kChannel
          ? "no permission to access one of the channels used as argument to the command"
          : "no permission to touch the specified keys";
  return fmt::format(
      "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC "
      "call. This command is no longer allowed for the following reason: {}",
      why);
}

}  // namespace dfly
