# SPDX-License-Identifier: Apache-2.0
"""What our log says of a command, beside what redis-server 7.0 says of it in its own.

Both get the same commands one by one, with a mark before each; then the files are read. In what the
two may differ is in `plain`, and in docs/differences.md, "The log's commands". And redis-server has
our data once it has loaded our log. DFLY_SEED and DFLY_DIFF_COMMANDS are as in tests/differential.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess

import pytest

from differential.grammar import Grammar
from differential.grammars.dump import blob, listpack, payload_of
from differential.pair import quoted, value_of
from harness.log_files import logged_commands, manifest_path, private_command
from harness.ports import free_port
from harness.resp import OK, Error, RespSocket, encode
from harness.seeds import new_rng
from harness.server import PATIENCE_S, REFERENCE, SANITIZED, Server, wait_blocked, wait_until

pytestmark = pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself")

MARK = b"effects:mark"
FAR_MS = 4_000_000_000_000
CLOCKS_MS = 600_000  # by how much two times may differ that two servers have taken from the clock


class Logged:
    """Ours and redis-server, each with a log, that get the same commands."""

    def __init__(self, threads):
        always = {"appendonly": "yes", "appendfsync": "always"}
        self.ours = Server(proactor_threads=threads, maxmemory="0", **always)
        self.reference = Server(reference=True, **always)
        self.connections = [server.connect() for server in (self.ours, self.reference)]
        self.blocks = []
        for c in self.connections:
            wait_until(lambda c=c: c.info("persistence")["loading"] == "0")
            wait_until(lambda c=c: c.info("persistence")["aof_rewrite_in_progress"] == "0")
            assert c.call("CONFIG", "SET", "auto-aof-rewrite-percentage", "0") == OK

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for c in self.connections:
            c.close()
        for server in (self.ours, self.reference):
            if server.is_alive():
                server.stop()
            shutil.rmtree(server.dir, ignore_errors=True)

    def run(self, block):
        """Commands, of which a log is compared as a whole. Returns the replies of both."""
        self.mark(block)
        return [[c.call(*words) for words in block] for c in self.connections]

    def mark(self, block):
        for c in self.connections:
            assert c.call("SET", MARK, str(len(self.blocks))) == OK
        self.blocks.append(block)

    def logs(self):
        """For each block what both logs say of it."""
        ours, theirs = (
            effects_by_mark(logged_commands(server.dir)) for server in (self.ours, self.reference)
        )
        for i, block in enumerate(self.blocks):
            yield block, ours[i], theirs[i]


def effects_by_mark(commands):
    """{number of the mark: [(database, words)] of what stands behind it}"""
    found, db = {}, None
    effects = []
    for words in commands:
        if words[0].upper() == b"SELECT":
            db = int(words[1])
        elif words[0] == b"SET" and words[1] == MARK:
            effects = found.setdefault(int(words[2]), [])
        else:
            effects.append((db, words))
    return found


# --- In what they may differ ---


def plain_set(words):
    """Whether it was to be set is known, and nobody needs the old value: no NX, XX and GET. An
    option may stand there twice, and in small letters."""
    options = {word.upper(): None for word in words[3:]}  # in their order
    return [*words[:3], *(w for w in options if w not in (b"NX", b"XX", b"GET"))]


def plain_deadline(words):
    """That a condition was met is known: no NX, XX, GT and LT."""
    return words[:3]


def plain_move(words):
    if words[0] == b"RPOPLPUSH":
        return [b"LMOVE", *words[1:], b"RIGHT", b"LEFT"]
    return [*words[:3], *(w.upper() for w in words[3:])]


def plain_pop(words):
    """Ours has the number of elements that were taken; Redis the client's, or none."""
    return words[:2]


def plain_restore(words):
    """Ours always replaces, and has an absolute time, even if that is none."""
    return [*words[:4], *(w for w in words[4:] if w.upper() not in (b"REPLACE", b"ABSTTL"))]


def plain_entry(words):
    """Ours writes an id in full, and trims by an XTRIM behind it."""
    at = 2
    while not re.match(rb"\+?\d", words[at]):
        at += {b"NOMKSTREAM": 1, b"LIMIT": 2}.get(words[at].upper()) or (
            3 if words[at + 1] in (b"=", b"~") else 2
        )
    ms, _, seq = words[at].partition(b"-")
    return [*words[:2], b"%d-%d" % (int(ms), int(seq or b"0")), *words[at + 1 :]]


def plain_trim(words):
    """Ours has the length that is left, Redis what the client said or the first id that is left.
    That both trim alike, the replies show (tests/differential)."""
    return None


def plain_claim(words):
    """Ours has the newest id of the group with each entry, Redis the entry's own."""
    return words[: words.index(b"LASTID")] if b"LASTID" in words else words


def plain_group(words):
    """Ours also tells how many entries a group has read, as Valkey 9 does."""
    return None if words[1].upper() == b"SETID" and b"ENTRIESREAD" in words else words


PLAIN = {
    b"MULTI": lambda words: None,
    b"EXEC": lambda words: None,
    b"SET": plain_set,
    b"PEXPIREAT": plain_deadline,
    **dict.fromkeys([b"RPOPLPUSH", b"LMOVE"], plain_move),
    **dict.fromkeys([b"LPOP", b"RPOP", b"ZPOPMIN", b"ZPOPMAX"], plain_pop),
    b"RESTORE": plain_restore,
    b"XADD": plain_entry,
    b"XTRIM": plain_trim,
    b"XCLAIM": plain_claim,
    b"XGROUP": plain_group,
    b"SCRIPT": lambda words: None,  # ours keeps the scripts that EVALSHA knows
}


def places(words):
    """GEOADD is as the client sent it, Redis has the scores: key and members."""
    at = next(i for i, w in enumerate(words) if i > 1 and w.upper() not in (b"NX", b"XX", b"CH"))
    each = 3 if words[0] == b"GEOADD" else 2
    return [b"ZADD", words[1], *words[at + each - 1 :: each]]


# Of these ours tells the result, so that nobody has to calculate floats again.
STORING = (b"GEORADIUS", b"GEORADIUSBYMEMBER", b"GEOSEARCHSTORE", b"SORT")


def stored_key(words):
    if words[0] == b"GEOSEARCHSTORE":
        return words[1]
    names = [w.upper() for w in words]
    return words[max(i for i, name in enumerate(names) if name in (b"STORE", b"STOREDIST")) + 1]


def without_results(effects):
    """Only that a key was replaced: by the command, or by DEL and what makes it."""
    found = []
    for db, words in effects:
        if words[0] in STORING:
            words = [b"DEL", stored_key(words)]
        makes = words[0] in (b"ZADD", b"RPUSH") and found
        if not makes or found[-1] != (db, [b"DEL", words[1]]):
            found.append((db, words))
    return found


def reads_again(words):
    """XREADGROUP with an id of its own. Ours tells that entries were delivered once more."""
    names = [w.upper() for w in words]
    if names[0] != b"XREADGROUP" or b"STREAMS" not in names:
        return False
    ids = words[names.index(b"STREAMS") + 1 :]
    return any(word != b">" for word in ids[len(ids) // 2 :])


def comparable(block, effects):
    """In the form that ours has, where that is another, and without what only one of them tells."""
    found = []
    for db, words in effects:
        words = [words[0].upper(), *words[1:]]
        words = PLAIN.get(words[0], lambda words: words)(words)
        if words is not None:
            found.append((db, words))
    names = {words[0].upper() for words in block}
    if b"GEOADD" in names:
        found = [(db, places(w) if w[0] in (b"GEOADD", b"ZADD") else w) for db, w in found]
    if names.intersection(STORING):
        found = without_results(found)
    if any(map(reads_again, block)):
        found = [(db, words) for db, words in found if words[0] != b"XCLAIM"]
    if b"XAUTOCLAIM" in names or b"XCLAIM" in names:
        found = [(db, claimed(words) if words[0] in CLAIMED else words) for db, words in found]
    return found


# What XAUTOCLAIM takes off because the entry is gone: Redis claims it for who had it.
CLAIMED = {b"XCLAIM": 5, b"XACK": 3}


def claimed(words):
    return [b"XCLAIM", *words[1:3], words[CLAIMED[words[0]]]]


def is_same_word(ours, theirs):
    if ours == theirs:
        return True
    times = [int(w.split(b"-")[0]) if w.split(b"-")[0].isdigit() else 0 for w in (ours, theirs)]
    if min(times) > 1_600_000_000_000:
        return abs(times[0] - times[1]) < CLOCKS_MS
    return False


def is_same(ours, theirs):
    (db, a), (other_db, b) = ours, theirs
    return db == other_db and len(a) == len(b) and all(map(is_same_word, a, b))


def agree(block, ours, theirs, one_shard):
    """Of several shards those keys that have nothing to do with each other may change places."""
    a, b = comparable(block, ours), comparable(block, theirs)
    if not one_shard and len(block) > 1:
        a, b = sorted(a), sorted(b)
    return len(a) == len(b) and all(map(is_same, a, b))


def is_whole(block, ours):
    """One effect is bare, several of a unit stand between MULTI and EXEC."""
    names = [words[0] for _, words in ours]
    if not block:  # the mark behind all
        return not names
    if len(block) == 1 or block[-1][0].upper() == b"EXEC":
        return len(names) < 2 or (names[0] == b"MULTI" and names.index(b"EXEC") == len(names) - 1)
    return True


def text_of(effects):
    return "; ".join(
        f"{db} " + b" ".join(map(quoted, words)).decode()[:300] for db, words in effects
    )


def names_of(effects):
    return [words[0].upper() for _, words in effects]


def check_logs(logged, one_shard, has_waiters=False):
    """`has_waiters`: blocks have several units, of those who were served."""
    different = []
    for block, ours, theirs in logged.logs():
        whole = names_of(ours) == names_of(theirs) if has_waiters else is_whole(block, ours)
        if not whole or not agree(block, ours, theirs, one_shard):
            lines = [f"{b' '.join(map(quoted, words)).decode()[:300]}" for words in block]
            lines += [f"  ours:  {text_of(ours)}", f"  redis: {text_of(theirs)}"]
            different.append("\n".join(lines))
    assert not different, f"{len(different)} differ:\n" + "\n\n".join(different[:20])


# --- What redis-server has once it has loaded our log ---


def content(c):
    """All that clients can see of all databases that the tests use."""
    found = {}
    for db in range(3):
        assert c.call("SELECT", db) == OK
        for key in c.call("KEYS", "*"):
            value = value_of(c, key)
            kind = c.call("TYPE", key)
            if kind.text == "zset":
                value = sorted(value)
            deadline_ms = c.call("PEXPIRETIME", key)
            found[db, key] = kind, value, deadline_ms
    assert c.call("SELECT", 0) == OK
    return found


def check_redis_has_ours(logged):
    """It loads our log without a word of complaint, and has the same keys with the same values."""
    with logged.ours.connect() as c:
        expected = content(c)
    logged.ours.stop()
    directory = logged.ours.dir
    check = subprocess.run(["redis-check-aof", manifest_path(directory)], capture_output=True)
    assert check.returncode == 0, check.stdout
    log_path = os.path.join(directory, "redis.log")
    port = free_port()
    line = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", directory]
    line += ["--appendonly", "yes", "--save", "", "--logfile", log_path]
    process = subprocess.Popen(line)
    try:
        wait_until(lambda: is_loaded(port) or process.poll() is not None, what="redis-server")
        with open(log_path) as f:
            complaints = [line for line in f if "CRITICAL" in line or "error" in line.lower()]
        assert not complaints, "".join(complaints[:20])
        with RespSocket(("127.0.0.1", port), timeout=PATIENCE_S) as c:
            found = content(c)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == value, key


def is_loaded(port):
    try:
        with RespSocket(("127.0.0.1", port), timeout=PATIENCE_S) as c:
            return not isinstance(c.call("PING"), Error)
    except OSError:
        return False


# --- The tests ---

FAMILIES = [
    "strings,keys,hashes,sets,lists,zsets",
    "strings,bitmaps,hyperloglog,administration",
    "keys,hashes,sets",
    "lists,sets,sorting",
    "zsets,sets",
    "geo,zsets",
    "streams",
    "dump,strings",
]
LENGTH = int(os.environ.get("DFLY_DIFF_COMMANDS") or (100 if SANITIZED else 400))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("families", FAMILIES)
def test_random_commands_are_logged_as_by_redis(families, threads):
    grammar = Grammar(new_rng(), families.split(","))
    with Logged(threads) as logged:
        for _ in range(LENGTH):
            logged.run(grammar.block())
        check_logs(logged, threads == 1)
        check_redis_has_ours(logged)


# What no grammar has: each line is a block, its commands are between the bars. The first word of a
# block may be the database.
CASES = """
SET k v EX 1000 | SET k v PX 1000000 NX | SET k w EX 1000 XX GET
SETEX k 1000 v | PSETEX k 1000000 v | GETEX k EX 500 | GETEX k PERSIST | GETEX k
SET k v PXAT 4000000000000 | SET k v KEEPTTL | SET k w NX | GETSET k x | GETDEL k
INCRBYFLOAT f 1.5 | INCRBYFLOAT f 3.0e3 | APPEND f x | SETRANGE s 3 abc
EXPIRE s 1000 | EXPIRE s 2000 GT | PERSIST s | PERSIST s | PEXPIRE s 1000000 NX | EXPIRE s 0
MSET a 1 b 2 c 3 | MSETNX a 1 d 2 | MSETNX x 1 y 2 | RENAME a aa | RENAMENX aa b | COPY b bb
SETBIT bits 7 1 | SETBIT bits 7 1 | BITFIELD bits SET u8 0 255 | BITOP NOT nb bits
BITOP AND none missing1 missing2 | DEL none missing | UNLINK nb | DEL b bb c
SADD one m | SPOP one | SADD one m | SPOP one 5 | SADD all a b c | SPOP all 3 | SPOP all
SMOVE all none x | SADD src x | SMOVE src dst x | SINTERSTORE res src dst | SUNIONSTORE res dst
RPUSH l a b c d | BLPOP l 1 | BRPOP l 1 | LMPOP 1 l LEFT COUNT 1 | BLMPOP 1 1 l RIGHT COUNT 5
RPUSH l a b | BLMOVE l m LEFT RIGHT 1 | BRPOPLPUSH l m 1 | LREM m 0 zz | LTRIM m 0 -1 | LPOP m 0
ZADD z 1 a 2 b 3 c | BZPOPMIN z 1 | BZPOPMAX z 1 | ZMPOP 1 z MIN COUNT 9 | ZADD z INCR 2.5 a
ZINCRBY z 0.1 a | ZADD z XX GT 1 a | ZRANGESTORE zz z 0 -1 | ZUNIONSTORE zz 2 z z WEIGHTS 2 3
HSET h f 1 g 2 | HINCRBYFLOAT h f 1.25 | HINCRBY h g 5 | HSETNX h f 1 | HDEL h g none
GEOADD geo 13.361389 38.115556 P | GEOADD geo NX 15 37 C | GEORADIUS geo 15 37 200 km STORE near
SORT l ALPHA STORE sorted | RPUSH n 3 1 2 | SORT n STORE sorted | SORT missing STORE sorted
PFADD p a b | PFADD p a | PFMERGE q p | PFCOUNT p | PFCOUNT p q
XADD x 1-1 a 1 | XADD x 2-* a 1 | XADD x * a 1 | XADD x MAXLEN ~ 1000 * a 1 | XADD x MAXLEN 2 * a 1
XADD nox NOMKSTREAM 1-1 a 1 | XTRIM x MAXLEN ~ 1000 | XTRIM x MAXLEN 1 | XADD x * b 2
XGROUP CREATE x g 0 | XGROUP CREATECONSUMER x g me | XREADGROUP GROUP g me COUNT 1 STREAMS x >
XREADGROUP GROUP g me STREAMS x > | XREADGROUP GROUP g me STREAMS x > | XACK x g 0-1
XADD x 9999999999999-1 a 1 | XREADGROUP GROUP g me NOACK STREAMS x > | XDEL x 9999999999999-1
XCLAIM x g me 0 1-1 | XAUTOCLAIM x g me 0 0 | XGROUP SETID x g 0 | XGROUP DELCONSUMER x g me
XGROUP DESTROY x g | XSETID x 9999999999999-9 | XDEL x 5-5
MULTI ; SET a 1 EX 1000 ; EXEC | MULTI ; SPOP missing ; SET a 1 EX 1000 ; EXEC
MULTI ; GET a ; EXEC | MULTI ; SET a 1 ; INCR a ; EXEC | MULTI ; SET a 1 ; DISCARD
MULTI ; SET a 1 ; SELECT 1 ; SET b 1 ; SELECT 0 ; SET c 1 ; EXEC | SELECT 1 | SET in 1 | SELECT 0
MOVE c 1 | SWAPDB 0 1 | SWAPDB 0 1 | COPY a a DB 2 | SELECT 2 | FLUSHDB | SELECT 0
EVAL "return redis.call('SET',KEYS[1],'v','EX','1000')" 1 {e}1
EVAL "redis.call('SET',KEYS[1],'1') return redis.call('INCR',KEYS[1])" 1 {e}1
EVAL "return redis.call('GET',KEYS[1])" 1 {e}1 | EVAL "return redis.call('SADD',KEYS[1],'a')" 1 {e}s
EVAL "redis.call('SPOP',KEYS[1]) return redis.call('INCRBYFLOAT',KEYS[2],'1.5')" 2 {e}s {e}2
EVAL "redis.call('SET',KEYS[1],'w') return redis.error_reply('x')" 1 {e}1
EVAL "redis.call('SET',KEYS[1],'w') redis.call('LPUSH',KEYS[1],'w')" 1 {e}1
MULTI ; EVAL "redis.call('SET',KEYS[1],'1') redis.call('SET',KEYS[1],'2')" 1 {e}1 ; SET q 1 ; EXEC
SCRIPT LOAD "return 1" | SCRIPT FLUSH | FUNCTION FLUSH | FCALL none 0
PUBLISH c m | WATCH a | UNWATCH | OBJECT FREQ a | TOUCH a | CONFIG SET timeout 0 | FLUSHALL
"""


def words_in(text):
    """As redis-cli takes them."""
    return [word.encode() for word in shlex.split(text)]


def cases():
    for line in CASES.strip().split("\n"):
        for block in line.split(" | "):
            yield [words_in(command) for command in block.split(" ; ")]


@pytest.mark.parametrize("threads", [1, 3])
def test_each_kind_of_command_is_logged_as_by_redis(threads):
    with Logged(threads) as logged:
        for block in cases():
            logged.run(block)
        check_logs(logged, threads == 1)
        check_redis_has_ours(logged)


WAITS = {
    "BLPOP w1 0": "RPUSH w1 a b",
    "BLMOVE w2 w3 LEFT RIGHT 0": "RPUSH w2 a",
    "BZPOPMIN w4 0": "ZADD w4 1 a 2 b",
    "BLMPOP 0 1 w5 LEFT COUNT 2": "RPUSH w5 a b c",
    "BLPOP {w}6 0": "MULTI ; RPUSH {w}6 a ; SET {w} 1 ; EXEC",
    "BRPOP {w}7 0": "EVAL \"redis.call('RPUSH',KEYS[1],'a') redis.call('INCR',KEYS[2])\" "
    "2 {w}7 {w}",
}


@pytest.mark.parametrize("threads", [1, 3])
def test_who_waited_is_logged_behind_who_served(threads):
    with Logged(threads) as logged:
        for wait, served_by in WAITS.items():
            waiting = [server.connect() for server in (logged.ours, logged.reference)]
            for w, c in zip(waiting, logged.connections, strict=True):
                w.send_command(*words_in(wait))
                wait_blocked(c, 1)
            logged.run([words_in(command) for command in served_by.split(" ; ")])
            for w in waiting:
                assert not isinstance(w.read(), Error)
                w.close()
        logged.mark([])
        check_logs(logged, threads == 1, has_waiters=True)
        check_redis_has_ours(logged)


# Commands that redis-server 7.0 does not know, and what our log says: in its words what it knows,
# and behind ECHO the rest (in brackets).
OURS = {
    "SET s v STICK": "SET s v, [STICK s]",
    "SET s w KEEPTTL GET STICK": "SET s w KEEPTTL, [STICK s]",
    f"SET s v PXAT {FAR_MS} STICK": f"SET s v PXAT {FAR_MS}, [STICK s]",
    "PREPEND s ab": "SET s abv KEEPTTL",
    f"HSETEX h PXAT {FAR_MS} FIELDS 2 f 1 g 2": "HSET h f 1 g 2, "
    f"[HPEXPIREAT h {FAR_MS} FIELDS 2 f g]",
    "HINCRBYFLOAT h f 0.5": f"HSET h f 1.5, [HPEXPIREAT h {FAR_MS} FIELDS 1 f]",
    "HSETEX h KEEPTTL FIELDS 1 g 3": f"HSET h g 3, [HPEXPIREAT h {FAR_MS} FIELDS 1 g]",
    "HSETEX h FNX FIELDS 1 i 3": "HSET h i 3",
    "HSETEX h PXAT 1 FIELDS 1 i 3": "HDEL h i",
    "HGETEX h PERSIST FIELDS 1 g": "[HPERSIST h FIELDS 1 g]",
    "HGETDEL h FIELDS 2 g none": "HDEL h g none",
    f"HPEXPIREAT h {FAR_MS} FIELDS 1 f": f"[HPEXPIREAT h {FAR_MS} FIELDS 1 f]",
    "HPEXPIREAT h 1 FIELDS 1 f": "HDEL h f",
    "BF.ADD bloom x": "[BF.ADD bloom x]",
    "STICK s": "",
}


def readable(effects):
    """Without MULTI and EXEC."""
    found = []
    for _, words in effects:
        hidden = private_command(words)
        text = b" ".join(hidden or words).decode()
        if text not in ("MULTI", "EXEC"):
            found.append(f"[{text}]" if hidden else text)
    return ", ".join(found)


@pytest.mark.parametrize("threads", [1, 3])
def test_redis_gets_what_it_knows_of_our_commands(threads):
    with Logged(threads) as logged:
        with logged.ours.connect() as c:
            for i, command in enumerate(OURS):
                assert c.call("SET", MARK, str(i)) == OK
                assert not isinstance(c.call(*words_in(command)), Error), command
            assert c.call("SET", MARK, str(len(OURS))) == OK
            found = effects_by_mark(logged_commands(logged.ours.dir))
            for i, (command, expected) in enumerate(OURS.items()):
                assert readable(found[i]) == expected, command
            assert c.call("DEL", "bloom") == 1
        check_redis_has_ours(logged)


NEWER = {
    b"text": payload_of(b"\x00\x05hello", version=11),
    b"members": payload_of(b"\x14" + blob(listpack(b"a", b"b", 7)), version=11),
    b"of valkey": payload_of(b"\x00\x05hello", version=80),
}


def test_payloads_of_newer_versions_are_logged_as_redis_7_0_reads_them():
    with Logged(1) as logged:
        with logged.ours.connect() as c:
            for key, payload in NEWER.items():
                assert c.call("RESTORE", key, 0, payload) == OK
                assert c.call("RESTORE", key + b" later", FAR_MS, payload, "ABSTTL") == OK
        check_redis_has_ours(logged)


# --- memcached's flags, which no Redis has ---


class MemcachedClient:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def call(self, request, lines=1):
        self.socket.sendall(request)
        return [self.file.readline().rstrip(b"\r\n") for _ in range(lines)]


def flags_of(client, keys):
    found = {}
    for key in keys:
        line, data, end = client.call(b"get %s\r\n" % key, 3)
        assert end == b"END", line
        found[key] = line.split()[2], data
    return found


@pytest.mark.sanitized
@pytest.mark.parametrize("command", ["MSET", "MSETNX"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_large_string_that_the_same_command_replaces_is_logged(threads, command, start_server):
    """Large arguments become values as they are. The first one must stay until it was read: by the
    log, and by the slow log."""
    server = start_server(appendonly="yes", appendfsync="always", proactor_threads=threads)
    with server.connect() as c:
        wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0")
        c.call("CONFIG", "SET", "slowlog-log-slower-than", "0")
        for n in range(8):  # some of them on another thread
            words = [command, f"key:{n}", b"a" * 300_000, f"key:{n}", b"b" * 300_000]
            request = encode(*words)
            for at in range(0, len(request), 50_000):
                c.send(request[at : at + 50_000])
            assert c.read() in (OK, 1)
            assert c.call("GET", words[1]) == words[4]
            slow = [entry[3] for entry in c.call("SLOWLOG", "GET", "-1")]
            [shown] = [args for args in slow if args[:2] == [command.encode(), words[1].encode()]]
            assert shown[2].startswith(b"a" * 64) and shown[4].startswith(b"b" * 64)
            [logged] = [w for w in logged_commands(server.dir) if w[1:2] == [words[1].encode()]]
            assert logged == [w if isinstance(w, bytes) else w.encode() for w in words]


@pytest.mark.parametrize("threads", [1, 3])
def test_flags_of_memcached_are_there_after_a_kill(threads, start_server):
    port = free_port()
    server = start_server(
        appendonly="yes", appendfsync="always", memcached_port=port, proactor_threads=threads
    )
    expected = {
        b"set": (b"42", b"a"),
        b"plain": (b"0", b"a"),
        b"added": (b"4294967295", b"abc"),
        b"counted": (b"7", b"6"),
        b"replaced": (b"0", b"of redis"),
        b"timed": (b"5", b"a"),
    }
    with server.connect() as c:  # what comes while the first base is written may be in that
        wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0")
    with MemcachedClient(port) as m:
        assert m.call(b"set set 42 0 1\r\na\r\n") == [b"STORED"]
        assert m.call(b"set plain 0 0 1\r\na\r\n") == [b"STORED"]
        assert m.call(b"add added 4294967295 0 1\r\nb\r\n") == [b"STORED"]
        assert m.call(b"append added 0 0 1\r\nc\r\n") == [b"STORED"]
        assert m.call(b"prepend added 0 0 1\r\na\r\n") == [b"STORED"]
        assert m.call(b"set counted 7 0 1\r\n5\r\n") == [b"STORED"]
        assert m.call(b"incr counted 1\r\n") == [b"6"]
        assert m.call(b"set replaced 9 0 1\r\na\r\n") == [b"STORED"]
        assert m.call(b"set timed 5 100000 1\r\na\r\n") == [b"STORED"]
        assert m.call(b"ms marked 1 F3 E77\r\na\r\n") == [b"HD"]
        assert m.call(b"md marked I E78\r\n") == [b"HD"]
        with server.connect() as c:
            assert c.call("SET", "replaced", "of redis") == OK
        assert flags_of(m, expected) == expected
    told = [private_command(words) for words in logged_commands(server.dir)]
    assert [b"MEMCACHED", b"ITEM", b"set", b"42", b"0", b"0"] in told
    assert not [words for words in told if words and words[2] == b"plain"]

    for rewrites in (False, True):
        if rewrites:
            with server.connect() as c:
                done = int(c.info("persistence")["aof_rewrites"])
                wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0")
                assert not isinstance(c.call("BGREWRITEAOF"), Error)
                wait_until(lambda n=done: int(c.info("persistence")["aof_rewrites"]) > n)
        server.kill()
        port = free_port()
        server.start_again(memcached_port=port)
        with server.connect() as c:
            wait_until(lambda: c.info("persistence")["loading"] == "0")
        with MemcachedClient(port) as m:
            assert flags_of(m, expected) == expected
            # Stale: whoever asks first is to make it anew.
            assert m.call(b"mg marked c f\r\n") == [b"HD c78 f3 X W"]
        if not rewrites:
            # That somebody does is known, too.
            with MemcachedClient(port) as m:
                assert m.call(b"mg marked f\r\n") == [b"HD f3 Z X"]
                assert m.call(b"ms marked 1 F3 E77\r\na\r\n") == [b"HD"]
                assert m.call(b"md marked I E78\r\n") == [b"HD"]
