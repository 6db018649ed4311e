// What happened, as marks on the time axis and lines of a list.

import type { HotKeyEvent, MapEvent, Plan, ScaleEvent, SettingsEvent, Snapshot } from './api.ts';
import { counted, percent, times } from './format.ts';
import { maxOverMean } from './findings.ts';

export type Kind = 'key' | 'move' | 'join' | 'death' | 'setting' | 'plan' | 'scale';

export interface Mark {
  /** The same event has the same name however often it is told; its time is told by age, which wavers. */
  id: string;
  unix_s: number;
  kind: Kind;
  text: string;
}

/** The sign of each kind, and what it means. */
export const SIGNS: Record<Kind, { sign: string; what: string }> = {
  key: { sign: '▲', what: 'hot key' },
  move: { sign: '⇄', what: 'move' },
  join: { sign: '+', what: 'join' },
  death: { sign: '✕', what: 'death' },
  setting: { sign: '◆', what: 'setting' },
  plan: { sign: '▣', what: 'plan' },
  scale: { sign: '↕', what: 'autoscaling' },
};

/** Marks that are kept: as many events of a kind as the coordinator keeps. */
const KEPT = 1000;

/** All marks that were told, each once, oldest first. */
export class Marks {
  private known = new Map<string, Mark>();
  private sorted: Mark[] = [];

  get all(): readonly Mark[] {
    return this.sorted;
  }

  add(marks: Mark[]): void {
    let isNew = false;
    for (const mark of marks) {
      if (this.known.has(mark.id)) continue;
      this.known.set(mark.id, mark);
      isNew = true;
    }
    if (!isNew) return;
    const sorted = [...this.known].sort((a, b) => a[1].unix_s - b[1].unix_s).slice(-KEPT);
    this.known = new Map(sorted);
    this.sorted = sorted.map((it) => it[1]);
  }
}

export function marksOf(seen: Snapshot): Mark[] {
  return [
    ...seen.events.flatMap(ofMap),
    ...seen.hot_key_events.flatMap(ofKey),
    ...seen.settings_events.map(ofSetting),
    ...seen.plans.plans.flatMap(ofPlan),
    ...seen.scale_events.map(ofScale),
  ];
}

/** By cause: the kind, and what is said of servers and cachelets. Causes that are steps of others have no mark. */
const CAUSES: Record<string, [Kind, (servers: string, cachelets: string) => string]> = {
  map_created: ['join', (servers) => `first map, with ${servers}`],
  map_taken_over: ['join', (servers) => `map taken over from ${servers}`],
  server_joined: ['join', (servers) => `${servers} joined`],
  server_returned: ['join', (servers) => `${servers} is back`],
  server_restarted: ['death', (servers) => `${servers} restarted, empty`],
  server_silent: ['death', (servers) => `${servers} is silent and taken to be down`],
  server_left: ['death', (servers) => `${servers} left`],
  server_fenced: ['death', (servers, cachelets) => `${servers} serves nothing any more; its ${cachelets} go to others`],
  server_forgotten: ['death', (servers) => `${servers} is forgotten`],
  drain_begun: ['move', (servers) => `drain of ${servers} began`],
  drain_ended: ['move', (servers) => `drain of ${servers} ended`],
  migrations_begun: ['move', (servers, cachelets) => `${cachelets} began to move: ${servers}`],
  cachelets_migrated: ['move', (servers, cachelets) => `${cachelets} moved with their contents: ${servers}`],
  migrations_aborted: ['move', (servers, cachelets) => `moves of ${cachelets} came to nothing: ${servers}`],
  cachelets_quarantined: ['death', (_, cachelets) => `${cachelets} in quarantine`],
  quarantine_ended: ['join', (_, cachelets) => `${cachelets} out of quarantine`],
};

export function ofMap(event: MapEvent): Mark[] {
  const known = CAUSES[event.cause];
  if (!known) return [];
  const [kind, say] = known;
  const servers = event.servers.join(', ');
  const id = `${event.epoch} ${event.cause} ${servers}`;
  return [{ id, unix_s: event.unix_s, kind, text: say(servers, counted(event.cachelets, 'cachelet')) }];
}

export function ofKey(event: HotKeyEvent): Mark[] {
  const home = `${event.server}/${event.worker}`;
  const now = `${event.gamma_before} → ${counted(event.gamma, 'copy', 'copies')}`;
  const text = `${event.key} (home ${home}) ${event.deed.replace('_', ' ')}: ${now}, ${percent(event.key_share)} of its load`;
  const id = `${home} ${event.boot} ${event.number}`;
  return [{ id, unix_s: Math.floor(event.unix_ms / 1000), kind: 'key', text }];
}

function ofSetting(event: SettingsEvent): Mark {
  const say = (value: unknown) => (value === null || value === undefined ? 'default' : String(value));
  const text = `${event.name}: ${say(event.from)} → ${say(event.to)}`;
  return { id: `${event.unix_s} ${text}`, unix_s: event.unix_s, kind: 'setting', text };
}

export function ofScale(event: ScaleEvent): Mark {
  const { pool, phase, unix_s } = event;
  const text = `${pool}: ${phase.is} ${phase.name ?? ''}: ${event.why}`.replace(' :', ':');
  return { id: `${unix_s} ${text}`, unix_s, kind: 'scale', text };
}

function ofPlan(plan: Plan): Mark[] {
  const marks: Mark[] = [];
  const effect = `${times(maxOverMean(plan.before))} → ${times(maxOverMean(plan.predicted))} the mean`;
  marks.push({ id: `plan ${plan.id}`, unix_s: plan.proposed_unix_s, kind: 'plan', text: `plan ${plan.id} proposed: ${effect}, ${counted(plan.moves, 'move')}` });
  if (plan.ended_unix_s !== null) {
    marks.push({ id: `plan ${plan.id} ${plan.state}`, unix_s: plan.ended_unix_s, kind: 'plan', text: `plan ${plan.id} ${plan.state}: ${plan.moved} of ${counted(plan.moves, 'move')}` });
  }
  return marks;
}
