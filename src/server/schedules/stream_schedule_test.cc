// SPDX-License-Identifier: Apache-2.0
// Streams on schedules from a seed: producers add to streams of all shards, readers and consumers
// of groups wait for some of them and go on from what they got; they leave, time out, are
// unblocked.
//
// While streams only grow:
//   readers    see each entry behind what they began with once, and when nothing happens, all
//   groups     give each entry to one consumer; what was given to one that has left is pending
//   pending    is what was received and not acknowledged
//   EXEC       is seen whole: two entries of one stream by who reads without COUNT, two of several
//              streams by who looks at all of them; nobody comes in between
// While they are also deleted, renamed, swapped, trimmed and made strings, and groups go:
//   groups     give no entry twice; who waits for one that has gone is told so
// In both:
//   quiet      when nothing happens, nobody waits who could be answered
//   order      of the consumers that wait, who came first gets the first entry; readers get it all
#include <array>
#include <map>
#include <optional>
#include <set>

#include "commands/streams/stream_support.h"
#include "server/schedules/blocking_harness.h"

namespace dfly {
namespace {

using Words = std::vector<std::string>;

constexpr std::array kGroups = {"g0", "g1"};

std::string TextOf(StreamId id) {
  char scratch[StreamId::kTextMax];
  return std::string(id.Format(scratch));
}
std::optional<StreamId> IdOf(const RespValue& reply) { return ParseStreamId(reply.text, 0); }

// Who reads streams, from reply to reply.
struct Reader {
  std::string name;
  std::string group;  // empty: XREAD
  std::string consumer;
  bool no_ack = false;
  Words keys;
  uint64_t rounds = 0;  // requests it has still to make
  bool is_asking = false;
  bool has_left = false;
  // For each key. The last entry it has got, of XREAD also what it began behind; none: "$".
  std::map<std::string, StreamId> after;
  std::map<std::string, StreamId> begin;  // of XREAD: it has to see all from behind this
  std::map<std::string, StreamId> known;  // "$" is not smaller
  std::map<std::string, std::set<StreamId>> seen;

  bool is_of_group() const { return !group.empty(); }
};

// A key as it is when nothing happens.
struct Look {
  std::string type;
  StreamId last;                           // entry
  std::map<std::string, StreamId> groups;  // and what they have delivered last
};

// What was received of a group.
struct Delivery {
  std::map<std::string, std::string> reader_of;                    // values
  std::map<std::string, std::map<StreamId, std::string>> pending;  // key, id: consumer
};

class StreamScheduleTest : public BlockingSchedules {
 protected:
  void Begin(uint64_t seed, Random& random) {
    BeginSeed(seed, random);
    readers_.clear();
    added_.clear();
    deliveries_.clear();
    taken_.clear();
    next_value_ = 0;
    nothing_ = unblocked_ = 0;
  }

  void OnLeave(Client& client) override {
    client.Leave();
    for (const auto& reader : readers_) reader->has_left |= reader->name == client.name;
  }

  Words AllKeys() const {
    Words keys;
    for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(Key(i));
    return keys;
  }
  std::string NextNumber() { return std::to_string(next_value_++); }
  std::string AnyGroup() { return kGroups[random_->Uniform(kGroups.size())]; }

  // --- What a producer does ---

  // XADD key * field value, and what that means.
  Step Add(const std::string& key, const std::string& field, const std::string& value,
           const Words& options = {}) {
    const auto check = [this, key, field, value](const RespValue& reply) {
      const auto id = IdOf(reply);
      if (reply.kind == ReplyKind::kBulk && id) {
        const bool is_new = added_[key].emplace(*id, field + value).second;
        return Unless(is_new || is_wild_, "another id");  // a new stream may begin with an old one
      }
      return Unless(is_wild_ && (IsNothing(reply) || StartsWith(reply, "-WRONGTYPE")), "an id");
    };
    return {With(With({"XADD", key}, options), {"*", field, value}), check};
  }
  void AddTo(Client& client, const std::string& key) {
    const auto [args, check] =
        Add(key, "v", NextNumber(), random_->OneIn(4) ? Words{"NOMKSTREAM"} : Words{});
    client.Add(args, check);
  }

  // Looks at all streams at once: of what one EXEC has added to two of them it sees both or none.
  Step ReadAll(bool is_in_exec) {
    Words args{"XREAD"};
    if (is_in_exec) args = With(args, {"BLOCK", "0"});
    args = With(With(args, {"STREAMS"}), With(AllKeys(), Words(kKeys, "0")));
    return {args, [this](const RespValue& reply) {
              if (is_wild_) return std::string();
              std::map<std::string, int> of_pair;
              for (const auto& [key, entries] : StreamsOf(reply)) {
                for (const RespValue& entry : entries->items) {
                  const auto& fields = entry.items[1].items;
                  if (fields[0].text != "pair") continue;
                  ++of_pair[fields[1].text.substr(0, fields[1].text.size() - 1)];
                }
              }
              const bool is_whole = std::all_of(of_pair.begin(), of_pair.end(),
                                                [](const auto& pair) { return pair.second == 2; });
              return Unless(is_whole, "an EXEC is seen by half");
            }};
  }

  void Produce(Client& client) {
    if (is_wild_ && random_->OneIn(2)) return Disturb(client);
    const std::string key = AnyKey();
    const Step set({"SET", AnyKey() + "s", "v"}, Is("+OK"));
    const auto one = [&](const Step& step) { client.Add(step.first, step.second); };
    switch (random_->Uniform(10)) {
      default:
        return AddTo(client, key);
      case 0:
        return AddExec(client, {Add(key, "v", NextNumber()), set});
      case 1:
      case 2: {
        const std::string number = NextNumber();
        const Step first = Add(key, "twin", number + "a"), second = Add(key, "twin", number + "b");
        if (random_->OneIn(2)) return AddExec(client, {first, second});
        return AddExec(client, {first, set, second, ReadAll(true)});
      }
      case 3: {
        const std::string number = NextNumber();
        const uint64_t at = random_->Uniform(kKeys);
        const uint64_t other = (at + 1 + random_->Uniform(kKeys - 1)) % kKeys;
        return AddExec(client,
                       {Add(Key(at), "pair", number + "a"), Add(Key(other), "pair", number + "b")});
      }
      case 4:
        if (is_wild_) return AddTo(client, key);
        return Hold(client, Add(key, "v", NextNumber()), TakeAll(client, key, AnyGroup()),
                    [](const auto& replies) { return replies[2].kind == ReplyKind::kArray; });
      case 5:
        return Hold(client, {{"XLEN", key}, AnyReply}, {{"XLEN", key}, AnyReply},
                    [](const auto& replies) { return replies[0] == replies[2]; });
      case 6:
        return one(ReadAll(false));
    }
  }
  // All that a group has not delivered of one key, or of all.
  Step TakeAll(Client& client, const std::string& key, const std::string& group) {
    Reader& reader = NewReader(client.name);
    reader.group = group;
    reader.consumer = client.name;
    reader.no_ack = true;
    reader.keys = key.empty() ? AllKeys() : Words{key};
    Words args{"XREADGROUP", "GROUP", group, client.name, "NOACK", "STREAMS"};
    args = With(With(args, reader.keys), Words(reader.keys.size(), ">"));
    return {args, [this, &reader](const RespValue& reply) {
              return IsNothing(reply) ? "" : Take(reader, 0, reply);
            }};
  }

  void Disturb(Client& client) {
    const std::string key = AnyKey();
    const std::string own = key + client.name;  // in the same shard if there are tags
    const auto create = [](const std::string& where, const std::string& group) {
      return Words{"XGROUP", "CREATE", where, group, "$", "MKSTREAM"};
    };
    const auto fill_own = [&] {
      client.Add(create(own, AnyGroup()), AnyReply);
      const auto [args, check] = Add(own, "v", NextNumber());
      client.Add(args, check);
    };
    switch (random_->Uniform(15)) {
      case 0:
        return client.Add({random_->OneIn(2) ? "DEL" : "UNLINK", key}, AnyReply);
      case 1:
        client.Add({"SET", key, "a string"}, AnyReply);
        if (random_->OneIn(2)) client.Add({"DEL", key}, AnyReply);
        return;
      case 2:
        return client.Add({"XGROUP", "DESTROY", key, AnyGroup()}, AnyReply);
      case 3:
      case 4:
        return client.Add(create(key, AnyGroup()), AnyReply);
      case 5:
        fill_own();
        return client.Add({random_->OneIn(2) ? "RENAME" : "RENAMENX", own, key}, AnyReply);
      case 6:
        fill_own();
        client.Add({"COPY", own, key, "REPLACE"}, AnyReply);
        return client.Add({"DEL", own}, AnyReply);
      case 7:
        client.Add({"SELECT", "1"}, Is("+OK"));
        client.Add(create(key, AnyGroup()), AnyReply);
        AddTo(client, key);
        client.Add({"MOVE", key, "0"}, AnyReply);
        return client.Add({"SELECT", "0"}, Is("+OK"));
      case 8:
        return client.Add({"SWAPDB", "0", "1"}, Is("+OK"));
      case 9:
        return client.Add({"PEXPIREAT", key, "1"}, AnyReply);
      case 10:
        return client.Add({"XTRIM", key, "MAXLEN", "1"}, AnyReply);
      case 11:
        return AddExec(client, {{{"DEL", key}, AnyReply},
                                {create(key, AnyGroup()), AnyReply},
                                Add(key, "v", NextNumber())});
      case 12: {
        const std::string group = AnyGroup();
        return AddExec(client, {{{"XGROUP", "DESTROY", key, group}, AnyReply},
                                {{"SET", own + "s", "v"}, Is("+OK")},
                                {create(key, group), AnyReply}});
      }
      case 13:
        client.Add({"RENAME", key, own}, AnyReply);
        return client.Add({"RENAME", own, key}, AnyReply);
      case 14:
        return client.Add({random_->OneIn(2) ? "FLUSHALL" : "FLUSHDB"}, Is("+OK"));
    }
  }

  // --- What a reader does ---

  Reader& NewReader(const std::string& name) {
    readers_.push_back(std::make_unique<Reader>());
    readers_.back()->name = name;
    return *readers_.back();
  }

  std::unique_ptr<Client> ConnectReader(int number) {
    auto client = Connect("c" + std::to_string(number));
    client->leaves = random_->OneIn(5);
    if (random_->OneIn(3)) client->Add({"HELLO", "3"}, AnyReply);
    AskForId(*client);
    Reader& reader = NewReader(client->name);
    reader.keys = SomeKeys();
    reader.rounds = 1 + random_->Uniform(6);
    if (!random_->OneIn(3)) {
      reader.group = AnyGroup();
      reader.consumer = client->leaves ? client->name : "shared" + std::to_string(number % 2);
      reader.no_ack = !client->leaves && random_->OneIn(4);
    } else {
      // What it sees of a key that it names twice it sees twice.
      std::sort(reader.keys.begin(), reader.keys.end());
      reader.keys.erase(std::unique(reader.keys.begin(), reader.keys.end()), reader.keys.end());
      if (random_->OneIn(2)) {
        reader.keys.resize(1);  // "$"; of several it would not know what it has missed
      } else {
        for (const std::string& key : reader.keys) reader.after[key] = reader.begin[key] = {};
      }
    }
    Ask(*client, reader);
    return client;
  }

  void Ask(Client& client, Reader& reader) {
    --reader.rounds;
    reader.is_asking = true;
    Words args{"XREAD"};
    if (reader.is_of_group()) args = {"XREADGROUP", "GROUP", reader.group, reader.consumer};
    const uint64_t count = random_->OneIn(2) ? 0 : 1 + random_->Uniform(3);
    if (count != 0) args = With(args, {"COUNT", std::to_string(count)});
    if (reader.no_ack) args.push_back("NOACK");
    const char* timeout = timeouts_ ? (random_->OneIn(2) ? "1" : "2") : "0";
    args = With(With(args, {"BLOCK", timeout, "STREAMS"}), reader.keys);
    for (const std::string& key : reader.keys) {
      const auto after = reader.after.find(key);
      if (reader.is_of_group()) {
        args.push_back(">");
      } else if (after != reader.after.end()) {
        args.push_back(TextOf(after->second));
      } else {
        args.push_back("$");
        const auto& added = added_[key];
        reader.known[key] = added.empty() ? StreamId() : added.rbegin()->first;
      }
    }
    client.Add(args, [this, &client, &reader, count](const RespValue& reply) {
      reader.is_asking = false;
      const std::string wrong = OnReply(client, reader, count, reply);
      if (!wrong.empty() || reader.rounds == 0) return wrong;
      if (IsNothing(reply) && !timeouts_ && random_->OneIn(2)) return wrong;
      if (random_->OneIn(4)) client.Add({"ECHO", "x"}, Is("\"x\""));
      Ask(client, reader);
      return wrong;
    });
  }

  std::string OnReply(Client& client, Reader& reader, uint64_t count, const RespValue& reply) {
    if (IsNothing(reply)) {
      ++nothing_;
      return "";
    }
    if (reply.kind == ReplyKind::kError) {
      const bool may_be = StartsWith(reply, "-WRONGTYPE") ||
                          (reader.is_of_group() && StartsWith(reply, "-NOGROUP"));
      return Unless(is_wild_ && may_be, "entries");
    }
    const size_t taken = taken_.size();
    std::string wrong = Take(reader, count, reply);
    if (!wrong.empty() || !reader.is_of_group() || reader.no_ack) return wrong;
    // Acknowledges the most of it.
    std::map<std::string, std::vector<StreamId>> ids;
    for (size_t i = taken; i < taken_.size(); ++i) {
      if (!random_->OneIn(3)) ids[taken_[i].first].push_back(taken_[i].second);
    }
    for (const auto& [key, of_key] : ids) {
      Words args{"XACK", key, reader.group};
      for (StreamId id : of_key) args.push_back(TextOf(id));
      client.Add(args, [this, &pending = deliveries_[reader.group].pending[key],
                        of_key = of_key](const RespValue& result) {
        for (StreamId id : of_key) pending.erase(id);
        return Unless(is_wild_ || result.text == std::to_string(of_key.size()), "all of them");
      });
    }
    return "";
  }

  // The streams of a reply, with their entries.
  static std::vector<std::pair<std::string, const RespValue*>> StreamsOf(const RespValue& reply) {
    std::vector<std::pair<std::string, const RespValue*>> streams;
    const auto& items = reply.items;
    if (reply.kind == ReplyKind::kMap) {
      for (size_t i = 0; i + 1 < items.size(); i += 2) {
        streams.emplace_back(items[i].text, &items[i + 1]);
      }
    } else {
      for (const RespValue& item : items) streams.emplace_back(item.items[0].text, &item.items[1]);
    }
    return streams;
  }

  std::string Take(Reader& reader, uint64_t count, const RespValue& reply) {
    const auto streams = StreamsOf(reply);
    if (streams.empty()) return "streams";
    for (const auto& [key, entries] : streams) {
      if (std::find(reader.keys.begin(), reader.keys.end(), key) == reader.keys.end()) {
        return "streams that it has named";
      }
      if (entries->items.empty() || (count != 0 && entries->items.size() > count)) {
        return "as many entries as it has asked for";
      }
      std::string wrong = TakeOf(reader, key, entries->items);
      if (wrong.empty() && !is_wild_ && count == 0) wrong = CheckTwins(entries->items);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }
  std::string TakeOf(Reader& reader, const std::string& key,
                     const std::vector<RespValue>& entries) {
    Delivery& delivery = deliveries_[reader.group];
    StreamId last;
    for (const RespValue& entry : entries) {
      const auto id = IdOf(entry.items[0]);
      const auto& fields = entry.items[1].items;
      if (!id || fields.size() != 2) return "an id and a field";
      if (*id <= last) return "entries in order";
      last = *id;
      if (reader.is_of_group()) {
        const std::string value = fields[0].text + fields[1].text;
        const auto [other, is_new] = delivery.reader_of.emplace(value, reader.name);
        if (!is_new) return value + " was delivered to " + other->second + " before";
        if (!reader.no_ack) delivery.pending[key][*id] = reader.consumer;
        taken_.emplace_back(key, *id);
      } else if (!reader.after.contains(key)) {
        if (!is_wild_ && *id <= reader.known[key]) return "what came after it has asked";
        StreamId before = *id;
        before.Decrement();
        reader.begin[key] = before;
      }
      // Of a group that is made anew all may come again.
      if (!(is_wild_ && reader.is_of_group()) && reader.after.contains(key) &&
          *id <= reader.after[key]) {
        return "what it has not had";
      }
      reader.after[key] = *id;
      reader.seen[key].insert(*id);
    }
    return "";
  }
  static std::string CheckTwins(const std::vector<RespValue>& entries) {
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto& fields = entries[i].items[1].items;
      if (fields[0].text != "twin" || !fields[1].text.ends_with('a')) continue;
      std::string twin = fields[1].text;
      twin.back() = 'b';
      if (i + 1 == entries.size() || entries[i + 1].items[1].items[1].text != twin) {
        return "an EXEC's entries come together";
      }
    }
    return "";
  }

  // --- When nothing happens ---

  // Does anybody wait for what is there?
  std::string RunAndCheckWaits(Clients& clients) {
    std::string error = RunUntilQuiet(clients);
    if (!error.empty()) return error;
    std::map<std::string, Look> looks;
    auto client = Connect("look");
    for (const std::string& key : AllKeys()) {
      Look& look = looks[key];
      client->Add({"TYPE", key}, [&look](const RespValue& reply) {
        look.type = reply.text;
        return std::string();
      });
      client->Add({"XREVRANGE", key, "+", "-", "COUNT", "1"}, [&look](const RespValue& reply) {
        if (!reply.items.empty()) look.last = *IdOf(reply.items[0].items[0]);
        return std::string();
      });
      client->Add({"XINFO", "GROUPS", key}, [&look](const RespValue& reply) {
        for (const RespValue& group : reply.items) {
          look.groups[group.items[1].text] = *IdOf(group.items[7]);
        }
        return std::string();
      });
    }
    clients.push_back(std::move(client));
    error = RunUntilQuiet(clients);
    for (const auto& reader : readers_) {
      if (!error.empty()) return error;
      if (reader->is_asking && !reader->has_left) error = CheckWait(*reader, looks);
    }
    return error;
  }
  std::string CheckWait(Reader& reader, const std::map<std::string, Look>& looks) {
    for (const std::string& key : reader.keys) {
      const Look& look = looks.at(key);
      const std::string who = reader.name + " waits for " + key;
      if (reader.is_of_group()) {
        const auto group = look.groups.find(reader.group);
        if (group == look.groups.end()) return who + ", which has no group " + reader.group;
        if (look.last > group->second) return who + ", which has something for its group";
      } else if (const auto after = reader.after.find(key); after != reader.after.end()) {
        if (look.last > after->second) return who + ", which has something";
      } else if (!is_wild_) {
        // From now on it is known what its "$" is.
        reader.after[key] = reader.begin[key] = look.last;
      }
    }
    return "";
  }

  // --- A seed ---

  std::string SetUp(Clients& clients) {
    auto client = Connect("setup");
    for (const std::string& key : AllKeys()) {
      for (const char* group : kGroups) {
        if (is_wild_ && random_->OneIn(6)) continue;
        client->Add({"XGROUP", "CREATE", key, group, "0", "MKSTREAM"}, Is("+OK"));
      }
      if (random_->OneIn(4)) AddTo(*client, key);
    }
    clients.push_back(std::move(client));
    return RunUntilQuiet(clients);
  }

  std::string RunSeed(uint64_t seed, Random& random) {
    Begin(seed, random);
    Clients clients;
    std::string error = SetUp(clients);
    bool has_leavers = false;
    for (int i = 0; i < 5; ++i) {
      clients.push_back(ConnectReader(i));
      has_leavers |= clients.back()->leaves;
    }
    for (int turn = 0; turn < 2 && error.empty(); ++turn) {
      for (int i = 0; i < 2; ++i) {
        if (turn == 0 && random.OneIn(2)) continue;  // nobody disturbs those who begin
        clients.push_back(Connect("p" + std::to_string(i)));
        for (uint64_t n = 1 + random.Uniform(6); n > 0; --n) Produce(*clients.back());
      }
      error = RunAndCheckWaits(clients);
    }
    while (!clients.empty() && error.empty()) {
      auto controller = Connect("controller");
      AddUnblocks(*controller, clients, &unblocked_);
      if (random.OneIn(2)) Produce(*controller);
      clients.push_back(std::move(controller));
      error = RunAndCheckWaits(clients);
    }
    if (error.empty()) error = Settle(clients);
    error = EndSeed(clients, std::move(error));
    if (error.empty() && !timeouts_ && !has_leavers && nothing_ != unblocked_) {
      error = std::to_string(unblocked_) + " were unblocked, " + std::to_string(nothing_) +
              " got nothing";
    }
    return WithLog(error);
  }

  std::string Settle(Clients& clients) {
    // What has been delivered to nobody; then what is pending, and what there is.
    std::map<std::string, std::map<std::string, RespValue>> pending;
    std::map<std::string, RespValue> all;
    const auto keep = [](RespValue& where) {
      return [&where](const RespValue& reply) {
        where = reply;
        return std::string();
      };
    };
    auto client = Connect("last");
    if (!is_wild_) {
      for (const char* group : kGroups) {
        const auto [args, check] = TakeAll(*client, "", group);
        client->Add(args, check);
        for (const std::string& key : AllKeys()) {
          client->Add({"XPENDING", key, group, "-", "+", "100000"}, keep(pending[group][key]));
        }
      }
      for (const std::string& key : AllKeys()) {
        client->Add({"XRANGE", key, "-", "+"}, keep(all[key]));
      }
    }
    client->Add({"FLUSHALL"}, Is("+OK"));
    clients.push_back(std::move(client));
    std::string error = RunUntilQuiet(clients);
    for (auto it = all.begin(); it != all.end() && error.empty(); ++it) {
      const auto& [key, entries] = *it;
      if (entries.items.size() != added_[key].size()) error = "entries that nobody has added";
      for (const char* group : kGroups) {
        if (error.empty()) error = CheckGroup(group, key, pending[group][key]);
      }
    }
    if (error.empty() && !is_wild_) error = CheckReaders();
    return error;
  }
  std::string CheckGroup(const std::string& group, const std::string& key, const RespValue& reply) {
    Delivery& delivery = deliveries_[group];
    const auto& received = delivery.pending[key];
    const std::string where = " of " + group + " in " + key + ": ";
    std::set<StreamId> is_pending;
    for (const RespValue& item : reply.items) {
      const StreamId id = *IdOf(item.items[0]);
      const std::string& consumer = item.items[1].text;
      is_pending.insert(id);
      const auto it = received.find(id);
      if (it != received.end() ? it->second == consumer : MayHaveLeft(consumer)) continue;
      return "not to be pending" + where + TextOf(id) + " for " + consumer;
    }
    for (const auto& [id, consumer] : received) {
      // One that has left may have acknowledged it.
      if (is_pending.contains(id) || MayHaveLeft(consumer)) continue;
      return "not pending" + where + TextOf(id) + " for " + consumer;
    }
    for (const auto& [id, value] : added_[key]) {
      if (is_pending.contains(id) || delivery.reader_of.contains(value)) continue;
      return "lost" + where + value;
    }
    return "";
  }
  bool MayHaveLeft(const std::string& consumer) const {
    return std::any_of(readers_.begin(), readers_.end(), [&](const auto& reader) {
      return reader->has_left && reader->consumer == consumer;
    });
  }
  std::string CheckReaders() {
    for (const auto& reader : readers_) {
      if (reader->is_of_group()) continue;
      for (const auto& [key, begin] : reader->begin) {
        for (const auto& [id, value] : added_[key]) {
          if (id <= begin || id > reader->after[key]) continue;
          if (!reader->seen[key].contains(id)) return reader->name + " has not seen " + value;
        }
      }
    }
    return "";
  }

  std::vector<std::unique_ptr<Reader>> readers_;
  std::map<std::string, std::map<StreamId, std::string>> added_;  // key, id: value
  std::map<std::string, Delivery> deliveries_;                    // of groups
  std::vector<std::pair<std::string, StreamId>> taken_;           // for groups
  uint64_t next_value_ = 0;
  size_t nothing_ = 0;    // replies to who has waited
  size_t unblocked_ = 0;  // that CLIENT UNBLOCK has counted
  bool is_wild_ = false;  // streams do not only grow
};

INSTANTIATE_TEST_SUITE_P(Ways, StreamScheduleTest, AllBlockingWays(), NameOfWays);

constexpr uint64_t kSeeds = ByBuild(600, 80);

TEST_P(StreamScheduleTest, ReadersSeeEachEntryAndGroupsDeliverItOnce) {
  server_.RunSeeds(kSeeds, [&](uint64_t seed, Random& random) { return RunSeed(seed, random); });
  CheckWays();
}

TEST_P(StreamScheduleTest, NobodyWaitsForWhatHasGone) {
  is_wild_ = true;
  server_.RunSeeds(kSeeds, [&](uint64_t seed, Random& random) { return RunSeed(seed, random); });
}

// Their ends depend on the clock, so a seed may pass the next time.
TEST_P(StreamScheduleTest, TimeoutsLoseNothing) {
  timeouts_ = true;
  server_.RunSeeds(kSeeds / 10,
                   [&](uint64_t seed, Random& random) { return RunSeed(seed, random); });
}

// Consumers and readers that come one after the other wait for one stream; some leave. Each entry
// goes to the next consumer; each reader gets the first.
TEST_P(StreamScheduleTest, WhoWaitsFirstIsServedFirst) {
  server_.RunSeeds(kSeeds, [&](uint64_t seed, Random& random) {
    Begin(seed, random);
    const std::string key = AnyKey();
    Clients waiters, leavers;
    auto setup = Connect("setup");
    for (const char* name : {"a", "b"}) {
      setup->Add({"XGROUP", "CREATE", prefix_ + name, "g", "0", "MKSTREAM"}, Is("+OK"));
    }
    setup->Add({"XGROUP", "CREATE", key, "g", "0", "MKSTREAM"}, Is("+OK"));
    waiters.push_back(std::move(setup));
    std::string error = RunUntilQuiet(waiters);
    size_t consumers = 0;
    std::vector<bool> has_got;
    for (int i = 0; i < 7 && error.empty(); ++i) {
      auto client = Connect("w" + std::to_string(i));
      const bool leaves = random.OneIn(4);
      const bool is_of_group = !random.OneIn(4);
      const size_t wants = is_of_group ? consumers : 0;
      consumers += !leaves && is_of_group;
      has_got.push_back(leaves);
      const auto check = [&has_got, wants, leaves, i](const RespValue& reply) -> std::string {
        const auto streams = StreamsOf(reply);
        if (leaves || streams.size() != 1 || streams[0].second->items.size() != 1) return "its one";
        has_got[static_cast<size_t>(i)] = true;
        const RespValue& entry = streams[0].second->items[0];
        return Unless(entry.items[1].items[1].text == std::to_string(wants), "its turn");
      };
      Words args{"XREAD"};
      if (is_of_group) args = {"XREADGROUP", "GROUP", "g", client->name};
      args = With(args, {"COUNT", "1", "BLOCK", "0", "STREAMS"});
      Words keys{key};
      if (random.OneIn(2)) keys = {prefix_ + "a", key, prefix_ + "b"};
      args = With(With(args, keys), Words(keys.size(), is_of_group ? ">" : "$"));
      client->Add(args, check);
      error = RunUntilItWaits(*client, waiters.size() + leavers.size());
      (leaves ? leavers : waiters).push_back(std::move(client));
    }
    leavers.clear();
    while (Worker::Here().blocked_clients() != waiters.size()) helio::this_fiber::Yield();

    waiters.push_back(Connect("producer"));
    Client& producer = *waiters.back();
    for (size_t next = 0; next < std::max<size_t>(consumers, 1);) {
      const auto add = [&] {
        return Step({"XADD", key, "*", "v", std::to_string(next++)}, AnyReply);
      };
      switch (random.Uniform(3)) {
        case 0: {
          const Step step = add();
          producer.Add(step.first, step.second);
          break;
        }
        case 1: {
          const Step first = add(), second = add();
          AddExec(producer, {first, second});
          break;
        }
        case 2: {
          const Step step = add();
          AddExec(producer, {step, {{"SET", key + "s", "v"}, Is("+OK")}});
        }
      }
      // Whoever waits has it before anybody else can ask.
      if (next <= consumers && random.OneIn(2)) {
        producer.Add({"XREADGROUP", "GROUP", "g", "thief", "STREAMS", key, ">"}, Is("(nil)"));
      }
    }
    if (error.empty()) error = RunUntilQuiet(waiters);
    if (error.empty() && std::find(has_got.begin(), has_got.end(), false) != has_got.end()) {
      error = "somebody has got nothing";
    }
    waiters.clear();
    server_.AwaitTheEnd();
    waiters.push_back(Connect("last"));
    waiters.back()->Add({"FLUSHALL"}, Is("+OK"));
    if (error.empty()) error = RunUntilQuiet(waiters);
    return WithLog(EndSeed(waiters, std::move(error)));
  });
}

}  // namespace
}  // namespace dfly
