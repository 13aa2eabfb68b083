# SPDX-License-Identifier: Apache-2.0
"""INFO: the sections and fields that tools read, and that no counter is absurd."""

import pytest

from harness.resp import OK
from harness.server import only_dragonfly, wait_until

pytestmark = [pytest.mark.threads, pytest.mark.sanitized]


def fields(r, *sections):
    text = r.call("INFO", *sections).decode()
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


# Of redis-server 7.0; docs/differences.md has what is left out.
EXPECTED = """
redis_version redis_git_sha1 redis_git_dirty redis_build_id redis_mode os arch_bits
monotonic_clock multiplexing_api atomicvar_api gcc_version process_id process_supervised run_id
tcp_port server_time_usec uptime_in_seconds uptime_in_days hz configured_hz lru_clock executable
config_file io_threads_active connected_clients cluster_connections maxclients
client_recent_max_input_buffer client_recent_max_output_buffer blocked_clients tracking_clients
clients_in_timeout_table used_memory used_memory_human used_memory_rss used_memory_rss_human
used_memory_peak used_memory_peak_human used_memory_peak_perc used_memory_overhead
used_memory_startup used_memory_dataset used_memory_dataset_perc total_system_memory
total_system_memory_human used_memory_lua used_memory_lua_human used_memory_vm_eval
used_memory_scripts_eval used_memory_vm_functions used_memory_vm_total number_of_cached_scripts
number_of_functions number_of_libraries maxmemory maxmemory_human maxmemory_policy
mem_fragmentation_ratio mem_fragmentation_bytes mem_not_counted_for_evict mem_replication_backlog
mem_total_replication_buffers mem_clients_slaves mem_clients_normal mem_cluster_links
mem_aof_buffer mem_allocator allocator_allocated allocator_active allocator_resident
allocator_frag_ratio allocator_frag_bytes allocator_rss_ratio allocator_rss_bytes
rss_overhead_ratio rss_overhead_bytes total_eviction_exceeded_time
current_eviction_exceeded_time dump_payload_sanitizations total_reads_processed
total_writes_processed io_threaded_reads_processed io_threaded_writes_processed
reply_buffer_shrinks reply_buffer_expands expired_stale_perc expired_time_cap_reached_count
expire_cycle_cpu_milliseconds active_defrag_running loading async_loading current_cow_peak
current_cow_size current_cow_size_age current_fork_perc current_save_keys_processed
current_save_keys_total rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time
rdb_last_bgsave_status rdb_last_bgsave_time_sec rdb_current_bgsave_time_sec rdb_saves
rdb_last_cow_size rdb_last_load_keys_expired rdb_last_load_keys_loaded aof_enabled
aof_rewrite_in_progress aof_rewrite_scheduled aof_last_rewrite_time_sec
aof_current_rewrite_time_sec aof_last_bgrewrite_status aof_rewrites
aof_rewrites_consecutive_failures aof_last_write_status aof_last_cow_size
module_fork_in_progress module_fork_last_cow_size total_connections_received
total_commands_processed instantaneous_ops_per_sec total_net_input_bytes total_net_output_bytes
total_net_repl_input_bytes total_net_repl_output_bytes instantaneous_input_repl_kbps
instantaneous_output_repl_kbps rejected_connections sync_full sync_partial_ok sync_partial_err
expired_keys evicted_keys evicted_clients keyspace_hits keyspace_misses pubsub_channels
pubsub_patterns pubsubshard_channels latest_fork_usec total_forks migrate_cached_sockets
slave_expires_tracked_keys active_defrag_hits active_defrag_misses active_defrag_key_hits
active_defrag_key_misses total_active_defrag_time current_active_defrag_time
tracking_total_keys tracking_total_items
tracking_total_prefixes unexpected_error_replies total_error_replies role connected_slaves
master_failover_state master_replid master_replid2 master_repl_offset second_repl_offset
repl_backlog_active repl_backlog_size repl_backlog_first_byte_offset repl_backlog_histlen
used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children
used_cpu_sys_main_thread used_cpu_user_main_thread cluster_enabled
""".split()


def test_every_field_is_there(r):
    found = fields(r, "everything")
    assert [name for name in EXPECTED if name not in found] == []


def test_counters_are_not_absurd(r):
    r.call("CONFIG", "RESETSTAT")
    r.call("SET", "a", "1")
    r.call("BLPOP", "nothing", "0.01")
    for name, value in fields(r, "all").items():
        if value.isdigit() and name != "server_time_usec":
            assert int(value) < 2**50, (name, value)


def test_several_sections_at_once(r):
    text = r.call("INFO", "cpu", "CLUSTER", "nosuch").decode()
    assert [line for line in text.split("\r\n") if line.startswith("#")] == ["# CPU", "# Cluster"]
    assert "# Commandstats" not in r.call("INFO", "default").decode()
    r.call("SET", "a", "1")
    assert "# Latencystats" in r.call("INFO", "all").decode()


def test_commandstats_count_and_estimate(r):
    r.call("CONFIG", "RESETSTAT")
    for i in range(100):
        r.call("GET", f"key:{i}")
    stats = dict(pair.split("=") for pair in fields(r, "commandstats")["cmdstat_get"].split(","))
    assert stats["calls"] == "100" and stats["failed_calls"] == "0"
    assert float(stats["usec_per_call"]) < 1000


def test_traffic_is_counted_and_its_rate_known(server, r):
    r.call("CONFIG", "RESETSTAT")
    before = r.info("stats")
    value = "x" * 100_000
    for _ in range(20):
        r.call("SET", "k", value)
        r.call("GET", "k")
    stats = r.info("stats")
    grown = {name: int(stats[name]) - int(before[name]) for name in (
        "total_net_input_bytes", "total_net_output_bytes", "total_reads_processed",
        "total_writes_processed",
    )}  # fmt: skip
    assert 2_000_000 < grown["total_net_input_bytes"] < 2_100_000
    assert 2_000_000 < grown["total_net_output_bytes"] < 2_100_000
    assert grown["total_reads_processed"] >= 40 and grown["total_writes_processed"] >= 40

    def rates():
        r.call("SET", "k", value)
        stats = r.info("stats")
        return [float(stats[f"instantaneous_{way}_kbps"]) for way in ("input", "output")]

    wait_until(lambda: rates()[0] > 100)
    wait_until(lambda: r.call("GET", "k") and rates()[1] > 100)
    r.call("CONFIG", "RESETSTAT")
    assert int(r.info("stats")["total_net_input_bytes"]) < 10_000


def test_keyspace_tells_the_mean_ttl(server, r):
    def mean_ttl():
        fields = r.info("keyspace")["db0"].split(",")
        return int(dict(field.split("=") for field in fields)["avg_ttl"])

    r.call("SET", "k", "1")
    assert mean_ttl() == 0
    for i in range(50):
        r.call("SET", f"k:{i}", "1", "PX", 1_000_000)
    wait_until(lambda: 900_000 < mean_ttl() <= 1_000_000)


@only_dragonfly("its DEBUG is off by default")
def test_keys_that_are_due_and_not_removed_are_a_part_of_all_with_deadlines(r):
    def stale_percent():
        return float(r.info("stats")["expired_stale_perc"])

    assert stale_percent() == 0
    for i in range(200):
        r.call("SET", f"lasts:{i}", "1", "EX", 1000)
    assert stale_percent() == 0
    try:
        assert r.call("DEBUG", "SET-ACTIVE-EXPIRE", "0") == OK
        for i in range(200):
            r.call("SET", f"due:{i}", "1", "PX", 1)
        # An estimate: 16 keys of each shard, half of which are due.
        wait_until(lambda: 20 < stale_percent() < 80)
        r.call("DEL", *[f"lasts:{i}" for i in range(200)])
        wait_until(lambda: stale_percent() == 100)
    finally:
        assert r.call("DEBUG", "SET-ACTIVE-EXPIRE", "1") == OK
    wait_until(lambda: stale_percent() == 0)


@only_dragonfly("its cycle is another")
def test_background_expiry_is_timed(server, r):
    before = r.info("stats")
    for i in range(3000):
        r.call("SET", f"k:{i}", "x", "PX", 1)
    wait_until(lambda: r.call("DBSIZE") == 0)
    after = r.info("stats")
    assert int(after["expired_keys"]) >= int(before["expired_keys"]) + 3000
    for name in ("expire_cycle_cpu_milliseconds", "expired_time_cap_reached_count"):
        assert int(after[name]) >= int(before[name]) >= 0


def size_buckets(r):
    """{name: {lower bound: keys}} of INFO keysizes."""
    return {
        name: dict(pair.split("=") for pair in value.split(","))
        for name, value in fields(r, "keysizes").items()
        if "_distrib_" in name
    }


@only_dragonfly("came with 8.0")
def test_keysizes_has_each_type_by_powers_of_two(r):
    assert size_buckets(r) == {}
    for i, size in enumerate((0, 1, 2, 3, 4, 1023, 1024, 70_000)):
        r.call("SET", f"s{i}", b"x" * size)
    for i, size in enumerate((1, 5, 200)):
        members = [str(j) for j in range(size)]
        r.call("RPUSH", f"l{i}", *members)
        r.call("SADD", f"i{i}", *members)
        r.call("SADD", f"t{i}", *[f"m{member}" for member in members])
        r.call("HSET", f"h{i}", *[word for member in members for word in (member, "v")])
        r.call("ZADD", f"z{i}", *[word for member in members for word in ("1", member)])
    r.do("SET number 12345")
    r.do("XADD stream * a 1")
    r.do("SELECT 3")
    r.do("SET s 1")
    each = {"1": "1", "4": "1", "128": "1"}
    assert size_buckets(r) == {
        "db0_distrib_strings_sizes": {
            "0": "1", "1": "1", "2": "2", "4": "2", "512": "1", "1K": "1", "64K": "1"
        },
        "db0_distrib_lists_items": each,
        "db0_distrib_sets_items": {name: "2" for name in each},
        "db0_distrib_zsets_items": each,
        "db0_distrib_hashes_items": each,
        "db3_distrib_strings_sizes": {"1": "1"},
    }
    assert fields(r, "keysizes")["keysizes_complete"] == "1"
    r.do("FLUSHALL")
    assert size_buckets(r) == {}


@only_dragonfly("came with 8.0")
def test_keysizes_only_if_it_is_named_and_up_to_a_limit(r):
    r.do("DEBUG POPULATE 20000 key 10")
    for words in ((), ("all",), ("everything",), ("default",)):
        assert b"eysizes" not in r.call("INFO", *words)
    assert size_buckets(r) == {"db0_distrib_strings_sizes": {"8": "20000"}}
    assert r.do("CONFIG SET keysizes-keys-max 2000") == OK
    try:
        found = fields(r, "keysizes")
        assert found["keysizes_complete"] == "0"
        name, count = found["db0_distrib_strings_sizes"].split("=")
        assert name == "8" and 2000 <= int(count) < 10_000
        assert r.do("CONFIG SET keysizes-keys-max 0") == OK
        assert fields(r, "keysizes")["keysizes_complete"] == "1"
    finally:
        r.do("CONFIG SET keysizes-keys-max 10000000")


@only_dragonfly("Valkey's, since 8.0")
def test_a_pause_is_told(r):
    def paused():
        found = fields(r, "clients")
        return found["paused_reason"], found["paused_actions"]

    assert paused() == ("none", "none")
    pause_ms = 30 * 24 * 3600 * 1000  # longer than any test
    r.do(f"CLIENT PAUSE {pause_ms} WRITE")
    assert paused() == ("client_pause", "write")
    left_ms = int(fields(r, "clients")["paused_timeout_milliseconds"])
    assert 0 < left_ms <= pause_ms
    r.do("CLIENT UNPAUSE")
    assert paused() == ("none", "none")
    assert fields(r, "clients")["paused_timeout_milliseconds"] == "0"
