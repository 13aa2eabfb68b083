// SPDX-License-Identifier: Apache-2.0
#include "core/rdb/rdb_probabilistic.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace dfly {

namespace {

void WritePieces(std::string_view bytes, RdbWriter* writer) {
  writer->Length(bytes.size());
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), RdbReader::kPieceBytes))) {
    writer->Raw(bytes.substr(0, RdbReader::kPieceBytes));
  }
}

// Whether a string of `bytes` bytes follows.
bool IsNext(size_t bytes, RdbReader* reader) { return reader->Count() == bytes; }

bool ReadPieces(std::span<char> to, RdbReader* reader) {
  char* at = to.data();
  return reader->RawPieces(to.size(), [&at](std::string_view piece) {
    std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
  });
}

}  // namespace

// --- Bloom filters ---

void WriteRdbBloomFilter(const BloomFilter& filter, RdbWriter* writer) {
  const std::string header = filter.Header();
  writer->Length(header.size());
  writer->Raw(header);
  writer->Length(filter.bits_bytes());
  for (size_t at = 0; at < filter.bits_bytes();) {
    const std::string_view piece = filter.BitsAt(at, RdbReader::kPieceBytes);
    writer->Raw(piece);
    at += piece.size();
  }
}

std::unique_ptr<BloomFilter> ReadRdbBloomFilter(size_t bytes_max, RdbReader* reader) {
  const auto text = reader->String();
  if (!text) return nullptr;
  const std::string header(*text);
  const auto bytes = reader->Count();
  if (!bytes || *bytes > bytes_max) return nullptr;
  std::unique_ptr<BloomFilter> filter = BloomFilter::FromHeader(header, *bytes);
  if (filter == nullptr || filter->bits_bytes() != *bytes) return nullptr;
  size_t at = 0;
  const bool is_read = reader->RawPieces(*bytes, [&](std::string_view piece) {
    filter->SetBits(at, piece);
    at += piece.size();
  });
  return is_read ? std::move(filter) : nullptr;
}

// --- Count-min sketches ---

void WriteRdbCountMinSketch(const CountMinSketch& sketch, RdbWriter* writer) {
  writer->Length(sketch.shape().width);
  writer->Length(sketch.shape().depth);
  writer->Little(static_cast<uint64_t>(sketch.total()), 8);
  WritePieces(sketch.counter_bytes(), writer);
}

std::unique_ptr<CountMinSketch> ReadRdbCountMinSketch(size_t bytes_max, RdbReader* reader) {
  const auto width = reader->Length();
  const auto depth = width ? reader->Length() : std::nullopt;
  const auto total = depth ? reader->Little(8) : std::nullopt;
  if (!total || *total > INT64_MAX) return nullptr;
  const CountMinSketch::Shape shape = {.width = *width, .depth = *depth};
  if (!shape.IsPossible(bytes_max) || !IsNext(CountMinSketch::CounterBytesOf(shape), reader)) {
    return nullptr;
  }
  auto sketch = std::make_unique<CountMinSketch>(shape);
  if (!ReadPieces(sketch->mutable_counter_bytes(), reader)) return nullptr;
  sketch->set_total(static_cast<int64_t>(*total));
  return sketch;
}

// --- Top-k ---

void WriteRdbTopK(const TopK& top, RdbWriter* writer) {
  writer->Length(top.options().k);
  writer->Length(top.options().width);
  writer->Length(top.options().depth);
  writer->Double(top.options().decay);
  writer->Little(top.chance(), 8);
  WritePieces(top.bucket_bytes(), writer);
  writer->Length(top.listed());
  top.ForEachListed([writer](std::string_view item, uint32_t count) {
    writer->String(item);
    writer->Length(count);
  });
}

std::unique_ptr<TopK> ReadRdbTopK(size_t bytes_max, RdbReader* reader) {
  const auto k = reader->Length();
  const auto width = k ? reader->Length() : std::nullopt;
  const auto depth = width ? reader->Length() : std::nullopt;
  const auto decay = depth ? reader->Double() : std::nullopt;
  const auto chance = decay ? reader->Little(8) : std::nullopt;
  if (!chance || *k > TopK::kListMax || !(*decay > 0 && *decay <= 1)) return nullptr;
  const TopK::Options options = {
      .k = static_cast<uint32_t>(*k), .width = *width, .depth = *depth, .decay = *decay};
  if (!options.IsPossible(bytes_max) || !IsNext(TopK::BucketBytesOf(options), reader)) {
    return nullptr;
  }
  auto top = std::make_unique<TopK>(options, *chance);
  if (!ReadPieces(top->mutable_bucket_bytes(), reader)) return nullptr;
  const auto listed = reader->Count();
  if (!listed) return nullptr;
  for (uint64_t i = 0; i < *listed; ++i) {
    const auto text = reader->String();
    if (!text) return nullptr;
    const std::string item(*text);
    const auto count = reader->Length();
    if (!count || *count == 0 || *count > UINT32_MAX ||
        !top->AppendToList(item, static_cast<uint32_t>(*count))) {
      return nullptr;
    }
  }
  return top->HasDuplicates() ? nullptr : std::move(top);
}

}  // namespace dfly
