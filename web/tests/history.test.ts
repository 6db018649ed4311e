import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Heat, HeatColumn } from '../src/api.ts';
import { History, ROWS_MAX, SPANS, layout, roundUp, valueOf } from '../src/history.ts';

function column(unix_s: number, workers: (number | null)[], cachelets: (number | null)[], owners: (number | null)[]): HeatColumn {
  const told = workers.filter((it) => it !== null);
  const sum = told.reduce((sum, it) => sum + it, 0);
  return { unix_s, sum, mean: sum / told.length, reads: 0, hits: 0, p50_us: null, p99_us: null, shed_per_s: 0, workers, cachelets, owners };
}

function heat(workers: string[], ...columns: HeatColumn[]): Heat {
  const named = workers.map((name) => ({ server: name.split('/')[0]!, worker: Number(name.split('/')[1]) }));
  return { of: 'load', interval_ms: 1000, workers: named, cachelets: 4, columns };
}

test('workers keep their place when others come, and what was told before is not told again', () => {
  const history = new History('load', SPANS[0]!, heat(['s2/0'], column(1, [5], [1, 4], [0, 0])));
  assert.equal(history.taken, 0);
  history.take(heat(['s1/0', 's2/0'], column(1, [9, 9], [9, 9], [0, 0]), column(2, [3, 4], [3, 4], [0, 1])));
  assert.equal(history.taken, 1);
  assert.deepEqual(history.columns.map((it) => it.workers), [[5], [4, 3]]);
  assert.deepEqual(history.columns.at(-1)!.owners, [1, 0]);
});

test('only this many columns are kept', () => {
  const span = { ...SPANS[0]!, columns: 3 };
  const history = new History('load', span, heat(['s1/0']));
  for (let unix = 1; unix < 9; unix += 1) history.take(heat(['s1/0'], column(unix, [unix], [], [])));
  assert.deepEqual(history.columns.map((it) => it.unix_s), [6, 7, 8]);
  assert.equal(history.taken, 8);
});

test('rows stand by server and worker, numbers as people count them', () => {
  const names = ['s10/0', 's2/1', 's2/0'];
  const last = column(2, [1, 2, 3], [7, null, 5, 6], [0, null, 1, 2]);
  const history = new History('load', SPANS[0]!, heat(names, column(1, [1, 2, 3], [1, 2, 3, 4], [0, 0, 1, 2]), last));
  const rows = layout(history);
  assert.deepEqual(rows.workers.map((it) => names[it.worker]), ['s2/0', 's2/1', 's10/0']);
  // Cachelet 1 is with who had it last.
  assert.deepEqual(rows.cachelets.map((it) => it.cachelets), [[3], [2], [0], [1]]);
  assert.deepEqual(rows.cachelets.map((it) => valueOf(it, last)), [6, 5, 7, null]);
  assert.deepEqual(rows.workers.map((it) => valueOf(it, last)), [3, 2, 1]);
});

test('many cachelets share rows, which show the highest, and so do many servers', () => {
  const many = Array.from({ length: 4 * ROWS_MAX }, (_, i) => i);
  const last = column(1, many, many, many);
  const servers = { ...heat([], last), workers: many.map((n) => ({ server: `s${n}`, worker: null })) };
  const history = new History('load', SPANS[0]!, servers);
  const rows = layout(history);
  for (const part of [rows.workers, rows.cachelets]) {
    assert.equal(part.length, ROWS_MAX);
    assert.equal(valueOf(part[1]!, last), 7);
    assert.deepEqual(part[1]!.workers, [4, 5, 6, 7]);
  }
  assert.deepEqual(history.columns[0]!.peaks, { workers: 4 * ROWS_MAX - 1, cachelets: 4 * ROWS_MAX - 1 });
});

test('scales are round', () => {
  assert.deepEqual([0, 1, 2, 3, 99, 100, 101, 4100].map(roundUp), [1, 1, 2, 3, 100, 100, 150, 5000]);
});
