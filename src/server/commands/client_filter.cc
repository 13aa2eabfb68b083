// SPDX-License-Identifier: Apache-2.0
#include "server/commands/client_filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"
#include "server/base/words.h"
#include "server/clients/client_info.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"

namespace dfly {

namespace {

ClientType TypeOf(const Session& session) {
  if (session.primary != nullptr) return ClientType::kPrimary;
  if (session.feed != nullptr) return ClientType::kReplica;
  return session.is_subscribed() ? ClientType::kPubsub : ClientType::kNormal;
}

std::optional<ClientType> ParseType(std::string_view text) {
  if (IsWord(text, "normal")) return ClientType::kNormal;
  if (IsWord(text, "pubsub")) return ClientType::kPubsub;
  if (IsWord(text, "master") || IsWord(text, "primary")) return ClientType::kPrimary;
  if (IsWord(text, "replica") || IsWord(text, "slave")) return ClientType::kReplica;
  return std::nullopt;
}

// "10.0.0.1:6379", "[::1]:6379", and for a socket's path nothing.
std::string_view IpOf(std::string_view address) {
  if (address.starts_with('/')) return {};
  std::string_view ip = address.substr(0, address.rfind(':'));
  if (ip.starts_with('[') && ip.ends_with(']')) ip = ip.substr(1, ip.size() - 2);
  return ip;
}

// A number of seconds. The error, or nothing.
std::string ParseSeconds(std::string_view name, std::string_view text, uint64_t* seconds) {
  const auto number = ParseInt64(text);
  if (!number) return fmt::format("ERR {} is not an integer or out of range", name);
  if (*number <= 0) return fmt::format("ERR {} should be greater than 0", name);
  *seconds = static_cast<uint64_t>(*number);
  return "";
}

bool HasAll(std::string_view letters, std::string_view wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [letters](char letter) {
    return letters.find(letter) != std::string_view::npos;
  });
}

std::string UnknownLetters(std::string_view option, bool is_negated, std::string_view value) {
  if (is_negated) {
    return fmt::format("ERR Unknown {} found in the NOT-{} filter: {}", LowerCase(option), option,
                       Printed(value));
  }
  return fmt::format("ERR Unknown {} found in the provided filter: {}", LowerCase(option),
                     Printed(value));
}

}  // namespace

std::string ClientFilter::Parse(const ServerState& server, Args args, Of of) {
  std::string error;
  // Redis looks at the number of arguments before the type.
  if (of == Of::kList && args.size() == 5 && IsWord(args[2], "type")) error = kErrSyntax;
  for (size_t i = 2; i < args.size() && error.empty();) {
    std::string_view option = args[i++];
    const bool is_negated = option.size() > 4 && IsWord(option.substr(0, 4), "not-");
    if (is_negated) option = option.substr(4);
    if (i == args.size()) {
      error = kErrSyntax;
    } else if (IsWord(option, "id")) {
      error = ParseIds(args, &i, of, is_negated);
    } else {
      error = Set(server, option, is_negated, args[i++]);
    }
  }
  std::sort(ids_.begin(), ids_.end());
  std::sort(other_ids_.begin(), other_ids_.end());
  // There all that follows should be numbers, says Redis.
  const bool is_of_ids = of == Of::kList && args.size() > 3 && IsWord(args[2], "id");
  return is_of_ids && error == kErrSyntax ? "ERR Invalid client ID" : error;
}

std::string ClientFilter::ParseIds(Args args, size_t* next, Of of, bool is_negated) {
  constexpr std::string_view kErrClientId = "ERR client-id should be greater than 0";
  std::vector<uint64_t>& ids = is_negated ? other_ids_ : ids_;
  const size_t first = *next;
  for (; *next < args.size(); ++*next) {
    const auto id = ParseInt64(args[*next]);
    if (!id) break;
    if (*id < 1 && (of == Of::kKill || is_negated)) return std::string(kErrClientId);
    ids.push_back(static_cast<uint64_t>(*id));
  }
  if (*next == first) {
    return std::string(of == Of::kKill && !is_negated ? kErrClientId : kErrSyntax);
  }
  return "";
}

ClientFilter::WantedText* ClientFilter::TextOf(std::string_view option) {
  if (IsWord(option, "addr")) return &address_;
  if (IsWord(option, "laddr")) return &local_address_;
  if (IsWord(option, "ip")) return &ip_;
  if (IsWord(option, "name")) return &name_;
  if (IsWord(option, "lib-name")) return &lib_name_;
  if (IsWord(option, "lib-ver")) return &lib_version_;
  return nullptr;
}

std::string ClientFilter::Set(const ServerState& server, std::string_view option, bool is_negated,
                              std::string_view value) {
  if (WantedText* const text = TextOf(option); text != nullptr) {
    text->of(is_negated) = value;
  } else if (IsWord(option, "type")) {
    const auto type = ParseType(value);
    if (!type) return fmt::format("ERR Unknown client type '{}'", Printed(value));
    type_.of(is_negated) = *type;
  } else if (IsWord(option, "user")) {
    if (server.acl->Find(value) == nullptr) {
      return fmt::format("ERR No such user '{}'", Printed(value));
    }
    user_.of(is_negated) = value;
  } else if (IsWord(option, "flags")) {
    if (!HasAll(kClientFlags, value)) return UnknownLetters("FLAGS", is_negated, value);
    flags_.of(is_negated) = value;
  } else if (IsWord(option, "capa")) {
    if (!HasAll("r", value)) return UnknownLetters("CAPA", is_negated, value);
    capa_.of(is_negated) = value;
  } else if (IsWord(option, "db")) {
    const auto db = ParseInt64(value);
    const std::string_view name = is_negated ? "NOT-DB" : "DB";
    if (!db) return fmt::format("ERR {} is not an integer or out of range", name);
    const int64_t last = static_cast<int64_t>(server.options.db_count) - 1;
    if (*db < 0 || *db > last) {
      return fmt::format("ERR {} number should be between 0 and {}", name, last);
    }
    db_.of(is_negated) = static_cast<int>(*db);
  } else if (is_negated) {
    return std::string(kErrSyntax);
  } else if (IsWord(option, "maxage")) {
    return ParseSeconds("maxage", value, &age_min_s_);
  } else if (IsWord(option, "idle")) {
    return ParseSeconds("idle", value, &idle_min_s_);
  } else if (IsWord(option, "skipme") && (IsWord(value, "yes") || IsWord(value, "no"))) {
    skip_me_ = IsWord(value, "yes");
  } else {
    return std::string(kErrSyntax);
  }
  return "";
}

bool ClientFilter::Matches(const Session& session, uint64_t now_ns) const {
  const Connection& connection = session.connection;
  const auto has = [&connection](const std::vector<uint64_t>& ids) {
    return std::binary_search(ids.begin(), ids.end(), connection.id());
  };
  if ((!ids_.empty() && !has(ids_)) || has(other_ids_)) return false;
  if (!type_.empty() && !type_.Matches(TypeOf(session))) return false;
  const auto seconds_since = [now_ns](uint64_t then_ns) {
    return (now_ns - std::min(now_ns, then_ns)) / 1'000'000'000;
  };
  if (seconds_since(connection.created_ns()) < age_min_s_ ||
      seconds_since(connection.last_active_ns()) < idle_min_s_) {
    return false;
  }
  if (capa_.is) return false;
  if (!flags_.empty()) {
    const std::string flags = FlagsOf(InfoOfClient(session, now_ns));
    if (flags_.is && !HasAll(flags, *flags_.is)) return false;
    if (flags_.is_not && HasAll(flags, *flags_.is_not)) return false;
  }
  return db_.Matches(session.db_index) && user_.Matches(session.user.name) &&
         address_.Matches(session.peer_address) && local_address_.Matches(session.local_address) &&
         ip_.Matches(IpOf(session.peer_address)) && name_.Matches(session.name) &&
         lib_name_.Matches(session.lib_name) && lib_version_.Matches(session.lib_version);
}

}  // namespace dfly
