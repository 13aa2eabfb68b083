// SPDX-License-Identifier: Apache-2.0
#include "facade/replies/resp_writer.h"

#include <algorithm>
#include <cstring>

#include "core/memory/lent_block.h"
#include "helio/base/format_number.h"
#include "helio/base/logging.h"

namespace dfly {
namespace {

constexpr size_t kMaxHeader = 1 + helio::kMaxIntegerChars + 2;

char* PutCrLf(char* p) {
  p[0] = '\r';
  p[1] = '\n';
  return p + 2;
}

char* PutHeader(char type, size_t count, char* p) {
  *p++ = type;
  if (count < 10) {
    *p++ = static_cast<char>('0' + count);
  } else {
    p = helio::FormatUnsigned(count, p);
  }
  return PutCrLf(p);
}

char* PutBytes(std::string_view bytes, char* p) {
  if (!bytes.empty()) memcpy(p, bytes.data(), bytes.size());
  return p + bytes.size();
}

}  // namespace

void RespWriter::Header(char type, size_t count) {
  char* const start = out_->Reserve(kMaxHeader);
  out_->Commit(static_cast<size_t>(PutHeader(type, count, start) - start));
}

void RespWriter::Blob(char type, std::string_view prefix, std::string_view bytes) {
  const size_t size = prefix.size() + bytes.size();
  char* const start = out_->Reserve(kMaxHeader + size + 2);
  char* p = PutHeader(type, size, start);
  p = PutBytes(prefix, p);
  p = PutCrLf(PutBytes(bytes, p));
  out_->Commit(static_cast<size_t>(p - start));
}

void RespWriter::Line(char type, std::string_view text) {
  char* const start = out_->Reserve(text.size() + 3);
  *start = type;
  char* const end = PutBytes(text, start + 1);
  // A line break inside would end the reply early and shift all later ones.
  std::replace_if(
      start + 1, end, [](char c) { return c == '\r' || c == '\n'; }, ' ');
  PutCrLf(end);
  out_->Commit(text.size() + 3);
}

void RespWriter::Status(std::string_view text) {
  if (text == "OK") {
    memcpy(out_->Reserve(5), "+OK\r\n", 5);
    out_->Commit(5);
    return;
  }
  Line('+', text);
}

void RespWriter::Error(std::string_view message) {
  CountError(message);
  if (is_memcached_) [[unlikely]]
    return MemcachedError(message);
  // Redis cuts line breaks off the end of an error, and blanks the others.
  Line('-', message.substr(0, message.find_last_not_of("\r\n") + 1));
}

// What dispatch refuses, in the words that memcached's clients look for where there are such.
void RespWriter::MemcachedError(std::string_view message) {
  if (message.starts_with("OOM "))
    return out_->Append("SERVER_ERROR out of memory storing object\r\n");
  out_->Append("SERVER_ERROR ");
  for (char c : message) {
    const char shown = c == '\r' || c == '\n' ? ' ' : c;
    out_->Append({&shown, 1});
  }
  out_->Append("\r\n");
}

void RespWriter::Integer(int64_t value) {
  char* const start = out_->Reserve(kMaxHeader);
  *start = ':';
  char* const end = PutCrLf(helio::FormatInteger(value, start + 1));
  out_->Commit(static_cast<size_t>(end - start));
}

void RespWriter::Bulk(std::string_view bytes) {
  char* const start = out_->Reserve(kMaxHeader + bytes.size() + 2);
  char* const end = PutCrLf(PutBytes(bytes, PutHeader('$', bytes.size(), start)));
  out_->Commit(static_cast<size_t>(end - start));
}

void RespWriter::LentBulk(char* data, size_t size) {
  // Behind other bytes it has to be a copy.
  if (!out_->empty()) return Bulk({data, size});
  out_->Borrow(LentBlock::Lend(data, size), LentBlock::ReturnReply);
}

void RespWriter::Null() { out_->Append(resp3_ ? "_\r\n" : "$-1\r\n"); }

void RespWriter::NullArray() { out_->Append(resp3_ ? "_\r\n" : "*-1\r\n"); }

void RespWriter::Double(double value) {
  char text[helio::kMaxDoubleChars];
  const char* const end = helio::FormatDouble(value, text);
  Decimal({text, static_cast<size_t>(end - text)});
}

void RespWriter::Decimal(std::string_view digits) {
  if (resp3_) {
    Line(',', digits);
  } else {
    Bulk(digits);
  }
}

void RespWriter::Bool(bool value) {
  out_->Append(resp3_ ? (value ? "#t\r\n" : "#f\r\n") : (value ? ":1\r\n" : ":0\r\n"));
}

void RespWriter::BigNumber(std::string_view digits) {
  if (resp3_) {
    Line('(', digits);
  } else {
    Bulk(digits);
  }
}

void RespWriter::Verbatim(std::string_view format, std::string_view text) {
  DCHECK_EQ(format.size(), 3u);
  if (!resp3_) return Bulk(text);
  const char prefix[] = {format[0], format[1], format[2], ':'};
  Blob('=', {prefix, sizeof(prefix)}, text);
}

void RespWriter::Array(size_t items) { Header('*', items); }

void RespWriter::Map(size_t pairs) { Header(resp3_ ? '%' : '*', resp3_ ? pairs : pairs * 2); }

void RespWriter::Set(size_t items) { Header(resp3_ ? '~' : '*', items); }

void RespWriter::Push(size_t items) { Header(resp3_ ? '>' : '*', items); }

void RespWriter::Attribute(size_t pairs) {
  DCHECK(resp3_);
  Header('|', pairs);
}

}  // namespace dfly
