import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HotKey, Plan, Snapshot, Worker } from '../src/api.ts';
import { findings } from '../src/findings.ts';
import { clock } from '../src/format.ts';
import { History, SPANS } from '../src/history.ts';

const SINCE = 1_800_000_000;

function worker(server: string, worker: number, load: number, busy: number): Worker {
  return { server, worker, load, replica_load: 0, diverted_load: 0, busy, memory_bytes: 0, cachelets: 16, left_out: 0 };
}

function snapshot(workers: Worker[]): Snapshot {
  const names = [...new Set(workers.map((it) => it.server))];
  const load = workers.reduce((sum, it) => sum + it.load, 0);
  const server = (name: string, id: number) => ({
    ...{ id, name, host: 'h', port: 1, up: true, epoch: 3, cachelets: 16, released: 0 },
    ...{ draining: false, asks_for_moves: false, silent_ms: 100 },
  });
  return {
    unix_s: SINCE + 60,
    totals: { servers: names.length, servers_up: names.length, workers: workers.length, workers_full: workers.filter((it) => it.busy >= 0.9).length, load, reads_per_s: load, hits_per_s: load, writes_per_s: 0, bytes_per_s: 0, items: 1, memory_bytes: 1, memory_limit_bytes: 2 },
    servers: { epoch: 3, servers: names.map(server) },
    loads: { servers: names.map((server) => ({ server, unusable: null, memory_limit_bytes: 1, memory_bytes: 1, reads_per_s: 1, hits_per_s: 1 })), workers, quarantined: [] },
    proxies: { epoch: 3, proxies: [] },
    hot_keys: { keys: [], keys_left_out: 0, hottest: [] },
    settings: { hot_keys: 'on' },
    settings_events: [],
    events: [],
    hot_key_events: [],
    plans: { settings: { mode: 'approve' }, verdict: 'even', servers_wanted: null, spread: null, plans: [] },
    drains: [],
    scale: [],
    scale_events: [],
    heat: [],
  };
}

function hotKey(load_rps: number, gamma: number, replicas_since_unix_s: number | null): HotKey {
  return { server: 's2', worker: 0, key: 'celebrity', state: 'hot', rps: load_rps, load_rps, gamma, shadows: [], replicas_since_unix_s };
}

const texts = (seen: Snapshot, history: History | null = null) => findings(seen, history).map((it) => `${it.level}: ${it.text}`);

test('an even load is good news, with how even it is', () => {
  assert.deepEqual(texts(snapshot([worker('s1', 0, 1000, 0.5), worker('s2', 0, 1040, 0.52)])), [
    'good: Nothing is wrong: the busiest worker serves 1.02 × the mean, and the fullest is at 52 % of its capacity.',
  ]);
});

test('a full worker is named with its key, the copies and since when', () => {
  const seen = snapshot([worker('s1', 0, 500, 0.3), worker('s2', 0, 1000, 0.97), worker('s3', 0, 500, 0.3)]);
  seen.loads.workers[1]!.diverted_load = 1000;
  seen.hot_keys.keys = [hotKey(920, 5, SINCE)];
  assert.deepEqual(texts(seen), [
    `bad: s2/0 is at 97 % of its capacity: one key, celebrity, is 46 % of what it is asked for; 5 copies since ${clock(SINCE)}.`,
    `note: Hot key celebrity: 920 requests/s, 46 % of all; home s2/0, 5 copies since ${clock(SINCE)}.`,
  ]);
});

test('a worker with more than its share is named by its cachelet where no key is known', () => {
  const seen = snapshot([worker('s1', 0, 100, 0.2), worker('s2', 0, 400, 0.4)]);
  seen.settings.hot_keys = 'off';
  const column = { unix_s: 1, sum: 500, mean: 250, reads: 0, hits: 0, p50_us: null, p99_us: null, shed_per_s: 0, workers: [100, 400], cachelets: [100, 40, 360], owners: [0, 1, 1] };
  seen.heat = [{ of: 'load', interval_ms: 1000, workers: [{ server: 's1', worker: 0 }, { server: 's2', worker: 0 }], cachelets: 3, columns: [column] }];
  assert.deepEqual(texts(seen), [
    'warn: s2/0 serves 1.60 × the mean: cachelet 2 alone is 90 % of its load; hot keys are not copied (hot_keys is off).',
  ]);
});

test('it is said since when a worker has more than its share, also where its load wavers', () => {
  const seen = snapshot([worker('s1', 0, 100, 0.2), worker('s2', 0, 400, 0.4)]);
  const workers = [{ server: 's1', worker: 0 }, { server: 's2', worker: 0 }];
  const loads = [...Array(9).fill(100), 130, 900, 900, 100, 100, 900, 900];
  const columns = loads.map((load, i) => ({ unix_s: SINCE + i, sum: 100 + load, mean: (100 + load) / 2, reads: 0, hits: 0, p50_us: null, p99_us: null, shed_per_s: 0, workers: [100, load], cachelets: [], owners: [] }));
  const history = new History('load', SPANS[0]!, { of: 'load', interval_ms: 1000, workers, cachelets: 0, columns });
  assert.deepEqual(texts(seen, history), [`warn: s2/0 serves 1.60 × the mean; more than 1.2 × the mean since ${clock(SINCE + 10)}.`]);
});

test('little load says nothing about balance', () => {
  assert.deepEqual(texts(snapshot([worker('s1', 0, 1, 0), worker('s2', 0, 20, 0)])), ['good: Nothing is wrong; 21 requests/s are hardly a load.']);
  assert.deepEqual(texts(snapshot([])), ['note: No server has told of its load yet.']);
});

test('who is down is said first, and whether somebody has what it had', () => {
  const seen = snapshot([worker('s1', 0, 1000, 0.5), worker('s2', 0, 1000, 0.5)]);
  Object.assign(seen.servers.servers[1]!, { up: false, silent_ms: 12_000, cachelets: 16 });
  seen.proxies.proxies = [{ name: 'p1', host: 'h', port: 1, up: false, epoch: 3, requests_per_second: [], p50_us: null, p99_us: null, shed_per_s: 240.4, silent_ms: 1 }];
  seen.hot_keys.keys = [hotKey(10, 0, null)];
  assert.deepEqual(texts(seen), [
    'bad: s2 is down, silent for 12 s; 16 cachelets of its are not served.',
    'bad: Proxies refuse 240 requests/s: servers have more to do than they can.',
    'warn: Silent: 1 proxy (p1).',
    'note: Hot key celebrity: 10 requests/s, 0.5 % of all; home s2/0, no copies.',
  ]);
});

test('a plan that waits is a thing to do, one that is observed is not', () => {
  const spread = (load_max: number) => ({ load_max, load_mean: 100, utilization: 0.5, overloaded: 1 });
  const plan: Plan = {
    ...{ id: 3, state: 'proposed', proposed_unix_s: 1, ended_unix_s: null, moves: 4, moved: 0, bytes: 1 },
    ...{ before: spread(152), predicted: spread(108), measured: null, note: null },
  };
  const seen = snapshot([worker('s1', 0, 1000, 0.5), worker('s2', 0, 1000, 0.5)]);
  seen.plans.plans = [plan];
  assert.equal(texts(seen)[0], 'warn: Plan 3 waits for approval: it would bring the busiest worker from 1.52 × to 1.08 × the mean.');
  seen.plans.settings.mode = 'observe';
  assert.ok(texts(seen).includes('note: Plan 3 would bring the busiest worker from 1.52 × to 1.08 × the mean; plans are only observed.'));
});

test('misses and a cluster that is too small are said', () => {
  const seen = snapshot([worker('s1', 0, 1000, 0.5), worker('s2', 0, 1000, 0.5)]);
  seen.totals.hits_per_s = 200;
  seen.plans.verdict = 'add_servers';
  seen.plans.servers_wanted = 2;
  assert.deepEqual(texts(seen), ['bad: The whole cluster is hot: only 2 more servers would help.', 'warn: Only 10 % of 2,000 reads/s find an item.']);
});

test('servers that come or go are told with the reason, and who waits for approval', () => {
  const seen = snapshot([worker('s1', 0, 1000, 0.5), worker('s2', 0, 1040, 0.52)]);
  const scale = { pool: 'main', settings: { mode: 'automatic', min: 1, max: 8 }, phase: { is: 'starting', name: 'main-7' }, why: 'main-7 is being started', waits_for_approval: false, servers: 2, wanted: 3 };
  const why = 'requests_per_server is 1000, above 600: waits for approval to add servers';
  seen.scale = [scale, { ...scale, pool: 'evenkeel', settings: { mode: 'approve', min: 1, max: 8 }, phase: { is: 'past' }, why, waits_for_approval: true }, { ...scale, pool: 'calm', phase: { is: 'steady' } }];
  assert.deepEqual(texts(seen), [`warn: Autoscaling of evenkeel: ${why}.`, 'note: main goes from 2 servers to 3: main-7 is being started.']);
});
