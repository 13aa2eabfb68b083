// SPDX-License-Identifier: Apache-2.0
// The console's tree of replicas. Loaded before console.js, whose helpers it uses once that is
// there.
'use strict';

const NOT_KNOWN = '–';
const orNotKnown = (show) => (value) => (value === null ? NOT_KNOWN : show(value));

const REPLICA_COLUMNS = [
  {title: 'Server', of: (s) => s, show: (s) => branch(s.depth) + s.name, is_text: true},
  {title: 'Role', of: (s) => s.role, is_text: true},
  {
    title: 'State',
    of: (s) => s.state,
    show: (state, s) => element('span', state, s.is_bad ? 'bad' : ''),
    is_text: true
  },
  // To the byte: whoever compares two servers needs all digits.
  {title: 'Offset', of: (s) => s.offset, show: orNotKnown(String)},
  {title: 'Behind', of: (s) => s.behind, show: orNotKnown((size) => bytes(size))},
  {title: 'Last message', of: (s) => s.heard, show: orNotKnown((s) => duration(s) + ' ago')},
  {title: 'Connected for', of: (s) => s.age, show: orNotKnown((s) => duration(s))},
];

// Blanks that a browser keeps.
const branch = (depth) => (depth === 0 ? '' : '\u00a0'.repeat(3 * (depth - 1)) + '└─\u00a0');

// An IPv6 address has colons itself.
const addressOf = (host, port) => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);

// The primary of this server, if it has one, then this server, then its replicas. A server knows
// no others: the rest of a chain is shown by the consoles of its neighbours.
function replicationRows(info) {
  const number = (name) => Number(info[name] ?? 0);
  const is_replica = info.role === 'slave';
  const offset = number('master_repl_offset');
  const rows = [];
  if (is_replica) {
    const heard = number('master_last_io_seconds_ago');
    rows.push({
      depth: 0,
      name: addressOf(info.master_host, info.master_port),
      role: 'its primary',
      ...linkOf(info, number),
      offset: number('slave_read_repl_offset'),
      behind: null,
      heard: heard < 0 ? null : heard,
      age: null,
    });
  }
  const depth = rows.length;
  rows.push({
    depth,
    name: `port ${info.tcp_port}`,
    role: 'this server',
    ...ownState(info, is_replica),
    offset,
    // What it has read and not carried out. What its primary has not sent, nobody here knows.
    behind: is_replica ? Math.max(0, number('slave_read_repl_offset') - offset) : null,
    heard: null,
    age: null,
  });
  for (const [key, value] of Object.entries(info)) {
    if (!/^slave\d+$/.test(key)) continue;
    const replica = partsOf(value);
    const is_online = replica.state === 'online';
    rows.push({
      depth: depth + 1,
      name: addressOf(replica.ip, replica.port),
      role: 'replica',
      state: is_online ? 'online' : 'takes a copy',
      is_bad: !is_online,
      // It acknowledges nothing before it has its copy.
      offset: is_online ? Number(replica.offset) : null,
      behind: is_online ? Math.max(0, offset - Number(replica.offset)) : null,
      heard: is_online ? Number(replica.lag) : null,
      age: Number(replica.age),
    });
  }
  return rows;
}

function linkOf(info, number) {
  if (info.master_link_status === 'up') return {state: 'link up', is_bad: false};
  if (number('master_sync_in_progress') !== 0) {
    const total = number('master_sync_total_bytes');
    const here = bytes(number('master_sync_read_bytes'));
    const part = total === 0 ? here : `${here} of ${bytes(total)}`;
    return {state: `link down: a copy comes, ${part}`, is_bad: true};
  }
  const seconds = number('master_link_down_since_seconds');
  const since = seconds < 0 ? ', it never was up' : ` for ${duration(seconds)}`;
  return {state: 'link down' + since, is_bad: true};
}

function ownState(info, is_replica) {
  if (info.is_fenced === '1')
    return {state: 'fenced: writes are not answered, too few Sentinels are heard', is_bad: true};
  if (info.master_failover_state !== 'no-failover')
    return {state: `FAILOVER: ${info.master_failover_state}`, is_bad: false};
  if (!is_replica) return {state: 'primary', is_bad: false};
  return {
    state: info.slave_read_only === '1' ? 'replica, read-only' : 'replica, takes writes',
    is_bad: false
  };
}
