# SPDX-License-Identifier: Apache-2.0
"""Commands about the connection, the server, and the commands themselves."""

WEIGHT = 8

# The number of keys is an argument of these.
COUNTED = (b"LMPOP", b"SINTERCARD", b"ZINTER", b"ZUNION", b"ZDIFF", b"ZMPOP", b"ZINTERCARD")
COUNTED_LATER = (b"BLMPOP", b"BZMPOP", b"ZINTERSTORE", b"ZUNIONSTORE", b"ZDIFFSTORE")


def differs_in_7_2(command):
    """Since 7.2 COMMAND GETKEYS needs one argument less. And it reads the number of LMPOP's or
    SINTERCARD's keys with atoi in 7.0: '1 ' is 1. ZRANK has WITHSCORE."""
    if len(command) > 3 and any(word.upper() in (b"ZRANK", b"ZREVRANK") for word in command):
        return True
    if command[0].upper() != b"COMMAND":
        return False
    for names, at in ((COUNTED_LATER, 4), (COUNTED, 3)):
        if any(word.upper() in names for word in command):
            return not all(word.isdigit() for word in command[at : at + 1])
    return len(command) < 4


EXCLUDED = [differs_in_7_2]

COMMANDS = [
    (2, lambda g: [b"ECHO", g.value()]),
    (2, lambda g: [b"PING", *g.maybe(g.value(), chance=0.5)]),
    (2, lambda g: [b"SELECT", g.rng.choice([b"0"] * 6 + [b"1", b"16", b"-1", b"x", b""])]),
    (
        1,
        lambda g: [
            g.rng.choice([b"NOSUCH", b"GETT", b"", b"set ", b"g\r\net"]),
            g.value(),
            g.any_key(),
        ],
    ),
    (1, lambda g: [b"CLIENT", g.rng.choice([b"SETNAME", b"GETNAME", b"WHAT"]), g.value()]),
    (1, lambda g: [b"CONFIG", g.rng.choice([b"GET", b"SET", b"WHAT"]), b"nosuch"]),
    (1, lambda g: [b"COMMAND", b"GETKEYS", b"GET", g.any_key()]),
]

VERBATIM = [
    (1, function)
    for function in [
        lambda g: [g.odd(), *g.odds()],
        lambda g: [b"CLIENT", *g.odds(4)],
        lambda g: [b"CLIENT", b"SETNAME", *g.odds()],
        lambda g: [b"CLIENT", b"SETNAME", g.rng.choice([b"me", b"a-b", b"~", b"!", b"\x7f"])],
        lambda g: [b"CLIENT", b"GETNAME", *g.odds(1)],
        lambda g: [b"CLIENT", b"ID", g.odd()],
        lambda g: [b"CLIENT", b"INFO", g.odd()],
        lambda g: [b"CLIENT", b"NO-EVICT", *g.odds(2)],
        lambda g: [b"CLIENT", b"NO-EVICT", g.rng.choice([b"on", b"OFF"])],
        lambda g: [b"CLIENT", b"REPLY", *g.odds(2)],
        lambda g: [b"CLIENT", b"REPLY", b"ON"],
        lambda g: [b"CLIENT", b"LIST", g.odd(), *g.odds()],
        lambda g: [b"CLIENT", b"LIST", b"TYPE", *g.odds(2)],
        lambda g: [b"CLIENT", b"LIST", b"TYPE", g.rng.choice([b"master", b"slave", b"replica"])],
        lambda g: [b"CLIENT", b"LIST", b"ID", *g.odds(2)],
        lambda g: [b"CLIENT", b"KILL", *g.odds(1)],
        lambda g: [b"CLIENT", b"KILL", g.odd(), g.odd(), *g.odds(1)],
        lambda g: [b"CLIENT", b"KILL", b"ID", g.rng.choice([b"0", b"-1", b"x", b"", b"99999999"])],
        lambda g: [b"CLIENT", b"KILL", b"TYPE", g.odd()],
        lambda g: [b"CLIENT", b"KILL", b"USER", g.odd()],
        lambda g: [b"CLIENT", b"KILL", b"ADDR", b"1.2.3.4:5", *g.odds(2)],
        lambda g: [b"CLIENT", b"KILL", b"SKIPME", g.odd()],
        lambda g: [b"CLIENT", b"KILL", b"ID", b"99999999", b"SKIPME", b"no", b"TYPE", b"pubsub"],
        lambda g: [b"CLIENT", b"PAUSE", g.rng.choice([b"x", b"-1", b"", b"0"]), *g.odds(2)],
        lambda g: [b"CLIENT", b"UNPAUSE", *g.odds(1)],
        lambda g: [b"CONFIG", *g.odds(4)],
        lambda g: [b"CONFIG", b"GET", *g.odds(3)],
        lambda g: [b"CONFIG", b"GET", g.rng.choice([b"maxmemory", b"timeout", b"databases"])],
        lambda g: [b"CONFIG", b"GET", b"maxmemory", b"maxmemory", b"timeou[t]", b"nosuch"],
        lambda g: [b"CONFIG", b"SET", *g.odds(4)],
        lambda g: [
            b"CONFIG",
            b"SET",
            g.rng.choice([b"maxmemory", b"timeout", b"maxclients", b"tcp-keepalive"]),
            g.rng.choice([b"", b"x", b"-1", b"1.5", b"1 gb", b"0x10"]),
        ],
        lambda g: [b"CONFIG", b"SET", b"timeout", b"0", b"timeout", b"0"],
        lambda g: [b"CONFIG", b"SET", b"timeout", b"0", b"nosuch", b"0"],
        lambda g: [b"CONFIG", b"SET", b"databases", b"16"],
        lambda g: [b"CONFIG", b"RESETSTAT", *g.odds(1)],
        lambda g: [b"CONFIG", b"REWRITE", *g.odds(1)],
        lambda g: [b"COMMAND", g.odd(), *g.odds()],
        lambda g: [b"COMMAND", b"COUNT", g.odd()],
        lambda g: [b"COMMAND", b"INFO", g.odd(), *g.odds()],
        lambda g: [b"COMMAND", b"DOCS", g.odd(), *g.odds()],
        lambda g: [b"COMMAND", b"LIST", g.odd(), *g.odds()],
        lambda g: [b"COMMAND", b"LIST", b"FILTERBY", *g.odds(3)],
        lambda g: [
            b"COMMAND",
            b"LIST",
            b"FILTERBY",
            g.rng.choice([b"MODULE", b"ACLCAT", b"PATTERN"]),
            *g.rng.choice([[b"nosuch"], [b"\xff"], [], [b"a", b"b"]]),
        ],
        lambda g: [
            b"COMMAND",
            g.rng.choice([b"GETKEYS", b"GETKEYSANDFLAGS"]),
            *g.well_formed(),
            *g.odds(2),
        ],
        lambda g: [b"COMMAND", b"GETKEYS", g.odd(), *g.odds(), g.odd()],
        lambda g: [b"DEBUG", g.odd(), *g.odds()],
        lambda g: [b"DEBUG", b"SLEEP", g.rng.choice([b"0", b"x", b"", b"-1"]), *g.odds(1)],
        lambda g: [b"DEBUG", b"OBJECT", b"missing", *g.odds(1)],
        lambda g: [b"DEBUG", b"POPULATE", g.rng.choice([b"0", b"-1", b"x", b""]), *g.odds(2)],
        lambda g: [b"MEMORY", *g.odds(4)],
        lambda g: [b"MEMORY", b"USAGE", b"missing", *g.odds(3)],
        lambda g: [
            b"MEMORY",
            b"USAGE",
            b"missing",
            b"SAMPLES",
            g.rng.choice([b"0", b"5", b"-1", b"x", b""]),
        ],
        lambda g: [b"HELLO", *g.odds(4)],
        lambda g: [b"HELLO", g.rng.choice([b"2", b"3"])],
        lambda g: [b"HELLO", g.rng.choice([b"2", b"3"]), g.odd(), *g.odds()],
        lambda g: [
            b"HELLO",
            g.rng.choice([b"2", b"3"]),
            *g.rng.choice(
                [
                    [b"AUTH", b"default", b"x"],
                    [b"AUTH", b"nobody", b"x"],
                    [b"AUTH", b"default"],
                    [b"SETNAME"],
                    [b"SETNAME", b"me"],
                    [b"SETNAME", b"m e"],
                    [b"SETNAME", b"a", b"SETNAME", b"b"],
                    [b"AUTH", b"default", b"x", b"SETNAME", b"a"],
                ]
            ),
        ],
        lambda g: [b"RESET", *g.odds(1)],
        lambda g: [b"SELECT", *g.odds(1)],
        lambda g: [b"AUTH", *g.odds(4)],
        lambda g: [b"AUTH", b"default", g.odd()],
        lambda g: [b"PING", *g.odds()],
        lambda g: [b"ECHO", *g.odds(2)],
        lambda g: [b"TIME", g.odd()],
        lambda g: [b"LASTSAVE", g.odd()],
        lambda g: [b"SHUTDOWN", b"SAVE", b"NOSAVE"],
        lambda g: [b"SHUTDOWN", b"ABORT"],
        lambda g: [b"SHUTDOWN", b"WHAT", *g.odds(2)],
    ]
]
