// The page of one proxy: it asks for a snapshot each second.

import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Heat, type Measure, type ProxySnapshot, get } from './api.ts';
import { Curves } from './curves.tsx';
import { byName, bytes, clock, count, micros, percent, shortened, times } from './format.ts';
import { History, type Span } from './history.ts';
import { HeatMap, SERVERS } from './map.tsx';
import { type Mark, Marks } from './marks.ts';
import { figures, findings, ofServer } from './proxied.ts';
import { Events } from './tables.tsx';

const INTERVAL_MS = 1000;
/** More columns than this that were missed are asked for. */
const MISSED_S = 3;
/** Lines that are shown. */
const KEYS_SHOWN = 12;

interface State {
  seen: ProxySnapshot | null;
  marks: readonly Mark[];
  /** Why nothing new comes. */
  trouble: string | null;
}

function Page() {
  const [{ seen, marks, trouble }, setState] = useState<State>({ seen: null, marks: [], trouble: null });
  const [of, setOf] = useState<Measure>('load');
  const [span, setSpan] = useState<Span>(SERVERS.spans[0]!);
  const wanted = useRef({ of, span });
  const past = useRef<History | null>(null);
  const told = useRef(new Marks());

  const load = async () => {
    const { of, span } = wanted.current;
    const heat = await get<Heat>(`/api/v1/heat?of=${of}&columns=${span.columns}`);
    if (wanted.current.of === of && wanted.current.span === span) past.current = new History(of, span, heat);
  };

  const take = async () => {
    const seen = await get<ProxySnapshot>('/api/v1/snapshot');
    told.current.add(seen.events.map(ofServer));
    const history = past.current;
    const heat = seen.heat.find((it) => it.of === history?.of);
    const newest = heat?.columns[0]?.unix_s ?? 0;
    const last = history?.columns.at(-1)?.unix_s ?? 0;
    if (!history || newest - last > MISSED_S) await load();
    else if (heat) history.take(heat);
    setState({ seen, marks: told.current.all, trouble: null });
  };

  useEffect(() => {
    let over = false;
    const run = async () => {
      while (!over) {
        await take().catch((error) => setState((state) => ({ ...state, trouble: String(error) })));
        await new Promise((done) => setTimeout(done, INTERVAL_MS));
      }
    };
    void run();
    return () => {
      over = true;
    };
  }, []);

  const choose = (of: Measure, span: Span) => {
    wanted.current = { of, span };
    setOf(of);
    setSpan(span);
    load()
      .then(() => setState((state) => ({ ...state })))
      .catch((error) => setState((state) => ({ ...state, trouble: String(error) })));
  };

  const history = past.current;
  const moment = history?.taken ?? 0;
  return (
    <>
      <header class="top">
        <h1>
          <img src="/icon.svg" alt="" width="20" height="20" /> Evenkeel proxy
        </h1>
        <dl>
          {(seen ? [...figures(seen), ['p99', time(seen.p99_us)]] : []).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd data-figure={name}>{value}</dd>
            </div>
          ))}
        </dl>
        <p class={trouble ? 'live lost' : 'live'} role="status">
          {trouble ? `no news since ${seen ? clock(seen.unix_s) : 'the start'}: ${trouble}` : seen && <time dateTime={String(seen.unix_s)}>live {clock(seen.unix_s)}</time>}
        </p>
      </header>
      {seen ? (
        <main>
          <section class="findings" aria-label="What is wrong">
            <ul>
              {findings(seen).map((it) => (
                <li key={it.text} class={it.level}>
                  {it.text}
                </li>
              ))}
            </ul>
          </section>
          <div class="centre">
            <HeatMap subject={SERVERS} history={history} moment={moment} marks={marks} of={of} span={span} choose={choose} />
            <Curves subject={SERVERS} history={history} moment={moment} of={of} />
          </div>
          <aside aria-label="Keys and servers">
            <Keys seen={seen} />
            <Servers seen={seen} />
          </aside>
          <div class="below">
            <Events marks={marks} />
          </div>
        </main>
      ) : (
        <main class="waiting">Waiting for the proxy…</main>
      )}
    </>
  );
}

const time = (us: number | null): string => (us === null ? '–' : micros(us));

function Keys({ seen }: { seen: ProxySnapshot }) {
  const keys = seen.hottest.slice(0, KEYS_SHOWN);
  return (
    <section class="card" aria-labelledby="keys-title">
      <h2 id="keys-title">Hottest keys</h2>
      {keys.length === 0 ? (
        <p class="empty">No key was asked for lately.</p>
      ) : (
        <div class="scroll">
          <table class="keys">
            <thead>
              <tr>
                <th>Key</th>
                <th>Server</th>
                <th class="number">Requests/s</th>
                <th class="number">Of all</th>
                <th class="number">Copies</th>
                <th>Why not</th>
              </tr>
            </thead>
            <tbody>
              {keys.map((key) => (
                <tr key={`${key.pool} ${key.key}`}>
                  <td class="key" title={`${key.key} in pool ${key.pool}`}>
                    {shortened(key.key)}
                  </td>
                  <td>{key.home ?? '–'}</td>
                  <td class="number" title={`${count(key.gets_per_s)} gets, ${count(key.sets_per_s)} sets, ${bytes(key.bytes_per_s)} a second`}>
                    {count(key.gets_per_s + key.sets_per_s)}
                  </td>
                  <td class="number">{percent(key.share)}</td>
                  <td class="number">{key.copies}</td>
                  <td>{key.why}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Servers({ seen }: { seen: ProxySnapshot }) {
  const servers = [...seen.servers].sort((a, b) => byName(a.name, b.name));
  const mean = servers.reduce((sum, it) => sum + it.load, 0) / Math.max(1, servers.length);
  return (
    <section class="card" aria-labelledby="servers-title">
      <h2 id="servers-title">Servers</h2>
      <div class="scroll servers">
        <table>
          <thead>
            <tr>
              <th>Server</th>
              <th>State</th>
              <th class="number">Answers/s</th>
              <th class="number">By mean</th>
              <th class="number">p50</th>
              <th class="number">p99</th>
              <th class="number">Waiting</th>
            </tr>
          </thead>
          <tbody>
            {servers.map((server) => (
              <tr key={server.name} class={server.state === 'down' ? 'down' : ''} data-server={server.name}>
                <td title={`pool ${server.pool}`}>{server.name}</td>
                <td title={server.cause ?? ''}>{server.state}</td>
                <td class="number" data-load>
                  {count(server.load)}
                </td>
                <td class="number">{mean > 0 ? times(server.load / mean) : '–'}</td>
                <td class="number">{time(server.p50_us)}</td>
                <td class="number">{time(server.p99_us)}</td>
                <td class="number">{count(server.queued)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

render(<Page />, document.getElementById('page')!);
