# SPDX-License-Identifier: Apache-2.0
"""What COMMAND tells of each of our commands, field by field against redis-server's own answer.
Clients route, retry and check permissions by it."""

import shutil

import pytest

from harness.resp import Status
from harness.server import Server, only_dragonfly

pytestmark = [only_dragonfly("it would be compared with itself")]

FIELDS = ["arity", "flags", "first key", "last key", "step", "categories", "tips", "key specs"]
SETS = ("flags", "categories", "tips")

ONLY_OURS = {
    "stick": "a command of ours",
    "prepend": "a command of ours",
    "cl.throttle": "of the module redis-cell",
    **{
        f"{family}.{name}": "of the module RedisBloom"
        for family, names in {
            "bf": "reserve add madd insert exists mexists card info scandump loadchunk",
            "cms": "initbydim initbyprob incrby query merge info",
            "topk": "reserve add incrby query count list info",
        }.items()
        for name in names.split()
    },
    **{
        name: "came with 7.4: deadlines of fields"
        for name in (
            *("hexpire", "hpexpire", "hexpireat", "hpexpireat", "hpersist"),
            *("httl", "hpttl", "hexpiretime", "hpexpiretime"),
        )
    },
    **{
        f"json.{name}": "of the module RedisJSON"
        for name in (
            "arrappend arrindex arrinsert arrlen arrpop arrtrim clear debug del forget get merge "
            "debug|help debug|memory "
            "mget mset numincrby nummultby objkeys objlen resp set strappend strlen toggle type"
        ).split()
    },
    "waitaof": "came with 7.2",
    **{name: "came with 8.2" for name in ("xackdel", "xdelex")},
    "xcfgset": "came with 8.6",
    **{name: "came with 8.8" for name in ("xidmprecord", "xnack")},
    **{name: "came with 8.10" for name in ("lmovem", "blmovem")},
    **{name: "came with 8.0" for name in ("hgetex", "hsetex", "hgetdel")},
    **{name: "a command of Dragonfly's" for name in ("saddex", "fieldexpire", "fieldttl")},
    "fieldpexpireat": "FIELDEXPIRE at a time that is the same whenever it runs",
    **{
        f"script|{name}": "of this design: what is known of scripts"
        for name in ("flags", "latency", "list")
    },
    **{
        name: "Valkey's, since 8.1"
        for name in (
            "commandlog", *(f"commandlog|{sub}" for sub in ("get", "help", "len", "reset"))
        )
    },
    **{
        name: "came with 8.6"
        for name in (
            "hotkeys", *(f"hotkeys|{sub}" for sub in ("get", "help", "reset", "start", "stop"))
        )
    },
    "slowlog|explain": "of this design: where the time went",
    **{f"client|{name}": "of this design: for operators" for name in ("blocked", "hotkeys")},
    **{name: "came with 8.4" for name in ("delex", "digest", "msetex")},
    "increx": "came with 8.8",
    **{name: "came with 8.10" for name in ("sdiffcard", "sunioncard")},
    "delifeq": "came with Valkey 9",
    "clusterscan": "came with Valkey 9.1",
    "client|no-touch": "came with 7.2",
    "client|setinfo": "came with 7.2",
}
NOT_THERE_YET = {
    "script|debug": "a debugger of scripts",
    **{
        f"cluster|{name}": "a cluster of several servers"
        for name in (
            *("addslots", "addslotsrange", "bumpepoch", "count-failure-reports", "delslots"),
            *("delslotsrange", "failover", "flushslots", "forget", "meet", "replicate"),
            *("saveconfig", "set-config-epoch", "setslot"),
        )
    },
}
# (command, field): the reason
ACCEPTED = {
    **{
        (name, "flags"): "blocking commands are allowed in scripts since 7.2"
        for name in ("blpop", "brpop", "blmove", "brpoplpush", "bzpopmin", "bzpopmax", "wait")
    },
    **{
        (name, "flags"): "script_runner came with 8.10"
        for name in ("eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro")
    },
    ("save", "arity"): "takes the format, RDB or DF",
    ("wait", "categories"): "a blocking command since 7.2",
    **{(name, "arity"): "WITHSCORE came with 7.2" for name in ("zrank", "zrevrank")},
    ("sort", "key specs"): "STORE's place is told; keys of BY and GET are not",
    ("sort_ro", "key specs"): "keys of BY and GET are not told",
    ("command|getkeys", "arity"): "one argument is enough since 7.2",
    ("command|getkeysandflags", "arity"): "one argument is enough since 7.2",
}


def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Status):
        return value.text
    return [plain(item) for item in value] if isinstance(value, list) else value


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def key_spec(spec):
    fields = pairs(spec)
    fields["flags"] = sorted(fields["flags"])
    fields.pop("notes", None)  # prose
    return fields


def table(connection):
    """{full name: {field: value}} of all commands and subcommands."""
    rows = {}

    def add(info):
        fields = dict(zip(FIELDS, info[1:9]))
        for name in SETS:
            fields[name] = sorted(fields[name])
        fields["key specs"] = [key_spec(spec) for spec in fields["key specs"]]
        rows[info[0]] = fields
        for subcommand in info[9]:
            add(subcommand)

    for info in plain(connection.call("COMMAND")):
        add(info)
    return rows


def docs(connection):
    rows = {}

    def add(name, flat):
        fields = pairs(flat)
        for child, child_fields in pairs(fields.pop("subcommands", [])).items():
            add(child, child_fields)
        wanted = ("since", "group", "deprecated_since", "replaced_by")
        rows[name] = {field: fields.get(field) for field in wanted}

    for name, flat in pairs(plain(connection.call("COMMAND", "DOCS"))).items():
        add(name, flat)
    return rows


@pytest.fixture(scope="module")
def reference():
    server = Server(reference=True)
    with server.connect() as connection:
        yield connection
    server.stop()
    shutil.rmtree(server.dir, ignore_errors=True)


def test_command_info_equals_that_of_redis_server(r, reference):
    ours, theirs = table(r), table(reference)
    differences = []
    for name in sorted(set(ours) & set(theirs)):
        for field in FIELDS:
            got, expected = ours[name][field], theirs[name][field]
            if (name, field) in ACCEPTED:
                assert got != expected, f"{name}'s {field} is no difference any more"
            elif got != expected:
                differences.append(f"{name}'s {field}: {got}\n   redis: {expected}")
    assert not differences, "\n".join(differences)


def test_every_command_of_ours_is_one_of_redis_or_is_explained(r, reference):
    ours, theirs = table(r), table(reference)
    assert set(ours) - set(theirs) == set(ONLY_OURS)
    containers = {name for name in ours if any(other.startswith(name + "|") for other in ours)}
    missing = {name for name in theirs if name.split("|")[0] in containers and name not in ours}
    assert missing == set(NOT_THERE_YET)


def test_command_docs_tell_the_same_versions_and_groups(r, reference):
    ours, theirs = docs(r), docs(reference)
    differences = [
        f"{name}: {ours[name]}\n   redis: {theirs[name]}"
        for name in sorted(set(ours) & set(theirs))
        if ours[name] != theirs[name]
    ]
    assert not differences, "\n".join(differences)
