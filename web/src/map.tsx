// The heat map with what belongs to it: choices, legend, the value under the cursor, and a table of the same.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { Measure } from './api.ts';
import { bytes, clock, count } from './format.ts';
import { nameOf } from './findings.ts';
import { type History, type Row, SPANS, type Span, highest } from './history.ts';
import { type Kind, type Mark, SIGNS } from './marks.ts';
import { Picture } from './picture.ts';

export const MEASURES: Record<Measure, { name: string; unit: string }> = {
  load: { name: 'Load', unit: 'requests/s' },
  reads: { name: 'Reads', unit: 'reads/s' },
  writes: { name: 'Writes', unit: 'writes/s' },
  bytes: { name: 'Bytes', unit: '/s' },
};

/** What a map is of. */
export interface Subject {
  title: string;
  label: string;
  /** What has a row. */
  row: 'worker' | 'server';
  measures: Measure[];
  spans: Span[];
  signs: Kind[];
}

/** Workers, and cachelets below them. */
export const CLUSTER: Subject = {
  title: 'Load by worker and cachelet',
  label: 'Heat map: a line for each worker, then for each cachelet by its server; time goes to the right. Arrow keys read single values; the table below tells the newest.',
  row: 'worker',
  measures: Object.keys(MEASURES) as Measure[],
  spans: SPANS,
  signs: Object.keys(SIGNS) as Kind[],
};

/** Servers alone. */
export const SERVERS: Subject = {
  title: 'Load by server',
  label: 'Heat map: a line for each server; time goes to the right. Arrow keys read single values; the table below tells the newest.',
  row: 'server',
  measures: ['load', 'bytes'],
  spans: SPANS.filter((it) => it.step === 'second'),
  signs: ['join', 'death'],
};

/** Rows in the table. */
const TABLE_ROWS = 15;

export function amount(of: Measure, value: number): string {
  return of === 'bytes' ? `${bytes(value)}/s` : `${count(value)} ${MEASURES[of].unit}`;
}

interface Props {
  subject: Subject;
  history: History | null;
  /** Grows with each column. */
  moment: number;
  marks: readonly Mark[];
  of: Measure;
  span: Span;
  choose: (of: Measure, span: Span) => void;
}

export function HeatMap({ subject, history, moment, marks, of, span, choose }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const picture = useRef<Picture | null>(null);
  const drawn = useRef<{ history: History; taken: number } | null>(null);
  const [spot, setSpot] = useState('');
  const [, setScales] = useState('');
  const [isOpen, setOpen] = useState(false);

  const paint = () => {
    picture.current?.paint(marks);
    setSpot(said(picture.current ?? null, history, of, subject));
    setScales(JSON.stringify(picture.current?.scales));
  };

  useEffect(() => {
    if (!canvas.current || !history) return;
    picture.current ??= new Picture(canvas.current);
    const last = drawn.current;
    if (last?.history === history) picture.current.append(moment - last.taken);
    else picture.current.show(history);
    drawn.current = { history, taken: moment };
    paint();
  }, [history, moment, marks]);

  useEffect(() => {
    const anew = () => {
      if (drawn.current) picture.current?.show(drawn.current.history);
      paint();
    };
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', anew);
    const sizes = new ResizeObserver(() => paint());
    if (canvas.current) sizes.observe(canvas.current);
    return () => {
      scheme.removeEventListener('change', anew);
      sizes.disconnect();
    };
  }, [history, marks]);

  const point = (event: PointerEvent) => {
    if (!picture.current) return;
    picture.current.cursor = picture.current.at(event.offsetX, event.offsetY);
    paint();
  };
  const key = (event: KeyboardEvent) => {
    const [right, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    if (!picture.current || (!right && !down)) return;
    event.preventDefault();
    picture.current.move(right! * (event.shiftKey ? 10 : 1), down! * (event.shiftKey ? 10 : 1));
    paint();
  };

  const scales = picture.current?.scales ?? { workers: 1, cachelets: 1 };
  return (
    <section class="card map" aria-labelledby="map-title">
      <header>
        <h2 id="map-title">{subject.title}</h2>
        <Choice label="What the map shows" options={subject.measures} name={(it) => MEASURES[it].name} chosen={of} choose={(it) => choose(it, span)} />
        <Choice label="How far back" options={subject.spans} name={(it) => it.name} chosen={span} choose={(it) => choose(of, it)} />
      </header>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={subject.label}
        onPointerMove={point}
        onPointerDown={point}
        onKeyDown={key}
        onPointerLeave={() => {
          if (picture.current) picture.current.cursor = null;
          paint();
        }}
      />
      <footer>
        <output aria-live="polite">{spot || 'Point at the map, or use the arrow keys, to read a value.'}</output>
        <span class="legend">
          <i class="ramp" aria-hidden="true" />
          {subject.row}s 0 to {amount(of, scales.workers)}
          {subject.row === 'worker' && <>, cachelets to {amount(of, scales.cachelets)}</>}
        </span>
        <span class="legend" aria-label="Signs on the time axis">
          {subject.signs.map((kind) => (
            <span key={kind}>
              <b>{SIGNS[kind].sign}</b> {SIGNS[kind].what}
            </span>
          ))}
        </span>
      </footer>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>The same as a table</summary>
        {history && isOpen && (subject.row === 'worker' ? <Table history={history} of={of} /> : <ServerTable history={history} of={of} />)}
      </details>
    </section>
  );
}

function said(picture: Picture | null, history: History | null, of: Measure, subject: Subject): string {
  const spot = picture?.spot();
  if (!spot || !history) return '';
  const value = spot.value === null ? 'nothing was told' : amount(of, spot.value);
  return `${clock(spot.unix_s)}: ${rowName(spot.row, history, subject)}, ${value}`;
}

function rowName(row: Row, history: History, subject: Subject): string {
  const name = (index: number) => (history.workers[index] ? nameOf(history.workers[index]) : 'nobody');
  const several = row.workers.length > 1 ? ` to ${name(row.workers.at(-1)!)}` : '';
  const names = `${name(row.worker)}${several}`;
  const [first] = row.cachelets;
  const isServer = history.workers[row.worker]?.worker === null;
  const what = isServer && subject.row === 'worker' ? 'busiest worker of' : subject.row;
  if (first === undefined) return `${what} ${names}`;
  return row.cachelets.length === 1 ? `cachelet ${first} at ${names}` : `${row.cachelets.length} cachelets from ${first} on at ${names}`;
}

function Choice<T>(props: { label: string; options: T[]; name: (it: T) => string; chosen: T; choose: (it: T) => void }) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map((it) => (
        <button type="button" key={props.name(it)} aria-pressed={it === props.chosen} onClick={() => props.choose(it)}>
          {props.name(it)}
        </button>
      ))}
    </div>
  );
}

function Table({ history, of }: { history: History; of: Measure }) {
  const last = history.columns.at(-1);
  if (!last) return <p>Nothing was told yet.</p>;
  const loads = last.cachelets.map((value, number) => ({ value: value ?? 0, number }));
  const top = loads.sort((a, b) => b.value - a.value).slice(0, TABLE_ROWS);
  const peak = (number: number) => highest(history.columns.map((column) => column.cachelets[number] ?? 0));
  return (
    <table>
      <caption>The {top.length} cachelets that carry most at {clock(last.unix_s)}</caption>
      <thead>
        <tr>
          <th>Cachelet</th>
          <th>Worker</th>
          <th class="number">Now</th>
          <th class="number">Highest in {history.span.name}</th>
        </tr>
      </thead>
      <tbody>
        {top.map(({ number, value }) => {
          const owner = history.workers[last.owners[number] ?? -1];
          return (
            <tr key={number}>
              <td>{number}</td>
              <td>{owner ? nameOf(owner) : '–'}</td>
              <td class="number">{amount(of, value)}</td>
              <td class="number">{amount(of, peak(number))}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function ServerTable({ history, of }: { history: History; of: Measure }) {
  const last = history.columns.at(-1);
  if (!last) return <p>Nothing was told yet.</p>;
  const loads = history.workers.map((row, index) => ({ row, index, value: last.workers[index] ?? 0 }));
  const top = loads.sort((a, b) => b.value - a.value).slice(0, TABLE_ROWS);
  const peak = (index: number) => highest(history.columns.map((column) => column.workers[index] ?? 0));
  return (
    <table>
      <caption>The {top.length} servers that carry most at {clock(last.unix_s)}</caption>
      <thead>
        <tr>
          <th>Server</th>
          <th class="number">Now</th>
          <th class="number">Highest in {history.span.name}</th>
        </tr>
      </thead>
      <tbody>
        {top.map(({ row, index, value }) => (
          <tr key={index}>
            <td>{nameOf(row)}</td>
            <td class="number">{amount(of, value)}</td>
            <td class="number">{amount(of, peak(index))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
