// Looks at the page of a running coordinator in a real browser, as a person does, and fails by what is wrong with it.
//
//   node look.mjs URL KEY [FOLDER]              KEY is the hot key that has to be seen; FOLDER takes the pictures
//   node look.mjs --token TOKEN URL             a coordinator that asks for a token
//   node look.mjs --approve PLAN URL            a plan that waits for it
//   node look.mjs --large URL SERVERS WORKERS   a cluster of many servers; says what the page costs
//   node look.mjs --proxy URL KEY [FOLDER]      a proxy, whose hottest key KEY is

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const BROWSER = '/usr/bin/chromium';
/** Generous: a busy machine. */
const WAIT_MS = 60_000;
/** Updates over which costs of a large cluster are taken. */
const LARGE_SECONDS = 20;

const VIEWS = [
  { name: 'page', width: 1440, height: 900, colorScheme: 'light' },
  { name: 'page-dark', width: 1440, height: 900, colorScheme: 'dark' },
  { name: 'page-phone', width: 360, height: 740, colorScheme: 'light' },
  { name: 'page-4k', width: 3840, height: 2160, colorScheme: 'dark' },
];

/** Opens the page at this size, with this in it from its beginning; gives it with what it complains of. */
async function open(browser, url, view, early = () => {}) {
  const { width, height, colorScheme } = view;
  const context = await browser.newContext({ viewport: { width, height }, colorScheme });
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  const wrong = [];
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && wrong.push(message.text()));
  page.on('pageerror', (error) => wrong.push(String(error)));
  page.on('request', (request) => request.url().startsWith(url) || wrong.push(`asks elsewhere: ${request.url()}`));
  await page.addInitScript(early);
  await page.goto(url);
  return { page, wrong };
}

/** Snapshots of the stream by their second, as the page is told them. */
function listen(url) {
  const heard = new Map();
  const end = new AbortController();
  const done = (async () => {
    const answer = await fetch(`${url}api/v1/stream`, { signal: end.signal });
    let text = '';
    for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
      text += part;
      for (let at; (at = text.indexOf('\n\n')) >= 0; text = text.slice(at + 2)) {
        const snapshot = JSON.parse(text.slice('data: '.length, at));
        heard.set(snapshot.unix_s, snapshot);
      }
    }
  })().catch((error) => {
    if (!end.signal.aborted) throw error;
  });
  return { heard, stop: () => (end.abort(), done) };
}

/** What stands on the page, at one moment. */
const standing = () => {
  const text = (element) => element?.textContent.trim() ?? '';
  const cells = (row) => [...row.children].map(text);
  return {
    unix_s: Number(document.querySelector('.live time')?.dateTime),
    figures: Object.fromEntries([...document.querySelectorAll('[data-figure]')].map((it) => [it.dataset.figure, text(it)])),
    keys: [...document.querySelectorAll('.keys tbody tr')].map(cells),
    workers: Object.fromEntries([...document.querySelectorAll('[data-worker]')].map((it) => [it.dataset.worker, text(it.querySelector('[data-load]'))])),
    findings: [...document.querySelectorAll('.findings li')].map(text),
    events: [...document.querySelectorAll('.events li')].map(text),
  };
};

const collator = new Intl.Collator('en', { numeric: true });

const whole = (value) => (value >= 10 || Number.isInteger(value) ? Math.round(value).toLocaleString('en') : value.toFixed(1));

const short = (key) => (key.length <= 19 ? key : `${key.slice(0, 6)}…${key.slice(-12)}`);

/** The page says what the coordinator has told. */
function compare(seen, told, hotKeys) {
  const { figures, keys, workers } = seen;
  assert.equal(figures['requests/s'], whole(told.totals.load));
  assert.equal(figures['writes/s'], whole(told.totals.writes_per_s));
  assert.equal(figures['items'], whole(told.totals.items));
  assert.equal(figures['map'], `epoch ${told.servers.epoch}`);
  const up = told.servers.servers.filter((it) => it.up).length;
  assert.equal(figures['servers up'], `${up} of ${told.servers.servers.length}`);
  assert.equal(told.loads.workers.length, Object.keys(workers).length);
  const served = told.loads.workers.map((worker) => worker.load + worker.replica_load);
  const mean = told.totals.load / told.totals.workers;
  assert.equal(figures['busiest by mean'], `${(Math.max(...served) / mean).toFixed(2)} ×`);
  for (const worker of told.loads.workers) {
    assert.equal(workers[`${worker.server}/${worker.worker}`], whole(worker.load + worker.replica_load));
  }
  told.hot_keys.keys.slice(0, keys.length).forEach((key, i) => {
    const row = keys[i].slice(0, 4);
    assert.deepEqual(row, [short(key.key), `${key.server}/${key.worker}`, whole(key.load_rps), String(key.gamma)]);
  });
  // By another call: the same keys at the same homes.
  const place = (key) => `${key.key} at ${key.server}/${key.worker}`;
  assert.deepEqual(told.hot_keys.keys.map(place).sort(), hotKeys.keys.map(place).sort());
}

async function look(browser, url, key, folder) {
  const stream = listen(url);
  for (const view of VIEWS) {
    const { page, wrong } = await open(browser, url, view);
    const row = page.locator('.keys tbody tr', { hasText: short(key) }).first();
    await row.waitFor();
    // Not before it has copies, and the map some columns to show.
    await page.waitForFunction((key) => [...document.querySelectorAll('.findings li')].some((it) => it.textContent.includes(key) && /cop(y|ies) since/.test(it.textContent)), key);
    const box = await row.boundingBox();
    assert.ok(box.y + box.height <= view.height, `${view.name}: the hot key stands ${box.y} pixels down, under the first screen`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${view.name}: ${wide} pixels too wide`);
    if (view === VIEWS[0]) await detail(page, stream.heard, url, key);
    if (folder) {
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: `${folder}/${view.name}.png` });
    }
    assert.deepEqual(wrong, [], view.name);
    await page.context().close();
  }
  await stream.stop();
}

async function detail(page, heard, url, key) {
  // A second in which the page and the other listener were told the same, and the keys have not changed since.
  for (let tries = 1; ; tries += 1) {
    const seen = await page.evaluate(standing);
    const hotKeys = await (await fetch(`${url}api/v1/hotkeys`)).json();
    try {
      const told = heard.get(seen.unix_s);
      assert.ok(told, `nothing was heard of second ${seen.unix_s}`);
      compare(seen, told, hotKeys);
      break;
    } catch (error) {
      if (tries === 10) throw error;
      const after = String(seen.unix_s);
      await page.waitForFunction((after) => document.querySelector('.live time')?.dateTime > after, after);
    }
  }
  // What happened to the key, each event once.
  const search = page.getByRole('searchbox');
  await search.fill(key);
  const { events } = await (await fetch(`${url}api/v1/hotkeys/events`)).json();
  const ofKey = events.filter((it) => it.key === key).length;
  // The page may hear of the last of them a second later, and of one that is newer.
  await page.waitForFunction((least) => document.querySelectorAll('.events li').length >= least, Math.min(ofKey, 40));
  const shown = (await page.evaluate(standing)).events;
  assert.ok(shown.length <= ofKey + 2 && shown.every((it) => it.includes(key)), `${ofKey} events, but ${shown.join('\n')}`);
  await search.fill('');
  // Where the key lives is what the API says.
  const place = await (await fetch(`${url}api/v1/explain?key=${encodeURIComponent(key)}`)).json();
  await page.getByLabel('Explain a key').fill(key);
  await page.keyboard.press('Enter');
  await page.getByText(`${key} is in cachelet ${place.cachelet}, which ${place.server}/${place.worker} owns`).waitFor();
  await page.getByText(/^It is hot/).waitFor();
  // The keyboard reads values off the map, and the table says the same as a picture.
  await page.locator('canvas[role=img]').focus();
  await page.keyboard.press('ArrowLeft');
  await page.waitForFunction(() => / worker .*\/0, /.test(document.querySelector('output').textContent));
  await page.getByText('The same as a table').click();
  await page.locator('.map table tbody tr').first().waitFor();
  await page.getByText('The same as a table').click();
  for (const name of ['Reads', 'Writes', 'Bytes', '1 h', '1 day', 'Load', '5 min']) {
    await page.getByRole('button', { name, exact: true }).click();
    await page.locator(`button[aria-pressed=true]:text-is("${name}")`).waitFor();
  }
  assert.equal(await page.locator('main, header.top, h1').count(), 3);
  await page.mouse.move(2, 2);
}

async function enter(browser, url, token) {
  const { page } = await open(browser, url, VIEWS[0]);
  const field = page.getByLabel("This coordinator asks for an operator's token");
  await field.fill('not-the-token-at-all');
  await field.press('Enter');
  await page.getByText('does not know the token').first().waitFor();
  await field.fill(token);
  await field.press('Enter');
  await page.locator('.live time').waitFor();
  assert.match((await page.evaluate(standing)).findings[0], /no map yet/);
}

/** Who looks at a plan lets it be executed. */
async function approve(browser, url, plan) {
  const { page, wrong } = await open(browser, url, VIEWS[0]);
  await page.getByRole('button', { name: `Approve plan ${plan}`, exact: true }).click();
  const row = page.locator('tr', { has: page.locator(`td:text-matches("^${plan} ")`) });
  await row.locator('td:nth-child(2):not(:text-is("proposed"))').waitFor();
  await page.getByRole('button', { name: `Approve plan ${plan}`, exact: true }).waitFor({ state: 'detached' });
  assert.deepEqual(wrong, []);
}

/** A cluster of many servers and workers: all are counted, those that stand out are shown, and what a second costs is said. */
async function large(browser, url, servers, workers) {
  const { page, wrong } = await open(browser, url, VIEWS[0], () => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector('.map canvas')) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => (window.shown_ms = performance.now())));
    }).observe(document, { childList: true, subtree: true });
  });
  await page.waitForFunction(() => window.shown_ms);
  const shown = await page.evaluate(() => window.shown_ms);
  const cost = await seconds(page, LARGE_SECONDS);
  const seen = await page.evaluate(standing);
  const told = await (await fetch(`${url}api/v1/snapshot`)).json();
  assert.equal(seen.figures['servers up'], `${servers} of ${servers}`);
  assert.equal(told.totals.workers, Number(workers));
  const named = new Set(Object.keys(seen.workers).map((it) => it.split('/')[0]));
  assert.ok(named.size > 1 && named.size <= 12, `${named.size} servers are shown`);
  assert.deepEqual(Object.keys(seen.workers).length, told.loads.workers.length);
  // The one that stands out is named, and is among those that are shown.
  const [busiest] = [...told.loads.workers].sort((a, b) => b.busy - a.busy);
  const name = `${busiest.server}/${busiest.worker}`;
  assert.ok(seen.findings[0].startsWith(name), `${name}, but ${seen.findings}`);
  assert.ok(name in seen.workers);
  await page.locator('canvas[role=img]').focus();
  await page.keyboard.press('ArrowLeft');
  await page.waitForFunction(() => / busiest worker of .* to /.test(document.querySelector('output').textContent));
  assert.deepEqual(wrong, []);
  console.log(`first shown after ${shown.toFixed(0)} ms; each second ${cost}`);
}

/** A proxy: what stands on its page is what it tells, and names its hottest key and that key's server. */
async function ofProxy(browser, url, key, folder) {
  const heard = new Map();
  const snapshot = async () => (await fetch(`${url}api/v1/snapshot`)).json();
  for (const view of folder ? VIEWS.slice(0, 1) : VIEWS.slice(0, 3)) {
    const { page, wrong } = await open(browser, url, view);
    const row = page.locator('.keys tbody tr', { hasText: short(key) }).first();
    await row.waitFor();
    const box = await row.boundingBox();
    assert.ok(box.y + box.height <= view.height || view.width < 500, `${view.name}: the hottest key stands ${box.y} pixels down`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${view.name}: ${wide} pixels too wide`);
    const shown = () => {
      const text = (element) => element?.textContent.trim() ?? '';
      const figures = Object.fromEntries([...document.querySelectorAll('[data-figure]')].map((it) => [it.dataset.figure, text(it)]));
      const servers = [...document.querySelectorAll('[data-server]')].map((it) => [it.dataset.server, text(it.querySelector('[data-load]'))]);
      const [first] = document.querySelectorAll('.keys tbody tr');
      const hottest = [...(first?.children ?? [])].slice(0, 2).map(text);
      return { unix_s: Number(document.querySelector('.live time')?.dateTime), figures, servers, hottest };
    };
    for (let tries = 1; ; tries += 1) {
      const told = await snapshot();
      heard.set(told.unix_s, told);
      const seen = await page.evaluate(shown);
      const same = heard.get(seen.unix_s);
      if (same) {
        assert.equal(seen.figures['requests/s'], whole(same.requests_per_s));
        assert.equal(seen.figures['servers in use'], `${same.servers.filter((it) => it.state !== 'down').length} of ${same.servers.length}`);
        assert.deepEqual(seen.servers, same.servers.map((it) => [it.name, whole(it.load)]).sort((a, b) => collator.compare(a[0], b[0])));
        assert.deepEqual(seen.hottest, [short(key), same.hottest[0].home]);
        break;
      }
      assert.ok(tries < 200, `nothing was told of second ${seen.unix_s}`);
      await page.waitForTimeout(100);
    }
    await page.locator('canvas[role=img]').focus();
    await page.keyboard.press('ArrowLeft');
    await page.waitForFunction(() => / server .*, /.test(document.querySelector('output').textContent));
    await page.getByText('The same as a table').click();
    await page.locator('.map table tbody tr').first().waitFor();
    await page.getByText('The same as a table').click();
    for (const name of ['Bytes', '1 h', 'Load', '5 min']) {
      await page.getByRole('button', { name, exact: true }).click();
      await page.locator(`button[aria-pressed=true]:text-is("${name}")`).waitFor();
    }
    await page.mouse.move(2, 2);
    if (folder) {
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: `${folder}/${view.name}-proxy.png` });
    }
    assert.deepEqual(wrong, [], view.name);
    await page.context().close();
  }
}

/** What this many updates of the page take on average, as the browser counts it. */
async function seconds(page, count) {
  const session = await page.context().newCDPSession(page);
  // Of the page's own processor time: others may keep it waiting.
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const metrics = async () => Object.fromEntries((await session.send('Performance.getMetrics')).metrics.map((it) => [it.name, it.value]));
  const moment = () => page.evaluate(() => document.querySelector('.live time')?.dateTime);
  const next = async () => page.waitForFunction((last) => document.querySelector('.live time')?.dateTime > last, await moment(), { polling: 250 });
  await next();
  const before = await metrics();
  for (let i = 0; i < count; i += 1) await next();
  const after = await metrics();
  const ms = (name) => `${((1000 * (after[name] - before[name])) / count).toFixed(1)} ms`;
  return `${ms('ScriptDuration')} of script, ${ms('LayoutDuration')} of layout, ${ms('RecalcStyleDuration')} of styles, ${ms('TaskDuration')} of all`;
}

const browser = await chromium.launch({
  executablePath: BROWSER,
  args: ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
try {
  const [first, ...rest] = process.argv.slice(2);
  if (first === '--token') await enter(browser, rest[1], rest[0]);
  else if (first === '--approve') await approve(browser, rest[1], rest[0]);
  else if (first === '--large') await large(browser, ...rest);
  else if (first === '--proxy') await ofProxy(browser, ...rest);
  else await look(browser, first, ...rest);
} finally {
  await browser.close();
}
