// SPDX-License-Identifier: Apache-2.0
// For tests on schedules from a seed: a replica that the test plays. It follows a server by PSYNC,
// leaves in the middle, and comes back for what it lacks; what it got is loaded as a log is, and
// can be compared.
#pragma once

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/persistence/effect_stream.h"
#include "server/persistence/log_applier.h"
#include "server/schedules/schedule_harness.h"
#include "storage/log/log_directory.h"
#include "storage/log/log_loader.h"
#include "storage/memory_files.h"
#include "storage/snapshot_testing.h"

namespace dfly {

// The content of the append-only log that `files` have in `appendonlydir`, carried out on shards of
// its own. `error` gets what is wrong. From a fiber of a proactor of `server`.
inline testkit::StoreModel ContentOfLog(Server& server, std::map<std::string, std::string> files,
                                        std::string* error) {
  struct Parts final : LoadedParts {
    std::string TakeExtras(const SnapshotExtras&) override { return ""; }
    std::string Apply(Args) override { return ""; }
    void RunScript(CoordinatorContext&, Args, ReplySink& reply) override {
      reply.Error("ERR a script is in the stream");
    }
  };
  MemoryFiles loaded;
  loaded.Restart(std::move(files));
  ShardSet shards(&server.state().pool, 3, server.state().options.db_count);
  Parts parts;
  ShardsApplier applier(&server.state().commands, &shards, &parts);
  LogDirectory directory(
      &loaded, {.dir = "", .directory_name = "appendonlydir", .file_name = "appendonly.aof"});
  *error = directory.Open();
  if (!error->empty()) return {};
  LoadProgress progress;
  LogLoader loader(&shards, &loaded, &directory, &applier, &progress);
  *error = loader.Load(false);
  if (error->empty() && applier.failed() > 0) *error = applier.first_failure();
  return testkit::ContentOf(shards);
}

// What differs, for a message; nothing if they are the same.
inline std::string Difference(const testkit::StoreModel& wanted, const testkit::StoreModel& found) {
  std::string text;
  const auto add = [&text](const char* what, const auto& entry) {
    absl::StrAppend(&text, "\n  ", what, " ", entry.first.first, ".", entry.first.second, " =");
    for (const std::string& line : entry.second) absl::StrAppend(&text, " ", line);
  };
  for (const auto& entry : wanted) {
    const auto it = found.find(entry.first);
    if (it != found.end() && it->second == entry.second) continue;
    add("wanted", entry);
    if (it != found.end()) add(" found", *it);
  }
  for (const auto& entry : found) {
    if (!wanted.contains(entry.first)) add("besides", entry);
  }
  return text;
}

// What a replica has got.
struct ReplicaData {
  std::string id;  // of the stream; empty: it has nothing to go on with
  uint64_t offset = 0;
  std::string copy, stream;
  uint64_t copies = 0, continued = 0;  // how often it got them, and how often it went on

  // The whole of SET key 1, or a copy with that key.
  bool HasSet(const std::string& key) const {
    return absl::StrContains(copy, key) ||
           absl::StrContains(stream, absl::StrCat(key, "\r\n$1\r\n1\r\n"));
  }
  // The same as the files of a log.
  std::map<std::string, std::string> Files() const {
    return {{"appendonlydir/appendonly.aof.manifest",
             "file appendonly.aof.1.base.rdb seq 1 type b\n"
             "file appendonly.aof.1.incr.aof seq 1 type i\n"},
            {"appendonlydir/appendonly.aof.1.base.rdb", copy},
            {"appendonlydir/appendonly.aof.1.incr.aof",
             absl::StrReplaceAll(stream, {{std::string(kStreamGetAck), ""}})}};
  }
};

class ReplicaDouble final : public ScheduledClient {
 public:
  // It goes on with `data`, which outlives it, and drops its connection `leaves` times, when the
  // seed says so. It is done when it has done that, and data->HasSet(last_key).
  ReplicaDouble(Server* server, helio::Random* random, ReplicaData* data, uint64_t leaves,
                std::string last_key)
      : server_(*server),
        random_(*random),
        data_(*data),
        leaves_(leaves),
        last_key_(std::move(last_key)),
        idle_(1 + random->Uniform(400)) {}

  std::string Check() override {
    if (is_done_) return "";
    if (idle_ > 0) {
      if (--idle_ == 0) Connect();
      return "";
    }
    char byte;
    const bool has_closed = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
    std::string error;
    while (error.empty() && Take(&error)) {
    }
    if (!error.empty()) return error;
    const bool has_ended = has_closed || std::exchange(is_refused_, false);
    if (has_ended || (leaves_ > 0 && random_.OneIn(60))) {
      if (!has_ended) --leaves_;
      Leave();
    } else if (state_ == State::kStreams) {
      if (data_.offset != acked_ && random_.OneIn(40)) Acknowledge();
      is_done_ = leaves_ == 0 && data_.HasSet(last_key_);
    }
    return "";
  }
  size_t missing() const override { return is_done_ ? 0 : 1; }
  size_t total() const override { return 1; }

 private:
  enum class State : uint8_t { kHandshake, kSize, kCopy, kMark, kStreams };

  void Connect() {
    int fds[2];
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    if (fd != -1) close(fd);  // the one that Drive has made
    fd = fds[0];
    state_ = State::kHandshake;
    answers_ = 2;
    unsent = Request({"REPLCONF", "listening-port", "7777"});
    std::vector<std::string> capa = {"REPLCONF", "capa", "psync2"};
    if (random_.OneIn(2)) capa.insert(capa.end(), {"capa", "eof"});
    unsent += Request(capa);
    unsent += data_.id.empty() ? Request({"PSYNC", "?", "-1"})
                               : Request({"PSYNC", data_.id, std::to_string(data_.offset + 1)});
    server_.OnAccept(fds[1]);
  }
  void Leave() {
    if (state_ != State::kStreams && state_ != State::kHandshake) data_.id.clear();
    // What was not whole comes again, as a replica that carries commands out would ask.
    close(std::exchange(fd, -1));
    unsent.clear();
    got.clear();
    idle_ = 1 + random_.Uniform(60);
  }

  // The next part of `got`. False: there is none yet.
  bool Take(std::string* error) {
    switch (state_) {
      case State::kHandshake:
        return TakeLine([&](const std::string& line) { TakeAnswer(line, error); });
      case State::kSize:
        return TakeLine([&](const std::string& line) { TakeSize(line, error); });
      case State::kCopy: {
        if (got.size() < size_) return false;
        data_.copy = got.substr(0, size_);
        got.erase(0, size_);
        BeginStream();
        return true;
      }
      case State::kMark: {
        const size_t end = got.find(mark_);
        if (end == std::string::npos) return false;
        data_.copy = got.substr(0, end);
        got.erase(0, end + mark_.size());
        BeginStream();
        return true;
      }
      case State::kStreams: {
        if (got.empty()) return false;
        data_.stream += got;
        data_.offset += got.size();
        got.clear();
        return true;
      }
    }
    return false;
  }
  template <typename Function>
  bool TakeLine(Function function) {
    const size_t end = got.find('\n');
    if (end == std::string::npos) return false;
    std::string line = got.substr(0, end);
    got.erase(0, end + 1);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) function(line);
    return true;
  }
  void TakeAnswer(const std::string& line, std::string* error) {
    if (answers_ > 0) {
      --answers_;
      if (line != "+OK") *error = absl::StrCat("+OK instead of ", line);
      return;
    }
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "+FULLRESYNC" && words.size() == 3) {
      data_.id = words[1];
      if (!absl::SimpleAtoi(words[2], &data_.offset)) *error = absl::StrCat("an offset in ", line);
      state_ = State::kSize;
      data_.stream.clear();
      ++data_.copies;
    } else if (words[0] == "+CONTINUE" && words.size() <= 2) {
      if (data_.id.empty()) *error = "it has nothing to go on with";
      if (words.size() == 2) data_.id = words[1];
      state_ = State::kStreams;
      ++data_.continued;
    } else if (line.starts_with("-NOMASTERLINK")) {
      is_refused_ = true;
    } else {
      *error = absl::StrCat("PSYNC got ", line);
    }
  }
  void TakeSize(const std::string& line, std::string* error) {
    if (line.starts_with("$EOF:")) {
      mark_ = line.substr(5);
      state_ = State::kMark;
    } else if (line.starts_with("$") && absl::SimpleAtoi(line.substr(1), &size_)) {
      state_ = State::kCopy;
    } else {
      *error = absl::StrCat("a size instead of ", line);
    }
  }
  void BeginStream() {
    state_ = State::kStreams;
    Acknowledge();
  }
  void Acknowledge() {
    acked_ = data_.offset;
    unsent += Request({"REPLCONF", "ACK", std::to_string(acked_)});
  }

  Server& server_;
  helio::Random& random_;
  ReplicaData& data_;
  uint64_t leaves_;
  const std::string last_key_;
  uint64_t idle_;  // turns until it connects; 0: it is connected
  State state_ = State::kHandshake;
  uint64_t acked_ = 0;
  bool is_done_ = false;
  bool is_refused_ = false;
  int answers_ = 0;  // to REPLCONF, that are still to come
  uint64_t size_ = 0;
  std::string mark_;
};

}  // namespace dfly
