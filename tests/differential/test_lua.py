# SPDX-License-Identifier: Apache-2.0
"""Lua 5.1 in scripts: numbers, strings and patterns, as redis-server has them."""

import re
from pathlib import Path

import pytest

from harness.seeds import new_rng
from harness.server import SANITIZED

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

# Tells all that one can see of values.
SHOW = r"""
local function show(...)
  local texts = {}
  for i = 1, select('#', ...) do
    local value = select(i, ...)
    local text = type(value) == 'table' and '' or tostring(value)
    if type(value) == 'number' and value == value then
      text = text .. ' ' .. string.format('%.17g', value)
    end
    texts[i] = type(value) .. ' ' .. text
  end
  return texts
end
"""



ARGUMENTS = ("1700000000000000", "10000")


def evaluations(connections, script):
    """What both answer, with the same arguments and on an empty data set."""
    replies = []
    for connection in connections:
        connection.call("FLUSHALL")
        replies.append(connection.raw("EVAL", script, "1", "key", *ARGUMENTS))
    return replies


def differences(pair, scripts):
    ours, reference = (server.connect() for server in pair)
    found = []
    with ours, reference:
        for script in scripts:
            got, expected = evaluations((ours, reference), script)
            if got != expected:
                script = script.removeprefix(SHOW)
                found.append(f"{script}\n  ours:  {got!r}\n  redis: {expected!r}")
    assert not found, "\n".join([f"{len(found)} differ", *found])


def lines_of(name):
    """Of a file beside this one. Scripts that have several lines are parted by ¶ there."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return [line.replace("¶", "\n") for line in text.strip().split("\n")]


def test_values_are_those_of_lua_51(pair):
    differences(pair, [f"{SHOW}return show({line})" for line in lines_of("lua51_values.txt")])


def test_scripts_do_what_they_do_in_lua_51(pair):
    differences(pair, lines_of("lua51_scripts.txt"))


NUMBERS = """tonumber('0') 1 2 3 7 10 31 100 255 1000 65536 1000000 1000000007 2147483647 2147483648
4294967295 4294967296 9007199254740991 9007199254740992 1700000000000000 9223372036854775807
1e15 1e16 1e17 1e300 0.1 0.5 1.5 2.75 1e-5 3.14159 0xff 0xffffffff
0x7fffffffffffffff (-1) (-2.5) (-7) (1/0) (0/0) (#'abc') (#'') (#{1,2})
tonumber('12') tonumber('1e10') tonumber('0x1f') '10' '3.5' '0x10'""".split()
FUNCTIONS = """math.floor math.ceil math.abs math.sqrt tonumber -""".split()
OPERATORS = "+ - * / % ^".split()
COMPARISONS = "< <= > >= == ~=".split()


def expression(rng, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.15:
        return rng.choice(NUMBERS)
    if kind < 0.35:
        return f"{rng.choice(FUNCTIONS)}({expression(rng, depth - 1)})"
    if kind < 0.4:
        name = rng.choice(["math.max", "math.min", "math.fmod"])
        return f"{name}({expression(rng, depth - 1)}, {expression(rng, depth - 1)})"
    left, right = expression(rng, depth - 1), expression(rng, depth - 1)
    return f"({left} {rng.choice(OPERATORS)} {right})"


def test_sums_are_those_of_lua_51(pair):
    """Values, comparisons, and what becomes of them as arguments and as replies. `^` is left out
    where its result is no whole number: the last digit is that of the C library."""
    rng = new_rng()
    scripts = []
    for _ in range(100 if SANITIZED else 600):
        a, b = expression(rng, 3), expression(rng, 2)
        scripts.append(
            # 5.1 keeps one constant for 0 and -0, so neither is written where it would matter.
            f"local zero = tonumber('0') local a, b = {a} + zero, {b} + zero "
            f"local before = {{a {rng.choice(COMPARISONS)} a, a {rng.choice(COMPARISONS)} b}} "
            "if a == a then redis.call('RPUSH', KEYS[1], a) end "
            "if b == b then redis.call('RPUSH', KEYS[1], b, tostring(b)) end "
            # The sign of a nan is that of the machine's instructions.
            "local text = tostring(a):gsub('-nan', 'nan') "
            "return {text, before, a, b, redis.call('LRANGE', KEYS[1], '0', '-1'), "
            "cjson.encode({#text, a == a and a * zero == 0 and a or text})}"
        )
    differences(pair, scripts)


PATTERN_ITEMS = r"""a b c . %a %d %s %w %p %x [abc] [^abc] [a-c] [^,] [%d.] , x 1 () (a) (.) ([^,]*)
(%d+) %b() %f[%w] %%""".split()


def pattern(rng):
    items = [
        rng.choice(PATTERN_ITEMS) + rng.choice(["", "", "*", "+", "-", "?"])
        for _ in range(rng.randint(1, 4))
    ]
    return rng.choice(["", "", "", "^"]) + "".join(items) + rng.choice(["", "", "", "$"])


def test_patterns_match_as_in_lua_51(pair):
    rng = new_rng()
    scripts = []
    for _ in range(100 if SANITIZED else 400):
        text = "".join(rng.choices("aabbcc,, 12.x(y)%", k=rng.randint(0, 12)))
        what, by = pattern(rng), rng.choice(["-", "<%0>", "%1", "%%", "", "%-"])
        start = rng.choice([1, 1, 2, 5, -2, 20, 0])
        scripts.append(
            f"local t = {{}} local s, p = '{text}', '{what}' "
            "for a, b in s:gmatch(p) do t[#t + 1] = tostring(a) .. '|' .. tostring(b) end "
            f"return {{t, {{pcall(string.gsub, s, p, '{by}')}}, {{s:find(p, {start})}}, "
            f"{{s:match(p, {start})}}}}"
        )
    differences(pair, scripts)


# What a turn of a loop may do with its variable i, in a script that has t, u, x, s, f and step.
TURNS = """
t[i] = i; t[i] = x; x = t[i] or 0; x = x + (t[i] or 1); x = i; x = x + i; x = i * i * i * 2^40
t[i + 1] = t[i - 1]; t[i - 2] = i; t[i + 0.5] = 1; t[-i] = i; t[i * 2] = i; t[i % 3] = i; t[i] = {i}
u[#u + 1] = i; u[#u + 1] = #u; u[#u] = t[i]; u[#u] = #u
s = s .. i; s = s .. text(t[i])
f(i); f(t[i]); x = f(i) * 2^62; i = i + 1; i = x; x = -i; t.y = i; t.y = t[i]; x = select(2, i, i)
if i > x then x = i end; if i == #u then t[i] = 0 end; if x <= i then t[i] = nil end
x = i % 7 + i / 2 - -i; local j = i t[j] = j; local g = function() return i end x = g()
local g = function() i = 5 end g()
if i == i then for j = i, i + 2 do t[j] = i if j * j > 1e12 then break end end end
for j = 1, #u do t[j] = u[j] end; for j = #u, 1, -1 do x = u[j] t[i] = j end
for k, v in pairs(u) do t[k] = v end; for k, v in ipairs(u) do t[i] = k end
x, u[1] = i, x or 1; t[i], x = x, t[i] or 1; x = ({i, i})[2]; x = (i and i) or 0
x = i % 7 + (t[i % 5 + 1] or 1); local j = #u - i + 1 t[j] = x; local j = i * 3 t[j] = t[j + 1]
local j = i * i t[j] = 1 x = j % 10; local j = i - 1 t[j] = 1 / (j * 0); x = x * 31 % 1000003 + i
local j = i % 3 for k = 1, 3 do t[k + j] = i % 4 x = x + k * j end
local j = #s * i t[j % 9] = i * x
x = not i and 0 or i; while #u > 3 do u[#u] = nil end; x = i == 1; x = #s + i; x = math.max(i, 2)
""".strip().replace("\n", "; ").split("; ")
BOUNDS = """1 0 -1 2 3 7 10 -3 0.5 1.5 2^31 2^50 2^49+1 -2^50 1e15 1e300 -1e300 1/0 -1/0
#'abc' #u '2' step -n""".split()
STEPS = "1 1 1 2 -1 -2 0.5 -0.25 3 2^30 '1' step".split()


def loop(rng):
    header = f"for i = {rng.choice(BOUNDS)}, {rng.choice(BOUNDS)}"
    if rng.random() < 0.5:
        header += f", {rng.choice(STEPS)}"
    turns = " ".join(f"do {rng.choice(TURNS)} end" for _ in range(rng.randint(1, 4)))
    return f"n = 0 {header} do n = n + 1 if n > 20 then break end {turns} end"


LOOPS = r"""local t, u, x, s, step, n = {}, {1, 2}, 1, '', 1, 0
local function text(v)
  return type(v) == 'table' and 'table' or (tostring(v):gsub('-nan', 'nan'))
end
local function f(v)
  step = type(v) == 'number' and v ~= 0 and v > -100 and v < 100 and v or 1
  return 3
end
local ok = pcall(function() %s end)
local texts, keys = {tostring(ok), text(n), text(x), text(s), text(step), text(#u)}, {}
for k, v in pairs(t) do
  k = type(k) == 'number' and string.format('%%.17g', k + 0) or type(k)  -- in 5.1 it may be -0
  keys[#keys + 1] = k .. '=' .. text(v)
end
table.sort(keys)
return {texts, keys}"""


def test_loops_count_as_in_lua_51(pair):
    """Where a loop counts in integers inside, nobody can tell."""
    rng = new_rng()
    count = 200 if SANITIZED else 1_500
    differences(
        pair,
        [
            LOOPS % " ".join(loop(rng) for _ in range(rng.randint(1, 3)))
            for _ in range(count)
        ],
    )


# What a script may do with its variables v and w. It has t, u, x, s, f, and z, which is -0.
# No `for` begins with one of them: what it does with nan and fractions differs.
STEPS_OF_VARIABLES = """
v = v + 1; v = v + 2; v = v - 1; v = v + C; v = v - C; v = w + C; v = w - C; v = C - w; v = v * C
v = w * C; v = v % C; v = w % C; v = w * 31 % 1000003; v = (v * 31 + w) % 1000003; v = v + w % 7
v = w + v; v = v - w; v = v * w; v = #u; v = #u - w + 1; v = #u + 1; v = C; v, w = w, v; v = w
v = x; v = -v; v = v / 2; v = (v % 99) ^ 2; v = math.floor((v + w) / 2); v = v + z; v = z; v = f(w)
v = v * -1; t[v] = x; x = t[v] or 1; t[v], t[w] = t[w], t[v]; t[v + 1] = t[v - 1]
t[v * 2 + 1] = x; t[v] = v; t[w % 5 + 1] = x; u[#u + 1] = x; x = u[v] or x; t[v - w] = x
x = x + v; x = x * v; x = x - v % 7; x = v; x = v % C; x = 1 / (v * C); x = 1 / (v - w); x = v * w
x = v * 2^40; x = -v; x = v / C; x = (v % 99) ^ 2; x = 2 ^ (v % 9); f(v); s = s .. v; t.y = v
x = ({v, w})[1]; x = v and w or 0; x = #s + v; local g = function() return v end x = g()
local g = function() v = 5 end g(); x = text(v); if v < w then x = x + 1 end
if v == w then v = v + 1 end; if v >= C then x = x - 1 end; if v > C then v = C end
if v ~= C then x = 0 end; if not t[v] then t[v] = true end; v = v or w
for k = -9, 9 do if k > v and k < w then n = n + 1 t[k] = v % 3 end end; for k = 1, #u do x = v end
for k = 1, #u do t[k] = v + k end; for k = 1, 3 do v = v + k end; for k = 1, 3 do t[k * v] = k end
for k = #u, 3 do v = k + v n = n + 1 if n > 90 then break end end
while v < w do v = v + 1 n = n + 1 if n > 90 then break end end; v = select(2, v, w)
repeat local y = v + 1 t[y] = 1 v = y n = n + 1 until y > w or n > 90
do local y = v * 3 t[y] = x v = y end; do local v = w + 1 t[v] = x end
do local y = v y = y + w x = y end
""".strip().replace("\n", "; ").split("; ")
CONSTANTS = """0 1 2 3 7 10 -1 -3 0.5 127 128 1000 65535 65536 100000 1000003 2147483647 2147483648
4294967295 9007199254740991 1e15 1e300""".split()
BEGINNINGS = [*CONSTANTS, *"#u|#'abc'|#u + 1|x|tonumber('3')|2^31|2^52 - 1|z|'2'".split("|")]


def step_of_variables(rng):
    step = rng.choice(STEPS_OF_VARIABLES)
    names = rng.choices("abc", k=2)
    words = {"v": names[0], "w": names[1], "C": rng.choice(CONSTANTS)}
    return "do " + re.sub(r"\b[vwC]\b", lambda match: words[match[0]], step) + " end"


def loop_of_variables(rng):
    head = rng.choice(
        ["while n < N do", "while a <= #u do", "while a < C do", "for i = 1, 9 do", "repeat"]
    ).replace("C", rng.choice(CONSTANTS[:10]))
    steps = " ".join(step_of_variables(rng) for _ in range(rng.randint(1, 4)))
    end = "until n >= N" if head == "repeat" else "end"
    return f"{head} n = n + 1 if n > N then break end {steps} {end}".replace(
        "N", str(rng.choice([3, 9, 60]))
    )


def test_variables_are_those_of_lua_51(pair):
    """Where one is an integer inside, nobody can tell. Most are not shown: what is, is none."""
    rng = new_rng()
    scripts = []
    for _ in range(300 if SANITIZED else 2_000):
        variables = " ".join(f"local {name} = {rng.choice(BEGINNINGS)}" for name in "abc")
        steps = " ".join(
            f"n = 0 {loop_of_variables(rng)} {step_of_variables(rng)}"
            for _ in range(rng.randint(1, 2))
        )
        shown = rng.choice(["", "", "x = x + a", "t[a] = x", "s = s .. text(b)"])
        tables = rng.choice(["", "local t, u = t, u"])
        scripts.append(LOOPS % f"{tables} local z = -tonumber('0') {variables} {steps} {shown}")
    differences(pair, scripts)
