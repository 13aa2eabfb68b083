// SPDX-License-Identifier: Apache-2.0
#include "server/options/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "helio/base/logging.h"
#include "server/base/machine.h"
#include "server/base/units.h"
#include "server/base/words.h"
#include "server/options/directives.h"
#include "server/options/setting_row.h"

namespace dfly {

std::string ParseFlags(int argc, char** argv, Arguments* arguments) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::vector<std::string_view> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.emplace_back(*variable);
  }
  if (std::string error = ReadArguments(words, environment, arguments); !error.empty()) {
    return error;
  }
  if (FLAGS_log_dir.empty() && gflags::GetCommandLineFlagInfoOrDie("logtostderr").is_default) {
    FLAGS_logtostderr = true;
  }
  return "";
}

namespace {

std::string FlagError(std::string_view flag, std::string_view why) {
  return fmt::format("--{}: {}{}", flag, why, FlagOrigin(flag));
}

// "a, b or c".
std::string Alternatives(std::string_view choices) {
  std::vector<std::string_view> words = SplitWords(choices);
  const std::string_view last = words.back();
  words.pop_back();
  return fmt::format("{} or {}", fmt::join(words, ", "), last);
}

// What the row says of a wrong value of its flag.
std::string WhyWrong(const SettingRow& row, std::string_view text, std::string_view why) {
  if (!row.flag_error.empty()) return fmt::format(fmt::runtime(row.flag_error), text);
  switch (row.kind) {
    case SettingKind::kChoice:
      return fmt::format("must be {}", Alternatives(row.choices));
    case SettingKind::kInteger:
      return fmt::format("must be between {} and {}", row.min, row.max);
    case SettingKind::kMemory:
      return ParseMemory(text) ? fmt::format("must be between {} and {}", row.min, row.max)
                               : fmt::format("'{}' is no size; examples: 1000000, 20mb, 1gb", text);
    default:
      return std::string(why);
  }
}

// Stores what the row's flag says. Empty, or an error.
std::string StoreFlag(const SettingRow& row, ServerOptions* options) {
  const std::string flag = FlagOf(row);
  std::string text = FlagText(flag);
  const bool is_open = row.kind == SettingKind::kMemory || row.kind == SettingKind::kChoice;
  if (is_open && row.initial.empty() && text.empty()) return "";  // see Finish
  if (row.kind == SettingKind::kBool) text = text == "true" ? "yes" : "no";
  std::string why;
  const bool is_size = row.kind != SettingKind::kMemory || ParseMemory(text).has_value();
  const std::string value = CanonicalValue(row, text, &why);
  if (is_size && why.empty()) why = row.slot.store(value, options);
  if (is_size && why.empty()) return "";
  return FlagError(flag, WhyWrong(row, text, why));
}

// What concerns several flags.
std::string CheckFlags(const ServerOptions& options) {
  const bool has_port = options.port != 0 || options.tls_port != 0;
  if (has_port && options.binds.empty()) return FlagError("bind", "no address");
  if (!has_port && options.unix_socket.empty()) {
    return FlagError("port", "0 needs --unixsocket or --tls_port, or nobody could connect");
  }
  const EvictionPolicy policy = options.eviction.rules.policy;
  if (options.cache_mode && policy != EvictionPolicy::kNone &&
      policy != EvictionPolicy::kAllKeysLfu) {
    return FlagError("maxmemory_policy", "--cache_mode has its own; leave one of them out");
  }
  const TagRules& tags = options.tag_rules;
  if (tags.skip_end_delimiters != 0 && tags.prefix.empty()) {
    return FlagError("locktag_skip_n_end_delimiters", "needs --locktag_prefix");
  }
  if (std::string error = options.quotas.Check(options.db_count); !error.empty()) {
    return FlagError("quota", error);
  }
  return "";
}

// What is left open by its own flag.
void Finish(ServerOptions* options) {
  const Machine machine = ReadMachine();
  if (FlagText("maxmemory").empty()) options->maxmemory = machine.memory_limit() / 5 * 4;
  if (FlagText("pipeline_reply_bytes_max").empty()) {
    constexpr size_t kUsual = 128 << 20;
    // Memory is full at 4/5 of that (maxmemory), and reads are never refused.
    options->limits.reply_bytes_max =
        machine.memory_limit() == 0 ? kUsual : std::min(kUsual, machine.memory_limit() / 32);
  }
  if (options->cache_mode) options->eviction.rules.policy = EvictionPolicy::kCache;
  helio::TlsOptions& tls = options->tls_options;
  const bool has_ca = !tls.ca_cert_file.empty() || !tls.ca_cert_dir.empty();
  if (FlagText("tls_auth_clients").empty()) {
    using PeerCheck = helio::TlsOptions::PeerCheck;
    tls.peer_check = has_ca ? PeerCheck::kRequired : PeerCheck::kNone;
  }
  if (options->web_console) {
    options->limits.http.body_path = kApiPath;
  } else {
    options->limits.http.body_max = 0;
  }
  options->system_memory_bytes = machine.memory_limit();
  if (options->threads == 0) options->threads = machine.default_threads();
  options->clients_possible =
      std::min<uint64_t>(ClientsFor(RaiseDescriptorLimit(), options->threads), UINT32_MAX);
  if (options->maxclients > options->clients_possible) {
    LOG(WARNING) << "maxclients is " << options->clients_possible << " instead of "
                 << options->maxclients << ": the limit of open files is too low (ulimit -n)";
    options->maxclients = static_cast<uint32_t>(options->clients_possible);
  }
}

}  // namespace

std::string OptionsFromFlags(ServerOptions* options) {
  *options = InitialOptions(RegisteredSettings());  // of which a flag may change a part
  for (const SettingRow& row : RegisteredSettings()) {
    if (!row.has_flag() || row.slot.store == nullptr) continue;
    if (std::string error = StoreFlag(row, options); !error.empty()) return error;
  }
  if (std::string error = CheckFlags(*options); !error.empty()) return error;
  Finish(options);
  return "";
}

}  // namespace dfly
