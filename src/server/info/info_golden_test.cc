// SPDX-License-Identifier: Apache-2.0
// The texts of INFO and of /metrics, byte for byte. Every number of the facts is another one, so a
// value under a wrong name shows. After a wanted change:
//   DFLY_WRITE_GOLDEN=1 build/release/info_golden_test && git diff src/server/info/golden
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "commands/testing/doc_examples.h"
#include "engine/queue/tx_queue.h"
#include "server/info/info.h"
#include "server/info/metrics.h"

namespace dfly {
namespace {

// What the process knows of itself, and of its shards as a whole.
void FillProcess(InfoFacts* facts) {
  facts->emulates_cluster = true;
  facts->os = "Linux 6.1 x86_64";
  facts->multiplexing_api = "io_uring";
  facts->run_id = std::string(40, 'a');
  facts->executable = "/usr/bin/dragonfly";
  facts->config_file = "/etc/dragonfly.conf";
  facts->is_supervised = true;
  facts->process_id = 1001;
  facts->tls = {.server = {.serial = "01A2", .expire_time = 1'000'001},
                .client = {.serial = "03B4", .expire_time = 1'000'002},
                .authority = {.serial = "05C6", .expire_time = 1'000'003},
                .reloads = 1004,
                .reload_failures = 1005};
  facts->has_audit_log = true;
  facts->is_audit_ok = true;
  facts->audit_lines = 1034;
  facts->lost_audit_lines = 1035;
  facts->tcp_port = 1002;
  facts->now_us = 1'700'000'123'456'789;
  facts->start_s = 1'699'000'003;
  facts->uptime_s = 1'000'120;
  facts->threads = 2;
  facts->shards = 3;
  facts->scripts_known = 1006;
  facts->script_memory = 1007;
  facts->functions = 1008;
  facts->libraries = 1009;
  facts->function_memory = 1010;
  facts->acl_memory = 1011;
  facts->clients = 1012;
  facts->maxclients = 1013;
  facts->used_memory = 99'000'014;
  facts->used_memory_peak = 199'000'015;
  facts->base_memory = 1'000'016;
  facts->data_memory = 55'000'017;
  facts->rss = 111'000'018;
  facts->huge_page_bytes = 44'040'192;
  facts->over_limit_ms = 1019;
  facts->is_over_limit_ms = 1020;
  facts->system_memory = 16'000'000'021;
  facts->maxmemory = 2'000'000'022;
  facts->maxmemory_policy = "allkeys-lru";
  facts->shards_behind = 1023;
  facts->cache_mode = true;
  facts->defrag_running_percent = 24;
  facts->counts.now.defrag_running_ns = 25'000'000'025;
  facts->allocator = "mimalloc-212";
  facts->rejected_connections = 1026;
  facts->forgotten_scripts = 1027;
  facts->acl_refusals = {1028, 1029, 1030, 1031, 1033, 1036};
  facts->paused_reason = "client_pause";
  facts->paused_actions = "write";
  facts->paused_ms = 1034;
  facts->key_sizes.databases.resize(2);
  facts->key_sizes.databases[0].Add(KeySizes::kStrings, 1033);
  facts->key_sizes.databases[0].Add(KeySizes::kStrings, 0);
  facts->key_sizes.databases[1].Add(KeySizes::kZsets, 5);
  facts->key_sizes.is_complete = false;
  facts->quotas = {{.owner = {.user = "an\"n"},
                    .limits = {.commands = 1040,
                               .bytes = 1041,
                               .connections = 1042,
                               .memory = 1043,
                               .action = QuotaAction::kError},
                    .connections = 1044,
                    .memory = 1045,
                    .delayed = 1046,
                    .refused = 1047,
                    .refused_connections = 1048,
                    .refused_writes = 1049,
                    .evicted_clients = 1050},
                   {.owner = {.db_index = 3, .user = ""}, .limits = {.memory = 1051}}};
  facts->listeners = {"name=tcp,bind=*,port=1002", "name=unix,bind=/run/dragonfly.sock"};
  facts->evicted_clients = 1032;
  facts->cpu_sys_s = 33.125;
  facts->cpu_user_s = 34.25;
  facts->cpu_sys_children_s = 35.375;
  facts->cpu_user_children_s = 36.5;
  facts->cpu_sys_thread_s = 37.625;
  facts->cpu_user_thread_s = 38.75;
  facts->placed_tags = 1039;
  facts->persistence = {.is_loading = true,
                        .is_saving = true,
                        .last_save_s = 1'699'000'101,
                        .is_last_ok = false,
                        .last_duration_s = 1102,
                        .current_duration_s = 1103,
                        .saves = 1104,
                        .changes_at_last_save = 1105,
                        .last_keys = 1106,
                        .last_bytes = 1107,
                        .last_shards = {.keys = 1108,
                                        .keys_by_changes = 1109,
                                        .values_taken = 1110,
                                        .values_hurried = 1111,
                                        .values_copied = 1112,
                                        .buffered_bytes_max = 1113},
                        .last_error = "No space left on device",
                        .last_file = "/data/dump-0001.dfs",
                        .after_save = {.is_running = true,
                                       .runs = 1125,
                                       .failures = 1126,
                                       .last_status = 1127,
                                       .skipped = 1128},
                        .current_keys = 1114,
                        .current_keys_total = 1115,
                        .load_start_s = 1'700'000'101,
                        .load_bytes_total = 116'000,
                        .load_bytes = 17'000,
                        .loaded_keys = 1118,
                        .load_expired_keys = 1119,
                        .load_seconds = 12.5};
  facts->append_log = {.is_on = true,
                       .is_rewriting = true,
                       .is_rewrite_scheduled = true,
                       .is_last_rewrite_ok = false,
                       .is_write_ok = false,
                       .last_rewrite_s = 1120,
                       .current_rewrite_s = 1121,
                       .rewrites = 1122,
                       .failures = 1123,
                       .bytes = 1124,
                       .base_bytes = 1125,
                       .waiting_bytes = 1126,
                       .unsynced_bytes = 1127,
                       .is_behind = true,
                       .epochs = 1128,
                       .syncs = 1129,
                       .syncs_delayed = 1130,
                       .sync_last_us = 1131,
                       .sync_max_us = 1132,
                       .errors = 1133,
                       .history_bytes = 1134,
                       .history_oldest_s = 1135};
  facts->primary_link = {.is_replica = true,
                         .primary_host = "10.0.0.1",
                         .primary_port = 1136,
                         .is_syncing = true,
                         .last_io_s = 1137,
                         .down_since_s = 1138,
                         .read_offset = 1139,
                         .applied_offset = 1140,
                         .copy_bytes_total = 1141,
                         .copy_bytes_read = 1142,
                         .copy_last_io_s = 1143,
                         .errors = 1144,
                         .priority = 1146};
  facts->replicas = {.all = {{.ip = "10.0.0.2",
                              .port = 1147,
                              .state = "online",
                              .is_online = true,
                              .offset = 1148,
                              .lag_s = 1,
                              .age_s = 2}},
                     .good = 1157,
                     .id = std::string(40, 'a'),
                     .id2 = std::string(40, 'b'),
                     .second_offset = 1145,
                     .offset = 1149,
                     .has_backlog = true,
                     .backlog_limit = 1150,
                     .backlog_begin = 1151,
                     .backlog_bytes = 1152,
                     .backlog_memory = 1153,
                     .full_copies = 1154,
                     .partial_copies = 1155,
                     .refused_partial_copies = 1156};
}

// What threads count, summed.
void FillThreads(Counts& counts) {
  counts.scripts = {.in_place = 1201,
                    .across = 1202,
                    .global = 1203,
                    .alone = 1204,
                    .restarts = 1205,
                    .refused_keys = 1206,
                    .hops = 1207,
                    .deferred_calls = 1208,
                    .gave_way = 1209};
  counts.now.interpreters = 1210;
  counts.now.running_scripts = 1211;
  counts.now.blocked_clients = 1212;
  counts.now.input_buffer_max = 1213;
  counts.now.output_buffer_max = 1214;
  counts.tracking = {.clients = 1215, .keys = 1216, .items = 1217, .prefixes = 1218};
  counts.pubsub.clients = 1219;
  counts.now.watching_clients = 1220;
  counts.memory = {.clients = 1'221'000,
                   .queued_commands = 1'222'000,
                   .coordinators = 1'223'000,
                   .fiber_stacks = 1'224'000,
                   .receive_buffers = 1'225'000,
                   .interpreters = 1'226'000,
                   .snapshot = 1'227'000};
  counts.heap = {
      .allocated = 71'228'000, .touched = 71'229'000, .active = 81'230'000, .resident = 91'231'000};
  counts.worker.connections_received = 1232;
  counts.worker.commands_processed = 1233;
  counts.rates.commands = 1234;
  counts.traffic.received_bytes = 1235;
  counts.traffic.sent_bytes = 1236;
  counts.rates.received_bytes = 1237;
  counts.rates.sent_bytes = 2238;
  counts.traffic.reads = 1239;
  counts.traffic.writes = 1240;
  counts.worker.expiry_ns = 1'241'000'000;
  counts.worker.expiry_cuts = 1242;
  counts.loop_totals.cycles = 1243;
  counts.loop_totals.us = 1244;
  counts.rates.loop_cycles = 1245;
  counts.rates.loop_us = 124'600;
  counts.worker.error_replies = 1247;
  counts.worker.protocol_errors = 1248;
  counts.worker.auth_timeouts = 1249;
  counts.worker.ends_swept = 1250;
  counts.tls = {.handshakes = 1251, .handshake_failures = 1252, .handshake_timeouts = 1253};
  counts.now.channels = 1254;
  counts.now.patterns = 1255;
  counts.now.shard_channels = 1256;
  counts.pubsub.delivered = 1257;
  counts.pubsub.publishers_held = 1258;
  counts.now.output_disconnections = 1259;
  counts.worker.large_inputs = 1260;
  counts.worker.writes_held = 1261;
  counts.worker.local_commands = 1261;
  counts.worker.remote_commands = 1262;
  counts.worker.batches = 1263;
  counts.worker.coordinated_commands = 1264;
  counts.worker.migrations = 1265;
  counts.loop.iterations = 1266;
  counts.loop.sleeps = 1267;
  counts.loop.messages = 1268;
  counts.worker.queued_commands = 1301;
  counts.worker.execs_of_one_shard = 1302;
  counts.worker.execs_across = 1303;
  counts.worker.blocking_tried = 1304;
  counts.worker.blocking_one_hop = 1305;
  counts.worker.blocking_general = 1306;
  counts.transactions.global = 1307;
  counts.transactions.widths = {0, 1308, 0, 1309};
}

// What shards count, summed.
void FillShards(Counts& counts) {
  counts.now.pending_objects = 1401;
  counts.shards.freed_objects = 1402;
  counts.defrag = {.passes = 1403,
                   .hits = 1404,
                   .misses = 1405,
                   .key_hits = 1406,
                   .key_misses = 1407,
                   .work_ns = 1'408'000'000,
                   .returns = 1409};
  counts.shards.changes = 1'410'000;
  counts.shards.expired_keys = 1411;
  counts.shards.expired_members = 1412;
  counts.shards.evicted_keys = 1413;
  counts.shards.hits = 1414;
  counts.shards.misses = 1415;
  counts.queues.retries = 1416;
  counts.queues.runs_at_head = 1417;
  counts.queues.runs_ahead = 1418;
  counts.queues.length = 1419;
  counts.queues.longest = 1420;
  counts.queues.oldest_us = 1421;
  counts.queues.longest_held_us = 1422;
  counts.queues.waited_keys = 1423;
  counts.queues.waited_absences = 1424;
  counts.queues.ready_keys = 1425;
  counts.queues.watched_keys = 1426;
  TxEntry holder;
  holder.origin = {.name = "exec", .client_id = 1427};
  counts.long_held.Add(holder, 2);
  counts.databases = {{.keys = 1501, .expires = 1502, .ttl_ms = 150'300, .due = 15},
                      {},
                      {.keys = 1505, .expires = 0, .ttl_ms = 0, .due = 0, .member_expires = 1506}};
}

void FillLists(InfoFacts* facts) {
  facts->commands["get"] = {.calls = 1601, .rejected = 1602, .failed = 1603, .usec = 1604.5};
  facts->commands["config|set"] = {.calls = 1605, .rejected = 1606, .failed = 1607, .usec = 1608};
  facts->commands["eval"] = {.calls = 1609, .rejected = 0, .failed = 0, .usec = 1610};
  facts->commands["restore"] = {.calls = 1611, .rejected = 0, .failed = 0, .usec = 1612};
  facts->errors = {{"ERR", 1613}, {"WRONGTYPE", 1614}};
  // Of no cycles: what a cycle takes is not the same on each machine.
  facts->percentiles = {50, 99.9};
  facts->latencies["get"].Add(0, 1615);
  facts->latencies["eval"].Add(0, 1616);
  facts->per_thread = {{.cpu_user_s = 1.125,
                        .cpu_sys_s = 2.25,
                        .clients = 1701,
                        .commands = 1702,
                        .iterations = 1703,
                        .wakeups = 1704,
                        .messages = 1705,
                        .fibers = 1706},
                       {.cpu_user_s = 3.5, .cpu_sys_s = 4.75, .clients = 1707}};
  facts->per_shard = {{.thread = 0,
                       .keys = 1801,
                       .expires = 1802,
                       .used_bytes = 1803,
                       .hits = 1804,
                       .misses = 1805,
                       .queue_length = 1806},
                      {.thread = 1, .keys = 1807},
                      {.thread = 0, .keys = 1808}};
}

InfoFacts Filled() {
  InfoFacts facts;
  FillProcess(&facts);
  FillThreads(facts.counts);
  FillShards(facts.counts);
  FillLists(&facts);
  return facts;
}

void Replace(std::string_view what, std::string_view with, std::string* text) {
  for (size_t at = 0; (at = text->find(what, at)) != std::string::npos; at += with.size()) {
    text->replace(at, what.size(), with);
  }
}

// What stands behind `name`, up to one of `ends`.
void ReplaceBehind(std::string_view name, std::string_view ends, std::string_view with,
                   std::string* text) {
  for (size_t at = 0; (at = text->find(name, at)) != std::string::npos;) {
    at += name.size();
    text->replace(at, text->find_first_of(ends, at) - at, with);
  }
}

// Without what depends on the compiler, on the release and on the clock; lines end as in a file.
std::string Stable(std::string text) {
  Replace("\r\n", "\n", &text);
  ReplaceBehind("redis_build_id:", "\n", "(version)", &text);
  ReplaceBehind("gcc_version:", "\n", "(version)", &text);
  ReplaceBehind("{version=\"", "\"", "(version)", &text);
  ReplaceBehind(",held_usec=", ",", "(time)", &text);
  return text;
}

void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = "src/server/info/golden/" + name;
  if (getenv("DFLY_WRITE_GOLDEN") != nullptr) std::ofstream(PathInSource(path)) << Stable(text);
  EXPECT_EQ(Stable(text), ReadSource(path)) << name;
}

std::string Everything(const InfoFacts& facts) {
  const std::vector<std::string_view> sections = {"everything", "keysizes"};
  return FormatInfo(facts, sections);
}

TEST(InfoGolden, InfoOfAServerThatHasEverything) {
  ExpectGolden("info_filled.txt", Everything(Filled()));
}

TEST(InfoGolden, InfoOfAServerThatHasNothing) {
  ExpectGolden("info_empty.txt", Everything(InfoFacts()));
}

TEST(InfoGolden, DefaultSections) { ExpectGolden("info_default.txt", FormatInfo(Filled(), {})); }

TEST(InfoGolden, MetricsOfAServerThatHasEverything) {
  ExpectGolden("metrics_filled.txt", FormatMetrics(Filled()));
}

TEST(InfoGolden, MetricsOfAServerThatHasNothing) {
  ExpectGolden("metrics_empty.txt", FormatMetrics(InfoFacts()));
}

}  // namespace
}  // namespace dfly
