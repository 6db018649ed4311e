// What stands around the map: hot keys, servers and workers, plans, proxies, events.

import { useState } from 'preact/hooks';
import { type Snapshot, type Worker, approvePlan, approveScale } from './api.ts';
import { maxOverMean, meanLoad, nameOf, served } from './findings.ts';
import { byName, bytes, clock, count, counted, duration, micros, percent, shortened, times } from './format.ts';
import { type Mark, SIGNS } from './marks.ts';

/** Lines that are shown; who wants all asks the API. */
const KEYS_SHOWN = 12;
const EVENTS_SHOWN = 40;
/** Workers in the table; of more those of the servers with the busiest ones. */
const WORKERS_SHOWN = 160;

export function HotKeys({ seen }: { seen: Snapshot }) {
  const names = new Map(seen.servers.servers.map((it) => [it.id, it.name]));
  const shown = seen.hot_keys.keys.slice(0, KEYS_SHOWN);
  const more = seen.hot_keys.keys.length + seen.hot_keys.keys_left_out - shown.length;
  const alone = seen.hot_keys.hottest.slice(0, KEYS_SHOWN - shown.length);
  return (
    <section class="card" aria-labelledby="keys-title">
      <h2 id="keys-title">Hottest keys</h2>
      {shown.length + alone.length === 0 ? (
        <p class="empty">No key was asked for lately.</p>
      ) : (
        <div class="scroll">
          <table class="keys">
            <thead>
              <tr>
                <th>Key</th>
                <th>Home</th>
                <th class="number">Requests/s</th>
                <th class="number">Copies</th>
                <th>Since, or why not</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((key) => {
                const copies = key.shadows.map((it) => `${names.get(it.server) ?? it.server}/${it.worker}`);
                return (
                  <tr key={`${key.server} ${key.key}`}>
                    <td class="key" title={key.key}>
                      {shortened(key.key)}
                    </td>
                    <td>{nameOf(key)}</td>
                    <td class="number">{count(key.load_rps)}</td>
                    <td class="number" title={copies.join(', ')}>
                      {key.gamma}
                    </td>
                    <td>{key.replicas_since_unix_s === null ? '–' : clock(key.replicas_since_unix_s)}</td>
                  </tr>
                );
              })}
              {alone.map((key) => (
                <tr key={`${key.server} ${key.key}`}>
                  <td class="key" title={key.key}>
                    {shortened(key.key)}
                  </td>
                  <td>{nameOf(key)}</td>
                  <td class="number" title={`${count(key.gets_per_s)} gets, ${count(key.sets_per_s)} sets, ${bytes(key.bytes_per_s)} a second`}>
                    {count(key.load_rps)}
                  </td>
                  <td class="number">0</td>
                  <td>{key.why}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {more > 0 && <p class="more">and {count(more)} more with copies</p>}
    </section>
  );
}

export function Servers({ seen }: { seen: Snapshot }) {
  const mean = meanLoad(seen);
  const drained = new Set(seen.drains.map((it) => it.server));
  const loads = new Map(seen.loads.servers.map((it) => [it.server, it]));
  const workers = new Map<string, Worker[]>(seen.loads.servers.map((it) => [it.server, []]));
  for (const worker of seen.loads.workers) workers.get(worker.server)?.push(worker);
  const shown = busiest(seen, workers);
  return (
    <section class="card" aria-labelledby="servers-title">
      <h2 id="servers-title">Servers and workers</h2>
      <div class="scroll servers">
        <table>
          <thead>
            <tr>
              <th>Worker</th>
              <th class="number">Requests/s</th>
              <th class="number">By mean</th>
              <th>Busy</th>
              <th class="number">Headroom</th>
              <th class="number">Cachelets</th>
            </tr>
          </thead>
          {shown.map((server) => {
            const load = loads.get(server.name);
            const state = !server.up ? `down, silent for ${duration(server.silent_ms)}` : drained.has(server.name) ? 'draining' : server.asks_for_moves ? 'asks for moves' : 'up';
            const memory = load?.memory_limit_bytes ? `${bytes(load.memory_bytes)} of ${bytes(load.memory_limit_bytes)}` : '';
            const hits = load && load.reads_per_s > 0 ? `${percent(Math.min(load.hits_per_s / load.reads_per_s, 1))} hits` : '';
            return (
              <tbody key={server.name}>
                <tr class={server.up ? 'server' : 'server down'}>
                  <th scope="rowgroup" colSpan={4}>
                    {server.name} <span class="quiet">{[state, hits].filter(Boolean).join(', ')}</span>
                  </th>
                  <td class="number quiet" colSpan={2}>
                    {memory}
                  </td>
                </tr>
                {workers.get(server.name)?.map((worker) => (
                  <tr key={worker.worker} data-worker={nameOf(worker)}>
                    <td>{nameOf(worker)}</td>
                    <td class="number" data-load>
                      {count(served(worker))}
                    </td>
                    <td class="number">{mean > 0 ? times(served(worker) / mean) : '–'}</td>
                    <td>
                      <meter min={0} max={1} low={0.7} high={0.9} optimum={0} value={Math.min(worker.busy, 1)} aria-label={`${nameOf(worker)} is busy for`}>
                        {percent(worker.busy)}
                      </meter>
                    </td>
                    <td class="number">{percent(Math.max(0, 1 - worker.busy))}</td>
                    <td class="number">{worker.cachelets + worker.left_out}</td>
                  </tr>
                ))}
              </tbody>
            );
          })}
        </table>
      </div>
      {shown.length < seen.totals.servers && <p class="more">and {counted(seen.totals.servers - shown.length, 'server')} that are less busy</p>}
    </section>
  );
}

/** All servers, or those that matter: who is down comes first, and each takes a place at least. */
function busiest(seen: Snapshot, workers: Map<string, Worker[]>) {
  const { servers } = seen.servers;
  const places = (name: string) => Math.max(1, workers.get(name)?.length ?? 0);
  const all = servers.reduce((sum, it) => sum + places(it.name), 0);
  if (all <= WORKERS_SHOWN) return [...servers].sort((a, b) => byName(a.name, b.name));
  const busy = (name: string) => Math.max(-1, ...(workers.get(name) ?? []).map((it) => it.busy));
  const ranked = servers.map((server) => ({ server, rank: server.up ? busy(server.name) : 2 })).sort((a, b) => b.rank - a.rank);
  let left = WORKERS_SHOWN;
  const end = ranked.findIndex(({ server }) => (left -= places(server.name)) < 0);
  return ranked.slice(0, Math.max(end, 1)).map((it) => it.server);
}

export function Plans({ seen }: { seen: Snapshot }) {
  const { plans, settings, verdict } = seen.plans;
  return (
    <section class="card" aria-labelledby="plans-title">
      <h2 id="plans-title">Plans</h2>
      <p class="quiet">
        Mode {settings.mode}; verdict: {verdict.replace('_', ' ')}.
      </p>
      {plans.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Plan</th>
                <th>State</th>
                <th class="number">Moves</th>
                <th class="number">Busiest before</th>
                <th class="number">Predicted</th>
                <th class="number">Measured</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {plans.map((plan) => (
                <tr key={plan.id}>
                  <td>
                    {plan.id} <span class="quiet">{clock(plan.proposed_unix_s)}</span>
                  </td>
                  <td title={plan.note ?? ''}>{plan.state}</td>
                  <td class="number">
                    {plan.moved}/{plan.moves}
                  </td>
                  <td class="number">{times(maxOverMean(plan.before))}</td>
                  <td class="number">{times(maxOverMean(plan.predicted))}</td>
                  <td class="number">{plan.measured ? times(maxOverMean(plan.measured)) : '–'}</td>
                  <td>{plan.state === 'proposed' && <Approve what={`plan ${plan.id}`} approve={() => approvePlan(plan.id)} />}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** What pools are scaled; nothing where none is. */
export function Scales({ seen }: { seen: Snapshot }) {
  if (seen.scale.length === 0) return null;
  return (
    <section class="card" aria-labelledby="scale-title">
      <h2 id="scale-title">Autoscaling</h2>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Pool</th>
              <th>Mode</th>
              <th>Phase</th>
              <th class="number">Servers</th>
              <th class="number">Wanted</th>
              <th>Why</th>
              <th />
            </tr>
          </thead>
          <tbody>
            {seen.scale.map((scale) => (
              <tr key={scale.pool}>
                <td>{scale.pool}</td>
                <td>{scale.settings.mode}</td>
                <td>
                  {scale.phase.is === 'past' ? 'past a threshold' : scale.phase.is} {scale.phase.name}
                </td>
                <td class="number">{scale.servers}</td>
                <td class="number" title={`${scale.settings.min} to ${scale.settings.max}`}>
                  {scale.wanted}
                </td>
                <td>{scale.why}</td>
                <td>{scale.waits_for_approval && <Approve what={scale.pool} approve={() => approveScale(scale.pool)} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Approve({ what, approve }: { what: string; approve: () => Promise<void> }) {
  const [said, setSaid] = useState('');
  const go = async () => {
    setSaid('…');
    try {
      await approve();
      setSaid('approved');
    } catch (error) {
      setSaid(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <>
      <button type="button" onClick={go}>
        Approve {what}
      </button>
      <span role="status">{said}</span>
    </>
  );
}

export function Proxies({ seen }: { seen: Snapshot }) {
  const { proxies, epoch } = seen.proxies;
  return (
    <section class="card" aria-labelledby="proxies-title">
      <h2 id="proxies-title">Proxies</h2>
      {proxies.length === 0 ? (
        <p class="empty">No proxy reports here.</p>
      ) : (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Proxy</th>
                <th>State</th>
                <th class="number">Requests/s</th>
                <th class="number">p50</th>
                <th class="number">p99</th>
                <th class="number">Refused/s</th>
                <th class="number">Map</th>
              </tr>
            </thead>
            <tbody>
              {proxies.map((proxy) => (
                <tr key={proxy.name}>
                  <td>{proxy.name}</td>
                  <td>{proxy.up ? 'up' : `silent for ${duration(proxy.silent_ms)}`}</td>
                  <td class="number">{count(proxy.requests_per_second.reduce((a, b) => a + b, 0))}</td>
                  <td class="number">{proxy.p50_us === null ? '–' : micros(proxy.p50_us)}</td>
                  <td class="number">{proxy.p99_us === null ? '–' : micros(proxy.p99_us)}</td>
                  <td class="number">{count(proxy.shed_per_s)}</td>
                  <td class="number">{proxy.epoch === epoch ? `epoch ${epoch}` : `epoch ${proxy.epoch} of ${epoch}`}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

export function Events({ marks }: { marks: readonly Mark[] }) {
  const [wanted, setWanted] = useState('');
  const found = marks.filter((it) => it.text.toLowerCase().includes(wanted.toLowerCase()));
  const shown = found.slice(-EVENTS_SHOWN).reverse();
  return (
    <section class="card events" aria-labelledby="events-title">
      <header>
        <h2 id="events-title">What happened</h2>
        <input type="search" placeholder="a key, a server, a word" aria-label="Show events with these words alone" onInput={(event) => setWanted(event.currentTarget.value)} />
      </header>
      {shown.length === 0 ? (
        <p class="empty">Nothing{wanted && ' with these words'}.</p>
      ) : (
        <ol>
          {shown.map((mark) => (
            <li key={mark.id}>
              <time dateTime={new Date(mark.unix_s * 1000).toISOString()}>{clock(mark.unix_s)}</time>
              <b title={SIGNS[mark.kind].what}>{SIGNS[mark.kind].sign}</b>
              <span>{mark.text}</span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}
