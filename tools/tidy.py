#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the text of the source tree; the ctest `tidy`.  tools/tidy.py [--build DIR] [--self-test]

Rules: includes only go up the list of folders, nobody declares a class of a folder that he may not
include or uses one of its functions, no folder has too many files, headers that must stay small
pull in few others, no include is missing that precompiled headers would hide, banned names with
their replacement, one SPDX line, lines (clang-format 14), and no file that no target builds.
tools/tidy_allow.txt lists the exceptions, each with its reason. The self-test feeds bad snippets to
every rule and sees every rule fire.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CPP = (".cc", ".h")
TEXT = CPP + (".py", ".sh", ".cmake", ".txt", ".md", ".yml", ".js", ".rb", ".json")
LINES_MAX = 900
COLUMNS_MAX = 100
# A longer header of src/server is a class that is several: its parts get headers of their own.
# tools/tidy_allow.txt would list the exceptions.
HEADER_LINES_MAX = 300
CLANG_FORMAT = "14"

# What each folder may include besides itself. Order of the look-up: the longest prefix wins.
LADDER = {
    "helio/base": [],
    "helio/fibers": ["helio/base"],
    "helio/proactor": ["helio/base", "helio/fibers"],
    "helio/net": ["helio/base", "helio/fibers", "helio/proactor", "helio/io"],
    "helio/io": ["helio/base", "helio/fibers", "helio/proactor"],
    "src/core": ["helio/base"],
    "src/facade": ["helio", "src/core/memory"],
    "src/engine": ["src/core", "helio", "src/facade/replies/reply_sink.h"],
    "src/commands": ["src/engine", "src/facade", "src/core", "helio"],
    "src/scripting": ["src/commands", "src/engine", "src/facade", "src/core", "helio"],
    "src/storage": ["src/engine", "src/core", "helio"],
    "src/storage/log": [
        *("src/storage", "src/facade/parsers", "src/engine", "src/core", "helio"),
    ],
    "src/server": [
        *("src/commands", "src/scripting", "src/storage"),
        *("src/engine", "src/facade", "src/core", "helio"),
    ],
    "tools": ["src", "helio"],  # dfly_bench
}
# The folders inside of one, in the order of docs/architecture.md: each may include those before it.
# The files of the folder itself ("") may include all of them, and only what comes later may include
# those. CMake has the same order: each is a library.
ROOMS = {
    "src/core": "memory text table types sketches json rdb",
    "src/facade": "parsers replies",
    "src/engine": "queue keyspace hops",
    "src/commands": "table strings collections zsets streams sketches json keys memcached testing",
    "src/scripting": "lua source",
    "src/server": "base options acl meters scripts clients quotas push care dispatch persistence"
    " replication run info commands settings http",
}
for _top, _rooms in ROOMS.items():
    _before = []
    for _room in _rooms.split():
        LADDER[f"{_top}/{_room}"] = [*_before, *LADDER[_top]]
        _before.append(f"{_top}/{_room}")
LADDER["src/server/schedules"] = ["src", "helio"]
# What only tests may include of a later folder.
TESTING = ("src/commands/testing",)
# Past this a folder has more than one idea.
FOLDER_FILES_MAX = 40

LAYERS = ("helio/", "src/", "tools/")  # what an #include may begin with; src/ is left out

# What a file that uses one of these names has to include, itself or by a header of ours. The names
# are those of the precompiled headers (cmake/precompiled.cmake), which would hide that it does not.
PRECOMPILED = "cmake/precompiled.cmake"
NAMES = {
    "algorithm": r"std::(ranges::\w+|sort|stable_sort|min|max|clamp|find|find_if|any_of|all_of"
    r"|none_of|count|count_if|copy|copy_n|copy_if|fill|fill_n|equal|reverse|unique|lower_bound"
    r"|upper_bound|nth_element|shuffle|rotate|transform|binary_search|min_element|max_element"
    r"|for_each|remove|remove_if|partition|mismatch|search|push_heap|pop_heap|make_heap|is_sorted"
    r"|minmax)\(",
    "array": r"std::array\b",
    "atomic": r"std::(atomic|memory_order)",
    "bit": r"std::(bit_\w+|count[lr]_\w+|popcount|has_single_bit|rot[lr]|endian)\b",
    "charconv": r"std::(from|to)_chars\b",
    "chrono": r"std::chrono\b",
    "cmath": r"std::(is(nan|inf|finite)|signbit|floor|ceil|l?l?round|llrint|trunc|sqrt|pow|log|log2"
    r"|log10|exp|fabs|sin|cos|asin|hypot|nextafter|fmod|ldexp|modf)\(",
    "cstdint": r"\bu?int(8|16|32|64|ptr)_t\b",
    "cstring": r"std::(mem(cpy|cmp|move|set|chr)|strlen|strerror|strcmp)\b",
    "deque": r"std::deque\b",
    "functional": r"std::(function|greater|hash|ref|reference_wrapper)\b",
    "map": r"std::(multi)?map\b",
    "memory": r"std::((unique|shared|weak)_ptr|make_(unique|shared))\b",
    "mutex": r"std::(mutex|lock_guard|unique_lock|scoped_lock|once_flag|call_once)\b",
    "optional": r"std::(optional|nullopt)\b",
    "set": r"std::(multi)?set\b",
    "span": r"std::(span|as_bytes)\b",
    "sstream": r"std::[io]?stringstream\b",
    "string": r"std::(string|to_string|sto\w+|getline)\b",
    "string_view": r"std::string_view\b",
    "utility": r"std::(move|exchange|pair|swap|forward)\b",
    "vector": r"std::vector\b",
    "absl/container/flat_hash_map.h": r"absl::flat_hash_map\b",
    "absl/container/inlined_vector.h": r"absl::InlinedVector\b",
    "absl/functional/any_invocable.h": r"absl::AnyInvocable\b",
    "boost/context/fiber_fcontext.hpp": r"boost::context\b",
    "fmt/format.h": r"fmt::\w+",
    "gflags/gflags.h": r"\bDEFINE_(string|bool|u?int(32|64)|double)\b|gflags::",
    "glog/logging.h": r"\b(D?CHECK(_[A-Z]{2})?|PCHECK|D?LOG|LOG_EVERY_N|VLOG)\(",
    "gmock/gmock.h": r"\b(EXPECT|ASSERT)_THAT\(",
    "gtest/gtest.h": r"\b(TEST(_[PF])?|(EXPECT|ASSERT)_\w+|ADD_FAILURE|GTEST_SKIP)\(",
}
# What one header gives with its own names, by its documentation.
WITH = {
    "boost/context/fiber.hpp": {"boost/context/fiber_fcontext.hpp"},
    "gmock/gmock.h": {"gtest/gtest.h"},
}
# How many headers of src/ a header may be, with all that it includes: who includes it reads them.
REACH = {"src/server/run/server.h": 59}

# (rule, pattern, what to use instead, where it applies). `code` has comments and strings blanked.
BANNED = [
    (  # <mutex> is fine: it has the guards, which take helio::Mutex and SpinLock as well
        "std-mutex",
        r"\bstd::(recursive_|shared_|timed_)?mutex\b|#include <shared_mutex>",
        "helio::Mutex on fibers, a message to the owner between threads",
        "server",
    ),
    (
        "std-condvar",
        r"\bstd::condition_variable(_any)?\b|#include <condition_variable>",
        "helio::CondVar or helio::EventCount",
        "server",
    ),
    (
        "thread-sleep",
        r"\b(std::this_thread::sleep_(for|until)|usleep|nanosleep)\b|(?<![\w:.>])sleep\s*\(",
        "helio's fiber sleep; in tests wait on a condition",
        "all",
    ),
    ("raw-new", r"(?<![\w.>])new\b(?!\s*\()(?=\s+[\w:(])", "std::make_unique, or a pool", "server"),
    ("absl-log", r"#include\s+[\"<]absl/log/", "helio/base/logging.h (glog)", "all"),
    (
        "absl-string-view",
        r"\babsl::string_view\b",
        "std::string_view; Debian's absl has its own type",
        "all",
    ),
    (
        "letter-case",
        r"[|^]\s*0x20\b|\b(std::)?(tolower|toupper)\b(?!_)",
        "helio/base/ascii.h",
        "server",
    ),
    (
        "turn-end",
        r"\b(ServeWaiters|OnTurnEnd|PublishUsedBytes)\s*\(",
        "engine/keyspace/shard_turn.h: the end of a ShardTurn does it",
        "server",
    ),
    ("iostream", r"#include <iostream>", "LOG, or fmt::print in tools", "all"),
    ("std-thread", r"\bstd::(jthread|async)\b", "ProactorPool", "server"),
    (
        "march-native",
        r"-march=native",
        "run-time dispatch; the release runs on the baseline CPU",
        "all",
    ),
]
# Files that may: where it is declared, and those whose work it is.
EXCEPTIONS = {
    "turn-end": (
        "src/engine/keyspace/shard.h",
        "src/engine/hops/shard_set.h",
        "src/engine/keyspace/shard_turn.h",
        "src/server/care/memory_use.cc",
        "src/server/care/shard_care.cc",
        "src/server/care/shard_care.h",
        "src/storage/snapshot_load.cc",
    ),
}
# Matched in the whole text, comments too; the letters are split so that this file passes.
NOTES = ("note", re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b"), "do it, or write an issue")
PATHS = re.compile(r"(?<![\w.<$}])/(work|tmp/wt|ro" r"ot|home/\w+)/")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
ANGLED = re.compile(r"^\s*#\s*include\s+<([^>]+)>", re.M)

Problem = collections.namedtuple("Problem", "path line rule text")


def is_test(path):
    name = os.path.basename(path)
    return re.search(r"_(test|bench|fuzz|test_util)\.(cc|h)$", name) or path.startswith("tests/")


def blank_comments_and_strings(text):
    """The same text with comments and literals replaced by spaces; line numbers stay."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'",
        re.S,
    )

    def blank(match):
        piece = match.group(0)
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if piece[0] == '"' and line.lstrip().startswith("#"):
            return piece  # the file of an #include
        return re.sub(r"[^\n]", " ", piece)

    return pattern.sub(blank, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def folder_of(path, table):
    parts = path.split("/")
    for n in range(len(parts) - 1, 0, -1):
        prefix = "/".join(parts[:n])
        if prefix in table:
            return prefix
    return None


def included_path(include):
    """Path from the root of a quoted include, which is relative to the root or to src/."""
    return include if include.startswith(LAYERS) else "src/" + include


def may_include(path, own, target):
    into = folder_of(target, LADDER)
    if into == own or (is_test(path) and into in TESTING):
        return True
    for allowed in LADDER[own]:
        if target == allowed or target.startswith(allowed + "/"):
            # Of a folder in which it stands itself: only what is named.
            return True
    # The files beside the rooms of their own folder.
    return own in ROOMS and target.startswith(own + "/") and into != "src/server/schedules"


def check_ladder(path, text):
    own = folder_of(path, LADDER)
    if own is None:
        if path.startswith(("src/", "helio/")):
            yield Problem(
                path, 1, "ladder", "this folder has no place in the ladder of tools/tidy.py"
            )
        return
    for match in INCLUDE.finditer(text):
        target = included_path(match.group(1))
        if not target.startswith(LAYERS) or folder_of(target, LADDER) is None:
            if "/" not in match.group(1) or not target.startswith(LAYERS):
                yield Problem(
                    path,
                    line_of(text, match.start()),
                    "ladder",
                    f'"{match.group(1)}": write the path from the root or from src/',
                )
            elif not os.path.exists(os.path.join(ROOT, target)):
                yield Problem(
                    path,
                    line_of(text, match.start()),
                    "ladder",
                    f'"{match.group(1)}" is in no known folder',
                )
            continue
        if not may_include(path, own, target):
            yield Problem(
                path,
                line_of(text, match.start()),
                "ladder",
                f"{own} may not include {target}; it may: {', '.join(LADDER[own]) or 'nothing'}",
            )


DECLARED = re.compile(r"^(?:class|struct|enum class) (\w+)(?: : \w+)?;", re.M)
DEFINED = re.compile(r"^\s*(?:class|struct|enum class) (?:alignas\(\w+\) )?(\w+)[^;{()]*{", re.M)


def check_declared(headers):
    """`headers`: texts by path. A header declares no class that only a later folder defines."""
    defined = collections.defaultdict(set)
    for path, text in headers.items():
        for match in DEFINED.finditer(blank_comments_and_strings(text)):
            defined[match.group(1)].add(path)
    for path, text in headers.items():
        own = folder_of(path, LADDER)
        if own is None:
            continue
        for match in DECLARED.finditer(text):
            places = defined.get(match.group(1), ())
            if places and not any(may_include(path, own, place) for place in places):
                yield Problem(
                    path,
                    line_of(text, match.start()),
                    "declared",
                    f"{match.group(1)} is of {min(places)}, which {own} may not include",
                )


def check_folders(sources):
    """`sources`: paths of C++ files."""
    counts = collections.Counter(os.path.dirname(path) for path in sources)
    for folder, count in counts.items():
        if folder.startswith(("src", "helio")) and count > FOLDER_FILES_MAX:
            yield Problem(
                folder, 1, "folder-size", f"has {count} files; {FOLDER_FILES_MAX} at most: split it"
            )


def symbols_of(archive):
    """What it uses and does not have, and what it has; inline functions are in both files."""
    out = subprocess.run(["nm", "-P", archive], capture_output=True, text=True, check=True).stdout
    used, had = set(), set()
    for line in out.splitlines():
        words = line.split()
        if len(words) >= 2 and len(words[1]) == 1:
            (used if words[1] == "U" else had).add(words[0])
    return used - had, had


def check_links(libraries):
    """`libraries`: [(folder, used, had)], in their order. None uses what only a later one has."""
    home = {}
    for folder, _, had in libraries:
        for name in had:
            home.setdefault(name, folder)
    order = {folder: i for i, (folder, _, _) in enumerate(libraries)}
    for folder, used, _ in libraries:
        later = sorted(n for n in used if n in home and order[home[n]] > order[folder])
        for name in later:
            yield Problem(folder, 1, "links", f"uses {name}, which {home[name]} has")


def built_libraries(build):
    for top, rooms in ROOMS.items():
        found = []
        for room in rooms.split():
            folder = f"{top}/{room}"
            archive = os.path.join(build, folder, f"libdfly_{folder[4:].replace('/', '_')}.a")
            if os.path.exists(archive):
                found.append((folder, *symbols_of(archive)))
        yield found


def check_reach(headers, limits):
    """`headers`: texts by path. No header of `limits` pulls in more of src/ than it says."""
    for path, limit in limits.items():
        reached, waiting = set(), [path]
        while waiting:
            at = waiting.pop()
            if at in reached or at not in headers:
                continue
            reached.add(at)
            waiting += [included_path(m.group(1)) for m in INCLUDE.finditer(headers[at])]
        count = sum(r.startswith("src/") for r in reached)
        if count > limit:
            yield Problem(
                path, 1, "reach", f"pulls in {count} headers of src/; {limit} at most"
            )


def check_banned(path, text):
    if path.endswith(CPP):
        code = blank_comments_and_strings(text)
        for rule, pattern, instead, where in BANNED:
            if where == "server" and (is_test(path) or path.startswith("tools/")):
                continue
            if path in EXCEPTIONS.get(rule, ()):
                continue
            for match in re.finditer(pattern, code):
                yield Problem(
                    path,
                    line_of(code, match.start()),
                    rule,
                    f"{match.group(0).strip()}: use {instead}",
                )
    elif path.endswith((".txt", ".cmake", ".json")):
        for match in re.finditer(r"^[^#\n]*-march=native", text, re.M):
            yield Problem(path, line_of(text, match.start()), "march-native", "never")
    if not path.endswith(".md") or path.startswith("docs/"):
        rule, pattern, instead = NOTES
        for match in pattern.finditer(text):
            yield Problem(path, line_of(text, match.start()), rule, f"{match.group(0)}: {instead}")


def check_includes(sources):
    """`sources`: {path: text} of all C++ files; the headers of ours that one includes count."""
    angled = {path: set(ANGLED.findall(text)) for path, text in sources.items()}
    for headers in angled.values():
        headers.update(*(WITH[header] for header in headers & WITH.keys()))
    quoted = {
        path: {included_path(name) for name in INCLUDE.findall(text)}
        for path, text in sources.items()
    }
    for path, text in sources.items():
        reached, rest = set(), [path]
        while rest:
            file = rest.pop()
            if file not in reached:
                reached.add(file)
                rest += quoted.get(file, ())
        have = set().union(*(angled.get(file, set()) for file in reached))
        code = blank_comments_and_strings(text)
        for header, pattern in NAMES.items():
            match = header not in have and re.search(pattern, code)
            if match:
                yield Problem(
                    path,
                    line_of(code, match.start()),
                    "missing-include",
                    f"{match.group(0)}: #include <{header}>, which is only precompiled here",
                )


def check_precompiled(text):
    """`text`: the list. A header that is precompiled needs its names here."""
    code = re.sub(r"#.*", "", text)
    for match in re.finditer(r"<([\w./]+)>", code):
        if match.group(1) not in NAMES:
            yield Problem(
                PRECOMPILED,
                line_of(code, match.start()),
                "missing-include",
                f"<{match.group(1)}>: add its names to NAMES of tools/tidy.py",
            )


def check_text(path, text):
    lines = text.split("\n")
    if path.endswith((*CPP, ".py", ".sh", ".cmake", ".yml", ".js", ".rb")) or path.endswith(
        "CMakeLists.txt"
    ):
        head = lines[:3]
        if sum("SPDX-License-Identifier: Apache-2.0" in line for line in head) != 1:
            yield Problem(
                path, 1, "spdx", "one line 'SPDX-License-Identifier: Apache-2.0' at the top"
            )
    if path.endswith(".h") and not re.search(r"^#pragma once$", text, re.M):
        yield Problem(path, 1, "pragma-once", "a header begins with #pragma once")
    if path.endswith((*CPP, ".py", ".sh", ".js", ".rb")):
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX and "http" not in line:
                yield Problem(
                    path, number, "columns", f"{len(line)} columns; {COLUMNS_MAX} at most"
                )
            if line != line.rstrip():
                yield Problem(path, number, "trailing-space", "blanks at the end of the line")
        if len(lines) - 1 > LINES_MAX:
            yield Problem(
                path,
                len(lines),
                "file-length",
                f"{len(lines) - 1} lines; is this two ideas? {LINES_MAX} at most",
            )
    if path.startswith("src/server/") and path.endswith(".h") and len(lines) - 1 > HEADER_LINES_MAX:
        yield Problem(
            path,
            len(lines),
            "header-length",
            f"{len(lines) - 1} lines; which parts does it have? {HEADER_LINES_MAX} at most",
        )
    for match in PATHS.finditer(text):
        yield Problem(
            path,
            line_of(text, match.start()),
            "absolute-path",
            f"{match.group(0)}: somebody's machine; find it from the file's own place",
        )


def check_built(sources, cmake_text, compiled, including):
    """Every .cc belongs to a target; every .h is included somewhere. `compiled` may be None."""
    for path in sources:
        name = os.path.basename(path)
        if path.endswith(".cc"):
            stem = name[:-3]
            folder = os.path.dirname(path)
            text = cmake_text.get(folder, "") or cmake_text.get(os.path.dirname(folder), "")
            listed = re.search(rf"(?<![\w/]){re.escape(name)}\b", text) or re.search(
                rf"\bdfly_(test|microbench|fuzz)\(\s*{re.escape(stem)}\b", text
            )
            built = path in compiled if compiled is not None else listed
            if not (built or listed):
                yield Problem(path, 1, "not-built", "no target builds this file")
        elif path.endswith(".h") and path not in including:
            yield Problem(path, 1, "not-built", "nothing includes this header")


def tracked_files():
    """Files of the working tree that git knows or would add; every text file without git."""
    try:
        out = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        return sorted(set(f for f in out.splitlines() if os.path.isfile(os.path.join(ROOT, f))))
    except (OSError, subprocess.CalledProcessError):
        found = []
        for folder, names, files in os.walk(ROOT):
            names[:] = [n for n in names if n not in ("build", ".git", ".cache", "node_modules")]
            found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files]
        return sorted(found)


def compiled_files(build):
    import json

    path = os.path.join(build, "compile_commands.json")
    if not os.path.exists(path):
        return None
    with open(path) as f:
        return {
            os.path.relpath(os.path.join(e["directory"], e["file"]), ROOT) for e in json.load(f)
        }


def check_format(paths):
    tool = next(
        (t for t in (f"clang-format-{CLANG_FORMAT}", "clang-format") if shutil.which(t)), None
    )
    version = (
        subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    )
    if f"version {CLANG_FORMAT}." not in version:
        print(
            f"tidy: formatting not checked: this needs clang-format {CLANG_FORMAT}, "
            f"found {version.strip() or 'none'}"
        )
        return
    # Two processes at a time, and each gets a share of the files.
    shares = [paths[i::2] for i in range(2) if paths[i::2]]
    running = [
        subprocess.Popen(
            [tool, "--dry-run", "-Werror", *share], cwd=ROOT, text=True, stderr=subprocess.PIPE
        )
        for share in shares
    ]
    for process in running:
        errors = process.communicate()[1]
        for match in re.finditer(r"^(\S+?):(\d+):\d+: error: ", errors, re.M):
            yield Problem(match.group(1), int(match.group(2)), "format", "run clang-format -i")
        if process.returncode != 0 and ": error: " not in errors:
            yield Problem("clang-format", 1, "format", errors.strip()[:500])


def read_allowed():
    """{(path, rule)} with a reason each. A line: path<blank>rule<blank># reason"""
    allowed, problems = {}, []
    path = "tools/tidy_allow.txt"
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = re.fullmatch(r"(\S+)\s+(\S+)\s+# (\S.*)", line.strip())
            if match is None:
                problems.append(Problem(path, number, "allow", "path rule # reason"))
            else:
                allowed[match.group(1), match.group(2)] = number
    return allowed, problems


def check_tree(build):
    files = [f for f in tracked_files() if f.endswith(TEXT) or f.startswith(".ci/")]
    contents = {}
    problems = []
    for path in files:
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
            contents[path] = f.read()
    including = set()
    for path, text in contents.items():
        if path.endswith(CPP):
            for match in INCLUDE.finditer(text):
                including.add(included_path(match.group(1)))
            problems += check_ladder(path, text)
        problems += check_banned(path, text)
        problems += check_text(path, text)
    sources = [f for f in files if f.endswith(CPP)]
    cmake_text = {os.path.dirname(f): contents[f] for f in files if f.endswith("CMakeLists.txt")}
    problems += check_built(
        sources, cmake_text, compiled_files(build) if build else None, including
    )
    problems += check_includes({path: contents[path] for path in sources})
    problems += check_precompiled(contents[PRECOMPILED])
    headers = {path: contents[path] for path in sources if path.endswith(".h")}
    problems += check_reach(headers, REACH)
    problems += check_declared(headers)
    for libraries in built_libraries(build) if build else ():
        problems += check_links(libraries)
    problems += check_folders(sources)
    problems += check_format(sources)
    allowed, allow_problems = read_allowed()
    used = set()
    kept = allow_problems
    for p in problems:
        if (p.path, p.rule) in allowed:
            used.add((p.path, p.rule))
        else:
            kept.append(p)
    for key in sorted(set(allowed) - used):
        kept.append(
            Problem(
                "tools/tidy_allow.txt",
                allowed[key],
                "allow",
                f"{key[0]} {key[1]}: nothing to allow any more, remove the line",
            )
        )
    return kept, len(files)


def self_test():
    """Each rule fires on its bad snippet and stays silent on the good one."""
    head = "// SPDX-License-Identifier: Apache-2.0\n"
    cases = [  # path, text, the rule that fires or None
        ("src/core/a.cc", '#include "engine/keyspace/shard.h"\n', "ladder"),
        ("src/core/a.cc", '#include "helio/fibers/fiber.h"\n', "ladder"),
        ("src/core/a.cc", '#include "core/b.h"\n#include "helio/base/logging.h"\n', None),
        ("helio/base/a.h", '#pragma once\n#include "helio/fibers/fiber.h"\n', "ladder"),
        ("helio/net/a.cc", '#include "facade/replies/reply_sink.h"\n', "ladder"),
        ("helio/net/a.cc", '#include "helio/proactor/proactor.h"\n', None),
        ("src/engine/a.cc", '#include "facade/replies/reply_sink.h"\n', None),
        ("src/engine/a.cc", '#include "facade/connection.h"\n', "ladder"),
        ("src/facade/a.cc", '#include "core/table/dash_table.h"\n', "ladder"),
        ("src/commands/a.cc", '#include "server/main.h"\n', "ladder"),
        ("src/server/a.cc", '#include "commands/a.h"\n#include "core/b.h"\n', None),
        ("tools/x/a.cc", '#include "tools/x/a.h"\n#include "facade/b.h"\n', None),
        ("src/server/a.cc", '#include "tools/x/a.h"\n', "ladder"),
        ("src/core/a.cc", '#include "b.h"\n', "ladder"),
        ("src/misc/a.cc", "int x;\n", "ladder"),
        ("src/server/push/a.cc", '#include "server/run/server.h"\n', "ladder"),
        ("src/server/push/a.cc", '#include "server/a.h"\n', "ladder"),
        ("src/server/info/a.cc", '#include "server/run/server.h"\n', None),
        ("src/server/a.cc", '#include "server/run/server.h"\n#include "server/b.h"\n', None),
        ("src/core/text/a.cc", '#include "core/rdb/b.h"\n', "ladder"),
        ("src/core/rdb/a.cc", '#include "core/text/b.h"\n#include "helio/base/c.h"\n', None),
        ("src/commands/keys/a.cc", '#include "commands/testing/b.h"\n', "ladder"),
        ("src/commands/keys/a_test.cc", '#include "commands/testing/b.h"\n', None),
        ("src/core/a.cc", "std::mutex m;\n", "std-mutex"),
        ("src/core/a.cc", "// not a std::mutex\nint m;  /* std::mutex */\n", None),
        ("src/core/a_test.cc", "std::mutex m;\n", None),
        ("src/core/a.cc", "std::condition_variable c;\n", "std-condvar"),
        ("src/core/a_test.cc", "std::this_thread::sleep_for(1s);\n", "thread-sleep"),
        ("src/core/a.cc", "usleep(1);\n", "thread-sleep"),
        ("src/core/a.cc", "auto* p = new Thing(1);\n", "raw-new"),
        ("src/core/a.cc", 'new (p) Thing(1); int renew = 1; f("a new Thing");\n', None),
        ("src/core/a.cc", '#include "absl/log/log.h"\n', "absl-log"),
        ("src/core/a.cc", "absl::string_view s;\n", "absl-string-view"),
        ("src/core/a.cc", "#include <iostream>\n", "iostream"),
        ("src/core/a.cc", "char f(char c) { return c | 0x20; }\n", "letter-case"),
        ("src/core/a.cc", "int f(int c) { return std::tolower(c); }\n", "letter-case"),
        ("src/server/a.cc", "shard.ServeWaiters();\n", "turn-end"),
        ("src/server/care/shard_care.cc", "shards_.PublishUsedBytes(*shard);\n", None),
        ("src/core/a.cc", "std::jthread t;\n", "std-thread"),
        ("src/core/CMakeLists.txt", "add_compile_options(-march=native)\n", "march-native"),
        ("src/core/a.cc", "// TO" "DO: later\n", "note"),
        ("tools/a.sh", "# FIX" "ME\n", "note"),
        ("src/core/a.cc", 'open("/wo' 'rk/x/y");\n', "absolute-path"),
        ("tests/a.py", "p = '/ro" "ot/x'\n", "absolute-path"),
        ("src/core/a.cc", "int " + "x" * 100 + ";\n", "columns"),
        ("src/core/a.cc", "int x; \n", "trailing-space"),
        ("src/core/a.cc", "int x;\n" * 901, "file-length"),
        ("src/server/a.h", "#pragma once\n" + "int x;\n" * 299, "header-length"),
        ("src/server/a.h", "#pragma once\n" + "int x;\n" * 298, None),
        ("src/server/a.cc", "int x;\n" * 301, None),
        ("src/core/a.h", "int x;\n", "pragma-once"),
        ("src/core/a.h", "#pragma once\nint x = 1'000'000;\n", None),
    ]
    failures = []
    seen = set()
    for path, text, expected in cases:
        full = (head if path.endswith(CPP) else head.replace("//", "#")) + text
        fired = {
            p.rule
            for check in (check_ladder, check_banned, check_text)
            for p in check(path, full)
        }
        # An unknown include may also be in no known folder; that is the rule `ladder` again.
        if expected == "absl-log":
            fired.discard("ladder")
        seen |= fired
        if fired != ({expected} if expected else set()):
            failures.append(f"{path}: {text[:60]!r} fired {sorted(fired)}, not {expected}")
    if {p.rule for p in check_text("src/core/a.cc", "int x;\n")} != {"spdx"}:
        failures.append("spdx does not fire")
    cmake = {"src/core": "dfly_library(core a.cc)\ndfly_test(b_test DEPS core)\n"}
    got = [
        (p.path, p.rule)
        for p in check_built(
            [
                "src/core/a.cc",
                "src/core/b_test.cc",
                "src/core/lost.cc",
                "src/core/a.h",
                "src/core/lost.h",
            ],
            cmake,
            None,
            {"src/core/a.h"},
        )
    ]
    if got != [("src/core/lost.cc", "not-built"), ("src/core/lost.h", "not-built")]:
        failures.append(f"not-built fired on {got}")
    got = [
        (p.path, p.line)
        for p in check_includes(
            {
                "src/core/a.h": "#include <vector>\n",
                "src/core/a.cc": '#include "core/a.h"\nstd::vector<int> v;  // std::map\n',
                "src/core/b.cc": '#include "core/a.h"\n\nstd::map<int, int> m;\n',
            }
        )
    ]
    if got != [("src/core/b.cc", 3)]:
        failures.append(f"missing-include fired on {got}")
    got = [p.line for p in check_precompiled("# <x>\nset(a <map> <vector>\n  <y/z.h>)\n")]
    if got != [3]:
        failures.append(f"missing-include fired on the list's lines {got}")
    headers = {
        "src/server/run/server.h": '#include "server/a.h"\n#include "helio/base/c.h"\n',
        "src/server/a.h": '#include "core/b.h"\n',
        "src/core/b.h": "",
        "helio/base/c.h": "",
    }
    for limit, expected in ((2, ["reach"]), (3, [])):
        got = [p.rule for p in check_reach(headers, {"src/server/run/server.h": limit})]
        if got != expected:
            failures.append(f"reach of {limit} fired {got}")
    lower = {"src/server/http/a.h": "class A final {\n};\n", "src/core/text/b.h": "class A;\n"}
    higher = {"src/core/text/a.h": "struct A {\n};\n", "src/server/http/b.h": "struct A;\n"}
    for texts, expected in ((lower, ["src/core/text/b.h"]), (higher, [])):
        got = [p.path for p in check_declared(texts)]
        if got != expected:
            failures.append(f"declared fired on {got}")
    early, late = ("src/a", {"f", "g"}, {"a"}), ("src/b", {"a"}, {"f"})
    for libraries, expected in (([early, late], ["src/a"]), ([late, early], ["src/b"])):
        got = [p.path for p in check_links(libraries)]
        if got != expected:
            failures.append(f"links fired on {got}")
    for count, expected in ((FOLDER_FILES_MAX + 1, ["src/core"]), (FOLDER_FILES_MAX, [])):
        got = [p.path for p in check_folders([f"src/core/a{i}.cc" for i in range(count)])]
        if got != expected:
            failures.append(f"folder-size fired on {got}")
    missing = {rule for rule, *_ in BANNED} - seen
    if missing:
        failures.append(f"no snippet makes these rules fire: {sorted(missing)}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", help="build folder, for its compile_commands.json")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        failures = self_test()
        print("\n".join(failures) or "tidy: every rule fires")
        return 1 if failures else 0
    problems, count = check_tree(options.build)
    for p in sorted(problems):
        print(f"{p.path}:{p.line}: {p.rule}: {p.text}")
    print(f"tidy: {count} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
