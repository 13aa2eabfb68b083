// SPDX-License-Identifier: Apache-2.0
// Jobs that run later, again, or not too often.
"use strict";
const assert = require("node:assert");
const { RateLimitError, UnrecoverableError } = require("bullmq");
const { counts, eventOf, until } = require("../harness");

async function delayed(bench) {
  const queue = bench.queue("jobs");
  const seen = [];
  const far = await queue.add("far", {}, { delay: 1000000 });
  const near = await queue.add("near", {}, { delay: 1000000 });
  assert.strictEqual(await far.getState(), "delayed");
  let begin = Date.now();
  bench.worker("jobs", async (job) => seen.push([job.name, Date.now() - begin]));
  await queue.add("first", {});
  await until("the job without delay", () => seen.length === 1);
  assert.strictEqual(seen[0][0], "first");
  begin = Date.now();
  await queue.add("third", {}, { delay: 600 });
  await queue.add("second", {}, { delay: 300 });
  await until("3 jobs", () => seen.length === 3);
  // On a busy machine these two may be due together, and then come in any order.
  const at = Object.fromEntries(seen);
  assert.ok(at.second >= 300 && at.third >= 600, JSON.stringify(seen));

  await far.promote();
  await until("the promoted job", () => seen.length === 4);
  await near.changeDelay(100);
  await until("the job with another delay", () => seen.length === 5);
  assert.deepStrictEqual(seen.slice(3).map(([name]) => name), ["far", "near"]);
  await until("all completed", async () => (await queue.getCompletedCount()) === 5);
  assert.deepStrictEqual(await counts(queue), { completed: 5 });
}

async function schedulers(bench) {
  const queue = bench.queue("jobs");
  const seen = [];
  const begin = Date.now();
  bench.worker("jobs", async (job) => seen.push([job.name, Date.now() - begin]));
  const repeat = { every: 150, limit: 4 };
  await queue.upsertJobScheduler("tick", repeat, { name: "tick", data: { n: 1 } });
  await until("4 ticks", () => seen.length === 4);
  // The first comes at once, the second at the next multiple of the period, whenever that is.
  assert.ok(seen[3][1] >= 300, JSON.stringify(seen));

  // Cron, and the same id again with another pattern: it has one next job.
  await queue.upsertJobScheduler("cron", { pattern: "0 0 4 * * *" }, { name: "night" });
  await queue.upsertJobScheduler("cron", { pattern: "* * * * * *", limit: 1 }, { name: "tock" });
  await until("the tock", () => seen.length === 5);
  assert.strictEqual(seen[4][0], "tock");

  await queue.upsertJobScheduler("yearly", { pattern: "0 0 1 1 *" }, { data: { year: true } });
  const all = await queue.getJobSchedulers();
  assert.ok(all.some((s) => s.key === "yearly" && s.pattern === "0 0 1 1 *"));
  const one = await queue.getJobScheduler("yearly");
  assert.deepStrictEqual(one.template.data, { year: true });
  assert.ok(one.next > Date.now());
  assert.strictEqual((await queue.getDelayed()).length, 1);
  assert.strictEqual(await queue.removeJobScheduler("yearly"), true);
  assert.strictEqual(await queue.removeJobScheduler("yearly"), false);
  assert.strictEqual((await queue.getDelayed()).length, 0);
  assert.strictEqual(seen.length, 5);
}

async function rate_limit(bench) {
  const queue = bench.queue("jobs");
  const starts = [];
  const begin = Date.now();
  const limiter = { max: 2, duration: 300 };
  const options = { limiter, concurrency: 10 };
  for (let i = 0; i < 2; i++) {
    bench.worker("jobs", async () => starts.push(Date.now() - begin), options);
  }
  await queue.addBulk(Array.from({ length: 7 }, () => ({ name: "n", data: {} })));
  await until("7 jobs", () => starts.length === 7);
  for (const [i, at] of starts.entries()) {
    assert.ok(at >= Math.floor(i / 2) * limiter.duration - 10, JSON.stringify(starts));
  }

  // While the limit is reached its rest is told, and jobs stay where they are.
  const slow = bench.queue("slow");
  await slow.addBulk(Array.from({ length: 3 }, () => ({ name: "n", data: {} })));
  bench.worker("slow", async () => {}, { limiter: { max: 1, duration: 100000 } });
  await until("1 job", async () => (await slow.getCompletedCount()) === 1);
  const ttl = await slow.getRateLimitTtl(1);
  assert.ok(Number.isInteger(ttl) && ttl > 50000 && ttl <= 100000, `ttl ${ttl}`);
  await until("the next waits", async () => (await slow.getWaitingCount()) === 2);

  // A processor that meets somebody else's limit.
  const other = bench.queue("other");
  const times = [];
  const worker = bench.worker("other", async () => {
    times.push(Date.now());
    if (times.length > 1) return;
    await other.rateLimit(250);
    throw new RateLimitError();
  });
  const done = eventOf(worker, "completed");
  const job = await other.add("n", {});
  await done;
  assert.strictEqual(times.length, 2);
  assert.ok(times[1] - times[0] >= 240, `${times[1] - times[0]} ms`);
  assert.strictEqual((await other.getJob(job.id)).attemptsMade, 1); // the first was no attempt
}

async function retries(bench) {
  const queue = bench.queue("jobs");
  const events = await bench.events("jobs");
  const exhausted = eventOf(events, "retries-exhausted");
  const times = [];
  const calls = { never: 0, fatal: 0, custom: 0 };
  let broken = true;
  const process = async (job) => {
    if (job.name === "flaky") {
      times.push(Date.now());
      if (times.length < 4) throw new Error(`failure ${times.length}`);
      return "at last";
    }
    calls[job.name] += 1;
    if (job.name === "custom" && calls.custom === 3) return "custom";
    if (job.name === "fatal") throw new UnrecoverableError("no more");
    if (broken) throw new Error("broken");
    return "repaired";
  };
  const settings = { backoffStrategy: (attempts) => attempts * 20 };
  bench.worker("jobs", process, { concurrency: 5, settings });

  const flaky = await queue.add("flaky", {}, {
    attempts: 4,
    backoff: { type: "exponential", delay: 50 },
  });
  const never = await queue.add("never", {}, { attempts: 2, backoff: 20 });
  const fatal = await queue.add("fatal", {}, { attempts: 5 });
  const custom = await queue.add("custom", {}, { attempts: 3, backoff: { type: "custom" } });
  assert.strictEqual(await flaky.waitUntilFinished(events), "at last");
  assert.strictEqual((await queue.getJob(flaky.id)).attemptsMade, 4);
  const waits = times.slice(1).map((at, i) => at - times[i]);
  assert.ok(waits[0] >= 50 && waits[1] >= 100 && waits[2] >= 200, JSON.stringify(waits));

  await assert.rejects(never.waitUntilFinished(events), /broken/);
  assert.deepStrictEqual(await exhausted, { jobId: never.id, attemptsMade: "2" });
  await assert.rejects(fatal.waitUntilFinished(events), /no more/);
  assert.strictEqual(await custom.waitUntilFinished(events), "custom");
  assert.deepStrictEqual(calls, { never: 2, fatal: 1, custom: 3 });
  const failed = await queue.getJob(never.id);
  assert.strictEqual(failed.failedReason, "broken");
  assert.strictEqual(failed.stacktrace.length, 2);
  assert.deepStrictEqual(await counts(queue), { completed: 2, failed: 2 });

  broken = false;
  await failed.retry();
  await until("the job is repaired", async () => (await failed.getState()) === "completed");
  assert.strictEqual((await queue.getJob(never.id)).returnvalue, "repaired");
  assert.deepStrictEqual(await counts(queue), { completed: 3, failed: 1 });
}

module.exports = { delayed, schedulers, rate_limit, retries };
