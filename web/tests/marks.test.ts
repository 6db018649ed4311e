import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Marks, ofKey, ofMap } from '../src/marks.ts';

test('each event is a mark once, in the order of time', () => {
  const marks = new Marks();
  const joined = ofMap({ epoch: 2, unix_s: 20, cause: 'server_joined', servers: ['s3'], cachelets: 0 });
  const told = (unix_ms: number) => ofKey({ server: 's1', boot: 7, worker: 0, number: 3, unix_ms, deed: 'promoted', cause: 'promoted', key: 'k', gamma_before: 0, gamma: 5, key_share: 0.46 });
  marks.add(joined);
  // The same event, told again a moment later.
  marks.add([...told(10_900), ...told(11_001), ...joined]);
  assert.deepEqual(marks.all, [
    { id: 's1/0 7 3', unix_s: 10, kind: 'key', text: 'k (home s1/0) promoted: 0 → 5 copies, 46 % of its load' },
    { id: '2 server_joined s3', unix_s: 20, kind: 'join', text: 's3 joined' },
  ]);
});

test('steps of other changes have no mark', () => {
  assert.deepEqual(ofMap({ epoch: 2, unix_s: 20, cause: 'cachelets_released', servers: ['s3'], cachelets: 4 }), []);
});
