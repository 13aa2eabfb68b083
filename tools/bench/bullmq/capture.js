// SPDX-License-Identifier: Apache-2.0
// Writes the call with which the installed BullMQ adds a job, for dfly_bench --scenario=bullmq.
//
//   NODE_PATH=.../node_modules node capture.js OUTPUT
//
// A queue adds one job to a server in this process, which answers EVALSHA with NOSCRIPT and so is
// sent the script itself, as any server would be. The format is that of
// tools/dfly_bench/script_call.h; the queue's name and the job's data become gaps.
'use strict';

const fs = require('fs');
const net = require('net');
const { Queue } = require('bullmq');
const { version } = require('bullmq/package.json');

const PREFIX = '__prefix__';
const NAME = '__name__';
const KEY_PREFIX = `${PREFIX}:${NAME}`;

// Takes whole commands from the front of `input`: [commands, rest].
function parseCommands(input) {
  const commands = [];
  let at = 0;
  // The number after the type's letter, and where the next line begins; nothing if it is cut off.
  const number = (from) => {
    const end = input.indexOf('\r\n', from);
    return end < 0 ? null : [parseInt(input.toString('latin1', from + 1, end), 10), end + 2];
  };
  for (;;) {
    const head = number(at);
    if (head === null) break;
    let [left, next] = head;
    const args = [];
    for (; left > 0; left--) {
      const size = number(next);
      if (size === null || size[1] + size[0] + 2 > input.length) break;
      args.push(input.subarray(size[1], size[1] + size[0]));
      next = size[1] + size[0] + 2;
    }
    if (left > 0) break;
    commands.push(args);
    at = next;
  }
  return [commands, input.subarray(at)];
}

function bulk(text) {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
}

function answer(args, record) {
  switch (args[0].toString().toUpperCase()) {
    case 'INFO':
      return bulk('redis_version:7.0.15\r\nloading:0\r\nmaxmemory_policy:noeviction\r\n');
    case 'EVALSHA':
      return '-NOSCRIPT No matching script. Please use EVAL.\r\n';
    case 'EVAL':
      record(args);
      return bulk('1');
    default:
      return '+OK\r\n';
  }
}

// All that is not printable ASCII, the backslash apart, becomes \xHH.
function escape(bytes) {
  let text = '';
  for (const byte of bytes) {
    if (byte === 0x5c) text += '\\\\';
    else if (byte >= 0x20 && byte < 0x7f) text += String.fromCharCode(byte);
    else text += '\\x' + byte.toString(16).padStart(2, '0');
  }
  return text;
}

// The queue's name becomes a gap; where it is in a MessagePack string, the string does, since its
// header has the length.
function withGaps(bytes) {
  const text = bytes.toString('latin1');
  const full = `${KEY_PREFIX}:`;
  const packed = String.fromCharCode(0xa0 | full.length) + full;
  const result = text.split(packed).join('__packed_queue__').split(KEY_PREFIX).join('__queue__');
  for (const name of [PREFIX, NAME]) {
    if (result.includes(name)) throw new Error(`cannot tell what ${name} is in ${result}`);
  }
  return escape(Buffer.from(result, 'latin1'));
}

function format(args) {
  const [script, keyCount] = [args[1], parseInt(args[2].toString(), 10)];
  const keys = args.slice(3, 3 + keyCount);
  const rest = args.slice(3 + keyCount);
  return [
    `# BullMQ ${version}'s script that adds a job, captured by tools/bench/bullmq/capture.js`,
    `script ${escape(script)}`,
    ...keys.map((key) => `key ${withGaps(key)}`),
    ...rest.map((arg) => `arg ${withGaps(arg)}`),
    '',
  ].join('\n');
}

async function main(output) {
  const recorded = [];
  const sockets = [];
  const server = net.createServer((socket) => {
    let input = Buffer.alloc(0);
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (data) => {
      const [commands, rest] = parseCommands(Buffer.concat([input, data]));
      input = rest;
      for (const args of commands) socket.write(answer(args, (call) => recorded.push(call)));
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const connection = { host: '127.0.0.1', port: server.address().port };
  const queue = new Queue(NAME, { connection, prefix: PREFIX });
  await queue.add('job', { payload: '__data__' });
  await queue.close();
  for (const socket of sockets) socket.destroy();
  server.close();
  if (recorded.length !== 1) throw new Error(`${recorded.length} scripts were sent, not one`);
  fs.writeFileSync(output, format(recorded[0]));
}

if (process.argv.length !== 3) {
  console.error('usage: capture.js OUTPUT');
  process.exit(2);
}
main(process.argv[2]).catch((error) => {
  console.error(`capture: ${error.stack}`);
  process.exit(1);
});
