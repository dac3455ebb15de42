// What the scripts of this folder share: Debian's chromium-headless-shell, which draws as
// chromium does for a third of the processor's time, driven by playwright-core, at a
// stockade that runs already; and points in TAP. run.mjs runs them.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

// `make browser` installs the packages there, so that tests/ has only what is ours.
const packages = createRequire(new URL('../../build/browser/', import.meta.url));
const { chromium } = packages('playwright-core');

export const BINARY = process.env.STOCKADE_BIN || fileURLToPath(new URL('../../build/stockade', import.meta.url));
export const SHOP = process.env.STOCKADE_URL;
export const WAIT_MS = 60_000 * (process.env.STOCKADE_SLOW || 1); // for one thing to be seen, on a busy machine
const AT_A_TIME = 4;
export const PHONE = { width: 360, height: 740 };
export const DESKTOP = { width: 1280, height: 900 };
export const LOW = { width: 1280, height: 720 };

// root may not use chromium's sandbox; the pages are our own.
export const launch = () => chromium.launch({
  executablePath: '/usr/bin/chromium-headless-shell',
  args: process.getuid() === 0 ? ['--no-sandbox'] : [],
});

// ---- the shop, as its administrator sees it -----------------------------------------

export async function api(method, path, body, headers) {
  const reply = await fetch(SHOP + path, { method,
    headers: { 'Content-Type': 'application/json', ...headers }, body: body && JSON.stringify(body) });
  assert.ok(reply.ok, `${method} ${path}: ${reply.status}`);
  return reply.json();
}

export const putProduct = (id, fields) => api('PUT', `/api/products/${id}`, { stock: 10, price_cents: 1250, ...fields });

export const inMs = (ms) => new Date(Date.now() + ms).toISOString();

// IDS are the products that a page which polls is told of: each that others have added
// takes axe its time, and moves what is below.
export const showOnly = (page, ids) => page.route('**/api/products?*', async (route) => {
  const response = await route.fetch({ maxRetries: 3 }); // of a connection that was idle for too long
  const { products, next } = await response.json();
  await route.fulfill({ response, json: { products: products.filter(({ id }) => ids.includes(id)), next } });
});

// ---- other servers ------------------------------------------------------------------

// A stockade with ARGS, whose first line that matches says where it is.
export function start(args, pattern) {
  const child = spawn(BINARY, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const url = new Promise((resolve, reject) => {
    let said = '';
    for (const output of [child.stdout, child.stderr]) {
      output.on('data', (data) => {
        said += data;
        const found = pattern.exec(said);
        if (found) resolve(found[1]);
      });
    }
    child.on('exit', () => reject(new Error(said)));
  });
  const ended = new Promise((resolve) => { child.on('exit', resolve); });
  process.on('exit', () => child.kill()); // however this script ends
  return { url, end: (signal = 'SIGTERM') => { child.kill(signal); return ended; } };
}

// ---- tests ----------------------------------------------------------------------------

const tests = [];
let script; // whose tests are read

// OPTIONS are those of a browser's context, and those of begin() and played().
export const test = (name, run, options = {}) => tests.push({ name: `${script}: ${name}`, run, options });

export async function readTests(name) {
  script = name;
  await import(`./${name}.mjs`);
}

// What nobody expects of a page: errors, and whatever its policy forbids. A test that
// breaks the network allows the console to say so; a game of the laboratory may have made
// room for others.
async function watch(page, complain) {
  page.on('pageerror', (error) => complain(String(error)));
  const isOfGame = (message) => /status of 404/.test(message.text()) && message.location().url.includes('/api/lab/games/');
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && !isOfGame(message) && complain(message.text()));
  await page.exposeFunction('policyBroken', (what) => complain(`policy: ${what}`));
  await page.addInitScript(() => addEventListener('securitypolicyviolation',
    (event) => window.policyBroken(`${event.violatedDirective} ${event.blockedURI}`)));
}

// A context costs more than most tests do, so a runner has one that its tests share, one
// after the other: each leaves it as it was. A test that wants another context, or changes
// it for good, has one of its own: it is FRESH.
async function openPlace(browser, more) {
  const context = await browser.newContext({ locale: 'en-US', baseURL: SHOP, reducedMotion: 'reduce', ...more });
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  const place = { context, page, complaints: [], allowed: undefined, storage: await context.newCDPSession(page) };
  await watch(page, (text) => place.allowed?.test(text) || place.complaints.push(text));
  return place;
}

// The laboratory's page ends its games when it is left. A route's handler that is still at
// work would end us all by its error.
const sayGoodbye = (context) => Promise.all(context.pages().map((each) => each.unrouteAll({ behavior: 'ignoreErrors' })
  .then(() => each.goto('about:blank')).catch(() => null)));

async function leave({ context, page, storage }) {
  for (const event of ['request', 'response']) page.removeAllListeners(event);
  await sayGoodbye(context);
  await Promise.all(context.pages().map((each) => each !== page && each.close()));
  await page.mouse.move(0, 0);
  await context.clearCookies();
  await storage.send('Storage.clearDataForOrigin', { origin: SHOP, storageTypes: 'local_storage' });
}

// Pages of a test that POLLS are refused the stream of events, and ask for news.
async function runOne(browser, runner, { run, options }, time) {
  const { viewport = DESKTOP, polls, allow = polls && /status of 503/, seconds, fresh, ...more } = options;
  const isShared = !fresh && !Object.keys(more).length;
  const place = (isShared && runner.place) || await openPlace(browser, { viewport, ...more });
  const { context, page } = place;
  let isLeft = false;
  try {
    Object.assign(place, { complaints: [], allowed: allow });
    if (isShared) await page.setViewportSize(viewport);
    if (polls) await page.route('**/api/events', (route) => route.fulfill({ status: 503 }));
    await run(page, context, time);
    assert.deepEqual(place.complaints, [], 'the browser complains of nothing');
    if (isShared) await leave(place);
    isLeft = isShared;
  } finally {
    if (!isLeft) {
      await sayGoodbye(context);
      await context.close();
    }
    if (isShared) runner.place = isLeft ? place : null;
  }
}

// A test of what comes by the shop's clock has SECONDS until then to choose from: of a page
// that was not there in time it is known only that it needs more. NULL, or what failed.
async function played(browser, runner, each) {
  let failed;
  for (const time of each.options.seconds ?? [0]) {
    failed = await runOne(browser, runner, each, time).then(() => null, (error) => error);
    if (!failed) break;
  }
  return failed;
}

// They wait more than they work, so a few run at a time: each has a window and products
// of its own. PART: of a name, of those that are run.
export async function runTests(part = '') {
  const browser = await launch();
  let said = 0;
  const runSome = async (some) => {
    const runner = { place: null };
    for (const each of some) {
      const failed = await played(browser, runner, each);
      console.log(`${failed ? 'not ok' : 'ok'} ${said += 1} - ${each.name}`);
      if (failed) console.log(String(failed.stack).replace(/^/gm, '# '));
    }
  };
  try {
    const chosen = tests.filter(({ name }) => name.includes(part));
    const some = chosen.values(); // one iterator: whoever is free takes the next
    await Promise.all(Array.from({ length: AT_A_TIME }, () => runSome(some)));
    console.log(`1..${chosen.length}`);
  } finally {
    await browser.close();
  }
}

// axe finds what colours, names and roles do wrong. It is evaluated from outside, where
// the page's policy does not count.
export async function expectAccessible(page, what = '') {
  if (await page.evaluate('!window.axe')) await page.evaluate(`${packages('axe-core').source}; undefined`);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`), [], what);
}

// Colours do not hang together with the width, so two looks show both of each.
const LOOKS = [[PHONE, 'dark'], [DESKTOP, 'light']];

// The page as it stands, in each of LOOKS: axe finds nothing, and nothing is wider than
// the window.
export async function expectGoodLooks(page) {
  for (const [viewport, colorScheme] of LOOKS) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
    await expectAccessible(page, `${colorScheme}, ${viewport.width} px`);
    assert.ok(await page.evaluate('document.documentElement.scrollWidth') <= viewport.width, `nothing is wider than ${viewport.width} px`);
  }
  await page.emulateMedia({ colorScheme: 'light' });
}

// The value of KEY in the part of the address that the laboratory reads.
export const at = (page, key, value) => page.waitForURL((url) => new URLSearchParams(url.hash.slice(1)).get(key) === value, { waitUntil: 'commit' });

// ---- what a customer does ---------------------------------------------------------------

// A product's card, and its parts.
export function card(page, name) {
  const item = page.locator('.product', { has: page.getByRole('heading', { name, exact: true }) });
  return { item,
    button: item.locator('.buy button'),
    quantity: item.locator('.quantity'),
    answer: item.locator('.answer').first(),
    window: item.locator('.window') };
}

// Waits until ELEMENT says what matches.
export async function says(element, pattern, timeout = WAIT_MS) {
  await element.filter({ hasText: pattern }).waitFor({ timeout }).catch(async (error) => {
    throw new Error(`${pattern} is not said, but: ${await element.allTextContents()}`, { cause: error });
  });
}

const isSeen = (element) => {
  const { top, bottom, left, right } = element.getBoundingClientRect();
  const isBare = (x, y) => element.contains(document.elementFromPoint(x, y));
  return top >= 0 && left >= 0 && bottom <= innerHeight && right <= innerWidth
    && isBare((left + right) / 2, top + 1) && isBare((left + right) / 2, bottom - 1);
};

// Waits until all of it is seen, and nothing lies over it: the page may draw it anew.
export async function inView(locator) {
  for (const end = Date.now() + WAIT_MS / 2; Date.now() < end; await setTimeout(50)) {
    if (await locator.evaluate(isSeen)) return true;
  }
  return false;
}

export const gone = (element) => element.waitFor({ state: 'hidden' });
