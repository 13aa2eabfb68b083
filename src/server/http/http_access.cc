// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_access.h"

#include <openssl/evp.h>

#include <vector>

#include "commands/table/lookup.h"
#include "engine/hops/shard_set.h"
#include "facade/replies/error_texts.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/dispatch/users.h"

namespace dfly {

namespace {

// Base64, with its padding. None: it is not.
std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return {};
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) return {};
  // It counts the padding as bytes.
  size_t padding = 0;
  while (padding < 2 && text[text.size() - 1 - padding] == '=') ++padding;
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

}  // namespace

HttpQuery::HttpQuery(const HttpRequest& request)
    : method(request.method),
      path(request.target.substr(0, request.target.find('?'))),
      authorization(request.authorization),
      host(request.host),
      origin(request.origin),
      content_type(request.content_type),
      requested_with(request.requested_with),
      body(request.body) {}

HttpAsker AskerOf(Session& session, const HttpQuery& query) {
  AclStore& acl = *session.server.acl;
  std::string_view text = query.authorization;
  if (text.empty()) {
    return {.user = session.user.is_authenticated ? acl.Find(session.user.name) : nullptr,
            .has_said_so = false};
  }
  HttpAsker asker{.user = nullptr, .has_said_so = true};
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos || !IsWord(text.substr(0, blank), "basic")) return asker;
  text.remove_prefix(blank);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::optional<std::string> decoded = DecodeBase64(text);
  if (!decoded) return asker;
  const std::string_view both = *decoded;
  const size_t colon = both.find(':');
  if (colon == std::string_view::npos) return asker;
  const std::string_view name = colon == 0 ? AclStore::kDefaultName : both.substr(0, colon);
  asker.user = acl.LogIn(name, both.substr(colon + 1));
  if (asker.user == nullptr) {
    Users::Here().LogFailedLogin(session, name);
  } else {
    Users::Here().LogLogin(session, name);
  }
  return asker;
}

std::optional<HttpResponse> RefusalOf(Session& session, const HttpAsker& asker, Args args,
                                      bool prompts) {
  if (asker.user == nullptr) {
    HttpResponse response{.status = 401, .body = "a user and its password are needed\n"};
    if (asker.has_said_so) response.body = "the user or the password is wrong\n";
    if (prompts) {
      response.fields = "WWW-Authenticate: Basic realm=\"dragonfly\", charset=\"UTF-8\"\r\n";
    }
    return response;
  }
  const Command* const command =
      FindFrom(*session.server.commands.FindByName(args.name()), args).row;
  const AclVerdict verdict =
      asker.user->Check(*command, args, {session.db_index, session.server.shards->db_count()});
  const bool is_admin_only = (command->flags & kAdminPort) != 0 && !session.user.is_admin;
  if (!verdict.is_denied() && !is_admin_only) return {};
  if (verdict.is_denied()) {
    Users::Here().LogDenial(verdict, session, *command, args, asker.user->name());
  }
  return HttpResponse{.status = 403,
                      .body = is_admin_only && !verdict.is_denied()
                                  ? std::string(kErrAdminPortOnly) + "\n"
                                  : DenialError(verdict, asker.user->name(), *command) + "\n"};
}

}  // namespace dfly
