// The heat map on a canvas: workers above, cachelets below, time to the right.
//
// Each column of time is drawn once, when it comes, a dot for each row, into rings of columns that nobody sees. What is seen is these rings,
// stretched, with names, marks and the time around them; so a second costs one column and two copies, however much is in the picture.

import { nameOf } from './findings.ts';
import { clock } from './format.ts';
import { type History, type Row, highest, layout, roundUp, valueOf } from './history.ts';
import { type Kind, type Mark, SIGNS } from './marks.ts';

/** Colours from nothing to the highest: quiet ones first, warm ones for what stands out. */
const LIGHT = ['#f1f4f6', '#cfe0e6', '#8dbac4', '#3f8f9e', '#e9a23b', '#d9532c', '#8f1616'];
const DARK = ['#171c22', '#1d3440', '#24586a', '#3a94a0', '#e0a33c', '#f0703a', '#ffd9c2'];

/** Places of the picture that are shown at least, so that the first seconds are no wide bars. */
const PLACES_MIN = 60;
/** Widths and heights around the map, by the size of letters. */
const GUTTER = 7.6;
const GUTTER_NARROW = 5.7;
const STRIP = 1.7;
const AXIS = 1.8;
const ROW = 1.3;
/** Marks that are nearer to each other share a sign. */
const MARK_WIDTH = 1.4;
/** Of a time below the map. */
const TICK_WIDTH = 7;
const GAP = 6;
/** Servers that are lower than this have no line between them, which would hide them. */
const LINE_APART = 4;
const IMPORTANCE: Kind[] = ['death', 'join', 'setting', 'scale', 'plan', 'move', 'key'];
const TICKS_S = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600];

export interface Spot {
  unix_s: number;
  row: Row;
  value: number | null;
}

interface Cursor {
  /** Places from the right edge. */
  back: number;
  row: number;
}

interface Box {
  /** The size of letters. */
  em: number;
  strip: number;
  x: number;
  w: number;
  /** Top and height of the workers and of the cachelets. */
  workers: [number, number];
  cachelets: [number, number];
}

export class Picture {
  cursor: Cursor | null = null;
  scales = { workers: 1, cachelets: 1 };
  private history: History | null = null;
  private rows: { workers: Row[]; cachelets: Row[] } = { workers: [], cachelets: [] };
  private rings = { workers: document.createElement('canvas'), cachelets: document.createElement('canvas') };
  /** Columns so far; a column's place is its number by the group. */
  private taken = 0;
  private owners = '';
  private palette: Uint32Array = new Uint32Array(257);
  private readonly canvas: HTMLCanvasElement;

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
  }

  /** Begins anew with another history, or in other colours. */
  show(history: History): void {
    this.palette = palette();
    this.history = history;
    this.taken = history.columns.length;
    this.rows = layout(history);
    this.owners = ownersOf(history);
    this.scales = this.wantedScales();
    const places = history.span.columns / history.span.group;
    for (const part of ['workers', 'cachelets'] as const) {
      this.rings[part].width = places;
      this.rings[part].height = Math.max(1, this.rows[part].length);
    }
    const first = Math.ceil(Math.max(0, this.taken - history.span.columns) / history.span.group);
    for (let place = first; place < this.end(); place += 1) this.drawPlace(place);
  }

  /** Draws this many new columns of the same history. */
  append(columns: number): void {
    const history = this.history;
    if (!history || columns === 0) return;
    const wanted = this.wantedScales();
    const isSame = wanted.workers === this.scales.workers && wanted.cachelets === this.scales.cachelets;
    if (!isSame || this.owners !== ownersOf(history)) {
      this.show(history);
      return;
    }
    const before = this.end();
    this.taken += columns;
    for (let place = Math.max(0, before - 1); place < this.end(); place += 1) this.drawPlace(place);
  }

  /** A spot of the picture, by where a pointer is. */
  at(x: number, y: number): Cursor | null {
    const box = this.box();
    const shown = this.shown();
    const back = Math.floor(((box.x + box.w - x) / box.w) * shown);
    const within = ([top, height]: [number, number]) => (y - top) / height;
    const row = [within(box.workers), within(box.cachelets)];
    const { workers, cachelets } = this.rows;
    if (back < 0 || back >= shown) return null;
    if (row[0]! >= 0 && row[0]! < 1) return { back, row: Math.floor(row[0]! * workers.length) };
    if (row[1]! >= 0 && row[1]! < 1) return { back, row: workers.length + Math.floor(row[1]! * cachelets.length) };
    return null;
  }

  /** Moves the cursor, from the newest column of the first row where there is none. */
  move(right: number, down: number): void {
    const rows = this.rows.workers.length + this.rows.cachelets.length;
    const { back, row } = this.cursor ?? { back: right, row: -down };
    const within = (value: number, end: number) => Math.min(Math.max(value, 0), Math.max(end - 1, 0));
    this.cursor = { back: within(back - right, this.shown()), row: within(row + down, rows) };
  }

  /** What the cursor is at. */
  spot(): Spot | null {
    const history = this.history;
    if (!history || !this.cursor) return null;
    const columns = this.columnsOf(this.end() - 1 - this.cursor.back);
    const row = [...this.rows.workers, ...this.rows.cachelets][this.cursor.row];
    const newest = columns.at(-1);
    if (!row || !newest) return null;
    const values = columns.map((column) => valueOf(row, column));
    const told = values.filter((value) => value !== null);
    return { unix_s: newest.unix_s, row, value: told.length ? highest(told) : null };
  }

  /** Puts everything where it is seen. */
  paint(marks: readonly Mark[]): void {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
    if (this.canvas.height !== Math.round(height * ratio)) this.canvas.height = Math.round(height * ratio);
    const context = this.canvas.getContext('2d');
    if (!context || !this.history) return;
    const style = getComputedStyle(this.canvas);
    const ink = (name: string) => style.getPropertyValue(name);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const box = this.box();
    context.font = `${box.em}px ${style.fontFamily}`;
    for (const part of ['workers', 'cachelets'] as const) {
      context.fillStyle = ink('--untold');
      context.fillRect(box.x, box[part][0], box.w, box[part][1]);
      this.copy(context, part, box);
    }
    this.names(context, box, ink);
    this.time(context, box, ink);
    this.marks(context, box, marks, ink);
    this.cross(context, box, ink);
  }

  private end(): number {
    return this.history ? Math.ceil(this.taken / this.history.span.group) : 0;
  }

  /** Places that are seen. */
  private shown(): number {
    if (!this.history) return PLACES_MIN;
    const { columns, group } = this.history.span;
    return Math.min(columns / group, Math.max(PLACES_MIN, this.end()));
  }

  private columnsOf(place: number) {
    const { columns, span } = this.history!;
    const first = place * span.group - (this.taken - columns.length);
    return columns.slice(Math.max(0, first), Math.max(0, first + span.group));
  }

  private wantedScales() {
    const columns = this.history?.columns ?? [];
    const most = (part: 'workers' | 'cachelets') => roundUp(highest(columns.map((it) => it.peaks[part])));
    return { workers: most('workers'), cachelets: most('cachelets') };
  }

  private drawPlace(place: number): void {
    const columns = this.columnsOf(place);
    for (const part of ['workers', 'cachelets'] as const) {
      const rows = this.rows[part];
      const ring = this.rings[part];
      const context = ring.getContext('2d');
      if (!context || !rows.length) continue;
      const image = context.createImageData(1, rows.length);
      const dots = new Uint32Array(image.data.buffer);
      rows.forEach((row, i) => {
        const values = columns.map((column) => valueOf(row, column));
        if (values.every((value) => value === null)) return;
        const part_of = highest(values) / this.scales[part];
        // Cachelets differ by much more than workers: a root shows the small ones beside a hot one.
        const shade = part === 'workers' ? part_of : Math.sqrt(part_of);
        dots[i] = this.palette[Math.round(Math.min(shade, 1) * 256)]!;
      });
      context.putImageData(image, place % ring.width, 0);
    }
  }

  private copy(context: CanvasRenderingContext2D, part: 'workers' | 'cachelets', box: Box): void {
    const ring = this.rings[part];
    const [top, height] = box[part];
    const shown = this.shown();
    const width = box.w / shown;
    context.imageSmoothingEnabled = false;
    const end = this.end();
    let from = Math.max(0, end - shown);
    while (from < end) {
      const place = from % ring.width;
      const places = Math.min(ring.width - place, end - from);
      const x = box.x + box.w - (end - from) * width;
      context.drawImage(ring, place, 0, places, ring.height, x, top, places * width, height);
      from += places;
    }
  }

  private names(context: CanvasRenderingContext2D, box: Box, ink: (name: string) => string): void {
    const { workers } = this.history!;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    const name = (text: string, top: number, height: number) => {
      if (height < box.em * 0.8) return;
      context.fillStyle = ink('--quiet');
      context.fillText(fitted(context, text, box.x - 8), box.x - 6, top + height / 2);
    };
    const [top, height] = box.workers;
    const step = height / Math.max(1, this.rows.workers.length);
    this.rows.workers.forEach((row, i) => name(nameOf(workers[row.worker]!), top + i * step, step));
    const [below, tall] = box.cachelets;
    const cachelets = this.rows.cachelets;
    const dot = tall / Math.max(1, cachelets.length);
    const serverOf = (row: Row) => workers[row.worker]?.server ?? 'nobody';
    for (let from = 0; from < cachelets.length; ) {
      const server = serverOf(cachelets[from]!);
      let to = from;
      while (to < cachelets.length && serverOf(cachelets[to]!) === server) to += 1;
      name(server, below + from * dot, (to - from) * dot);
      if (from > 0 && (to - from) * dot >= LINE_APART) {
        context.fillStyle = ink('--card');
        context.fillRect(0, below + from * dot - 0.5, box.x + box.w, 1);
      }
      from = to;
    }
  }

  private unixAt(place: number): number | null {
    return this.columnsOf(place).at(-1)?.unix_s ?? null;
  }

  private time(context: CanvasRenderingContext2D, box: Box, ink: (name: string) => string): void {
    const shown = this.shown();
    const end = this.end();
    const width = box.w / shown;
    const seconds = (this.history!.span.step === 'second' ? 1 : 60) * this.history!.span.group;
    const step = TICKS_S.find((step) => (step / seconds) * width >= TICK_WIDTH * box.em) ?? TICKS_S.at(-1)!;
    const zone = new Date().getTimezoneOffset() * 60;
    const y = box.cachelets[0] + box.cachelets[1];
    context.textBaseline = 'top';
    context.textAlign = 'center';
    let before: number | null = null;
    for (let place = Math.max(0, end - shown); place < end; place += 1) {
      const unix = this.unixAt(place);
      if (unix === null) continue;
      const tick = Math.floor((unix - zone) / step);
      if (before !== null && tick !== before) {
        const x = box.x + box.w - (end - place) * width;
        context.fillStyle = ink('--line');
        context.fillRect(x, y, 1, 4);
        context.fillStyle = ink('--quiet');
        const text = clock(tick * step + zone);
        if (x > box.x + 2 * box.em && x < box.x + box.w - 2 * box.em) context.fillText(step % 60 ? text : text.slice(0, 5), x, y + 6);
      }
      before = tick;
    }
  }

  private marks(context: CanvasRenderingContext2D, box: Box, marks: readonly Mark[], ink: (name: string) => string): void {
    const buckets = new Map<number, { x: number; marks: Mark[] }>();
    for (const mark of marks) {
      const place = this.placeOf(mark.unix_s);
      if (place === null) continue;
      const x = box.x + box.w - (this.end() - place) * (box.w / this.shown());
      const bucket = Math.floor(x / (MARK_WIDTH * box.em));
      const known = buckets.get(bucket) ?? { x, marks: [] };
      known.marks.push(mark);
      buckets.set(bucket, known);
    }
    context.textBaseline = 'middle';
    context.textAlign = 'center';
    for (const { x, marks } of buckets.values()) {
      const kind = IMPORTANCE.find((kind) => marks.some((mark) => mark.kind === kind))!;
      // Of hot keys there are many: lines of all would hide the map.
      const isOfKey = kind === 'key';
      context.fillStyle = ink(isOfKey ? '--mark-key' : '--mark');
      if (!isOfKey) context.fillRect(x, box.strip - 2, 1, box.cachelets[0] + box.cachelets[1] - box.strip + 2);
      context.fillText(SIGNS[kind].sign, x, box.strip / 2 - 1);
    }
  }

  /** Where a moment is, if it is in the picture. */
  private placeOf(unix_s: number): number | null {
    const { columns, span } = this.history!;
    const first = columns[0];
    if (!first || unix_s < first.unix_s - 1) return null;
    let [low, high] = [0, columns.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (columns[middle]!.unix_s < unix_s) low = middle + 1;
      else high = middle;
    }
    return Math.floor((this.taken - columns.length + low) / span.group);
  }

  private cross(context: CanvasRenderingContext2D, box: Box, ink: (name: string) => string): void {
    if (!this.cursor) return;
    const width = box.w / this.shown();
    const { workers, cachelets } = this.rows;
    const isWorker = this.cursor.row < workers.length;
    const [top, height] = isWorker ? box.workers : box.cachelets;
    const row = isWorker ? this.cursor.row : this.cursor.row - workers.length;
    const tall = height / Math.max(1, isWorker ? workers.length : cachelets.length);
    context.strokeStyle = ink('--ink');
    context.lineWidth = 1;
    const x = box.x + box.w - (this.cursor.back + 1) * width;
    context.strokeRect(x - 1, top + row * tall - 1, width + 2, tall + 2);
  }

  private box(): Box {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const em = parseFloat(getComputedStyle(this.canvas).fontSize);
    const strip = STRIP * em;
    const x = (width < 600 ? GUTTER_NARROW : GUTTER) * em;
    const tall = height - strip - AXIS * em - GAP;
    const { workers, cachelets } = this.rows;
    const above = cachelets.length ? Math.min(workers.length * ROW * em, tall * 0.4) : tall;
    return { em, strip, x, w: width - x - 1, workers: [strip, above], cachelets: [strip + above + GAP, tall - above] };
  }
}

function ownersOf(history: History): string {
  return `${history.workers.length} ${history.columns.at(-1)?.owners.join()}`;
}

function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`…${text.slice(-end)}`).width > width) end -= 1;
  return `…${text.slice(-end)}`;
}

/** 257 shades as canvases have their bytes. */
function palette(): Uint32Array {
  const stops = (matchMedia('(prefers-color-scheme: dark)').matches ? DARK : LIGHT).map((hex) =>
    [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)),
  );
  const shades = new Uint8ClampedArray(257 * 4);
  for (let i = 0; i <= 256; i += 1) {
    const at = (i / 256) * (stops.length - 1);
    const low = stops[Math.floor(at)]!;
    const high = stops[Math.ceil(at)]!;
    low.forEach((value, c) => (shades[i * 4 + c] = value + (high[c]! - value) * (at % 1)));
    shades[i * 4 + 3] = 255;
  }
  return new Uint32Array(shades.buffer);
}
