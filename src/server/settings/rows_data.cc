// SPDX-License-Identifier: Apache-2.0
// The settings of threads, memory, the forms of values, snapshots, tags, and of the cluster that
// there is none of.
#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json/json_doc.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"
#include "server/base/cron.h"
#include "server/base/words.h"
#include "server/clients/client_limiter.h"
#include "server/clients/server_state.h"
#include "server/options/setting_slots.h"
#include "server/persistence/persistence.h"
#include "server/settings/rows.h"
#include "storage/snapshot_names.h"

namespace dfly {

namespace {

using Options = ServerOptions;
using enum SettingTopic;
using enum SettingKind;
using enum SettingHow;

constexpr SettingSlot kShards = {
    kSlot<&Options::num_shards>.store, [](const Options& options) {
      return ShowValue(options.num_shards == 0 ? options.threads : options.num_shards);
    }};

// --cache_mode has a policy of its own; allkeys-lfu is the closest name for it.
constexpr SettingSlot kPolicy = {
    [](std::string_view value, Options* options) {
      const EvictionPolicy policy = *PolicyOfName(value);
      if (options->cache_mode && policy != EvictionPolicy::kAllKeysLfu) {
        return std::string("argument(s) must be one of the following: allkeys-lfu");
      }
      options->eviction.rules.policy = options->cache_mode ? EvictionPolicy::kCache : policy;
      return std::string();
    },
    [](const Options& options) { return std::string(PolicyName(options.eviction.rules.policy)); }};

// REQUIRES: db_count and cache_mode are known.
constexpr SettingSlot kPolicyDb = {
    [](std::string_view value, Options* options) {
      const std::vector<std::string_view> words = SplitWords(value);
      if (words.size() % 2 != 0) return std::string("must be pairs of a database and a policy");
      DatabasePolicies policies;
      for (size_t i = 0; i < words.size(); i += 2) {
        const auto db = ParseInt64(words[i]);
        if (!db || *db < 0 || *db >= options->db_count) {
          return fmt::format("'{}' is no database: there are 0 to {}", Printed(words[i]),
                             options->db_count - 1);
        }
        std::optional<EvictionPolicy> policy = PolicyOfName(LowerCase(words[i + 1]));
        if (!policy) return fmt::format("'{}' is no policy", Printed(words[i + 1]));
        if (options->cache_mode && policy == EvictionPolicy::kAllKeysLfu) {
          policy = EvictionPolicy::kCache;
        }
        if (!policies.emplace(static_cast<int>(*db), *policy).second) {
          return fmt::format("database {} is named twice", *db);
        }
      }
      options->eviction.db_policies = std::move(policies);
      return std::string();
    },
    [](const Options& options) { return PolicyList(options.eviction.db_policies, ' ', ' '); }};

constexpr SettingSlot kDirectory = {
    kSlot<&Options::persistence, &PersistenceOptions::directory>.store, [](const Options& options) {
      if (!options.persistence.directory.empty()) return options.persistence.directory;
      char path[PATH_MAX];
      return std::string(getcwd(path, sizeof(path)) == nullptr ? "" : path);
    }};

constexpr SettingSlot kDbFileName = {
    [](std::string_view value, Options* options) {
      options->persistence.dbfilename = value;
      return CheckDbFileName(options->persistence.dbfilename);
    },
    kSlot<&Options::persistence, &PersistenceOptions::dbfilename>.show};

constexpr SettingSlot kSaveRules = {
    [](std::string_view value, Options* options) {
      const bool is_good = ParseSaveRules(value, &options->persistence.rules);
      return std::string(is_good ? "" : "Invalid save parameters");
    },
    [](const Options& options) { return FormatSaveRules(options.persistence.rules); }};

constexpr SettingSlot kCron = {
    [](std::string_view value, Options* options) {
      options->persistence.cron = value;
      const bool is_good = value.empty() || Cron::Parse(options->persistence.cron);
      return std::string(is_good ? "" : "must be five fields as in cron(5), or empty");
    },
    kSlot<&Options::persistence, &PersistenceOptions::cron>.show};

constexpr NamedValue<FrameCodec> kCodecs[] = {
    {"none", FrameCodec::kNone}, {"lz4", FrameCodec::kLz4}, {"zstd", FrameCodec::kZstd}};

constexpr SettingSlot kClusterMode = {
    [](std::string_view value, Options* options) {
      options->emulates_cluster = value == "emulated";
      return std::string(value.empty() || options->emulates_cluster ? "" : "unknown");
    },
    [](const Options& options) { return std::string(options.emulates_cluster ? "emulated" : ""); }};

constexpr SettingSlot kTagDelimiter = {
    [](std::string_view value, Options* options) {
      if (value.size() != 1 || value == "{" || value == "}") {
        return std::string("must be one character, and no brace");
      }
      options->tag_rules.delimiter = value[0];
      return std::string();
    },
    [](const Options& options) {
      const TagRules& rules = options.tag_rules;
      return std::string(rules.prefix.empty() ? 0 : 1, rules.delimiter);
    }};

std::string ApplyMaxMemory(SettingHost& host, const SettingChange&) {
  Server& server = ServerOf(host);
  server.state().memory.NoteCrossing();
  server.EvictToLimit();
  // The limit of clients may be a part of this one.
  AwaitOnAllSessions<ClientLimiter>(server.state(),
                                    [](ClientLimiter& limiter) { limiter.OnMemoryLimit(); });
  EvictClients(server.state());
  return "";
}

std::string ApplyEviction(SettingHost& host, const SettingChange& change) {
  ServerOf(host).SetEviction(change.now.eviction);
  return "";
}

std::string ApplyValueSizes(SettingHost& host, const SettingChange& change) {
  ServerOf(host).SetValueSizes(change.now.value_sizes);
  return "";
}

// On the thread that snapshots belong to.
template <typename Function>
std::string OnPersistence(SettingHost& host, Function function) {
  Server& server = ServerOf(host);
  server.state().pool.at(0)->Await([&] { function(server.persistence()); });
  return "";
}

std::string ApplyDirectory(SettingHost& host, const SettingChange& change) {
  std::string error;
  OnPersistence(host, [&](Persistence& persistence) {
    error = persistence.SetDirectory(change.now.persistence.directory);
  });
  return error;
}

std::string ApplyDbFileName(SettingHost& host, const SettingChange& change) {
  return OnPersistence(host, [&](Persistence& persistence) {
    persistence.SetDbFileName(change.now.persistence.dbfilename);
  });
}

std::string ApplySaveRules(SettingHost& host, const SettingChange& change) {
  return OnPersistence(
      host, [&](Persistence& persistence) { persistence.SetRules(change.now.persistence.rules); });
}

std::string ApplyCron(SettingHost& host, const SettingChange& change) {
  return OnPersistence(
      host, [&](Persistence& persistence) { persistence.SetCron(change.now.persistence.cron); });
}

std::string ApplyCompression(SettingHost& host, const SettingChange& change) {
  return OnPersistence(host, [&](Persistence& persistence) {
    persistence.SetCompressesStrings(change.now.persistence.compresses_strings);
  });
}

std::string ApplyStopsWrites(SettingHost& host, const SettingChange& change) {
  return OnPersistence(host, [&](Persistence& persistence) {
    persistence.SetStopsWrites(change.now.persistence.stops_writes_on_error);
  });
}

// --- The table ---

constexpr SettingRow kRows[] = {
    {.name = "proactor_threads",
     .topic = kThreads,
     .kind = kInteger,
     .initial = "0",
     .max = 1024,
     .how = kAtStart,
     .slot = kSlot<&Options::threads>,
     .brief = "threads; 0: one for each core",
     .help = "Threads, each with its own event loop and shards; 0: as many as there are cores for "
             "the process, control groups included, or fewer if memory is short. More threads than "
             "cores cost speed."},
    {.name = "num_shards",
     .topic = kThreads,
     .kind = kInteger,
     .initial = "0",
     .max = 4096,
     .how = kAtStart,
     .slot = kShards,
     .help = "Slices of the key space; 0: one for each thread. More than threads is for tests."},
    {.name = "force_epoll",
     .topic = kThreads,
     .kind = kBool,
     .initial = "no",
     .how = kAtStart,
     .slot = kSlot<&Options::force_epoll>,
     .help = "Use epoll even where io_uring works. Slower; for comparisons and broken kernels."},
    {.name = "thread_slice_us",
     .topic = kThreads,
     .kind = kInteger,
     .initial = "0",
     .max = 100'000,
     .how = kAtStart,
     .slot = kSlot<&Options::thread_slice_us>,
     .help =
         "The kernel's time slice of a thread, in microseconds, from 100 on; 0: the kernel's own. "
         "With 100 a thread waits less for its core where other programs are busy; on a quiet "
         "machine long replies made others wait longer. Needs Linux 6.12; no effect before."},
    {.name = "singlehop_blocking",
     .topic = kThreads,
     .kind = kBool,
     .initial = "yes",
     .how = kAtStart,
     .slot = kSlot<&Options::singlehop_blocking>,
     .help = "BLPOP and the like, whose keys are all in one shard, look and take, or begin to "
             "wait, in one hop. false: they go the way of those with keys in several shards."},
    {.name = "migrate_connections",
     .topic = kThreads,
     .kind = kBool,
     .initial = "yes",
     .how = kAtStart,
     .slot = kSlot<&Options::migrate_connections>,
     .help = "A connection whose commands keep landing on another thread's shard moves there. Not "
             "while it subscribes, blocks, watches or is inside MULTI."},
    {.name = "maxmemory",
     .topic = kData,
     .kind = kMemory,
     .slot = kSlot<&Options::maxmemory>,
     .live = kStoreLive<&Settings::maxmemory, &Options::maxmemory>,
     .apply = ApplyMaxMemory,
     .brief = "bytes at most (2gb); empty: 80 % of the machine",
     .help = "Bytes that the server uses, data and buffers, with units if you like (20mb, 1gb). "
             "Past that keys are evicted (--maxmemory_policy, --cache_mode), or writes are "
             "refused. Empty: 80 % of what the machine or the container has. 0: no limit, then the "
             "kernel may kill the process when memory is short."},
    {.name = "maxmemory-policy",
     .topic = kData,
     .kind = kChoice,
     .initial = "noeviction",
     .choices = "volatile-lru volatile-lrm volatile-lfu volatile-random volatile-ttl allkeys-lru "
                "allkeys-lrm allkeys-lfu allkeys-random noeviction",
     .slot = kPolicy,
     .apply = ApplyEviction,
     .flag_error = "'{}' is no policy",
     .brief = "what goes when memory is full",
     .help =
         "Which keys go when memory is full: noeviction, allkeys-lru, allkeys-lrm, allkeys-lfu, "
         "allkeys-random, volatile-lru, volatile-lrm, volatile-lfu, volatile-random, "
         "volatile-ttl, as in Redis 8.6. STICK keeps a key in any case. CONFIG SET changes it."},
    {.name = "maxmemory-samples",
     .topic = kData,
     .kind = kInteger,
     .initial = "5",
     .min = 1,
     .max = INT_MAX,
     .slot = kSlot<&Options::eviction, &EvictionSettings::rules, &EvictionRules::samples>,
     .apply = ApplyEviction,
     .help = "How well eviction looks: about six keys are compared for each. More cost time."},
    {.name = "lfu-log-factor",
     .topic = kData,
     .kind = kInteger,
     .initial = "10",
     .max = INT_MAX,
     .slot = kSlot<&Options::eviction, &EvictionSettings::rules, &EvictionRules::lfu_log_factor>,
     .apply = ApplyEviction,
     .help = "*-lfu: the larger, the more hits it takes to fill a key's counter."},
    {.name = "lfu-decay-time",
     .topic = kData,
     .kind = kInteger,
     .initial = "1",
     .max = INT_MAX,
     .slot = kSlot<&Options::eviction, &EvictionSettings::rules, &EvictionRules::lfu_decay_minutes>,
     .apply = ApplyEviction,
     .help =
         "*-lfu: minutes after which a key that is not used loses one from its counter; 0: never."},
    {.name = "cache_mode",
     .topic = kData,
     .kind = kBool,
     .initial = "no",
     .how = kAtStart,
     .slot = kSlot<&Options::cache_mode>,
     .brief = "be a cache: evict what is used the least",
     .help = "The server is a cache: when memory is full it evicts what is used the least often, "
             "by a policy of its own that is close to allkeys-lfu, but follows changes faster and "
             "resists scans and loops."},
    {.name = "activedefrag",
     .topic = kData,
     .kind = kBool,
     .initial = "yes",
     .slot = kSlot<&Options::active_defrag>,
     .live = kStoreLive<&Settings::active_defrag, &Options::active_defrag>,
     .help = "Memory of deleted keys that cannot be returned to the system, as keys that are left "
             "lie between it, is made returnable in the background: these keys move together."},
    {.name = "active-defrag-ignore-bytes",
     .topic = kData,
     .kind = kMemory,
     .initial = "8mb",
     .min = 1,
     .max = INT64_MAX,
     .slot = kSlot<&Options::defrag_ignore_bytes>,
     .live = kStoreLive<&Settings::defrag_ignore_bytes, &Options::defrag_ignore_bytes>,
     .help = "It begins when what is resident is more than what is used by so many bytes, ..."},
    {.name = "active-defrag-threshold-lower",
     .topic = kData,
     .kind = kInteger,
     .initial = "10",
     .max = 1000,
     .slot = kSlot<&Options::defrag_threshold_percent>,
     .live = kStoreLive<&Settings::defrag_threshold_percent, &Options::defrag_threshold_percent>,
     .help = "... and by so many percent of what is used."},
    {.name = "active-defrag-cycle-max",
     .topic = kData,
     .kind = kInteger,
     .initial = "25",
     .min = 1,
     .max = 99,
     .slot = kSlot<&Options::defrag_cycle_percent>,
     .live = kStoreLive<&Settings::defrag_cycle_percent, &Options::defrag_cycle_percent>,
     .help = "It takes so many percent of a thread's time, at most, while it runs."},
    {.name = "huge_pages",
     .topic = kData,
     .kind = kBool,
     .initial = "no",
     .how = kAtStart,
     .slot = kSlot<&Options::huge_pages>,
     .brief = "put memory that is in use in huge pages",
     .help = "Memory that is in use, 2 MB of it in a row, becomes one page of the machine, in the "
             "background, once 32 MB are used: look-ups in large tables are faster. The process "
             "does not grow. What is freed in such a page goes to other processes when the machine "
             "needs it. Needs Linux 6.1 or later; without effect before."},
    {.name = "databases",
     .flag = "dbnum",
     .topic = kData,
     .kind = kInteger,
     .initial = "16",
     .min = 1,
     .max = 1024,
     .how = kAtStart,
     .slot = kSlot<&Options::db_count>,
     .help = "Databases (SELECT 0 to dbnum - 1)."},
    {.name = "maxmemory-policy-db",  // behind those that it depends on
     .topic = kData,
     .slot = kPolicyDb,
     .apply = ApplyEviction,
     .has_words = true,
     .repeat = SettingRepeat::kAddsWords,
     .lacks_line_if_empty = true,
     .help = "Databases with a policy of their own, each with its policy: '0 allkeys-lru 5 "
             "noeviction'. "
             "Only databases whose policy evicts lose keys. All others have --maxmemory_policy, or "
             "that "
             "of --cache_mode. In redis.conf several lines add up; CONFIG SET replaces them all."},
    {.name = "list-max-listpack-size",
     .old_name = "list-max-ziplist-size",
     .topic = kData,
     .kind = kInteger,
     .initial = "-2",
     .min = INT_MIN,
     .max = INT_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::list_max_listpack_size>,
     .apply = ApplyValueSizes,
     .help = "How large the blocks of lists become. -1 to -5: 4, 8, 16, 32, 64 KB; from 1 on: so "
             "many elements, and 8 KB. Larger ones save little memory and make LINSERT, LSET and "
             "LREM in the middle slower."},
    {.name = "hash-max-listpack-entries",
     .old_name = "hash-max-ziplist-entries",
     .topic = kData,
     .kind = kInteger,
     .initial = "512",
     .max = INT64_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::hash_entries>,
     .apply = ApplyValueSizes,
     .help = "Up to how many fields a hash is one packed block, which takes a third of a table's "
             "memory and is searched from one end to the other. A larger one stays a table."},
    {.name = "hash-max-listpack-value",
     .old_name = "hash-max-ziplist-value",
     .topic = kData,
     .kind = kMemory,
     .initial = "64",
     .max = INT64_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::hash_element_bytes>,
     .apply = ApplyValueSizes,
     .help = "Up to how many bytes, of each field and value, a hash is one packed block."},
    {.name = "set-max-intset-entries",
     .topic = kData,
     .kind = kInteger,
     .initial = "512",
     .max = INT64_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::set_integers>,
     .apply = ApplyValueSizes,
     .help = "Sets of so many integers, at most, are a sorted array of numbers."},
    {.name = "set-max-listpack-entries",
     .topic = kData,
     .kind = kInteger,
     .initial = "128",
     .max = INT64_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::set_entries>,
     .apply = ApplyValueSizes,
     .help = "Sets of so many members, at most, are one block, which saves memory."},
    {.name = "set-max-listpack-value",
     .topic = kData,
     .kind = kInteger,
     .initial = "64",
     .max = INT64_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::set_element_bytes>,
     .apply = ApplyValueSizes,
     .help = "Bytes of a member; a set with a longer one is a table."},
    {.name = "stream-idmp-duration",
     .topic = kData,
     .kind = kInteger,
     .initial = "100",
     .min = 1,
     .max = 86'400,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::stream, &StreamLimit::producer_seconds>,
     .apply = ApplyValueSizes,
     .help =
         "Seconds for which a stream remembers what idempotent producers (XADD IDMP) have sent, "
         "unless XCFGSET says something else. It holds for streams whose first producer comes "
         "later. A message that comes again after that is another entry."},
    {.name = "stream-idmp-maxsize",
     .topic = kData,
     .kind = kInteger,
     .initial = "100",
     .min = 1,
     .max = 10'000,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::stream, &StreamLimit::producer_messages>,
     .apply = ApplyValueSizes,
     .help =
         "How many messages of each idempotent producer a stream remembers, the newest ones; as "
         "stream-idmp-duration. Each takes about 150 bytes besides its name."},
    {.name = "stream_idmp_producers_max",
     .topic = kData,
     .kind = kInteger,
     .initial = "10000",
     .min = 1,
     .max = 1'000'000,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::stream, &StreamLimit::producers_max>,
     .apply = ApplyValueSizes,
     .help = "Of how many idempotent producers a stream remembers messages. When one more comes, "
             "the one that has sent nothing for the longest time is forgotten: what it sends again "
             "is another entry."},
    {.name = "stream-node-max-bytes",
     .topic = kData,
     .kind = kMemory,
     .initial = "4096",
     .max = INT64_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::stream, &StreamLimit::node_bytes>,
     .apply = ApplyValueSizes,
     .help = "How large the nodes of streams become, in bytes as Redis counts them, with units if "
             "you like; 0: no limit. Small ones cost memory, large ones make looking for an entry "
             "slower, and XTRIM ~ removes whole nodes."},
    {.name = "stream-node-max-entries",
     .topic = kData,
     .kind = kInteger,
     .initial = "100",
     .max = INT64_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::stream, &StreamLimit::node_entries>,
     .apply = ApplyValueSizes,
     .help = "Entries of a stream's node, at most; 0: no limit."},
    {.name = "zset-max-listpack-entries",
     .old_name = "zset-max-ziplist-entries",
     .topic = kData,
     .kind = kInteger,
     .initial = "128",
     .max = INT64_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::zset_entries>,
     .apply = ApplyValueSizes,
     .help = "Up to how many members a sorted set is one packed block, which saves memory."},
    {.name = "zset-max-listpack-value",
     .old_name = "zset-max-ziplist-value",
     .topic = kData,
     .kind = kMemory,
     .initial = "64",
     .max = INT64_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::zset_element_bytes>,
     .apply = ApplyValueSizes,
     .help = "Bytes of a member; a sorted set with a longer one is no packed block."},
    {.name = "hll-sparse-max-bytes",
     .topic = kData,
     .kind = kMemory,
     .initial = "3000",
     .max = INT64_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::hll_sparse_bytes>,
     .apply = ApplyValueSizes,
     .help = "Up to how many bytes a HyperLogLog (PFADD) is sparse; a dense one has 12304. Sparse "
             "ones are slower to change."},
    {.name = "json_max_depth",
     .topic = kData,
     .kind = kInteger,
     .initial = "128",
     .min = 1,
     .max = JsonDoc::kDepthMax,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::json_depth>,
     .apply = ApplyValueSizes,
     .help = "How deep arrays and objects may be inside of each other in what commands make of a "
             "JSON document. Documents of snapshots may be deeper."},
    {.name = "json_path_visits_max",
     .topic = kData,
     .kind = kInteger,
     .initial = "16000000",
     .min = 1000,
     .max = INT64_MAX,
     .slot = kSlot<&Options::value_sizes, &ValueSizes::json_path_visits>,
     .apply = ApplyValueSizes,
     .help = "How many nodes of documents the paths of a command may visit, before it is an error; "
             "each one that they select counts as eight. It bounds how long a command takes, and "
             "how much memory: 24 bytes for each selected node."},
    {.name = "dir",
     .topic = kSnapshots,
     .how = kProtected,
     .slot = kDirectory,
     .apply = ApplyDirectory,
     .brief = "folder of snapshots",
     .help = "Where snapshots are; empty: the current directory."},
    {.name = "after_save_command",
     .topic = kSnapshots,
     .how = kAtStart,
     .slot = kSlot<&Options::persistence, &PersistenceOptions::after_save_command>,
     .help =
         "A program, with arguments separated by blanks, that runs after each snapshot and gets "
         "the path of its main file as the last argument. One runs at a time. Empty: none."},
    {.name = "dbfilename",
     .topic = kSnapshots,
     .initial = "dump",
     .how = kProtected,
     .slot = kDbFileName,
     .apply = ApplyDbFileName,
     .brief = "their name; name.rdb: for redis-server, too",
     .help = "The name of snapshots. One that ends in .rdb: a single file that redis-server reads, "
             "too; else one file for each shard, name-...dfs, written and loaded in parallel, and "
             "name-summary.dfs. {timestamp} in it becomes the time, so that older ones are kept; "
             "the newest one is loaded. Empty: nothing is loaded or saved."},
    {.name = "save",
     .topic = kSnapshots,
     .initial = "3600 1 300 100 60 10000",
     .slot = kSaveRules,
     .apply = ApplySaveRules,
     .has_words = true,
     .repeat = SettingRepeat::kAddsWords,
     .may_lack_value = true,
     .flag_error = "must be pairs of seconds and changes, such as '900 1 300 10'",
     .brief = "when one is made: seconds changes ...",
     .help = "A snapshot is made when, in that many seconds, so many changes were made: pairs of "
             "both. Also at the end (SIGTERM, SHUTDOWN), unless there are none. Empty: none."},
    {.name = "snapshot_cron",
     .topic = kSnapshots,
     .slot = kCron,
     .apply = ApplyCron,
     .flag_error = "must be five fields as in cron(5), such as '0 */2 * * *'",
     .brief = "or when, as in cron(5)",
     .help = "A snapshot is made at these times: minute hour day month weekday, as in cron(5), in "
             "local time. Empty: never."},
    {.name = "compression_mode",
     .topic = kSnapshots,
     .kind = kChoice,
     .initial = "lz4",
     .choices = "none lz4 zstd",
     .how = kFlagOnly,
     .slot = kChoiceSlot<kCodecs, &Options::persistence, &PersistenceOptions::codec>,
     .help = "How files of shards are compressed: none, lz4, or zstd, which makes them smaller and "
             "takes more time."},
    {.name = "compression_level",
     .topic = kSnapshots,
     .kind = kInteger,
     .initial = "2",
     .min = 1,
     .max = 19,
     .how = kFlagOnly,
     .slot = kSlot<&Options::persistence, &PersistenceOptions::level>,
     .help = "Of --compression_mode=zstd: 1 (fast) to 19 (small)."},
    {.name = "rdbcompression",
     .topic = kSnapshots,
     .kind = kBool,
     .initial = "yes",
     .slot = kSlot<&Options::persistence, &PersistenceOptions::compresses_strings>,
     .apply = ApplyCompression,
     .help = "Compress long strings in .rdb files, as redis-server does."},
    {.name = "stop-writes-on-bgsave-error",
     .topic = kSnapshots,
     .kind = kBool,
     .initial = "yes",
     .slot = kSlot<&Options::persistence, &PersistenceOptions::stops_writes_on_error>,
     .apply = ApplyStopsWrites,
     .help = "Refuse writes (MISCONF) while the last snapshot failed and --save asks for some: "
             "then somebody notices."},
    {.name = "snapshot_buffer_limit",
     .topic = kSnapshots,
     .kind = kMemory,
     .initial = "256mb",
     .slot = kSlot<&Options::snapshot_buffer_limit>,
     .live = kStoreLive<&Settings::snapshot_buffer_limit, &Options::snapshot_buffer_limit>,
     .help = "Bytes that a snapshot may keep in memory while the disk does not follow: as long as "
             "it has more, clients that write have to wait. 0: no limit."},
    {.name = "cluster-enabled",
     .how = kAtStart,
     .slot = {.show = kSlot<&Options::emulates_cluster>.show}},
    {.name = "cluster_mode",
     .topic = kCluster,
     .how = kAtStart,
     .slot = kClusterMode,
     .flag_error = "is either empty or emulated",
     .help = "emulated: clients of Redis Cluster find a cluster of one node, this server, which "
             "has all slots; commands may use keys of any slots. Empty: no cluster."},
    {.name = "cluster-announce-ip",
     .topic = kCluster,
     .how = kAtStart,
     .slot = kSlot<&Options::cluster_announce_ip>,
     .help = "--cluster_mode: the address that clients are told; empty: the one that they have "
             "connected to. Behind NAT or in containers it may have to be given."},
    {.name = "cluster-announce-port",
     .topic = kCluster,
     .kind = kInteger,
     .initial = "0",
     .max = UINT16_MAX,
     .how = kAtStart,
     .slot = kSlot<&Options::cluster_announce_port>,
     .help = "The port that they are told; 0: the one of theirs."},
    {.name = "lock_on_hashtags",
     .topic = kTags,
     .kind = kBool,
     .initial = "no",
     .how = kAtStart,
     .slot = kSlot<&Options::tag_rules, &TagRules::locks_tags>,
     .brief = "lock {tags}, not keys",
     .help = "Transactions lock the {hashtags} of keys instead of the keys: whoever locks one key "
             "has all that share its tag. For queues whose scripts use keys that they do not "
             "declare; other transactions on the same tag have to wait. Keys with the same tag "
             "live in one shard with and without this."},
    {.name = "locktag_prefix",
     .topic = kTags,
     .initial = "bull:",
     .how = kAtStart,
     .slot = kSlot<&Options::tag_rules, &TagRules::prefix>,
     .help = "Keys that begin with this have another kind of tag: without braces, from the first "
             "--locktag_delimiter at its end or behind it to the next one. So bull:mail:1 and "
             "bull:mail:2 live in one shard. The default is what BullMQ's keys begin with: its "
             "scripts then find the keys of a queue together, also those that they do not declare. "
             "Empty: none. Keys with a {hashtag} have that."},
    {.name = "locktag_delimiter",
     .topic = kTags,
     .initial = ":",
     .how = kAtStart,
     .slot = kTagDelimiter,
     .help = "The one character that ends the tags of --locktag_prefix."},
    {.name = "locktag_skip_n_end_delimiters",
     .topic = kTags,
     .kind = kInteger,
     .initial = "0",
     .max = 1000,
     .how = kAtStart,
     .slot = kSlot<&Options::tag_rules, &TagRules::skip_end_delimiters>,
     .help = "Delimiters that the tag has within it: for bull:a:b:c 1 makes a:b of it, where 0 "
             "makes a. Keys with fewer delimiters are tags as a whole."},
    {.name = "shard_round_robin_prefix",
     .topic = kTags,
     .how = kAtStart,
     .slot = kSlot<&Options::placement_rules, &PlacementRules::prefix>,
     .brief = "place tags that begin so one shard after another",
     .help = "Tags (the {hashtag} of a key, else the key) that begin with it are placed one shard "
             "after another, in the order in which they are first seen, instead of by their hash: "
             "few busy queues are spread evenly so. Empty: none are."},
    {.name = "shard_round_robin_max",
     .topic = kTags,
     .kind = kInteger,
     .initial = "1000000",
     .max = UINT32_MAX,
     .how = kAtStart,
     .slot = kSlot<&Options::placement_rules, &PlacementRules::tags_max>,
     .help = "Tags that --shard_round_robin_prefix places; each takes about 150 bytes, and 20 for "
             "each thread. Later ones go by their hash."},
};

}  // namespace

std::span<const SettingRow> DataSettings() { return kRows; }

}  // namespace dfly
