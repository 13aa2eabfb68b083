// SPDX-License-Identifier: Apache-2.0
// What answers requests of HTTP, on the ports of all clients.
#pragma once

#include "facade/connection.h"
#include "facade/parsers/http_parser.h"

namespace dfly {

class Session;

// Owner: the program, for as long as the server lives.
class HttpFrontend {
 public:
  // Thread: the session's, which is that of its connection. Suspends: never; what takes long goes
  // on in a fiber.
  virtual CommandSink::Outcome OnHttp(Connection* connection, Session& session,
                                      const HttpRequest& request) = 0;

 protected:
  ~HttpFrontend() = default;
};

}  // namespace dfly
