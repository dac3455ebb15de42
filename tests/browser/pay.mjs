// Goal: an order that is to be paid counts down by the shop's clock, is paid by a press,
// once however often it is pressed, or loses its units, which others see at once. Whoever
// pays too late is told so, and that the money comes back; also after a reload.

import assert from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';

import { api, card, expectGoodLooks, gone, putProduct, says, showOnly, test } from './page.mjs';

const REFUSED = /status of 409/;
const SHORT = [8, 45]; // seconds to pay, in which a page has ordered and looked

const order = (page) => page.locator('.order').first();
const answer = (page) => order(page).locator('.answer');
const state = (page) => order(page).locator('.state');
const due = (page) => order(page).getByRole('timer');
const pay = (page) => order(page).locator('.pay');

// As the shop has the last order of PAGE.
async function known(page) {
  const [{ key }] = await page.evaluate(() => JSON.parse(localStorage.getItem('orders')));
  return api('GET', `/api/orders?key=${key}`);
}

// A time of another day than today has its date: near midnight, too.
async function reserve(page, name) {
  await page.goto('/');
  await card(page, name).button.click();
  await says(card(page, name).answer, /^Kept for you until .*\d.*: 1 × .*, €12\.50 in all\. It is yours once it is paid\.$/);
}

async function until(wanted, look) {
  while (await look() !== wanted) await setTimeout(100);
}

test('an order is paid in time, and stays so', async (page) => {
  await putProduct(601, { name: 'Lute', pay_within_s: 900 });
  await reserve(page, 'Lute');
  await says(card(page, 'Lute').item, /9 of 10 left.*pay within 15 minutes/s);
  await says(state(page), /^To be paid by .*\d/);
  await says(due(page), /^1[45]:\d\d$/);
  await page.getByRole('button', { name: 'Pay for 1 × Lute' }).click();
  await says(answer(page), /^Paid\. It is yours\.$/);
  await says(state(page), /^Paid .*\d/);
  await says(card(page, 'Lute').answer, /^1 × Lute: Paid .*\d.*\.$/);
  await gone(order(page).getByRole('button'));
  assert.match(await page.evaluate('document.activeElement.textContent'), /^Paid\./, 'the focus has not gone with the button');
  const { state: is, payment } = await known(page);
  assert.equal(is, 'paid');
  assert.ok(payment);
  await page.reload();
  await says(state(page), /^Paid .*\d/);
  await says(card(page, 'Lute').item, /9 of 10 left/);
});

test('pressed again after a lost reply, and a reload: the same payment', async (page) => {
  await putProduct(602, { name: 'Harp', pay_within_s: 900 });
  const payments = [];
  await page.route('**/pay', async (route) => {
    payments.push(route.request().postDataJSON().payment);
    await route.fetch();
    await (payments.length < 3 ? route.abort() : route.continue());
  });
  await reserve(page, 'Harp');
  await pay(page).click();
  await says(answer(page), /^The shop does not answer\. We do not know whether it is paid\. Press again: you pay once only\.$/);
  await pay(page).click();
  await page.reload();
  await says(state(page), /^Paid .*\d/);
  const entries = await page.evaluate(() => JSON.parse(localStorage.getItem('orders')));
  assert.deepEqual(payments, payments.map(() => entries[0].payment));
  const { payment, late_payments: late } = await known(page);
  assert.deepEqual([payment, late], [payments[0], 0]);
}, { allow: /net::ERR_/ });

test('not paid: it expires by the clock of the shop, and others see it come back', async (page, context, seconds) => {
  const drum = `Drum ${seconds}`;
  await putProduct(640 + seconds, { name: drum, stock: 1, pay_within_s: seconds });
  const other = await context.newPage();
  await showOnly(other, [640 + seconds]);
  await other.route('**/api/events', (route) => route.fulfill({ status: 503 }));
  await other.goto('/');
  await page.clock.install({ time: Date.now() - 3600000 }); // ours is an hour slow
  await reserve(page, drum);
  await says(due(page), /^0:[0-4]\d$/);
  await says(order(other), new RegExp(`1 × ${drum}`)); // by the browser's storage
  await says(card(other, drum).window, /^Sold out\. What is not paid in time comes back here\.\s*$/);
  await says(answer(page), /^Not paid in time: 1 × Drum.* is on sale again\.$/);
  await says(state(page), /^Expired /);
  await says(card(page, drum).answer, /^1 × Drum.*: Expired .*\d.*\.$/);
  assert.equal(await card(page, drum).answer.getAttribute('data-kind'), 'no');
  assert.equal(await order(page).getByRole('button').count(), 0);
  await card(other, drum).button.waitFor();
  await says(card(page, drum).item, /1 of 1 left/);
  await page.reload();
  await says(state(page), /^Expired /);
}, { fresh: true, seconds: SHORT });

test('a late payment will be refunded, says the page, also after a reload', async (page, _, seconds) => {
  const horn = `Horn ${seconds}`;
  await putProduct(645 + seconds, { name: horn, pay_within_s: seconds });
  await page.route('**/pay', async (route) => {
    await until('expired', async () => (await known(page)).state);
    await route.continue();
  });
  await reserve(page, horn);
  await pay(page).click();
  await says(answer(page), /^Your payment came too late\. It is on record, and the shop refunds it\.$/);
  await says(state(page), /^Expired /);
  assert.equal((await known(page)).late_payments, 1);
  await says(card(page, horn).item, /10 of 10 left/);
  await page.reload();
  await says(answer(page), /^Your payment came too late\./);
}, { allow: REFUSED, seconds: SHORT });

test('cancelled elsewhere, then paid: late; paid elsewhere, then cancelled: no', async (page) => {
  await putProduct(605, { name: 'Bell', pay_within_s: 900 });
  await putProduct(606, { name: 'Gong', pay_within_s: 900 });
  await reserve(page, 'Bell');
  await api('DELETE', `/api/orders/${(await known(page)).id}`);
  await pay(page).click();
  await says(answer(page), /^Your payment came too late\./);
  await says(state(page), /^Cancelled .*\d/);
  await reserve(page, 'Gong');
  await says(order(page), /Gong/);
  await api('POST', `/api/orders/${(await known(page)).id}/pay`, { payment: 'elsewhere' });
  await order(page).getByRole('button', { name: 'Cancel' }).click();
  await says(state(page), /^Paid .*\d/);
  await says(card(page, 'Gong').item, /9 of 10 left/);
}, { allow: REFUSED });

test('one that is not paid yet is cancelled, by keys alone', async (page) => {
  await putProduct(607, { name: 'Pipe', pay_within_s: 900 });
  await reserve(page, 'Pipe');
  await pay(page).focus();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await says(answer(page), /^Cancelled\. It is back in stock\.$/);
  assert.match(await page.evaluate('document.activeElement.textContent'), /^Cancelled\./);
  await says(card(page, 'Pipe').item, /10 of 10 left/);
  await says(card(page, 'Pipe').answer, /^1 × Pipe: Cancelled .*\d.*\.$/);
});

test('an administrator gives a time to pay, and sees what is held', async (page) => {
  await page.goto('/');
  await page.locator('summary').click();
  const form = page.locator('#new-product');
  const last = Math.max(...(await api('GET', '/api/products?limit=200')).products.map(({ id }) => id));
  await page.waitForFunction((n) => Number(document.querySelector('#new-product [name="id"]').value) > n, last);
  await form.getByLabel('Number').fill(String(last + 1)); // as proposed: it is not proposed anew
  await putProduct(609, { name: 'Lyre' });
  await putProduct(last + 9, { name: 'Last' }); // the highest, whatever others add
  await card(page, 'Last').item.waitFor();
  assert.equal(await form.getByLabel('Number').inputValue(), String(last + 1));
  for (const [label, value] of [['Number', '608'], ['Name', 'Viol'], ['Stock', '5'], ['Price in EUR', '12.50'], ['Seconds to pay', '90']]) await form.getByLabel(label).fill(value);
  await form.getByRole('button').click();
  await says(form.locator('.answer'), /^Added: Viol, 5 in stock\.$/);
  await says(card(page, 'Viol').item, /pay within 90 seconds/);
  await card(page, 'Viol').button.click();
  await says(due(page), /^1:\d\d$/);
  await page.getByRole('button', { name: 'Add up the ledger' }).click();
  await says(page.locator('#ledger .answer'), /^The ledger adds up: .* Held until paid: [1-9]\d* units?\. Expired: \d+ orders?\. To be refunded: \d+ late payments?\.$/);
}, { allow: /status of 404/ });

test('axe finds nothing, in both languages, in the dark on a phone and in the light at a desk', async (page) => {
  const names = { Tuba: 610, Viola: 611, Flute: 612 }; // to be paid, to be late, and to be held while it is looked at
  await showOnly(page, Object.values(names));
  for (const [name, id] of Object.entries(names)) {
    await putProduct(id, { name, limit_per_user: 2, pay_within_s: 50 });
    await reserve(page, name);
    await says(card(page, name).item, /pay within 50 seconds/);
    if (name === 'Flute') break;
    if (name === 'Viola') await api('DELETE', `/api/orders/${(await known(page)).id}`);
    await page.locator('.order', { hasText: name }).locator('.pay').click();
    await says(page.locator('.order', { hasText: name }).locator('.answer'), /\.$/);
  }
  await page.locator('#zh').click();
  await says(card(page, 'Flute').answer, /^已为你保留到 .*：1 × .*，合计 .*。付款后就是你的。$/);
  await says(card(page, 'Flute').item, / 50 秒钟?内付款/);
  await expectGoodLooks(page);
  await page.locator('#en').click();
  await expectGoodLooks(page);
}, { polls: true, allow: /status of (?:409|503)/ });
