// SPDX-License-Identifier: Apache-2.0
#include "server/options/flags.h"

#include <fmt/format.h>
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "helio/base/logging.h"
#include "scripting/source/script_header.h"
#include "server/base/cron.h"
#include "server/base/machine.h"
#include "server/base/units.h"
#include "server/base/version.h"
#include "server/base/words.h"
#include "server/options/directives.h"
#include "server/options/memcached_flags.h"
#include "server/options/settings.h"
#include "server/options/web_flags.h"
#include "server/settings/client_limit_settings.h"
#include "storage/snapshot_names.h"

DEFINE_uint32(port, 6379, "TCP port to listen on; 0: none, then --unixsocket is needed.");
DEFINE_string(bind, "127.0.0.1 -::1",
              "Addresses to listen on, separated by blanks; * is all IPv4 ones. One that begins "
              "with - may be missing. The default is this machine only, as anybody who reaches the "
              "port without --requirepass may do everything.");
DEFINE_string(unixsocket, "", "Path of a unix socket to listen on as well.");
DEFINE_string(unixsocketperm, "0",
              "Its permissions, in octal (700); 0: as umask makes them. Who may write to it may do "
              "everything.");
DEFINE_int32(tcp_backlog, 511,
             "Connections that may wait to be accepted; the kernel limits it too "
             "(net.core.somaxconn).");
DEFINE_uint32(tcp_keepalive, 300,
              "Seconds of silence after which the kernel looks whether a client is still there; 0: "
              "never, then clients that vanished stay connected for ever.");
DEFINE_uint64(timeout, 0, "Seconds after which a silent client is disconnected; 0: never.");
DEFINE_uint32(maxclients, 10000,
              "Connections at most; later ones get an error. Lowered at the start if the limit of "
              "open files (ulimit -n) is smaller.");
DEFINE_string(cluster_mode, "",
              "emulated: clients of Redis Cluster find a cluster of one node, this server, which "
              "has all slots; commands may use keys of any slots. Empty: no cluster.");
DEFINE_string(cluster_announce_ip, "",
              "--cluster_mode: the address that clients are told; empty: the one that they have "
              "connected to. Behind NAT or in containers it may have to be given.");
DEFINE_uint32(cluster_announce_port, 0, "The port that they are told; 0: the one of theirs.");
DEFINE_string(requirepass, "",
              "Password that clients have to give (AUTH); empty: none. Other users of the machine "
              "may see it in the list of processes.");

DEFINE_string(
    aclfile, "",
    "File of users and what they may do, as of Redis: lines \"user name rule ...\". ACL LOAD "
    "and ACL SAVE read and write it. Empty: none.");
DEFINE_string(user, "",
              "Users and what they may do, one in a line: name rule ... Instead of --aclfile.");
DEFINE_string(acl_pubsub_default, "resetchannels",
              "What new users may publish and subscribe to: resetchannels (nothing) or "
              "allchannels.");
DEFINE_uint64(acllog_max_len, 128, "Entries of ACL LOG, at most.");

DEFINE_bool(
    protected_mode, true,
    "Without --requirepass only clients on this machine are served (unix sockets, 127.0.0.1, "
    "::1), whatever --bind says; others get the error DENIED.");
DEFINE_uint32(auth_timeout, 120,
              "Seconds that a client has for AUTH, if there is a password; 0: no limit.");
DEFINE_uint32(admin_port, 0,
              "Another port, for operators: not counted by --maxclients, and the only one for "
              "--restricted_commands; 0: none.");
DEFINE_string(admin_bind, "127.0.0.1 -::1", "As --bind, for --admin_port.");
DEFINE_bool(admin_nopass, false, "Clients of --admin_port need no password.");
DEFINE_bool(no_tls_on_admin_port, true, "--tls is not for --admin_port. false: it is.");
DEFINE_string(rename_command, "",
              "Name of a command and what clients have to call it, in lines; a name alone: they "
              "cannot call it. A user's ACL is the better way to forbid a command.");
DEFINE_string(restricted_commands, "",
              "Commands that only clients of --admin_port may use, and no script, separated by "
              "commas: flushall,config|set,debug.");

DEFINE_bool(tls, false, "Clients of --port must speak TLS.");
DEFINE_uint32(tls_port, 0, "Another port, with TLS; 0: none. --port=0 leaves only this one.");
DEFINE_string(tls_cert_file, "",
              "The server's certificate (PEM), followed by those between it and its root. CONFIG "
              "SET tls-cert-file, also with the same name, reads it again.");
DEFINE_string(tls_key_file, "", "The private key of --tls_cert_file (PEM).");
DEFINE_string(tls_key_file_pass, "", "Its passphrase, if it is encrypted.");
DEFINE_string(tls_ca_cert_file, "", "Who may sign the certificates of clients (PEM).");
DEFINE_string(tls_ca_cert_dir, "", "The same, a folder with names as `openssl rehash` makes them.");
DEFINE_string(tls_auth_clients, "",
              "yes: clients need a certificate; optional: if they have one it must be good; no: "
              "they are not asked. Empty: yes if it is told who may sign them, else no.");
DEFINE_string(tls_protocols, "",
              "Of TLSv1 TLSv1.1 TLSv1.2 TLSv1.3, separated by blanks. Empty: TLSv1.2 TLSv1.3.");
DEFINE_string(tls_ciphers, "", "For TLS 1.2, as in ciphers(1ssl); empty: OpenSSL's choice.");
DEFINE_string(tls_ciphersuites, "", "The same for TLS 1.3.");
DEFINE_bool(
    tls_prefer_server_ciphers, false,
    "Of the ciphers that both sides know the server's first one is taken, not the client's.");
DEFINE_string(tls_dh_params_file, "",
              "Parameters for DHE ciphers (PEM); empty: OpenSSL's, as strong as the key.");
DEFINE_bool(tls_session_caching, true,
            "Clients may resume sessions, which saves a half handshake.");
DEFINE_int32(tls_session_cache_size, 20480, "Sessions that are kept for TLS 1.2; 0: no limit.");
DEFINE_int32(tls_session_cache_timeout, 300, "Seconds for which a session can be resumed.");
DEFINE_uint32(tls_handshake_timeout, 30,
              "Seconds that a client has for the handshake of TLS; 0: no limit.");

DEFINE_uint32(proactor_threads, 0,
              "Threads, each with its own event loop and shards; 0: as many as there are cores "
              "for the process, control groups included, or fewer if memory is short. More threads "
              "than cores cost speed.");
DEFINE_uint32(num_shards, 0,
              "Slices of the key space; 0: one for each thread. More than threads is for tests.");
DEFINE_bool(force_epoll, false,
            "Use epoll even where io_uring works. Slower; for comparisons and broken kernels.");

DEFINE_uint32(dbnum, 16, "Databases (SELECT 0 to dbnum - 1).");
DEFINE_string(
    maxmemory, "",
    "Bytes that the server uses, data and buffers, with units if you like (20mb, 1gb). "
    "Past that keys are evicted (--maxmemory_policy, --cache_mode), or writes are refused. "
    "Empty: 80 % of what the machine or the container has. 0: no limit, then the kernel "
    "may kill the process when memory is short.");
DEFINE_string(maxmemory_policy, "noeviction",
              "Which keys go when memory is full: noeviction, allkeys-lru, allkeys-lfu, "
              "allkeys-random, volatile-lru, volatile-lfu, volatile-random, volatile-ttl, as in "
              "Redis. STICK keeps a key in any case. CONFIG SET changes it.");
DEFINE_uint32(maxmemory_samples, 5,
              "How well eviction looks: about six keys are compared for each. More cost time.");
DEFINE_uint32(lfu_log_factor, 10,
              "*-lfu: the larger, the more hits it takes to fill a key's counter.");
DEFINE_uint32(lfu_decay_time, 1,
              "*-lfu: minutes after which a key that is not used loses one from its counter; 0: "
              "never.");
DEFINE_bool(cache_mode, false,
            "The server is a cache: when memory is full it evicts what is used the least often, by "
            "a policy of its own that is close to allkeys-lfu, but follows changes faster and "
            "resists scans and loops.");

DEFINE_bool(
    activedefrag, true,
    "Memory of deleted keys that cannot be returned to the system, as keys that are left lie "
    "between it, is made returnable in the background: these keys move together.");
DEFINE_string(active_defrag_ignore_bytes, "8mb",
              "It begins when what is resident is more than what is used by so many bytes, ...");
DEFINE_uint32(active_defrag_threshold_lower, 10, "... and by so many percent of what is used.");
DEFINE_uint32(active_defrag_cycle_max, 25,
              "It takes so many percent of a thread's time, at most, while it runs.");

DEFINE_int32(list_max_listpack_size, -2,
             "How large the blocks of lists become. -1 to -5: 4, 8, 16, 32, 64 KB; from 1 on: so "
             "many elements, and 8 KB. Larger ones save little memory and make LINSERT, LSET and "
             "LREM in the middle slower.");

DEFINE_uint64(hash_max_listpack_entries, 512,
              "Up to how many fields a hash is one packed block, which takes a third of a table's "
              "memory and is searched from one end to the other. A larger one stays a table.");
DEFINE_uint64(hash_max_listpack_value, 64,
              "Up to how many bytes, of each field and value, a hash is one packed block.");
DEFINE_uint64(set_max_intset_entries, 512,
              "Sets of so many integers, at most, are a sorted array of numbers.");
DEFINE_uint64(set_max_listpack_entries, 128,
              "Sets of so many members, at most, are one block, which saves memory.");
DEFINE_uint64(set_max_listpack_value, 64, "Bytes of a member; a set with a longer one is a table.");
DEFINE_uint64(zset_max_listpack_entries, 128,
              "Up to how many members a sorted set is one packed block, which saves memory.");
DEFINE_uint64(zset_max_listpack_value, 64,
              "Bytes of a member; a sorted set with a longer one is no packed block.");
DEFINE_string(stream_node_max_bytes, "4096",
              "How large the nodes of streams become, in bytes as Redis counts them, with units if "
              "you like; 0: no limit. Small ones cost memory, large ones make looking for an entry "
              "slower, and XTRIM ~ removes whole nodes.");
DEFINE_uint64(stream_node_max_entries, 100, "Entries of a stream's node, at most; 0: no limit.");

DEFINE_uint64(hll_sparse_max_bytes, 3000,
              "Up to how many bytes a HyperLogLog (PFADD) is sparse; a dense one has 12304. Sparse "
              "ones are slower to change.");

DEFINE_bool(
    lock_on_hashtags, false,
    "Transactions lock the {hashtags} of keys instead of the keys: whoever locks one key has "
    "all that share its tag. For queues whose scripts use keys that they do not declare; "
    "other transactions on the same tag have to wait. Keys with the same tag live in one "
    "shard with and without this.");
DEFINE_string(locktag_prefix, "bull:",
              "Keys that begin with this have another kind of tag: without braces, from the first "
              "--locktag_delimiter at its end or behind it to the next one. So bull:mail:1 and "
              "bull:mail:2 live in one shard. The default is what BullMQ's keys begin with: its "
              "scripts then find the keys of a queue together, also those that they do not "
              "declare. Empty: none. Keys with a {hashtag} have that.");
DEFINE_string(locktag_delimiter, ":", "The one character that ends the tags of --locktag_prefix.");
DEFINE_uint32(locktag_skip_n_end_delimiters, 0,
              "Delimiters that the tag has within it: for bull:a:b:c 1 makes a:b of it, where 0 "
              "makes a. Keys with fewer delimiters are tags as a whole.");

DEFINE_string(max_bulk_len, "512mb",
              "Bytes of one argument, and so of one value. A client may make the server use so "
              "much memory with one command.");
DEFINE_uint32(max_multi_bulk_len, 0x7fffffff,
              "Arguments of one command. A low limit bounds how long one command can take.");
DEFINE_string(max_inline_len, "64kb", "Bytes of a command that is a plain line, and of a header.");
DEFINE_string(http_head_max, "8kb", "Bytes of an HTTP request's first line and its fields.");
DEFINE_uint32(pipeline_commands_max, 32768,
              "Commands of one connection whose replies are pending; past that it is not read from "
              "until some are sent.");
DEFINE_string(pipeline_reply_bytes_max, "",
              "Bytes of replies that one connection has not taken, and of its commands that other "
              "threads still have; past that it is not read from, and other threads stop in the "
              "middle of its commands. Clients that do not read can use so much memory each, and "
              "one reply for each shard more. The default is 128mb, but no more than 1/32 of what "
              "the machine or the container has.");
DEFINE_string(pipeline_input_bytes_max, "1mb",
              "Bytes of requests that one connection sent ahead while they cannot be executed; "
              "past that it is not read from.");

DEFINE_bool(singlehop_blocking, true,
            "BLPOP and the like, whose keys are all in one shard, look and take, or begin to wait, "
            "in one hop. false: they go the way of those with keys in several shards.");

DEFINE_string(undeclared_keys, "learn",
              "What happens when a script uses keys that are not among its KEYS. learn: they are "
              "locked, and what each script needs is found out: its first runs lock all shards, "
              "later ones what it was seen to use. global: all scripts lock all shards, unless all "
              "their keys have one tag and --lock_on_hashtags is on. refuse: an error.");
DEFINE_string(default_lua_flags, "",
              "Flags of all scripts, besides those that they say themselves (#!lua flags=...), "
              "separated by commas: allow-undeclared-keys locks all shards, disable-atomicity lets "
              "other commands run between those of the script, and Redis' own (no-writes ...).");
DEFINE_bool(lua_auto_async, false,
            "Calls of scripts whose result is not used are collected and sent to all shards "
            "together, as if redis.acall were written there. Faster if the keys of a script are in "
            "several shards. An error in one of them is told later than it happens.");
DEFINE_bool(singlehop_scripts, true,
            "Scripts whose keys are all in one shard run there as a whole, in one hop. false: they "
            "go the way of those with keys in several shards.");
DEFINE_bool(singlehop_commands, true,
            "Commands of scripts with keys in several shards run at once in shards of the script's "
            "own thread. false: each is a hop of the script's transaction.");
DEFINE_uint32(interpreters_per_thread, 16,
              "Lua states of one thread at most: so many scripts can have begun there at a time, "
              "others wait. Each takes some 50 KB and what its scripts make.");
DEFINE_string(
    lua_memory_max, "256mb",
    "Bytes of one Lua state; a script that needs more gets an error (not enough memory).");
DEFINE_uint64(busy_reply_threshold, 5000,
              "Milliseconds after which a script is slow: commands that have to wait for it get "
              "the error BUSY then. 0: never.");
DEFINE_bool(migrate_connections, true,
            "A connection whose commands keep landing on another thread's shard moves there. Not "
            "while it subscribes, blocks, watches or is inside MULTI.");

DEFINE_string(shard_round_robin_prefix, "",
              "Tags (the {hashtag} of a key, else the key) that begin with it are placed one shard "
              "after another, in the order in which they are first seen, instead of by their hash: "
              "few busy queues are spread evenly so. Empty: none are.");
DEFINE_uint32(shard_round_robin_max, 1'000'000,
              "Tags that --shard_round_robin_prefix places; each takes about 150 bytes, and 20 for "
              "each thread. Later ones go by their hash.");

DEFINE_uint32(blocked_clients_max, 30'000,
              "Clients that may wait for keys (BLPOP) at a time, divided among the threads; others "
              "get an error. Each takes two of the process' memory maps: vm.max_map_count.");

DEFINE_int64(slowlog_log_slower_than, 10'000,
             "Microseconds; commands that take as long, with waiting for locks, are in SLOWLOG. 0: "
             "all, -1: none. CONFIG SET changes it.");
DEFINE_uint64(lock_warning_ms, 10'000,
              "Milliseconds; who has locks for longer is in the log, once, with what it waits for, "
              "and in INFO transaction, the metrics and the web console. 0: nobody. CONFIG SET "
              "changes it.");
DEFINE_uint64(slowlog_max_len, 128, "Commands that SLOWLOG keeps. CONFIG SET changes it.");
DEFINE_uint64(latency_monitor_threshold, 0,
              "Milliseconds; what takes as long is in LATENCY LATEST. 0: off, as LATENCY DOCTOR is "
              "then. CONFIG SET changes it.");
DEFINE_bool(latency_tracking, true,
            "Count how long the calls of each command take, for INFO latencystats and LATENCY "
            "HISTOGRAM: 5.5 KB for each command that is used and thread.");
DEFINE_string(latency_tracking_info_percentiles, "50 99 99.9",
              "What INFO latencystats tells of each command, between 0 and 100.");

DEFINE_string(notify_keyspace_events, "",
              "Which events of keys are published to __keyspace@<db>__:<key> (K) and "
              "__keyevent@<db>__:<event> (E): the letters of redis.conf, KEA for most. CONFIG SET "
              "changes it.");

DEFINE_uint64(tracking_table_max_keys, 1'000'000,
              "Keys that clients have read with CLIENT TRACKING and may still hear of, in all "
              "shards together; for others the oldest guess is told to have changed. 0: no limit. "
              "CONFIG SET changes it.");

DEFINE_string(dir, "", "Where snapshots are; empty: the current directory.");
DEFINE_string(
    dbfilename, "dump",
    "The name of snapshots. One that ends in .rdb: a single file that redis-server reads, "
    "too; else one file for each shard, name-...dfs, written and loaded in parallel, and "
    "name-summary.dfs. {timestamp} in it becomes the time, so that older ones are kept; "
    "the newest one is loaded. Empty: nothing is loaded or saved.");
DEFINE_string(save, "3600 1 300 100 60 10000",
              "A snapshot is made when, in that many seconds, so many changes were made: pairs of "
              "both. Also at the end (SIGTERM, SHUTDOWN), unless there are none. Empty: none.");
DEFINE_string(snapshot_buffer_limit, "256mb",
              "Bytes that a snapshot may keep in memory while the disk does not follow: as long as "
              "it has more, clients that write have to wait. 0: no limit.");
DEFINE_string(snapshot_cron, "",
              "A snapshot is made at these times: minute hour day month weekday, as in cron(5), in "
              "local time. Empty: never.");
DEFINE_string(
    compression_mode, "lz4",
    "How files of shards are compressed: none, lz4, or zstd, which makes them smaller and "
    "takes more time.");
DEFINE_int32(compression_level, 2, "Of --compression_mode=zstd: 1 (fast) to 19 (small).");
DEFINE_bool(rdbcompression, true, "Compress long strings in .rdb files, as redis-server does.");
DEFINE_bool(stop_writes_on_bgsave_error, true,
            "Refuse writes (MISCONF) while the last snapshot failed and --save asks for some: then "
            "somebody notices.");

DEFINE_string(pidfile, "", "File to write the process id to; removed at the end. Empty: none.");
DEFINE_string(
    shutdown_on_sigint, "default",
    "What SIGINT does: some of save, nosave, now, force (it ends even if it cannot save), "
    "or default: it saves if --save says so. A second SIGINT ends it at once.");
DEFINE_string(shutdown_on_sigterm, "default", "What SIGTERM does, as --shutdown_on_sigint.");
DEFINE_uint32(
    shutdown_timeout, 10,
    "Seconds that SIGTERM and SIGINT wait for locks that the last snapshot needs, and then for the "
    "end of all commands. After that the process ends without, and the log says who has the locks. "
    "A snapshot that is being written is waited for, unless a thread has stopped for so long. "
    "SHUTDOWN waits as long for the locks, and for a thread that has stopped; then it is an "
    "error, and the server goes on, or with NOSAVE or FORCE it ends.");
DEFINE_string(enable_protected_configs, "no",
              "Who may CONFIG SET dir and dbfilename, and so have files written anywhere: yes "
              "(whoever may use CONFIG), local (of these, clients on this machine), no.");
DEFINE_string(enable_debug_command, "no",
              "Who may call DEBUG, which can also stop or crash the server: yes (whoever the ACL "
              "allows it), local (of these, clients on this machine), no.");
DEFINE_string(enable_module_command, "no",
              "The same for MODULE LOAD and UNLOAD, which find no module that they could load.");
DEFINE_string(
    healthcheck, "",
    "live or ready: starts nothing, but asks the server that these flags would start (GET "
    "/livez, /readyz), and ends with 0 if it answers so, else with 1.");
DEFINE_bool(daemonize, false,
            "Go on in the background, without a terminal. Services of systemd and containers need "
            "it not.");
DEFINE_string(logfile, "",
              "File that the log, and what a crash prints, is appended to; SIGHUP opens it again, "
              "for logrotate. Empty: stderr.");
DEFINE_string(loglevel, "notice", "How much is logged: debug, verbose, notice, warning, nothing.");

namespace dfly {

std::string ParseFlags(int argc, char** argv, Arguments* arguments) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto has = [&words](std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  std::string text;
  if (has("--help") || has("-h")) text = ShortHelpText();
  if (has("--helpfull")) text = HelpText();
  if (has("--helpmarkdown")) text = ConfigurationPage();
  if (has("--version") || has("-v")) {
    text = fmt::format("dragonfly v={} redis={} bits=64\n", kVersion, kRedisVersion);
  }
  if (!text.empty()) {
    fputs(text.c_str(), stdout);
    exit(0);
  }
  std::vector<std::string_view> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.emplace_back(*variable);
  }
  if (std::string error = ReadArguments(words, environment, arguments); !error.empty()) {
    return error;
  }
  if (FLAGS_log_dir.empty() && gflags::GetCommandLineFlagInfoOrDie("logtostderr").is_default) {
    FLAGS_logtostderr = true;
  }
  return "";
}

namespace {

// The flags of both topics. An error, or nothing.
std::string SecurityFromFlags(ServerOptions* options) {
  std::string error;
  const auto check_most = [&error](std::string_view flag, int64_t value, int64_t max) {
    if (value >= 0 && value <= max) return;
    if (error.empty()) error = fmt::format("--{}: must be between 0 and {}", flag, max);
  };
  check_most("tls_port", FLAGS_tls_port, 65535);
  check_most("admin_port", FLAGS_admin_port, 65535);
  check_most("auth_timeout", FLAGS_auth_timeout, INT32_MAX);
  check_most("tls_handshake_timeout", FLAGS_tls_handshake_timeout, 86'400);
  check_most("tls_session_cache_size", FLAGS_tls_session_cache_size, INT32_MAX);
  check_most("tls_session_cache_timeout", FLAGS_tls_session_cache_timeout, INT32_MAX);
  options->protected_mode = FLAGS_protected_mode;
  options->auth_timeout_s = FLAGS_auth_timeout;
  options->admin_port = static_cast<uint16_t>(FLAGS_admin_port);
  for (std::string_view bind : SplitWords(FLAGS_admin_bind))
    options->admin_binds.emplace_back(bind);
  options->admin_nopass = FLAGS_admin_nopass;
  options->no_tls_on_admin_port = FLAGS_no_tls_on_admin_port;
  std::string restricted = FLAGS_restricted_commands;
  std::replace(restricted.begin(), restricted.end(), ',', ' ');
  for (std::string_view name : SplitWords(restricted)) {
    options->restricted_commands.emplace_back(name);
  }
  std::istringstream renames(FLAGS_rename_command);
  for (std::string line; std::getline(renames, line);) {
    std::istringstream words(line);
    std::string name, to, more;
    words >> name >> to >> more;
    if (!more.empty()) return fmt::format("rename_command: '{}' is more than two words", line);
    if (!name.empty()) options->renamed_commands.emplace_back(name, to);
  }

  using PeerCheck = helio::TlsOptions::PeerCheck;
  options->tls = FLAGS_tls;
  options->tls_port = static_cast<uint16_t>(FLAGS_tls_port);
  helio::TlsOptions& tls = options->tls_options;
  tls.cert_file = FLAGS_tls_cert_file;
  tls.key_file = FLAGS_tls_key_file;
  tls.key_file_pass = FLAGS_tls_key_file_pass;
  tls.ca_cert_file = FLAGS_tls_ca_cert_file;
  tls.ca_cert_dir = FLAGS_tls_ca_cert_dir;
  const bool has_ca = !tls.ca_cert_file.empty() || !tls.ca_cert_dir.empty();
  if (FLAGS_tls_auth_clients == "yes" || (FLAGS_tls_auth_clients.empty() && has_ca)) {
    tls.peer_check = PeerCheck::kRequired;
  } else if (FLAGS_tls_auth_clients == "no" || FLAGS_tls_auth_clients.empty()) {
    tls.peer_check = PeerCheck::kNone;
  } else if (FLAGS_tls_auth_clients == "optional") {
    tls.peer_check = PeerCheck::kOptional;
  } else if (error.empty()) {
    error = "--tls_auth_clients: must be yes, no or optional";
  }
  tls.protocols = FLAGS_tls_protocols;
  tls.ciphers = FLAGS_tls_ciphers;
  tls.ciphersuites = FLAGS_tls_ciphersuites;
  tls.dh_params_file = FLAGS_tls_dh_params_file;
  tls.prefers_own_ciphers = FLAGS_tls_prefer_server_ciphers;
  tls.caches_sessions = FLAGS_tls_session_caching;
  tls.sessions_max = FLAGS_tls_session_cache_size;
  tls.session_timeout_s = FLAGS_tls_session_cache_timeout;
  tls.handshake_timeout_ms = FLAGS_tls_handshake_timeout * 1000;
  return error;
}

}  // namespace

std::string OptionsFromFlags(ServerOptions* options) {
  std::string error;
  const auto fail = [&error](std::string_view flag, std::string_view why) {
    if (error.empty()) error = fmt::format("--{}: {}{}", flag, why, FlagOrigin(flag));
  };
  const auto check_range = [&fail](std::string_view flag, uint64_t value, uint64_t min,
                                   uint64_t max) {
    if (value < min || value > max) fail(flag, fmt::format("must be between {} and {}", min, max));
  };
  const auto bytes = [&fail](std::string_view flag, const std::string& text) -> size_t {
    const auto parsed = ParseMemory(text);
    if (!parsed) fail(flag, fmt::format("'{}' is no size; examples: 1000000, 20mb, 1gb", text));
    return parsed.value_or(0);
  };

  check_range("port", FLAGS_port, 0, 65535);
  check_range("tcp_backlog", static_cast<uint64_t>(FLAGS_tcp_backlog), 1, INT32_MAX);
  check_range("tcp_keepalive", FLAGS_tcp_keepalive, 0, INT32_MAX);
  check_range("timeout", FLAGS_timeout, 0, INT32_MAX);
  check_range("maxclients", FLAGS_maxclients, 1, UINT32_MAX);
  check_range("proactor_threads", FLAGS_proactor_threads, 0, 1024);
  check_range("num_shards", FLAGS_num_shards, 0, 4096);
  check_range("dbnum", FLAGS_dbnum, 1, 1024);
  check_range("max_multi_bulk_len", FLAGS_max_multi_bulk_len, 16, 0x7fffffff);
  check_range("pipeline_commands_max", FLAGS_pipeline_commands_max, 1, UINT32_MAX);

  for (std::string_view bind : SplitWords(FLAGS_bind)) options->binds.emplace_back(bind);
  if (const std::string why = MemcachedFromFlags(options); !why.empty() && error.empty()) {
    error = why;
  }
  if (const std::string why = WebFromFlags(options); !why.empty() && error.empty()) error = why;
  if (const std::string why = SecurityFromFlags(options); !why.empty() && error.empty()) {
    error = why;
  }
  options->port = static_cast<uint16_t>(FLAGS_port);
  if ((options->port != 0 || options->tls_port != 0) && options->binds.empty())
    fail("bind", "no address");
  if (options->port == 0 && options->tls_port == 0 && FLAGS_unixsocket.empty()) {
    fail("port", "0 needs --unixsocket or --tls_port, or nobody could connect");
  }
  options->unix_socket = FLAGS_unixsocket;
  char* end = nullptr;
  options->unix_socket_mode = static_cast<uint32_t>(strtoul(FLAGS_unixsocketperm.c_str(), &end, 8));
  if (*end != '\0' || options->unix_socket_mode > 0777) {
    fail("unixsocketperm", "must be octal digits, up to 777");
  }
  options->backlog = FLAGS_tcp_backlog;
  options->tcp_keepalive_s = FLAGS_tcp_keepalive;
  options->idle_timeout_s = FLAGS_timeout;
  options->acl.password = FLAGS_requirepass;
  options->acl.file = FLAGS_aclfile;
  options->acl.users = FLAGS_user;
  options->acl.log_max = FLAGS_acllog_max_len;
  if (FLAGS_acl_pubsub_default != "allchannels" && FLAGS_acl_pubsub_default != "resetchannels") {
    return "--acl_pubsub_default is neither allchannels nor resetchannels";
  }
  options->acl.all_channels = FLAGS_acl_pubsub_default == "allchannels";
  options->num_shards = FLAGS_num_shards;
  options->force_epoll = FLAGS_force_epoll;
  options->db_count = static_cast<int>(FLAGS_dbnum);
  const Machine machine = ReadMachine();
  options->maxmemory = FLAGS_maxmemory.empty() ? machine.memory_limit() / 5 * 4
                                               : bytes("maxmemory", FLAGS_maxmemory);
  EvictionRules& eviction = options->eviction;
  if (const auto policy = PolicyOfName(FLAGS_maxmemory_policy)) {
    eviction.policy = *policy;
  } else {
    fail("maxmemory_policy", fmt::format("'{}' is no policy", FLAGS_maxmemory_policy));
  }
  options->cache_mode = FLAGS_cache_mode;
  if (FLAGS_cache_mode) {
    if (eviction.policy != EvictionPolicy::kNone &&
        eviction.policy != EvictionPolicy::kAllKeysLfu) {
      fail("maxmemory_policy", "--cache_mode has its own; leave one of them out");
    }
    eviction.policy = EvictionPolicy::kCache;
  }
  check_range("maxmemory_samples", FLAGS_maxmemory_samples, 1, INT_MAX);
  check_range("lfu_log_factor", FLAGS_lfu_log_factor, 0, INT_MAX);
  check_range("lfu_decay_time", FLAGS_lfu_decay_time, 0, INT_MAX);
  eviction.samples = FLAGS_maxmemory_samples;
  eviction.lfu_log_factor = FLAGS_lfu_log_factor;
  eviction.lfu_decay_minutes = FLAGS_lfu_decay_time;
  check_range("active_defrag_threshold_lower", FLAGS_active_defrag_threshold_lower, 0, 1000);
  check_range("active_defrag_cycle_max", FLAGS_active_defrag_cycle_max, 1, 99);
  options->active_defrag = FLAGS_activedefrag;
  options->defrag_threshold_percent = FLAGS_active_defrag_threshold_lower;
  options->defrag_ignore_bytes =
      bytes("active_defrag_ignore_bytes", FLAGS_active_defrag_ignore_bytes);
  options->defrag_cycle_percent = FLAGS_active_defrag_cycle_max;
  options->list_max_listpack_size = FLAGS_list_max_listpack_size;
  // What CONFIG SET takes, and so CONFIG REWRITE writes, may be more than a limit holds.
  const auto up_to = [](uint64_t value, uint32_t max) {
    return static_cast<uint32_t>(std::min<uint64_t>(value, max));
  };
  constexpr uint32_t kMembersMax = 1u << 30;  // a collection's are counted in 32 bits
  options->hash_limit = {.entries = up_to(FLAGS_hash_max_listpack_entries, UINT32_MAX),
                         .element_bytes = up_to(FLAGS_hash_max_listpack_value, UINT32_MAX)};
  options->set_limit = {
      .integers = up_to(FLAGS_set_max_intset_entries, kMembersMax),
      .packed = {.entries = up_to(FLAGS_set_max_listpack_entries, kMembersMax),
                 .element_bytes = up_to(FLAGS_set_max_listpack_value, kMembersMax)}};
  options->zset_limit = {.entries = up_to(FLAGS_zset_max_listpack_entries, UINT32_MAX),
                         .element_bytes = up_to(FLAGS_zset_max_listpack_value, UINT32_MAX)};
  options->stream_limit = {
      .node_bytes = bytes("stream_node_max_bytes", FLAGS_stream_node_max_bytes),
      .node_entries = FLAGS_stream_node_max_entries};
  options->hll_sparse_max_bytes = FLAGS_hll_sparse_max_bytes;
  if (const auto [flag, why] = ClientLimitsFromFlags(options); !why.empty()) fail(flag, why);
  options->snapshot_buffer_limit = bytes("snapshot_buffer_limit", FLAGS_snapshot_buffer_limit);
  options->pid_file = FLAGS_pidfile;
  if (!FLAGS_cluster_mode.empty() && FLAGS_cluster_mode != "emulated") {
    fail("cluster_mode", "is either empty or emulated");
  }
  options->emulates_cluster = !FLAGS_cluster_mode.empty();
  options->cluster_announce_ip = FLAGS_cluster_announce_ip;
  check_range("cluster_announce_port", FLAGS_cluster_announce_port, 0, 65535);
  options->cluster_announce_port = static_cast<uint16_t>(FLAGS_cluster_announce_port);
  options->log_file = FLAGS_logfile;
  options->log_level = FLAGS_loglevel;
  options->is_daemon = FLAGS_daemonize;
  const auto who = [&fail](std::string_view flag, const std::string& text) {
    const auto action = ParseProtectedAction(text);
    if (!action) fail(flag, "must be yes, no or local");
    return action.value_or(ProtectedAction::kNo);
  };
  options->debug_command = who("enable_debug_command", FLAGS_enable_debug_command);
  options->module_command = who("enable_module_command", FLAGS_enable_module_command);
  options->protected_configs = who("enable_protected_configs", FLAGS_enable_protected_configs);
  if (const auto why = ParseStopRule(FLAGS_shutdown_on_sigint, &options->on_sigint); !why.empty()) {
    fail("shutdown_on_sigint", why);
  }
  options->shutdown_timeout_s = FLAGS_shutdown_timeout;
  if (const auto why = ParseStopRule(FLAGS_shutdown_on_sigterm, &options->on_sigterm);
      !why.empty()) {
    fail("shutdown_on_sigterm", why);
  }
  options->tracking_table_max_keys = FLAGS_tracking_table_max_keys;
  if (const auto classes = KeyEventClasses::Parse(FLAGS_notify_keyspace_events)) {
    options->key_events = *classes;
  } else {
    fail("notify_keyspace_events", "has an invalid letter; there are Ag$lshzxeKEtmdn");
  }
  if (FLAGS_slowlog_log_slower_than < -1) fail("slowlog_log_slower_than", "must be -1 or more");
  options->slowlog_log_slower_than_us = FLAGS_slowlog_log_slower_than;
  check_range("slowlog_max_len", FLAGS_slowlog_max_len, 0, INT64_MAX);
  check_range("lock_warning_ms", FLAGS_lock_warning_ms, 0, UINT32_MAX);
  options->lock_warning_ms = FLAGS_lock_warning_ms;
  options->slowlog_max_len = FLAGS_slowlog_max_len;
  options->latency_monitor_threshold_ms = up_to(FLAGS_latency_monitor_threshold, UINT32_MAX);
  options->latency_tracking = FLAGS_latency_tracking;
  if (const std::string why =
          ParsePercentiles(FLAGS_latency_tracking_info_percentiles, &options->latency_percentiles);
      !why.empty()) {
    fail("latency_tracking_info_percentiles", why);
  }

  PersistenceOptions& persistence = options->persistence;
  persistence.directory = FLAGS_dir;
  persistence.dbfilename = FLAGS_dbfilename;
  if (const std::string why = CheckDbFileName(FLAGS_dbfilename); !why.empty()) {
    fail("dbfilename", why);
  }
  if (!ParseSaveRules(FLAGS_save, &persistence.rules)) {
    fail("save", "must be pairs of seconds and changes, such as '900 1 300 10'");
  }
  persistence.cron = FLAGS_snapshot_cron;
  if (!FLAGS_snapshot_cron.empty() && !Cron::Parse(FLAGS_snapshot_cron)) {
    fail("snapshot_cron", "must be five fields as in cron(5), such as '0 */2 * * *'");
  }
  if (FLAGS_compression_mode == "none") {
    persistence.codec = FrameCodec::kNone;
  } else if (FLAGS_compression_mode == "lz4") {
    persistence.codec = FrameCodec::kLz4;
  } else if (FLAGS_compression_mode == "zstd") {
    persistence.codec = FrameCodec::kZstd;
  } else {
    fail("compression_mode", "must be none, lz4 or zstd");
  }
  if (FLAGS_compression_level < 1 || FLAGS_compression_level > 19) {
    fail("compression_level", "must be between 1 and 19");
  }
  persistence.level = FLAGS_compression_level;
  persistence.compresses_strings = FLAGS_rdbcompression;
  persistence.stops_writes_on_error = FLAGS_stop_writes_on_bgsave_error;

  options->singlehop_blocking = FLAGS_singlehop_blocking;
  options->migrate_connections = FLAGS_migrate_connections;
  check_range("blocked_clients_max", FLAGS_blocked_clients_max, 1, UINT32_MAX);
  options->blocked_clients_max = FLAGS_blocked_clients_max;
  if (FLAGS_undeclared_keys == "learn") {
    options->undeclared_keys = UndeclaredKeys::kLearn;
  } else if (FLAGS_undeclared_keys == "global") {
    options->undeclared_keys = UndeclaredKeys::kGlobal;
  } else if (FLAGS_undeclared_keys == "refuse") {
    options->undeclared_keys = UndeclaredKeys::kRefuse;
  } else {
    fail("undeclared_keys", "must be learn, global or refuse");
  }
  std::string lua_flags = FLAGS_default_lua_flags;
  std::replace(lua_flags.begin(), lua_flags.end(), ',', ' ');
  for (std::string_view name : SplitWords(lua_flags)) {
    const std::optional<ScriptFlag> flag = ScriptFlagOf(name);
    if (!flag) fail("default_lua_flags", fmt::format("'{}' is no flag of scripts", name));
    options->default_lua_flags |= flag.value_or(ScriptFlag{});
  }
  options->lua_auto_async = FLAGS_lua_auto_async;
  options->singlehop_scripts = FLAGS_singlehop_scripts;
  options->singlehop_commands = FLAGS_singlehop_commands;
  check_range("interpreters_per_thread", FLAGS_interpreters_per_thread, 2, 10'000);
  options->interpreters_per_thread = FLAGS_interpreters_per_thread;
  options->lua_memory_max = bytes("lua_memory_max", FLAGS_lua_memory_max);
  check_range("lua_memory_max", options->lua_memory_max, 1 << 20, 1ull << 50);
  check_range("busy_reply_threshold", FLAGS_busy_reply_threshold, 0, INT64_MAX);
  options->busy_reply_threshold_ms = FLAGS_busy_reply_threshold;
  TagRules& tags = options->tag_rules;
  tags.locks_tags = FLAGS_lock_on_hashtags;
  if (FLAGS_locktag_delimiter.size() != 1 || FLAGS_locktag_delimiter == "{" ||
      FLAGS_locktag_delimiter == "}") {
    fail("locktag_delimiter", "must be one character, and no brace");
  } else if (FLAGS_locktag_skip_n_end_delimiters != 0 && FLAGS_locktag_prefix.empty()) {
    fail("locktag_skip_n_end_delimiters", "needs --locktag_prefix");
  }
  check_range("locktag_skip_n_end_delimiters", FLAGS_locktag_skip_n_end_delimiters, 0, 1000);
  tags.prefix = FLAGS_locktag_prefix;
  if (FLAGS_locktag_delimiter.size() == 1) tags.delimiter = FLAGS_locktag_delimiter[0];
  tags.skip_end_delimiters = FLAGS_locktag_skip_n_end_delimiters;

  options->placement_rules = {.prefix = FLAGS_shard_round_robin_prefix,
                              .tags_max = FLAGS_shard_round_robin_max};

  ConnectionLimits& limits = options->limits;
  limits.parser.max_bulk_len = bytes("max_bulk_len", FLAGS_max_bulk_len);
  limits.parser.max_multi_bulk_len = FLAGS_max_multi_bulk_len;
  limits.parser.max_inline_len = bytes("max_inline_len", FLAGS_max_inline_len);
  limits.http.head_max = bytes("http_head_max", FLAGS_http_head_max);
  limits.slots_max = FLAGS_pipeline_commands_max;
  if (!FLAGS_pipeline_reply_bytes_max.empty()) {
    limits.reply_bytes_max = bytes("pipeline_reply_bytes_max", FLAGS_pipeline_reply_bytes_max);
  } else if (machine.memory_limit() != 0) {
    // Memory is full at 4/5 of that (maxmemory), and reads are never refused.
    limits.reply_bytes_max = std::min(limits.reply_bytes_max, machine.memory_limit() / 32);
  }
  limits.recv_bytes_max = bytes("pipeline_input_bytes_max", FLAGS_pipeline_input_bytes_max);
  check_range("max_bulk_len", limits.parser.max_bulk_len, kMaxBulkLenMin, UINT32_MAX);
  check_range("max_inline_len", limits.parser.max_inline_len, 1024, 1ull << 30);
  check_range("http_head_max", limits.http.head_max, 1024, 1 << 20);
  check_range("pipeline_reply_bytes_max", limits.reply_bytes_max, 1024, 1ull << 50);
  check_range("pipeline_input_bytes_max", limits.recv_bytes_max, 1024, 1ull << 50);
  if (!error.empty()) return error;

  options->system_memory_bytes = machine.memory_limit();
  options->threads =
      FLAGS_proactor_threads != 0 ? FLAGS_proactor_threads : machine.default_threads();
  options->clients_possible =
      std::min<uint64_t>(ClientsFor(RaiseDescriptorLimit(), options->threads), UINT32_MAX);
  options->maxclients = FLAGS_maxclients;
  if (options->maxclients > options->clients_possible) {
    options->maxclients = static_cast<uint32_t>(options->clients_possible);
    LOG(WARNING) << "maxclients is " << options->maxclients << " instead of " << FLAGS_maxclients
                 << ": the limit of open files is too low (ulimit -n)";
  }
  return "";
}

}  // namespace dfly
