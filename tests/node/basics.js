// SPDX-License-Identifier: Apache-2.0
// ioredis against the server on the port in argv[2]: connect with its ready check, commands,
// pipelines, errors, reconnect-free quit. Exits non-zero on the first surprise.
"use strict";
const assert = require("node:assert");
const Redis = require("ioredis");

async function main() {
  const port = Number(process.argv[2]);
  const redis = new Redis({ port, host: "127.0.0.1", retryStrategy: null });
  await new Promise((resolve, reject) => {
    redis.once("ready", resolve);
    redis.once("error", reject);
  });
  assert.strictEqual(await redis.set("k", "v", "EX", 100), "OK");
  assert.strictEqual(await redis.get("k"), "v");
  assert.strictEqual(await redis.get("missing"), null);
  assert.ok((await redis.ttl("k")) > 0);
  assert.deepStrictEqual(await redis.mget("k", "missing"), ["v", null]);
  assert.deepStrictEqual(await redis.getBuffer("k"), Buffer.from("v"));
  await assert.rejects(redis.incr("k"), /value is not an integer or out of range/);

  const pipeline = redis.pipeline();
  for (let i = 0; i < 1000; i++) pipeline.set(`p${i}`, i).get(`p${i}`);
  const replies = await pipeline.exec();
  replies.forEach(([error, reply], at) => {
    assert.strictEqual(error, null);
    assert.strictEqual(reply, at % 2 ? String((at - 1) / 2) : "OK");
  });

  const seen = new Set();
  for await (const keys of redis.scanStream({ match: "p*", count: 100 })) {
    keys.forEach((k) => seen.add(k));
  }
  assert.strictEqual(seen.size, 1000);
  assert.strictEqual(await redis.quit(), "OK");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
