// What is said of a key: where it lives, and what is done about it.

import type { KeyExplained } from './api.ts';
import { bytes, clock, count, counted, percent } from './format.ts';

export function sentences(it: KeyExplained): string[] {
  return [place(it), ...load(it), attention(it), `What a proxy does with it now: evenkeel explain --proxy HOST:PORT '${it.key}'`];
}

function place(it: KeyExplained): string {
  const where = `${it.key} is in cachelet ${it.cachelet}`;
  if (it.quarantined) return `${where}, which is in quarantine: reads and writes are answered with an error until evenkeel cachelets releases it.`;
  if (it.server === null) return `${where}, which nobody owns by map ${it.epoch}: it is about to get an owner.`;
  const state = it.server_up ? '' : `, and ${it.server} is down`;
  const moves = it.moving ? '; it is on its way to another server' : '';
  return `${where}, which ${it.server}/${it.worker} owns by map ${it.epoch}${state}${moves}.`;
}

function load({ load }: KeyExplained): string[] {
  if (!load) return [];
  const found = load.reads_per_s > 0 ? ` (${percent(Math.min(load.hits_per_s / load.reads_per_s, 1))} find an item)` : '';
  return [`The cachelet gets ${count(load.reads_per_s)} reads/s${found} and ${count(load.writes_per_s)} writes/s, and has ${counted(load.items, 'item')} in ${bytes(load.memory_bytes)}.`];
}

function attention({ hot, hottest }: KeyExplained): string {
  if (hot) {
    const since = hot.replicas_since_unix_s === null ? '' : ` since ${clock(hot.replicas_since_unix_s)}`;
    return `It is ${hot.state.replace('_', ' ')}: ${count(hot.load_rps)} requests/s, ${counted(hot.gamma, 'copy', 'copies')}${since}.`;
  }
  if (hottest) return `It gets ${count(hottest.gets_per_s)} gets/s and ${count(hottest.sets_per_s)} sets/s. It has no copies: ${hottest.why}.`;
  return 'It is not among the keys that get most.';
}
