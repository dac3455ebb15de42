// Goal: an experiment of load is watched to the ledger's verdict, the bug and its fix, or
// any two locks, beside each other; so are two locks by the same moves; and what was run
// is a file, which is opened again while the laboratory is gone.

import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';

import { OVERSELL, atMoves, click, move } from './game.mjs';
import { expectAccessible, expectGoodLooks, says, start, test } from './page.mjs';

const BUSY = { allow: /429|404/ }; // the tests beside it run loads as well; one that is left is over
const RUN_MS = 300_000; // the machine may have other work, and others run loads before us

const button = (page, name) => page.getByRole('button', { name, exact: true });
const answer = (page, side) => page.locator(`#run-${side} .answer`);

async function open(page, address) {
  await page.goto(`/lab${address}`);
  await button(page, 'Run it').waitFor();
}

async function run(page) {
  await button(page, 'Run it').click();
  await button(page, 'Stop it').waitFor();
  await button(page, 'Run it').waitFor({ timeout: RUN_MS });
}

// What a browser saves by WORK, as a file that can be opened.
async function saved(page, work) {
  const coming = page.waitForEvent('download');
  await work();
  return (await coming).path();
}

test('the bug and its fix on the same load, by the ledger', async (page) => {
  await open(page, '#load=03');
  assert.ok(await button(page, 'Save this run').isDisabled(), 'there is nothing to save');
  await run(page);
  assert.ok(await button(page, 'Save this run').isEnabled());
  await says(answer(page, 'left'), /^Broken: more units were sold than there were\. By the ledger \d{3} sold, 0 left\.nobody outside can see who has the lock$/);
  await says(answer(page, 'right'), /^Nothing broke\. By the ledger 100 sold, 0 left\.$/);
  await says(page.locator('#run-right h2'), /^With token-lua$/);
  await says(page.locator('#load-why'), /The lock lives in the memory of a process/);
  const charts = await page.evaluate('globalThis.Chart ? 2 : 0');
  for (const side of ['left', 'right']) {
    assert.equal(await page.locator(`#run-${side} canvas`).count(), charts, 'charts, if the build has the library');
    await says(page.locator(`#run-${side} .happened`), /^800 orders: /);
    assert.equal(await page.locator(`#run-${side} .happened table`).count(), 0, 'one sentence is no table');
    const line = await page.evaluate((canvas) => globalThis.Chart?.getChart(document.querySelector(canvas)).data.datasets.find((each) => each.label === 'for sale').data.map(({ y }) => y), `#run-${side} canvas[data-unit="orders"]`);
    if (charts) assert.deepEqual([...new Set(line)], [100], 'a line where all are sold');
  }
  const numbers = page.locator('#run-right .numbers tr');
  if (charts) await page.locator('#run-right summary').click();
  assert.match(await numbers.last().textContent(), /1000700/, 'the last numbers are 100 sold, 0 left, 700 told "sold out"');
}, BUSY);

test('any two locks on the same load, which the address keeps', async (page) => {
  await open(page, '#load=19');
  await page.locator('#left').selectOption('none');
  await page.locator('#right').selectOption('fair');
  await run(page);
  assert.equal(new URL(page.url()).hash, '#load=19&left=none&right=fair');
  await says(answer(page, 'left'), /^Broken: /);
  await page.reload();
  await button(page, 'Run it').waitFor();
  assert.equal(await page.locator('#right').inputValue(), 'fair');
}, BUSY);

test('without the library of charts there are their numbers', async (page) => {
  await page.route('**/chart.js', (route) => route.fulfill({ contentType: 'text/javascript', body: '' }));
  await open(page, '#load=19');
  await run(page);
  await says(page.locator('#run-right .numbers tr').last(), /64/);
  assert.ok(await page.locator('#run-right .numbers').isVisible());
  assert.equal(await page.locator('canvas').count(), 0);
  await expectAccessible(page);
}, BUSY);

test('a story of instances has lanes, and is stopped', async (page) => {
  const games = new Set(); // of the second one's end the page does not learn, so that it can be stopped
  let isOver = false;
  await page.route('**/api/lab/games/*', async (route) => {
    const { pathname } = new URL(route.request().url());
    if (route.request().method() !== 'POST') return route.continue();
    if (isOver) return undefined;
    const response = await route.fetch();
    const answer = await response.json();
    const isSecond = [...games.add(pathname)].indexOf(pathname) === 1;
    isOver = isSecond && Boolean(answer.done);
    return route.fulfill({ response, json: { ...answer, done: answer.done && !isSecond } });
  });
  await open(page, '#load=08w');
  await button(page, 'Run it').click();
  await says(page.locator('#run-left .happened td'), /waits at naive-update:before/, RUN_MS);
  await says(page.locator('#run-right .happened td'), /waits at naive-update:before/, RUN_MS);
  const lanes = (lane) => page.locator(`#run-left .happened td[data-lane="${lane}"]`);
  await says(lanes('waits').first(), /^order 1$/);
  await says(lanes('held').first(), /^waits at naive-update:before$/);
  assert.ok(await lanes('clash').count() >= 2, 'red while b sells in the lease of a');
  await button(page, 'Stop it').click();
  await button(page, 'Run it').waitFor();
  assert.equal(await answer(page, 'right').getAttribute('data-answer'), null, 'what was stopped has no verdict');
  await says(answer(page, 'right'), /^Stopped\.$/);
  await page.unrouteAll({ behavior: 'ignoreErrors' }); // the end of the game may be under way
}, { allow: /429|404/ }); // a game that has ended meanwhile is not there to be ended

test('a run that begins when it is not wanted any more is ended', async (page) => {
  const begun = [];
  await page.route('**/api/lab/runs', (route) => { begun.push(route); });
  await open(page, '#load=06w');
  for (let n = 0; n < 2; n += 1) {
    const asked = page.waitForRequest('**/api/lab/runs');
    await button(page, 'Run it').click();
    await asked;
  }
  const ended = page.waitForRequest((request) => request.method() === 'DELETE' && request.url().endsWith('/games/first'));
  await begun[0].fulfill({ json: { id: 'first', timeline: [] } });
  await ended;
  await begun[1].fulfill({ json: { id: 'second', timeline: [] } });
  await page.unrouteAll({ behavior: 'ignoreErrors' });
}, { allow: /404/ });

test('by keys alone; a reload in mid-run, and two tabs, have runs of their own', async (page, context) => {
  const begin = async (tab) => {
    await open(tab, '#load=06w'); // its story waits for seconds
    await tab.locator('#right').focus();
    await tab.keyboard.press('Tab');
    await tab.keyboard.press('Enter');
    await says(tab.locator('#run-left .happened td'), /the process dies at naive-update:before/, RUN_MS);
  };
  await begin(page);
  await page.reload();
  await button(page, 'Run it').waitFor();
  assert.equal(await answer(page, 'left').isVisible(), false, 'what was left is over');
  const other = await context.newPage();
  await Promise.all([begin(page), begin(other)]);
  await page.locator('#load-end').focus();
  await page.keyboard.press('Enter');
  await button(page, 'Run it').waitFor();
  await says(answer(other, 'left'), /^Broken: /, RUN_MS);
  await says(answer(other, 'right'), /^Nothing broke\./, RUN_MS);
}, BUSY);

test('a laboratory that is gone in mid-run is told, and one that is there again runs it', async (page) => {
  const serve = (port) => start(['lab', 'serve', '--port', port], /(http:\S+)\/lab/);
  const first = serve('0');
  const url = await first.url;
  await page.goto(`${url}/lab#load=14w`);
  await button(page, 'Run it').click();
  await says(page.locator('#run-left .happened td'), /waits at naive-update:before/, RUN_MS);
  await first.end('SIGKILL');
  await says(page.locator('#told'), /does not answer/);
  const second = serve(new URL(url).port);
  try {
    await second.url;
    await button(page, 'Run it').click();
    await says(page.locator('#run-left .happened td'), /waits at naive-update:before/, RUN_MS);
  } finally {
    await second.end();
  }
}, { allow: /net::ERR_|Failed to fetch|404/ }); // the second one knows no run of the first

test('the fix of a story beside it, by the same moves', async (page) => {
  await page.goto('/lab#story=08&beside=fix');
  await says(page.locator('#beside-title'), /^With watchdog$/);
  await click(page, OVERSELL);
  await says(page.locator('#verdict'), /^Done in 9 moves/);
  await says(page.locator('#beside-skipped'), /^In place of L: aw aw aw aw, because here a watchdog is awake\. Not possible here: b b b\.$/);
  await says(page.locator('#beside-verdict'), /^Nothing broke so far\.$/);
  await says(page.locator('#beside-facts'), /0 left, 1 sold/);
  for (let i = 9; i > 2; i -= 1) {
    await button(page, 'Undo').click();
    await atMoves(page, OVERSELL.slice(0, i - 1));
  }
  await says(page.locator('#beside-facts'), /1 left, 0 sold/);
  await page.waitForFunction(() => document.getElementById('beside-skipped').textContent === '');
});

test('two locks beside each other, from a link', async (page) => {
  await page.goto(`/lab#lock=token&beside=token-lua&moves=${OVERSELL.slice(0, 3).join('+')}`);
  await says(page.locator('#lanes'), /the lease ends/);
  await says(page.locator('#beside-lanes'), /the lease ends/);
  await page.locator('#beside-lock').selectOption('');
  await page.locator('#beside').waitFor({ state: 'hidden' });
});

test('a run is saved, and opened while the laboratory is gone', async (page, context) => {
  await page.goto(`/lab#story=08&beside=fix&moves=${OVERSELL.join('+')}`);
  await says(page.locator('#verdict'), /^Done in 9 moves/);
  await says(page.locator('#beside-verdict'), /^Nothing broke so far\.$/);
  await says(page.locator('#beside-skipped'), /b b b/);
  const steps = await saved(page, () => button(page, 'Save this run').click());
  await open(page, '#load=19');
  await run(page);
  const load = await saved(page, () => button(page, 'Save this run').click());

  await context.setOffline(true);
  await page.locator('#file').setInputFiles(steps);
  await says(page.locator('#verdict'), /^Done in 9 moves/);
  await says(page.locator('#lanes'), /sells what is not there/);
  await says(page.locator('#beside-facts'), /0 left, 1 sold/);
  assert.equal(await page.locator('[data-move] >> visible=true').filter({ has: page.locator('kbd') }).count(), 0, 'nobody can move');
  await button(page, '中文').click();
  await says(page.locator('#lanes'), /sells what is not there/);
  await button(page, 'English').click();
  await page.locator('#file').setInputFiles(load);
  await says(page.locator('#run-left .answer'), /64 buyers for 64 units: \d+ bought/);
  await says(page.locator('#run-right .answer'), /64 buyers for 64 units: 64 bought/);

  await context.setOffline(false);
  await page.locator('#file').setInputFiles(steps);
  await button(page, 'Play on from here').click();
  await atMoves(page, OVERSELL);
  await move(page, 'a').waitFor();

  // A game that is played ends, and the file stays.
  const ended = page.waitForResponse((reply) => reply.request().method() === 'DELETE');
  await page.locator('#file').setInputFiles(steps);
  await ended;
  await button(page, '中文').click();
  await says(page.locator('#lanes'), /sells what is not there/);
  await button(page, 'English').click();
  await button(page, 'Play on from here').click();
  await move(page, 'a').waitFor();
}, { allow: /429|ERR_INTERNET_DISCONNECTED|Failed to fetch/ });

test('a file that is no run is told', async (page) => {
  const folder = mkdtempSync(`${tmpdir()}/stockade-browser-`);
  try {
    await page.goto('/lab#story=08');
    await move(page, 'a').waitFor();
    for (const text of ['no JSON', '{}', '{"stockade":1,"kind":"steps","address":"#story=08","game":{"schedule":""},"inside":[]}', '{"stockade":1,"kind":"load","address":"#load=03","runs":{"left":{}}}']) {
      writeFileSync(`${folder}/run.json`, text);
      await page.locator('#file').setInputFiles(`${folder}/run.json`);
      await says(page.locator('#told'), /^This file is no run that was saved here\.$/);
      await move(page, 'a').click();
      await atMoves(page, ['a']);
      await button(page, 'Undo').click();
      await atMoves(page, []);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('in Chinese', async (page) => {
  await open(page, '#load=03');
  await page.getByRole('button', { name: '中文' }).click();
  await says(page.getByRole('heading', { level: 1 }), /^真实实例，大量买家$/);
  await button(page, '运行').click();
  await button(page, '停止').waitFor();
  await button(page, '运行').waitFor({ timeout: RUN_MS });
  await says(answer(page, 'left'), /^出错：.*账本：售出 \d+ 件/);
  await says(page.locator('#run-left .happened'), /^800 个订单/);
}, BUSY);

test('axe finds nothing, in the dark on a phone and in the light at a desk', async (page) => {
  await open(page, '#load=19&left=none'); // one that breaks, and one that holds
  await run(page);
  await expectGoodLooks(page);
  await page.goto(`/lab#story=08&beside=fix&moves=${OVERSELL.join('+')}`);
  await says(page.locator('#beside-skipped'), /b b b/);
  await expectGoodLooks(page);
}, BUSY);

test('a run that could not be carried out has no verdict', async (page) => {
  await page.route('**/api/lab/runs', (route) => route.fulfill({ json: { id: 'x', done: true, error: 'no redis-server', faults: [] } }));
  await page.goto('/lab#load=03');
  await page.locator('#load-run').click();
  await says(page.locator('#run-left .answer'), /^no redis-server$/);
  await says(page.locator('#run-right .answer'), /^Stopped\.$/);
});
