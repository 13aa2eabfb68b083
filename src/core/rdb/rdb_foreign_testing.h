// SPDX-License-Identifier: Apache-2.0
// Values as older and newer servers write them to RDB files: for tests.
#pragma once

#include <cstdint>
#include <string>

#include "core/rdb/rdb_value_testing.h"
#include "helio/base/random.h"

namespace dfly::testkit {

// What follows `*type` in a file: a value of a form that others write, and most of which we only
// read.
inline std::string ForeignRdb(helio::Random* random, uint8_t* type) {
  Texts texts, entries;
  const size_t count = 2 + 2 * random->Uniform(random->OneIn(8) ? 100 : 5);
  for (size_t i = 0; i < count; ++i) {
    texts.push_back(i % 2 == 1 ? std::to_string(random->Uniform(1000))
                               : "m" + std::to_string(i) + std::string(random->Uniform(30), 'x'));
    entries.push_back(ZiplistText(texts.back()));
  }
  std::string bytes;
  StringSink sink(&bytes);
  RdbWriter writer(&sink);
  constexpr RdbType kTypes[] = {RdbType::kList,
                                RdbType::kSet,
                                RdbType::kHash,
                                RdbType::kZset,
                                RdbType::kListZiplist,
                                RdbType::kZsetZiplist,
                                RdbType::kHashZiplist,
                                RdbType::kSetListpack,
                                RdbType::kHashListpack,
                                RdbType::kListQuicklist,
                                RdbType::kZsetListpack,
                                RdbType::kString,
                                RdbType::kSetIntset,
                                RdbType::kStreamListpacks,
                                RdbType::kStreamListpacks2,
                                RdbType::kStreamListpacks3,
                                RdbType::kHashMetadataPreGa,
                                RdbType::kHashListpackExPreGa,
                                RdbType::kHashListpackEx,
                                RdbType::kHashValkey};
  const RdbType chosen = kTypes[random->Uniform(std::size(kTypes))];
  *type = static_cast<uint8_t>(chosen);
  switch (chosen) {
    case RdbType::kList:
    case RdbType::kSet:
      writer.Length(count);
      for (size_t i = 0; i < count; ++i) writer.String(texts[i - i % 2] + (i % 2 ? "y" : ""));
      break;
    case RdbType::kHash:
      writer.Length(count / 2);
      for (const std::string& text : texts) writer.String(text);
      break;
    case RdbType::kZset:
      writer.Length(count / 2);
      for (size_t i = 0; i < count; i += 2) {
        writer.String(texts[i]);
        writer.Byte(static_cast<uint8_t>(texts[i + 1].size()));
        writer.Raw(texts[i + 1]);
      }
      break;
    case RdbType::kListQuicklist:
      writer.Length(2);
      writer.Raw(Blob(Ziplist(entries)));
      writer.Raw(Blob(Ziplist(entries)));
      break;
    case RdbType::kSetListpack:
    case RdbType::kHashListpack:
    case RdbType::kZsetListpack:
      for (size_t i = 1; chosen == RdbType::kSetListpack && i < count; i += 2)
        texts[i] = texts[i - 1] + "y";
      writer.Raw(Blob(Listpack(texts)));
      break;
    case RdbType::kSetIntset: {
      const size_t width = size_t{2} << random->Uniform(3);
      std::string block = {static_cast<char>(width), 0, 0, 0, static_cast<char>(count), 0, 0, 0};
      for (size_t i = 0; i < count; ++i) {
        block += {static_cast<char>(i), 0};  // none twice
        for (size_t k = 2; k < width; ++k) block += static_cast<char>(random->Next());
      }
      writer.Raw(Blob(block));
      break;
    }
    case RdbType::kStreamListpacks:
    case RdbType::kStreamListpacks2:
    case RdbType::kStreamListpacks3:
      writer.Raw(StreamParts().Bytes(chosen));
      break;
    case RdbType::kHashMetadataPreGa:
      writer.Length(count / 2);
      for (size_t i = 0; i < count; i += 2) {
        writer.Length(random->OneIn(2) ? 0 : random->Uniform(1'000'000));
        writer.String(texts[i]);
        writer.String(texts[i + 1]);
      }
      break;
    case RdbType::kHashValkey:
      writer.Length(count / 2);
      for (size_t i = 0; i < count; i += 2) {
        writer.String(texts[i]);
        writer.String(texts[i + 1]);
        writer.Little(random->OneIn(2) ? UINT64_MAX : random->Uniform(1'000'000), 8);
      }
      break;
    case RdbType::kHashListpackEx:
      writer.Little(random->Next(), 8);
      [[fallthrough]];
    case RdbType::kHashListpackExPreGa: {
      Texts triples;
      for (size_t i = 0; i < count; i += 2) {
        const uint64_t at_ms = random->OneIn(2) ? 0 : random->Uniform(1'000'000);
        triples.insert(triples.end(), {texts[i], texts[i + 1], std::to_string(at_ms)});
      }
      writer.Raw(Blob(Listpack(triples)));
      break;
    }
    case RdbType::kString:  // 300 bytes, compressed
      writer.Byte(0xC3);
      writer.Length(8);
      writer.Length(300);
      writer.Raw(std::string_view("\x00x\xe0\xff\x00\xe0\x1a\x00", 8));
      break;
    default:
      writer.Raw(Blob(Ziplist(entries)));
  }
  writer.Flush();
  return bytes;
}

}  // namespace dfly::testkit
