// Curves under the map: how much there is, how even it is, how much of it is found, how long it takes, and what is refused.

import uPlot from 'uplot';
import { useEffect, useRef } from 'preact/hooks';
import type { Measure } from './api.ts';
import { bytes, clock, count, micros, percent, times } from './format.ts';
import { type Column, type History, highest } from './history.ts';
import { MEASURES, type Subject, amount } from './map.tsx';

interface Curve {
  name: string;
  of: (column: Column) => number | null;
  say: (value: number) => string;
  axis: (value: number) => string;
  range: (most: number) => [number, number];
}

const HEIGHT = 104;
/** Less than this in a second says nothing about balance. */
const QUIET = 50;

const isTold = (column: Column) => column.workers.some((it) => it !== null);

function curves(of: Measure, subject: Subject): Curve[] {
  return [
    {
      name: `${MEASURES[of].name} of all servers`,
      of: (column) => (isTold(column) ? column.sum : null),
      say: (value) => amount(of, value),
      axis: (value) => (of === 'bytes' ? bytes(value) : count(value)),
      range: (most) => [0, Math.max(most * 1.1, 10)],
    },
    {
      name: `Busiest ${subject.row} by the mean`,
      of: (column) => (column.sum >= QUIET ? column.peaks.workers / column.mean : null),
      say: times,
      axis: (value) => value.toFixed(1),
      range: (most) => [1, Math.max(most, 2)],
    },
    {
      name: 'Reads that find an item',
      of: (column) => (column.reads > 0 ? Math.min(column.hits / column.reads, 1) : null),
      say: percent,
      axis: (value) => percent(value),
      range: () => [0, 1],
    },
    {
      name: 'p99 of requests through proxies',
      of: (column) => column.p99_us,
      say: micros,
      axis: micros,
      range: (most) => [0, Math.max(most * 1.1, 100)],
    },
    {
      name: 'Requests that proxies refuse',
      of: (column) => (column.p99_us === null && column.shed_per_s === 0 ? null : column.shed_per_s),
      say: (value) => `${count(value)}/s`,
      axis: count,
      range: (most) => [0, Math.max(most * 1.1, 10)],
    },
  ];
}

export function Curves({ subject, history, moment, of }: { subject: Subject; history: History | null; moment: number; of: Measure }) {
  return (
    <section class="curves" aria-label="Curves">
      {curves(of, subject).map((curve) => (
        <Plot key={`${curve.name} ${of}`} curve={curve} history={history} moment={moment} />
      ))}
    </section>
  );
}

function Plot({ curve, history, moment }: { curve: Curve; history: History | null; moment: number }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const columns = history?.columns ?? [];
  const values = columns.map(curve.of);
  const known = values.filter((value) => value !== null);
  const now = known.at(-1);

  useEffect(() => {
    if (!place.current) return;
    const element = place.current;
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(curve, element), [[], []], element);
      draw();
    };
    make();
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', make);
    const sizes = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    sizes.observe(element);
    return () => {
      scheme.removeEventListener('change', make);
      sizes.disconnect();
      plot.current?.destroy();
    };
  }, []);

  const newest = useRef<(() => void) | null>(null);
  newest.current = () => plot.current?.setData([columns.map((column) => column.unix_s), values]);
  const draw = () => newest.current?.();
  useEffect(draw, [history, moment]);

  return (
    <figure class="card">
      <figcaption>
        {curve.name} <b>{now === undefined ? '–' : curve.say(now)}</b>
      </figcaption>
      <div ref={place} aria-hidden="true" />
      <p class="range">
        {known.length ? `lowest ${curve.say(Math.min(...known))}, highest ${curve.say(highest(known))} in ${history!.span.name}` : 'nothing was told yet'}
      </p>
    </figure>
  );
}

function options(curve: Curve, element: HTMLElement): uPlot.Options {
  const ink = (name: string) => getComputedStyle(element).getPropertyValue(name);
  const axis: uPlot.Axis = {
    stroke: ink('--quiet'),
    font: `11px ${getComputedStyle(element).fontFamily}`,
    grid: { stroke: ink('--line'), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: true }, y: { range: (_, __, most) => curve.range(most ?? 0) } },
    axes: [
      { ...axis, size: 22, gap: 2, space: 70, grid: { show: false }, values: (_, ticks) => ticks.map(clock) },
      { ...axis, size: 46, gap: 2, space: 24, values: (_, ticks) => ticks.map(curve.axis) },
    ],
    series: [{}, { spanGaps: true, stroke: ink('--accent'), width: 1.5, fill: ink('--accent-soft'), points: { show: false } }],
  };
}
