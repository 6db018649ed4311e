// What the coordinator tells, and how it is asked. The types name what the page uses of it.

export type Measure = 'load' | 'reads' | 'writes' | 'bytes';

export interface Server {
  name: string;
  host: string;
  port: number;
  up: boolean;
  epoch: number;
  cachelets: number;
  released: number;
  draining: boolean;
  asks_for_moves: boolean;
  silent_ms: number;
}

export interface Worker {
  server: string;
  worker: number;
  load: number;
  replica_load: number;
  diverted_load: number;
  /** Part of its time that it does not sleep, 0 to 1. */
  busy: number;
  memory_bytes: number;
  cachelets: number;
  left_out: number;
}

export interface ServerLoad {
  server: string;
  unusable: string | null;
  memory_limit_bytes: number;
  memory_bytes: number;
  reads_per_s: number;
  hits_per_s: number;
}

export interface Proxy {
  name: string;
  host: string;
  port: number;
  up: boolean;
  epoch: number;
  requests_per_second: number[];
  p50_us: number | null;
  p99_us: number | null;
  shed_per_s: number;
  silent_ms: number;
}

export interface HotKey {
  server: string;
  worker: number;
  key: string;
  state: string;
  rps: number;
  load_rps: number;
  /** Copies besides the home's own. */
  gamma: number;
  shadows: { server: number; worker: number }[];
  replicas_since_unix_s: number | null;
}

/** A key that gets much and has no copies. */
export interface HottestKey {
  server: string;
  worker: number;
  key: string;
  gets_per_s: number;
  sets_per_s: number;
  bytes_per_s: number;
  load_rps: number;
  share: number;
  why: string;
}

/** Where a key lives, and what is done about it. */
export interface KeyExplained {
  key: string;
  epoch: number;
  cachelet: number;
  server: string | null;
  worker: number | null;
  server_up: boolean;
  moving: boolean;
  quarantined: boolean;
  load: { reads_per_s: number; hits_per_s: number; writes_per_s: number; items: number; memory_bytes: number } | null;
  hot: HotKey | null;
  hottest: HottestKey | null;
}

export interface Spread {
  load_max: number;
  load_mean: number;
  utilization: number;
  overloaded: number;
}

export interface Plan {
  id: number;
  state: string;
  proposed_unix_s: number;
  ended_unix_s: number | null;
  moves: number;
  moved: number;
  bytes: number;
  before: Spread;
  predicted: Spread;
  measured: Spread | null;
  note: string | null;
}

export interface MapEvent {
  epoch: number;
  unix_s: number;
  cause: string;
  servers: string[];
  cachelets: number;
}

export interface HotKeyEvent {
  server: string;
  /** The life of the server, in which it counts the worker's events. */
  boot: number;
  worker: number;
  number: number;
  unix_ms: number;
  deed: string;
  cause: string;
  key: string;
  gamma_before: number;
  gamma: number;
  key_share: number;
}

export interface SettingsEvent {
  unix_s: number;
  name: string;
  from: unknown;
  to: unknown;
}

/** How the number of servers of a pool, or of the cluster, follows what is measured. */
export interface Scale {
  pool: string;
  settings: { mode: string; min: number; max: number };
  phase: ScalePhase;
  why: string;
  /** Nothing more is done before an operator approves. */
  waits_for_approval: boolean;
  servers: number;
  wanted: number;
}

export interface ScalePhase {
  is: string;
  /** The server that it is about. */
  name?: string;
}

export interface ScaleEvent {
  unix_s: number;
  pool: string;
  phase: ScalePhase;
  why: string;
}

export interface HeatColumn {
  unix_s: number;
  /** Of all workers. */
  sum: number;
  mean: number;
  reads: number;
  hits: number;
  /** What requests through proxies took: half of them no longer, and 99 %. */
  p50_us: number | null;
  p99_us: number | null;
  /** Requests that proxies refused because a server has too much to do. */
  shed_per_s: number;
  workers: (number | null)[];
  cachelets: (number | null)[];
  owners: (number | null)[];
}

/** A worker; a server, of which the highest of its workers is told, where there are too many. */
export interface HeatRow {
  server: string;
  worker: number | null;
}

export interface Heat {
  of: Measure;
  interval_ms: number;
  workers: HeatRow[];
  cachelets: number;
  columns: HeatColumn[];
}

export interface Snapshot {
  unix_s: number;
  totals: {
    servers: number;
    servers_up: number;
    workers: number;
    workers_full: number;
    load: number;
    reads_per_s: number;
    hits_per_s: number;
    writes_per_s: number;
    bytes_per_s: number;
    items: number;
    memory_bytes: number;
    memory_limit_bytes: number;
  };
  /** Servers and workers of a large cluster are those that stand out. */
  servers: { epoch: number; servers: (Server & { id: number })[] };
  loads: { servers: ServerLoad[]; workers: Worker[]; quarantined: unknown[] };
  proxies: { epoch: number; proxies: Proxy[] };
  hot_keys: { keys: HotKey[]; keys_left_out: number; hottest: HottestKey[] };
  settings: { hot_keys: string };
  settings_events: SettingsEvent[];
  events: MapEvent[];
  hot_key_events: HotKeyEvent[];
  plans: {
    settings: { mode: string };
    verdict: string;
    servers_wanted: number | null;
    spread: Spread | null;
    plans: Plan[];
  };
  drains: { server: string }[];
  scale: Scale[];
  scale_events: ScaleEvent[];
  heat: Heat[];
}

/** What a proxy tells: of its servers, and of all that applications ask of it. */
export interface ProxySnapshot {
  unix_s: number;
  requests_per_s: number;
  reads_per_s: number;
  hits_per_s: number;
  writes_per_s: number;
  bytes_per_s: number;
  p50_us: number | null;
  p99_us: number | null;
  shed_per_s: number;
  clients: number;
  servers: ProxiedServer[];
  hottest: ProxiedKey[];
  events: ServerEvent[];
  heat: Heat[];
}

export interface ProxiedServer {
  name: string;
  pool: string;
  state: 'idle' | 'connecting' | 'up' | 'down';
  cause: string | null;
  load: number;
  bytes_per_s: number;
  p50_us: number | null;
  p99_us: number | null;
  queued: number;
  shed_per_s: number;
}

export interface ProxiedKey {
  key: string;
  pool: string;
  home: string | null;
  gets_per_s: number;
  sets_per_s: number;
  bytes_per_s: number;
  /** Of all requests. */
  share: number;
  copies: number;
  why: string;
}

/** A server went out of use, or came back. */
export interface ServerEvent {
  unix_s: number;
  server: string;
  is_up: boolean;
  cause: string;
}

/** The newest column of a measure. Rows and owners are told once for all measures. */
export function heatOf({ heat }: Snapshot, of: Measure): Heat | null {
  const [first] = heat;
  const own = heat.find((it) => it.of === of);
  if (!first || !own) return null;
  const columns = own.columns.map((column, i) => ({ ...column, owners: first.columns[i]?.owners ?? [] }));
  return { ...own, workers: first.workers, columns };
}

/** The coordinator wants a token, or another one. */
export class TokenWanted extends Error {}

const TOKEN = 'evenkeel-token';

/** For this tab alone, and gone with it. */
export function keepToken(token: string): void {
  sessionStorage.setItem(TOKEN, token);
}

async function call(path: string, method = 'GET', signal?: AbortSignal): Promise<Response> {
  const token = sessionStorage.getItem(TOKEN);
  const headers: Record<string, string> = {};
  if (token) headers['authorization'] = `Bearer ${token}`;
  if (method !== 'GET') headers['content-type'] = 'application/json';
  const answer = await fetch(path, { method, headers, redirect: 'manual', signal: signal ?? null });
  if (answer.type === 'opaqueredirect') {
    // Another coordinator leads now, and shows the page.
    location.reload();
    throw new Error('another coordinator leads');
  }
  if (answer.ok) return answer;
  const body = (await answer.json().catch(() => null)) as { error?: { message?: string } } | null;
  const message = body?.error?.message ?? `${answer.status} ${answer.statusText}`;
  throw answer.status === 401 ? new TokenWanted(message) : new Error(message);
}

export async function get<T>(path: string): Promise<T> {
  return (await (await call(path)).json()) as T;
}

export async function approvePlan(plan: number): Promise<void> {
  await call(`/api/v1/plans/${plan}/approve`, 'POST');
}

export async function approveScale(pool: string): Promise<void> {
  await call(`/api/v1/scale/${encodeURIComponent(pool)}/approve`, 'POST');
}

/** Longest silence of a stream that says something each second. */
const SILENCE_MS = 10_000;

/**
 * Tells of each snapshot until the stream ends, which it does by an error. EventSource would do, but cannot send a token.
 */
export async function follow(tell: (snapshot: Snapshot) => void): Promise<never> {
  const silence = new AbortController();
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => silence.abort(), SILENCE_MS);
  };
  heard();
  try {
    const answer = await call('/api/v1/stream', 'GET', silence.signal);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error('the coordinator has ended the stream');
      heard();
      text += value;
      for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
        tell(JSON.parse(text.slice('data: '.length, end)) as Snapshot);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}
