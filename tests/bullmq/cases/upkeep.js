// SPDX-License-Identifier: Apache-2.0
// What operators do: lists, removal of old jobs, and of whole queues with all their keys.
"use strict";
const assert = require("node:assert");
const { counts, until } = require("../harness");

// A queue with jobs in every state; gives the worker that holds the active one, and its job.
async function fill(bench, queue) {
  const finished = bench.worker("jobs", async (job) => {
    if (job.name === "bad") throw new Error("bad");
  });
  await queue.addBulk([
    ...Array.from({ length: 20 }, () => ({ name: "good", data: {} })),
    ...Array.from({ length: 5 }, () => ({ name: "bad", data: {} })),
  ]);
  const done = () => queue.getJobCountByTypes("completed", "failed");
  await until("25 jobs", async () => (await done()) === 25);
  await finished.close();
  await queue.add("active", {});
  const holder = bench.worker("jobs", null, { autorun: false, skipStalledCheck: true });
  const active = await holder.getNextJob("holder", { block: false });
  assert.strictEqual(active.name, "active");
  await queue.addBulk([
    ...Array.from({ length: 10 }, () => ({ name: "waiting", data: {} })),
    ...Array.from({ length: 3 }, () => ({ name: "d", data: {}, opts: { delay: 1000000 } })),
    ...Array.from({ length: 4 }, () => ({ name: "p", data: {}, opts: { priority: 5 } })),
  ]);
  await queue.upsertJobScheduler("s", { pattern: "0 0 1 1 *" }, { name: "yearly" });
  const full = { completed: 20, failed: 5, active: 1, waiting: 10, delayed: 4, prioritized: 4 };
  assert.deepStrictEqual(await counts(queue), full);
  return active;
}

async function obliterate(bench) {
  const queue = bench.queue("jobs");
  await fill(bench, queue);
  await assert.rejects(queue.obliterate(), /active jobs/i);
  assert.strictEqual(await queue.isPaused(), true); // it pauses first
  assert.ok((await bench.keysOf("jobs")).length > 40);
  await queue.obliterate({ force: true, count: 7 });
  assert.deepStrictEqual(await bench.keysOf("jobs"), []);
  assert.deepStrictEqual(await counts(queue), {});
}

async function clean(bench) {
  const queue = bench.queue("jobs");
  const active = await fill(bench, queue);
  assert.strictEqual((await queue.clean(0, 15, "completed")).length, 15);
  assert.strictEqual((await queue.clean(1000000, 100, "completed")).length, 0); // none so old
  assert.strictEqual((await queue.clean(0, 0, "failed")).length, 5);
  await active.moveToCompleted("done", "holder", false);
  const left = { completed: 6, waiting: 10, delayed: 4, prioritized: 4 };
  assert.deepStrictEqual(await counts(queue), left);
  await queue.drain();
  assert.deepStrictEqual(await counts(queue), { completed: 6, delayed: 4 });
  await queue.drain(true);
  assert.deepStrictEqual(await counts(queue), { completed: 6, delayed: 1 }); // the scheduler's
  const [yearly] = await queue.getDelayed();
  assert.strictEqual(yearly.name, "yearly");
}

// Lists and their pages, and what is kept of finished jobs.
async function pages(bench) {
  const queue = bench.queue("jobs");
  const keep = { removeOnComplete: { count: 5 }, removeOnFail: true };
  let done = 0;
  bench.worker("jobs", async (job) => {
    done += 1;
    if (job.data.i % 10 === 0) throw new Error("every tenth");
  });
  const jobs = Array.from({ length: 30 }, (_, i) => ({ name: "n", data: { i }, opts: keep }));
  await queue.addBulk(jobs);
  await until("30 jobs", () => done === 30);
  await until("the last is stored", async () => (await queue.getActiveCount()) === 0);
  assert.deepStrictEqual(await counts(queue), { completed: 5 });
  const newest = (await queue.getCompleted()).map((job) => job.data.i);
  assert.deepStrictEqual(newest, [29, 28, 27, 26, 25]);
  const page = await queue.getJobs(["completed"], 1, 2, true);
  assert.deepStrictEqual(page.map((job) => job.data.i), [26, 27]);
  assert.strictEqual(await queue.getJob("1"), undefined);

  await queue.pause();
  const added = await queue.addBulk(Array.from({ length: 4 }, () => ({ name: "w", data: {} })));
  await added[1].remove();
  const waiting = await queue.getJobs(["paused"], 0, -1, true);
  assert.deepStrictEqual(waiting.map((job) => job.id), ["31", "33", "34"]);
}

// Many failed jobs are retried by one script, in steps.
async function retry_all(bench) {
  const queue = bench.queue("jobs");
  let broken = true;
  bench.worker("jobs", async () => {
    if (broken) throw new Error("broken");
  }, { concurrency: 5 });
  await queue.addBulk(Array.from({ length: 50 }, () => ({ name: "n", data: {} })));
  await until("50 failures", async () => (await queue.getFailedCount()) === 50);
  broken = false;
  await queue.retryJobs({ count: 20 });
  await until("50 successes", async () => (await queue.getCompletedCount()) === 50);
  assert.deepStrictEqual(await counts(queue), { completed: 50 });
}

module.exports = { obliterate, clean, pages, retry_all };
