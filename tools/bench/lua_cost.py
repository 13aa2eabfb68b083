#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Lua scripts cost in two builds: CPU time and instructions for each turn of a loop, and the
ratio of the second build to the first.

    tools/bench/lua_cost.py [--only 'arrays*'] [--rounds 9] [--instructions] OLD NEW

OLD and NEW are interpreter_bench of two builds. An older one needs today's interpreter_bench.cc.
Runs of the two take turns, and of each the quickest counts: that is the one least disturbed. Two
lengths are measured, and their difference counts, so what the start takes is left out.
--instructions counts with callgrind instead; that is exact, but a division counts like a move.
"""

import argparse
import fnmatch
import os
import re
import subprocess
import tempfile

# name, turns in one run of the script, script
CASES = [
    ("empty", 1,
     'return 1'),
    ("arrays: read t[i]", 10_000,
     'local t = {} for i = 1, 1000 do t[i] = i end local x = 0 for _ = 1, 10 do for i = 1, #t '
     'do x = x + t[i] end end'),
    ("arrays: read KEYS[i]", 1_000,
     'local t, x = KEYS for _ = 1, 1000 do for i = 1, #t do x = t[i] end end'),
    ("arrays: write t[i]", 10_000,
     'local t = {} for _ = 1, 10 do for i = 1, 1000 do t[i] = true end end'),
    ("arrays: t[i] = i", 10_000,
     'local t = {} for _ = 1, 10 do for i = 1, 1000 do t[i] = i end end'),
    ("arrays: swap", 10_000,
     'local t = {} for i = 1, 1000 do t[i] = i end  for _ = 1, 10 do for i = 1, #t do local j '
     '= #t - i + 1 t[i], t[j] = t[j], t[i] end end'),
    ("arrays: t[#t + 1]", 1_000,
     "local t = {} for i = 1, 1000 do t[#t + 1] = 'x' end"),
    ("arrays: pairs of fields", 10_000,
     'local t = {} for i = 1, 1000 do t[i] = i end local x, y for _ = 1, 20 do for i = 1, #t, '
     '2 do x = t[i] y = t[i + 1] end end'),
    ("arrays: while", 10_000,
     'local t = {} for i = 1, 1000 do t[i] = i end local x for _ = 1, 10 do local i = 1 while '
     'i <= #t do x = t[i] i = i + 1 end end'),
    ("arrays: hash part", 10_000,
     'local t, x = {} for i = 2000, 1001, -1 do t[i] = 1 end for _ = 1, 10 do for i = 1001, '
     '2000 do x = t[i] end end'),
    ("arrays: an argument", 10_000,
     'local function f(n) return n end for _ = 1, 10 do for i = 1, 1000 do f(i) end end'),
    ("arrays: nested", 10_000,
     'local t, x = {} for i = 1, 100 do t[i] = {} for j = 1, 10 do t[i][j] = j end end for _ ='
     ' 1, 10 do for i = 1, 100 do local r = t[i] for j = 1, 10 do x = r[j] end end end'),
    ("pairs: list", 10_000,
     'local t = {} for i = 1, 1000 do t[i] = i end local x for _ = 1, 10 do for k, v in '
     'pairs(t) do x = v end end'),
    ("pairs: copy", 10_000,
     'local t = {} for i = 1, 1000 do t[i] = i end local u = {} for _ = 1, 10 do for k, v in '
     'pairs(t) do u[k] = v end end'),
    ("pairs: fields", 1_000,
     "local t, x = {} for i = 1, 10 do t['field' .. i] = i end for _ = 1, 100 do for k, v in "
     'pairs(t) do x = v end end'),
    ("next: list", 10_000,
     'local t = {} for i = 1, 1000 do t[i] = i end local x for _ = 1, 10 do local k, v = '
     'next(t) while k do x = v k, v = next(t, k) end end'),
    ("ipairs: list", 10_000,
     'local t = {} for i = 1, 1000 do t[i] = i end local x for _ = 1, 10 do for i, v in '
     'ipairs(t) do x = v end end'),
    ("ipairs: KEYS", 1_000,
     'local x for _ = 1, 1000 do for i, v in ipairs(KEYS) do x = v end end'),
    ("ipairs: other[i]", 10_000,
     'local t = {} for i = 1, 1000 do t[i] = i end local x local u = t for _ = 1, 10 do for i,'
     ' v in ipairs(t) do x = u[i] end end'),
    ("numbers: x + i", 10_000,
     'local x = 0 for i = 1, 10000 do x = x + i end'),
    ("numbers: i % 7", 10_000,
     'local x = 0 for i = 1, 10000 do x = x + i % 7 end'),
    ("numbers: x % 1000003", 10_000,
     'local x = 1 for i = 1, 10000 do x = x * 31 % 1000003 end'),
    ("numbers: fib", 1_000,
     'local function f(n) if n < 2 then return n end return f(n - 1) + f(n - 2) end f(15)'),
    ("numbers: i .. ''", 1_000,
     "local x for i = 1, 1000 do x = i .. '' end"),
    ("numbers: tonumber", 1_000,
     "local x for _ = 1, 1000 do x = tonumber('1234') end"),
    ("numbers: tostring", 1_000,
     'local x for i = 1, 1000 do x = tostring(i) end'),
    ("numbers: math.floor", 1_000,
     'local x for i = 1, 1000 do x = math.floor(i / 2) end'),
    ("numbers: math.min", 1_000,
     'local x for i = 1, 1000 do x = math.min(i, 500) end'),
    ("call", 100,
     " for _ = 1, 100 do redis.call('lpush', KEYS[1], ARGV[1]) end"),
    ("call: a number", 100,
     "for i = 1, 100 do redis.call('zadd', KEYS[1], i, ARGV[1]) end"),
    ("call: of loops", 100,
     "for i = 1, 100 do redis.call('zadd', KEYS[1], i, KEYS[i % 1 + 1]) end"),
    ("string: rep", 100,
     "local x for _ = 1, 100 do x = string.rep('abc', 30) end"),
    ("string: rep of one", 100,
     "local x for _ = 1, 100 do x = string.rep('x', 1000) end"),
    ("string: find plain", 100,
     "local s, x = string.rep('abc', 30) .. 'key' for _ = 1, 100 do x = s:find('key', 1, true)"
     ' end'),
    ("string: find plain, no specials", 100,
     "local s, x = string.rep('abc', 30) .. 'key' for _ = 1, 100 do x = s:find('key') end"),
    ("string: find in short", 100,
     "local s, x = 'user:1234' for _ = 1, 100 do x = s:find(':', 1, true) end"),
    ("string: find in long", 10,
     "local s, x = string.rep('ab', 5000) .. 'aab' for _ = 1, 10 do x = s:find('aab', 1, true)"
     ' end'),
    ("string: find pattern", 100,
     "local s, x = string.rep('abc ', 20) .. 'user:1234' for _ = 1, 100 do x = "
     "s:find('user:%d+') end"),
    ("string: match", 100,
     "local s, x = '2024-01-02T03:04:05' for _ = 1, 100 do x = s:match('^(%d+)-(%d+)-(%d+)') "
     'end'),
    ("string: match trim", 100,
     "local s, x = '   some text here  ' for _ = 1, 100 do x = s:match('^%s*(.-)%s*$') end"),
    ("string: match a class", 100,
     "local s, x = 'a.b.c:some_name' for _ = 1, 100 do x = s:match('[%w_]+$') end"),
    ("string: gmatch", 100,
     "local s, x = string.rep('key=value, ', 10) for _ = 1, 10 do for k, v in "
     "s:gmatch('(%w+)=(%w+)') do x = k end end"),
    ("string: gmatch split", 100,
     "local s, x = string.rep('word,', 10) for _ = 1, 10 do for w in s:gmatch('[^,]+') do x = "
     'w end end'),
    ("string: gsub", 100,
     "local s, x = string.rep('hello world ', 10) for _ = 1, 100 do x = s:gsub('o', '0') end"),
    ("string: gsub captures", 100,
     "local s, x = 'hello world again now' for _ = 1, 100 do x = s:gsub('(%w+) (%w+)', '%2 "
     "%1') end"),
    ("string: gsub function", 100,
     "local s, x = 'hello world again now' local f = function(w) return w end for _ = 1, 100 "
     "do x = s:gsub('%w+', f) end"),
    ("string: gsub table", 100,
     "local s, x = 'hello world again now' local u = {hello = 'bye'} for _ = 1, 100 do x = "
     "s:gsub('%w+', u) end"),
    ("string: format %d", 100,
     "local x for _ = 1, 100 do x = string.format('%d:%d', 12, 34567) end"),
    ("string: format %s", 100,
     "local x for _ = 1, 100 do x = string.format('%s:%s', 'user', 34567) end"),
    ("string: format %.2f", 100,
     "local x for _ = 1, 100 do x = string.format('%.2f', 3.14159) end"),
    ("string: format %q", 100,
     'local x for _ = 1, 100 do x = string.format(\'%q\', \'some "text"\') end'),
    ("string: sub", 100,
     "local s, x = 'hello world' for _ = 1, 100 do x = s:sub(2, 5) end"),
    ("string: byte", 100,
     "local s, x = 'hello world' for _ = 1, 100 do x = s:byte(3) end"),
    ("string: byte all", 100,
     "local s, x = 'hello world' for _ = 1, 100 do x = select('#', s:byte(1, -1)) end"),
    ("string: char", 100,
     'local x for _ = 1, 100 do x = string.char(104, 101, 108) end'),
    ("string: len", 100,
     "local s, x = 'hello world' for _ = 1, 100 do x = s:len() end"),
    ("string: upper", 100,
     "local s, x = 'hello world' for _ = 1, 100 do x = s:upper() end"),
    ("string: reverse", 100,
     "local s, x = 'hello world' for _ = 1, 100 do x = s:reverse() end"),
    ("table: sort strings", 2_000,
     "local t = {} for i = 1, 100 do t[i] = 'value' .. i end  for _ = 1, 20 do local u = {} "
     'for i = 1, 100 do u[i] = t[(i * 37) % 100 + 1] end table.sort(u) end'),
    ("table: sort numbers", 2_000,
     ' for _ = 1, 20 do local u = {} for i = 1, 100 do u[i] = (i * 37) % 100 end table.sort(u)'
     ' end'),
    ("table: sort by a function", 2_000,
     'local f = function(a, b) return a > b end for _ = 1, 20 do local u = {} for i = 1, 100 '
     'do u[i] = (i * 37) % 100 end table.sort(u, f) end'),
    ("table: concat", 2_000,
     "local t = {} for i = 1, 100 do t[i] = 'value' .. i end local x for _ = 1, 20 do x = "
     "table.concat(t, ',') end"),
    ("table: insert", 1_000,
     "local t = {} for i = 1, 1000 do table.insert(t, 'x') end"),
    ("table: remove", 1_000,
     'local t = {} for i = 1, 1000 do t[i] = i end for i = 1, 1000 do table.remove(t) end'),
    ("table: insert first", 100,
     "local t = {} for i = 1, 100 do table.insert(t, 1, 'x') end"),
    ("table: unpack", 1_000,
     "local t, x = {1, 2, 3, 4, 5} for _ = 1, 1000 do x = select('#', unpack(t)) end"),
    ("cjson: encode", 2_000,
     "local t = {} for i = 1, 100 do t[i] = 'value' .. i end local x for _ = 1, 20 do x = "
     'cjson.encode(t) end'),
    ("cjson: decode", 2_000,
     "local t = {} for i = 1, 100 do t[i] = 'value' .. i end local s, x = cjson.encode(t) for "
     '_ = 1, 20 do x = cjson.decode(s) end'),
    ("cmsgpack: pack", 2_000,
     "local t = {} for i = 1, 100 do t[i] = 'value' .. i end local x for _ = 1, 20 do x = "
     'cmsgpack.pack(t) end'),
    ("cmsgpack: unpack", 2_000,
     "local t = {} for i = 1, 100 do t[i] = 'value' .. i end local s, x = cmsgpack.pack(t) for"
     ' _ = 1, 20 do x = cmsgpack.unpack(s) end'),
]


def run_times(binary, runs, source):
    """User CPU seconds of one process."""
    process = subprocess.Popen([binary, f"--run={runs}", source])
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{binary} failed: {source}")
    return usage.ru_utime


def count_instructions(binary, runs, source):
    with tempfile.TemporaryDirectory() as work:
        out = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={work}/out", binary,
             f"--run={runs}", source], capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", out.stderr).group(1))


def measure_instructions(binaries, turns, source):
    few = max(1, 2_000 // turns)
    # How many instructions the start takes depends on the clock.
    many = few + max(5, 10_000 // turns)
    return [(count_instructions(binary, many, source) - count_instructions(binary, few, source))
            / (many - few) / turns for binary in binaries]


def measure_time(binaries, turns, source, rounds):
    # So many runs take about 60 ms.
    runs = 100
    while (took := min(run_times(binary, runs, source) for binary in binaries)) < 0.03:
        runs *= 3
    runs = max(2, int(runs * 0.06 / took))
    best = [[float("inf")] * 2 for _ in binaries]
    for _ in range(rounds):
        for times, binary in zip(best, binaries):
            for which, count in enumerate((runs // 10, runs)):
                times[which] = min(times[which], run_times(binary, count, source))
    return [(long - short) / (runs - runs // 10) / turns * 1e9 for short, long in best]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("old")
    parser.add_argument("new")
    options = parser.parse_args()
    binaries = [options.old, options.new]
    unit = "instructions" if options.instructions else "ns"
    print(f"| {'script':32} | {'old ' + unit:>16} | {'new ' + unit:>16} | {'new / old':>9} |")
    print("| --- | ---: | ---: | ---: |")
    for name, turns, source in CASES:
        if not fnmatch.fnmatch(name, options.only):
            continue
        if options.instructions:
            old, new = measure_instructions(binaries, turns, source)
        else:
            old, new = measure_time(binaries, turns, source, options.rounds)
        print(f"| {name:32} | {old:16.1f} | {new:16.1f} | {new / old:9.2f} |", flush=True)


if __name__ == "__main__":
    main()
