// Goal: a learner walks the path with their own clicks: breaks the first five stops, lets
// the search judge what mends them, finds them solved after a reload, and goes on where
// they left off. A demonstration does not count; a right lock wants the search's word.

import assert from 'node:assert/strict';

import { click, move, open, verdict } from './game.mjs';
import { LOW, PHONE, WAIT_MS, at, expectGoodLooks, gone, inView, says, test } from './page.mjs';

const choice = (page, name) => page.locator(`button[data-choice="${name}"]`);
const answer = (page, name) => page.locator('li', { has: choice(page, name) }).locator('.answer');
const stops = (page) => page.locator('#stops li');
const kept = (page) => page.evaluate(() => JSON.parse(localStorage.getItem('stockade-lab-path')));

async function mend(page, name, expected) {
  await choice(page, name).click();
  await says(answer(page, name), expected, 4 * WAIT_MS); // judges take turns
}

const BREAKS = /^It still breaks: /;
const HOLDS = /^It holds: none in \d+ schedules: all within these bounds\./;

test('the first five stops are solved by clicks, and stay so', async (page) => {
  const walk = [['a b a a b b', 'a', 'b'], ['a b a a b b', 'a', 'b'], ['a a!', 'a', 'c'], ['a b b+ b b', 'c', 'b'], ['a a!', 'd', 'c']];
  await open(page, '');
  for (const [i, [schedule, wrong, right]] of walk.entries()) {
    await says(page.locator('#place'), new RegExp(`^Stop ${i + 1} of \\d+$`));
    await at(page, 'stop', `0${i + 1}`);
    await at(page, 'moves', '');
    assert.ok(await choice(page, right).isDisabled(), 'first it is broken');
    await click(page, schedule.split(' '));
    await says(verdict(page), new RegExp(`^Done in ${schedule.split(' ').length} moves: .* The fewest known are ${schedule.split(' ').length}\\.$`));
    assert.equal(await stops(page).nth(i).getAttribute('data-state'), 'broken');
    await mend(page, wrong, BREAKS);
    assert.ok(await page.locator('#still').isHidden());
    await mend(page, right, HOLDS);
    await says(page.locator('#still'), /Redisson/);
    assert.equal(await stops(page).nth(i).getAttribute('data-state'), 'solved');
    await page.locator('#next-stop').click();
  }
  await says(page.locator('#progress'), /^5 of \d+ solved$/);
  await at(page, 'stop', '06');
  await open(page, '');
  await page.reload();
  await says(page.locator('#progress'), /^5 of \d+ solved$/);
  await says(page.locator('#title'), /^Somebody else's lock$/);
  await page.locator('#stops a').nth(2).click();
  await says(page.locator('#title'), /^The holder dies$/);
  await says(page.locator('#still'), /Redisson/);
  assert.ok(await choice(page, 'a').isEnabled(), 'what was broken once can be mended anew');
});

test('an answer for which there was no time solves nothing', async (page) => {
  await page.route('**/api/lab/judge', (route) => route.fulfill({ json: { choice: 'c', answer: 'unknown', says: 'none in 5', bounds: '', others: [] } }));
  await open(page, '#stop=03');
  await click(page, ['a', 'a!']);
  await mend(page, 'c', /^Not known yet: none in 5\. Time was up first/);
  assert.equal(await stops(page).nth(2).getAttribute('data-state'), 'broken');
});

for (const viewport of [LOW, PHONE]) {
  test(`what the judge says is seen on a low screen, ${viewport.width} px`, async (page) => {
    await open(page, '#stop=03');
    await click(page, ['a', 'a!']);
    await page.getByRole('button', { name: 'Now mend it' }).click();
    assert.ok(await inView(page.locator('#mend-title')), 'the choices, not below the verdict');
    for (const [name, expected] of [['a', BREAKS], ['c', HOLDS]]) {
      await mend(page, name, expected);
      assert.ok(await inView(answer(page, name)), name);
    }
  }, { viewport });
}

test('a demonstration opens the choices, and does not count', async (page) => {
  await open(page, '#stop=03');
  await page.getByRole('button', { name: 'Show me' }).click();
  await says(verdict(page), /^Done in 2 moves/);
  await mend(page, 'c', HOLDS);
  assert.deepEqual(await kept(page), { 'left-behind': { mended: true } });
  assert.equal(await stops(page).nth(2).getAttribute('data-state'), 'open');
  await page.getByRole('button', { name: 'Start again' }).click();
  await at(page, 'moves', '');
  await click(page, ['a', 'a!']);
  await says(page.locator('#progress'), /^1 of \d+ solved$/);
});

test('what is shown has the fewest moves', async (page) => {
  await open(page, '#stop=08');
  await says(page.locator('#literature'), /this lock is called token\./);
  await page.getByRole('button', { name: 'Show me' }).click();
  await says(verdict(page), /^Done in 7 moves: .* The fewest known are 7\.$/);
});

test('done is a success, from which a button leads to the mend; the next stop begins at its heading', async (page) => {
  const isSeen = (name) => page.locator(name).evaluate((each) => each.getBoundingClientRect().top >= 0 && each.getBoundingClientRect().top < innerHeight);
  await open(page, '#stop=03');
  await says(page.locator('#goal-text'), /^Leave a lock behind that never expires\.$/);
  await click(page, ['a', 'a!']);
  await says(page.locator('#goal[data-state="done"] #verdict'), /^Done/);
  await page.evaluate('scrollTo(0, 0)');
  await page.getByRole('button', { name: 'Now mend it' }).click();
  assert.ok(await isSeen('#mend-title'));
  await mend(page, 'c', HOLDS);
  await page.locator('#next-stop').click();
  await page.locator('#title:focus').waitFor(); // the link's address comes before its game
  assert.equal(await page.evaluate('scrollY'), 0);
  await gone(page.locator('#to-mend'));
}, { viewport: PHONE });

test('the way in which a mend still breaks is a link', async (page) => {
  await open(page, '#stop=03&moves=a+a!');
  await says(verdict(page), /^Done/);
  await mend(page, 'a', BREAKS);
  await answer(page, 'a').getByRole('link').click();
  await at(page, 'choice', 'a');
  await says(page.locator('#in-place'), /DEL in a finally/);
  await says(verdict(page), /^Broken in 2 moves: the lock was left behind/);
  await page.locator('#in-place a').click();
  await gone(page.locator('#in-place'));
  await at(page, 'choice', null);
});

test('of a right lock the search has the last word', async (page) => {
  await open(page, '#stop=09');
  await says(page.locator('#mend-title'), /^Can it be done\?$/);
  await mend(page, 'search', HOLDS);
  assert.equal(await stops(page).nth(8).getAttribute('data-state'), 'solved');
});

test('by keys alone', async (page) => {
  await open(page, '#stop=03');
  await page.keyboard.press('a');
  await at(page, 'moves', 'a');
  await move(page, 'a!').focus();
  await page.keyboard.press('Enter');
  await at(page, 'moves', 'a a!');
  await choice(page, 'c').focus();
  await page.keyboard.press('Enter');
  await says(answer(page, 'c'), HOLDS);
  await page.locator('#next-stop').focus();
  await page.keyboard.press('Enter');
  await at(page, 'stop', '04');
});

test('stories and free play are a click away, and so is the path', async (page) => {
  await open(page, '#stop=03');
  await page.getByRole('link', { name: 'Stories, free play' }).click();
  await says(page.getByRole('heading', { level: 1 }), /^You are the scheduler$/);
  await page.locator('#story').waitFor();
  assert.ok(await page.locator('#mend').isHidden());
  await page.getByRole('link', { name: 'The path' }).click();
  await says(page.locator('#title'), /^Read, compute, write$/);
  await page.goto('/lab#stop=99');
  await says(page.locator('#title'), /^Read, compute, write$/);
  await says(page.locator('#told'), /^There is no “99” here/);
  await page.goto('/lab#lock=nope');
  await says(page.locator('#told'), /^There is no “nope” here/);
});

test('a link is followed though the game before it draws its own address', async (page) => {
  await open(page, '#stop=03');
  await page.evaluate(() => {
    location.hash = '#stop=04';
    history.replaceState(null, '', '#stop=03');
  });
  await at(page, 'stop', '04');
});

test('the first language of the browser that is there', async (page) => {
  await open(page, '#stop=03');
  await says(page.locator('#title'), /^持有者死了$/);
  await says(page.locator('#goal-text'), /^目标：留下一把永不过期的锁。$/);
  await click(page, ['a', 'a!']);
  await mend(page, 'a', /^还是会出错/);
  await mend(page, 'c', /^没有问题：\d+ 个调度中没有发现问题：此范围内的全部。/);
  await page.getByRole('button', { name: 'English' }).click();
  await says(page.locator('#title'), /^The holder dies$/);
  await page.reload();
  await says(page.locator('#title'), /^The holder dies$/);
}, { locale: 'zh-TW' });

test('axe finds nothing, in the dark on a phone and in the light at a desk', async (page) => {
  await open(page, '#stop=03');
  await expectGoodLooks(page);
  await click(page, ['a', 'a!']);
  await mend(page, 'a', BREAKS);
  await mend(page, 'c', HOLDS);
  await expectGoodLooks(page);
});
