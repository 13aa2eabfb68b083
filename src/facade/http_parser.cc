// SPDX-License-Identifier: Apache-2.0
#include "facade/http_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>

#include "helio/base/logging.h"

namespace dfly {

namespace http = boost::beast::http;

struct HttpParser::State {
  http::request_parser<http::empty_body> parser;
};

namespace {

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

int StatusOf(const boost::beast::error_code& error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::bad_version) return 505;
  if (error == http::error::unexpected_body) return 413;
  return 400;
}

}  // namespace

bool HttpParser::IsRequestLine(std::span<const std::string_view> args) {
  constexpr std::string_view kMethods[] = {"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                           "CONNECT", "OPTIONS", "TRACE", "PATCH"};
  return args.size() == 3 && args[2].starts_with("HTTP/") &&
         std::find(std::begin(kMethods), std::end(kMethods), args[0]) != std::end(kMethods);
}

HttpParser::HttpParser(size_t head_max) : head_max_(head_max) {}
HttpParser::~HttpParser() = default;

void HttpParser::Release() {
  if (!in_request_) state_.reset();
}

size_t HttpParser::memory_used() const {
  return sizeof(*this) + (state_ == nullptr ? 0 : sizeof(State));
}

HttpParser::Status HttpParser::Fail(int status) {
  error_status_ = status;
  return Status::kError;
}

HttpParser::Status HttpParser::Parse(std::string_view input) {
  consumed_ = 0;
  if (!in_request_) {
    state_ = std::make_unique<State>();
    state_->parser.header_limit(static_cast<std::uint32_t>(head_max_));
    in_request_ = true;
  }
  auto& parser = state_->parser;
  boost::beast::error_code error;
  consumed_ = parser.put(boost::asio::buffer(input.data(), input.size()), error);
  if (error == http::error::need_more) return Status::kNeedMore;
  if (error) return Fail(StatusOf(error));
  if (!parser.is_header_done()) return Status::kNeedMore;
  if (!parser.is_done()) return Fail(413);
  in_request_ = false;
  const auto& message = parser.get();
  request_ = {.method = View(message.method_string()),
              .target = View(message.target()),
              .keep_alive = message.keep_alive()};
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
