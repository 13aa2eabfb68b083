#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the Redis project's own TCL tests against our server.  tools/compat/redis_tcl.sh [unit...]
#
# Gets Debian's source package of redis once (apt-get source, with an apt of its own: the system's
# sources stay as they are), starts a server on a free port of the loopback for each test file, and
# runs that file in the suite's external-server mode. For units that the skip file names in a line
# "starts UNIT" the suite starts our server itself, with configuration files of its own; for those
# in a line "tls UNIT" too, and all its clients speak TLS. Units sentinel/NAME are those of
# runtest-sentinel, with five of our servers and five Sentinels of redis-server. Prints for each
# file how many tests passed, failed and were skipped, and what failed.
#
#   unit...           such as unit/type/list; default: the units that tests/compat/redis_tcl.skip
#                     names in its lines "unit NAME"
#   --try-skipped     the other way round: runs only what the skip file names, and tells which of it
#                     passes by now
#   --log             shows all the suite prints
#   --record          writes what passed into tests/compat/redis_tcl.results, from which
#                     tools/compat/compatibility_page.py makes a page; for all units, none failing
#
#   DFLY_BINARY=path  default build/release/dragonfly
#   DFLY_FLAGS="..."  default --proactor_threads=4; not for "starts"
#   REDIS_SOURCE=path an unpacked source of Redis 7.0, instead of Debian's package
#   REFERENCE=redis   against redis-server: do the suite and this script work?
#
# Exits 1 if a test failed, a file did not come to its end, or a line of the skip file skipped
# nothing.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/build/compat
skip_file=$root/tests/compat/redis_tcl.skip
unit_timeout_s=600  # of a file
test_timeout_s=200  # of silence; fuzzing HyperLogLogs takes 46 s

units=()
try_skipped=0
show_log=0
record=0
for arg in "$@"; do
  case $arg in
    --try-skipped) try_skipped=1 ;;
    --log) show_log=1 ;;
    --record) record=1 ;;
    -*) sed -n '3,28s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) units+=("$arg") ;;
  esac
done
die() { echo "redis_tcl.sh: $*" >&2; exit 2; }
if ((record)) && [[ ${#units[@]} -gt 0 || $try_skipped == 1 || ${REFERENCE:-} == redis ]]; then
  die "--record is for all units and our server"
fi
[[ ${#units[@]} -gt 0 ]] || mapfile -t units < <(sed -n 's/^unit  *//p' "$skip_file")
command -v tclsh > /dev/null || die "needs tclsh (apt-get install tcl)"

# --- The suite ---

fetch_source() {
  local apt=$work/apt
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$work/download"
  local key=/usr/share/keyrings/debian-archive-keyring.gpg
  # The security updates, too, as redis-server is installed from there: they add tests.
  printf 'deb-src [signed-by=%s] http://deb.debian.org/%s main\n' \
    "$key" 'debian bookworm' "$key" 'debian-security bookworm-security' > "$apt/sources.list"
  cat > "$apt/apt.conf" << EOF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt/cache";
EOF
  (
    cd "$work/download" &&
      APT_CONFIG=$apt/apt.conf apt-get update -qq &&
      APT_CONFIG=$apt/apt.conf apt-get source -qq redis
  ) > "$work/apt.log" 2>&1
}

if [[ -z ${REDIS_SOURCE:-} ]]; then
  find_source() { compgen -G "$work/download/redis-*/tests/test_helper.tcl" | head -1; }
  [[ -n $(find_source) ]] || fetch_source || true
  REDIS_SOURCE=$(dirname "$(dirname "$(find_source)")")
  [[ -d $REDIS_SOURCE/tests ]] || die "no source of redis, see $work/apt.log"
fi

# A copy with what an external server of another make needs:
# - FUNCTION FLUSH, and the settings of a group of tests, are tried, not asked for;
# - settings of DEBUG for Redis' quicklist that our lists do not have (from which size on an element
#   has a node for itself), for its cron and for its reply buffers are set without effect: the tests
#   that do so check what comes out, which is the same with any of them;
# - what DEBUG DIGEST-VALUE says of a key is what the key has, read by the commands of its type, a
#   hundred at a time;
# - a list may be a listpack where 7.0 wants a quicklist: short ones are since 7.2;
# - scores are compared as numbers: 7.2 writes the fewest digits that read back, 7.0 always 17;
# - an XREADGROUP whose stream has gone is told what 7.2 says, NOGROUP or WRONGTYPE;
# - what ACL refuses is told as 7.2 does it;
# - DEBUG DIGEST is that of all keys, and when they expire;
# - a base of the append-only log is always an RDB file: where it is to be commands, it is that.
suite=$work/suite
rm -rf "$suite"
mkdir -p "$suite"
cp -r "$REDIS_SOURCE/tests" "$suite/"
sed -i -e 's/^    r function flush$/    catch {r function flush}/' \
  -e '/# store overrides/,/^    }/s/^        r config set \$param \$val$/        catch {&}/' \
  -e '/# restore overrides/,/^    }/s/^        r config set \$param \$val$/        catch {&}/' \
  "$suite/tests/support/server.tcl"
cat > "$work/tolerant.sed" << 'EOF'
/^proc r {args} {$/a\
    set debugged {quicklist-packed-threshold|pause-cron|replybuffer}\
    set settings "debug ($debugged)"\
    if {[regexp "^($settings) " $args]} {return OK}
EOF
sed -i -f "$work/tolerant.sed" "$suite/tests/test_helper.tcl"
sed -i -e 's/\(aof-use-rdb-preamble\) \(no\|{no}\)/\1 yes/' \
  -e 's/foreach rdbpre {yes no}/foreach rdbpre yes/' \
  -e 's/\[\(\$*[a-zA-Z0-9_()]*\) debug digest\]/[digest_of \1]/g' \
  -e 's/\[\(\[lindex \$[a-z]* [0-9]\]\) debug digest\]/[digest_of \1]/g' \
  -e 's/\[r \(-[0-9]\) debug digest\]/[digest_of {r \1}]/g' \
  "$suite"/tests/{integration,unit,unit/type}/*.tcl
# How slowly an RDB is saved and loaded, for each key, is a setting of Redis' own tests: it is set
# without effect. Tests that need it are in the skip file.
sed -i -e 's/^\( *\)\(.*config set \(rdb-key-save\|key-load\)-delay [0-9]*\)/\1catch {\2}/' \
  -e 's/^\( *\)\(.*config set loading-process-events-interval-bytes [0-9]*\)/\1catch {\2}/' \
  "$suite"/tests/integration/replication*.tcl
# What is outside of tests and needs such a slow copy is a test, too, so that the skip file can name
# it. A command that has to wait for a slow script is told BUSY: so the script has a key.
cat > "$work/replication.sed" << 'EOF'
/^ *# Full sync with master2, and then kill master2/i\
                test {A full copy from another primary begins} {
/^ *catch {\$master2 shutdown nosave}$/a\
                }
/Fullsync should not free scripting engine/,/^}/{
  s/ end} 0$/ end} 1 xx/
  s/blockfunc 0$/blockfunc 1 xx/
  s/{\$replica ping} e/{$replica get xx} e/
  s/repl-diskless-load yes/repl-diskless-load swapdb/
}
EOF
sed -i -f "$work/replication.sed" "$suite/tests/integration/replication.tcl"
cat > "$work/buffer.sed" << 'EOF'
/^ *# Generating RDB will take some 100 seconds/i\
    test {Two replicas wait for a copy that takes long} {
/^ *test {All replicas share one global/i\
    }
EOF
sed -i -f "$work/buffer.sed" "$suite/tests/integration/replication-buffer.tcl"
# The first base of a log is written while clients are served, and a rewrite has to wait for it. A
# log that has none gets one, also if the suite has written its other files: when it writes them
# anew, the manifest is as before. The base of a start has an incremental of its own behind it. An
# incremental file says where it begins in the stream, as in Redis 8. Why a start was refused is
# told in other words.
sed -i -e '/count_message_lines \$server_path/d' \
  -e 's/^ *set client \[redis \[dict get \$srv host\].*/&; wait_done_loading $client/' \
  -e 's/^\( *\)\(\$client\|\$redis[12]*\|r\) bgrewriteaof$/\1waitForBgrewriteaof \2\n&/' \
  -e '/create BASE (RDB/,/^    }/s/^ *wait_done_loading \$client$/&; waitForBgrewriteaof $client/' \
  -e '/whitespaces}/,/^    }/s/ \.2\.incr\.aof" seq 2 / .3.incr.aof" seq 3 /' \
  "$suite"/tests/integration/aof-multi-part.tcl
cat > "$work/aof.sed" << 'EOF'
/^proc create_aof {/,/^}/s/^    create_aof_dir .*/&\
    set manifest "$dir\/appendonly.aof.manifest"\
    if {[file tail $aof_file] eq {appendonly.aof.1.incr.aof} \&\& [file exists $manifest]} {\
        set to [open $manifest w]\
        puts $to {file appendonly.aof.1.incr.aof seq 1 type i}\
        close $to\
    }/
s/^        lappend lines \$line/        lappend lines [regsub { startoffset \\d+} $line {}]/
EOF
sed -i -f "$work/aof.sed" "$suite/tests/support/aofmanifest.tcl"
# The suite removes the log of the first server, which the second one is to load.
sed -i -e 's/start_server \[list overrides \$config/& keep_persistence true/' \
  -e 's/^ *set bench /        waitForBgrewriteaof $client\n&/' \
  "$suite/tests/integration/aof-race.tcl"
# A load writes a million keys in ten seconds, more than the suite can compare: it gets 10,000.
sed -i 's/\$r set \[expr rand()\]/$r set [expr {int(rand() * 10000)}]/' \
  "$suite/tests/helpers/gen_write_load.tcl"
# Payloads get the checksum that they need here: it cannot be switched off. Whether they are refused
# is asked, not with what words in the log.
cat >> "$suite/tests/support/util.tcl" << 'EOF'
proc sealed {payload} {
    set value [string range $payload 0 end-8]
    set crc 0
    binary scan $value cu* bytes
    foreach byte $bytes {
        set crc [expr {$crc ^ $byte}]
        for {set i 0} {$i < 8} {incr i} {
            set crc [expr {$crc & 1 ? ($crc >> 1) ^ 0x95AC9329AC4BC9B5 : $crc >> 1}]
        }
    }
    for {set i 0} {$i < 8} {incr i} {
        append value [binary format c [expr {($crc >> (8 * $i)) & 0xff}]]
    }
    return $value
}
EOF
sed -i -e '/verify_log_message 0\|"ASSERTION FAILED"\|set-skip-checksum-validation 1/d' \
  -e 's/r restore \([^ ]*\) 0  *\("\([^"\\]\|\\.\)*"\)/r restore \1 0 [sealed \2]/I' \
  "$suite/tests/integration/corrupt-dump.tcl"
cat > "$work/encoding.sed" << 'EOF'
/^proc assert_encoding /,/^}/s/^    assert_match .*/    \
    if {$enc eq {quicklist} \&\& $val eq {listpack}} {return}\n&/
EOF
sed -i -f "$work/encoding.sed" "$suite/tests/support/test.tcl"
sed -i 's/assert_equal \[r object encoding key\] \$e$/assert_encoding $e key/' \
  "$suite/tests/unit/aofrw.tcl"
cat >> "$suite/tests/support/util.tcl" << 'EOF'
proc pipelined {client commands} {
    if {[lindex $client 0] eq {r}} {set client [srv [expr "[lindex $client 1] + 0"] client]}
    set replies {}
    for {set i 0} {$i < [llength $commands]} {incr i 100} {
        set some [lrange $commands $i [expr {$i + 99}]]
        set bytes {}
        foreach command $some {
            append bytes "*[llength $command]\r\n"
            foreach word $command {append bytes "\$[string length $word]\r\n$word\r\n"}
        }
        $client write $bytes
        $client flush
        foreach command $some {lappend replies [$client read]}
    }
    return $replies
}
proc reads_of {type key} {
    switch $type {
        string {return [list [list get $key]]}
        list {return [list [list lrange $key 0 -1]]}
        set {return [list [list smembers $key]]}
        zset {return [list [list zrange $key 0 -1 withscores]]}
        hash {return [list [list hgetall $key]]}
        stream {return [list [list xrange $key - +] [list xinfo groups $key]]}
        default {error "a digest of $key, which is a $type"}
    }
}
proc values_of {client keys} {
    set types [pipelined $client [lmap key $keys {list type $key}]]
    set commands {}
    foreach key $keys type $types {lappend commands {*}[reads_of $type $key]}
    set replies [pipelined $client $commands]
    set values {}
    set next 0
    foreach type $types {
        set value [lindex $replies $next]
        incr next
        switch $type {
            set {set value [lsort $value]}
            hash {set value [lsort -stride 2 $value]}
            stream {lappend value [lindex $replies $next]; incr next}
        }
        lappend values [list $type $value]
    }
    return $values
}
proc debug_digest_value {key} {return [values_of r [list $key]]}
proc debug_digest {{level 0}} {return [digest_of "r $level"]}
proc digest_of {client} {
    if {[{*}$client dbsize] == 0} {return [string repeat 0 40]}
    set keys [lsort [{*}$client keys *]]
    set deadlines [pipelined $client [lmap key $keys {list pexpiretime $key}]]
    return [list $keys $deadlines [values_of $client $keys]]
}
EOF
# Clients whose commands are on their way at the same time: on one thread the first to send is the
# first to be served. With threads the second has to wait until the first is blocked, or has its
# reply; and what another client's change invalidates is on its way when that has its reply.
cat > "$work/order.sed" << 'EOF'
s/^ *\$rd1 brpoplpush blist{t} target1{t} 0$/&\n        wait_for_blocked_clients_count 1/
/does not affect WATCH while still blocked/,/^    } /{
  /set res/d
  s/^ *\$watching_client exec$/&\n        set res [$watching_client read]/
}
/^ *\$rd XREAD[A-Za-z ]* BLOCK 0 STREAMS mystream "[$>]"$/a\
        wait_for_blocked_clients_count 1
/after P*UNSUBSCRIBE without arguments/,/^    }/{
  s/^ *[ps]*unsubscribe \$rd1$/&\n        foreach channel {1 2 3} {$rd1 read}/
}
/^ *set inv_msg \[r PING\]$/i\
        after 100
EOF
sed -i -f "$work/order.sed" \
  "$suite"/tests/unit/{type/{list,stream-cgroups},pubsub,pubsubshard,tracking}.tcl
if [[ ${REFERENCE:-} != redis ]]; then
  cat > "$work/stream.sed" << 'EOF'
/^    test {Blocking XREADGROUP: /,/^    }/{
  s/ {external:skip}$//
  /: key deleted/,/^    }/s/\*no longer exists/NOGROUP/
  /: flushed DB/,/^    }/s/\*no longer exists/NOGROUP/
  /: swapped DB, key doesn't exist/,/^    }/s/\*no longer exists/NOGROUP/
  s/\*no longer exists/WRONGTYPE/
}
EOF
  sed -i -f "$work/stream.sed" "$suite/tests/unit/type/stream-cgroups.tcl"
  # What ACL refuses is told in the words of 7.2.
  cat > "$work/acl.sed" << 'EOF'
s/"This user \([^"]*" *.r ACL DRYRUN \([^ ]*\)\)/"User \2 \1/
s/this user has no permissions to access one of the keys .*}$/No permissions to access a key}/
s/\*NOPERM\*\(key\|channel\)s\*/*NOPERM*\1*/
s/{user hpuser on nopass /&sanitize-payload /
EOF
  sed -i -f "$work/acl.sed" "$suite"/tests/unit/{acl,acl-v2}.tcl
fi
# A client is evicted by another thread, a moment later; the input of a command that is not complete
# is counted with its header; and four threads use more than a part of 6 MB.
cat > "$work/eviction.sed" << 'EOF'
/^ *assert {!\[client_exists [^]]*\]}$/{
  s/assert/wait_for_condition 50 20/
  s/$/ else {fail "it is still there"}/
}
s/ qbuf\] == \$qbsize/ qbuf] >= $qbsize/
s/^ *# Validate obuf-clients were disconnected.*/        after 200/
s/set maxmemory \[mb 6\]/set maxmemory [mb 60]/
/only half the percentage threshold/,/tot-mem/s/^ *\$rr flush$/&; after 200/
EOF
sed -i -f "$work/eviction.sed" "$suite/tests/unit/client-eviction.tcl"
# Of a pipeline over several shards some replies leave before the last has come, and the limit is on
# what waits at once: so its keys are of one shard.
sed -i '/No response for multi commands/,/^    }/s/"\(set\|get\|del\) \$i/"\1 {bigkey}$i/' \
  "$suite/tests/unit/obuf-limits.tcl"
# What the test before has deleted is freed in steps, which count when they are done.
sed -i '/deleted cgroup/a\
        wait_for_condition 50 100 {[s lazyfree_pending_objects] == 0} else {fail "not freed"}
' "$suite/tests/unit/lazyfree.tcl"
# Scripts. Only commands that would have to wait for a slow script are told that it is BUSY: so it
# gets a key, and they ask for that one.
cat > "$work/scripts.sed" << 'EOF'
/script timeout} {$\|test {Timedout\|test .* kill/,/^    }/{
  s/ end} 0$/ end} 1 xx/
  s/fcall test 0/fcall test 1 xx/
  s/catch {r ping} e/catch {r get xx} e/
  /neval\\r\|nfcall\\r/s/\*3\(.*\)\\$1\\r\\n0\\r\\n"$/*4\1\\$1\\r\\n1\\r\\n\\$2\\r\\nxx\\r\\n"/
}
EOF
sed -i -f "$work/scripts.sed" "$suite"/tests/unit/{scripting,functions,multi}.tcl
compare='assert_equal \(\[lindex $aux $i\]\) \(\[r zm*score zscoretest $i\]\)'
sed -i "s/$compare/assert {\1 == \2}/" "$suite/tests/unit/type/zset.tcl"
# There is no MIGRATE.
sed -i '/DRYRUN command-test MIGRATE/d' "$suite/tests/unit/acl-v2.tcl"
# What their first groups do needs no server of their own.
sed -i '1s/ external:skip//' "$suite"/tests/unit/{limits,pubsubshard}.tcl
# Of this file, the group that sets policies and limits of the server that it has. Eviction begins
# 1/512 of the limit below it and ends as much lower, and 100 KB are a few pages of four threads.
sed -i -e '/^start_server .*"maxmemory external:skip"/{N;/small integers/s/ external:skip//}' \
  -e 's/used+100\*1024/used+1000*1024/' \
  -e 's/used_memory\]+4096 > \$limit/used_memory]+$limit\/128 > $limit/' \
  "$suite/tests/unit/maxmemory.tcl"
if [[ $(grep -c 'catch {' "$suite/tests/support/server.tcl") -lt 3 ]] ||
  ! grep -q 'quicklist} &&' "$suite/tests/support/test.tcl" ||
  ! grep -q 'set settings' "$suite/tests/test_helper.tcl" ||
  [[ $(grep -A1 'rd1 brpoplpush blist\|watching_client exec' "$suite/tests/unit/type/list.tcl") != \
    *count\ 1*exec*set\ res* ]]; then
  die "another suite than expected"
fi

# --- The skip file: "unit | test's name, or /pattern/ | why", "flags UNIT FLAG..." ---

# flags_of UNIT: what its server gets besides DFLY_FLAGS.
flags_of() {
  awk -v unit="$1" '$1 == "flags" && $2 == unit { $1 = $2 = ""; print }' "$skip_file"
}

# skips UNIT FIELD: 2 the names as the suite wants them, 3 the reasons.
skips() {
  awk -F ' [|] ' -v unit="$1" -v field="$2" '
    /^#/ || /^(unit|flags|starts|tls) / || /^ *$/ { next }
    NF != 3 { print FILENAME ":" FNR ": not \"unit | test | why\"" > "/dev/stderr"; exit 1 }
    $1 == unit {
      name = $2
      if (field == 2 && name ~ /^\/.*\/$/) name = substr(name, 1, length(name) - 1)
      print field == 3 ? $3 : name
    }' "$skip_file" || exit 2
}

# --- The server ---

server=
stop_server() {
  [[ -n $server ]] || return 0
  kill "$server" 2> /dev/null
  wait "$server" 2> /dev/null
  server=
}
trap stop_server EXIT

start_server() {  # start_server FLAG..., into $server and $port
  local attempt
  rm -rf "$work/data"  # of a log that is switched on
  mkdir "$work/data"
  for attempt in 1 2 3 4 5; do
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
    if [[ ${REFERENCE:-} == redis ]]; then
      redis-server --port $port --bind 127.0.0.1 --save '' --enable-debug-command yes \
        --dir "$work" > "$work/server.log" 2>&1 &
    else
      # shellcheck disable=SC2086
      "${DFLY_BINARY:-$root/build/release/dragonfly}" --port=$port --bind=127.0.0.1 \
        --enable_debug_command=yes --enable_protected_configs=yes --dir="$work/data" \
        --repl_diskless_sync_delay=0 ${DFLY_FLAGS:---proactor_threads=4} "$@" \
        > "$work/server.log" 2>&1 &
    fi
    server=$!
    local deadline=$((SECONDS + 20))
    while kill -0 "$server" 2> /dev/null && ((SECONDS < deadline)); do
      if { exec 3<> "/dev/tcp/127.0.0.1/$port"; } 2> /dev/null; then
        exec 3>&-
        return
      fi
      read -rt 0.05 <> <(:)
    done
    stop_server
  done
  die "the server does not start, see $work/server.log"
}

# starts_itself UNIT: does the suite start the servers?
starts_itself() { [[ $1 == sentinel/* ]] || grep -Eqx "(starts|tls) +$1" "$skip_file"; }

# uses_tls UNIT: and do its clients speak TLS? Makes the certificates for it.
uses_tls() {
  grep -qx "tls *$1" "$skip_file" || return 1
  [[ ! -d $suite/tests/tls ]] || return 0
  mkdir -p "$suite/tests/tls"
  # Those of DSA take no minute to find.
  (cd "$suite" && openssl dhparam -dsaparam -out tests/tls/redis.dh 2048 &&
    bash "$REDIS_SOURCE/utils/gen-test-certs.sh") > "$work/tls.log" 2>&1 ||
    die "no certificates, see $work/tls.log"
}

# The runner of Sentinel's tests cannot skip: its "test" looks into the file SKIPS first.
cat > "$work/instances.sed" << 'EOF'
/^proc test {descr code} {/a\
    set skips [split [exec cat $::env(SKIPS)] "\n"]\
    foreach skip $skips {\
        if {$skip eq $descr || ([string match /* $skip] &&\
                [regexp [string range $skip 1 end] $descr])} {\
            puts "SKIPPED> $descr"\
            return\
        }\
    }
EOF
sed -i -f "$work/instances.sed" "$suite/tests/instances.tcl"
# A file that nobody can write: "tmp" is no directory where ours puts a snapshot of several files.
sed -i 's|R 0 config set dir /$|R 0 config set dir /proc|' \
  "$suite/tests/sentinel/tests/07-down-conditions.tcl"

# What the suite takes for src/redis-server. It wants its process id in the log, once the port is
# there or the server has ended; Sentinel's tests do not.
mkdir -p "$suite/src"
if [[ ${REFERENCE:-} == redis ]]; then
  ln -s "$(command -v redis-server)" "$suite/src/redis-server"
else
  binary=${DFLY_BINARY:-$root/build/release/dragonfly}
  cat > "$suite/src/redis-server" << EOF
#!/bin/bash
port=\$(sed -n 's/^\(tls-\)\{0,1\}port \([1-9][0-9]*\)$/\2/p' "\$1" 2> /dev/null | head -1)
(
  while [[ -n \$port ]] && kill -0 \$\$ && ! : < "/dev/tcp/127.0.0.1/\$port"; do
    sleep 0.05
  done 2> /dev/null
  [[ -n \${SKIPS:-} ]] || echo "server PID: \$\$"
) &
exec "$(realpath "$binary")" "\$@" --proactor_threads=\${TCL_THREADS:-4} 2>&1
EOF
  chmod +x "$suite/src/redis-server"
fi
ln -s "$(command -v redis-cli)" "$(command -v redis-benchmark)" "$(command -v redis-check-aof)" \
  "$(command -v redis-check-rdb)" "$suite/src/"
ln -s "$(command -v redis-server)" "$suite/src/redis-sentinel"

# run_sentinels NAME: what the other runner prints for a unit, in the words of the first one. If it
# takes too long its servers end with it: they are of its process group.
run_sentinels() {
  (cd "$suite" && SKIPS=$work/skips \
    timeout $unit_timeout_s tclsh tests/sentinel/run.tcl --single "$1") 2>&1 |
    sed -E -e 's/\x1b\[[0-9;]*m//g' -e 's/^SKIPPED> /[skip]: /' \
      -e 's/^[0-9:]{8}> (.*): ([a-z0-9/]+ )*OK$/[ok]: \1 (0 ms)/' \
      -e 's/^[0-9:]{8}> (.*): (FAILED: .*|)$/[err]: \1\n\2/' \
      -e 's/^FAILED: caught/[err]: &/' \
      -e 's/^(GOOD! No errors|WARNING [0-9]+ test).*/[1\/1 done]: &/'
}

# --- One file after another ---

# match.tcl PATTERN FILE: does a line match, as the suite understands patterns?
cat > "$work/match.tcl" << 'EOF'
foreach line [split [read [open [lindex $argv 1]]] "\n"] {
    if {$line ne "" && [regexp -- [lindex $argv 0] $line]} {exit 0}
}
exit 1
EOF

results=$work/results
echo '# unit, tests passed, tests skipped: tools/compat/redis_tcl.sh --record' > "$results"
failed_any=0
printf '%-28s %7s %7s %8s %14s\n' file passed failed skipped 'not for others'
for unit in "${units[@]}"; do
  [[ -f $suite/tests/${unit/#sentinel/sentinel/tests}.tcl ]] || die "no $unit in the suite"
  skips "$unit" 2 > "$work/skips" || exit 2
  read -ra flags < <(flags_of "$unit")
  where=()
  if ! starts_itself "$unit"; then
    start_server "${flags[@]}"
    where=(--host 127.0.0.1 --port "$port")
  elif uses_tls "$unit"; then
    where=(--tls)
  fi
  if ((try_skipped)); then
    choose=()
    [[ $unit == sentinel/* ]] && continue  # a test there goes on where the one before it ended
    while IFS= read -r name; do choose+=(--only "$name"); done < "$work/skips"
    [[ ${#choose[@]} -gt 0 ]] || { stop_server; continue; }
  else
    choose=(--skipfile "$work/skips")
  fi
  log=$work/${unit//\//_}.log
  if [[ $unit == sentinel/* ]]; then
    run_sentinels "${unit#sentinel/}"
  else
    # The suite's processes talk over a port near the base port, of which two runs need two.
    (cd "$suite" && timeout $unit_timeout_s tclsh tests/test_helper.tcl "${where[@]}" \
      --baseport $((10000 + RANDOM % 9000)) --single "$unit" --durable --clients 1 \
      --timeout $test_timeout_s "${choose[@]}") 2>&1
  fi | sed 's/\x1b\[[0-9;]*m//g' > "$log"
  ((show_log)) && cat "$log"
  alive=1
  [[ -z $server ]] || kill -0 "$server" 2> /dev/null || alive=0
  stop_server

  passed=$(grep -c '^\[ok\]: ' "$log")
  failed=$(grep -c '^\[err\]: ' "$log")
  skipped=$(grep -c '^\[skip\]: ' "$log")
  ignored=$(grep -c '^\[ignore\]: ' "$log")
  ((try_skipped)) && skipped=0
  printf '%-28s %7d %7d %8d %14d\n' "$unit" "$passed" "$failed" "$skipped" "$ignored"
  echo "$unit $passed $skipped" >> "$results"
  if ((try_skipped)); then
    sed -n 's/^\[ok\]: \(.*\) ([0-9]* ms)$/    passes by now: \1/p' "$log"
    continue
  fi
  if ((failed > 0)); then
    failed_any=1
    grep -A1 '^\[err\]: ' "$log" | grep -v '^--$' | cut -c1-300 | sed 's/^/    /'
  fi
  if ! grep -q '^\[1/1 done\]' "$log"; then
    failed_any=1
    echo "    did not come to its end; the last lines of $log:"
    grep -v '^\[testing\]' "$log" | tail -12 | cut -c1-300 | sed 's/^/    | /'
  fi
  if ((!alive)); then
    failed_any=1
    echo "    the server has ended:"
    tail -5 "$work/server.log" | sed 's/^/    | /'
  fi
  # Patterns are the suite's, so it says what they have skipped.
  sed -n 's/^\[skip\]: //p' "$log" > "$work/skipped"
  while IFS= read -r name; do
    if [[ $name == /* ]]; then
      tclsh "$work/match.tcl" "${name#/}" "$work/skipped" && continue
    else
      grep -Fxq -- "$name" "$work/skipped" && continue
    fi
    failed_any=1
    echo "    the skip file's '$name' skips nothing"
  done < "$work/skips"
done
if ((record && !failed_any)); then cp "$results" "$root/tests/compat/redis_tcl.results"; fi
exit $failed_any
