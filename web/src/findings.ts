// What is wrong, in sentences. A pure function of a snapshot.

import type { HeatRow, HotKey, Snapshot, Spread, Worker } from './api.ts';
import { clock, count, counted, duration, percent, times } from './format.ts';
import type { History } from './history.ts';

export type Level = 'bad' | 'warn' | 'note' | 'good';

export interface Finding {
  level: Level;
  text: string;
}

/** A worker that is busy for this much of its time has no room for a burst. The coordinator counts them by the same. */
const FULL = 0.9;
/** This much above the mean is worth a word, if anything is asked at all. */
const UNEVEN = 1.5;
/** From this much above the mean on a worker counts as uneven when it is said since when. */
const UNEVEN_SINCE = 1.2;
/** Columns in a row in which it is not, and which do not end that: loads waver. */
const PAUSE_COLUMNS = 5;
/** Fewer requests a second than this in the whole cluster say nothing about balance. */
const QUIET_RPS = 50;
/** A cachelet that is this much of its worker's load is one key's, or a few keys'. */
const ALONE = 0.4;
/** So few reads that find something are seldom meant. */
const LOW_HITS = 0.5;
/** Hot keys that are named in sentences; the table has all. */
const KEYS_NAMED = 2;

const LEVELS: Level[] = ['bad', 'warn', 'note', 'good'];

/** The worst first, with since when as far as the history says. Never empty. */
export function findings(seen: Snapshot, history: History | null): Finding[] {
  const found = [...members(seen), ...workers(seen, history), ...keys(seen), ...plans(seen), ...scales(seen), ...hits(seen)];
  if (!found.some((it) => it.level === 'bad' || it.level === 'warn')) found.push(good(seen));
  return found.sort((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level));
}

export const served = (worker: Worker): number => worker.load + worker.replica_load;

/** Of a worker, or of a server where no worker is meant. */
export const nameOf = ({ server, worker }: HeatRow): string => (worker === null ? server : `${server}/${worker}`);

export function maxOverMean(spread: Spread): number {
  return spread.load_mean > 0 ? spread.load_max / spread.load_mean : 1;
}

/** Load of the most loaded worker by the mean of all; 1 where there is none. */
export function unevenness(seen: Snapshot): number {
  const mean = meanLoad(seen);
  return mean > 0 ? Math.max(...seen.loads.workers.map(served)) / mean : 1;
}

/** Mean load of all workers. */
export function meanLoad({ totals }: Snapshot): number {
  return totals.workers ? totals.load / totals.workers : 0;
}

function members(seen: Snapshot): Finding[] {
  const found: Finding[] = [];
  if (seen.servers.epoch === 0) {
    found.push({ level: 'warn', text: `There is no map yet: the coordinator waits for more servers than the ${seen.totals.servers_up} that are up.` });
  }
  for (const server of seen.servers.servers) {
    if (!server.up) {
      const left = server.cachelets + server.released;
      const rest = left ? `; ${counted(left, 'cachelet')} of its are not served` : '; others have its cachelets';
      found.push({ level: left ? 'bad' : 'warn', text: `${server.name} is down, silent for ${duration(server.silent_ms)}${rest}.` });
    } else if (server.draining) {
      found.push({ level: 'note', text: `${server.name} is drained: ${counted(server.cachelets, 'cachelet')} to go.` });
    }
  }
  for (const load of seen.loads.servers) {
    if (load.unusable) found.push({ level: 'warn', text: `What ${load.server} tells of its load cannot be used: ${load.unusable}.` });
  }
  const down = seen.proxies.proxies.filter((it) => !it.up).map((it) => it.name);
  if (down.length) found.push({ level: 'warn', text: `Silent: ${counted(down.length, 'proxy', 'proxies')} (${down.slice(0, 3).join(', ')}).` });
  const refused = seen.proxies.proxies.reduce((sum, it) => sum + it.shed_per_s, 0);
  if (refused >= 1) found.push({ level: 'bad', text: `Proxies refuse ${counted(Math.round(refused), 'request')}/s: servers have more to do than they can.` });
  const quarantined = seen.loads.quarantined.length;
  if (quarantined) {
    const text = `${counted(quarantined, 'cachelet')} in quarantine: owners died one after the other. evenkeel cachelets shows them, and releases them.`;
    found.push({ level: 'bad', text });
  }
  return found;
}

function workers(seen: Snapshot, history: History | null): Finding[] {
  const all = seen.loads.workers;
  const mean = meanLoad(seen);
  const busiest = [...all].sort((a, b) => b.busy - a.busy || served(b) - served(a))[0];
  const found: Finding[] = [];
  if (busiest && busiest.busy >= FULL) {
    const text = `${nameOf(busiest)} is at ${percent(Math.min(busiest.busy, 1))} of its capacity${because(seen, busiest)}${lasting(history, busiest)}.`;
    found.push({ level: 'bad', text });
    const others = seen.totals.workers_full - 1;
    if (others > 0) found.push({ level: 'bad', text: `${counted(others, 'other worker')} of ${count(seen.totals.workers)} ${others === 1 ? 'is' : 'are'} as full.` });
  }
  const loaded = [...all].sort((a, b) => served(b) - served(a))[0];
  const named = loaded === busiest && found.length > 0;
  if (loaded && !named && all.length > 1 && seen.totals.load >= QUIET_RPS && served(loaded) >= UNEVEN * mean) {
    const text = `${nameOf(loaded)} serves ${times(served(loaded) / mean)} the mean${because(seen, loaded)}${lasting(history, loaded)}.`;
    found.push({ level: 'warn', text });
  }
  for (const server of seen.servers.servers) {
    if (server.up && server.asks_for_moves) {
      found.push({ level: 'warn', text: `${server.name} is overloaded, cannot help itself and asks for cachelets to be moved away.` });
    }
  }
  return found;
}

/** Since when a worker has more than its share. */
function lasting(history: History | null, worker: Worker): string {
  const isOf = (row: HeatRow) => row.server === worker.server && (row.worker ?? worker.worker) === worker.worker;
  const place = history?.workers.findIndex(isOf) ?? -1;
  if (!history || history.of !== 'load' || place < 0) return '';
  let since: number | null = null;
  let pause = 0;
  for (let i = history.columns.length - 1; i >= 0 && pause <= PAUSE_COLUMNS; i -= 1) {
    const { workers, unix_s, mean } = history.columns[i]!;
    const isUneven = (workers[place] ?? 0) >= UNEVEN_SINCE * mean && mean > 0;
    pause = isUneven ? 0 : pause + 1;
    if (isUneven) since = unix_s;
  }
  return since === null ? '' : `; more than ${UNEVEN_SINCE} × the mean since ${clock(since)}`;
}

/** What makes a worker's load: a key with copies, or a cachelet in which there must be one. */
function because(seen: Snapshot, worker: Worker): string {
  const key = seen.hot_keys.keys.find((it) => nameOf(it) === nameOf(worker));
  const own = worker.load + worker.diverted_load;
  if (key && own > 0 && key.load_rps >= own / 10) {
    return `: one key, ${key.key}, is ${percent(Math.min(key.load_rps / own, 1))} of what it is asked for; ${copies(key)}`;
  }
  const heat = seen.heat.find((it) => it.of === 'load');
  const column = heat?.columns[0];
  const row = heat?.workers.findIndex((it) => nameOf(it) === nameOf(worker)) ?? -1;
  let hottest = -1;
  column?.cachelets.forEach((load, number) => {
    const before = hottest < 0 ? 0 : column.cachelets[hottest]!;
    if (column.owners[number] === row && (load ?? 0) > before) hottest = number;
  });
  const part = hottest < 0 || worker.load <= 0 ? 0 : column!.cachelets[hottest]! / worker.load;
  if (part < ALONE) return '';
  const off = seen.settings.hot_keys === 'on' ? '' : `; hot keys are not copied (hot_keys is ${seen.settings.hot_keys})`;
  return `: cachelet ${hottest} alone is ${percent(Math.min(part, 1))} of its load${off}`;
}

/** 5 copies since 12:03:07. */
export function copies(key: HotKey): string {
  const since = key.replicas_since_unix_s === null ? '' : ` since ${clock(key.replicas_since_unix_s)}`;
  return key.gamma ? `${counted(key.gamma, 'copy', 'copies')}${since}` : 'no copies';
}

function keys(seen: Snapshot): Finding[] {
  const total = seen.totals.load;
  return seen.hot_keys.keys.slice(0, KEYS_NAMED).map((key) => {
    const part = total > 0 ? `, ${percent(Math.min(key.load_rps / total, 1))} of all` : '';
    const text = `Hot key ${key.key}: ${count(key.load_rps)} requests/s${part}; home ${nameOf(key)}, ${copies(key)}.`;
    return { level: 'note', text };
  });
}

function plans(seen: Snapshot): Finding[] {
  const { plans, verdict, servers_wanted, settings } = seen.plans;
  const open = plans.find((it) => ['proposed', 'approved', 'running'].includes(it.state));
  const found: Finding[] = [];
  if (open) {
    const effect = `the busiest worker from ${times(maxOverMean(open.before))} to ${times(maxOverMean(open.predicted))} the mean`;
    if (open.state !== 'proposed') {
      found.push({ level: 'note', text: `Plan ${open.id} is ${open.state}: ${open.moved} of ${counted(open.moves, 'move')} done; it should bring ${effect}.` });
    } else if (settings.mode === 'observe') {
      found.push({ level: 'note', text: `Plan ${open.id} would bring ${effect}; plans are only observed.` });
    } else {
      found.push({ level: 'warn', text: `Plan ${open.id} waits for approval: it would bring ${effect}.` });
    }
  }
  if (verdict === 'add_servers') {
    const many = servers_wanted ? `${counted(servers_wanted, 'more server')}` : 'more servers';
    found.push({ level: 'bad', text: `The whole cluster is hot: only ${many} would help.` });
  }
  return found;
}

function scales(seen: Snapshot): Finding[] {
  const underWay = ['starting', 'joining', 'draining', 'stopping'];
  return seen.scale.flatMap((scale): Finding[] => {
    if (scale.waits_for_approval) return [{ level: 'warn', text: `Autoscaling of ${scale.pool}: ${scale.why}.` }];
    if (!underWay.includes(scale.phase.is)) return [];
    return [{ level: 'note', text: `${scale.pool} goes from ${counted(scale.servers, 'server')} to ${scale.wanted}: ${scale.why}.` }];
  });
}

function hits(seen: Snapshot): Finding[] {
  const { reads_per_s, hits_per_s } = seen.totals;
  if (reads_per_s < QUIET_RPS || hits_per_s >= LOW_HITS * reads_per_s) return [];
  return [{ level: 'warn', text: `Only ${percent(hits_per_s / reads_per_s)} of ${count(reads_per_s)} reads/s find an item.` }];
}

function good(seen: Snapshot): Finding {
  const all = seen.loads.workers;
  if (!all.length) return { level: 'note', text: 'No server has told of its load yet.' };
  if (seen.totals.load < QUIET_RPS) return { level: 'good', text: `Nothing is wrong; ${count(seen.totals.load)} requests/s are hardly a load.` };
  const busy = Math.max(...all.map((it) => it.busy));
  return { level: 'good', text: `Nothing is wrong: the busiest worker serves ${times(unevenness(seen))} the mean, and the fullest is at ${percent(busy)} of its capacity.` };
}
