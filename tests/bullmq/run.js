// SPDX-License-Identifier: Apache-2.0
// Runs cases at the same time against one server, and prints a line of JSON for each:
//
//   node run.js --list
//   node run.js '{"port": 7000, "prefix": "bull", "braces": false, "cases": ["flow"]}'
//
// The cases wait most of the time, so together they need little more than the longest of them, and
// the server sees them mixed.
"use strict";
const { Bench, DEADLINE_MS } = require("./harness");

const CASES = {
  ...require("./cases/jobs"),
  ...require("./cases/times"),
  ...require("./cases/flows"),
  ...require("./cases/workers"),
  ...require("./cases/upkeep"),
};

function print(line) {
  process.stdout.write(JSON.stringify(line) + "\n");
}

async function runCase(name, port, naming) {
  const bench = new Bench(name, port, naming);
  const begin = Date.now();
  const deadline = new Promise((_, reject) => {
    const late = () => reject(new Error("the case did not end"));
    setTimeout(late, 2 * DEADLINE_MS).unref();
  });
  const whole = async () => {
    await CASES[name](bench);
    await bench.close();
  };
  let error = null;
  try {
    await Promise.race([whole(), bench.failed, deadline]);
  } catch (e) {
    error = e; // what it has opened ends with the process
  }
  print({ case: name, ms: Date.now() - begin, error: error && error.stack });
  return error === null;
}

async function main() {
  if (process.argv[2] === "--list") return print(Object.keys(CASES));
  const { port, prefix, braces, cases } = JSON.parse(process.argv[2]);
  const passed = await Promise.all(cases.map((name) => runCase(name, port, { prefix, braces })));
  process.exit(passed.every(Boolean) ? 0 : 1);
}

process.on("unhandledRejection", (error) => print({ case: "unhandled", error: error.stack }));
main();
