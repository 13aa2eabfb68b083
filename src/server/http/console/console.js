// SPDX-License-Identifier: Apache-2.0
// The web console. All it knows comes from commands, sent to /api/commands as a user of the ACL;
// what comes back is only ever shown as text.
'use strict';

const $ = (id) => document.getElementById(id);
const PERIOD_MS = 1000;

let authorization = null;  // of this page only, never stored

// --- Talking to the server ---

class Refused extends Error {}  // 401

async function ask(...commands) {
  const headers = {'Content-Type': 'application/json', 'X-Requested-With': 'console'};
  if (authorization !== null) headers.Authorization = authorization;
  const response = await fetch('/api/commands', {
    method: 'POST',
    headers,
    body: JSON.stringify({commands}),
    credentials: 'omit',
    cache: 'no-store',
  });
  const body = await response.json();
  if (response.status === 401) throw new Refused(body.error);
  if (body.replies === undefined) throw new Error(body.error);
  const replies = body.replies.slice();
  while (replies.length < commands.length) replies.push({error: body.error});
  return replies;
}

const isTagged = (value, tag) =>
    value !== null && typeof value === 'object' && Object.hasOwn(value, tag);
const errorOf = (reply) => (isTagged(reply, 'error') ? textOf(reply.error) : null);

// A value as one text.
function textOf(value) {
  if (value === null) return '(nil)';
  if (typeof value !== 'object') return String(value);
  if (isTagged(value, 'base64')) return printable(atob(value.base64));
  if (isTagged(value, 'integer')) return value.integer;
  if (isTagged(value, 'double')) return value.double;
  if (isTagged(value, 'error')) return textOf(value.error);
  return JSON.stringify(value);
}

// Bytes as redis-cli shows them.
function printable(bytes) {
  const named = {'\n': '\\n', '\r': '\\r', '\t': '\\t', '\\': '\\\\', '"': '\\"'};
  let text = '';
  for (const c of bytes) {
    const code = c.charCodeAt(0);
    const is_plain = code >= 32 && code < 127;
    text += named[c] ?? (is_plain ? c : '\\x' + code.toString(16).padStart(2, '0'));
  }
  return text;
}

// Of a RESP3 map, or the array that RESP2 has in its place.
function pairsOf(value) {
  if (isTagged(value, 'map')) return value.map;
  const pairs = [];
  if (Array.isArray(value))
    for (let i = 0; i + 1 < value.length; i += 2) pairs.push([value[i], value[i + 1]]);
  return pairs;
}
const objectOf = (value) => Object.fromEntries(pairsOf(value).map(([k, v]) => [textOf(k), v]));

// --- Numbers for people ---

function count(value) {
  if (value < 10_000)
    return value < 10 && value % 1 !== 0 ? value.toFixed(1) : String(Math.round(value));
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
    if (value >= size) return (value / size).toPrecision(3) + ' ' + unit;
  }
}
function bytes(value) {
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (value >= size) return (value / size).toFixed(1) + ' ' + unit;
  }
  return Math.round(value) + ' B';
}
function micros(value) {
  if (value >= 1e6) return (value / 1e6).toFixed(2) + ' s';
  if (value >= 1e3) return (value / 1e3).toFixed(1) + ' ms';
  return value.toFixed(value < 10 ? 1 : 0) + ' µs';
}
const percent = (value) => value.toFixed(1) + ' %';
function duration(seconds) {
  const d = Math.floor(seconds / 86400);
  const h = Math.floor(seconds / 3600) % 24;
  const m = Math.floor(seconds / 60) % 60;
  return d > 0 ? `${d} d ${h} h` :
      h > 0 ? `${h} h ${m} min` :
      m > 0 ? `${m} min` :
              `${Math.floor(seconds)} s`;
}

// --- Elements ---

function element(name, text, classes) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (classes) e.className = classes;
  return e;
}

// A table that keeps how its user has sorted it. columns: {title, of: row -> value, show: value ->
// text, is_text}; `tail`: row -> element, for a last column.
class Table {
  constructor(id, columns, options = {}) {
    this.table = $(id);
    this.columns = columns;
    this.options = options;
    this.sort = options.sort ?? null;  // index of a column
    this.descending = true;
    this.rows = [];
  }
  show(rows) {
    this.rows = rows;
    const sorted = rows.slice();
    if (this.sort !== null) {
      const of = this.columns[this.sort].of;
      const sign = this.descending ? -1 : 1;
      sorted.sort((a, b) => sign * (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0));
    }
    const head = element('tr');
    this.columns.forEach((column, i) => {
      const th = element('th', column.title, column.is_text ? '' : 'number');
      if (this.sort !== null) {
        th.classList.add('sorts');
        if (i === this.sort)
          th.setAttribute('aria-sort', this.descending ? 'descending' : 'ascending');
        th.addEventListener('click', () => {
          this.descending = i === this.sort ? !this.descending : !column.is_text;
          this.sort = i;
          this.show(this.rows);
        });
      }
      head.append(th);
    });
    if (this.options.tail) head.append(element('th'));
    const body = sorted.slice(0, this.options.max ?? 1000).map((row) => {
      const tr = element('tr');
      for (const column of this.columns) {
        const value = column.of(row);
        const shown = column.show ? column.show(value, row) : String(value);
        if (shown instanceof Node) {
          const td = element('td');
          td.append(shown);
          tr.append(td);
        } else {
          const td = element('td', shown, column.is_text ? 'text' : 'number');
          if (column.is_text) td.title = shown;
          tr.append(td);
        }
      }
      if (this.options.tail) {
        const td = element('td');
        td.append(this.options.tail(row));
        tr.append(td);
      }
      return tr;
    });
    if (body.length === 0) {
      const td = element('td', this.options.empty ?? 'none', 'note');
      td.colSpan = this.columns.length + 1;
      const tr = element('tr');
      tr.append(td);
      body.push(tr);
    }
    this.table.replaceChildren(head, ...body);
  }
}

function meter(part) {
  const e = element('meter');
  e.max = 100;
  e.high = 85;
  e.value = part;
  const both = element('span');
  both.append(e, ' ' + percent(part));
  return both;
}

// --- What the server says ---

function parseInfo(text) {
  const info = {};
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon > 0 && line[0] !== '#') info[line.slice(0, colon)] = line.slice(colon + 1);
  }
  return info;
}
const partsOf = (text) => Object.fromEntries(text.split(',').map(
    (part) => [part.slice(0, part.indexOf('=')), part.slice(part.indexOf('=') + 1)]));
const fieldsOf = (text) =>
    Object.fromEntries(Object.entries(partsOf(text)).map(([name, value]) => [name, Number(value)]));
function numbered(info, prefix) {
  const list = [];
  for (const [key, value] of Object.entries(info)) {
    if (key.startsWith(prefix) && /^\d+$/.test(key.slice(prefix.length))) {
      list[Number(key.slice(prefix.length))] = fieldsOf(value);
    }
  }
  return list;
}

// LATENCY HISTOGRAM: of each command, how many calls took at most so many microseconds.
function parseHistograms(reply) {
  const all = {};
  for (const [name, about] of pairsOf(reply)) {
    const fields = objectOf(about);
    all[textOf(name)] = pairsOf(fields.histogram_usec)
                            .map(([usec, calls]) => [Number(textOf(usec)), Number(textOf(calls))]);
  }
  return all;
}

// Calls by upper bound between two moments, of the given commands together.
function bucketsBetween(before, after, names) {
  const buckets = new Map();
  for (const name of names) {
    const old = new Map();
    let last = 0;
    for (const [usec, calls] of before[name] ?? []) {
      old.set(usec, calls - last);
      last = calls;
    }
    last = 0;
    for (const [usec, calls] of after[name] ?? []) {
      const fresh = calls - last - (old.get(usec) ?? 0);
      last = calls;
      if (fresh > 0) buckets.set(usec, (buckets.get(usec) ?? 0) + fresh);
    }
  }
  return [...buckets].sort((a, b) => a[0] - b[0]);
}
function percentile(buckets, part) {
  const total = buckets.reduce((sum, [, calls]) => sum + calls, 0);
  if (total === 0) return null;
  let left = part * total;
  for (const [usec, calls] of buckets) {
    // Buckets reach from the half of their bound.
    if (left <= calls) return (usec / 2) * (1 + left / calls);
    left -= calls;
  }
  return buckets.at(-1)[0];
}

// --- Pages ---

const charts = {
  ops: new Chart('chart-ops', ['commands'], count),
  latency: new Chart('chart-latency', ['p50', 'p99', 'p99.9'], micros),
  cpu: new Chart('chart-cpu', ['user', 'system'], percent),
  net: new Chart('chart-net', ['in', 'out'], (v) => bytes(v) + '/s'),
};

// Not in the chart of latencies: what waits because it is meant to, and what this page asks for.
const LEFT_OUT = [
  'blpop', 'brpop', 'blmove', 'brpoplpush', 'blmpop', 'bzpopmin', 'bzpopmax', 'bzmpop', 'xread',
  'xreadgroup', 'wait', 'debug', 'info', 'latency|histogram', 'client|list', 'slowlog|get'
];

let before = null;  // {at, info, histograms} of a period ago

function showOverview(now) {
  const {info, histograms} = now;
  const number = (name) => Number(info[name] ?? 0);
  $('server-facts').textContent = `${info.redis_build_id ?? ''} · Redis ${
                                      info.redis_version ?? ''} · port ${info.tcp_port ?? ''} · ` +
      `${info.proactor_threads} threads on ${info.multiplexing_api} · up ${
                                      duration(number('uptime_in_seconds'))}`;
  const seconds = before === null ? 0 : (now.at - before.at) / 1000;
  const rate = (name) =>
      (seconds === 0 ? 0 : Math.max(0, number(name) - Number(before.info[name] ?? 0)) / seconds);
  let keys = 0;
  for (const [name, value] of Object.entries(info))
    if (/^db\d+$/.test(name)) keys += fieldsOf(value).keys;
  const hits = rate('keyspace_hits');
  const reads = hits + rate('keyspace_misses');
  const maxmemory = number('maxmemory');
  const tiles = [
    ['Commands/s', count(rate('total_commands_processed'))],
    ['Clients', count(number('connected_clients'))],
    ['Blocked clients', count(number('blocked_clients'))],
    ['Keys', count(keys)],
    ['Hits', reads === 0 ? '–' : percent((100 * hits) / reads)],
    ['Memory', bytes(number('used_memory'))],
    [
      'Of the limit',
      maxmemory === 0 ? 'no limit' : percent((100 * number('used_memory')) / maxmemory)
    ],
    ['Evicted/s', count(rate('evicted_keys'))],
    ['Expired/s', count(rate('expired_keys'))],
    [
      'Last snapshot',
      info.rdb_last_bgsave_status === 'ok' ?
          (number('rdb_saves') === 0 ?
               'none yet' :
               duration(Date.now() / 1000 - number('rdb_last_save_time')) + ' ago') :
          'failed'
    ],
    ...logTiles(info, number, rate),
  ];
  $('tiles').replaceChildren(
      ...tiles.map(([title, value]) => {
        const tile = element('div', undefined, 'tile');
        tile.append(element('b', value), element('span', title));
        return tile;
      }),
  );
  if (seconds > 0) {
    charts.ops.add([rate('total_commands_processed')]);
    const names = Object.keys(histograms).filter((name) => !LEFT_OUT.includes(name));
    const buckets = bucketsBetween(before.histograms, histograms, names);
    charts.latency.add([0.5, 0.99, 0.999].map((part) => percentile(buckets, part)));
    charts.cpu.add([100 * rate('used_cpu_user'), 100 * rate('used_cpu_sys')]);
    charts.net.add([rate('total_net_input_bytes'), rate('total_net_output_bytes')]);
  }
  showHolders(info);
  showMemory(info);
}

// Who has locks for longer than lock-warning-ms: whoever wants those keys waits for them.
const holderTable = new Table(
    'holder-table',
    [
      {title: 'Command', of: (h) => h.command, is_text: true},
      {title: 'Client', of: (h) => Number(h.client)},
      {title: 'For', of: (h) => Number(h.held_usec), show: micros},
      {title: 'Shards', of: (h) => h.shards, is_text: true},
      {title: 'Waits for', of: (h) => h.waits_for || 'nothing: it runs', is_text: true},
    ],
    {sort: 2});

function showHolders(info) {
  const holders = [];
  for (const [key, value] of Object.entries(info)) {
    if (!key.startsWith('tx_long_holder_')) continue;
    holders.push(partsOf(value));
  }
  $('holders').hidden = holders.length === 0;
  holderTable.show(holders);
}

// Of the append-only log, while it is on.
function logTiles(info, number, rate) {
  if (number('aof_enabled') === 0) return [];
  const rewrite = number('aof_rewrite_in_progress') === 0 ?
      bytes(number('aof_current_size')) :
      'rewritten for ' + duration(number('aof_current_rewrite_time_sec'));
  const waiting = bytes(number('aof_buffer_length') + number('aof_unsynced_bytes'));
  return [
    ['Log', info.aof_last_write_status === 'ok' ? rewrite : 'cannot be written'],
    ['Log writes/s', count(rate('aof_epochs'))],
    ['Last sync', micros(number('aof_sync_last_us'))],
    ['Longest sync', micros(number('aof_sync_max_us'))],
    ['Not on disk', number('aof_behind') === 0 ? waiting : waiting + ', writers wait'],
  ];
}

const KINDS = [
  ['data', 'used_memory_dataset'],
  ['startup', 'used_memory_startup'],
  ['clients', 'mem_clients_normal'],
  ['receive buffers', 'mem_receive_buffers'],
  ['fiber stacks', 'mem_fiber_stacks'],
  ['Lua states', 'used_memory_vm_total'],
  ['texts of scripts', 'used_memory_scripts_eval'],
  ['texts of functions', 'used_memory_functions'],
  ['commands under way', 'mem_coordinators'],
  ['snapshot', 'mem_snapshot'],
  ['users', 'mem_acl_users'],
];
function showMemory(info) {
  const kinds = KINDS.map(([title, name]) => [title, Number(info[name] ?? 0)]);
  const sum = kinds.reduce((all, [, size]) => all + size, 0) || 1;
  $('memory-bar')
      .replaceChildren(
          ...kinds.map(([title, size], n) => {
            const part = element('div');
            part.style.width = `${(100 * size) / sum}%`;
            part.style.background = COLOURS[n];
            part.title = `${title}: ${bytes(size)}`;
            return part;
          }),
      );
  $('memory-kinds')
      .replaceChildren(
          ...kinds.map(([title, size], n) => ({title, size, n}))
              .filter(({size}) => size > 0)
              .sort((a, b) => b.size - a.size)
              .map(({title, size, n}) => {
                const item = element('li');
                const dot = element('i');
                dot.style.background = COLOURS[n];
                item.append(dot, `${title} ${bytes(size)}`);
                return item;
              }),
      );
}

const threadTable = new Table(
    'thread-table',
    [
      {title: 'Thread', of: (t) => t.index},
      {title: 'CPU', of: (t) => t.cpu, show: meter, is_text: true},
      {title: 'Commands/s', of: (t) => t.commands, show: count},
      {title: 'Connections', of: (t) => t.clients},
      {title: 'Messages/s', of: (t) => t.messages, show: count},
      {title: 'Wake-ups/s', of: (t) => t.wakeups, show: count},
    ],
    {sort: 0});
threadTable.descending = false;
const shardTable = new Table(
    'shard-table',
    [
      {title: 'Shard', of: (s) => s.index},
      {title: 'Thread', of: (s) => s.thread},
      {title: 'Keys', of: (s) => s.keys, show: count},
      {title: 'With a TTL', of: (s) => s.expires, show: count},
      {title: 'Memory', of: (s) => s.memory, show: bytes},
      {title: 'Reads of keys/s', of: (s) => s.reads, show: count},
      {title: 'Transactions waiting', of: (s) => s.queue},
    ],
    {sort: 0});
shardTable.descending = false;

function showThreads(now) {
  if (before === null) return;
  const seconds = (now.at - before.at) / 1000;
  const rates = (prefix, make) => {
    const old = numbered(before.info, prefix);
    return numbered(now.info, prefix).map((each, index) => {
      const rate = (field) => Math.max(0, each[field] - (old[index]?.[field] ?? 0)) / seconds;
      return {index, ...make(each, rate)};
    });
  };
  threadTable.show(
      rates('thread', (thread, rate) => ({
                        cpu: 100 * (rate('cpu_user') + rate('cpu_sys')),
                        commands: rate('commands'),
                        clients: thread.clients,
                        messages: rate('messages'),
                        wakeups: rate('wakeups'),
                      })),
  );
  shardTable.show(
      rates('shard', (shard, rate) => ({
                       thread: shard.thread,
                       keys: shard.keys,
                       expires: shard.expires,
                       memory: shard.used_memory,
                       reads: rate('hits') + rate('misses'),
                       queue: shard.queue,
                     })),
  );
}

const replicaTable = new Table('replica-table', REPLICA_COLUMNS);

function showReplicas({info}) {
  const kept = bytes(Number(info.repl_backlog_histlen ?? 0));
  $('replica-note').textContent = info.repl_backlog_active === '1' ?
      `Stream ${info.master_replid}: its last ${kept} are kept for replicas that come back.` :
      'There is no stream: no replica has connected yet.';
  replicaTable.show(replicationRows(info));
}

const commandTable = new Table(
    'command-table',
    [
      {title: 'Command', of: (c) => c.name, is_text: true},
      {title: 'Calls/s', of: (c) => c.calls, show: count},
      {title: 'Mean', of: (c) => c.mean, show: micros},
      {title: 'p50', of: (c) => c.p50, show: micros},
      {title: 'p99', of: (c) => c.p99, show: micros},
      {title: 'Time', of: (c) => c.share, show: percent},
      {title: 'Failed/s', of: (c) => c.failed, show: count},
      {title: 'Refused/s', of: (c) => c.rejected, show: count},
    ],
    {sort: 1, empty: 'no command was called'});
const errorTable = new Table(
    'error-table',
    [
      {title: 'Error', of: (e) => e.code, is_text: true},
      {title: 'Replies', of: (e) => e.count, show: count},
    ],
    {sort: 1});

function showCommands(now) {
  const errors = [];
  for (const [key, value] of Object.entries(now.info)) {
    if (key.startsWith('errorstat_'))
      errors.push({code: key.slice(10), count: fieldsOf(value).count});
  }
  errorTable.show(errors);
  if (before === null) return;
  const seconds = (now.at - before.at) / 1000;
  const rows = [];
  for (const [key, value] of Object.entries(now.info)) {
    if (!key.startsWith('cmdstat_')) continue;
    const name = key.slice(8);
    const after = fieldsOf(value);
    const old = before.info[key] === undefined ? {} : fieldsOf(before.info[key]);
    const rate = (field) => Math.max(0, after[field] - (old[field] ?? 0)) / seconds;
    if (rate('calls') + rate('rejected_calls') === 0) continue;
    const buckets = bucketsBetween(before.histograms, now.histograms, [name]);
    rows.push({
      name,
      calls: rate('calls'),
      mean: rate('calls') === 0 ? 0 : rate('usec') / rate('calls'),
      p50: percentile(buckets, 0.5) ?? 0,
      p99: percentile(buckets, 0.99) ?? 0,
      share: rate('usec') / 1e4,
      failed: rate('failed_calls'),
      rejected: rate('rejected_calls'),
    });
  }
  commandTable.show(rows);
}

const slowTable = new Table(
    'slow-table',
    [
      {
        title: 'When',
        of: (s) => s.time,
        show: (at) => new Date(at * 1000).toLocaleTimeString(),
        is_text: true
      },
      {title: 'Took', of: (s) => s.usec, show: micros},
      {title: 'Ran', of: (s) => s['run-usec'], show: micros},
      {title: 'Locks', of: (s) => s['locks-usec'], show: micros},
      {title: 'Held by', of: (s) => holderOf(s), is_text: true},
      {title: 'Before: queue', of: (s) => s['queue-usec'], show: micros},
      {
        title: 'Then: send',
        of: (s) => s['send-usec'],
        show: (usec) => usec < 0 ? '' : micros(usec)
      },
      {title: 'Of it: disk', of: (s) => s['disk-usec'], show: micros},
      {title: 'Command', of: (s) => s.command.map(textOf).join(' '), is_text: true},
      {title: 'Client', of: (s) => textOf(s.client), is_text: true},
      {title: 'Name', of: (s) => textOf(s['client-name']), is_text: true},
    ],
    {sort: 0, empty: 'nothing was slow'});

function holderOf(entry) {
  const client = entry['locks-held-by-client'];
  return textOf(entry['locks-held-by']) + (client === 0 ? '' : ` (client ${client})`);
}

async function refreshSlow() {
  const [log, limit] =
      await ask(['SLOWLOG', 'EXPLAIN', '100'], ['CONFIG', 'GET', 'slowlog-log-slower-than']);
  if (errorOf(log) !== null) return fail(errorOf(log));
  const usec = textOf(pairsOf(limit)[0]?.[1] ?? '');
  $('slow-note').textContent = usec === '' ?
      '' :
      `Commands that took more than ${micros(Number(usec))} (slowlog-log-slower-than).`;
  slowTable.show(log.map(
      (entry) => Object.fromEntries(pairsOf(entry).map(([name, value]) => [textOf(name), value]))));
}

const CLIENTS_SHOWN = 200;
const sure = new Set();  // clients whose button was pressed once
const clientTable = new Table(
    'client-table',
    [
      {title: 'Id', of: (c) => Number(c.id)},
      {title: 'Address', of: (c) => c.addr, is_text: true},
      {title: 'Name', of: (c) => c.name, is_text: true},
      {title: 'User', of: (c) => c.user, is_text: true},
      {
        title: 'Library',
        of: (c) => [c['lib-name'], c['lib-ver']].filter(Boolean).join(' '),
        is_text: true
      },
      {title: 'Flags', of: (c) => c.flags, is_text: true},
      {title: 'DB', of: (c) => Number(c.db)},
      {title: 'Age', of: (c) => Number(c.age), show: duration},
      {title: 'Idle', of: (c) => Number(c.idle), show: duration},
      {title: 'Unsent', of: (c) => Number(c.omem), show: bytes},
      {title: 'Memory', of: (c) => Number(c['tot-mem']), show: bytes},
      {title: 'Command', of: (c) => c.cmd, is_text: true},
    ],
    {sort: 10, max: CLIENTS_SHOWN, tail: killButton});
const blockedTable = new Table(
    'blocked-table',
    [
      {title: 'Id', of: (c) => c.id},
      {title: 'Address', of: (c) => c.addr, is_text: true},
      {title: 'Name', of: (c) => c.name, is_text: true},
      {title: 'Command', of: (c) => c.cmd, is_text: true},
      {title: 'Waits for', of: (c) => c.keys.join(' '), is_text: true},
      {title: 'For', of: (c) => c.ms, show: (ms) => duration(ms / 1000)},
    ],
    {sort: 5, max: CLIENTS_SHOWN, empty: 'no client waits for a key'});

function killButton(client) {
  const button = element(
      'button', sure.has(client.id) ? 'Really?' : 'Kill', sure.has(client.id) ? 'sure' : '');
  button.setAttribute('aria-label', `Kill client ${client.id}`);
  button.addEventListener('click', async () => {
    if (!sure.has(client.id)) {
      sure.add(client.id);
      setTimeout(() => sure.delete(client.id), 4000);
      button.textContent = 'Really?';
      button.className = 'sure';
      return;
    }
    sure.delete(client.id);
    button.disabled = true;
    await guarded(async () => {
      const [reply] = await ask(['CLIENT', 'KILL', 'ID', String(client.id)]);
      if (errorOf(reply) !== null) return fail(errorOf(reply));
      await refreshClients();
    });
  });
  return button;
}

const ofLimit = (used, limit, show) =>
    limit === 0 ? show(used) : `${show(used)} of ${show(limit)}`;
const perSecond = (show) => (limit) => limit === 0 ? '' : `${show(limit)}/s`;
const quotaTable = new Table(
    'quota-table',
    [
      {title: 'Of', of: (q) => q.owner, is_text: true},
      {title: 'Commands', of: (q) => q.commands, show: perSecond(count)},
      {title: 'Bytes', of: (q) => q.bytes, show: perSecond(bytes)},
      {
        title: 'Connections',
        of: (q) => q.used_connections,
        show: (used, q) => ofLimit(used, q.connections, count)
      },
      {
        title: 'Memory',
        of: (q) => q.used_memory,
        show: (used, q) => ofLimit(used, q.memory, bytes)
      },
      {title: 'Delayed', of: (q) => q.delayed, show: count},
      {title: 'Refused', of: (q) => q.refused + q.refused_connections + q.refused_writes},
      {title: 'Disconnected', of: (q) => q.evicted_clients, show: count},
    ],
    {sort: 5});
function showQuotas(now) {
  const quotas = [];
  for (const [key, value] of Object.entries(now.info)) {
    const [, kind, name] = /^quota_(user|db)_(.*)$/.exec(key) ?? [];
    if (kind !== undefined) quotas.push({owner: `${kind} ${name}`, ...fieldsOf(value)});
  }
  $('quotas').hidden = quotas.length === 0;
  quotaTable.show(quotas);
}

// "a=1 b=2 name=": values have no blanks.
const parseClient = (line) => Object.fromEntries(line.split(' ').map(
    (part) => [part.slice(0, part.indexOf('=')), part.slice(part.indexOf('=') + 1)]));

let clients = [];
async function refreshClients() {
  const [list, blocked] = await ask(['CLIENT', 'LIST'], ['CLIENT', 'BLOCKED']);
  if (errorOf(list) !== null) return fail(errorOf(list));
  clients = list.split('\n').filter(Boolean).map(parseClient);
  showClients();
  if (errorOf(blocked) !== null) return fail(errorOf(blocked));
  blockedTable.show(
      blocked.map(objectOf).map((each) => ({
                                  id: each.id,
                                  addr: textOf(each.addr),
                                  name: textOf(each.name),
                                  cmd: textOf(each.cmd),
                                  keys: each.keys.map(textOf),
                                  ms: each.milliseconds,
                                })),
  );
}
function showClients() {
  const wanted = $('client-filter').value.trim().toLowerCase();
  const rows = clients.filter(
      (c) => wanted === '' ||
          [c.addr, c.name, c.user, c.cmd, c['lib-name']].some(
              (text) => text.toLowerCase().includes(wanted)),
  );
  $('client-note').textContent = rows.length > CLIENTS_SHOWN ?
      `${CLIENTS_SHOWN} of ${rows.length} are shown.` :
      `${rows.length} of ${clients.length}`;
  clientTable.show(rows);
}
$('client-filter').addEventListener('input', showClients);

const keyTable = new Table(
    'key-table',
    [
      {title: 'Key', of: (k) => k.key, is_text: true},
      {title: 'Commands/s', of: (k) => k.rate, show: count},
      {title: 'Of all', of: (k) => k.share, show: meter, is_text: true},
    ],
    {sort: 1, empty: 'no command had a key'});

$('sample').addEventListener(
    'click',
    () => guarded(async () => {
      const seconds = 5;
      $('sample').disabled = true;
      $('sample-note').textContent = 'counting';
      try {
        const [reply] = await ask(['CLIENT', 'HOTKEYS', String(seconds * 1000), '50']);
        if (errorOf(reply) !== null) return fail(errorOf(reply));
        const {keys, total} = objectOf(reply);
        keyTable.show(
            pairsOf(keys).map(
                ([key, calls]) =>
                    ({key: textOf(key), rate: calls / seconds, share: (100 * calls) / total})),
        );
        $('sample-note').textContent = `${count(total / seconds)} uses of keys a second`;
      } finally {
        $('sample').disabled = false;
        if ($('sample-note').textContent === 'counting') $('sample-note').textContent = '';
      }
    }),
);

// --- Command line ---

// As redis-cli shows replies.
function shown(value, indent = '') {
  if (value === null) return '(nil)';
  if (typeof value === 'number')
    return Number.isInteger(value) ? `(integer) ${value}` : `(double) ${value}`;
  if (typeof value === 'boolean') return `(${value})`;
  if (typeof value === 'string') return JSON.stringify(value);
  if (isTagged(value, 'error')) return `(error) ${textOf(value)}`;
  if (isTagged(value, 'base64')) return `"${textOf(value)}"`;
  if (isTagged(value, 'integer')) return `(integer) ${value.integer}`;
  if (isTagged(value, 'double')) return `(double) ${value.double}`;
  const is_map = isTagged(value, 'map');
  const items = is_map ? value.map : value;
  if (items.length === 0) return is_map ? '(empty hash)' : '(empty array)';
  const width = String(items.length).length;
  const deeper = indent + ' '.repeat(width + 2);
  return items
      .map((item, i) => {
        const head =
            (i === 0 ? '' : indent) + String(i + 1).padStart(width) + (is_map ? '# ' : ') ');
        return head +
            (is_map ? `${shown(item[0], deeper)} => ${shown(item[1], deeper)}` :
                      shown(item, deeper));
      })
      .join('\n');
}

const said = [];
let said_at = 0;
$('command-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const line = $('command').value.trim();
  if (line === '') return;
  said.push(line);
  said_at = said.length;
  $('command').value = '';
  guarded(async () => {
    print('> ' + line, 'asked');
    let text;
    let is_bad = false;
    try {
      const [reply] = await ask(line);
      is_bad = errorOf(reply) !== null;
      // INFO and CLIENT LIST are texts.
      text = typeof reply === 'string' && reply.includes('\n') ? reply : shown(reply);
    } catch (error) {
      if (error instanceof Refused) throw error;
      is_bad = true;
      text = `(error) ${error.message}`;
    }
    print(text, is_bad ? 'bad' : '');
  });
});
$('command').addEventListener('keydown', (event) => {
  const step = {ArrowUp: -1, ArrowDown: 1}[event.key];
  if (step === undefined) return;
  event.preventDefault();
  said_at = Math.min(Math.max(said_at + step, 0), said.length);
  $('command').value = said[said_at] ?? '';
});
function print(text, classes) {
  $('output').append(element('div', text, classes));
  while ($('output').children.length > 500) $('output').firstChild.remove();
  $('output').scrollTop = $('output').scrollHeight;
}

// --- The loop ---

let tab = 'overview';
let timer = null;

function fail(text) {
  $('failure').textContent = text;
  $('failure').hidden = false;
}

function setState(text, is_live) {
  $('state').textContent = text;
  $('state').classList.toggle('live', is_live);
}

async function guarded(work) {
  try {
    await work();
    return true;
  } catch (error) {
    if (error instanceof Refused) {
      showLogin(authorization === null ? '' : error.message);
    } else {
      setState('no connection', false);
      fail(error.message);
    }
    return false;
  }
}

async function refresh() {
  const [text, latencies] = await ask(['INFO', 'everything'], ['LATENCY', 'HISTOGRAM']);
  $('login').hidden = true;
  $('pages').hidden = false;
  $('logout').hidden = authorization === null;
  setState('live', true);
  $('failure').hidden = true;
  if (errorOf(text) !== null) return fail(errorOf(text));
  const now = {
    at: performance.now(),
    info: parseInfo(text),
    histograms: errorOf(latencies) === null ? parseHistograms(latencies) : {},
  };
  showOverview(now);
  showThreads(now);
  showReplicas(now);
  showCommands(now);
  showQuotas(now);
  before = now;
  if (tab === 'slow') await refreshSlow();
  if (tab === 'clients') await refreshClients();
}

async function loop() {
  clearTimeout(timer);
  const is_on = document.hidden || (await guarded(refresh));
  clearTimeout(timer);  // of a loop that was begun meanwhile
  if ($('login').hidden || is_on) timer = setTimeout(loop, PERIOD_MS);
}

function showLogin(why) {
  clearTimeout(timer);
  authorization = null;
  before = null;
  $('pages').hidden = true;
  $('failure').hidden = true;
  $('logout').hidden = true;
  $('login').hidden = false;
  $('login-error').textContent = why;
  setState('not logged in', false);
}

$('login').addEventListener('submit', (event) => {
  event.preventDefault();
  const form = $('login').elements;
  const both = new TextEncoder().encode(`${form.user.value}:${form.password.value}`);
  authorization = 'Basic ' + btoa(String.fromCharCode(...both));
  form.password.value = '';
  loop();
});
$('logout').addEventListener('click', () => {
  $('output').replaceChildren();
  showLogin('');
});

for (const button of document.querySelectorAll('nav button')) {
  button.addEventListener('click', () => {
    tab = button.dataset.tab;
    for (const each of document.querySelectorAll('nav button')) {
      each.setAttribute('aria-selected', String(each === button));
    }
    for (const page of document.querySelectorAll('main > section')) page.hidden = page.id !== tab;
    for (const chart of Object.values(charts)) chart.draw();
    if (tab === 'box') $('command').focus();
    if ($('login').hidden) loop();
  });
}
window.addEventListener('resize', () => Object.values(charts).forEach((chart) => chart.draw()));

loop();
