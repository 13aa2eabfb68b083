// SPDX-License-Identifier: Apache-2.0
// A setting is one row. The row gives the setting its flag, its lines of help and of
// docs/configuration.md, its line of redis.conf, what CONFIG knows of it, and its initial value.
// The rows are in server/settings; docs/contributing.md shows how to add one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dfly {

struct ServerOptions;
struct Settings;

// Who has the settings: a Server. This folder knows no later one, so what puts a change into effect
// casts it (ServerOf in server/settings/rows.h).
class SettingHost {
 protected:
  SettingHost() = default;
  ~SettingHost() = default;
};

// A CONFIG SET, of one setting or of several.
struct SettingChange {
  const ServerOptions& before;
  const ServerOptions& now;
};

// The member of ServerOptions that has the value (setting_slots.h makes most of them). A value is a
// text in one form for each kind: "yes", "104857600".
struct SettingSlot {
  // Returns why the text is no value, or nothing.
  std::string (*store)(std::string_view value, ServerOptions* options) = nullptr;
  std::string (*show)(const ServerOptions& options) = nullptr;
};

// Where docs/configuration.md and --helpfull have the flag.
enum class SettingTopic : uint8_t {
  kNone,  // there is no flag
  kNetwork,
  kSecurity,
  kMemcached,
  kTls,
  kThreads,
  kData,
  kSnapshots,
  kLog,
  kReplication,
  kCluster,
  kTags,
  kScripts,
  kLimits,
  kEvents,
  kSlowCommands,
  kConsole,
  kProcess
};

enum class SettingKind : uint8_t {
  kText,
  kBool,     // "yes" or "no"; the flag has true or false
  kInteger,  // within [min, max]
  kMemory,   // bytes, with units; within [min, max] if there is a max
  kChoice,   // one of `choices`
};

enum class SettingHow : uint8_t {
  kLive,       // CONFIG SET changes it
  kProtected,  // the same, for those whom --enable_protected_configs names
  kAtStart,    // CONFIG GET shows it
  kFlagOnly,   // CONFIG does not know it
};

// What a second line of it in one file does.
enum class SettingRepeat : uint8_t {
  kReplaces,
  kAddsWords,  // to the line
  kAddsLine,
};

struct SettingRow {
  std::string_view name;           // as CONFIG GET has it
  std::string_view old_name = {};  // that CONFIG and redis.conf know as well
  std::string_view flag = {};      // empty: the name with _ for -
  SettingTopic topic = SettingTopic::kNone;
  SettingKind kind = SettingKind::kText;
  // The initial value, as the flag has it: "512mb", "yes". Of kMemory or kChoice, empty:
  // OptionsFromFlags decides by the machine, or by other flags.
  std::string_view initial = {};
  int64_t min = 0;
  int64_t max = 0;
  std::string_view choices = {};  // kChoice: separated by blanks
  SettingHow how = SettingHow::kLive;
  // None: nobody has the value but CONFIG (settings without effect), or the flag (FlagText).
  SettingSlot slot = {};
  // Stores the value where all threads read it, at the start and before `apply`.
  void (*live)(const ServerOptions& now, Settings* settings) = nullptr;
  // Puts what CONFIG SET has changed into effect. Settings that take effect together have the same
  // function, which is called once. Returns nothing, or why that cannot be; then nothing has
  // changed. May suspend. Null: nothing more has to be done.
  std::string (*apply)(SettingHost& host, const SettingChange& change) = nullptr;
  // kText without a slot: the form in which it is kept, or why it is no value.
  std::string (*canonical)(std::string_view text, std::string* error) = nullptr;
  bool takes_controls = false;  // CONFIG SET takes control characters, too, but NUL (passwords)
  bool has_words = false;       // several of a line of redis.conf, for CONFIG REWRITE
  SettingRepeat repeat = SettingRepeat::kReplaces;
  bool lacks_line_if_empty = false;  // of redis.conf, for CONFIG REWRITE
  bool may_lack_value = false;       // the name alone means an empty one
  // What the flag's error says instead of the general text; {} is the value.
  std::string_view flag_error = {};
  // A setting of Redis that is known and kept, and has no effect, as ...; empty: it has one.
  std::string_view no_effect = {};
  // Of those: the values that promise nothing, separated by '|'; all others are refused. As Redis'
  // own check comes first, an empty one is allowed by an empty part. Empty: none is refused.
  std::string_view harmless = {};
  std::string_view brief = {};  // what --help says of it
  std::string_view help = {};   // what docs/configuration.md and --helpfull say of it

  bool has_flag() const { return topic != SettingTopic::kNone; }
  bool is_live() const { return how == SettingHow::kLive || how == SettingHow::kProtected; }
};

// "proto-max-bulk-len" and "proto_max_bulk_len" to "proto_max_bulk_len".
std::string FlagName(std::string_view name);
// Of the row's flag.
std::string FlagOf(const SettingRow& row);
// With - or _, in any case: the row's name, or its old one.
bool HasName(const SettingRow& row, std::string_view name);

// The form of `text` in which the value is kept, or an error in the words of CONFIG SET.
std::string CanonicalValue(const SettingRow& row, std::string_view text, std::string* error);
// The row's initial value in that form.
std::string InitialValue(const SettingRow& row);
// The options with the initial values of all rows.
ServerOptions InitialOptions(std::span<const SettingRow> rows);

}  // namespace dfly
