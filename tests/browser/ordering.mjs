// Goal: a customer orders, and is told at the product what became of it: yes, or why
// not. One press is one order. What was ordered outlives a reload.

import assert from 'node:assert/strict';

import { SHOP, WAIT_MS, api, card, gone, inMs, putProduct, says, test } from './page.mjs';

const REFUSED = /status of (?:409|503)/; // browsers log every refusal
const SOON = [19, 58]; // seconds, in which a page has been opened

// No news of the stock from now on, to a page that polls: so a button stays that would
// have gone. It asks again only after an answer, so none is under way when one is held.
const holdNews = (page) => new Promise((held, failed) => {
  page.route('**/api/products?*', held).catch(failed);
});

const posts = (page) => {
  const sent = [];
  page.on('request', (request) => request.method() === 'POST' && sent.push(request));
  return sent;
};

// The next fresh list of products, from its request on.
async function nextNews(page) {
  const request = await page.waitForRequest('**/api/products?*');
  await request.response();
}

const open = (page) => page.goto('/');

test('an order is confirmed at its product', async (page) => {
  await putProduct(101, { name: 'Cup' });
  await open(page);
  const cup = card(page, 'Cup');
  await cup.quantity.fill('2');
  await cup.button.click();
  await says(cup.answer, /^Ordered: 2 × Cup, €25\.00 in all\.$/);
  await says(page.locator('.order'), /2 × Cup.*€25\.00.*Ordered .*\d/s);
  await says(cup.item, /8 of 10 left/);
  const meter = cup.item.getByRole('meter');
  assert.deepEqual([await meter.getAttribute('aria-valuenow'), await meter.getAttribute('aria-valuemax')], ['8', '10']);
  assert.equal((await api('GET', '/api/products/101')).sold, 2);
});

test('a double click is one order', async (page) => {
  await putProduct(102, { name: 'Plate' });
  const sent = posts(page);
  await page.clock.install();
  await open(page);
  const plate = card(page, 'Plate');
  await plate.button.waitFor();
  await page.clock.pauseAt(Date.now() + 60000);
  await plate.button.dblclick();
  await says(plate.answer, /^Ordered: 1 × Plate/);
  await page.clock.runFor(900);
  await plate.button.click({ force: true }); // a slow second click: the answer is there
  await page.clock.runFor(200);
  await plate.button.click();
  await says(page.locator('.order').nth(1), /Ordered/);
  assert.equal(sent.length, 2);
}, { fresh: true });

test('a key that is held down is one order', async (page) => {
  await putProduct(103, { name: 'Bowl' });
  const sent = posts(page);
  await open(page);
  const bowl = card(page, 'Bowl');
  await bowl.button.focus();
  await page.keyboard.down('Enter');
  await says(bowl.answer, /^Ordered/);
  await bowl.item.locator('.buy button:not([aria-disabled])').waitFor();
  await page.keyboard.down('Enter'); // the key repeats itself
  await page.keyboard.up('Enter');
  await nextNews(page);
  assert.equal(sent.length, 1);
  await page.keyboard.press('Enter');
  await says(bowl.item, /8 of 10 left/);
  assert.equal(sent.length, 2);
}, { polls: true });

test('by keyboard alone; the focus stays', async (page) => {
  await putProduct(104, { name: 'Spoon' });
  await open(page);
  const spoon = card(page, 'Spoon');
  await spoon.button.waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate('document.activeElement.textContent'), 'Skip to the products');
  await page.keyboard.press('Tab');
  await page.keyboard.type('77');
  const focused = () => page.evaluate('document.activeElement.getAttribute("aria-describedby") + document.activeElement.id');
  for (let i = 0; i < 200 && await focused() !== 'name-104'; i += 1) await page.keyboard.press('Tab');
  await page.keyboard.type('3');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await says(spoon.answer, /^Ordered: 3 × Spoon/);
  assert.equal(await page.evaluate('document.activeElement.id'), 'order-104');
});

test('the last one: sold out, and no button', async (page) => {
  await putProduct(105, { name: 'Fork', stock: 1 });
  await open(page);
  const fork = card(page, 'Fork');
  await fork.button.click();
  await says(fork.answer, /^Ordered/);
  await says(fork.window, /^Sold out\s*$/);
  await gone(fork.button);
  assert.match(await page.evaluate('document.activeElement.textContent'), /^Ordered/);
  await api('POST', '/api/products/105/restock', { quantity: 1 });
  await fork.button.waitFor();
});

test('sold out since the page has looked', async (page) => {
  await putProduct(106, { name: 'Knife', stock: 3 });
  await open(page);
  const knife = card(page, 'Knife');
  await knife.quantity.fill('5');
  await knife.button.click();
  await says(knife.answer, /^Not ordered: fewer than 5 are left\.$/);
  await holdNews(page);
  await api('POST', '/api/orders', { product_id: 106, user_id: 1, quantity: 3 });
  await knife.item.locator('.buy button:not([aria-disabled])').waitFor();
  await knife.quantity.fill('1');
  await knife.button.click();
  await says(knife.answer, /^Not ordered: sold out\.$/);
  assert.equal(await page.locator('.order').count(), 0);
}, { polls: true, allow: REFUSED });

test('a limit is told', async (page) => {
  await putProduct(107, { name: 'Ticket', limit_per_user: 2 });
  await open(page);
  const ticket = card(page, 'Ticket');
  await says(ticket.item, /2 per customer/);
  await ticket.quantity.fill('3');
  await ticket.button.click();
  await says(ticket.answer, /^Not ordered: one customer may buy 2 in all\.$/);
}, { allow: REFUSED });

test('opens by the clock of the shop, without a reload', async (page, _, seconds) => {
  await putProduct(108, { name: 'Early', opens_at: inMs(1000 * seconds) });
  await page.clock.install({ time: Date.now() - 3600000 }); // ours is an hour slow
  await open(page);
  await page.evaluate('window.same = true');
  const early = card(page, 'Early');
  await says(early.window, /^Opens in 0:[0-5]\d \d/);
  await says(early.item.getByRole('timer'), /^0:[0-5]\d$/);
  assert.match(await early.item.getAttribute('class'), /soon/, 'the last minute looks like it');
  await holdNews(page);
  assert.equal(await early.button.isVisible(), false);
  await early.button.click({ timeout: 2 * WAIT_MS }); // as soon as there is one
  await says(early.answer, /^Ordered/);
  assert.equal(await page.evaluate('window.same'), true);
}, { fresh: true, polls: true, seconds: SOON });

test('the clock of the shop jumps ahead, and is put back', async (page) => {
  await putProduct(123, { name: 'Skewed', opens_at: inMs(7230000) });
  let ahead = 3600000;
  await page.route('**/api/products?*', async (route) => {
    const response = await route.fetch();
    const date = new Date(Date.now() + ahead).toUTCString();
    return route.fulfill({ response, headers: { ...response.headers(), date } });
  });
  await page.goto('/');
  await says(card(page, 'Skewed').window, /^Opens in (?:1:00|0:59):/);
  ahead = 0;
  await says(card(page, 'Skewed').window, /^Opens in (?:2:00|1:59):/);
}, { fresh: true, polls: true });

test('opens in days, ends, has ended', async (page, _, seconds) => {
  await putProduct(109, { name: 'Distant', opens_at: '2100-01-01T12:00:00Z' });
  await putProduct(110, { name: 'Late', ends_at: inMs(1000 * seconds) });
  await putProduct(111, { name: 'Over', ends_at: '2020-01-01T12:00:00Z' });
  await putProduct(119, { name: 'Tomorrow', opens_at: inMs(3600000 * 30) });
  await open(page);
  await says(card(page, 'Late').window, /^Open until /);
  await says(card(page, 'Distant').window, /^Opens in [\d,]+ days Jan 1, 2100, /);
  await says(card(page, 'Tomorrow').window, /^Opens in 29:5\d:\d\d /);
  await says(card(page, 'Over').window, /^Ended Jan 1, 2020/);
  await says(card(page, 'Late').window, /^Ended /, 2 * WAIT_MS);
  for (const name of ['Distant', 'Late', 'Over']) assert.equal(await card(page, name).button.isVisible(), false, name);
}, { seconds: SOON });

test('the window was moved since the page has looked', async (page) => {
  await putProduct(112, { name: 'Moved' });
  await putProduct(113, { name: 'Closed' });
  await open(page);
  await card(page, 'Moved').button.waitFor();
  await holdNews(page);
  await api('PATCH', '/api/products/112', { opens_at: '2100-01-01T12:00:00Z' });
  await api('PATCH', '/api/products/113', { ends_at: '2020-01-01T12:00:00Z' });
  await card(page, 'Moved').button.click();
  await says(card(page, 'Moved').answer, /^Not ordered: the sale is not open yet\.$/);
  await card(page, 'Closed').button.click();
  await says(card(page, 'Closed').answer, /^Not ordered: the sale has ended\.$/);
}, { polls: true, allow: REFUSED });

test('without a customer number nothing is sent', async (page) => {
  await putProduct(114, { name: 'Mug' });
  const sent = posts(page);
  await open(page);
  await page.getByLabel('Your customer number').fill('');
  await card(page, 'Mug').button.click();
  await says(card(page, 'Mug').answer, /^Not ordered: please give your customer number/);
  assert.equal(sent.length, 0);
  await page.locator('#no-orders').waitFor();
});

test('a reload keeps the last ten orders, and asks what became of them', async (page) => {
  await putProduct(115, { name: 'Jar', stock: 100 });
  const entries = [];
  for (let i = 0; i < 11; i += 1) {
    const reply = await fetch(`${SHOP}/api/orders`, { method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': `jar-${i}` },
      body: JSON.stringify({ product_id: 115, user_id: 5, quantity: i + 1 }) });
    if (i === 1) await api('DELETE', `/api/orders/${(await reply.json()).id}`);
    entries.push({ key: `jar-${i}`, name: 'Jar', quantity: i + 1, at: 1 });
  }
  entries.splice(3, 0, { key: 'nobody-knows', name: 'Jar', quantity: 99, at: 4e12 }); // the clock was put back
  await open(page);
  await page.evaluate((list) => localStorage.setItem('orders', JSON.stringify(list)), [...entries, 'rubbish', { key: 1 }]);
  await page.reload();
  const item = (text) => page.locator('.order', { hasText: text });
  await says(item('1 × Jar').first(), /€12\.50.*Ordered/s);
  await says(item('2 × Jar').first(), /Cancelled/);
  await says(item('99 × Jar'), /Not ordered: the shop does not know this order/);
  await says(item('9 × Jar').last(), /Ordered/);
  assert.equal(await page.locator('.order').count(), 10);
}, { allow: /status of 404/ });

test('a browser that stores nothing, and makes no UUIDs without https, sells all the same', async (page) => {
  await putProduct(117, { name: 'Clay' });
  await page.addInitScript(() => {
    Object.defineProperty(window, 'localStorage', { get: () => { throw new Error('forbidden'); } });
    Object.defineProperty(crypto, 'randomUUID', { value: undefined });
  });
  await open(page);
  await card(page, 'Clay').button.click();
  await says(card(page, 'Clay').answer, /^Ordered/);
  await says(page.locator('.order .state'), /^Ordered/);
  await card(page, 'Clay').item.locator('.buy button:not([aria-disabled])').click();
  await says(card(page, 'Clay').item, /8 of 10 left/);
}, { fresh: true });

test('an order can be cancelled', async (page) => {
  await putProduct(116, { name: 'Vase' });
  await open(page);
  const vase = card(page, 'Vase');
  await page.getByLabel('Your customer number').fill('4711');
  await vase.button.click();
  await says(vase.item, /9 of 10 left/);
  await page.getByRole('button', { name: 'Cancel 1 × Vase' }).click();
  const order = page.locator('.order');
  await says(order.locator('.answer'), /^Cancelled\. It is back in stock\.$/);
  await says(order.locator('.state'), /^Cancelled .*\d/);
  await gone(order.getByRole('button'));
  assert.match(await page.evaluate('document.activeElement.textContent'), /^Cancelled\./);
  await says(vase.item, /10 of 10 left/);
  await page.reload();
  await says(page.locator('.order .state'), /^Cancelled .*\d/);
  assert.equal(await page.getByLabel('Your customer number').inputValue(), '4711');
});

test('what was said last stays, whatever becomes of an order before', async (page) => {
  await putProduct(118, { name: 'Single', limit_per_user: 1 });
  await open(page);
  const single = card(page, 'Single');
  await single.button.click();
  await says(single.answer, /^Ordered: 1 × Single/);
  await single.item.locator('.buy button:not([aria-disabled])').click();
  await says(single.answer, /^Not ordered: one customer may buy 1 in all\.$/);
  await page.locator('.order .cancel').click();
  await says(page.locator('.order .state'), /^Cancelled/);
  assert.match(await single.answer.textContent(), /^Not ordered/);
}, { fresh: true, allow: REFUSED });
