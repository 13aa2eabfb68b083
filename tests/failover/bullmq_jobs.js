// SPDX-License-Identifier: Apache-2.0
// A producer and a worker of BullMQ that find their primary by Sentinel:
//
//   node bullmq_jobs.js '{"sentinels": [26379, 26380, 26381], "name": "mymaster"}'
//
// Adds jobs, one after another, until a line comes on the standard input, and waits until the queue
// is empty. Prints "added <n>" for each that was answered, and at the end a line of JSON.
"use strict";
const { Queue, Worker } = require("bullmq");

const { sentinels, name } = JSON.parse(process.argv[2]);
const connection = {
  sentinels: sentinels.map((port) => ({ host: "127.0.0.1", port })),
  name,
  maxRetriesPerRequest: null,
  commandTimeout: 1000,
  failoverDetector: true, // also a primary that only stays silent is left
  sentinelCommandTimeout: 500,
  connectTimeout: 500,
  sentinelRetryStrategy: () => 20,
  retryStrategy: () => 20,
  reconnectOnError: (error) => (error.message.startsWith("READONLY") ? 2 : false),
};
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function main() {
  const done = new Set();
  const queue = new Queue("failover", { connection });
  // A worker waits for jobs by a command of its own, which no timeout ends too early.
  const { commandTimeout, ...waiting } = connection;
  const worker = new Worker("failover", async (job) => done.add(job.data.number), {
    connection: waiting,
    concurrency: 4,
    lockDuration: 2000,
    stalledInterval: 500,
    maxStalledCount: 100,
  });
  for (const part of [queue, worker]) part.on("error", () => {}); // there are many meanwhile

  let stops = false;
  process.stdin.once("data", () => (stops = true));
  const answered = [];
  for (let number = 1; !stops; ) {
    try {
      // A second try adds no second job.
      await queue.add("job", { number }, { jobId: `job-${number}` });
      answered.push(number);
      console.log(`added ${number}`);
      ++number;
      await pause(2);
    } catch (error) {
      await pause(20);
    }
  }
  for (let empty = 0; empty < 3; ) {
    const counts = await queue.getJobCounts("wait", "active", "delayed").catch(() => null);
    const isEmpty = counts && counts.wait + counts.active + counts.delayed === 0;
    empty = isEmpty ? empty + 1 : 0;
    await pause(100);
  }
  const lost = answered.filter((number) => !done.has(number));
  console.log(JSON.stringify({ answered: answered.length, done: done.size, lost }));
  process.exit(0);
}

main();
