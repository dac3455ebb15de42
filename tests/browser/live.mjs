// Goal: the page shows what others do without a reload and without asking; it says so
// when there is no news, and is right again afterwards. It speaks English and Chinese.
// The administrator gets all orders as a file.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import net from 'node:net';

import { SHOP, api, card, putProduct, says, showOnly, test } from './page.mjs';

// A way to the shop that can be cut, or hang: {url, hang(), goOn(), cut(), mend()}.
async function way() {
  const { hostname, port } = new URL(SHOP);
  const pairs = new Set();
  let hangs = false;
  const server = net.createServer((near) => {
    const far = net.connect({ host: hostname, port });
    const pair = [near, far];
    pairs.add(pair);
    for (const [from, to] of [pair, [far, near]]) {
      from.on('data', (data) => to.write(data));
      if (hangs) from.pause();
      for (const event of ['close', 'error']) from.on(event, () => to.destroy() && pairs.delete(pair));
    }
  });
  const listen = (at) => new Promise((done) => { server.listen(at, '127.0.0.1', done); });
  await listen(0);
  const place = server.address().port;
  const each = (what) => [...pairs].flat().forEach(what);
  const cut = () => new Promise((done) => {
    server.close(done);
    each((socket) => socket.destroy());
  });
  return { url: `http://127.0.0.1:${place}/`,
    hang: () => {
      hangs = true;
      each((socket) => socket.pause());
    },
    goOn: () => {
      hangs = false;
      each((socket) => socket.resume());
    },
    cut, mend: () => listen(place) };
}

// The page's questions for the products.
function questions(page) {
  const asked = [];
  page.on('request', (request) => request.url().includes('/api/products?') && asked.push(request));
  return asked;
}

const live = (page) => says(page.locator('#link[data-live="true"]'), /^(?:Live|实时)$/);
const old = (page) => page.locator('#old');

test("another's order is seen, without a reload and without asking", async (page) => {
  await putProduct(501, { name: 'Shared' });
  await page.route('**/api/products?*', (route) => route.abort()); // none would be answered
  await page.goto('/');
  const shared = card(page, 'Shared');
  await says(shared.item, /10 of 10 left/);
  await live(page);
  await api('POST', '/api/orders', { product_id: 501, user_id: 1, quantity: 4 });
  await says(shared.item, /6 of 10 left/);
  await api('PATCH', '/api/products/501', { name: 'Renamed', price_cents: 99 });
  await says(card(page, 'Renamed').item, /€0\.99.*6 of 10 left/s);
  await putProduct(502, { name: 'New here' });
  await card(page, 'New here').button.waitFor();
}, { allow: /net::ERR_/ });

test('a shop that hangs: how long there is no news, and that the stock may be old', async (page) => {
  await putProduct(503, { name: 'Still' });
  const shop = await way();
  await page.goto(shop.url);
  await live(page);
  assert.equal(await old(page).isVisible(), false);
  shop.hang();
  await says(old(page), /^No news for \d+ s: the stock may be old\.$/);
  await says(page.locator('#link[data-live="false"]'), /^The shop does not answer\. Waiting\.$/);
  assert.match(await page.locator('#products').getAttribute('class'), /\bold\b/);
  await api('POST', '/api/orders', { product_id: 503, user_id: 1, quantity: 1 });
  shop.goOn();
  await live(page);
  await says(card(page, 'Still').item, /9 of 10 left/);
  await old(page).waitFor({ state: 'hidden' });
  await shop.cut();
}, { allow: /net::ERR_/ });

test('a shop that is gone and comes back: then it is right, and asks no more', async (page) => {
  await putProduct(504, { name: 'Back' });
  const shop = await way();
  await page.goto(shop.url);
  await live(page);
  await shop.cut();
  await says(page.locator('#link[data-live="false"]'), /^The shop does not answer\. Trying again\.$/);
  await api('POST', '/api/orders', { product_id: 504, user_id: 1, quantity: 3 });
  const stream = page.waitForResponse((reply) => reply.url().endsWith('/api/events') && reply.ok(), { timeout: 60000 });
  await shop.mend();
  await says(card(page, 'Back').item, /7 of 10 left/);
  await live(page);
  await stream;
  await api('POST', '/api/orders', { product_id: 504, user_id: 2, quantity: 1 });
  await says(card(page, 'Back').item, /6 of 10 left/);
  await shop.cut();
}, { allow: /net::ERR_/ });

test('a page that nobody looks at has no stream', async (page) => {
  await page.addInitScript(() => Object.defineProperty(document, 'hidden', { get: () => window.away === true }));
  const look = (away) => page.evaluate((is) => {
    window.away = is;
    document.dispatchEvent(new Event('visibilitychange'));
  }, away);
  await page.goto('/');
  await live(page);
  const ended = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/api/events'));
  await look(true);
  await ended;
  const again = page.waitForRequest('**/api/events');
  await look(false);
  await again;
}, { fresh: true });

test('refused as a viewer, it asks', async (page) => {
  await putProduct(505, { name: 'Asked' });
  const asked = questions(page);
  await page.goto('/');
  await live(page);
  await api('POST', '/api/orders', { product_id: 505, user_id: 1, quantity: 1 });
  await says(card(page, 'Asked').item, /9 of 10 left/);
  assert.ok(asked.length > 0);
  assert.equal(await page.locator('#more').isVisible(), false);
  await page.route('**/api/products?*', async (route) => {
    const response = await route.fetch({ maxRetries: 3 });
    await route.fulfill({ response, json: { ...await response.json(), next: 9 } });
  });
  await says(page.locator('#more'), /^These are the first \d+ products\.$/);
  await showOnly(page, []);
  await page.locator('#empty').waitFor();
}, { polls: true });

// ---- languages -----------------------------------------------------------------------

test('in Chinese, by a press: all there is, also what was said; and remembered', async (page) => {
  await putProduct(506, { name: 'Oolong', limit_per_user: 2, ends_at: '2099-01-01T12:00:00Z' });
  await page.goto('/');
  const tea = card(page, 'Oolong');
  await tea.button.click();
  await says(tea.answer, /^Ordered: 1 × Oolong/);
  await page.getByRole('button', { name: '中文' }).click();
  await says(page.locator('h1'), /^限时抢购$/);
  assert.equal(await page.evaluate('document.documentElement.lang'), 'zh-CN');
  await says(tea.answer, /^已下单：1 × Oolong，合计 €12\.50。$/);
  await says(tea.item, /剩 9 件，共 10 件.*每人限购 2 件.*结束.*数量.*下单/s);
  await says(page.locator('.order'), /已下单.*取消/s);
  await tea.quantity.fill('2');
  await tea.item.locator('.buy button:not([aria-disabled])').waitFor();
  await tea.button.click();
  await says(tea.answer, /^未下单：每位顾客一共限购 2 件。$/);
  await page.locator('summary').click();
  await tea.item.scrollIntoViewIfNeeded();
  await says(tea.item, /纪元/);
  await tea.item.locator('.segments').evaluate((element) => { element.max = 999; });
  await tea.item.locator('.segments').fill('999');
  await tea.item.getByRole('button', { name: '分段' }).click();
  await says(tea.item.locator('.segmented .answer'), /^未完成：缺失或有误：分段数。$/);
  // But for names of products, and of things that have the same name everywhere.
  const latin = (await page.locator('body').innerText()).match(/[A-Za-z]{4,}(?: [a-z]{2,})+/g) ?? [];
  assert.deepEqual(latin, []);
  await page.reload();
  await says(page.locator('h1'), /^限时抢购$/);
  await page.getByRole('button', { name: 'English' }).click();
  await says(page.locator('h1'), /^Flash sale$/);
  assert.equal(await page.evaluate('document.documentElement.lang'), 'en');
}, { allow: /status of (?:409|422)/ });

test('in Chinese at first, for a browser that asks for it', async (page) => {
  await page.goto('/');
  await says(page.locator('h1'), /^限时抢购$/);
  await live(page);
}, { locale: 'zh-CN' });

test('no text is missing in either language, nor of any refusal', async (page) => {
  await page.goto('/');
  const { components } = JSON.parse(await readFile(new URL('../../static/openapi.json', import.meta.url)));
  const slugs = components.schemas.Problem.properties.type.enum.map((type) => type.split(':').at(-1));
  const { en, zh, problems } = await page.evaluate(async () => {
    const { words } = await import('/words.js');
    return { en: Object.keys(words.en), zh: Object.keys(words.zh), problems: Object.keys(words.zh.problems) };
  });
  assert.deepEqual(zh.filter((name) => !['faults', 'names'].includes(name)).sort(), en.sort());
  assert.deepEqual(slugs.filter((slug) => !problems.includes(slug)), []);
});

// ---- for the administrator -----------------------------------------------------------------

test('all orders as a file', async (page) => {
  await putProduct(507, { name: 'Listed' });
  await fetch(`${SHOP}/api/orders`, { method: 'POST', body: JSON.stringify({ product_id: 507, user_id: 7, quantity: 1 }),
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': '=cmd()' } });
  await page.goto('/');
  // Pages of three, so that there are several; the last one is as long as it is.
  await page.route('**/api/orders.csv', (route) => route.continue({ url: `${SHOP}/api/orders.csv?limit=3` }));
  await page.locator('summary').click();
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Orders as CSV' }).click();
  const file = await download;
  assert.equal(file.suggestedFilename(), 'orders.csv');
  const lines = (await readFile(await file.path(), 'utf8')).split('\r\n');
  assert.match(lines[0], /^id,product_id,user_id,/);
  assert.equal(lines.filter((line) => line.startsWith('id,')).length, 1, 'one head');
  assert.equal(lines.filter((line) => line.includes(',"\'=cmd()",')).length, 1, 'no formula');
  await says(page.locator('#ledger .answer'), new RegExp(`^${(lines.length - 2).toLocaleString('en')} orders\\.$`));
  let files = 0;
  page.on('download', () => { files += 1; });
  await page.route('**/api/orders.csv*', (route) => route.fulfill(route.request().url().includes('after')
    ? { status: 503 } : { headers: { Link: '</api/orders.csv?after=1>; rel="next"' }, body: 'id\r\n' }));
  await page.getByRole('button', { name: 'Orders as CSV' }).click();
  await says(page.locator('#ledger .answer[data-kind="no"]'), /We do not know whether it was done\.$/);
  assert.equal(files, 0, 'a file of some pages is none');
}, { allow: /status of 503/ });
