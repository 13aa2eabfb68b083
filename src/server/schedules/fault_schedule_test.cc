// SPDX-License-Identifier: Apache-2.0
// Every command over shards, with something going wrong at each of its steps: its client is killed,
// hangs up, or memory is out. On schedules from a seed, step by step until it gets through
// undisturbed. A step is a message between threads, or a turn of the loop.
//
// After each:
//   keys       are as before or as after, also for who looks meanwhile (by EXEC, at all of them)
//   nothing    is left: no lock, entry in a queue, waiter, watch, subscription, batch, fiber
//   others     have got all their replies, and can use the same keys
#include <array>
#include <functional>
#include <optional>
#include <set>

#include "facade/replies/resp_reader.h"
#include "helio/base/test_seed.h"
#include "server/schedules/schedule_harness.h"

namespace dfly {
namespace {

using helio::Random;
using Words = std::vector<std::string>;

enum class Fault { kNone, kKilled, kHangsUp, kOutOfMemory };
constexpr Fault kFaults[] = {Fault::kKilled, Fault::kHangsUp, Fault::kOutOfMemory};
const char* NameOf(Fault fault) {
  constexpr const char* kNames[] = {"none", "killed", "hangs up", "out of memory"};
  return kNames[static_cast<int>(fault)];
}

struct Scenario {
  std::vector<Words> victim;       // sent at once
  std::vector<Words> helper = {};  // of another client, at the same time
  // The helper comes when the victim waits. If that has gone by then it takes nothing.
  bool helper_is_late = false;
};

// Keys in different shards: k0, k1, k2, k3 are strings, l0 and l1 lists, the others are absent.
const std::vector<Scenario>& Scenarios() {
  static const auto* const all = new std::vector<Scenario>{
      {{{"MGET", "k0", "k1", "k2", "k3", "k4"}}},
      {{{"MSET", "k0", "A", "k1", "B", "k2", "C", "k3", "D"}}},
      {{{"MSETNX", "k4", "A", "k5", "B"}}},
      {{{"MSETNX", "k4", "A", "k0", "B"}}},
      {{{"DEL", "k0", "k1", "l0", "k4"}}},
      {{{"UNLINK", "k0", "k1", "l0"}}},
      {{{"EXISTS", "k0", "k1", "l0"}}},
      {{{"TOUCH", "k0", "k1", "l0"}}},
      {{{"RENAME", "k0", "k1"}}},
      {{{"RENAME", "k4", "k1"}}},
      {{{"RENAMENX", "l0", "k4"}}},
      {{{"RENAMENX", "k0", "k1"}}},
      {{{"COPY", "k0", "k1", "REPLACE"}}},
      {{{"COPY", "l0", "k4", "DB", "1"}}},
      {{{"MOVE", "k2", "1"}}},
      {{{"SWAPDB", "0", "1"}}},
      {{{"FLUSHALL"}}},
      {{{"FLUSHALL", "ASYNC"}}},
      {{{"FLUSHDB"}}},
      {{{"LMOVE", "l0", "l1", "LEFT", "RIGHT"}}},
      {{{"LMOVE", "l0", "k4", "LEFT", "RIGHT"}}},
      {{{"LMOVE", "l0", "k0", "LEFT", "RIGHT"}}},
      {{{"LMPOP", "3", "k4", "l0", "l1", "LEFT", "COUNT", "2"}}},
      // EXEC squashed, in one shard, with commands over shards, with errors.
      {{{"MULTI"}, {"SET", "k0", "A"}, {"SET", "k1", "B"}, {"RPUSH", "l0", "C"}, {"EXEC"}}},
      {{{"MULTI"}, {"SET", "k0", "A"}, {"APPEND", "k0", "B"}, {"EXEC"}}},
      {{{"MULTI"},
        {"SET", "k0", "A"},
        {"MSET", "k1", "B", "k2", "C"},
        {"RENAME", "k0", "k3"},
        {"SELECT", "1"},
        {"SET", "k4", "D"},
        {"EXEC"}}},
      {{{"MULTI"},
        {"SET", "k0", "A"},
        {"RPUSH", "k1", "B"},
        {"LMOVE", "l0", "k2", "LEFT", "LEFT"},
        {"SET", "k3", "C"},
        {"EXEC"}}},
      {{{"MULTI"}, {"SET", "k0", "A"}, {"FLUSHALL"}, {"SET", "k1", "B"}, {"EXEC"}}},
      {{{"MULTI"}, {"SET", "k0", "A"}, {"BLPOP", "l0", "l1", "0"}, {"SET", "k1", "B"}, {"EXEC"}}},
      {{{"MULTI"}, {"SET", "k0", "A"}, {"SET", "k1", "B"}, {"DISCARD"}}},
      // WATCH, and somebody who touches.
      {{{"WATCH", "k0", "k1", "l0"}, {"MULTI"}, {"SET", "k0", "A"}, {"SET", "k1", "B"}, {"EXEC"}}},
      {{{"WATCH", "k0", "k1"}, {"MULTI"}, {"SET", "k0", "A"}, {"SET", "k2", "B"}, {"EXEC"}},
       {{"SET", "k1", "touched"}}},
      {{{"WATCH", "k0"}, {"MULTI"}, {"SET", "k0", "A"}, {"EXEC"}}, {{"SET", "k0", "touched"}}},
      {{{"WATCH", "k0", "k1"}, {"UNWATCH"}, {"WATCH", "k2"}, {"MULTI"}, {"GET", "k2"}, {"EXEC"}}},
      // Commands that wait, and who serves them.
      {{{"BLPOP", "k4", "l0", "l1", "0"}}},
      {{{"BLPOP", "k4", "k5", "0"}}, {{"RPUSH", "k5", "e"}}},
      {{{"BLPOP", "k4", "0"}}, {{"RPUSH", "k4", "e"}}},
      {{{"BLPOP", "k4", "k5", "0"}}, {{"LMOVE", "l0", "k4", "LEFT", "LEFT"}}},
      {{{"BLPOP", "k4", "k5", "0"}},
       {{"MULTI"}, {"RPUSH", "k4", "e"}, {"SET", "k0", "A"}, {"EXEC"}}},
      {{{"BLMPOP", "0", "2", "k4", "k5", "LEFT"}}, {{"RENAME", "l0", "k5"}}},
      {{{"BLMOVE", "k4", "l1", "LEFT", "RIGHT", "0"}}, {{"RPUSH", "k4", "e"}}},
      {{{"BLMOVE", "l0", "k4", "LEFT", "RIGHT", "0"}}},
      {{{"BRPOPLPUSH", "k4", "k5", "0"}}, {{"SWAPDB", "0", "1"}}},
      {{{"BLPOP", "k4", "k5", "0"}}, {{"RPUSH", "k5", "e"}}, true},
      {{{"BLPOP", "k4", "0"}}, {{"RPUSH", "k4", "e"}}, true},
      {{{"BLMOVE", "k4", "l1", "LEFT", "RIGHT", "0"}}, {{"RPUSH", "k4", "e"}}, true},
      {{{"BLMPOP", "0", "2", "k4", "k5", "LEFT"}}, {{"LMOVE", "l0", "k5", "LEFT", "LEFT"}}, true},
      // Subscribers; whoever subscribes has more to do behind it.
      {{{"SUBSCRIBE", "c0", "c1", "c2"}}, {{"PUBLISH", "c1", "m"}, {"PUBLISH", "c2", "m"}}},
      {{{"PSUBSCRIBE", "c*"}, {"SSUBSCRIBE", "c3"}, {"PUNSUBSCRIBE"}},
       {{"PUBLISH", "c1", "m"}, {"SPUBLISH", "c3", "m"}}},
      {{{"SUBSCRIBE", "c0", "c1"}, {"RESET"}}, {{"PUBLISH", "c1", "m"}}},
      {{{"PUBLISH", "c0", "m"}, {"MSET", "k0", "A", "k1", "B"}}},
  };
  return *all;
}

// The same with keys of other types: s0, s1 are sets, z0, z1 sorted sets, geo places; x0 and x1
// streams with groups g and h, c0, c1, c2 sketches of counts, h0, h1 HyperLogLogs. s2, z2, x2 are
// absent. PAYLOAD is what DUMP makes of a string.
const std::vector<Scenario>& ScenariosOfTypes() {
  static const Words kGroupWaits{"XREADGROUP", "GROUP", "g",  "c", "BLOCK", "0",
                                 "STREAMS",    "x0",    "x1", ">", ">"};
  static const Words kReadWaits{"XREAD", "BLOCK", "0", "STREAMS", "x0", "x1", "$", "$"};
  static const auto* const all = new std::vector<Scenario>{
      {{{"SINTERSTORE", "s2", "s0", "s1"}}},
      {{{"SINTERSTORE", "s0", "s1", "k4"}}},
      {{{"SUNIONSTORE", "s0", "s0", "s1"}}},
      {{{"SDIFFSTORE", "k4", "s0", "s1"}}},
      {{{"SINTERSTORE", "s2", "s0", "l0"}}},
      {{{"SMOVE", "s0", "s1", "a"}}},
      {{{"SINTERCARD", "2", "s0", "s1"}}},
      {{{"SADDEX", "s0", "100", "m", "n"}}},
      {{{"ZUNIONSTORE", "z2", "2", "z0", "z1", "WEIGHTS", "2", "3"}}},
      {{{"ZINTERSTORE", "z0", "2", "z0", "s1"}}},
      {{{"ZDIFFSTORE", "s0", "2", "z0", "z1"}}},
      {{{"ZRANGESTORE", "z1", "z0", "0", "-1"}}},
      {{{"ZMPOP", "3", "z2", "z0", "z1", "MIN", "COUNT", "2"}}},
      {{{"SORT", "l0", "ALPHA", "STORE", "k4"}}},
      {{{"SORT", "s0", "ALPHA", "DESC", "STORE", "l1"}}},
      {{{"SORT", "k4", "STORE", "s1"}}},
      {{{"GEOSEARCHSTORE", "z2", "geo", "FROMLONLAT", "15", "37", "BYRADIUS", "200", "km"}}},
      {{{"GEORADIUS", "geo", "15", "37", "200", "km", "STOREDIST", "z0"}}},
      {{{"PFMERGE", "h0", "h1"}}},
      {{{"PFMERGE", "k4", "h0", "h1"}}},
      {{{"PFCOUNT", "h0", "h1"}}},
      {{{"BITOP", "AND", "k4", "k0", "k1"}}},
      {{{"BITOP", "NOT", "k1", "k0"}}},
      {{{"BITOP", "OR", "k0", "k4", "k5"}}},
      {{{"CMS.MERGE", "c0", "2", "c1", "c2", "WEIGHTS", "1", "3"}}},
      {{{"LCS", "k0", "k1"}}},
      {{{"RESTORE", "l0", "0", "PAYLOAD", "REPLACE"}}},
      {{{"MULTI"}, {"RESTORE", "s0", "0", "PAYLOAD", "REPLACE"}, {"SADD", "s1", "e"}, {"EXEC"}}},
      {{{"COPY", "s0", "z0", "REPLACE"}}},
      {{{"RENAME", "x0", "x1"}}},
      {{{"MULTI"},
        {"SINTERSTORE", "s2", "s0", "s1"},
        {"ZUNIONSTORE", "z2", "2", "z0", "z1"},
        {"XADD", "x0", "5-1", "f", "v"},
        {"XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "x0", "x1", ">", ">"},
        {"EXEC"}}},
      // Streams that have something.
      {{{"XREAD", "BLOCK", "0", "STREAMS", "x0", "x1", "0", "0"}}},
      {{{"XREADGROUP", "GROUP", "h", "c", "STREAMS", "x0", "x1", ">", ">"}}},
      {{{"XREADGROUP", "GROUP", "h", "c", "NOACK", "BLOCK", "0", "STREAMS", "x0", "x1", ">", ">"}}},
      {{{"XREADGROUP", "GROUP", "h", "c", "BLOCK", "0", "STREAMS", "x0", "x2", ">", ">"}}},
      // And that have not.
      {{kReadWaits}, {{"XADD", "x1", "9-1", "f", "v"}}},
      {{kReadWaits}, {{"XADD", "x1", "9-1", "f", "v"}}, true},
      {{kReadWaits}, {{"MULTI"}, {"XADD", "x0", "9-1", "f", "v"}, {"DEL", "x1"}, {"EXEC"}}},
      {{{"XREAD", "BLOCK", "0", "STREAMS", "x0", "$"}}, {{"XADD", "x0", "9-1", "f", "v"}}, true},
      {{kGroupWaits}, {{"XADD", "x0", "9-1", "f", "v"}}},
      {{kGroupWaits}, {{"XADD", "x1", "9-1", "f", "v"}}, true},
      {{kGroupWaits},
       {{"MULTI"}, {"XADD", "x0", "9-1", "f", "v"}, {"XADD", "x1", "9-1", "f", "v"}, {"EXEC"}}},
      {{kGroupWaits}, {{"XGROUP", "DESTROY", "x1", "g"}}, true},
      {{kGroupWaits}, {{"DEL", "x0"}}, true},
      {{kGroupWaits}, {{"SET", "x1", "v"}}},
      {{kGroupWaits}, {{"RENAME", "x0", "x1"}}},
      {{kGroupWaits}, {{"FLUSHALL"}}, true},
      {{{"XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "x0", ">"}},
       {{"XADD", "x0", "9-1", "f", "v"}}},
      {{{"XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "x0", ">"}},
       {{"XADD", "x0", "9-1", "f", "v"}},
       true},
      // Sorted sets.
      {{{"BZPOPMIN", "z2", "k4", "0"}}, {{"ZADD", "z2", "1", "m"}}},
      {{{"BZPOPMAX", "z2", "k4", "0"}}, {{"ZUNIONSTORE", "z2", "2", "z0", "z1"}}},
      {{{"BZMPOP", "0", "2", "z2", "k4", "MIN"}}, {{"ZADD", "k4", "1", "m"}}, true},
  };
  return *all;
}

struct Client {
  Client(Server& server, const std::vector<Words>& requests) {
    int fds[2];
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    fd = fds[0];
    server.OnAccept(fds[1]);
    Ask(requests);
  }
  ~Client() { Leave(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Ask(const std::vector<Words>& requests) {
    for (const Words& args : requests) unsent += Request(args);
    missing += requests.size();
  }
  void Leave() {
    if (fd != -1) close(std::exchange(fd, -1));
    unsent.clear();
  }
  // Sends and reads some; true if anything moved.
  bool Step(Random& random) {
    if (fd == -1) return false;
    bool moved = false;
    if (!unsent.empty()) {
      const size_t most = random.OneIn(2) ? unsent.size() : 60;
      const size_t bytes = 1 + random.Uniform(std::min(most, unsent.size()));
      const ssize_t sent = send(fd, unsent.data(), bytes, MSG_NOSIGNAL);
      if (sent > 0) unsent.erase(0, static_cast<size_t>(sent));
      moved = sent > 0;
      if (sent < 0 && errno == EPIPE) Leave();
    }
    if (fd == -1) return true;
    char buffer[4096];
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got > 0) {
      bytes.append(buffer, static_cast<size_t>(got));
      RespValue reply;
      while (const size_t taken = ReadRespValue(std::string_view(bytes).substr(parsed), &reply)) {
        parsed += taken;
        if (missing > 0) --missing;
        last = reply.ToString();
        if (last.starts_with('-')) had_error = true;
      }
    } else if (got == 0) {
      Leave();
      return true;
    }
    return moved || got > 0;
  }

  int fd = -1;
  std::string unsent;
  std::string bytes;
  size_t parsed = 0;
  size_t missing = 0;
  bool had_error = false;
  std::string last;  // reply
};

class FaultScheduleTest : public testing::TestWithParam<bool> {
 protected:
  static ServerOptions Options() {
    ServerOptions options = TestOptions();
    options.db_count = 2;
    options.singlehop_blocking = GetParam();
    return options;
  }

  FaultScheduleTest() : server_(Options()) {
    // The scenarios' names stand for keys of known shards; k5 shares that of k0.
    ShardSet& shards = *server_.server().state().shards;
    constexpr std::array kNames = {"k0", "k1", "k2", "k3", "k4", "k5",  "l0", "l1",
                                   "s0", "s1", "s2", "z0", "z1", "geo", "z2", "x0",
                                   "x1", "x2", "c0", "c1", "c2", "h0",  "h1"};
    constexpr std::array kPlaces = {0u, 1u, 2u, 3u, 4u, 0u, 1u, 2u, 0u, 1u, 2u, 1u,
                                    2u, 4u, 3u, 2u, 3u, 4u, 0u, 1u, 2u, 3u, 4u};
    static_assert(kNames.size() == kPlaces.size());
    for (size_t i = 0; i < kNames.size(); ++i) {
      for (int n = 0;; ++n) {
        const std::string key = std::string(kNames[i]) + "_" + std::to_string(n);
        if (shards.ShardOfKey(key, HashKey(key)) != kPlaces[i]) continue;
        names_.emplace_back(kNames[i], key);
        break;
      }
    }
  }

  std::string KeyOf(const std::string& name) const {
    if (name == "PAYLOAD") return payload_;
    for (const auto& [short_name, key] : names_) {
      if (short_name == name) return key;
    }
    return name;
  }
  std::vector<Words> WithKeys(std::vector<Words> requests) const {
    for (Words& args : requests) {
      for (std::string& arg : args) arg = KeyOf(arg);
    }
    return requests;
  }
  // All keys of both databases, at one moment; those of other types only where there are some.
  std::vector<Words> Look() const {
    std::vector<Words> requests{{"MULTI"}};
    for (const char* db : {"1", "0"}) {
      requests.push_back({"SELECT", db});
      Words strings{"MGET"};
      for (const auto& [name, key] : names_) {
        if (name[0] != 'k' && name[0] != 'l' && !has_types_) continue;
        strings.push_back(key);
        switch (name[0]) {
          case 's':
            requests.push_back({"SORT", key, "ALPHA"});
            break;
          case 'z':
            requests.push_back({"ZRANGE", key, "0", "-1", "WITHSCORES"});
            break;
          case 'x':
            requests.push_back({"XRANGE", key, "-", "+"});
            requests.push_back({"XINFO", "GROUPS", key});
            break;
          case 'c':
            requests.push_back({"CMS.QUERY", key, "a", "b"});
            break;
          default:
            requests.push_back({"LRANGE", key, "0", "-1"});
        }
      }
      requests.push_back(std::move(strings));
    }
    requests.push_back({"EXEC"});
    return requests;
  }

  Worker& worker() { return Worker::Here(); }
  void Turn(Random& random) {
    if (on_turn_) on_turn_();
    if (!clients_.empty()) {
      const auto& client = clients_[random.Uniform(clients_.size())];
      if (client->Step(random)) quiet_ = 0;
    }
    const bool at_rest = worker().state().coordinators == worker().blocked_clients() &&
                         Batches::Here().in_flight() == 0;
    const bool all_sent = std::all_of(clients_.begin(), clients_.end(),
                                      [](const auto& client) { return client->unsent.empty(); });
    quiet_ = at_rest && all_sent ? quiet_ + 1 : 0;
    for (uint64_t n = random.Uniform(3); n > 0; --n) helio::this_fiber::Yield();
  }
  // False: it never becomes quiet.
  bool RunUntilQuiet(Random& random) {
    quiet_ = 0;
    for (int turns = 0; turns < 20'000; ++turns) {
      if (quiet_ > 40) return true;
      Turn(random);
    }
    return false;
  }
  Client* Connect(const std::vector<Words>& requests) {
    clients_.push_back(std::make_unique<Client>(server_.server(), requests));
    return clients_.back().get();
  }
  // Lets all clients go. Returns what is left then.
  std::string EndAll(Random& random) {
    clients_.clear();
    for (int turns = 0; server_.server().state().connections.all() > 0 ||
                        worker().state().coordinators > 0 || Batches::Here().in_flight() > 0 ||
                        !worker().state().shuffle->empty();) {
      if (++turns > 20'000) {
        return "something is left: " + std::to_string(worker().state().coordinators) + " fibers, " +
               std::to_string(Batches::Here().in_flight()) + " batches " + Queues();
      }
      Turn(random);
    }
    for (ShardId id = 0; id < server_.server().state().shards->size(); ++id) {
      Shard& shard = server_.server().state().shards->local(id);
      if (!shard.transactions().empty() || shard.transactions().length() > 0) {
        return "locks are left " + Queues();
      }
      if (shard.waiters().keys() > 0) return "waiters are left";
      if (shard.watches().keys() > 0 || shard.watches().watchers() > 0) return "watches are left";
      for (ChannelKind kind : {ChannelKind::kChannel, ChannelKind::kPattern, ChannelKind::kShard}) {
        if (!PubSub::Here().directory(id).names(kind).empty()) return "subscriptions are left";
      }
    }
    if (worker().blocked_clients() > 0) return "blocked clients are counted";
    if (server_.server().state().pubsub_load.messages.load() > 0) return "messages are left";
    return "";
  }
  std::string Queues() {
    std::string text;
    for (ShardId id = 0; id < server_.server().state().shards->size(); ++id) {
      text += "[" + server_.server().state().shards->local(id).transactions().Describe() + "]";
    }
    return text;
  }

  std::string SetUp(Random& random) {
    std::vector<Words> requests{{"FLUSHALL"},
                                {"MSET", "k0", "a", "k1", "b", "k2", "c", "k3", "d"},
                                {"RPUSH", "l0", "x", "y"},
                                {"RPUSH", "l1", "z"}};
    if (has_types_) {
      const std::vector<Words> more{
          {"SADD", "s0", "a", "b", "c"},
          {"SADD", "s1", "b", "c", "d"},
          {"ZADD", "z0", "1", "a", "2", "b"},
          {"ZADD", "z1", "5", "b", "7", "c"},
          {"GEOADD", "geo", "13.361389", "38.115556", "p", "15.087269", "37.502669", "q"},
          {"CMS.INITBYDIM", "c0", "10", "2"},
          {"CMS.INITBYDIM", "c1", "10", "2"},
          {"CMS.INITBYDIM", "c2", "10", "2"},
          {"CMS.INCRBY", "c1", "a", "3"},
          {"CMS.INCRBY", "c2", "b", "4"},
          {"PFADD", "h0", "a", "b", "c"},
          {"PFADD", "h1", "c", "d"}};
      requests.insert(requests.end(), more.begin(), more.end());
      // The consumer is there before, so that it makes no difference that it has tried to read.
      for (const char* key : {"x0", "x1"}) {
        requests.push_back({"XADD", key, "1-1", "f", key});
        for (const char* group : {"g", "h"}) {
          requests.push_back({"XGROUP", "CREATE", key, group, *group == 'g' ? "$" : "0"});
          requests.push_back({"XGROUP", "CREATECONSUMER", key, group, "c"});
        }
      }
    }
    const std::vector<Words> other_db{
        {"SELECT", "1"}, {"RPUSH", "k4", "w"}, {"MSET", "k0", "p", "k1", "q"}};
    requests.insert(requests.end(), other_db.begin(), other_db.end());
    const Client* client = Connect(WithKeys(requests));
    if (!RunUntilQuiet(random) || client->missing > 0 || client->had_error) return "no set-up";
    return EndAll(random);
  }
  // What all keys are, in the end.
  std::string FinalLook(Random& random, std::string* state) {
    const Client* looker = Connect(Look());
    if (!RunUntilQuiet(random) || looker->missing > 0) return "nobody can look " + Queues();
    *state = looker->last;
    const Client* user = Connect(WithKeys({{"MSET", "k0", "u", "k1", "u", "k2", "u", "l0", "u"},
                                           {"DEL", "k3", "k4", "k5", "l1"},
                                           {"RPUSH", "k4", "1"},
                                           {"LMOVE", "k4", "k5", "LEFT", "LEFT"},
                                           {"BLPOP", "k3", "k5", "0"}}));
    if (!RunUntilQuiet(random) || user->missing > 0 || user->had_error) {
      return "nobody can use the keys " + Queues();
    }
    return EndAll(random);
  }

  using States = std::set<std::string>;

  // The states that come out if nothing goes wrong and only these two take part.
  std::string Undisturbed(const Scenario& scenario, bool has_victim, bool has_helper, States* out) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      Random random(seed);
      if (const std::string error = SetUp(random); !error.empty()) return error;
      if (has_victim) Connect(WithKeys(scenario.victim));
      if (has_victim && scenario.helper_is_late && !RunUntilQuiet(random)) return "no quiet";
      if (has_helper) Connect(WithKeys(scenario.helper));
      if (!RunUntilQuiet(random)) return "no quiet";
      if (const std::string error = EndAll(random); !error.empty()) return error;
      std::string state;
      if (const std::string error = FinalLook(random, &state); !error.empty()) return error;
      out->insert(std::move(state));
    }
    return "";
  }

  // `at`: the step at which it happens. Sets `has_happened`.
  std::string Disturbed(const Scenario& scenario, Fault fault, uint64_t at, Random& random,
                        const States& allowed, const States& seen_allowed, bool* has_happened) {
    if (const std::string error = SetUp(random); !error.empty()) return error;
    Client* const victim = Connect({{"CLIENT", "SETNAME", "victim"}});
    Client* const reader = Connect({});
    Client* const helper = scenario.helper.empty() ? nullptr : Connect({});
    if (!RunUntilQuiet(random) || victim->missing > 0) return "no set-up";
    victim->Ask(WithKeys(scenario.victim));
    for (int i = 0; i < 3; ++i) reader->Ask(Look());
    if (helper != nullptr && !scenario.helper_is_late) helper->Ask(WithKeys(scenario.helper));

    uint64_t step = 0;
    const auto on_step = [&] {
      if (++step != at) return;
      *has_happened = true;
      switch (fault) {
        case Fault::kNone:
          break;
        case Fault::kKilled:
          worker().state().ForEachSession([](Session& session) {
            if (session.name == "victim") session.connection.CloseNow();
          });
          break;
        case Fault::kHangsUp:
          victim->Leave();
          break;
        case Fault::kOutOfMemory:
          server_.server().state().settings.maxmemory = 1;
      }
    };
    on_turn_ = on_step;
    worker().state().shuffle->SetStepHook(on_step);
    bool is_quiet = RunUntilQuiet(random);
    on_turn_ = nullptr;
    worker().state().shuffle->SetStepHook(nullptr);
    if (is_quiet && helper != nullptr && scenario.helper_is_late) {
      helper->Ask(WithKeys(scenario.helper));
      is_quiet = RunUntilQuiet(random);
    }
    server_.server().state().settings.maxmemory = 0;

    std::string error;
    if (!is_quiet) error = "it never ends " + Queues();
    if (error.empty() && reader->missing > 0) error = "the reader is left alone " + Queues();
    if (error.empty() && helper != nullptr && helper->missing > 0) error = "the helper waits";
    if (error.empty() && (!*has_happened || fault == Fault::kOutOfMemory) && victim->missing > 0 &&
        worker().blocked_clients() == 0) {
      error = "the victim is left alone " + Queues();
    }
    std::string seen = reader->bytes;
    if (const std::string left = EndAll(random); error.empty()) error = left;
    std::string state;
    if (const std::string left = FinalLook(random, &state); error.empty()) error = left;
    if (!error.empty()) return error;
    const bool takes_nothing = scenario.helper_is_late && *has_happened;
    if (!(takes_nothing ? late_ : allowed).contains(state)) return "the keys end as " + state;
    RespValue reply;
    while (const size_t taken = ReadRespValue(seen, &reply)) {
      seen.erase(0, taken);
      if (reply.kind == ReplyKind::kArray && !seen_allowed.contains(reply.ToString())) {
        return "somebody has seen " + reply.ToString();
      }
    }
    return "";
  }

  void RunAll(const std::vector<Scenario>& scenarios);

  // What RESTORE gets.
  std::string MakePayload(Random& random) {
    const Client* client = Connect({{"SET", "k", "from a payload"}, {"DUMP", "k"}});
    if (!RunUntilQuiet(random) || client->missing > 0 || client->had_error) return "no payload";
    payload_ = client->last.substr(1, client->last.size() - 2);  // without its quotes
    return EndAll(random);
  }

  ScheduledServer server_;
  bool has_types_ = false;  // keys of all types, not only strings and lists
  std::string payload_;
  std::vector<std::pair<std::string, std::string>> names_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::function<void()> on_turn_;
  int quiet_ = 0;
  States late_;  // if the victim has gone before the helper came
};

INSTANTIATE_TEST_SUITE_P(Blocking, FaultScheduleTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "one_hop" : "general"; });

// When a seed is replayed, or DFLY_SEEDS says how many: all steps.
void FaultScheduleTest::RunAll(const std::vector<Scenario>& scenarios) {
  const helio::SeedRange seeds = helio::TestSeeds(1);
  // Every so many steps, each time from another one on: all of them take a minute.
  uint64_t stride = (has_types_ ? 4 : 1) * ByBuild(4, 20);
  if (helio::IsReplay() || getenv("DFLY_SEEDS") != nullptr) stride = 1;
  uint64_t runs = 0;
  std::string error;
  server_.server().state().pool.at(0)->AwaitFiber("schedules", [&] {
    uint64_t number = 0;
    Random any_order(1);
    error = MakePayload(any_order);
    if (!error.empty()) return;
    for (const Scenario& scenario : scenarios) {
      const std::string name =
          scenario.victim.back().front() + " (" + std::to_string(number++) + ")";
      States both, victim, helper, none;
      for (auto& [states, has_victim, has_helper] :
           {std::tuple(&both, true, true), std::tuple(&victim, true, false),
            std::tuple(&helper, false, true), std::tuple(&none, false, false)}) {
        error = Undisturbed(scenario, has_victim, has_helper, states);
        if (!error.empty()) return void(error = name + ": " + error);
      }
      late_ = helper;
      States any = both;
      for (const States* states : {&victim, &helper, &none}) {
        any.insert(states->begin(), states->end());
      }
      for (Fault fault : kFaults) {
        // Without memory the helper may have got no further than the victim.
        States allowed = both;
        allowed.insert(helper.begin(), helper.end());
        if (fault == Fault::kOutOfMemory) late_ = allowed = any;
        for (uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
          bool has_happened = true;
          for (uint64_t at = 1 + runs % stride; has_happened; at += stride) {
            has_happened = false;
            Random random(seed);
            worker().state().shuffle->Reseed(random.Next());
            worker().state().proactor.scheduler().UseRandomOrder(random.Next());
            error = Disturbed(scenario, fault, at, random, allowed, any, &has_happened);
            ++runs;
            if (error.empty()) continue;
            error = name + ", " + NameOf(fault) + " at step " + std::to_string(at) +
                    ", DFLY_SEED=" + std::to_string(seed) + ": " + error;
            return;
          }
        }
        late_ = helper;
      }
    }
  });
  EXPECT_EQ(error, "");
  printf("%llu runs\n", static_cast<unsigned long long>(runs));
}

TEST_P(FaultScheduleTest, WhateverHappensAtWhicheverStepNothingIsLeftAndNothingIsHalfDone) {
  RunAll(Scenarios());
}

TEST_P(FaultScheduleTest, AndSoItIsForKeysOfAllTypes) {
  has_types_ = true;
  RunAll(ScenariosOfTypes());
}

}  // namespace
}  // namespace dfly
