// The columns of the map, and in which rows they are drawn. Knows no canvas.

import type { Heat, HeatColumn, Measure } from './api.ts';
import { nameOf } from './findings.ts';

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

/** Rows of cachelets that are drawn at most: neighbours share one where there are more. */
export const ROWS_MAX = 512;

export interface Worker {
  server: string;
  worker: number;
}

/** Columns of one measure and span, oldest first. Workers keep their index for as long as the history lives. */
export class History {
  readonly of: Measure;
  readonly span: Span;
  readonly workers: Worker[] = [];
  columns: HeatColumn[] = [];
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
      this.columns.push({ ...column, workers, owners });
    }
    this.columns.splice(0, this.columns.length - this.span.columns);
    this.taken += columns.length;
  }

  private place(worker: Worker): number {
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
  /** Index of the worker. Cachelets that nobody has are with -1. */
  worker: number;
}

/** Workers by name; then cachelets by their present worker, so that each server's are together. */
export function layout(history: History): { workers: Row[]; cachelets: Row[] } {
  const compare = new Intl.Collator('en', { numeric: true }).compare;
  const order = history.workers
    .map((worker, index) => ({ name: nameOf(worker), index }))
    .sort((a, b) => compare(a.name, b.name))
    .map((it) => it.index);
  const last = history.columns.at(-1);
  const present = order.filter((index) => history.columns.some((column) => column.workers[index] != null));
  const owned = new Map<number, number[]>();
  last?.owners.forEach((owner, number) => {
    const worker = owner ?? lastOwner(history, number);
    owned.set(worker, [...(owned.get(worker) ?? []), number]);
  });
  const share = Math.max(1, Math.ceil((last?.owners.length ?? 0) / ROWS_MAX));
  const cachelets: Row[] = [];
  for (const worker of [...order, -1]) {
    const numbers = owned.get(worker) ?? [];
    for (let i = 0; i < numbers.length; i += share) cachelets.push({ cachelets: numbers.slice(i, i + share), worker });
  }
  return { workers: present.map((worker) => ({ cachelets: [], worker })), cachelets };
}

/** Who had a cachelet last of which nobody tells now: it may be on its way, or its server silent. */
function lastOwner(history: History, number: number): number {
  for (let i = history.columns.length - 1; i >= 0; i -= 1) {
    const owner = history.columns[i]!.owners[number];
    if (owner != null) return owner;
  }
  return -1;
}

/** What a row shows of a column. */
export function valueOf(row: Row, column: HeatColumn): number | null {
  if (!row.cachelets.length) return column.workers[row.worker] ?? null;
  let highest: number | null = null;
  for (const number of row.cachelets) {
    const value = column.cachelets[number];
    if (value != null && (highest === null || value > highest)) highest = value;
  }
  return highest;
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
