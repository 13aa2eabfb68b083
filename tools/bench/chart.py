#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the README's chart: the CPU time of each request, from the table of docs/benchmarks.md.

    tools/bench/chart.py            # writes docs/images/cpu-per-request.svg
    tools/bench/chart.py --check    # a ctest: is it as this would write it?

The same table gives the same bytes.
"""

import argparse
import os
import sys
from html import escape

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "benchmarks.md")
PICTURE = os.path.join(ROOT, "docs", "images", "cpu-per-request.svg")
BEGIN, END = "<!-- compare.sh begin -->", "<!-- compare.sh end -->"  # as in compare.py

SERVERS = (  # name in the table, name in the chart, colour
    ("redis", "redis-server", "#9aa5b1"),
    ("valkey", "Valkey", "#6b7a99"),
    ("ours", "dragonfly", "#0ea5a4"),
)
LOADS = (  # name in the table, its two lines in the chart
    ("get-c50", "GET", "50 clients"),
    ("get-c50-p10", "GET, pipelines of 10", "50 clients"),
    ("get-c50-p100", "GET, pipelines of 100", "50 clients"),
    ("get-c1-p30", "GET, pipelines of 30", "1 client"),
    ("set-c50-p10", "SET, pipelines of 10", "50 clients"),
)
WIDTH, LEFT, BAR_MAX = 760, 190, 440
TOP, BAR, GAP, GROUP_GAP = 66, 17, 3, 16
FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"


def figures_of(page):
    """({load: {server: microseconds}}, what was measured where) of the table."""
    section = page.split(BEGIN, 1)[1].split(END, 1)[0]
    figures = {}
    column = None
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "CPU us/request" in cells:
            column = cells.index("CPU us/request")
        elif column is not None and len(cells) > column and cells[1] in [s[0] for s in SERVERS]:
            figures.setdefault(cells[0], {})[cells[1]] = float(cells[column])
    return figures, section.strip().splitlines()[0].split("; load by")[0]


def draw(figures, about):
    servers = [s for s in SERVERS if all(s[0] in figures.get(load[0], {}) for load in LOADS)]
    if "ours" not in [s[0] for s in servers] or "redis" not in [s[0] for s in servers]:
        raise SystemExit(f"chart: {PAGE} lacks one of the loads {[load[0] for load in LOADS]}")
    group = len(servers) * (BAR + GAP) + GROUP_GAP
    height = TOP + group * len(LOADS) + 44
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}'"
        f" viewBox='0 0 {WIDTH} {height}' role='img'"
        " aria-label='CPU time of the server process for each request'>",
        f"<rect width='{WIDTH}' height='{height}' rx='8' fill='#ffffff'/>",
        f"<g {FONT} font-size='13' fill='#1f2933'>",
        "<text x='20' y='28' font-size='16' font-weight='bold'>CPU time of the server for each"
        " request: shorter is better</text>",
    ]
    x = 20
    for _, name, colour in servers:
        out.append(f"<rect x='{x}' y='42' width='12' height='12' fill='{colour}'/>")
        out.append(f"<text x='{x + 18}' y='53'>{name}</text>")
        x += 38 + 8 * len(name)
    y = TOP + GROUP_GAP // 2
    for load, first, second in LOADS:
        out.append(f"<text x='20' y='{y + 15}'>{first}</text>")
        out.append(f"<text x='20' y='{y + 33}' font-size='12' fill='#616e7c'>{second}</text>")
        base = max(figures[load][s[0]] for s in servers)
        for name, _, colour in servers:
            value = figures[load][name]
            length = max(2, round(BAR_MAX * value / base))
            weight = " font-weight='bold'" if name == "ours" else ""
            out.append(
                f"<rect x='{LEFT}' y='{y}' width='{length}' height='{BAR}' rx='2'"
                f" fill='{colour}'/>"
            )
            out.append(
                f"<text x='{LEFT + length + 8}' y='{y + 13}' font-size='12'{weight}>"
                f"{value:.2f} \u00b5s</text>"
            )
            y += BAR + GAP
        y += GROUP_GAP
    footer = ("One thread each, on a core of its own. Each group has its own scale.", about)
    for number, line in enumerate(footer):
        out.append(
            f"<text x='20' y='{height - 28 + 15 * number}' font-size='10' fill='#616e7c'>"
            f"{escape(line)}</text>"
        )
    return "\n".join([*out, "</g>", "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    with open(PAGE, encoding="utf-8") as f:
        picture = draw(*figures_of(f.read()))
    if not options.check:
        with open(PICTURE, "w", encoding="utf-8") as f:
            f.write(picture)
        return 0
    with open(PICTURE, encoding="utf-8") as f:
        is_same = f.read() == picture
    if not is_same:
        print(f"{os.path.relpath(PICTURE, ROOT)} is not of this table: run tools/bench/chart.py")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
