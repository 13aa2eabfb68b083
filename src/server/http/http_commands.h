// SPDX-License-Identifier: Apache-2.0
// POST /api/commands: commands over HTTP, for the console and for scripts that have no client.
//
//   {"commands": [["SET", "k", "v"], "GET \"k\""]}  ->  {"replies": ["OK", "v"]}
//
// A command is an array of strings, or a line as redis-cli takes them. Replies are those of RESP3.
// What JSON has no type for is an object of one member, so that nothing else is taken for it:
//
//   {"error": "WRONGTYPE ..."}  {"base64": "..."}  a string that is not UTF-8
//   {"map": [[k, v], ...]}      {"integer": "..."} beyond 2^53    {"double": "inf"}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "facade/parsers/http_parser.h"
#include "facade/replies/resp_reader.h"
#include "server/http/http_access.h"

namespace dfly {

class Session;

inline constexpr char kJsonType[] = "application/json";

// Suspends.
HttpResponse RunCommands(Session& session, const HttpQuery& query);

// The commands that a request's body asks for. Returns why it cannot be read, or nothing.
std::string ParseCommands(std::string_view body, std::vector<std::vector<std::string>>* commands);
// The body of a response. `error`: why there are no more replies; or empty.
std::string FormatReplies(const std::vector<RespValue>& replies, std::string_view error);

// A page of another site cannot ask in a browser's name: see docs/security.md.
// `host`: the field Host. It is an address, or this machine's own name for itself; so it is no name
// that somebody else can have lead here.
bool IsAddressOrLocal(std::string_view host);
// `origin`: the field Origin. It is that of a page that `host` has delivered.
bool IsSameOrigin(std::string_view origin, std::string_view host);

}  // namespace dfly
