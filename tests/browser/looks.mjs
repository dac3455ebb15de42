// Goal: the page fits a phone and a desk, in the light and in the dark; people who
// cannot see it well or use no mouse can use it; prices are in euros.

import assert from 'node:assert/strict';

import { DESKTOP, PHONE, api, card, expectGoodLooks, inMs, inView, putProduct, says, showOnly, test } from './page.mjs';

const administrator = (page) => page.locator('summary');

// A product of each kind, and an answer of each kind.
test('axe finds nothing, in both languages, in the dark on a phone and in the light at a desk', async (page) => {
  await showOnly(page, [1000, 1001, 1002, 1003, 1004]);
  await putProduct(1000, { name: 'Open', limit_per_user: 1 });
  await putProduct(1001, { name: 'Sold', stock: 0 });
  await putProduct(1002, { name: 'Soon', opens_at: '2100-01-01T12:00:00Z' });
  await putProduct(1003, { name: 'Ended', ends_at: '2020-01-01T12:00:00Z' });
  await putProduct(1004, { name: 'Few', stock: 100 });
  await api('POST', '/api/orders', { product_id: 1004, user_id: 1, quantity: 95 });
  await page.goto('/');
  const yes = card(page, 'Open');
  const no = card(page, 'Few');
  await yes.button.click();
  await no.quantity.fill('90');
  await no.button.click();
  await administrator(page).click();
  for (const [language, isYes, isNo, isAll] of [['en', /^Ordered/, /^Not ordered/, /epoch/], ['zh', /^已下单/, /^未下单/, /纪元/]]) {
    await page.locator(`#${language}`).click();
    await says(yes.answer, isYes);
    await says(no.answer, isNo);
    await no.item.scrollIntoViewIfNeeded();
    await says(no.item, isAll);
    await expectGoodLooks(page);
  }
}, { polls: true, allow: /status of (?:409|503)/ });

test('on a phone with ten products each answer is in view', async (page) => {
  const names = Array.from({ length: 10 }, (_, i) => `Shelf ${i}`);
  for (const [i, name] of names.entries()) await putProduct(310 + i, { name, stock: 1000 });
  await page.goto('/');
  for (const name of names) {
    const { button, answer } = card(page, name);
    // At the lower edge, where an answer has no room.
    await button.evaluate((element) => element.scrollIntoView({ block: 'end' }));
    await button.click();
    await says(answer, /^Ordered/);
    assert.ok(await inView(answer), name);
  }
  assert.ok(await page.evaluate('document.documentElement.scrollWidth') <= PHONE.width, 'nothing is wider than the phone');
}, { viewport: PHONE, isMobile: true, hasTouch: true });

test('on a phone an order stands below its button, and beside the products at a desk', async (page) => {
  for (let i = 0; i < 10; i += 1) await putProduct(410 + i, { name: `Long ${i}` });
  await page.goto('/');
  for (const name of ['Long 0', 'Long 9']) {
    const { item, button } = card(page, name);
    await button.click();
    const order = item.locator('.order');
    await says(order, new RegExp(`1 × ${name}.*Ordered \\d`, 's'));
    const gap = (await box(order)).top - (await box(button)).bottom;
    assert.ok(gap > 0 && gap < 150, `${name}: ${gap} px below the button`);
    assert.ok(await inView(order), `${name}: in view`);
  }
  assert.equal(await page.locator('.aside').isVisible(), false, 'no list elsewhere');
  await card(page, 'Long 9').item.getByRole('button', { name: 'Cancel' }).click();
  await says(card(page, 'Long 9').item.locator('.order .state'), /^Cancelled .*\d/);
  await page.setViewportSize(DESKTOP);
  await says(page.locator('.aside .order').first(), /Long 9/);
  assert.equal(await page.locator('.product .order').count(), 0);
  await page.setViewportSize(PHONE);
  await says(card(page, 'Long 0').item.locator('.order'), /Long 0/);
}, { viewport: PHONE, isMobile: true, hasTouch: true });

test("the administrator's words are explained", async (page) => {
  await putProduct(422, { name: 'Words' });
  await page.goto('/');
  await administrator(page).click();
  const { item } = card(page, 'Words');
  await item.scrollIntoViewIfNeeded();
  await says(item, /epoch/);
  const used = (await item.locator('.segmented').innerText()).toLowerCase();
  for (const word of ['segment', 'split', 'epoch', 'lock', 'warm up']) {
    assert.ok(used.includes(word), `${word} is used`);
    const meaning = page.locator('dt', { hasText: new RegExp(`^${word}$`, 'i') }).locator('+ dd');
    assert.match(await meaning.innerText(), /\w{3,}.*\.$/s, word);
  }
});

const box = (locator) => locator.evaluate((element) => element.getBoundingClientRect().toJSON());

test('on a phone nothing is wider when the text is twice as large', async (page) => {
  await putProduct(321, { name: 'Large', limit_per_user: 1, opens_at: inMs(3600000 * 30) });
  await page.goto('/');
  await administrator(page).click();
  await page.evaluate("document.documentElement.style.fontSize = '32px'");
  await card(page, 'Large').item.scrollIntoViewIfNeeded();
  await says(card(page, 'Large').item, /epoch/);
  assert.equal(await page.evaluate('document.documentElement.scrollWidth'), PHONE.width);
}, { viewport: PHONE });

test('prices are in euros, as people write them elsewhere', async (page) => {
  await putProduct(331, { name: 'Kaffee', price_cents: 123450 });
  await page.goto('/');
  await says(card(page, 'Kaffee').item.locator('.price'), /^1\.234,50\s€$/);
}, { locale: 'de-DE' });

test('the policy forbids scripts and styles in the page', async (page) => {
  await page.goto('/');
  const broken = await page.evaluate(() => new Promise((resolve) => {
    addEventListener('securitypolicyviolation', (event) => resolve(event.effectiveDirective));
    document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' }));
    if (window.ran) resolve('nothing: the script ran');
  }));
  assert.equal(broken, 'script-src-elem');
}, { allow: /Content Security Policy|^policy: script-src/ });

test('an administrator splits a stock', async (page) => {
  await putProduct(340, { name: 'Pool', stock: 100 });
  await page.goto('/');
  await administrator(page).click();
  const { item } = card(page, 'Pool');
  await item.getByLabel('Segments').fill('4');
  await item.getByRole('button', { name: 'Split' }).click();
  await says(item.locator('.segmented .answer'), /^Split over 4 segments\.$/);
  await says(item.locator('.split-text'), /^4 segments/);
  await item.getByRole('button', { name: 'Warm up' }).click();
  await says(item.locator('.segmented .answer'), /^Its stock hints are in Redis\.$/);
  await page.route('**/warmup', (route) => route.fulfill({ status: 403,
    json: { type: 'urn:stockade:problem:forbidden', detail: 'not at an order service: ask an inventory service' } }));
  await item.getByRole('button', { name: 'Warm up' }).click();
  await says(item.locator('.segmented .answer'), /^Not done: not at an order service: ask an inventory service\.$/);
}, { allow: /status of 403/ });

test('an administrator adds a product, restocks, closes, opens, and adds up', async (page) => {
  await page.goto('/');
  await administrator(page).click();
  const form = page.locator('#new-product');
  for (const [label, value] of [['Number', '345'], ['Name', 'Lamp'], ['Stock', '5'], ['Price in EUR', '0.29'], ['Limit per customer', '2'],
    ['Opens', '2020-01-01T12:00:01'], ['Ends', '2099-01-01T12:00:01']]) {
    await form.getByLabel(label).fill(value);
  }
  await form.getByRole('button').click();
  await says(form.locator('.answer'), /^Added: Lamp, 5 in stock\.$/);
  assert.equal(await form.getByLabel('Name').inputValue(), '', 'the form is empty for the next');
  const { opens_at: opens, ends_at: ends } = await api('GET', '/api/products/345');
  assert.deepEqual([opens, ends], ['2020-01-01T04:00:01.000Z', '2099-01-01T04:00:01.000Z']);
  const { item, button, window } = card(page, 'Lamp');
  await says(item, /€0\.29.*5 of 5 left.*2 per customer/s);
  const done = item.locator('.segmented .answer');
  await item.getByLabel('Units').fill('7');
  await page.getByLabel('Admin token').fill('secret');
  const restock = item.getByRole('button', { name: 'Restock' });
  const sent = page.waitForRequest('**/restock');
  await restock.click();
  await says(done, /^7 more: 12 are left now\.$/);
  assert.equal((await sent).headers().authorization, 'Bearer secret');
  await page.route('**/restock', async (route) => { // done, and without a reply
    await route.fetch();
    await route.abort();
  }, { times: 1 });
  await restock.click();
  await says(done, /We do not know whether it was done\.$/);
  await restock.click();
  await says(done, /^7 more: 19 are left now\.$/);
  await item.getByRole('button', { name: 'Close now' }).click();
  await says(window, /^Ended/);
  assert.equal(await button.isVisible(), false);
  await item.getByRole('button', { name: 'Open now' }).click();
  await button.waitFor();
  assert.equal((await api('GET', '/api/products/345')).stock, 19);
  // The number is taken: nothing of the product changes.
  for (const [label, value] of [['Number', '345'], ['Name', 'Other'], ['Stock', '5'], ['Price in EUR', '1']]) await form.getByLabel(label).fill(value);
  await form.getByRole('button').click();
  await says(form.locator('.answer'), /^Not done: this number has a product already\.$/);
  await page.getByRole('button', { name: 'Add up the ledger' }).click();
  await says(page.locator('#ledger .answer'), /^The ledger adds up: \d+ sold in \d+ orders, \d+ cancelled\./);
  await page.route('**/api/audit', (route) => route.fulfill({ json: { balanced: false, oversold: 3, lost: 1, sold: 9 } }));
  await page.getByRole('button', { name: 'Add up the ledger' }).click();
  await says(page.locator('#ledger .answer[data-kind="no"]'), /^The ledger does not add up: 3 oversold, 1 lost\.$/);
}, { timezoneId: 'Asia/Shanghai', allow: /status of 412|net::ERR_/ });
