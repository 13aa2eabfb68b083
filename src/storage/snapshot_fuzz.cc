// SPDX-License-Identifier: Apache-2.0
// Files of snapshots: whatever the bytes are, they are refused with a text that names the file, or
// what is loaded keeps all invariants, and can be saved and loaded again, in both formats, and is
// the same then. What a file makes the server allocate is bounded by its size.
//
//   input   how (1): bits 0 and 1 what the rest is, bit 2: checksums are made right, bits 3 to 5:
//           of a stream, how it is framed
//           the bytes of the file, or of the stream in it
#include <xxhash.h>

#include <memory>

#include "core/rdb/rdb_foreign_testing.h"
#include "core/rdb/rdb_skip.h"
#include "core/text/crc64.h"
#include "engine/hops/transaction.h"
#include "helio/base/clock.h"
#include "helio/base/fuzz_target.h"
#include "storage/entry_reader.h"
#include "storage/entry_writer.h"
#include "storage/memory_files.h"
#include "storage/rdb_file.h"
#include "storage/snapshot_load.h"
#include "storage/snapshot_save.h"
#include "storage/snapshot_testing.h"
#include "storage/summary.h"

#include <gtest/gtest.h>

#ifdef DFLY_SANITIZED
// No input is larger than some 100 KB.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=64"; }
#endif

namespace dfly {
namespace {

using helio::Random;
using testkit::StoreModel;

enum class Kind : uint8_t {
  kRdb,        // an RDB file
  kShardFile,  // of our own format
  kSummary,    // the same
  kStream      // the stream of a file of our own format
};

// Bits of the input's first byte.
constexpr uint8_t kKindBits = 3;
constexpr uint8_t kIsMended = 4;
constexpr unsigned kFramesShift = 3;

constexpr uint64_t kGeneration = 77;
constexpr size_t kStringMax = 20'000;
// Zstandard makes 64 KB out of some 20 bytes, an entry of a few bytes becomes a table.
constexpr uint64_t kBytesForEach = 4096;
constexpr uint64_t kBytesAtLeast = 1 << 20;

class Store {
 public:
  Store(helio::ProactorPool* pool, uint32_t shards) : shards_(pool, shards, 4, kStringMax) {}

  std::string Load(MemoryFiles* files, SnapshotFormat format) {
    shards_.AwaitOnAll([](Shard& shard) { shard.FlushAll(FlushMode::kSync); });
    LoadProgress progress;
    SnapshotLoader loader(&shards_, files, &progress);
    const SnapshotPath path = {.directory = "", .name = "dump", .format = format};
    loader.ReadHashSeed(path);  // whatever it is: all keys of this process have one
    return loader.Load(path);
  }
  void Save(MemoryFiles* files, SnapshotFormat format) {
    SaveOptions options;
    options.path = {.directory = "", .name = "dump", .format = format};
    options.codec = FrameCodec::kLz4;
    options.redis_version = "7.0.15";
    options.sizes.large = 500;
    SaveProgress progress;
    const SaveResult saved = SaveSnapshot(
        &shards_, files, options, [] { return SnapshotExtras(); }, &progress);
    CHECK_EQ(saved.error, "");
  }
  StoreModel Content() { return testkit::ContentOf(shards_); }
  uint64_t Bytes() {
    uint64_t bytes = 0;
    shards_.AwaitOnAll([&bytes](Shard& shard) { bytes += shard.used_bytes(); });
    return bytes;
  }

 private:
  ShardSet shards_;
};

// On one thread, so that a failure comes again. They live as long as the process.
struct World {
  World() {
    testkit::RegisterRdbTypes();
    pool.Start();
    first = std::make_unique<Store>(&pool, 2);
    second = std::make_unique<Store>(&pool, 3);
  }
  helio::ProactorPool pool{{.threads = 1}};
  std::unique_ptr<Store> first, second;
};
World& TheWorld() {
  static World* const world = new World;
  return *world;
}

// ------------------------------------------------------------------------------- checksums

void PutLittle(uint64_t number, size_t bytes, size_t at, std::string* to) {
  for (size_t i = 0; i < bytes; ++i) (*to)[at + i] = static_cast<char>(number >> (8 * i));
}
uint64_t GetLittle(const std::string& from, size_t at, size_t bytes) {
  return helio::fuzz::Feed(std::string_view(from).substr(at)).Number(bytes);
}

// As storage/rdb_file.h says it.
std::string MendRdb(std::string file) {
  file.resize(std::max<size_t>(file.size(), 9));
  file.replace(0, 7, file[0] == 'V' ? "VALKEY0" : "REDIS00");
  file.push_back('\xFF');
  const uint64_t sum = Crc64(0, file);
  file.resize(file.size() + 8);
  PutLittle(sum, 8, file.size() - 8, &file);
  return file;
}

// As storage/frame_file.h says it.
uint64_t FrameSum(std::string_view header, std::string_view bytes, uint64_t seed) {
  const uint64_t of_header = XXH3_64bits_withSeed(header.data(), header.size(), seed);
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), of_header);
}
std::string MendFrames(std::string file, uint32_t number) {
  constexpr size_t kHead = 40, kFrame = 24, kLast = 16;
  file.resize(std::max(file.size(), kHead + kFrame + kLast));
  file.replace(0, 8, "DFLYSNAP");
  PutLittle(1, 4, 8, &file);
  PutLittle(number, 4, 12, &file);
  PutLittle(kGeneration, 8, 24, &file);
  const std::string_view all = file;
  PutLittle(FrameSum(all.substr(0, 32), "", 0), 8, 32, &file);
  const auto mend = [&](size_t at, size_t bytes) {
    const uint64_t sum = FrameSum(all.substr(at, 16), all.substr(at + kFrame, bytes), kGeneration);
    PutLittle(sum, 8, at + 16, &file);
  };
  const size_t last = file.size() - kFrame - kLast;
  for (size_t at = kHead; at + kFrame <= last;) {
    const size_t bytes = GetLittle(file, at, 4);
    if (bytes > last - at - kFrame) break;
    mend(at, bytes);
    at += kFrame + bytes;
  }
  mend(last, kLast);
  return file;
}

// ----------------------------------------------------------------------------------- files

// Keys of a stream, as far as it makes sense.
uint64_t KeysOf(std::string_view stream) {
  ViewSource source(stream);
  EntryReader entries(&source, kStringMax, false);
  uint64_t keys = 0;
  while (true) {
    const EntryReader::Item item = entries.Next();
    if (item == EntryReader::Item::kEnd || item == EntryReader::Item::kError) return keys;
    if (item != EntryReader::Item::kEntry) continue;
    if (!SkipRdbValue(entries.type(), &entries.value_source())) return keys;
    ++keys;
  }
}

FrameFileId IdOf(uint32_t number) {
  return {.generation = kGeneration, .number = number, .count = 1};
}

void WriteFrames(MemoryFiles* files, const std::string& path, uint32_t number,
                 std::string_view stream, uint8_t how, uint64_t keys) {
  std::unique_ptr<OutputFile> file;
  CHECK(!files->Create(path, &file));
  FrameFileWriter writer(std::move(file), IdOf(number), static_cast<FrameCodec>(how % 3), 1);
  const size_t piece = how < 3 ? SIZE_MAX : 50;  // whole, or so that most things are in two frames
  while (!stream.empty()) {
    writer.Write(stream.substr(0, piece));
    stream.remove_prefix(std::min(piece, stream.size()));
  }
  CHECK(!writer.Finish(keys));
}

const SnapshotPath kOurs = {.directory = "", .name = "dump", .format = SnapshotFormat::kOurs};
const SnapshotPath kRdb = {.directory = "", .name = "dump", .format = SnapshotFormat::kRdb};

std::string SimpleStream() {
  std::string stream;
  StringSink sink(&stream);
  EntryWriter writer(&sink);
  CompactValue value;
  value.SetString("text");
  writer.Entry("one", {}, value);
  writer.Flush();
  return stream;
}

// Makes the files that an input stands for; returns their format.
SnapshotFormat MakeFiles(std::string_view data, MemoryFiles* files) {
  const auto how = static_cast<uint8_t>(data.empty() ? 0 : data[0]);
  const bool is_mended = (how & kIsMended) != 0;
  const std::string bytes(data.substr(std::min<size_t>(1, data.size())));
  const uint8_t frames = how >> kFramesShift & 7;
  const std::string shard = kOurs.ShardFile(kGeneration, 0);
  switch (static_cast<Kind>(how & kKindBits)) {
    case Kind::kRdb:
      files->files[kRdb.Main()] = is_mended ? MendRdb(bytes) : bytes;
      return SnapshotFormat::kRdb;
    case Kind::kSummary:
      WriteFrames(files, shard, 0, SimpleStream(), 0, 1);
      files->files[kOurs.Main()] = is_mended ? MendFrames(bytes, kSummaryNumber) : bytes;
      return SnapshotFormat::kOurs;
    case Kind::kStream: {
      const uint64_t keys = KeysOf(bytes);
      WriteFrames(files, shard, 0, bytes, frames, keys);
      WriteFrames(files, kOurs.Main(), kSummaryNumber, "", 0, keys);
      return SnapshotFormat::kOurs;
    }
    case Kind::kShardFile:
      break;
  }
  const std::string file = is_mended ? MendFrames(bytes, 0) : bytes;
  files->files[shard] = file;
  const uint64_t keys = file.size() < 8 ? 0 : GetLittle(file, file.size() - 8, 8);
  WriteFrames(files, kOurs.Main(), kSummaryNumber, "", 0, keys);
  return SnapshotFormat::kOurs;
}

// ----------------------------------------------------------------------------------- check

void CheckErrorText(const std::string& error) {
  CHECK(error.starts_with("dump")) << error;
  CHECK_LT(error.size(), 600u) << error;
  for (char c : error) CHECK(c >= ' ' && c <= '~') << error;
}

// Returns the error of the load.
std::string LoadInput(std::string_view data) {
  World& world = TheWorld();
  std::string error;
  world.pool.at(0)->AwaitFiber("fuzz", [&] {
    MemoryFiles files;
    const SnapshotFormat format = MakeFiles(data, &files);
    error = world.first->Load(&files, format);
    CHECK_LE(world.first->Bytes(), kBytesAtLeast + kBytesForEach * data.size());
    const StoreModel content = world.first->Content();
    if (!error.empty()) return CheckErrorText(error);
    for (SnapshotFormat again : {SnapshotFormat::kRdb, SnapshotFormat::kOurs}) {
      MemoryFiles saved;
      world.first->Save(&saved, again);
      CHECK_EQ(world.second->Load(&saved, again), "");
      CHECK(world.second->Content() == content);
    }
  });
  return error;
}

void CheckOneInput(std::string_view data) { LoadInput(data); }

// ------------------------------------------------------------------------------ valid files

using Compression = RdbWriter::Compression;

// Entries as we write them, and as others do.
class ExampleStream {
 public:
  ExampleStream(Random* random, const SnapshotForm& form, RdbFamily family)
      : random_(*random), form_(form), family_(family) {
    testkit::RegisterRdbTypes();
  }

  std::string Make() {
    for (uint64_t i = random_.Uniform(3); i > 0; --i) Ours([&](EntryWriter& w) { AddExtra(w); });
    const size_t keys = random_.Uniform(random_.OneIn(8) ? 40 : 6);
    int db = 0;
    for (size_t i = 0; i < keys; ++i) {
      if (random_.OneIn(4)) {
        db = std::min(3, db + static_cast<int>(random_.Uniform(2)));
        Ours([&](EntryWriter& w) {
          w.SelectDb(db);
          w.Resize(random_.Uniform(keys + 1), random_.Uniform(3));
        });
      }
      const std::string key =
          "k" + std::to_string(i) + ":" + testkit::RdbValues::RandomText(&random_);
      random_.OneIn(3) ? AddForeign(key) : AddOurs(key);
    }
    return std::move(stream_);
  }

 private:
  template <typename F>
  void Ours(F&& write) {
    StringSink sink(&stream_);
    EntryWriter writer(&sink, form_);
    write(writer);
    writer.Flush();
  }
  int64_t Future() {
    return helio::UnixMillis() + 1'000'000'000 + static_cast<int64_t>(random_.Uniform(1000));
  }

  void AddExtra(EntryWriter& writer) {
    switch (random_.Uniform(5)) {
      case 0:
        return writer.Function("#!lua name=a\nreturn 1");
      case 1:
        return writer.Aux(kAuxScript, "return 1");
      case 2:
        return writer.Aux(kAuxPlacement, "tag with blanks 1");
      case 3:
        return writer.Aux(kAuxShards, "3");
      default:
        return writer.Aux("redis-ver", "7.2.4");
    }
  }
  void AddOurs(const std::string& key) {
    CompactValue value;
    do {
      value = testkit::RdbValues().MakeAny(&random_);
    } while (value.IsEmptyObject());
    EntryFacts facts;
    if (random_.OneIn(3)) facts.deadline_ms = random_.OneIn(4) ? 1000 : Future();
    facts.is_sticky = random_.OneIn(4);
    if (random_.OneIn(4)) {
      facts.memcached.cas = random_.Next() >> random_.Uniform(64);
      facts.memcached.client_flags = static_cast<uint32_t>(random_.Next());
      facts.memcached.set_marks(static_cast<uint32_t>(random_.Uniform(4)));
    }
    Ours([&](EntryWriter& writer) { writer.Entry(key, facts, value); });
  }
  void AddForeign(const std::string& key) {
    StringSink sink(&stream_);
    RdbWriter writer(&sink);
    const auto opcode = [&](RdbOpcode code) { writer.Byte(static_cast<uint8_t>(code)); };
    switch (random_.Uniform(5)) {
      case 0:
        opcode(RdbOpcode::kSlotInfo);
        for (int i = 0; i < 3; ++i) writer.Length(random_.Uniform(20'000));
        break;
      case 1:
        opcode(RdbOpcode::kIdle);
        writer.Length(random_.Uniform(100));
        break;
      case 2:
        opcode(RdbOpcode::kFrequency);
        writer.Byte(5);
        break;
      case 3:
        opcode(RdbOpcode::kDeadline);
        writer.Little(static_cast<uint64_t>(Future() / 1000), 4);
        break;
      default:
        break;
    }
    uint8_t type = 0;
    std::string bytes;
    do {
      bytes = testkit::ForeignRdb(&random_, &type);
    } while (RdbTypeIn(family_, RdbNumberOf(type)) != type);  // the others have it
    writer.Byte(RdbNumberOf(type));
    writer.String(key);
    writer.Raw(bytes);
    writer.Flush();
  }

  Random& random_;
  const SnapshotForm form_;
  const RdbFamily family_;
  std::string stream_;
};

std::string MakeExample(Random* random) {
  const auto kind = static_cast<Kind>(random->Uniform(4));
  SnapshotForm form;
  if (kind == Kind::kRdb) form.dialect = SnapshotDialect::kRedis;
  if (random->OneIn(2)) form.compression = Compression::kLzf;
  const bool is_valkey = kind == Kind::kRdb && random->OneIn(3);
  std::string stream =
      ExampleStream(random, form, is_valkey ? RdbFamily::kValkey : RdbFamily::kRedis).Make();
  const auto frames = static_cast<uint8_t>(random->Uniform(8));
  std::string data(1, static_cast<char>(static_cast<unsigned>(kind) | frames << kFramesShift |
                                        (random->OneIn(4) ? 0 : kIsMended)));
  MemoryFiles files;
  switch (kind) {
    case Kind::kRdb: {
      constexpr const char* kVersions[] = {"0003", "0005", "0009", "0010", "0011", "0012", "0099"};
      const std::string file =
          (is_valkey ? "VALKEY080" : std::string("REDIS") + kVersions[random->Uniform(7)]) + stream;
      // Who mends it adds the end.
      data += (data[0] & kIsMended) != 0 ? file : MendRdb(file);
      break;
    }
    case Kind::kShardFile:
      WriteFrames(&files, "file", 0, stream, frames, KeysOf(stream));
      data += files.files["file"];
      break;
    case Kind::kSummary:
      stream.clear();
      if (random->OneIn(2)) {
        StringSink sink(&stream);
        EntryWriter writer(&sink);
        writer.Aux(kAuxShards, "1");
        writer.Aux(kAuxHashSeed, "12345");
        writer.SelectDb(0);
        writer.Resize(1, 0);
        WriteExtras({.functions = {"f"},
                     .scripts = {"s"},
                     .placements = {{"t", 0}},
                     .place = {.id = std::string(40, 'f'), .offset = 1, .db_index = 2}},
                    &writer);
      }
      WriteFrames(&files, "file", kSummaryNumber, stream, frames, 1);
      data += files.files["file"];
      break;
    case Kind::kStream:
      data += stream;
      break;
  }
  CHECK_EQ(LoadInput(data), "") << "no example";
  return data;
}

}  // namespace

FUZZ_TARGET(SnapshotFuzz, HostileFilesAreRefusedOrLoadedAndSavedAgain,
            {.check = CheckOneInput, .make_example = MakeExample, .rounds = 30'000})

}  // namespace dfly
