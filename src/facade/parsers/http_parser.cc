// SPDX-License-Identifier: Apache-2.0
#include "facade/parsers/http_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>

#include "helio/base/logging.h"

namespace dfly {

namespace http = boost::beast::http;

struct HttpParser::State {
  http::request_parser<http::string_body> parser;
  size_t head_bytes = 0;
};

namespace {

// Beast's own limit is some bytes less, depending on how the bytes arrive.
constexpr size_t kBeastSlack = 16;

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

int StatusOf(const boost::beast::error_code& error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::bad_version) return 505;
  if (error == http::error::body_limit) return 413;
  return 400;
}

}  // namespace

bool HttpParser::IsRequestLine(std::span<const std::string_view> args) {
  constexpr std::string_view kMethods[] = {"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                           "CONNECT", "OPTIONS", "TRACE", "PATCH"};
  return args.size() == 3 && args[2].starts_with("HTTP/") &&
         std::find(std::begin(kMethods), std::end(kMethods), args[0]) != std::end(kMethods);
}

HttpParser::HttpParser(const HttpLimits& limits) : limits_(limits) {}
HttpParser::~HttpParser() = default;

void HttpParser::Release() {
  if (!in_request_) state_.reset();
}

size_t HttpParser::memory_used() const {
  if (state_ == nullptr) return sizeof(*this);
  return sizeof(*this) + sizeof(State) + state_->parser.get().body().capacity();
}

HttpParser::Status HttpParser::Fail(int status) {
  error_status_ = status;
  return Status::kError;
}

bool HttpParser::MayHaveBody() const {
  const auto& message = state_->parser.get();
  const std::string_view target = View(message.target());
  return message.method() == http::verb::post && !limits_.body_path.empty() &&
         target.substr(0, target.find('?')) == limits_.body_path;
}

HttpParser::Status HttpParser::Parse(std::string_view input) {
  consumed_ = 0;
  if (!in_request_) {
    state_ = std::make_unique<State>();
    state_->parser.header_limit(static_cast<std::uint32_t>(limits_.head_max + kBeastSlack));
    state_->parser.body_limit(
        authenticated_ ? limits_.body_max : std::min(limits_.body_max, limits_.stranger_body_max));
    in_request_ = true;
  }
  auto& parser = state_->parser;
  boost::beast::error_code error;
  // The parser stops behind the head, and then takes pieces of the body as they are.
  bool is_stuck = false;
  while (!parser.is_done() && !is_stuck) {
    const bool was_in_head = !parser.is_header_done();
    const size_t taken =
        parser.put(boost::asio::buffer(input.data() + consumed_, input.size() - consumed_), error);
    consumed_ += taken;
    if (was_in_head) state_->head_bytes += taken;
    if (state_->head_bytes > limits_.head_max) return Fail(431);
    if (error && error != http::error::need_more) return Fail(StatusOf(error));
    const bool head_ends = was_in_head && parser.is_header_done();
    if (head_ends && !parser.is_done()) {
      if (!MayHaveBody()) return Fail(413);
      // Beast does not bound what stands between chunks.
      if (parser.chunked()) return Fail(411);
    }
    is_stuck = !head_ends && (taken == 0 || consumed_ == input.size());
  }
  if (!parser.is_done()) {
    const size_t rest = input.size() - consumed_;
    const bool is_over = !parser.is_header_done() && state_->head_bytes + rest > limits_.head_max;
    return is_over ? Fail(431) : Status::kNeedMore;
  }
  in_request_ = false;
  const auto& message = parser.get();
  const auto field = [&message](http::field name) { return View(message[name]); };
  request_ = {.method = View(message.method_string()),
              .target = View(message.target()),
              .keep_alive = message.keep_alive(),
              .authorization = field(http::field::authorization),
              .host = field(http::field::host),
              .origin = field(http::field::origin),
              .content_type = field(http::field::content_type),
              .requested_with = View(message["X-Requested-With"]),
              .body = message.body()};
  return Status::kRequest;
}

std::string FormatHttp(const HttpResponse& response, bool keep_alive, bool has_body) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "{}{}\r\n{}",
      response.status, View(http::obsolete_reason(static_cast<http::status>(response.status))),
      response.type, response.body.size(), response.fields,
      keep_alive ? "" : "Connection: close\r\n",
      has_body ? std::string_view(response.body) : std::string_view());
}

}  // namespace dfly
