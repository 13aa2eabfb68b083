// SPDX-License-Identifier: Apache-2.0
// Any commands with any arguments, from two clients, against a whole server in this process: it has
// to answer each stream to its end with well-formed replies, and its shards have to be sound
// afterwards (DEBUG CHECK). A second set of shards that knows only the effects of the commands has
// to hold the same (commands/testing/replica_check.h).
//
//   input   commands: which client (1 bit), whether in a MULTI or a script (2 bits), which (1 byte)
//           and its arguments
//
// Left out: what ends the server or changes its files, what waits on purpose, and what is told
// otherwise than by a reply. What may wait for a key is called from a MULTI, where it does not.
#include <absl/strings/str_join.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands/testing/replica_check.h"
#include "facade/replies/resp_reader.h"
#include "helio/base/fuzz_target.h"
#include "server/all_parts.h"
#include "server/run/server.h"
#include "server/schedules/test_options.h"

namespace dfly {
namespace {

using helio::Random;
using helio::fuzz::Feed;

constexpr std::string_view kLeftOut[] = {"acl|deluser",    "acl|load",     "acl|save",
                                         "acl|setuser",    "bgsave",       "client|kill",
                                         "client|pause",   "client|reply", "client|tracking",
                                         "config|rewrite", "config|set",   "debug",
                                         "monitor",        "quit",         "save",
                                         "shutdown",       "wait",         "waitaof"};

constexpr std::string_view kWords[] = {"EX",
                                       "PX",
                                       "EXAT",
                                       "NX",
                                       "XX",
                                       "GT",
                                       "LT",
                                       "CH",
                                       "INCR",
                                       "GET",
                                       "KEEPTTL",
                                       "PERSIST",
                                       "COUNT",
                                       "MATCH",
                                       "TYPE",
                                       "LIMIT",
                                       "BY",
                                       "ASC",
                                       "DESC",
                                       "ALPHA",
                                       "STORE",
                                       "LEFT",
                                       "RIGHT",
                                       "BEFORE",
                                       "AFTER",
                                       "RANK",
                                       "MAXLEN",
                                       "MINID",
                                       "=",
                                       "~",
                                       "*",
                                       "$",
                                       ">",
                                       "+",
                                       "-",
                                       "STREAMS",
                                       "GROUP",
                                       "BLOCK",
                                       "NOACK",
                                       "MKSTREAM",
                                       "IDLE",
                                       "TIME",
                                       "FORCE",
                                       "JUSTID",
                                       "WEIGHTS",
                                       "AGGREGATE",
                                       "MAX",
                                       "MIN",
                                       "SUM",
                                       "BYSCORE",
                                       "BYLEX",
                                       "REV",
                                       "WITHSCORES",
                                       "WITHVALUES",
                                       "(1",
                                       "[a",
                                       "-inf",
                                       "+inf",
                                       "nan",
                                       "0",
                                       "1",
                                       "2",
                                       "-1",
                                       "1.5",
                                       "1e308",
                                       "u8",
                                       "i64",
                                       "#1",
                                       "OVERFLOW",
                                       "WRAP",
                                       "SAT",
                                       "FAIL",
                                       "AND",
                                       "NOT",
                                       "BIT",
                                       "BYTE",
                                       "FROMMEMBER",
                                       "FROMLONLAT",
                                       "BYRADIUS",
                                       "BYBOX",
                                       "km",
                                       "WITHDIST",
                                       "WITHCOORD",
                                       "ANY",
                                       "DB",
                                       "REPLACE",
                                       "ABSTTL",
                                       "ASYNC",
                                       "FULL",
                                       "ID",
                                       "NOMKSTREAM",
                                       "CREATECONSUMER",
                                       "0-0",
                                       "5-1",
                                       "18446744073709551615",
                                       "on",
                                       "off",
                                       "yes",
                                       "no",
                                       "3",
                                       "SETNAME",
                                       "AUTH",
                                       "default",
                                       "return redis.call(unpack(ARGV))",
                                       "return {KEYS,ARGV,1.5,false,{err='x'}}",
                                       "return redis.pcall('get',KEYS[1])",
                                       "#!lua name=l\nredis.register_function('f',function(k,a) "
                                       "return redis.call('incr',k[1] or 'k0') end)",
                                       "f",
                                       "l",
                                       "ff",
                                       ""};

// One server for all inputs.
class Fixture {
 public:
  static Fixture& Get() {
    static Fixture* const fixture = [] {
      auto* const made = new Fixture;
      // Under libFuzzer nobody stops it, and its threads must not outlive what is static.
      std::atexit([] {
        if (Get().server_ != nullptr) std::_Exit(0);
      });
      return made;
    }();
    return *fixture;
  }

  struct Row {
    std::string name;
    std::string subcommand;  // empty: none
    int arity;
    bool may_wait;
  };
  const std::vector<Row>& rows() const { return rows_; }
  Server& server() { return *server_; }
  void Stop() {
    replica_.reset();
    server_.reset();
  }
  // What the keys would be for who knows only the effects of the commands.
  void CheckReplica() {
    server_->state().pool.at(0)->AwaitFiber("check", [&] {
      const std::string differences = replica_->Compare(0);
      CHECK(differences.empty()) << differences << "the units:\n"
                                 << absl::StrJoin(replica_->TakeUnits(), "\n");
    });
    replica_->TakeUnits();
  }

 private:
  Fixture() {
    ServerOptions options = TestOptions();
    options.unix_socket = "";
    options.threads = 2;
    options.num_shards = 3;
    options.undeclared_keys = UndeclaredKeys::kLearn;
    options.limits.parser.max_bulk_len = 1 << 20;
    options.limits.reply_bytes_max = 4 << 20;
    options.lua_memory_max = 8 << 20;
    options.debug_command = ProtectedAction::kYes;  // CHECK, at the end
    server_ = std::make_unique<Server>(options, AllParts());
    CHECK_EQ(server_->Start(), "");
    ServerState& state = server_->state();
    replica_ = std::make_unique<ReplicaCheck>(&state.commands, state.shards.get());
    for (const Command& command : server_->state().commands.all()) {
      if ((command.flags & kMemcached) != 0) continue;
      if (command.subcommands.empty()) Add(command, "");
      for (const Command& each : command.subcommands) Add(each, command.name);
    }
  }
  void Add(const Command& command, std::string_view parent) {
    for (std::string_view name : kLeftOut) {
      if (command.full_name == name || parent == name) return;
    }
    const bool may_wait = command.blocking != nullptr || (command.flags & kBlocking) != 0;
    if (parent.empty()) {
      rows_.push_back({std::string(command.name), "", command.arity, may_wait});
    } else {
      rows_.push_back({std::string(parent), std::string(command.name), command.arity, may_wait});
    }
  }

  std::unique_ptr<Server> server_;
  std::unique_ptr<ReplicaCheck> replica_;
  std::vector<Row> rows_;
};

std::string Request(const std::vector<std::string>& args) {
  std::string out = fmt::format("*{}\r\n", args.size());
  for (const std::string& arg : args) out += fmt::format("${}\r\n{}\r\n", arg.size(), arg);
  return out;
}

// Reads while it sends, or both sides could wait for ever.
class Client {
 public:
  Client() {
    std::array<int, 2> fds;
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
    fd_ = fds[0];
    Server& server = Fixture::Get().server();
    server.state().pool.at(0)->Await([&] { server.OnAccept(fds[1]); });
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(std::string_view bytes) {
    while (!bytes.empty() && !is_closed_) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) is_closed_ = true;
      if (!bytes.empty()) Wait(POLLIN | POLLOUT);
      Receive();
    }
  }
  // Ends whatever state it is in. Its last reply is `marker`; or it was closed.
  void ReadToEnd() {
    const std::string marker = "end of this client's replies";
    Send(Request({"RESET"}) + Request({"PING", marker}));
    while (!is_closed_ && last_ != marker) {
      Wait(POLLIN);
      Receive();
    }
  }
  bool is_closed() const { return is_closed_; }
  const std::string& last() const { return last_; }

 private:
  void Wait(short events) {
    pollfd entry{.fd = fd_, .events = events, .revents = 0};
    int ready = -1;
    do {
      ready = poll(&entry, 1, 20'000);  // libFuzzer has an alarm that interrupts it
    } while (ready < 0 && errno == EINTR);
    CHECK_EQ(ready, 1) << "no reply";
  }
  void Receive() {
    std::array<char, 1 << 16> buffer;
    while (true) {
      const ssize_t got = read(fd_, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got == 0 || (got < 0 && errno != EAGAIN)) is_closed_ = true;
      if (got <= 0) return;
      unread_.append(buffer.data(), static_cast<size_t>(got));
      while (true) {
        const RespReader::Status status = reader_.Parse(unread_);
        CHECK(status != RespReader::Status::kError) << reader_.error();
        if (status == RespReader::Status::kReply) last_ = reader_.text();
        unread_.erase(0, reader_.consumed());
        if (status == RespReader::Status::kNeedMore) break;
      }
    }
  }

  int fd_;
  bool is_closed_ = false;
  std::string unread_;
  std::string last_;
  RespReader reader_;
};

std::string Argument(Feed& feed) {
  const uint8_t what = feed.Byte();
  if (what < 100) {
    static constexpr std::string_view kKeys[] = {"k0", "k1", "k2", "{t}a", "{t}b", "k3", "{u}c"};
    return std::string(kKeys[what % std::size(kKeys)]);
  }
  if (what < 200) return std::string(kWords[feed.Byte() % std::size(kWords)]);
  return feed.Text();
}

void CheckOneInput(std::string_view data) {
  Fixture& fixture = Fixture::Get();
  Feed feed(data);
  {
    std::array<Client, 2> clients;
    std::array<std::string, 2> unsent;
    constexpr size_t kCommandsMax = 60;
    for (size_t i = 0; i < kCommandsMax && !feed.empty(); ++i) {
      const uint8_t how = feed.Byte();
      const auto& row = fixture.rows()[feed.Byte() % fixture.rows().size()];
      std::vector<std::string> args = {row.name};
      if (!row.subcommand.empty()) args.push_back(row.subcommand);
      const size_t least = static_cast<size_t>(std::abs(row.arity));
      size_t count = least;
      if (row.arity < 0) count += (how >> 3) % 8;
      if ((how & 0xC0) == 0xC0) count = feed.Byte() % 12;  // perhaps a wrong number
      while (args.size() < count) args.push_back(Argument(feed));
      std::string& out = unsent[how & 1];
      const bool in_multi = row.may_wait || (how & 6) == 2;
      if (in_multi) out += Request({"MULTI"});
      if ((how & 6) == 4 && !row.may_wait) {
        args.insert(args.begin(), {"EVAL", "return redis.pcall(unpack(ARGV))", "2", "k0", "{t}a"});
      }
      out += Request(args);
      if (in_multi) out += Request({"EXEC"});
      // Some go together, as a pipeline.
      if ((how & 0x30) == 0) clients[how & 1].Send(std::exchange(out, ""));
    }
    for (size_t i = 0; i < clients.size(); ++i) {
      clients[i].Send(unsent[i]);
      clients[i].ReadToEnd();
    }
  }
  fixture.CheckReplica();
  Client last;
  last.Send(Request({"DEBUG", "CHECK"}));
  last.Send(Request({"FUNCTION", "FLUSH"}) + Request({"FLUSHALL"}));
  last.ReadToEnd();
  CHECK(!last.is_closed());
}

// Before OpenSSL has ended.
class StopServer : public testing::Environment {
  void TearDown() override { Fixture::Get().Stop(); }
};
[[maybe_unused]] testing::Environment* const stop_server =
    testing::AddGlobalTestEnvironment(new StopServer);

std::string RandomInput(Random* random) {
  std::string bytes(random->Between(20, 600), '\0');
  for (char& c : bytes) c = static_cast<char>(random->Next());
  return bytes;
}

}  // namespace
}  // namespace dfly

FUZZ_TARGET(CommandsFuzz, AnswersWhateverItIsAsked,
            {.check = dfly::CheckOneInput, .make_example = dfly::RandomInput, .rounds = 3000})
