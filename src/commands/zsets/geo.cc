// SPDX-License-Identifier: Apache-2.0
// Places: members of a sorted set whose scores tell where they are. Data: core/types/geo_hash.h.
//
// Redis words and orders its errors in this way and clients match on them, so the order of the
// checks inside a handler is part of its contract. A handler whose check fails has changed nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/table/command_table.h"
#include "commands/zsets/zset_commands.h"
#include "core/text/numbers.h"
#include "core/types/geo_hash.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "helio/fibers/long_work.h"

namespace dfly {

namespace {

constexpr std::string_view kErrUnit = "ERR unsupported unit provided. please use M, KM, FT, MI";
constexpr std::string_view kErrNoSuchPlace = "ERR could not decode requested zset member";

// In metres.
std::optional<double> ParseUnit(std::string_view text) {
  if (IsOption(text, "M")) return 1;
  if (IsOption(text, "KM")) return 1000;
  if (IsOption(text, "FT")) return 0.3048;
  if (IsOption(text, "MI")) return 1609.34;
  return std::nullopt;
}

// None: `error` says why.
std::optional<GeoPoint> ParsePoint(std::string_view longitude, std::string_view latitude,
                                   std::string* error) {
  const std::optional<double> x = ParseDouble(longitude);
  const std::optional<double> y = x ? ParseDouble(latitude) : std::nullopt;
  if (!x || !y) {
    *error = kErrNotFloat;
    return std::nullopt;
  }
  const GeoPoint point = {*x, *y};
  if (IsOnMap(point)) return point;
  *error = fmt::format("ERR invalid longitude,latitude pair {:.6f},{:.6f}", *x, *y);
  return std::nullopt;
}

// With four digits after the point. As in Redis it is the product that is rounded, half a digit to
// the even one: in half a million distances a few have another last digit than fmt would give them.
void ReplyDistance(double distance, ReplySink& reply) {
  constexpr int64_t kPerUnit = 10'000;
  if (!std::isfinite(distance)) return reply.Bulk(fmt::format("{}", distance));
  const int64_t rounded = std::llrint(distance * kPerUnit);
  reply.Bulk(fmt::format("{}.{:04}", rounded / kPerUnit, rounded % kPerUnit));
}

void ReplyPoint(GeoPoint point, ReplySink& reply) {
  reply.Array(2);
  reply.Decimal(FormatLongDouble(point.longitude));
  reply.Decimal(FormatLongDouble(point.latitude));
}

// --- One place ---

// GEOADD key [NX | XX] [CH] longitude latitude member [...]: none if an error was replied.
std::optional<ZAddOptions> ParseGeoAdd(Args args, ReplySink& reply) {
  ZAddOptions options = {.end = 2};
  for (; options.end < args.size(); ++options.end) {
    if (IsOption(args[options.end], "NX")) {
      options.only_new = true;
    } else if (IsOption(args[options.end], "XX")) {
      options.only_present = true;
    } else if (IsOption(args[options.end], "CH")) {
      options.counts_changes = true;
    } else {
      break;
    }
  }
  const size_t rest = args.size() - options.end;
  const bool is_exclusive = options.only_new && options.only_present;
  if (rest != 0 && rest % 3 == 0 && !is_exclusive) return options;
  reply.Error(kErrSyntax);
  return {};
}

void GeoAdd(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<ZAddOptions> options = ParseGeoAdd(args, reply);
  if (!options) return;
  std::vector<double> scores;
  for (size_t i = options->end; i < args.size(); i += 3) {
    std::string error;
    const std::optional<GeoPoint> point = ParsePoint(args[i], args[i + 1], &error);
    if (!point) return reply.Error(error);
    scores.push_back(static_cast<double>(GeoEncode(*point)));
  }
  AddToZset(cx, args, *options, scores, options->end + 2, 3, reply);
}

// Pieces::check. Suspends.
std::optional<size_t> CheckGeoAdd(Args args, ReplySink& reply) {
  const std::optional<ZAddOptions> options = ParseGeoAdd(args, reply);
  if (!options) return {};
  helio::LongWork work;
  for (size_t i = options->end; i < args.size(); i += 3) {
    std::string error;
    if (!ParsePoint(args[i], args[i + 1], &error)) {
      reply.Error(error);
      return {};
    }
    work.Step();
  }
  return options->end;
}

// GEODIST key member member [unit]
void GeoDist(ShardContext& cx, Args args, ReplySink& reply) {
  std::optional<double> unit = 1;
  if (args.size() == 5) {
    unit = ParseUnit(args[4]);
    if (!unit) return reply.Error(kErrUnit);
  } else if (args.size() > 5) {
    return reply.Error(kErrSyntax);
  }
  const auto value = cx.FindReadOnly(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Null();
  const std::optional<double> from = ToRead(*value).Score(args[2]);
  const std::optional<double> to = ToRead(*value).Score(args[3]);
  if (!from || !to) return reply.Null();
  ReplyDistance(GeoDistance(GeoDecode(*from), GeoDecode(*to)) / *unit, reply);
}

// What reply_one(score) says of each member's, or reply_none().
template <typename One, typename None>
void ForEachPlace(ShardContext& cx, Args args, ReplySink& reply, One reply_one, None reply_none) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  reply.Array(args.rest().size());
  for (std::string_view member : args.rest()) {
    const auto score = value ? ToRead(*value).Score(member) : std::nullopt;
    score ? reply_one(*score) : reply_none();
  }
}

void GeoHash(ShardContext& cx, Args args, ReplySink& reply) {
  ForEachPlace(
      cx, args, reply, [&](double score) { reply.Bulk(GeoText(score)); }, [&] { reply.Null(); });
}

void GeoPos(ShardContext& cx, Args args, ReplySink& reply) {
  ForEachPlace(
      cx, args, reply, [&](double score) { ReplyPoint(GeoDecode(score), reply); },
      [&] { reply.NullArray(); });
}

// --- Searching ---

enum class Origin : uint8_t { kPoint, kMember, kOption };  // where the centre stands

// GEORADIUS, GEORADIUSBYMEMBER and GEOSEARCH; _RO and STORE.
struct SearchForm {
  Origin origin;
  bool may_store = false;  // by options
  bool stores = false;     // always: the target stands before the source

  size_t source_at() const { return stores ? 2 : 1; }
  size_t options_at() const {
    if (origin == Origin::kOption) return source_at() + 1;
    return origin == Origin::kPoint ? 6 : 5;
  }
};

enum class Order : uint8_t { kNone, kNearestFirst, kFarthestFirst };

struct Query {
  GeoShape shape;
  std::vector<std::string_view> members;  // all have to be there; the centre is where the last is
  double unit = 1;                        // metres
  std::optional<std::string_view> target;
  bool stores_distances = false;
  bool with_distance = false, with_hash = false, with_point = false;
  Order order = Order::kNone;
  uint64_t count = 0;  // 0: all
  bool any = false;    // whichever are found first
  // What is wrong with the arguments. That a member is not there goes before what is wrong behind
  // it.
  std::string error = {};
  std::string radius_error = {};  // GEORADIUSBYMEMBER's, if the key is there
};

class QueryParser {
 public:
  QueryParser(Args args, const SearchForm& form) : args_(args), form_(form) {}

  Query Parse() {
    if (form_.stores) query_.target = args_.key();
    if (ParseOrigin() && ParseOptions()) Check();
    return std::move(query_);
  }

 private:
  bool Fail(std::string_view error) {
    query_.error = error;
    return false;
  }

  bool ParseOrigin() {
    if (form_.origin == Origin::kOption) return true;
    if (form_.origin == Origin::kPoint) return ParseCenter(2) && ParseRadius(4);
    query_.members.push_back(args_[2]);
    if (!ParseRadius(3)) query_.radius_error = std::exchange(query_.error, {});
    return true;
  }

  bool ParseCenter(size_t at) {
    const auto point = ParsePoint(args_[at], args_[at + 1], &query_.error);
    if (point) query_.shape.center = *point;
    return point.has_value();
  }

  bool ParseUnitAt(size_t at) {
    const std::optional<double> unit = ParseUnit(args_[at]);
    if (!unit) return Fail(kErrUnit);
    query_.unit = *unit;
    return true;
  }

  bool ParseRadius(size_t at) {
    const std::optional<double> radius = ParseDouble(args_[at]);
    if (!radius) return Fail("ERR need numeric radius");
    if (*radius < 0) return Fail("ERR radius cannot be negative");
    if (!ParseUnitAt(at + 1)) return false;
    query_.shape.radius = *radius * query_.unit;
    return true;
  }

  bool ParseBox(size_t at) {
    const std::optional<double> width = ParseDouble(args_[at]);
    if (!width) return Fail("ERR need numeric width");
    const std::optional<double> height = ParseDouble(args_[at + 1]);
    if (!height) return Fail("ERR need numeric height");
    if (*width < 0 || *height < 0) return Fail("ERR height or width cannot be negative");
    if (!ParseUnitAt(at + 2)) return false;
    query_.shape.is_box = true;
    query_.shape.width = *width * query_.unit;
    query_.shape.height = *height * query_.unit;
    return true;
  }

  // BYPOLYGON count longitude latitude [...], at the count. Returns how many arguments it has; none
  // after an error.
  std::optional<size_t> ParsePolygon(size_t at) {
    constexpr int64_t kVerticesMin = 3;
    const std::optional<int64_t> count = ParseInt64(args_[at]);
    if (!count || *count > INT32_MAX) {
      Fail("ERR invalid number of vertices");
      return std::nullopt;
    }
    const size_t behind = args_.size() - at - 1;
    if (*count < kVerticesMin || static_cast<uint64_t>(*count) > behind / 2) {
      Fail("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
      return std::nullopt;
    }
    std::vector<GeoPoint> vertices;
    for (size_t i = at + 1; i <= at + static_cast<size_t>(*count) * 2; i += 2) {
      const auto point = ParsePoint(args_[i], args_[i + 1], &query_.error);
      if (!point) return std::nullopt;
      vertices.push_back(*point);
    }
    query_.shape.SetPolygon(std::move(vertices));
    return 1 + static_cast<size_t>(*count) * 2;
  }

  bool ParseCount(size_t at) {
    const std::optional<int64_t> count = ParseInt64(args_[at]);
    if (!count) return Fail(kErrNotInteger);
    if (*count <= 0) return Fail("ERR COUNT must be > 0");
    query_.count = static_cast<uint64_t>(*count);
    return true;
  }

  bool ParseOptions() {
    for (size_t i = form_.options_at(); i < args_.size(); ++i) {
      const std::string_view option = args_[i];
      const size_t behind = args_.size() - i - 1;
      if (IsOption(option, "WITHDIST")) {
        query_.with_distance = true;
      } else if (IsOption(option, "WITHHASH")) {
        query_.with_hash = true;
      } else if (IsOption(option, "WITHCOORD")) {
        query_.with_point = true;
      } else if (IsOption(option, "ANY")) {
        query_.any = true;
      } else if (IsOption(option, "ASC")) {
        query_.order = Order::kNearestFirst;
      } else if (IsOption(option, "DESC")) {
        query_.order = Order::kFarthestFirst;
      } else if (IsOption(option, "COUNT") && behind >= 1) {
        if (!ParseCount(++i)) return false;
      } else if (form_.may_store && behind >= 1 &&
                 (IsOption(option, "STORE") || IsOption(option, "STOREDIST"))) {
        query_.stores_distances = option.size() > 5;
        query_.target = args_[++i];
      } else if (form_.origin != Origin::kOption || !ParseSearchOption(&i)) {
        return query_.error.empty() ? Fail(kErrSyntax) : false;
      }
    }
    return true;
  }

  // Of GEOSEARCH alone. False: it is none of them, or an error.
  bool ParseSearchOption(size_t* at) {
    const std::string_view option = args_[*at];
    const size_t first = *at + 1;
    const size_t behind = args_.size() - first;
    const bool is_polygon = !query_.shape.vertices.empty();
    if (IsOption(option, "FROMMEMBER") && behind >= 1 && !has_center_ && !is_polygon) {
      query_.members.push_back(args_[first]);
      *at += 1;
      return true;
    }
    if (IsOption(option, "FROMLONLAT") && behind >= 2 && query_.members.empty() && !is_polygon) {
      *at += 2;
      return has_center_ = ParseCenter(first);
    }
    if (IsOption(option, "BYRADIUS") && behind >= 2 && !has_box_ && !is_polygon) {
      *at += 2;
      return has_radius_ = ParseRadius(first);
    }
    if (IsOption(option, "BYBOX") && behind >= 3 && !has_radius_ && !is_polygon) {
      *at += 3;
      return has_box_ = ParseBox(first);
    }
    // Of Valkey 9. It has a centre of its own.
    if (IsOption(option, "BYPOLYGON") && behind >= 1 && !has_radius_ && !has_box_ && !has_center_ &&
        query_.members.empty()) {
      const std::optional<size_t> count = ParsePolygon(first);
      if (count) *at += *count;
      return count.has_value();
    }
    if (IsOption(option, "STOREDIST") && form_.stores) {
      query_.stores_distances = true;
      return true;
    }
    return false;
  }

  bool Check() {
    const std::string_view name = Printed(args_.name());
    if (query_.target && (query_.with_distance || query_.with_hash || query_.with_point)) {
      return Fail(
          fmt::format("ERR {} is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
                      form_.stores ? "GEOSEARCHSTORE" : "STORE option in GEORADIUS"));
    }
    const bool has_shape = form_.origin != Origin::kOption || !query_.shape.vertices.empty();
    if (!has_shape && query_.members.empty() && !has_center_) {
      return Fail(
          fmt::format("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {}", name));
    }
    if (!has_shape && !has_radius_ && !has_box_) {
      return Fail(
          fmt::format("ERR exactly one of BYRADIUS and BYBOX can be specified for {}", name));
    }
    if (query_.any && query_.count == 0)
      return Fail("ERR the ANY argument requires COUNT argument");
    // Of some the nearest ones are meant.
    if (query_.count != 0 && query_.order == Order::kNone && !query_.any) {
      query_.order = Order::kNearestFirst;
    }
    return true;
  }

  const Args args_;
  const SearchForm form_;
  Query query_;
  bool has_center_ = false, has_radius_ = false, has_box_ = false;
};

// Copies, as they go to other shards.
struct Found {
  ScoredMembers members;
  std::vector<double> distances = {};
  std::vector<size_t> order = {};  // of those that are meant

  size_t size() const { return order.size(); }
};

void StepOf(helio::LongWork* work) {
  if (work != nullptr) work->Step();
}

// Goes over one key, some members at a time.
// Owner: a brief, or one after another of those that a coordinator sends to the key's shard.
class Search {
 public:
  // `query` outlives it.
  explicit Search(Query* query) : query_(*query) {}

  // Whether it goes on: else error() is to be replied, or, if there is none, that nothing is there.
  // `zset`: null if there is no key. Before LookAtSome.
  bool Begin(const ZsetValue* zset) {
    has_begun_ = true;
    error_ = zset != nullptr && !query_.radius_error.empty() ? query_.radius_error : query_.error;
    if (zset != nullptr) {
      for (std::string_view member : query_.members) {
        const std::optional<double> score = zset->Score(member);
        if (!score) {
          error_ = kErrNoSuchPlace;
          break;
        }
        query_.shape.center = GeoDecode(*score);
      }
    }
    if (!error_.empty() || zset == nullptr) return false;
    ranges_ = GeoCover(query_.shape);
    return true;
  }
  bool has_begun() const { return has_begun_; }
  std::string_view error() const { return error_; }

  // How many members there are to look at.
  size_t CountInRanges(const ZsetValue& zset) const {
    size_t count = 0;
    for (const GeoScores& range : ranges_) {
      count += zset.CountBelow(range.end) - zset.CountBelow(range.begin);
    }
    return count;
  }
  // For all members that may be found: none is moved then.
  void Reserve(const ZsetValue& zset) {
    const size_t most = std::min<uint64_t>(CountInRanges(zset), enough());
    found_.members.Reserve(most);
    found_.distances.reserve(most);
  }
  // At most `count` more. False: that was all.
  bool LookAtSome(const ZsetValue& zset, size_t count) {
    constexpr size_t kChunk = 64;
    while (count > 0 && found_.members.size() < enough()) {
      if (at_ == end_) {
        if (next_range_ == ranges_.size()) return false;
        const GeoScores& range = ranges_[next_range_++];
        at_ = zset.CountBelow(range.begin);
        end_ = zset.CountBelow(range.end);
        continue;
      }
      const size_t chunk = std::min({kChunk, end_ - at_, count});
      zset.ForRange(at_, chunk, false, [this](std::string_view member, double score) {
        if (found_.members.size() >= enough()) return;
        const auto distance = query_.shape.DistanceWithin(GeoDecode(score));
        if (!distance) return;
        found_.members.Add(member, score);
        found_.distances.push_back(*distance);
      });
      at_ += chunk;
      count -= chunk;
    }
    return found_.members.size() < enough();
  }
  // Those that are meant, in their order. Once, at the end. `work`: null in a brief.
  Found Take(helio::LongWork* work) {
    std::vector<size_t>& order = found_.order;
    order.reserve(found_.members.size());
    for (size_t i = 0; i < found_.members.size(); ++i) {
      order.push_back(i);
      StepOf(work);
    }
    if (query_.order != Order::kNone) {
      const bool is_reverse = query_.order == Order::kFarthestFirst;
      const std::vector<double>& distances = found_.distances;
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        StepOf(work);
        return is_reverse ? distances[a] > distances[b] : distances[a] < distances[b];
      });
    }
    if (query_.count != 0 && query_.count < order.size()) order.resize(query_.count);
    return std::move(found_);
  }

 private:
  uint64_t enough() const { return query_.any ? query_.count : UINT64_MAX; }

  Query& query_;
  bool has_begun_ = false;
  std::string_view error_;
  std::vector<GeoScores> ranges_;
  size_t next_range_ = 0;
  size_t at_ = 0, end_ = 0;  // ranks: how far it is in the range before that one
  Found found_;
};

// `work`: null in a brief.
void ReplyWith(const Query& query, const Found& found, ReplySink& reply,
               helio::LongWork* work = nullptr) {
  const size_t extras = query.with_distance + query.with_hash + query.with_point;
  reply.Array(found.size());
  for (size_t i : found.order) {
    const double score = found.members.scores[i];
    if (extras > 0) reply.Array(1 + extras);
    reply.Bulk(found.members.members[i]);
    if (query.with_distance) ReplyDistance(found.distances[i] / query.unit, reply);
    if (query.with_hash) reply.Integer(static_cast<int64_t>(score));
    if (query.with_point) ReplyPoint(GeoDecode(score), reply);
    StepOf(work);
  }
}

ScoredMembers StoredOf(const Query& query, const Found& found, helio::LongWork* work = nullptr) {
  ScoredMembers stored;
  stored.Reserve(found.size());
  for (size_t i : found.order) {
    stored.Add(found.members.members[i],
               query.stores_distances ? found.distances[i] / query.unit : found.members.scores[i]);
    StepOf(work);
  }
  return stored;
}

KeyEvent StoreEvent(const SearchForm& form) {
  return form.stores ? KeyEvent::kGeoSearchStore : KeyEvent::kGeoRadiusStore;
}

template <const SearchForm& kForm>
void GeoSearch(ShardContext& cx, Args args, ReplySink& reply) {
  Query query = QueryParser(args, kForm).Parse();
  const auto value = cx.FindReadOnly(args[kForm.source_at()], ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  Search search(&query);
  std::optional<ZsetValue> zset;
  if (value) zset.emplace(ToRead(*value));
  const bool goes_on = search.Begin(zset ? &*zset : nullptr);
  if (!search.error().empty()) return reply.Error(search.error());
  if (goes_on) search.LookAtSome(*zset, SIZE_MAX);
  const Found found = search.Take(nullptr);
  if (!query.target) return ReplyWith(query, found, reply);
  const ScoredMembers stored = StoredOf(query, found);
  StoreZset(cx, *query.target, stored, StoreEvent(kForm), stored.size());
  // Other servers reckon distances otherwise, and choose others with ANY.
  if (cx.wants_effects()) {
    TellZset(*query.target, stored, [&cx](auto words) { cx.TellAll(words); });
  }
  reply.Integer(static_cast<int64_t>(found.size()));
}

// For CopyInSlices.
class SearchCopy {
 public:
  explicit SearchCopy(Query* query) : search_(query) {}

  bool CopySome(ShardContext& cx, const ShardContext::ReadHandle& value) {
    const ZsetValue zset = ToRead(*value);
    if (!search_.has_begun()) {
      limit_ = cx.shard().zset_limit();
      if (!search_.Begin(&zset)) return false;
      if (zset.size() > kLargeMembers) search_.Reserve(zset);
    }
    return search_.LookAtSome(zset, SliceOf(*value, zset.size()));
  }
  Search& search() { return search_; }
  const PackedLimit& limit() const { return limit_; }  // of a shard with the key

 private:
  Search search_;
  PackedLimit limit_ = {};
};

// Suspends.
template <const SearchForm& kForm>
void GeoSearchInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  Query query = QueryParser(args, kForm).Parse();
  const std::string_view source = args[kForm.source_at()];
  std::optional<KeyParts<CopyLook>> parts(std::in_place, cx, std::span(&source, 1));
  if (query.target) parts->SetTarget(*query.target);
  SearchCopy copy(&query);
  if (!CopyInSlices(*parts, source, ValueType::kZset, reply, &copy)) return;
  Search& search = copy.search();
  if (!search.has_begun()) search.Begin(nullptr);
  if (!search.error().empty()) return reply.Error(search.error());
  if (!query.target) parts.reset();  // others need not wait for the reply
  helio::LongWork work;
  const Found found = search.Take(&work);
  if (!query.target) return ReplyWith(query, found, reply, &work);
  const ScoredMembers stored = StoredOf(query, found, &work);
  const Storing storing = {.event = StoreEvent(kForm),
                           .changes = stored.size(),
                           .limit = copy.limit(),
                           .tells_result = true};
  StoreZset(*parts, *query.target, stored, storing, &work);
  reply.Integer(static_cast<int64_t>(found.size()));
}

// Command::takes_many. The value may also be the one that is replaced; that takes no time.
template <const SearchForm& kForm>
bool SearchesMany(const CompactValue& value, Args args, size_t /*key_at*/) {
  if (value.is_string() || value.type() != ValueType::kZset) return false;
  Query query = QueryParser(args, kForm).Parse();
  Search search(&query);
  const ZsetValue zset = ToRead(value);
  if (!search.Begin(&zset) || search.CountInRanges(zset) < kLargeMembers) return false;
  // With ANY the first ones may do.
  return !query.any || query.count >= kLargeMembers || search.LookAtSome(zset, kLargeMembers);
}

constexpr SearchForm kRadius = {.origin = Origin::kPoint, .may_store = true};
constexpr SearchForm kRadiusReadonly = {.origin = Origin::kPoint};
constexpr SearchForm kRadiusByMember = {.origin = Origin::kMember, .may_store = true};
constexpr SearchForm kRadiusByMemberReadonly = {.origin = Origin::kMember};
constexpr SearchForm kSearch = {.origin = Origin::kOption};
constexpr SearchForm kSearchStore = {.origin = Origin::kOption, .stores = true};

template <const SearchForm& kForm>
void AddSearch(CommandTable* table, std::string_view name, int arity, std::string_view summary,
               std::string_view since, std::string_view replaced_by = {}) {
  constexpr bool kMayWrite = kForm.may_store || kForm.stores;
  KeySpec keys = KeyAt(1);
  if (kForm.stores) keys = TwoKeys("OW update", "RO access");
  if (kForm.may_store) {
    keys = KeyAndOption("RO access", "STORE STOREDIST", static_cast<int>(kForm.options_at()),
                        "OW update");
  }
  table->Add({.name = name,
              .run = GeoSearch<kForm>,
              .across = GeoSearchInSlices<kForm>,
              .slices = true,
              .takes_many = SearchesMany<kForm>,
              .arity = arity,
              .flags = (kMayWrite ? kWrite | kDenyOom : kReadonly) |
                       (kForm.may_store ? kMovableKeys : uint32_t{0}),
              .categories = kAclGeo,
              .keys = keys,
              .docs = {.summary = summary,
                       .since = since,
                       .group = "geo",
                       .complexity = "O(N+log(M)) where N is the number of members in the cells "
                                     "around the shape and M is the number of all.",
                       .deprecated_since = replaced_by.empty() ? "" : "6.2.0",
                       .replaced_by = replaced_by}});
}

}  // namespace

void RegisterGeoCommands(CommandTable* table) {
  const auto add = [table](std::string_view name, ShardHandler run, int arity, uint32_t flags,
                           KeySpec keys, std::string_view summary, std::string_view complexity,
                           const Pieces& pieces = {}) {
    table->Add({.name = name,
                .run = run,
                .pieces = pieces,
                .arity = arity,
                .flags = flags,
                .categories = kAclGeo,
                .keys = keys,
                .docs = {summary, "3.2.0", "geo", complexity}});
  };
  add("geoadd", GeoAdd, -5, kWrite | kDenyOom, KeyAt(1, "RW update"),
      "Adds members with their places, or moves them; makes the key if need be.",
      "O(log(N)) for each member, where N is the number of members.",
      {.replies = PieceReplies::kSum, .step = 3, .check = CheckGeoAdd});
  add("geodist", GeoDist, -4, kReadonly, KeyAt(1), "Returns the distance between two members.",
      "O(1)");
  add("geohash", GeoHash, -2, kReadonly, KeyAt(1),
      "Returns the places of members as geohash texts.",
      "O(N) where N is the number of members asked for.");
  add("geopos", GeoPos, -2, kReadonly, KeyAt(1), "Returns the longitudes and latitudes of members.",
      "O(N) where N is the number of members asked for.");
  AddSearch<kSearch>(table, "geosearch", -7, "Returns the members in a circle or a box.", "6.2.0");
  AddSearch<kSearchStore>(table, "geosearchstore", -8,
                          "Makes a sorted set of the members in a circle or a box.", "6.2.0");
  AddSearch<kRadius>(table, "georadius", -6,
                     "Returns, or makes a sorted set of, the members in a circle around a point.",
                     "3.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument");
  AddSearch<kRadiusReadonly>(table, "georadius_ro", -6,
                             "Returns the members in a circle around a point.", "3.2.10",
                             "`GEOSEARCH` with the `BYRADIUS` argument");
  AddSearch<kRadiusByMember>(
      table, "georadiusbymember", -5,
      "Returns, or makes a sorted set of, the members in a circle around one of them.", "3.2.0",
      "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments");
  AddSearch<kRadiusByMemberReadonly>(
      table, "georadiusbymember_ro", -5, "Returns the members in a circle around one of them.",
      "3.2.10", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments");
}

}  // namespace dfly
