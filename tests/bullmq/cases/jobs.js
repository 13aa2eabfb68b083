// SPDX-License-Identifier: Apache-2.0
// Jobs: added one by one and many at once, in which order they run, and that each runs once.
"use strict";
const assert = require("node:assert");
const { Gate, counts, eventOf, until } = require("../harness");

async function add(bench) {
  const queue = bench.queue("jobs");
  const first = await queue.add("greet", { to: "world", nested: { list: [1, 2.5, "é"] } });
  const second = await queue.add("greet", { to: "you" });
  assert.deepStrictEqual([first.id, second.id], ["1", "2"]);
  assert.strictEqual(await first.getState(), "waiting");
  assert.deepStrictEqual(await counts(queue), { waiting: 2 });

  const events = await bench.events("jobs");
  bench.worker("jobs", async (job) => ({ hello: job.data.to, id: job.id }));
  assert.deepStrictEqual(await first.waitUntilFinished(events), { hello: "world", id: "1" });
  assert.deepStrictEqual(await second.waitUntilFinished(events), { hello: "you", id: "2" });
  assert.strictEqual(await first.getState(), "completed");

  const stored = await queue.getJob("1");
  assert.deepStrictEqual(stored.data, { to: "world", nested: { list: [1, 2.5, "é"] } });
  assert.deepStrictEqual(stored.returnvalue, { hello: "world", id: "1" });
  assert.ok(stored.processedOn >= stored.timestamp && stored.finishedOn >= stored.processedOn);
  assert.deepStrictEqual(await counts(queue), { completed: 2 });
  assert.strictEqual(await queue.getJob("3"), undefined);

  // An id that is there already: nothing is added.
  const mine = await queue.add("greet", { to: "me" }, { jobId: "mine" });
  assert.strictEqual(mine.id, "mine");
  assert.deepStrictEqual(await mine.waitUntilFinished(events), { hello: "me", id: "mine" });
  await queue.add("greet", { to: "nobody" }, { jobId: "mine" });
  assert.deepStrictEqual(await counts(queue), { completed: 3 });
  assert.strictEqual((await queue.getJob("mine")).data.to, "me");
}

async function order(bench) {
  const queue = bench.queue("jobs");
  for (const name of ["a", "b", "c"]) await queue.add(name, {});
  await queue.add("urgent", {}, { lifo: true });
  const seen = [];
  bench.worker("jobs", async (job) => seen.push(job.name));
  await until("4 jobs", () => seen.length === 4);
  assert.deepStrictEqual(seen, ["urgent", "a", "b", "c"]);
}

async function bulk(bench) {
  const queue = bench.queue("jobs");
  const numbers = Array.from({ length: 100 }, (_, i) => i);
  const added = await queue.addBulk(numbers.map((i) => ({ name: "n", data: { i } })));
  assert.deepStrictEqual(added.map((job) => job.id), numbers.map((i) => String(i + 1)));
  assert.deepStrictEqual(await counts(queue), { waiting: 100 });
  const seen = [];
  bench.worker("jobs", async (job) => seen.push(job.data.i));
  await until("100 jobs", () => seen.length >= 100);
  assert.deepStrictEqual(seen, numbers);
  await until("all completed", async () => (await queue.getCompletedCount()) === 100);
  assert.deepStrictEqual(await counts(queue), { completed: 100 });

  // Each with its own options, in one transaction.
  await queue.pause();
  await queue.addBulk([
    { name: "later", data: {}, opts: { delay: 100000 } },
    { name: "now", data: {} },
    { name: "first", data: {}, opts: { priority: 3 } },
  ]);
  const expected = { completed: 100, delayed: 1, paused: 1, prioritized: 1 };
  assert.deepStrictEqual(await counts(queue), expected);
}

// Several workers with several jobs at a time on two queues: each job runs exactly once.
async function once(bench) {
  const parts = ["one", "two"];
  const jobs = 150;
  const seen = new Map();
  let running = 0;
  let mostRunning = 0;
  for (const part of [...parts, ...parts]) {
    const process = async (job) => {
      mostRunning = Math.max(mostRunning, ++running);
      const id = `${part} ${job.id}`;
      seen.set(id, (seen.get(id) || 0) + 1);
      await job.updateProgress(50);
      running -= 1;
      return job.data.i * 2;
    };
    bench.worker(part, process, { concurrency: 5 });
  }
  const queues = parts.map((part) => bench.queue(part));
  for (let i = 0; i < jobs; i += 10) {
    await Promise.all(
      queues.flatMap((queue) =>
        Array.from({ length: 10 }, (_, n) => queue.add("n", { i: i + n })),
      ),
    );
  }
  for (const queue of queues) {
    await until("all completed", async () => (await queue.getCompletedCount()) === jobs);
    assert.deepStrictEqual(await counts(queue), { completed: jobs });
    const completed = await queue.getCompleted();
    completed.forEach((job) => assert.strictEqual(job.returnvalue, job.data.i * 2));
  }
  assert.strictEqual(seen.size, 2 * jobs);
  assert.ok([...seen.values()].every((times) => times === 1));
  assert.ok(mostRunning > 1);
}

async function priorities(bench) {
  const queue = bench.queue("jobs");
  for (const [i, priority] of [9, 2, 5, 2, 9, 1].entries()) {
    await queue.add(`p${priority}-${i}`, {}, { priority });
  }
  const plain = await queue.add("plain", {}); // without a priority: before all others
  assert.deepStrictEqual(await counts(queue), { prioritized: 6, waiting: 1 });
  const perPriority = await queue.getCountsPerPriority([0, 1, 2, 5, 9, 10]);
  assert.deepStrictEqual(perPriority, { 0: 1, 1: 1, 2: 2, 5: 1, 9: 2, 10: 0 });
  const last = (await queue.getPrioritized()).find((job) => job.name === "p9-4");
  await last.changePriority({ priority: 4 });
  await plain.changePriority({ priority: 3 });

  const seen = [];
  bench.worker("jobs", async (job) => seen.push(job.name));
  await until("7 jobs", () => seen.length === 7);
  assert.deepStrictEqual(seen, ["p1-5", "p2-1", "p2-3", "plain", "p9-4", "p5-2", "p9-0"]);
}

async function deduplication(bench) {
  const queue = bench.queue("jobs");
  const events = await bench.events("jobs");
  const told = eventOf(events, "deduplicated");
  const first = await queue.add("report", { n: 1 }, { deduplication: { id: "daily" } });
  const again = await queue.add("report", { n: 2 }, { deduplication: { id: "daily" } });
  assert.strictEqual(again.id, first.id);
  assert.strictEqual((await told).jobId, first.id);
  assert.deepStrictEqual(await counts(queue), { waiting: 1 });
  assert.strictEqual(await queue.getDeduplicationJobId("daily"), first.id);

  bench.worker("jobs", async (job) => job.data.n);
  assert.strictEqual(await first.waitUntilFinished(events), 1);
  const next = await queue.add("report", { n: 3 }, { deduplication: { id: "daily" } });
  assert.notStrictEqual(next.id, first.id);
  assert.strictEqual(await next.waitUntilFinished(events), 3);

  // With a lifetime: the id is taken until that ends, also when the job is done.
  const throttle = { deduplication: { id: "hourly", ttl: 100000 } };
  const kept = await queue.add("report", { n: 4 }, throttle);
  await kept.waitUntilFinished(events);
  assert.strictEqual((await queue.add("report", { n: 5 }, throttle)).id, kept.id);
  assert.strictEqual(await queue.removeDeduplicationKey("hourly"), 1);
  assert.notStrictEqual((await queue.add("report", { n: 6 }, throttle)).id, kept.id);
}

// What scripts count reaches the client as numbers, where others would give it strings.
async function numbers(bench) {
  const queue = bench.queue("jobs");
  const job = await queue.add("a", {});
  await queue.add("b", {}, { delay: 100000 });
  await queue.add("c", {}, { priority: 7 });
  const all = await queue.getJobCounts();
  for (const count of Object.values(all)) assert.strictEqual(typeof count, "number");
  assert.deepStrictEqual([all.waiting, all.delayed, all.prioritized, all.active], [1, 1, 1, 0]);
  assert.strictEqual(await queue.getRateLimitTtl(), -2); // PTTL of no key, in the script
  assert.strictEqual(await queue.count(), 3);
  assert.strictEqual(await queue.remove(job.id), 1);
  const logged = await queue.addJobLog("2", "one");
  assert.strictEqual(logged, 1);

  // The scheduler's script answers with the delay of the next job: the difference of two numbers.
  const scheduled = await queue.upsertJobScheduler("s", { every: 100000 }, { name: "d" });
  assert.strictEqual(typeof scheduled.delay, "number");
  assert.ok(scheduled.delay >= 0 && scheduled.delay <= 100000, `delay ${scheduled.delay}`);

  const redis = bench.redis();
  const key = `${bench.naming.prefix}:${bench.queueName("raw")}:n`;
  const script = `
    local n = redis.call("INCRBY", KEYS[1], 41)
    return {n, n + 1, n / 2, tostring(10 / 2), tonumber("0x10"), redis.call("GET", KEYS[1]), true}`;
  assert.deepStrictEqual(await redis.eval(script, 1, key), [41, 42, 20, "5", 16, "41", 1]);
}

// A job keeps more than its result: progress, logs, new data.
async function progress(bench) {
  const queue = bench.queue("jobs");
  const events = await bench.events("jobs");
  const half = eventOf(events, "progress", (args) => args.data === 50);
  const gate = new Gate("the test lets the job go on");
  bench.worker("jobs", async (job) => {
    await job.updateProgress(50);
    await job.log("first line");
    await job.log("second line");
    await job.updateData({ ...job.data, step: 2 });
    await gate.opened;
    await job.updateProgress({ done: true });
  });
  const job = await queue.add("long", { step: 1 });
  assert.strictEqual((await half).jobId, job.id);
  gate.open();
  await job.waitUntilFinished(events);
  const stored = await queue.getJob(job.id);
  assert.deepStrictEqual(stored.progress, { done: true });
  assert.deepStrictEqual(stored.data, { step: 2 });
  const expected = { logs: ["first line", "second line"], count: 2 };
  assert.deepStrictEqual(await queue.getJobLogs(job.id), expected);
}

module.exports = { add, order, bulk, once, priorities, deduplication, numbers, progress };
