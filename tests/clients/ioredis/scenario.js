// SPDX-License-Identifier: Apache-2.0
// What a program does with ioredis. PORT, and CLUSTER_PORT if there is one.
"use strict";
const assert = require("node:assert");
const Redis = require("ioredis");

const port = Number(process.env.PORT);
const clusterPort = process.env.CLUSTER_PORT;
const numbers = (count) => Array.from({ length: count }, (_, i) => String(i));

async function plain(r) {
  assert.equal(await r.set("s", "1"), "OK");
  assert.equal(await r.incr("s"), 2);
  await r.hset("h", { a: "1", b: "2" });
  assert.deepEqual(await r.hgetall("h"), { a: "1", b: "2" });
  await r.zadd("z", 1.5, "m", 2, "n");
  assert.deepEqual(await r.zrange("z", 0, -1, "WITHSCORES"), ["m", "1.5", "n", "2"]);
  await r.sadd("set", ...numbers(300));
  const found = new Set();
  for await (const members of r.sscanStream("set", { count: 10 })) {
    members.forEach((m) => found.add(m));
  }
  assert.equal(found.size, 300);
  const id = await r.xadd("x", "*", "f", "v");
  await r.xgroup("CREATE", "x", "g", "0");
  const read = await r.xreadgroup("GROUP", "g", "c", "COUNT", 1, "STREAMS", "x", ">");
  assert.deepEqual(read, [["x", [[id, ["f", "v"]]]]]);
  assert.equal(await r.xack("x", "g", id), 1);
}

async function pipelines(r) {
  const p = r.pipeline();
  for (let i = 0; i < 1000; i++) p.set(`p${i}`, i).get(`p${i}`);
  const replies = await p.exec();
  assert.deepEqual(replies.filter((_, i) => i % 2).map(([, value]) => value), numbers(1000));
  // All at once, without a pipeline of its own.
  assert.deepEqual(await Promise.all(numbers(1000).map((i) => r.get(`p${i}`))), numbers(1000));
}

async function transactions(r, other) {
  await r.watch("n");
  assert.deepEqual(await r.multi().set("n", 1).get("n").exec(), [[null, "OK"], [null, "1"]]);
  await r.watch("n");
  await other.set("n", 100);
  assert.equal(await r.multi().set("n", 0).exec(), null);
  assert.equal(await r.get("n"), "100");
}

async function pubsub(r) {
  const s = new Redis(port);
  const got = [];
  let done;
  const all = new Promise((resolve) => (done = resolve));
  const note = (kind, message) => got.push([kind, message]) === 100 && done();
  s.on("message", (channel, message) => note("message", message));
  s.on("pmessage", (pattern, channel, message) => note("pmessage", message));
  assert.equal(await s.subscribe("news"), 1);
  assert.equal(await s.psubscribe("n*"), 2);
  for (const i of numbers(50)) assert.equal(await r.publish("news", i), 2);
  await all;
  assert.deepEqual(got.filter(([kind]) => kind === "message").map(([, m]) => m), numbers(50));
  await s.quit();
}

async function scripts(r) {
  await r.script("FLUSH");
  const lua = "return redis.call('incrby', KEYS[1], ARGV[1])";
  r.defineCommand("addTo", { numberOfKeys: 1, lua });
  assert.equal(await r.addTo("counter", 5), 5);
  assert.equal(await r.addTo("counter", 5), 10);
}

async function blocking(r, other) {
  const popped = r.blpop("empty", "queue", 10);
  await other.rpush("queue", "a", "b");
  assert.deepEqual(await popped, ["queue", "a"]);
  assert.equal(await r.blmove("queue", "done", "LEFT", "RIGHT", 10), "b");
  assert.equal(await r.blpop("empty", 0.05), null);
}

async function cluster() {
  const c = new Redis.Cluster([{ host: "127.0.0.1", port: Number(clusterPort) }]);
  await Promise.all(numbers(200).map((i) => c.set(`c${i}`, i)));
  assert.deepEqual(await Promise.all(numbers(200).map((i) => c.get(`c${i}`))), numbers(200));
  const p = c.pipeline();
  for (let i = 0; i < 10; i++) p.incr("{t}n");
  assert.equal((await p.exec())[9][1], 10);
  assert.deepEqual(await c.multi().set("{t}a", 1).get("{t}a").exec(), [[null, "OK"], [null, "1"]]);
  assert.equal(c.nodes("master").length, 1);
  await c.quit();
}

async function main() {
  const r = new Redis(port);
  const other = new Redis(port);
  await r.flushall();
  const steps = [plain, pipelines, transactions, pubsub, scripts, blocking];
  for (const step of steps) await step(r, other);
  await r.quit();
  await other.quit();
  if (clusterPort) await cluster();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
