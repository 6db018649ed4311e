import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProxiedServer, ProxySnapshot } from '../src/api.ts';
import { figures, findings, ofServer, unevenness } from '../src/proxied.ts';

function server(name: string, load: number, more: Partial<ProxiedServer> = {}): ProxiedServer {
  return { name, pool: 'main', state: 'up', cause: null, load, bytes_per_s: 0, p50_us: 1, p99_us: 2, queued: 0, shed_per_s: 0, ...more };
}

function snapshot(servers: ProxiedServer[], more: Partial<ProxySnapshot> = {}): ProxySnapshot {
  const requests_per_s = servers.reduce((sum, it) => sum + it.load, 0);
  const rates = { requests_per_s, reads_per_s: requests_per_s, hits_per_s: requests_per_s, writes_per_s: 0, bytes_per_s: 0, shed_per_s: 0 };
  return { unix_s: 1, ...rates, p50_us: 1, p99_us: 2, clients: 3, servers, hottest: [], events: [], heat: [], ...more };
}

const said = (seen: ProxySnapshot) => findings(seen).map((it) => `${it.level}: ${it.text}`);

test('where nothing is wrong it is said how even the servers are', () => {
  assert.deepEqual(said(snapshot([server('a', 110), server('b', 90)])), ['good: 2 servers, none out of use; the busiest answers 1.10 × the mean.']);
  assert.deepEqual(said(snapshot([server('a', 1)])), ['good: 1 server, none out of use; little is asked.']);
  assert.equal(unevenness(snapshot([])), 1);
});

test('a server out of use, requests that are refused, and the key that makes a server busy are named', () => {
  const key = { key: 'k', pool: 'main', home: 'a', gets_per_s: 60, sets_per_s: 0, bytes_per_s: 0, share: 0.6, copies: 0, why: 'hot_keys is off' };
  const servers = [server('a', 300, { shed_per_s: 7 }), server('b', 50), server('c', 0, { state: 'down', cause: 'refused' })];
  const seen = snapshot(servers, { shed_per_s: 7, hottest: [{ ...key, home: 'b' }, key] });
  assert.deepEqual(said(seen), [
    'bad: c is out of use: refused.',
    'bad: 7 requests/s are refused: a cannot keep up.',
    'warn: a answers 2.57 × the mean: one key, k, is 60 % of all requests; no copies: hot_keys is off.',
  ]);
  assert.equal(Object.fromEntries(figures(seen))['servers in use'], '2 of 3');
});

test('reads that find little are a note', () => {
  const seen = snapshot([server('a', 100), server('b', 100)], { hits_per_s: 20 });
  assert.deepEqual(said(seen)[0], 'note: 10 % of the reads find an item.');
});

test('events of servers are marks', () => {
  const down = ofServer({ unix_s: 5, server: 'a', is_up: false, cause: 'timeout' });
  assert.deepEqual(down, { id: '5 a is out of use: timeout', unix_s: 5, kind: 'death', text: 'a is out of use: timeout' });
  assert.equal(ofServer({ unix_s: 6, server: 'a', is_up: true, cause: '' }).kind, 'join');
});
