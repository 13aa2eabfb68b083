// SPDX-License-Identifier: Apache-2.0
// What a program does with node-redis, in both protocols. PORT, and CLUSTER_PORT if there is one.
import assert from "node:assert";
import { WatchError, createClient, createCluster, defineScript } from "redis";

const port = Number(process.env.PORT);
const clusterPort = process.env.CLUSTER_PORT;
const numbers = (count) => Array.from({ length: count }, (_, i) => String(i));
const addTo = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: "return redis.call('incrby', KEYS[1], ARGV[1])",
  parseCommand(parser, key, by) {
    parser.pushKey(key);
    parser.push(String(by));
  },
  transformReply: (reply) => reply,
});

async function plain(r) {
  assert.equal(await r.set("s", "1"), "OK");
  assert.equal(await r.incr("s"), 2);
  await r.hSet("h", { a: "1", b: "2" });
  assert.deepEqual({ ...(await r.hGetAll("h")) }, { a: "1", b: "2" });
  await r.zAdd("z", [{ score: 1.5, value: "m" }, { score: 2, value: "n" }]);
  const scored = (await r.zRangeWithScores("z", 0, -1)).map(({ value, score }) => [value, score]);
  assert.deepEqual(scored, [["m", 1.5], ["n", 2]]);
  await r.sAdd("set", numbers(300));
  const found = new Set();
  for await (const members of r.sScanIterator("set", { COUNT: 10 })) {
    members.forEach((m) => found.add(m));
  }
  assert.equal(found.size, 300);
  const id = await r.xAdd("x", "*", { f: "v" });
  await r.xGroupCreate("x", "g", "0");
  const read = await r.xReadGroup("g", "c", { key: "x", id: ">" }, { COUNT: 1 });
  assert.equal(read[0].messages[0].id, id);
  assert.equal(await r.xAck("x", "g", id), 1);
}

async function pipelines(r) {
  const calls = numbers(1000).flatMap((i) => [r.set(`p${i}`, i), r.get(`p${i}`)]);
  const replies = await Promise.all(calls);
  assert.deepEqual(replies.filter((_, i) => i % 2), numbers(1000));
}

async function transactions(r, other) {
  await r.watch("n");
  assert.deepEqual(await r.multi().set("n", "1").get("n").exec(), ["OK", "1"]);
  await r.watch("n");
  await other.set("n", "100");
  await assert.rejects(r.multi().set("n", "0").exec(), WatchError);
  assert.equal(await r.get("n"), "100");
}

async function pubsub(r, other, options) {
  const s = await createClient(options).connect();
  const got = [];
  let done;
  const all = new Promise((resolve) => (done = resolve));
  const note = (kind) => (message) => got.push([kind, message]) === 100 && done();
  await s.subscribe("news", note("message"));
  await s.pSubscribe("n*", note("pmessage"));
  for (const i of numbers(50)) assert.equal(await r.publish("news", i), 2);
  await all;
  assert.deepEqual(got.filter(([kind]) => kind === "message").map(([, m]) => m), numbers(50));
  await s.close();
}

async function scripts(r) {
  await r.scriptFlush();
  assert.equal(await r.addTo("counter", 5), 5);
  assert.equal(await r.addTo("counter", 5), 10);
}

async function blocking(r, other) {
  const popped = r.blPop(["empty", "queue"], 10);
  await other.rPush("queue", ["a", "b"]);
  assert.deepEqual({ ...(await popped) }, { key: "queue", element: "a" });
  assert.equal(await r.blMove("queue", "done", "LEFT", "RIGHT", 10), "b");
  assert.equal(await r.blPop("empty", 0.05), null);
}

async function cluster() {
  const url = `redis://127.0.0.1:${clusterPort}`;
  const c = await createCluster({ rootNodes: [{ url }] }).connect();
  await Promise.all(numbers(200).map((i) => c.set(`c${i}`, i)));
  assert.deepEqual(await Promise.all(numbers(200).map((i) => c.get(`c${i}`))), numbers(200));
  assert.deepEqual(await c.multi().set("{t}a", "1").get("{t}a").exec(), ["OK", "1"]);
  await c.close();
}

for (const RESP of [2, 3]) {
  const options = { socket: { port }, RESP, scripts: { addTo } };
  const r = await createClient(options).connect();
  const other = await createClient(options).connect();
  await r.flushAll();
  const steps = [plain, pipelines, transactions, pubsub, scripts, blocking];
  for (const step of steps) await step(r, other, options);
  await r.close();
  await other.close();
}
if (clusterPort) await cluster();
