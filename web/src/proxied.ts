// What a proxy tells, in sentences and marks. Pure functions of a snapshot.

import type { ProxiedKey, ProxySnapshot, ServerEvent } from './api.ts';
import type { Finding } from './findings.ts';
import { count, counted, percent, times } from './format.ts';
import type { Mark } from './marks.ts';

/** This much above the mean is worth a word, if anything is asked at all. */
const UNEVEN = 1.5;
/** Fewer requests a second than this say nothing about balance. */
const QUIET_RPS = 50;
/** A key that is this much of all requests is named. */
const MUCH = 0.1;
/** So few reads that find something are seldom meant. */
const LOW_HITS = 0.5;

/** Load of the busiest server by the mean of all; 1 where there is none. */
export function unevenness({ servers }: ProxySnapshot): number {
  const loads = servers.map((it) => it.load);
  const mean = loads.reduce((sum, it) => sum + it, 0) / loads.length;
  return mean > 0 ? Math.max(...loads) / mean : 1;
}

/** The worst first. Never empty. */
export function findings(seen: ProxySnapshot): Finding[] {
  const found: Finding[] = [];
  for (const { name, state, cause } of seen.servers) {
    if (state === 'down') found.push({ level: 'bad', text: `${name} is out of use${cause ? `: ${cause}` : ''}.` });
  }
  if (seen.shed_per_s >= 1) {
    const full = seen.servers.filter((it) => it.shed_per_s >= 1).map((it) => it.name);
    const who = full.length ? `${full.slice(0, 3).join(', ')} cannot keep up` : 'a server cannot keep up';
    found.push({ level: 'bad', text: `${counted(Math.round(seen.shed_per_s), 'request')}/s are refused: ${who}.` });
  }
  const uneven = unevenness(seen);
  const busiest = [...seen.servers].sort((a, b) => b.load - a.load)[0];
  if (busiest && seen.servers.length > 1 && seen.requests_per_s >= QUIET_RPS && uneven >= UNEVEN) {
    const key = seen.hottest.find((it) => it.home === busiest.name && it.share >= MUCH);
    found.push({ level: 'warn', text: `${busiest.name} answers ${times(uneven)} the mean${key ? `: ${ofKey(key)}` : ''}.` });
  }
  if (seen.reads_per_s >= QUIET_RPS && seen.hits_per_s < LOW_HITS * seen.reads_per_s) {
    found.push({ level: 'note', text: `${percent(seen.hits_per_s / seen.reads_per_s)} of the reads find an item.` });
  }
  if (!found.some((it) => it.level === 'bad' || it.level === 'warn')) {
    const balance = seen.requests_per_s >= QUIET_RPS ? `the busiest answers ${times(uneven)} the mean` : 'little is asked';
    found.push({ level: 'good', text: `${counted(seen.servers.length, 'server')}, none out of use; ${balance}.` });
  }
  return found;
}

function ofKey(key: ProxiedKey): string {
  const copies = key.copies > 0 ? counted(key.copies, 'copy', 'copies') : `no copies: ${key.why}`;
  return `one key, ${key.key}, is ${percent(key.share)} of all requests; ${copies}`;
}

/** The figures at the top. */
export function figures(seen: ProxySnapshot): [string, string][] {
  const up = seen.servers.filter((it) => it.state !== 'down').length;
  return [
    ['requests/s', count(seen.requests_per_s)],
    ['busiest by mean', times(unevenness(seen))],
    ['hit ratio', seen.reads_per_s > 0 ? percent(Math.min(seen.hits_per_s / seen.reads_per_s, 1)) : '–'],
    ['writes/s', count(seen.writes_per_s)],
    ['clients', count(seen.clients)],
    ['servers in use', `${up} of ${seen.servers.length}`],
  ];
}

export function ofServer({ unix_s, server, is_up, cause }: ServerEvent): Mark {
  const text = is_up ? `${server} is used again` : `${server} is out of use${cause ? `: ${cause}` : ''}`;
  return { id: `${unix_s} ${text}`, unix_s, kind: is_up ? 'join' : 'death', text };
}
