// SPDX-License-Identifier: Apache-2.0
// Who asks over HTTP, and what about. Each request says it anew (there are no cookies): with
// "Authorization: Basic" it is that user of the ACL, without it who the connection is anyway.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "facade/parsers/http_parser.h"
#include "server/acl/acl_user.h"

namespace dfly {

class Session;

// A request that outlives the receive buffer.
struct HttpQuery {
  explicit HttpQuery(const HttpRequest& request);

  std::string method;
  std::string path;
  std::string authorization;
  std::string host;
  std::string origin;
  std::string content_type;
  std::string requested_with;
  std::string body;
};

struct HttpAsker {
  AclUserRef user;  // null: nobody that is known, or the password is wrong
  bool has_said_so = false;
};

// Failures go to ACL LOG. On the session's thread.
HttpAsker AskerOf(Session& session, const HttpQuery& query);

// Why `asker` may not do what `args`, a command of this server, does; none: it may. On the
// session's thread. `prompts`: browsers ask their user for a password then.
std::optional<HttpResponse> RefusalOf(Session& session, const HttpAsker& asker, Args args,
                                      bool prompts);

}  // namespace dfly
