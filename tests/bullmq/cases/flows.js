// SPDX-License-Identifier: Apache-2.0
// Flows: a parent waits for its children. They live in other queues, so the scripts that end a
// child reach keys of a queue that they were not told of.
"use strict";
const assert = require("node:assert");
const { WaitingChildrenError } = require("bullmq");
const { Gate, counts, until } = require("../harness");

async function flow(bench) {
  const [cars, wheels, bolts] = ["cars", "wheels", "bolts"].map((part) => bench.queue(part));
  const events = await bench.events("cars");
  const gate = new Gate("the test lets the bolts be made");
  const made = [];
  bench.worker("bolts", async (job) => {
    await gate.opened;
    made.push(job.name);
    return `${job.name} of ${job.data.metal}`;
  });
  bench.worker("wheels", async (job) => {
    const values = Object.values(await job.getChildrenValues()).sort();
    made.push(job.name);
    return [job.name, values];
  }, { concurrency: 4 });
  bench.worker("cars", async (job) => {
    made.push(job.name);
    const values = await job.getChildrenValues();
    return Object.values(values).map(String).sort();
  });

  const bolt = (n) => {
    const data = { metal: `metal${n}` };
    return { name: `bolt${n}`, queueName: bench.queueName("bolts"), data };
  };
  const tree = await bench.flows().add({
    name: "car",
    queueName: bench.queueName("cars"),
    children: [
      { name: "w1", queueName: bench.queueName("wheels"), children: [bolt(1), bolt(2)] },
      { name: "w2", queueName: bench.queueName("wheels"), children: [bolt(3)] },
      { name: "w3", queueName: bench.queueName("wheels") },
    ],
  });
  const car = tree.job;
  assert.strictEqual(await car.getState(), "waiting-children");
  assert.strictEqual(tree.children[0].children[0].job.parent.id, tree.children[0].job.id);
  await until("w3", async () => (await car.getDependenciesCount()).processed === 1);
  assert.deepStrictEqual(await counts(cars), { "waiting-children": 1 });
  assert.deepStrictEqual(await counts(wheels), { "waiting-children": 2, completed: 1 });
  assert.deepStrictEqual(made, ["w3"]);
  gate.open();
  const expected = ["w1,bolt1 of metal1,bolt2 of metal2", "w2,bolt3 of metal3", "w3,"];
  assert.deepStrictEqual(await car.waitUntilFinished(events), expected);
  assert.strictEqual(made.length, 7);
  assert.strictEqual(made[6], "car");
  for (const [queue, jobs] of [[cars, 1], [wheels, 3], [bolts, 3]]) {
    await until("all completed", async () => (await queue.getCompletedCount()) === jobs);
    assert.deepStrictEqual(await counts(queue), { completed: jobs });
  }
  const stored = await bench.flows().getFlow({ id: car.id, queueName: bench.queueName("cars") });
  assert.strictEqual(stored.children.length, 3);
}

// Children that fail: each option says what becomes of the parent.
async function flow_failures(bench) {
  const parents = bench.queue("parents");
  const events = await bench.events("parents");
  bench.worker("children", async (job) => {
    if (job.name === "bad") throw new Error("bad child");
    return "good";
  });
  bench.worker("parents", async (job) => {
    const failed = Object.values(await job.getIgnoredChildrenFailures());
    return { values: Object.values(await job.getChildrenValues()), failed };
  });
  const child = (name, opts = {}) => {
    return { name, queueName: bench.queueName("children"), opts };
  };
  const queueName = bench.queueName("parents");
  const trees = await bench.flows().addBulk([
    { name: "fails", queueName, children: [child("bad", { failParentOnFailure: true })] },
    {
      name: "ignores",
      queueName,
      children: [child("bad", { ignoreDependencyOnFailure: true }), child("good")],
    },
    {
      name: "forgets",
      queueName,
      children: [child("bad", { removeDependencyOnFailure: true }), child("good")],
    },
    { name: "waits", queueName, children: [child("bad"), child("good")] },
  ]);
  const [fails, ignores, forgets, waits] = trees.map((tree) => tree.job);
  await assert.rejects(fails.waitUntilFinished(events), /child .* failed/);
  const result = await ignores.waitUntilFinished(events);
  assert.deepStrictEqual(result, { values: ["good"], failed: ["bad child"] });
  const forgotten = await forgets.waitUntilFinished(events);
  assert.deepStrictEqual(forgotten, { values: ["good"], failed: [] });
  await until("the good child", async () => (await waits.getDependenciesCount()).processed === 1);
  assert.strictEqual(await waits.getState(), "waiting-children");
  assert.deepStrictEqual(await counts(parents), {
    completed: 2,
    failed: 1,
    "waiting-children": 1,
  });

  // A parent goes with its children, from both queues.
  await waits.remove();
  assert.deepStrictEqual(await counts(parents), { completed: 2, failed: 1 });
  const children = bench.queue("children");
  for (const tree of trees[3].children) {
    assert.strictEqual(await children.getJob(tree.job.id), undefined);
  }
}

// A job that adds children while it runs, and waits for them.
async function flow_steps(bench) {
  const queue = bench.queue("jobs");
  const helpers = bench.queue("helpers");
  const events = await bench.events("jobs");
  bench.worker("helpers", async (job) => job.data.n * 10);
  let runs = 0;
  bench.worker("jobs", async (job, token) => {
    runs += 1;
    if (job.data.step !== "waited") {
      const parent = { id: job.id, queue: job.queueQualifiedName };
      for (const n of [1, 2]) await helpers.add("help", { n }, { parent });
      await job.updateData({ step: "waited" });
      if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError();
    }
    return Object.values(await job.getChildrenValues()).sort();
  });
  const job = await queue.add("steps", { step: "first" });
  assert.deepStrictEqual(await job.waitUntilFinished(events), [10, 20]);
  assert.ok(runs === 1 || runs === 2, `${runs} runs`); // 1: the helpers were quicker
}

module.exports = { flow, flow_failures, flow_steps };
