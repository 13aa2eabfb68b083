// SPDX-License-Identifier: Apache-2.0
// Bloom filters, count-min sketches and top-k lists in RDB files, for core/rdb/rdb_value.h. Redis'
// format has no words for them, so these are ours.
//
//   bloom filter      string: BloomFilter::Header; string: the bits of all layers
//   count-min sketch  width, depth, total (8 bytes); string: its counters, row by row
//   top-k             k, width, depth, decay (8 bytes), state of chance (8 bytes); string: its
//                     buckets, row by row; count of listed items, items
//   item              string: its bytes; its count
//
// Numbers are lengths where nothing is said; others have their lowest byte first. The strings of
// bits, counters and buckets are never compressed, so that they are written and read in pieces.
#pragma once

#include <memory>

#include "core/sketches/bloom_filter.h"
#include "core/sketches/count_min_sketch.h"
#include "core/sketches/top_k.h"
#include "core/text/rdb_encoding.h"

namespace dfly {

// All that follows the type.
void WriteRdbBloomFilter(const BloomFilter& filter, RdbWriter* writer);
void WriteRdbCountMinSketch(const CountMinSketch& sketch, RdbWriter* writer);
void WriteRdbTopK(const TopK& top, RdbWriter* writer);

// Null if it makes no sense, or would take more than `bytes_max`; memory is taken only for what
// follows in the source.
std::unique_ptr<BloomFilter> ReadRdbBloomFilter(size_t bytes_max, RdbReader* reader);
std::unique_ptr<CountMinSketch> ReadRdbCountMinSketch(size_t bytes_max, RdbReader* reader);
std::unique_ptr<TopK> ReadRdbTopK(size_t bytes_max, RdbReader* reader);

}  // namespace dfly
