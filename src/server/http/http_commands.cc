// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_commands.h"

#include <arpa/inet.h>
#include <openssl/evp.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/text/numbers.h"
#include "facade/parsers/request_parser.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/dispatch/inner_client.h"

namespace dfly {

namespace {

using Json = nlohmann::ordered_json;

// Doubles, which is what readers of JSON use, are exact up to this.
constexpr int64_t kExactMax = int64_t{1} << 53;

HttpResponse Failure(int status, std::string_view why) {
  return {.status = status, .body = Json{{"error", why}}.dump() + "\n", .type = kJsonType};
}

std::string Base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t size = helio::Utf8Size(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

Json TextToJson(std::string_view text) {
  if (IsUtf8(text)) return text;
  return {{"base64", Base64(text)}};
}

Json ToJson(const RespValue& value) {
  switch (value.kind) {
    case ReplyKind::kStatus:
    case ReplyKind::kBulk:
      return TextToJson(value.text);
    case ReplyKind::kVerbatim:
      return TextToJson(
          std::string_view(value.text).substr(std::min<size_t>(4, value.text.size())));
    case ReplyKind::kError:
      return {{"error", TextToJson(value.text)}};
    case ReplyKind::kInteger: {
      const auto number = ParseInt64(value.text);
      if (number && std::abs(*number / 2) < kExactMax / 2) return *number;
      return {{"integer", value.text}};
    }
    case ReplyKind::kBigNumber:
      return {{"integer", value.text}};
    case ReplyKind::kDouble: {
      const double number = strtod(value.text.c_str(), nullptr);
      if (std::isfinite(number)) return number;
      return {{"double", value.text}};
    }
    case ReplyKind::kBool:
      return value.text == "t";
    case ReplyKind::kNull:
      return nullptr;
    case ReplyKind::kMap: {
      Json pairs = Json::array();
      for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
        pairs.push_back(Json::array({ToJson(value.items[i]), ToJson(value.items[i + 1])}));
      }
      return {{"map", std::move(pairs)}};
    }
    case ReplyKind::kArray:
    case ReplyKind::kSet:
    case ReplyKind::kPush:
      break;
  }
  Json items = Json::array();
  for (const RespValue& item : value.items) items.push_back(ToJson(item));
  return items;
}

// False: its quotes are not balanced, or there is nothing in it.
bool SplitLine(std::string_view line, std::vector<std::string>* words) {
  RequestParser parser(RequestParser::Limits{});
  // Else it would be RESP.
  if (line.empty() || line[0] == '*' || line.find_first_of("\r\n") != line.npos) return false;
  const std::string input = std::string(line) + "\n";  // arguments may be views into it
  if (parser.Parse(input) != RequestParser::Status::kCommand) return false;
  words->assign(parser.args().begin(), parser.args().end());
  return true;
}

bool IsStream(std::string_view name) {
  for (std::string_view other : {"subscribe", "psubscribe", "ssubscribe", "monitor"}) {
    if (IsWord(name, other)) return true;
  }
  return false;
}

}  // namespace

std::string ParseCommands(std::string_view body, std::vector<std::vector<std::string>>* commands) {
  const Json request = Json::parse(body, nullptr, false);
  if (request.is_discarded()) return "the body is not JSON";
  constexpr const char* kShape =
      "the body has to be {\"commands\": [...]}, each an array of strings, or a line";
  if (!request.is_object() || request.size() != 1) return kShape;
  const auto list = request.find("commands");
  if (list == request.end() || !list->is_array()) return kShape;
  for (const Json& item : *list) {
    std::vector<std::string>& words = commands->emplace_back();
    if (item.is_string()) {
      const auto& line = item.get_ref<const std::string&>();
      if (!SplitLine(line, &words)) return "a line is empty, or its quotes are not balanced";
      continue;
    }
    if (!item.is_array() || item.empty()) return kShape;
    for (const Json& word : item) {
      if (!word.is_string()) return kShape;
      words.push_back(word.get<std::string>());
    }
  }
  return "";
}

std::string FormatReplies(const std::vector<RespValue>& replies, std::string_view error) {
  Json list = Json::array();
  for (const RespValue& value : replies) list.push_back(ToJson(value));
  Json response{{"replies", std::move(list)}};
  if (!error.empty()) response["error"] = error;
  return response.dump() + "\n";
}

bool IsAddressOrLocal(std::string_view host) {
  std::string name(host);
  if (name.starts_with('[')) {
    const size_t end = name.find(']');
    in6_addr address;
    return end != name.npos && inet_pton(AF_INET6, name.substr(1, end - 1).c_str(), &address) == 1;
  }
  name.resize(std::min(name.find(':'), name.size()));
  in_addr address;
  return IsWord(name, "localhost") || inet_pton(AF_INET, name.c_str(), &address) == 1;
}

bool IsSameOrigin(std::string_view origin, std::string_view host) {
  for (std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return origin.substr(scheme.size()) == host;
  }
  return false;
}

HttpResponse RunCommands(Session& session, const HttpQuery& query) {
  if (!query.origin.empty() && !IsSameOrigin(query.origin, query.host)) {
    return Failure(403, "this is for pages of this server");
  }
  if (!IsWord(query.content_type.substr(0, query.content_type.find(';')), kJsonType)) {
    return Failure(415, "Content-Type has to be application/json");
  }
  // Browsers let no page of another site send it.
  if (query.requested_with.empty()) return Failure(400, "there has to be an X-Requested-With");
  const HttpAsker asker = AskerOf(session, query);
  if (asker.user == nullptr) {
    return Failure(401, asker.has_said_so ? "the user or the password is wrong"
                                          : "a user and its password are needed");
  }
  // Who has a password for this very server is no page that somebody else's name has led here.
  if (!asker.has_said_so && !query.host.empty() && !IsAddressOrLocal(query.host)) {
    return Failure(403,
                   "without a password this is only for those who come by an address or localhost, "
                   "not by a name: names can be made to lead here");
  }
  std::vector<std::vector<std::string>> commands;
  if (const std::string why = ParseCommands(query.body, &commands); !why.empty()) {
    return Failure(400, why);
  }
  for (const std::vector<std::string>& command : commands) {
    if (IsStream(command[0])) return Failure(400, command[0] + " is not for HTTP");
  }
  session.is_known_http = true;
  session.connection.SetAuthenticated(true);
  const ServerOptions& options = session.server.options;
  const InnerReplies result = RunAsClient(
      session,
      {.user = asker.user,
       .commands = commands,
       .reply_bytes_max = options.http_reply_max,
       .deadline_ns = helio::MonotonicNanos() + options.http_timeout_ms * uint64_t{1'000'000}});
  return {.status = result.error.empty() ? 200 : 503,
          .body = FormatReplies(result.replies, result.error),
          .type = kJsonType};
}

}  // namespace dfly
