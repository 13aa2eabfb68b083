#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""May the tests that failed be tried again?  tools/may_try_again.py REPORT.xml

A test that fails on a busy machine and passes alone is flaky: tools/test.sh says so and goes on.
What is no matter of time is never tried again: a crash, a sanitizer's report, a failure with a seed
(it fails with that seed again, or shows a race), a hang, and anything if more than TRIES_MAX tests
failed. REPORT is a JUnit file of ctest (--output-junit) or pytest (--junit-xml).

Prints a line for each failed test, and below it what it said. Exit status: 0 they may be tried
again, 1 not, 2 no report.
"""

import re
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

TRIES_MAX = 5
LINES_MAX = 6
LINE_MAX = 300

NEVER_AGAIN = [
    (
        re.compile(
            r"AddressSanitizer|LeakSanitizer|ThreadSanitizer|UndefinedBehaviorSanitizer"
            r"|runtime error:"
        ),
        "a sanitizer's report",
    ),
    (
        re.compile(
            r"Check failed|\*\*\* SIG|Assertion .* failed|pure virtual method|SEGFAULT"
            r"|Subprocess aborted|ServerFailed|server died|core dumped|crashed"
        ),
        "a crash",
    ),
    (re.compile(r"DFLY_SEED="), "a seed"),
    (re.compile(r"Timeout|timed out|server did not stop"), "a hang"),
]


def failures(path):
    """(name, all that it printed) of each test that failed."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        bad = [part for part in case if part.tag in ("failure", "error")]
        if not bad and case.get("status") != "fail":
            continue
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        texts = [text for part in case for text in (part.get("message"), part.text) if text]
        yield name, "\n".join(texts)


def said(text):
    """The lines that tell why a test failed, few enough for a summary."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    why = [line for line in lines if re.match(r"E  |.*(: Failure$|Error:|DFLY_SEED=)", line)]
    return [f"    {line[:LINE_MAX]}" for line in (why or lines)[:LINES_MAX]]


def judge(path):
    """(may be tried again, lines for each failed test)"""
    lines = []
    failed = list(failures(path))
    again = 0 < len(failed) <= TRIES_MAX
    for name, text in failed:
        reason = next((why for pattern, why in NEVER_AGAIN if pattern.search(text)), None)
        lines.append(f"{name}: " + (f"{reason}, not tried again" if reason else "failed"))
        lines += said(text)
        again = again and reason is None
    return again, lines


def self_test():
    """Reports as ctest 3.25 and pytest 9 write them."""
    pytest_report = "<testsuites><testsuite>{}</testsuite></testsuites>"
    passed = '<testcase classname="tests.test_a" name="test_p"/>'
    failed = '<testcase name="test_f"><failure message="m">{}</failure>{}</testcase>'
    ctest = '<testsuite><testcase name="a_test" status="{}">{}</testcase></testsuite>'
    cases = [
        (pytest_report.format(passed), False),
        (pytest_report.format(failed.format("assert 1 == 2", "")), True),
        (pytest_report.format(passed + failed.format("timeout: a key expires", "")), True),
        (pytest_report.format(failed.format("assert 1 == 2", "") * (TRIES_MAX + 1)), False),
        (pytest_report.format(failed.format("ServerFailed: exit status 99", "")), False),
        (pytest_report.format(failed.format("TimeoutError: timed out", "")), False),
        (
            pytest_report.format(
                failed.format("assert 1 == 2", "<system-out>DFLY_SEED=7</system-out>")
            ),
            False,
        ),
        (ctest.format("run", "<system-out>fine</system-out>"), False),
        (ctest.format("fail", '<failure message=""/><system-out>[  FAILED  ]</system-out>'), True),
        (ctest.format("fail", '<failure message="SEGFAULT"/><system-out/>'), False),
        (ctest.format("fail", '<failure message="Timeout"/><system-out/>'), False),
        (
            ctest.format(
                "fail", '<failure message=""/><system-out>x.cc:1: runtime error: shift</system-out>'
            ),
            False,
        ),
    ]
    for text, expected in cases:
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as report:
            report.write(text)
            report.flush()
            again, lines = judge(report.name)
        assert again == expected, (text, lines)


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        again, lines = judge(sys.argv[1])
    except (OSError, ElementTree.ParseError) as error:
        print(f"no report: {error}")
        return 2
    print("\n".join(lines))
    return 0 if again else 1


if __name__ == "__main__":
    sys.exit(main())
