// The columns of the map, and in which rows they are drawn. Knows no canvas.

import type { Heat, HeatColumn, HeatRow, Measure } from './api.ts';
import { nameOf } from './findings.ts';
import { byName } from './format.ts';

export interface Span {
  name: string;
  step: 'second' | 'minute';
  columns: number;
  /** Columns that share one place of the picture, which shows the highest of each row. */
  group: number;
}

export const SPANS: Span[] = [
  { name: '5 min', step: 'second', columns: 300, group: 1 },
  { name: '1 h', step: 'second', columns: 3600, group: 6 },
  { name: '1 day', step: 'minute', columns: 1440, group: 2 },
];

/** Rows of workers, and of cachelets, that are drawn at most: neighbours share one where there are more. */
export const ROWS_MAX = 512;

/** A column with the highest of its workers and of its cachelets: nothing that grows with both is looked through each second. */
export interface Column extends HeatColumn {
  peaks: { workers: number; cachelets: number };
}

/** Columns of one measure and span, oldest first. Workers keep their index for as long as the history lives. */
export class History {
  readonly of: Measure;
  readonly span: Span;
  readonly workers: HeatRow[] = [];
  columns: Column[] = [];
  /** Columns that came since the first ones. */
  taken = 0;
  private places = new Map<string, number>();

  constructor(of: Measure, span: Span, heat: Heat) {
    this.of = of;
    this.span = span;
    this.take(heat);
    this.taken = 0;
  }

  /** Takes what is new of it. */
  take(heat: Heat): void {
    const newest = this.columns.at(-1)?.unix_s ?? 0;
    const places = heat.workers.map((worker) => this.place(worker));
    const columns = heat.columns.filter((column) => column.unix_s > newest);
    for (const column of columns) {
      const workers: (number | null)[] = this.workers.map(() => null);
      column.workers.forEach((value, i) => (workers[places[i]!] = value));
      const owners = column.owners.map((i) => (i === null ? null : places[i]!));
      const peaks = { workers: highest(workers), cachelets: highest(column.cachelets) };
      this.columns.push({ ...column, workers, owners, peaks });
    }
    this.columns.splice(0, this.columns.length - this.span.columns);
    this.taken += columns.length;
  }

  private place(worker: HeatRow): number {
    const name = nameOf(worker);
    let place = this.places.get(name);
    if (place === undefined) {
      place = this.workers.push(worker) - 1;
      this.places.set(name, place);
    }
    return place;
  }
}

/** One row of the picture. */
export interface Row {
  /** Cachelets whose highest load it shows; of a worker's row none. */
  cachelets: number[];
  /** Index of the worker, or of the first of several. Cachelets that nobody has are with -1. */
  worker: number;
  /** Indices of all of them, in the order in which they are drawn. */
  workers: number[];
}

/** Workers by name; then cachelets by their present worker, so that each server's are together. */
export function layout(history: History): { workers: Row[]; cachelets: Row[] } {
  const order = history.workers
    .map((worker, index) => ({ name: nameOf(worker), index }))
    .sort((a, b) => byName(a.name, b.name))
    .map((it) => it.index);
  const last = history.columns.at(-1);
  const present = order.filter((index) => history.columns.some((column) => column.workers[index] != null));
  const owned = new Map<number, number[]>();
  last?.owners.forEach((owner, number) => {
    const worker = owner ?? lastOwner(history, number);
    const numbers = owned.get(worker);
    if (numbers) numbers.push(number);
    else owned.set(worker, [number]);
  });
  const cachelets = [...order, -1].flatMap((worker) => (owned.get(worker) ?? []).map((number) => ({ number, worker })));
  return {
    workers: shared(present).map((workers) => ({ cachelets: [], worker: workers[0]!, workers })),
    cachelets: shared(cachelets).map((some) => ({
      cachelets: some.map((it) => it.number),
      worker: some[0]!.worker,
      workers: [...new Set(some.map((it) => it.worker))],
    })),
  };
}

/** Neighbours together, so that there are few enough. */
function shared<T>(all: T[]): T[][] {
  const share = Math.max(1, Math.ceil(all.length / ROWS_MAX));
  return Array.from({ length: Math.ceil(all.length / share) }, (_, i) => all.slice(i * share, (i + 1) * share));
}

/** Who had a cachelet last of which nobody tells now: it may be on its way, or its server silent. */
function lastOwner(history: History, number: number): number {
  for (let i = history.columns.length - 1; i >= 0; i -= 1) {
    const owner = history.columns[i]!.owners[number];
    if (owner != null) return owner;
  }
  return -1;
}

/** What a row shows of a column: the highest of what it has. */
export function valueOf(row: Row, column: HeatColumn): number | null {
  const [indices, values] = row.cachelets.length ? [row.cachelets, column.cachelets] : [row.workers, column.workers];
  let most: number | null = null;
  for (const index of indices) {
    const value = values[index];
    if (value != null && (most === null || value > most)) most = value;
  }
  return most;
}

/** The next of these, times a power of ten: scales that change seldom. */
export function roundUp(value: number): number {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((n) => n * power).find((n) => n >= value)!;
}

export function highest(values: (number | null)[]): number {
  return values.reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
}
