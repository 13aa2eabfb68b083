// SPDX-License-Identifier: Apache-2.0
#include "core/sketches/bloom_filter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/table/compact_value.h"
#include "core/text/byte_stream.h"
#include "core/text/rdb_encoding.h"
#include "helio/base/logging.h"

namespace dfly {
namespace {

// After so many halvings the error rates of further layers add nothing that could be measured, and
// more hash functions would only cost time.
constexpr size_t kHalvingsMax = 32;

constexpr std::string_view kMagic = "DBF1";
constexpr size_t kHeaderBytes = 4 + 8 + 8 + 4 + 4 + 8;

}  // namespace

void BloomFilter::RegisterType() {
  RegisterObjectType(
      ValueType::kBloomFilter,
      {.destroy = [](void* object, uint8_t) { delete static_cast<BloomFilter*>(object); },
       .bytes = [](const void* object,
                   uint8_t) { return static_cast<const BloomFilter*>(object)->bytes(); },
       .is_empty = [](const void*, uint8_t) { return false; },
       .clone = [](const void* object, uint8_t) -> void* {
         return static_cast<const BloomFilter*>(object)->Clone();
       },
       .encoding_name = [](const void*, uint8_t) -> std::string_view { return "raw"; }});
}

std::unique_ptr<BloomFilter> BloomFilter::Make(const Options& options, size_t bytes_max) {
  DCHECK(options.error_rate > 0 && options.error_rate < 1);
  DCHECK_GT(options.capacity, 0u);
  auto filter = std::make_unique<BloomFilter>(options);
  if (!filter->Grow(bytes_max)) return nullptr;
  return filter;
}

BloomFilter::~BloomFilter() {
  for (const Layer& layer : layers_) Free(layer.words);
}

BloomFilter* BloomFilter::Clone() const {
  auto copy = std::make_unique<BloomFilter>(options_);
  while (copy->layers() < layers()) {
    const bool has_grown = copy->Grow(SIZE_MAX);
    DCHECK(has_grown);
    std::memcpy(copy->layers_.back().words, layers_[copy->layers() - 1].words,
                copy->layers_.back().bytes());
  }
  copy->items_ = items_;
  return copy.release();
}

// --- Layers ---

// With k functions and m bits for each item, a full layer says yes to (1 - e^(-k/m))^k of what was
// never added. k is the best for the rate that is wanted, -log2(rate), rounded up; solving for m
// makes good for the rounding. Of what is added, up to -ln(1-rate)/rate times the capacity is seen
// before so many were new (that is exact for one function, and enough for more).
std::optional<BloomFilter::Shape> BloomFilter::NextShape() const {
  const size_t number = layers_.size();
  uint64_t capacity = options_.capacity;
  double halvings = 0;
  if (options_.expansion > 0) {
    halvings = 1 + static_cast<double>(std::min(number, kHalvingsMax));
    if (number > 0 && __builtin_mul_overflow(layers_.back().shape.capacity,
                                             uint64_t{options_.expansion}, &capacity)) {
      return std::nullopt;
    }
  }
  uint64_t sum;
  if (__builtin_add_overflow(capacity_, capacity, &sum) || sum > INT64_MAX) return std::nullopt;
  const double log2_rate = std::log2(options_.error_rate) - halvings;
  const double hashes = std::max(1.0, std::ceil(-log2_rate));
  const double bits_each = -hashes / std::log1p(-std::exp2(log2_rate / hashes));
  const double rate = std::exp2(log2_rate);
  const double seen = static_cast<double>(capacity) * -std::log1p(-rate) / rate;
  const double bits = std::ceil(bits_each * seen);
  if (!(bits < 0x1p60)) return std::nullopt;
  const uint64_t words = static_cast<uint64_t>(bits) / 64 + 1;
  return Shape{.capacity = capacity, .bits = words * 64, .hashes = static_cast<uint32_t>(hashes)};
}

bool BloomFilter::Grow(size_t bytes_max) {
  const std::optional<Shape> shape = NextShape();
  if (!shape || layers_.size() == kLayersMax || bits_bytes_ > bytes_max ||
      shape->bits / 8 > bytes_max - bits_bytes_) {
    return false;
  }
  auto* words = static_cast<uint64_t*>(AllocZeroed(shape->bits / 8));
  heap_bytes_ += UsableSize(words);
  layers_.push_back({.shape = *shape, .words = words});
  capacity_ += shape->capacity;
  bits_bytes_ += shape->bits / 8;
  return true;
}

// --- Items ---

bool BloomFilter::Layer::Has(const ItemHash& item) const {
  for (uint32_t i = 0; i < shape.hashes; ++i) {
    const uint64_t bit = item.At(i, shape.bits);
    if ((words[bit / 64] >> (bit % 64) & 1) == 0) return false;
  }
  return true;
}

void BloomFilter::Layer::Add(const ItemHash& item) {
  for (uint32_t i = 0; i < shape.hashes; ++i) {
    const uint64_t bit = item.At(i, shape.bits);
    words[bit / 64] |= uint64_t{1} << (bit % 64);
  }
}

bool BloomFilter::Has(const ItemHash& item) const {
  // The last layers have most of the items.
  return std::any_of(layers_.rbegin(), layers_.rend(),
                     [&item](const Layer& layer) { return layer.Has(item); });
}

BloomFilter::AddResult BloomFilter::Add(const ItemHash& item, size_t bytes_max) {
  if (Has(item)) return AddResult::kWasThere;
  if (items_ >= capacity_) {
    if (options_.expansion == 0) return AddResult::kFull;
    if (!Grow(bytes_max)) return AddResult::kTooLarge;
  }
  layers_.back().Add(item);
  ++items_;
  return AddResult::kAdded;
}

// --- As bytes ---

std::string BloomFilter::Header() const {
  std::string header(kMagic);
  StringSink sink(&header);
  RdbWriter writer(&sink);
  writer.Little(std::bit_cast<uint64_t>(options_.error_rate), 8);
  writer.Little(options_.capacity, 8);
  writer.Little(options_.expansion, 4);
  writer.Little(layers_.size(), 4);
  writer.Little(items_, 8);
  writer.Flush();
  return header;
}

std::unique_ptr<BloomFilter> BloomFilter::FromHeader(std::string_view header, size_t bytes_max) {
  if (header.size() != kHeaderBytes || !header.starts_with(kMagic)) return nullptr;
  ViewSource source(header.substr(kMagic.size()));
  RdbReader reader(&source, 0);
  Options options;
  options.error_rate = std::bit_cast<double>(*reader.Little(8));
  options.capacity = *reader.Little(8);
  options.expansion = static_cast<uint32_t>(*reader.Little(4));
  const uint64_t layers = *reader.Little(4);
  const uint64_t items = *reader.Little(8);
  if (!(options.error_rate > 0 && options.error_rate < 1) || options.capacity == 0 || layers == 0 ||
      layers > (options.expansion == 0 ? 1 : kLayersMax)) {
    return nullptr;
  }
  std::unique_ptr<BloomFilter> filter = Make(options, bytes_max);
  while (filter != nullptr && filter->layers() < layers) {
    // Each but the last is full.
    if (items < filter->capacity() || !filter->Grow(bytes_max)) filter = nullptr;
  }
  if (filter == nullptr || items > filter->capacity()) return nullptr;
  filter->items_ = items;
  return filter;
}

std::string_view BloomFilter::BitsAt(size_t offset, size_t most) const {
  DCHECK_LT(offset, bits_bytes_);
  auto layer = layers_.begin();
  for (; offset >= layer->bytes(); ++layer) offset -= layer->bytes();
  return {reinterpret_cast<const char*>(layer->words) + offset,
          std::min(most, layer->bytes() - offset)};
}

bool BloomFilter::SetBits(size_t offset, std::string_view bytes) {
  if (offset > bits_bytes_ || bytes.size() > bits_bytes_ - offset) return false;
  for (const Layer& layer : layers_) {
    if (bytes.empty()) break;
    if (offset >= layer.bytes()) {
      offset -= layer.bytes();
      continue;
    }
    const size_t part = std::min(bytes.size(), layer.bytes() - offset);
    std::memcpy(reinterpret_cast<char*>(layer.words) + offset, bytes.data(), part);
    bytes.remove_prefix(part);
    offset = 0;
  }
  return true;
}

}  // namespace dfly
