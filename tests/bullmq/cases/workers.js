// SPDX-License-Identifier: Apache-2.0
// Workers: how they come, pause, die and leave.
"use strict";
const assert = require("node:assert");
const net = require("node:net");
const path = require("node:path");
const { Worker } = require("bullmq");
const { counts, eventOf, until } = require("../harness");

// The names of this bench's clients that wait in BZPOPMIN.
async function blocked(redis, name) {
  const lines = (await redis.client("LIST")).split("\n");
  return lines.filter((line) => line.includes(` name=${name} `) && /cmd=bzpopmin/.test(line));
}

// Takes a job and dies: its lock runs out, and another worker finds the job.
async function stalled(bench) {
  const queue = bench.queue("jobs");
  const lost = await queue.add("lost", {});
  const hopeless = await queue.add("hopeless", {}, { lifo: false });
  const doomed = new Worker(bench.queueName("jobs"), null, {
    ...bench.options,
    autorun: false,
    lockDuration: 100,
    skipStalledCheck: true,
  });
  for (const job of [lost, hopeless]) {
    assert.strictEqual((await doomed.getNextJob("doomed", { block: false })).id, job.id);
  }
  assert.deepStrictEqual(await counts(queue), { active: 2 });
  await doomed.close(true);

  const events = await bench.events("jobs");
  const told = eventOf(events, "stalled", (args) => args.jobId === lost.id);
  const options = { stalledInterval: 200, maxStalledCount: 1 };
  const worker = bench.worker("jobs", async (job) => `saved ${job.name}`, options);
  const seen = [];
  worker.on("stalled", (id) => seen.push(id));
  assert.strictEqual(await lost.waitUntilFinished(events), "saved lost");
  assert.strictEqual(await hopeless.waitUntilFinished(events), "saved hopeless");
  await told;
  assert.deepStrictEqual(seen.sort(), [lost.id, hopeless.id].sort());
  assert.deepStrictEqual(await counts(queue), { completed: 2 });
}

// A job that has stalled too often fails.
async function stalled_too_often(bench) {
  const queue = bench.queue("jobs");
  const job = await queue.add("heavy", {});
  const doomed = new Worker(bench.queueName("jobs"), null, {
    ...bench.options,
    autorun: false,
    lockDuration: 50,
    skipStalledCheck: true,
  });
  await doomed.getNextJob("doomed", { block: false });
  await doomed.close(true);
  const events = await bench.events("jobs");
  const options = { stalledInterval: 150, maxStalledCount: 0 };
  bench.worker("jobs", async () => assert.fail("it runs again"), options);
  await assert.rejects(job.waitUntilFinished(events), /stalled more than allowable limit/);
  assert.deepStrictEqual(await counts(queue), { failed: 1 });
}

// The worker renews the lock of a job that takes its time; nobody else gets the job.
async function renewal(bench) {
  const queue = bench.queue("jobs");
  const events = await bench.events("jobs");
  let runs = 0;
  const lock = { lockDuration: 60000, lockRenewTime: 200 };
  const options = { ...lock, stalledInterval: 300, concurrency: 2 };
  const client = await queue.client;
  const process = async (job) => {
    runs += 1;
    let leftMs = Infinity;
    let renewals = 0;
    await until("3 renewals", async () => {
      const before = leftMs;
      leftMs = await client.pttl(`${queue.toKey(job.id)}:lock`);
      if (leftMs > before) renewals += 1;
      return renewals === 3;
    });
    return "slow";
  };
  bench.worker("jobs", process, options);
  bench.worker("jobs", process, options);
  const job = await queue.add("slow", {});
  assert.strictEqual(await job.waitUntilFinished(events), "slow");
  assert.strictEqual(runs, 1);
}

async function pause(bench) {
  const queue = bench.queue("jobs");
  const events = await bench.events("jobs");
  const seen = [];
  const worker = bench.worker("jobs", async (job) => seen.push(job.name));
  const before = await queue.add("before", {});
  await before.waitUntilFinished(events);
  const paused = eventOf(events, "paused");
  await queue.pause();
  await paused;
  assert.strictEqual(await queue.isPaused(), true);
  await queue.add("during", {});
  await queue.add("during too", {}, { priority: 2 });
  assert.deepStrictEqual(await counts(queue), { completed: 1, paused: 1, prioritized: 1 });
  // Another queue's job goes all the way meanwhile; nothing of the paused one has moved.
  const other = bench.queue("other");
  const otherEvents = await bench.events("other");
  bench.worker("other", async () => "free");
  assert.strictEqual(await (await other.add("a", {})).waitUntilFinished(otherEvents), "free");
  assert.deepStrictEqual(seen, ["before"]);
  await queue.resume();
  await until("both jobs", () => seen.length === 3);
  assert.deepStrictEqual(seen, ["before", "during", "during too"]);

  // One worker alone.
  await worker.pause();
  const kept = await queue.add("kept", {});
  assert.strictEqual(await kept.getState(), "waiting");
  worker.resume();
  await kept.waitUntilFinished(events);
  assert.strictEqual(seen.length, 4);
}

async function global_concurrency(bench) {
  const queue = bench.queue("jobs");
  await queue.setGlobalConcurrency(2);
  let running = 0;
  let most = 0;
  let done = 0;
  const process = async (job) => {
    most = Math.max(most, ++running);
    await job.updateProgress(1); // gives the others the chance to come in
    await job.updateProgress(2);
    running -= 1;
    done += 1;
  };
  for (let i = 0; i < 3; i++) bench.worker("jobs", process, { concurrency: 4 });
  await queue.addBulk(Array.from({ length: 40 }, () => ({ name: "n", data: {} })));
  await until("40 jobs", () => done === 40);
  assert.strictEqual(most, 2);
  assert.strictEqual(await queue.getGlobalConcurrency(), 2);
}

async function events(bench) {
  const queue = bench.queue("jobs");
  const events = await bench.events("jobs");
  const seen = [];
  let drained = 0;
  const names = ["added", "waiting", "active", "completed", "failed", "delayed", "removed"];
  for (const name of names) {
    events.on(name, (args, id) => seen.push({ name, id, job: args.jobId, args }));
  }
  events.on("drained", () => (drained += 1));
  bench.worker("jobs", async (job) => {
    if (job.name === "bad") throw new Error("bad");
    return { fine: true };
  });
  const good = await queue.add("good", {});
  await good.waitUntilFinished(events);
  const bad = await queue.add("bad", {}, { delay: 50 });
  await assert.rejects(bad.waitUntilFinished(events), /bad/);
  await queue.remove(good.id);
  await until("the removal", () => seen.some(({ name }) => name === "removed"));
  const of = (job) => seen.filter((e) => e.job === job.id).map((e) => e.name);
  assert.deepStrictEqual(of(good), ["added", "waiting", "active", "completed", "removed"]);
  assert.deepStrictEqual(of(bad), ["added", "delayed", "waiting", "active", "failed"]);
  const find = (job, name) => seen.find((e) => e.job === job.id && e.name === name).args;
  assert.deepStrictEqual(find(good, "completed").returnvalue, { fine: true });
  assert.strictEqual(find(bad, "failed").failedReason, "bad");
  assert.ok(drained >= 1);
  // Ids are those of the stream: they rise.
  const ids = seen.map(({ id }) => id.split("-").map(Number));
  ids.slice(1).forEach(([ms, n], i) => {
    assert.ok(ms > ids[i][0] || (ms === ids[i][0] && n > ids[i][1]), JSON.stringify(ids));
  });
  assert.ok((await queue.trimEvents(0)) >= ids.length);
}

// The processor is a file, run by another process or thread.
async function sandbox(bench) {
  const file = path.join(__dirname, "..", "processor.js");
  for (const [part, useWorkerThreads] of [["process", false], ["thread", true]]) {
    const queue = bench.queue(part);
    const events = await bench.events(part);
    const half = eventOf(events, "progress", (args) => args.data === 50);
    bench.worker(part, file, { useWorkerThreads });
    const good = await queue.add("sum", { numbers: [1, 2, 3] });
    const bad = await queue.add("fail", {});
    const { sum, pid } = await good.waitUntilFinished(events);
    assert.strictEqual(sum, 6);
    assert.strictEqual(pid === process.pid, useWorkerThreads);
    assert.strictEqual((await half).jobId, good.id);
    await assert.rejects(bad.waitUntilFinished(events), /sandboxed failure/);
    assert.deepStrictEqual((await queue.getJobLogs(good.id)).logs, ["summing"]);
    assert.deepStrictEqual((await queue.getJob(good.id)).data, { numbers: [], used: true });
    assert.deepStrictEqual(await counts(queue), { completed: 1, failed: 1 });
  }
}

// A worker that leaves while it blocks is gone at once, and takes no job with it.
async function disconnect(bench) {
  const redis = bench.redis();
  const queue = bench.queue("jobs");
  await queue.waitUntilReady();
  const name = `${bench.naming.prefix}:${Buffer.from(bench.queueName("jobs")).toString("base64")}`;

  // close() has to cut the connection that waits: with drainDelay 30 it would wait for that.
  const closed = bench.worker("jobs", async () => {});
  await until("a worker waits", async () => (await blocked(redis, name)).length === 1);
  assert.strictEqual(await queue.getWorkersCount(), 1);
  const begin = Date.now();
  await closed.close();
  assert.ok(Date.now() - begin < 5000, `close() took ${Date.now() - begin} ms`);
  await until("its client is gone", async () => (await blocked(redis, name)).length === 0);

  // One that dies without a word waits before a living one; the marker has to come to the latter.
  const marker = `${bench.naming.prefix}:${bench.queueName("jobs")}:marker`;
  const dead = net.connect(bench.connection.port, bench.connection.host);
  dead.on("error", () => {});
  const text = (...words) =>
    `*${words.length}\r\n` + words.map((w) => `$${Buffer.byteLength(w)}\r\n${w}\r\n`).join("");
  dead.write(text("CLIENT", "SETNAME", "the-dead") + text("BZPOPMIN", marker, "0"));
  await until("it waits", async () => (await blocked(redis, "the-dead")).length === 1);
  const seen = [];
  bench.worker("jobs", async (job) => seen.push(job.id));
  await until("the living one waits", async () => (await blocked(redis, name)).length === 1);
  dead.resetAndDestroy();
  await until("the dead one is gone", async () => (await blocked(redis, "the-dead")).length === 0);
  const job = await queue.add("a", {});
  const added = Date.now();
  await until("the job", () => seen.length === 1);
  assert.deepStrictEqual(seen, [job.id]);
  assert.ok(Date.now() - added < 5000, "the job waited for the dead one");

  // Workers that come and are torn off again while jobs are added: none is lost, none runs twice.
  const jobs = 60;
  for (let i = 0; i < jobs; i += 10) {
    const brief = new Worker(bench.queueName("jobs"), async (job) => seen.push(job.id), {
      ...bench.options,
      drainDelay: 30,
    });
    brief.on("error", () => {});
    await brief.waitUntilReady();
    const adding = Array.from({ length: 10 }, (_, n) => queue.add("b", { n: i + n }));
    await brief.close();
    await Promise.all(adding);
  }
  await until("all jobs", async () => (await queue.getCompletedCount()) === jobs + 1);
  assert.strictEqual(seen.length, jobs + 1);
  assert.strictEqual(new Set(seen).size, jobs + 1);
  assert.deepStrictEqual(await counts(queue), { completed: jobs + 1 });
}

module.exports = {
  stalled,
  stalled_too_often,
  renewal,
  pause,
  global_concurrency,
  events,
  sandbox,
  disconnect,
};
