// SPDX-License-Identifier: Apache-2.0
// What each case has: queues, workers and events with names of its own, and waits with a deadline.
"use strict";
const assert = require("node:assert");
const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");
const Redis = require("ioredis");

const DEADLINE_MS = Number(process.env.BULLMQ_DEADLINE_MS || 20000);

// Polls until condition() is neither false nor undefined, and gives what it is.
async function until(what, condition) {
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < end, `timeout: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

// A promise with its resolve(); `opened` rejects at the deadline, so nothing waits for ever.
class Gate {
  constructor(what) {
    this.opened = new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`timeout: ${what}`)), DEADLINE_MS);
      this.open = (value) => {
        clearTimeout(timer);
        resolve(value);
      };
    });
    this.opened.catch(() => {}); // who waits for it sees it, and perhaps nobody does
  }
}

// The first event of this name for which matches(...its arguments).
function eventOf(emitter, name, matches = () => true) {
  const gate = new Gate(`event ${name}`);
  const listen = (...args) => {
    if (!matches(...args)) return;
    emitter.off(name, listen);
    gate.open(args[0]);
  };
  emitter.on(name, listen);
  return gate.opened;
}

class Bench {
  // `naming`: {prefix, braces}; with braces each queue's name is a hash tag.
  constructor(name, port, naming) {
    this.name = name;
    this.naming = naming;
    this.connection = { host: "127.0.0.1", port };
    this.options = { connection: this.connection, prefix: naming.prefix };
    this.opened = [];
    // Errors that BullMQ meets in the background (a refused script, say) end the case.
    this.failed = new Promise((_, reject) => (this.fail = reject));
    this.failed.catch(() => {});
  }

  queueName(part = "jobs") {
    const name = `${this.name}-${part}`;
    return this.naming.braces ? `{${name}}` : name;
  }

  keep(opened) {
    opened.on("error", this.fail);
    this.opened.push(opened);
    return opened;
  }

  queue(part, options = {}) {
    return this.keep(new Queue(this.queueName(part), { ...this.options, ...options }));
  }

  // Does not begin to work before it is connected; see `ready`.
  worker(part, processor, options = {}) {
    const all = { drainDelay: 30, ...this.options, ...options };
    return this.keep(new Worker(this.queueName(part), processor, all));
  }

  // Events are read from the stream's beginning, so that none is missed.
  async events(part) {
    const options = { ...this.options, lastEventId: "0-0" };
    const events = this.keep(new QueueEvents(this.queueName(part), options));
    await events.waitUntilReady();
    return events;
  }

  flows() {
    return this.keep(new FlowProducer(this.options));
  }

  // A plain client, for what BullMQ does not show.
  redis() {
    const redis = new Redis(this.connection);
    this.opened.push({ close: () => redis.disconnect() });
    return redis;
  }

  async keysOf(part) {
    const redis = this.redis();
    const keys = [];
    const match = `${this.naming.prefix}:${this.queueName(part)}:*`;
    for await (const some of redis.scanStream({ match, count: 1000 })) keys.push(...some);
    return keys;
  }

  // Workers first: they may still want the others.
  async close() {
    const rank = (opened) => (opened instanceof Worker ? 0 : 1);
    this.opened.sort((a, b) => rank(a) - rank(b));
    for (const opened of this.opened) await opened.close();
  }
}

// Jobs of a queue, as {state: count} without zeros.
async function counts(queue) {
  const all = Object.entries(await queue.getJobCounts());
  return Object.fromEntries(all.filter(([, count]) => count !== 0));
}

module.exports = { Bench, DEADLINE_MS, Gate, counts, eventOf, until };
