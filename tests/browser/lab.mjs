// Goal: a learner breaks a lock with their own clicks, takes moves back, follows hints
// and links, in both languages, by keys alone, on a phone; and the page says so when the
// laboratory is gone.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';

import { OVERSELL, atMoves, click, move, open, verdict } from './game.mjs';
import { DESKTOP, LOW, PHONE, SHOP, expectAccessible, expectGoodLooks, gone, inView, says, start, test } from './page.mjs';

const told = (page) => page.locator('#told');
const rows = (page) => page.locator('#lanes tbody tr');

test('the last unit is sold twice by nine clicks', async (page) => {
  await open(page, '#story=08');
  await says(page.locator('#goal-text'), /^Sell more units than there are\.$/);
  await click(page, OVERSELL.slice(0, 4));
  assert.equal(await page.locator('.actor[data-inside="clash"]').count(), 2, 'both are inside, in red');
  assert.equal(await page.locator('#lanes tr:last-child td[data-lane="clash"]').count(), 2, 'so are their lanes');
  await click(page, OVERSELL.slice(4), OVERSELL.slice(0, 4));
  await says(verdict(page), /^Done in 9 moves: .* The fewest known are 9\.$/);
  await says(page.locator('#facts'), /0 left, 2 sold/);
  await says(page.locator('#why'), /A lease lasts for a fixed time/);
  await click(page, ['a'], OVERSELL);
  await says(verdict(page), /^Done in 9 moves/);
  const ink = () => page.evaluate('getComputedStyle(document.body).color');
  const light = await ink();
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  assert.equal(await ink(), light, 'on paper, too');
});

test('moves are taken back, made again, and a reload plays them anew', async (page) => {
  await open(page, '#story=08');
  await click(page, ['a', 'a', 'L']);
  await page.getByRole('button', { name: 'Undo' }).click();
  await atMoves(page, ['a', 'a']);
  await page.getByRole('button', { name: 'Redo' }).click();
  await atMoves(page, ['a', 'a', 'L']);
  await page.reload();
  await atMoves(page, ['a', 'a', 'L']);
  await says(rows(page).last(), /the lease ends/);
  await page.getByRole('button', { name: 'Start again' }).click();
  await atMoves(page, []);
  assert.equal(await rows(page).count(), 0);
});

test('hints lead to the end, and say when there is no way', async (page) => {
  await open(page, '#story=08&moves=a+a+L+b+b+a+a');
  await atMoves(page, OVERSELL.slice(0, 7));
  await page.getByRole('button', { name: 'Hint' }).click();
  await says(told(page), /^Hint: b\. 2 moves from here/);
  await page.locator('.hinted').click();
  await atMoves(page, OVERSELL.slice(0, 8));
  await open(page, '#lock=fenced&deduct=guarded&moves=a+a+a+a');
  await atMoves(page, ['a', 'a', 'a', 'a']);
  await page.getByRole('button', { name: 'Hint' }).click();
  // A hint is searched for half a minute at most.
  await says(told(page), /^It cannot be done from here: none of the \d+ schedules does it|there are more/, 40000);
});

test('a hint after it was broken', async (page) => {
  await open(page, '#story=08');
  await click(page, OVERSELL);
  await page.getByRole('button', { name: 'Hint' }).click();
  await says(told(page), /^It is broken already: start again for another way\.$/, 40000);
});

test('a line leads to a lock to be broken, which is shown with what it claims', async (page) => {
  await open(page, '');
  await page.getByRole('link', { name: 'Break one yourself: choose a lock' }).click();
  await says(page.locator('#claim'), /^As token-thread, on all hosts, unless the lease ends while it gives back\.$/);
  assert.equal(await page.locator('#lock').inputValue(), 'token');
  await expectAccessible(page);
  await says(page.locator('#lock-text'), /GET \$name/);
  await page.getByRole('button', { name: '中文' }).click();
  await says(page.locator('#claim'), /^同 token-thread，而且所有主机上都如此/);
  await page.locator('#lock').selectOption('fenced');
  await says(page.locator('#claim'), /^同 redisson，/);
  await gone(page.locator('#lock-text'));
  await page.locator('#story').selectOption('08');
  await gone(page.locator('#claim'));
});

test('the story is shown, and any click ends the show', async (page) => {
  await open(page, '#story=06');
  await page.getByRole('button', { name: 'Show me' }).click();
  await says(verdict(page), /^Done in \d+ moves/);
});

test('any lock, three buyers, a link that is shared', async (page, context) => {
  await open(page, '#lock=fair&buyers=3');
  assert.equal(await page.locator('.actor').count(), 3);
  await click(page, ['a', 'b', 'c']);
  const other = await context.newPage();
  await other.goto(page.url());
  await atMoves(other, ['a', 'b', 'c']);
  await says(rows(other).last(), /taken/);
  await page.locator('#lock').selectOption('none');
  await atMoves(page, []);
  await click(page, ['a', 'b']);
  await says(verdict(page), /two were inside at once/);
});

test('what came of a move is seen on a low screen, wherever it was clicked', async (page) => {
  for (const address of ['#lock=setnx', '#stop=03', '#own']) {
    await open(page, address);
    if (address === '#own') {
      await page.locator('#own-from').selectOption('setnx');
      await page.getByRole('button', { name: 'Play it' }).click();
      await page.locator('#facts').waitFor();
    }
    await move(page, 'a').click();
    await atMoves(page, ['a']);
    await move(page, 'a!').click();
    await says(verdict(page), /it never expires/);
    assert.ok(await inView(verdict(page)), `${address}: beside its moves`);
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
    assert.ok(await inView(verdict(page)), 'and at the end of the page');
    await page.evaluate('scrollTo(0, 0)');
    assert.ok(await inView(verdict(page)), 'and at its beginning');
  }
}, { viewport: LOW });

test('in Chinese, remembered', async (page) => {
  await open(page, '#story=08');
  await page.getByRole('button', { name: '中文' }).click();
  await says(page.getByRole('heading', { level: 1 }), /^由你来调度$/);
  await says(move(page, 'a'), /程序开始/);
  await click(page, ['a']);
  await page.reload();
  await says(page.getByRole('heading', { level: 1 }), /^由你来调度$/);
  await atMoves(page, ['a']);
  assert.equal(await page.evaluate('document.documentElement.lang'), 'zh-CN');
});

test('the switch of language is one for the shop and the laboratory', async (page) => {
  const folder = mkdtempSync(`${tmpdir()}/stockade-switch-`);
  const service = start(['serve', '--listen', '127.0.0.1:0', '--db', `sqlite:${folder}/shop.db`], /page=(http:\/\/[^\s/]+)/);
  const looks = (name) => page.locator(name).evaluate((button) => {
    const { x, y, width, height } = button.getBoundingClientRect();
    const { color, backgroundColor, borderColor, borderRadius, fontSize, fontWeight, lineHeight } = getComputedStyle(button);
    return { x, y, width, height, color, backgroundColor, borderColor, borderRadius, fontSize, fontWeight, lineHeight };
  });
  try {
    const url = await service.url;
    for (const viewport of [DESKTOP, PHONE]) {
      await page.setViewportSize(viewport);
      await page.goto(url);
      await page.locator('#zh').click();
      await says(page.locator('h1'), /^限时抢购$/);
      await page.mouse.move(0, 0);
      const shop = { en: await looks('#en'), zh: await looks('#zh') };
      await page.goto('/lab');
      await says(page.locator('#place'), /^第 1 站/);
      assert.deepEqual({ en: await looks('#en'), zh: await looks('#zh') }, shop, `${viewport.width} px: it looks and stands the same`);
      await page.locator('#en').click();
      await says(page.locator('#place'), /^Stop 1/);
      await page.goto(url);
      await says(page.locator('h1'), /^Flash sale$/);
    }
  } finally {
    await page.goto('about:blank'); // the shop's page would miss its server
    await service.end();
    rmSync(folder, { recursive: true });
  }
}, { allow: /503/ }); // until its Redis is up the shop has no products

test('by keys alone', async (page) => {
  await open(page, '#story=08');
  for (let i = 0; i < OVERSELL.length; i += 1) {
    await page.keyboard.press(OVERSELL[i]);
    await atMoves(page, OVERSELL.slice(0, i + 1));
  }
  await says(verdict(page), /^Done in 9 moves/);
  await page.keyboard.press('u');
  await atMoves(page, OVERSELL.slice(0, 8));
  await page.locator('[data-move="b!"]').press('Enter');
  await atMoves(page, [...OVERSELL.slice(0, 8), 'b!']);
  assert.equal(await page.evaluate('document.activeElement.id'), 'actors', 'b has no moves: near by');
  await page.locator('[data-move="a^"]').press('Enter');
  await atMoves(page, [...OVERSELL.slice(0, 8), 'b!', 'a^']);
  assert.match(await page.evaluate('document.activeElement.dataset.move'), /^a/, 'at the next move of a');
});

// A laboratory that is full says 503: tests/e2e/lab-serve.t.
test('a game waits for a place', async (page) => {
  let isFull = true;
  await page.route('**/api/lab/games', (route) => (isFull ? route.fulfill({ status: 503, json: { error: 'full' } }) : route.continue()));
  await page.goto('/lab#story=08');
  await says(told(page), /^All games are taken: yours begins when there is room\.$/);
  isFull = false;
  await click(page, ['a']);
  await gone(told(page).filter({ hasText: /./ }));
}, { allow: /status of 503/ });

test('two tabs have a game each', async (page, context) => {
  const other = await context.newPage();
  await open(page, '#story=08');
  await open(other, '#story=08');
  await click(page, ['a']);
  await click(other, ['b']);
  await click(page, ['a'], ['a']);
  await says(rows(page).first(), /SET lock/);
  assert.equal(await rows(other).count() > 0, true);
});

test('a laboratory that is gone is told, and found again', async (page, context) => {
  await open(page, '#story=08');
  await context.setOffline(true);
  await move(page, 'a').click();
  await says(told(page), /does not answer/);
  await context.setOffline(false);
  await move(page, 'a').click();
  await atMoves(page, ['a']);
  await gone(told(page).filter({ hasText: /does not answer/ }));
}, { allow: /ERR_INTERNET_DISCONNECTED|Failed to fetch/ });

test('a laboratory that was started anew goes on where the page is', async (page) => {
  const serve = (port) => start(['lab', 'serve', '--port', port], /(http:\S+)\/lab/);
  const first = serve('0');
  const url = await first.url;
  await page.goto(`${url}/lab#story=08`);
  await click(page, ['a', 'a']);
  await first.end();
  await move(page, 'L').click();
  await says(told(page), /does not answer/);
  const second = serve(new URL(url).port);
  try {
    await second.url;
    await move(page, 'L').click(); // of a game that nobody knows any more: its moves are made anew
    await atMoves(page, ['a', 'a', 'L']);
    await gone(told(page).filter({ hasText: /does not answer/ }));
    await says(rows(page).last(), /the lease ends/);
  } finally {
    await second.end();
  }
}, { allow: /net::ERR_|Failed to fetch/ });

test('games that have made room for others are begun anew by the next click', async (page) => {
  const games = [];
  page.on('request', (request) => games.push(...(request.url().match(/\/games\/\w+$/) ?? [])));
  await open(page, '#story=08&beside=fix');
  await click(page, ['a', 'a']);
  await says(page.locator('#beside-facts'), /1 left/);
  for (const game of new Set(games)) await fetch(`${SHOP}/api/lab${game}`, { method: 'DELETE' });
  assert.equal(new Set(games).size, 2, 'the lock, and the one beside it');
  await click(page, ['b'], ['a', 'a']);
  await says(rows(page).last(), /nil/);
  await says(page.locator('#beside-lanes tbody tr').last(), /nil/);
});

test('axe finds nothing, in the dark on a phone and in the light at a desk', async (page) => {
  await open(page, '#story=08&moves=a+a+L+b+b');
  await atMoves(page, OVERSELL.slice(0, 5));
  await expectGoodLooks(page);
  await click(page, OVERSELL.slice(5), OVERSELL.slice(0, 5));
  await expectGoodLooks(page);
});
