// What the scripts of this folder share: Debian's chromium-headless-shell, which draws as
// chromium does for a third of the processor's time, driven by playwright-core, at a
// stockade that runs already; and points in TAP.
//
//   STOCKADE_URL=http://127.0.0.1:PORT node tests/browser/ordering.mjs [PART OF A NAME]
//
// tests/full/page.t starts the server and runs the scripts.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
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

export async function api(method, path, body) {
  const reply = await fetch(SHOP + path, { method,
    headers: { 'Content-Type': 'application/json' }, body: body && JSON.stringify(body) });
  assert.ok(reply.ok, `${method} ${path}: ${reply.status}`);
  return reply.json();
}

export const putProduct = (id, fields) => api('PUT', `/api/products/${id}`, { stock: 10, price_cents: 1250, ...fields });

export const inMs = (ms) => new Date(Date.now() + ms).toISOString();

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
// OPTIONS are those of a browser's context, and those of runOne() and played().
export const test = (name, run, options = {}) => tests.push({ name, run, options });

// What nobody expects of a page: errors, and whatever its policy forbids. A test that
// breaks the network allows the console to say so; a game of the laboratory may have made
// room for others.
async function watch(page, complaints, allowed) {
  const complain = (text) => allowed?.test(text) || complaints.push(text);
  page.on('pageerror', (error) => complain(String(error)));
  const isOfGame = (message) => /status of 404/.test(message.text()) && message.location().url.includes('/api/lab/games/');
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && !isOfGame(message) && complain(message.text()));
  await page.exposeFunction('policyBroken', (what) => complain(`policy: ${what}`));
  await page.addInitScript(() => addEventListener('securitypolicyviolation',
    (event) => window.policyBroken(`${event.violatedDirective} ${event.blockedURI}`)));
}

// axe finds what colours, names and roles do wrong. It is evaluated from outside, where
// the page's policy does not count.
export async function expectAccessible(page) {
  const source = packages('axe-core').source;
  await page.evaluate(`${source}; undefined`);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`), []);
}

// Of a test that POLLS the page is refused the stream of events, and asks for news.
async function runOne(browser, { run, options }, time) {
  const { viewport = DESKTOP, polls, allow = polls && /status of 503/, seconds, ...more } = options;
  const context = await browser.newContext({ viewport, locale: 'en-US', baseURL: SHOP, ...more });
  const complaints = [];
  context.setDefaultTimeout(WAIT_MS);
  try {
    const page = await context.newPage();
    await watch(page, complaints, allow);
    if (polls) await page.route('**/api/events', (route) => route.fulfill({ status: 503 }));
    await run(page, context, time);
    assert.deepEqual(complaints, [], 'the browser complains of nothing');
  } finally {
    await Promise.all(context.pages().map((page) => page.goto('about:blank').catch(() => null))); // so that it can say goodbye
    await context.close();
  }
}

// A test of what comes by the shop's clock has SECONDS until then to choose from: of a page
// that was not there in time it is known only that it needs more. NULL, or what failed.
async function played(browser, each) {
  let failed;
  for (const time of each.options.seconds ?? [0]) {
    failed = await runOne(browser, each, time).then(() => null, (error) => error);
    if (!failed) break;
  }
  return failed;
}

// They wait more than they work, so a few run at a time: each has a window and products
// of its own.
export async function runTests() {
  const browser = await launch();
  let said = 0;
  const runSome = async (some) => {
    for (const each of some) {
      const failed = await played(browser, each);
      console.log(`${failed ? 'not ok' : 'ok'} ${said += 1} - ${each.name}`);
      if (failed) console.log(String(failed.stack).replace(/^/gm, '# '));
    }
  };
  try {
    const chosen = tests.filter(({ name }) => name.includes(process.argv[2] ?? ''));
    const some = chosen.values(); // one iterator: whoever is free takes the next
    await Promise.all(Array.from({ length: AT_A_TIME }, () => runSome(some)));
    console.log(`1..${chosen.length}`);
  } finally {
    await browser.close();
  }
}

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

// Waits until all of it is seen, and nothing lies over it.
export const inView = (locator) => locator.evaluate((element, waitMs) => new Promise((resolve) => {
  const isSeen = () => {
    const { top, bottom, left, right } = element.getBoundingClientRect();
    const isBare = (x, y) => element.contains(document.elementFromPoint(x, y));
    return top >= 0 && left >= 0 && bottom <= innerHeight && right <= innerWidth
      && isBare((left + right) / 2, top + 1) && isBare((left + right) / 2, bottom - 1);
  };
  const end = performance.now() + waitMs;
  const look = () => (isSeen() || performance.now() > end ? resolve(isSeen()) : setTimeout(look, 50));
  look();
}), WAIT_MS / 4);

export const gone = (element) => element.waitFor({ state: 'hidden' });
