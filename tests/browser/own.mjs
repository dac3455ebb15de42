// Goal: a learner writes a lock of their own: the search breaks it while they watch, its
// schedules are played by a click, the mended text holds, a link shares it, and what is
// wrong with a text is told at its line.

import assert from 'node:assert/strict';

import { LOW, SHOP, WAIT_MS, expectGoodLooks, gone, inView, says, test } from './page.mjs';

const BLIND = 'take\n    SET $name $owner NX PX $lease -> OK taken, else busy\nrelease\n    DEL $name -> 1 done, else lost\n';

const text = (page) => page.locator('#own-text');
const found = (page) => page.locator('#found');
const button = (page, name) => page.getByRole('button', { name });
const over = (page) => page.locator('#search-end').waitFor({ state: 'hidden', timeout: 120_000 });

async function open(page) {
  await page.goto('/lab#own');
  await page.locator('.actor').first().waitFor();
}

// A text of one's own, of which there are few schedules: the search is soon over.
async function openBlind(page) {
  await open(page);
  await text(page).fill(BLIND);
  await page.locator('#deduct').selectOption('guarded');
}

async function search(page) {
  await button(page, 'Search all schedules').click();
  await says(found(page), /schedules/);
  await over(page);
}

test('a lock of one\'s own is broken by the search, and played', async (page) => {
  await openBlind(page);
  await search(page);
  await text(page).fill(BLIND.replace('else lost', '0 lost'));
  await gone(found(page)); // it was of another text
  await text(page).fill(BLIND);
  await search(page);
  await says(found(page), /It breaks\. The shortest of \d+ schedules:.*somebody else's lock was released: \d+ moves/s);
  await found(page).getByRole('link', { name: 'Play it' }).first().click();
  await says(page.locator('#verdict'), /^Broken in \d+ moves: somebody else's lock was released/);
  assert.equal(await text(page).inputValue(), BLIND, 'the text is in the link');
  assert.equal(await page.locator('#own-from').inputValue(), '', 'and no other lock is named above it');
  const moves = new URL(page.url()).hash;
  await page.reload();
  await says(page.locator('#verdict'), /^Broken in \d+ moves/);
  assert.equal(new URL(page.url()).hash, moves);
});

test('a text that was changed is not played before somebody says so', async (page) => {
  await open(page);
  await text(page).fill(BLIND);
  await page.locator('#actors').waitFor({ state: 'hidden' });
  await page.locator('#title').press('a');
  await button(page, 'Play it').click();
  await page.locator('[data-move="a"]').first().click();
  await page.waitForFunction(() => new URLSearchParams(location.hash.slice(1)).get('moves') === 'a');
});

test('mended, it holds in all schedules within the bounds', async (page) => {
  await open(page);
  await page.locator('#own-from').selectOption('token-lua');
  assert.match(await text(page).inputValue(), /EVAL \$owner/);
  await page.locator('#deduct').selectOption('guarded');
  await search(page);
  await says(found(page), /^Not broken: all \d+ schedules within these bounds were played\.Bounds: 1 lease/);
  await page.reload();
  await page.waitForFunction(() => document.querySelector('#own-text').value.includes('EVAL $owner')); // the browser has kept it
});

test('an example takes the place of one\'s own text, which comes back, with what was chosen', async (page, context) => {
  const from = page.locator('#own-from');
  const option = from.locator('option[value=""]');
  await open(page);
  assert.equal(await from.inputValue(), 'token');
  assert.ok(await option.evaluate((each) => each.disabled), 'there is no text of one\'s own yet');
  await text(page).fill(BLIND);
  await page.locator('#deduct').selectOption('guarded');
  await page.locator('#buyers').selectOption('3');
  assert.equal(await from.inputValue(), '');
  await from.selectOption('token-lua');
  assert.match(await text(page).inputValue(), /EVAL \$owner/);
  await from.selectOption('my text');
  assert.equal(await text(page).inputValue(), BLIND);
  await page.getByRole('link', { name: 'The path' }).click();
  await page.locator('#place').waitFor();
  await page.getByRole('link', { name: 'Your lock' }).click();
  await text(page).waitFor();
  for (const each of [page, await context.newPage()]) {
    if (each !== page) await open(each);
    assert.deepEqual(await Promise.all(['#own-text', '#deduct', '#buyers'].map((name) => each.locator(name).inputValue())), [BLIND, 'guarded', '3']);
  }
  await button(page, '中文').click();
  await says(from, /^我写的/);
  assert.match(await page.locator('#own-words').textContent(), /持有者标识/);
});

test('what is wrong with a text is told at its line', async (page) => {
  await open(page);
  await text(page).fill(BLIND.replace('DEL $name', 'DEL $nome'));
  await button(page, 'Play it').click();
  await says(page.getByRole('alert'), /^Line 4: '\$nome': there are \$name, /);
  assert.equal(await text(page).evaluate((box) => box.value.slice(box.selectionStart, box.selectionEnd)), '    DEL $nome -> 1 done, else lost');
  assert.equal(await page.locator('.board').isVisible(), false, 'nothing is played');
  await page.locator('#own-from').selectOption('token-lua');
  const lua = await text(page).inputValue();
  await text(page).fill(lua.replace('==', '='));
  const line = lua.split('\n').findIndex((each) => each.includes('==')) + 1;
  for (const name of ['Search all schedules', 'Play it']) {
    const refused = page.waitForResponse((reply) => reply.status() === 422);
    await button(page, name).click();
    await (await refused).finished();
    await page.evaluate(() => new Promise(requestAnimationFrame)); // the page marks the line then
    await says(page.getByRole('alert'), new RegExp(`^Line ${line}: Redis does not compile this script: `));
  }
  await text(page).fill(BLIND.replace('DEL $name', 'DEL $nome'));
  await button(page, 'Search all schedules').click();
  await says(page.getByRole('alert'), /^Line 4: /);
  await text(page).fill(BLIND);
  await button(page, 'Play it').click();
  await page.locator('.board').waitFor();
  await says(page.getByRole('alert'), /^$/);
}, { allow: /422/ });

test('what was wrong with a text is not told of the next one', async (page) => {
  const [first, second] = ['$nome', '$nahme'].map((wrong) => BLIND.replace('DEL $name', `DEL ${wrong}`));
  let send; // lets the answer to the first text go
  const held = new Promise((resolve) => { send = resolve; });
  await page.route('**/api/lab/searches', async (route) => {
    if (route.request().postDataJSON().text === first) await held;
    await route.continue();
  });
  await open(page);
  await text(page).fill(first);
  await button(page, 'Search all schedules').click();
  await text(page).fill(second);
  await button(page, 'Search all schedules').click();
  await says(page.getByRole('alert'), /nahme/);
  const late = page.waitForResponse((reply) => reply.request().postDataJSON()?.text === first);
  send();
  await (await late).finished();
  await page.evaluate(() => new Promise(requestAnimationFrame));
  await says(page.getByRole('alert'), /nahme/);
}, { allow: /422/ });

test('a search ends with its page', async (page) => {
  await page.goto('/lab#lock=fair&buyers=3');
  await page.locator('.actor').first().waitFor();
  const begun = page.waitForResponse('**/api/lab/searches');
  await button(page, 'Search all schedules').click();
  const { id } = await (await begun).json();
  const look = () => fetch(`${SHOP}/api/lab/games/${id}`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"command":"look"}' });
  assert.equal((await look()).status, 200, 'it goes on');
  await page.goto('about:blank');
  const end = Date.now() + WAIT_MS;
  while ((await look()).status !== 404) assert.ok(Date.now() < end, 'it is over');
});

test('what a search has found is seen on a low screen, and so is the board that is played', async (page) => {
  await openBlind(page);
  await button(page, 'Search all schedules').click();
  await says(found(page), /schedules/);
  assert.ok(await inView(found(page)), 'while it goes on');
  await over(page);
  assert.ok(await inView(found(page)), 'and at its end');
  await page.evaluate('scrollTo(0, 0)');
  await button(page, 'Play it').click();
  assert.ok(await inView(page.locator('[data-move="a"]')), 'the first move');
}, { viewport: LOW });

test('any lock is searched, until the learner has seen enough', async (page) => {
  await page.goto('/lab#lock=fair&buyers=3');
  await page.locator('.actor').first().waitFor();
  await button(page, 'Search all schedules').click();
  await says(found(page), /^Searching … \d+ schedules, all of up to \d+ moves\./);
  await button(page, 'Stop searching').click();
  await over(page);
  await says(found(page), /^Stopped\. Not broken in the \d+ schedules that were played/);

  await page.route('**/api/lab/games/*', (route) => route.abort());
  await button(page, 'Search all schedules').click();
  await says(page.locator('#told'), /^The laboratory does not answer\./);
  await says(found(page), /^Stopped\. Not broken in the \d+ schedules that were played/);
}, { allow: /ERR_FAILED|Failed to fetch/ });

test('by keys alone', async (page) => {
  await open(page);
  await text(page).focus();
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(BLIND);
  await page.locator('#deduct').selectOption('guarded'); // of which there are few schedules
  await text(page).focus();
  const focused = () => page.evaluate('document.activeElement.id');
  for (let i = 0; i < 20 && await focused() !== 'search'; i += 1) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.locator('#search-end').waitFor();
  await over(page);
  await says(found(page), /It breaks\./);
  const at = () => page.evaluate('document.activeElement.textContent');
  for (let i = 0; i < 20 && await at() !== 'Play it'; i += 1) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await says(page.locator('#verdict'), /^Broken in \d+ moves/);
});

test('in Chinese', async (page) => {
  await open(page);
  await button(page, '中文').click();
  await says(page.locator('#own-title'), /^锁就是一段文字/);
  await button(page, '搜索全部调度').waitFor();
  assert.match(await text(page).inputValue(), /^# 持有者写下.*\n#\n# 先看，再删.*\n\nclaim +同上/, 'its comments, too');
  assert.equal(await page.locator('#own-from').inputValue(), 'token', 'as which it is known');
  await page.locator('#own-from').selectOption('setnx');
  assert.match(await text(page).inputValue(), /^# 不存在才设置/);
  await button(page, '执行').click();
  await says(page.getByRole('alert'), /^$/);
  await button(page, 'English').click();
  await says(page.locator('#own-title'), /^A lock is a text/);
  assert.match(await text(page).inputValue(), /^# SET if Not eXists/);
  await text(page).fill(`# mine\n${BLIND}`);
  await button(page, '中文').click();
  await says(page.locator('#own-title'), /^锁就是一段文字/);
  assert.equal(await text(page).inputValue(), `# mine\n${BLIND}`, 'a text of one\'s own stays');
  await text(page).fill(BLIND.replace('DEL $name', 'DEL $nome'));
  await button(page, '执行').click();
  await says(page.getByRole('alert'), /^第 4 行：'\$nome'：只有 \$name、/);
}, { allow: /422/ });

test('axe finds nothing, in the dark on a phone and in the light at a desk', async (page) => {
  await openBlind(page);
  await search(page);
  await page.locator('#own summary').click();
  await expectGoodLooks(page);
});
