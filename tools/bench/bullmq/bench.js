// SPDX-License-Identifier: Apache-2.0
// BullMQ itself as the load: adds jobs to queues and processes them with workers, all in this
// process. run.sh installs BullMQ and runs this. Node takes more CPU than the server, so this
// tells how a whole application does; for the server's own cost see tools/bench/scripting.py.
'use strict';

const { parseArgs } = require('util');
const { Queue, Worker } = require('bullmq');

const USAGE = `usage: bench.js [-h host] [-p port] [-d seconds] [-r rate] [-w workers] [-q queues]
  -h host       127.0.0.1
  -p port       6379
  -d seconds    how long jobs are added (10)
  -r rate       jobs added a second, in all queues together; 0: as many as possible (0)
  -w workers    in all; worker i serves queue i modulo the number of queues (8)
  -q queues     (8)
  --braces      queues are called {q0} and not q0, and so on
  --prefix P    of the queues' keys (bench); what the queues hold is removed at the end`;

const ADDS_IN_FLIGHT = 20; // for each queue
const CONCURRENCY = 20; // of each worker
const BACKLOG_MAX = 10000; // jobs added and not processed; more are not added
const DRAIN_SECONDS = 60;

function readFlags() {
  const text = (short, value) => ({ type: 'string', short, default: value });
  const { values } = parseArgs({
    options: {
      host: text('h', '127.0.0.1'),
      port: text('p', '6379'),
      seconds: text('d', '10'),
      rate: text('r', '0'),
      workers: text('w', '8'),
      queues: text('q', '8'),
      braces: { type: 'boolean', default: false },
      prefix: { type: 'string', default: 'bench' },
    },
  });
  for (const name of ['port', 'seconds', 'rate', 'workers', 'queues']) {
    const number = Number(values[name]);
    if (!Number.isInteger(number) || number < (name === 'rate' ? 0 : 1)) {
      throw new Error(`--${name}: ${values[name]}?`);
    }
    values[name] = number;
  }
  if (values.workers < values.queues) throw new Error('-w: fewer workers than queues');
  return values;
}

const now = () => performance.now() / 1000;
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

class Bench {
  constructor(flags) {
    this.flags = flags;
    this.adding = this.added = this.processed = 0;
    this.begin = 0;
    const shared = { connection: { host: flags.host, port: flags.port }, prefix: flags.prefix };
    const name = (i) => (flags.braces ? `{q${i}}` : `q${i}`);
    const names = Array.from({ length: flags.queues }, (_, i) => name(i));
    this.queues = names.map((name) => new Queue(name, {
      ...shared, defaultJobOptions: { removeOnComplete: true },
    }));
    this.makeWorkers = () => Array.from({ length: flags.workers }, (_, i) => new Worker(
      names[i % names.length],
      async () => { this.processed++; },
      { ...shared, concurrency: CONCURRENCY },
    ));
    this.workers = [];
    this.failure = new Promise((_, reject) => { this.fail = reject; });
    this.failure.catch(() => {});
    for (const queue of this.queues) queue.on('error', this.fail);
  }

  // Seconds until the next job may be added; 0: now.
  delay() {
    if (this.added + this.adding - this.processed >= BACKLOG_MAX) return 0.005;
    if (this.flags.rate === 0) return 0;
    return Math.max(0, (this.added + this.adding) / this.flags.rate - (now() - this.begin));
  }

  async addTo(queue, end) {
    while (now() < end) {
      const delay = this.delay();
      if (delay > 0) {
        await pause(Math.min(delay, end - now()));
        continue;
      }
      this.adding++;
      await queue.add('job', { number: this.added });
      this.adding--;
      this.added++;
    }
  }

  async drain() {
    const deadline = now() + DRAIN_SECONDS;
    while (this.processed < this.added) {
      if (now() > deadline) {
        throw new Error(`${this.added} jobs were added, only ${this.processed} processed`);
      }
      await pause(0.005);
    }
  }

  async run() {
    await Promise.all(this.queues.map((queue) => queue.waitUntilReady()));
    // What a run that was broken off left would be counted.
    await Promise.all(this.queues.map((queue) => queue.obliterate({ force: true })));
    this.workers = this.makeWorkers();
    for (const worker of this.workers) {
      worker.on('error', this.fail).on('failed', (_, error) => this.fail(error));
    }
    await Promise.all(this.workers.map((worker) => worker.waitUntilReady()));
    this.begin = now();
    const end = this.begin + this.flags.seconds;
    const loops = this.queues.flatMap((queue) =>
      Array.from({ length: ADDS_IN_FLIGHT }, () => this.addTo(queue, end)));
    await Promise.all(loops);
    const adding = now() - this.begin;
    await this.drain();
    const processing = now() - this.begin;
    console.log(`added      ${this.added} jobs, ${(this.added / adding).toFixed(0)}/s`);
    console.log(`processed  ${this.processed} jobs, ${(this.processed / processing).toFixed(0)}/s`);
  }

  async close() {
    await Promise.all(this.workers.map((worker) => worker.close()));
    await Promise.all(this.queues.map(async (queue) => {
      await queue.obliterate({ force: true });
      await queue.close();
    }));
  }
}

async function main() {
  let flags;
  try {
    flags = readFlags();
  } catch (error) {
    console.error(`${error.message}\n${USAGE}`);
    process.exit(2);
  }
  const bench = new Bench(flags);
  await Promise.race([bench.run().then(() => bench.close()), bench.failure]);
}

main().catch((error) => {
  console.error(`bench: ${error.stack}`);
  process.exit(1);
});
