// The whole page: it follows the coordinator's snapshots and hands them on.

import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Heat, type HotKeyEvent, type MapEvent, type Measure, type ScaleEvent, type Snapshot, TokenWanted, follow, get, heatOf, keepToken } from './api.ts';
import { Curves } from './curves.tsx';
import { Explain } from './explain.tsx';
import { findings, unevenness } from './findings.ts';
import { bytes, clock, count, micros, percent, times } from './format.ts';
import { History, SPANS, type Span } from './history.ts';
import { CLUSTER, HeatMap } from './map.tsx';
import { type Mark, Marks, marksOf, ofKey, ofMap, ofScale } from './marks.ts';
import { Events, HotKeys, Plans, Proxies, Scales, Servers } from './tables.tsx';

/** From the end of a stream to the next. */
const AGAIN_MS = 1000;
/** More columns than this that were missed are asked for, one by one is told by the stream. */
const MISSED_S = 3;
/** Minutes are asked for anew when there is another one. */
const MINUTE_S = 61;

interface State {
  seen: Snapshot | null;
  marks: readonly Mark[];
  /** Why nothing new comes. */
  trouble: string | null;
  wantsToken: boolean;
}

function Page() {
  const [state, setState] = useState<State>({ seen: null, marks: [], trouble: null, wantsToken: false });
  const [of, setOf] = useState<Measure>('load');
  const [span, setSpan] = useState<Span>(SPANS[0]!);
  const [tries, setTries] = useState(0);
  const wanted = useRef({ of, span });
  const past = useRef<History | null>(null);
  const loading = useRef<Promise<unknown> | null>(null);
  const marks = useRef(new Marks());

  /** The history of what is wanted, from the coordinator. */
  const load = async () => {
    const { of, span } = wanted.current;
    const heat = await get<Heat>(`/api/v1/heat?of=${of}&step=${span.step}&columns=${span.columns}`);
    if (wanted.current.of === of && wanted.current.span === span) past.current = new History(of, span, heat);
    setState((state) => ({ ...state }));
  };

  /** The same, once at a time; where it fails it is tried again with the next snapshot. */
  const reload = () => {
    loading.current ??= load()
      .catch(() => {})
      .finally(() => (loading.current = null));
  };

  /** What happened before the first snapshot. */
  const before = async () => {
    const [map, keys, scales] = await Promise.all([
      get<{ events: MapEvent[] }>('/api/v1/events'),
      get<{ events: HotKeyEvent[] }>('/api/v1/hotkeys/events'),
      get<{ events: ScaleEvent[] }>('/api/v1/scale/events'),
    ]);
    marks.current.add([...map.events.flatMap(ofMap), ...keys.events.flatMap(ofKey), ...scales.events.map(ofScale)]);
  };

  const take = (seen: Snapshot) => {
    marks.current.add(marksOf(seen));
    const history = past.current;
    const heat = history ? heatOf(seen, history.of) : null;
    const newest = heat?.columns[0]?.unix_s ?? 0;
    const last = history?.columns.at(-1)?.unix_s ?? newest;
    const apart = history?.span.step === 'minute' ? MINUTE_S : MISSED_S;
    if (!history || newest - last > apart) reload();
    else if (heat && history.span.step === 'second') history.take(heat);
    setState({ seen, marks: marks.current.all, trouble: null, wantsToken: false });
  };

  useEffect(() => {
    let over = false;
    const run = async () => {
      while (!over) {
        try {
          reload();
          // Without it the newest of each kind are there: each snapshot tells them.
          before().catch(() => {});
          await follow(take);
        } catch (error) {
          const trouble = error instanceof Error ? error.message : String(error);
          const wantsToken = error instanceof TokenWanted;
          setState((state) => ({ ...state, trouble, wantsToken }));
          if (wantsToken) return;
        }
        await new Promise((done) => setTimeout(done, AGAIN_MS));
      }
    };
    void run();
    return () => {
      over = true;
    };
  }, [tries]);

  const choose = (of: Measure, span: Span) => {
    wanted.current = { of, span };
    setOf(of);
    setSpan(span);
    load().catch((error) => setState((state) => ({ ...state, trouble: String(error) })));
  };

  const { seen, marks: told, trouble, wantsToken } = state;
  const history = past.current;
  const moment = history?.taken ?? 0;
  return (
    <>
      <Header seen={seen} trouble={trouble} />
      {wantsToken && <Token why={trouble} enter={() => setTries(tries + 1)} />}
      {seen ? (
        <main>
          <Findings seen={seen} history={history} />
          <Explain />
          <div class="centre">
            <HeatMap subject={CLUSTER} history={history} moment={moment} marks={told} of={of} span={span} choose={choose} />
            <Curves subject={CLUSTER} history={history} moment={moment} of={of} />
          </div>
          <aside aria-label="Keys and servers">
            <HotKeys seen={seen} />
            <Servers seen={seen} />
          </aside>
          <div class="below">
            <Plans seen={seen} />
            <Scales seen={seen} />
            <Proxies seen={seen} />
            <Events marks={told} />
          </div>
        </main>
      ) : (
        !wantsToken && <main class="waiting">Waiting for the coordinator…</main>
      )}
    </>
  );
}

function Header({ seen, trouble }: { seen: Snapshot | null; trouble: string | null }) {
  const figures = seen ? figuresOf(seen) : [];
  return (
    <header class="top">
      <h1>
        <img src="/icon.svg" alt="" width="20" height="20" /> Evenkeel
      </h1>
      <dl>
        {figures.map(([name, value]) => (
          <div key={name} class={LESS.has(name) ? 'less' : ''}>
            <dt>{name}</dt>
            <dd data-figure={name}>{value}</dd>
          </div>
        ))}
      </dl>
      <p class={trouble ? 'live lost' : 'live'} role="status">
        {trouble ? `no news since ${seen ? clock(seen.unix_s) : 'the start'}: ${trouble}` : seen && <time dateTime={String(seen.unix_s)}>live {clock(seen.unix_s)}</time>}
      </p>
    </header>
  );
}

/** Figures for which a narrow screen has no room. */
const LESS = new Set(['writes/s', 'values', 'items', 'memory', 'map']);

function figuresOf(seen: Snapshot): [string, string][] {
  const { totals, servers } = seen;
  return [
    ['requests/s', count(totals.load)],
    ['busiest by mean', times(unevenness(seen))],
    ['hit ratio', totals.reads_per_s > 0 ? percent(totals.hits_per_s / totals.reads_per_s) : '–'],
    ['p99', p99(seen)],
    ['writes/s', count(totals.writes_per_s)],
    ['values', `${bytes(totals.bytes_per_s)}/s`],
    ['hot keys', count(seen.hot_keys.keys.length + seen.hot_keys.keys_left_out)],
    ['items', count(totals.items)],
    ['memory', `${bytes(totals.memory_bytes)} of ${bytes(totals.memory_limit_bytes)}`],
    ['servers up', `${totals.servers_up} of ${totals.servers}`],
    ['map', `epoch ${servers.epoch}`],
  ];
}

/** Of requests through proxies, in the last second. */
function p99(seen: Snapshot): string {
  const us = seen.heat[0]?.columns[0]?.p99_us ?? null;
  return us === null ? '–' : micros(us);
}

function Findings({ seen, history }: { seen: Snapshot; history: History | null }) {
  return (
    <section class="findings" aria-label="What is wrong">
      <ul>
        {findings(seen, history).map((it) => (
          <li key={it.text} class={it.level}>
            {it.text}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Token({ why, enter }: { why: string | null; enter: () => void }) {
  const submit = (event: Event) => {
    event.preventDefault();
    const field = new FormData(event.currentTarget as HTMLFormElement).get('token');
    keepToken(String(field ?? ''));
    enter();
  };
  return (
    <form class="card token" onSubmit={submit}>
      <label>
        This coordinator asks for an operator's token
        <input type="password" name="token" autocomplete="off" required />
      </label>
      <button type="submit">Look</button>
      <p role="alert">{why}</p>
    </form>
  );
}

render(<Page />, document.getElementById('page')!);
