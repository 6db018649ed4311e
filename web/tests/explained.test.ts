import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KeyExplained } from '../src/api.ts';
import { sentences } from '../src/explained.ts';
import { clock } from '../src/format.ts';

const calm: KeyExplained = {
  ...{ key: 'user:17', epoch: 7, cachelet: 12, server: 's1', worker: 0, server_up: true, moving: false, quarantined: false },
  ...{ load: null, hot: null, hottest: null },
};

test('a key has a place, and is told when it gets nothing', () => {
  const said = sentences(calm);
  assert.equal(said[0], 'user:17 is in cachelet 12, which s1/0 owns by map 7.');
  assert.ok(said.includes('It is not among the keys that get most.'));
  assert.match(said.at(-1)!, /evenkeel explain --proxy/);
});

test('what is wrong with its place is said', () => {
  assert.match(sentences({ ...calm, server_up: false, moving: true })[0]!, /and s1 is down; it is on its way/);
  assert.match(sentences({ ...calm, server: null, worker: null })[0]!, /nobody owns by map 7/);
  assert.match(sentences({ ...calm, server: null, worker: null, quarantined: true })[0]!, /in quarantine/);
});

test('what is done about it is said, or why nothing is', () => {
  const load = { reads_per_s: 400, hits_per_s: 200, writes_per_s: 3, items: 1, memory_bytes: 2048 };
  const key = { server: 's1', worker: 0, key: 'user:17' };
  const hot = { ...key, state: 'hot', rps: 400, load_rps: 402, gamma: 3, shadows: [], replicas_since_unix_s: 1_800_000_000 };
  const said = sentences({ ...calm, load, hot });
  assert.equal(said[1], 'The cachelet gets 400 reads/s (50 % find an item) and 3 writes/s, and has 1 item in 2.0 KB.');
  assert.equal(said[2], `It is hot: 402 requests/s, 3 copies since ${clock(1_800_000_000)}.`);
  const hottest = { ...key, gets_per_s: 12, sets_per_s: 1, bytes_per_s: 0, load_rps: 13, share: 0.1, why: 'its worker is 4 % busy, and looks from 30 %' };
  assert.equal(sentences({ ...calm, hottest })[1], 'It gets 12 gets/s and 1 sets/s. It has no copies: its worker is 4 % busy, and looks from 30 %.');
});
