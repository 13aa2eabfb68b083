// SPDX-License-Identifier: Apache-2.0
// HTTP/1.0 and 1.1 requests (RFC 9110, 9112), found in the bytes that a client sent. Only POST to
// one path may have a body. The parsing is Boost.Beast's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace dfly {

struct HttpRequest {
  std::string_view method;  // "GET"
  std::string_view target;  // "/readyz", with what may follow a '?'
  bool keep_alive = false;
  // Values of fields; empty: not there.
  std::string_view authorization;
  std::string_view host;
  std::string_view origin;
  std::string_view content_type;
  std::string_view requested_with;  // X-Requested-With
  std::string_view body;
};

struct HttpLimits {
  size_t head_max = 8 << 10;            // bytes of the request line and the fields
  size_t body_max = 0;                  // bytes of a body
  size_t stranger_body_max = 64 << 10;  // the same, of who has not said who it is
  std::string_view body_path = {};  // whose POST may have one; empty: nobody's. Outlives parsers.
};

// Owner:    one connection, on its thread.
// Suspends: never.
// Memory:   what has arrived of one request, up to its limits.
class HttpParser {
 public:
  enum class Status : uint8_t {
    kRequest,   // request() is one
    kNeedMore,  // call again with what was not consumed, and more
    kError,     // error_status() says why; nothing behind it can be understood, so close
  };

  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // Does a client's first command line begin an HTTP request? `args`: its words. None of these is a
  // command: GET, the only name that is both, has one argument.
  static bool IsRequestLine(std::span<const std::string_view> args);

  // As RequestParser::Parse: after each call the caller drops consumed() bytes.
  Status Parse(std::string_view input);
  size_t consumed() const { return consumed_; }
  // Frees what an idle connection has no use for. request() is dead afterwards.
  void Release();
  // Bytes of this and on the heap, without what the library keeps of a head until Release.
  size_t memory_used() const;
  // A part of a request has arrived.
  bool in_request() const { return in_request_; }
  // The client has said who it is; from the next request on.
  void set_authenticated(bool authenticated) { authenticated_ = authenticated; }
  // After kRequest, until the next call.
  const HttpRequest& request() const { return request_; }
  // After kError: 400, 411 (its body comes in chunks), 413 (it has a body that it may not have, or
  // too large a one), 431 (its head is too long) or 505 (of another version).
  int error_status() const { return error_status_; }

 private:
  struct State;

  Status Fail(int status);
  bool MayHaveBody() const;

  const HttpLimits limits_;
  std::unique_ptr<State> state_;  // of the request that has arrived in part, or was the last one
  HttpRequest request_;
  size_t consumed_ = 0;
  bool in_request_ = false;
  bool authenticated_ = true;
  int error_status_ = 0;
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string_view type = "text/plain; charset=utf-8";
  std::string_view fields = {};  // further ones: "Allow: GET\r\n"
};

// The bytes of a response. `has_body`: not to HEAD.
std::string FormatHttp(const HttpResponse& response, bool keep_alive, bool has_body = true);

}  // namespace dfly
