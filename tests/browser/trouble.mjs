// Goal: when the network or the shop has trouble, the page says what it knows and what
// it does not, never orders twice, and finds out. It does not hammer a shop in trouble.

import assert from 'node:assert/strict';

import { WAIT_MS, api, card, putProduct, says, test } from './page.mjs';

const NO_REPLY = /net::ERR_/; // browsers log every lost reply
const ORDERS = '**/api/orders';
const ASKED = '**/api/orders?key=*';
const NEWS = '**/api/products?*';

// A reply that the shop might give.
const problem = (name, status, retryS, more) => ({ status, contentType: 'application/problem+json',
  headers: { 'Retry-After': String(retryS) },
  body: JSON.stringify({ type: `urn:stockade:problem:${name}`, title: 'A title', status, ...more }) });

// A promise, and the function that fulfils it.
function gate() {
  let open;
  return { opened: new Promise((resolve) => { open = resolve; }), open };
}

// The page's clock stands still from now on, but for those who move it.
async function stopClock(page) {
  await page.clock.install();
  await page.goto('/');
  await says(page.locator('#link'), /^Live$/);
  await page.clock.pauseAt(Date.now() + 60000);
}

// Moves the clock, as often as the page waits, until ELEMENT says what matches.
async function hurry(page, element, pattern) {
  const end = Date.now() + WAIT_MS;
  while (!pattern.test(await element.textContent())) {
    assert.ok(Date.now() < end, `${pattern} is not said, but: ${await element.textContent()}`);
    await page.clock.fastForward(4000);
  }
}

const sold = async (id) => (await api('GET', `/api/products/${id}`)).sold;

test('a lost reply: we do not know yet, then it is known', async (page) => {
  await putProduct(201, { name: 'Lost' });
  const keys = [];
  const again = gate();
  await page.route(ORDERS, async (route) => {
    keys.push(route.request().headers()['idempotency-key']);
    if (keys.length > 1) {
      await again.opened;
      return route.continue();
    }
    return route.fetch(); // the shop has the order, the page has no reply, and no end
  });
  await page.goto('/');
  await page.evaluate(() => { // it waits for 15 s otherwise
    const { timeout } = AbortSignal;
    AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms / 10);
  });
  const lost = card(page, 'Lost');
  await lost.button.click();
  await says(lost.answer, /The shop does not answer\. We do not know yet whether this was ordered\. Asking\./);
  assert.equal(await sold(201), 1);
  again.open();
  await says(lost.answer, /^Ordered: 1 × Lost/);
  assert.equal(await sold(201), 1);
  assert.equal(new Set(keys).size, 1, 'one press has one key');
}, { allow: NO_REPLY });

test('all replies are lost: then it is known by its key', async (page) => {
  await putProduct(202, { name: 'Echo' });
  const answer = gate();
  await page.route(ORDERS, async (route) => {
    await route.fetch();
    await route.abort();
  });
  await page.route(ASKED, async (route) => {
    await answer.opened;
    await route.continue();
  });
  await stopClock(page);
  const echo = card(page, 'Echo');
  await echo.button.click();
  await hurry(page, echo.answer, /We keep asking\.$/);
  await says(page.locator('.order .state'), /^We do not know yet\. Asking\.$/);
  answer.open();
  await hurry(page, echo.answer, /^Ordered: 1 × Echo/);
  await says(page.locator('.order .state'), /^Ordered/);
  assert.equal(await sold(202), 1);
}, { fresh: true, allow: NO_REPLY });

test('a lost reply, then busy for long: it may have been ordered', async (page) => {
  await putProduct(209, { name: 'Both' });
  let tries = 0;
  await page.route(ORDERS, async (route) => {
    tries += 1;
    if (tries > 1) return route.fulfill(problem('overloaded', 503, 60));
    await route.fetch();
    return route.abort();
  });
  await page.goto('/');
  await card(page, 'Both').button.click();
  await says(card(page, 'Both').answer, /^Ordered: 1 × Both/);
  assert.equal(tries, 2);
}, { allow: /net::ERR_|status of 503/ });

test('a lost reply, then a no: it may be ordered yet', async (page) => {
  await putProduct(210, { name: 'Hung' });
  let first;
  await page.route(ORDERS, async (route) => {
    if (first) return route.fulfill(problem('sold-out', 409, 0));
    first = route.request();
    return route.abort(); // an instance that hangs has it
  });
  await page.goto('/');
  const hung = card(page, 'Hung');
  await hung.button.click();
  await says(hung.answer, /We keep asking\.$/);
  await api('POST', '/api/orders', first.postDataJSON(), { 'Idempotency-Key': first.headers()['idempotency-key'] });
  await says(hung.answer, /^Ordered: 1 × Hung/);
}, { allow: /net::ERR_|status of 4/ });

test('never reached the shop: not ordered, but only after a while, and perhaps later', async (page) => {
  await putProduct(203, { name: 'Void' });
  let last;
  await page.route(ORDERS, (route) => {
    last = route.request();
    return route.abort();
  });
  await stopClock(page);
  const none = card(page, 'Void');
  await none.button.click();
  const asked = page.waitForResponse(ASKED);
  await hurry(page, none.answer, /We keep asking\.$/);
  const look = () => page.evaluate('document.dispatchEvent(new Event("visibilitychange")); false');
  while (!await Promise.race([asked.then(() => true), look()])); // no time passes
  assert.equal((await asked).status(), 404);
  assert.match(await none.answer.textContent(), /We keep asking\.$/); // it could still arrive
  await hurry(page, none.answer, /^Not ordered: your order did not reach the shop\. Please try again\.$/);
  await says(page.locator('.order .state'), /^Not ordered/);
  await api('POST', '/api/orders', last.postDataJSON(), { 'Idempotency-Key': last.headers()['idempotency-key'] });
  await hurry(page, none.answer, /^Ordered: 1 × Void/); // the disk hung for longer
  await says(page.locator('.order .state'), /^Ordered/);
}, { fresh: true, allow: /net::ERR_|status of 404/ });

test('a reload in between: the order is found', async (page) => {
  await putProduct(204, { name: 'Gone' });
  const there = gate();
  await page.route(ORDERS, async (route) => {
    await route.fetch();
    there.open(); // and no reply
  });
  await page.goto('/');
  await card(page, 'Gone').button.click();
  await there.opened;
  await page.reload();
  await says(page.locator('.order'), /1 × Gone.*Ordered/s);
});

test('offline, then online', async (page, context) => {
  await putProduct(205, { name: 'Radio' });
  await page.goto('/');
  const radio = card(page, 'Radio');
  await radio.button.waitFor();
  await context.setOffline(true);
  await radio.button.click();
  await says(radio.answer, /^You are offline\. We do not know yet/);
  await says(page.locator('#link'), /^You are offline\. Trying again\.$/);
  await context.setOffline(false);
  await says(radio.answer, /^Ordered/);
  await says(page.locator('#link'), /^Live$/);
  assert.equal(await sold(205), 1);
}, { allow: NO_REPLY });

test('busy: tried again when the shop says so', async (page) => {
  await putProduct(206, { name: 'Queue' });
  const times = [];
  await page.route(ORDERS, (route) => {
    times.push(performance.now());
    return times.length > 1 ? route.continue() : route.fulfill(problem('overloaded', 503, 2));
  });
  await page.goto('/');
  await card(page, 'Queue').button.click();
  await says(card(page, 'Queue').answer, /^The shop is busy\. Trying again in 2 s\.$/);
  await says(card(page, 'Queue').answer, /^Ordered/);
  assert.ok(times[1] - times[0] > 1900, `after ${times[1] - times[0]} ms`);
}, { allow: /status of 503/ });

test('a shop that is away for long: a plain no where it is one', async (page) => {
  await putProduct(207, { name: 'Door' });
  await page.route(ORDERS, (route) => route.fulfill(problem('shutting-down', 503, 60)));
  await page.goto('/');
  const door = card(page, 'Door');
  await door.button.click();
  await says(door.answer, /^Not ordered: the shop is being restarted\. Please try again in a minute\.$/);
  // With a trouble of the store it may have been ordered, and where the reply says so.
  for (const reply of [problem('store-unavailable', 503, 60), problem('overloaded', 503, 60, { may_have_ordered: true })]) {
    await page.unroute(ORDERS);
    await page.route(ORDERS, (route) => route.fulfill(reply));
    await door.item.locator('.buy button:not([aria-disabled])').waitFor();
    await door.button.click();
    await says(door.answer, /^The shop has trouble just now\. We do not know yet/);
  }
}, { allow: /status of (?:503|404)/ });

test('each refusal in plain words', async (page) => {
  await putProduct(208, { name: 'Plain' });
  const words = {
    'too-many-in-flight': [429, /too many orders come from your address/],
    overloaded: [503, /too busy just now/],
    'lock-timeout': [503, /too busy just now/],
    'lock-unreachable': [503, /has trouble just now/],
    'no-such-product': [404, /not on sale any more/],
    misdirected: [421, /A title/],
  };
  await page.clock.install();
  await page.goto('/');
  const plain = card(page, 'Plain');
  for (const [name, [status, pattern]] of Object.entries(words)) {
    await page.route(ORDERS, (route) => route.fulfill(problem(name, status, 60)));
    await plain.item.locator('.buy button:not([aria-disabled])').waitFor();
    await plain.button.click();
    await says(plain.answer, pattern);
    await says(plain.answer, /^Not ordered: /);
    await page.clock.fastForward(1500);
    await page.unroute(ORDERS);
  }
}, { fresh: true, allow: /status of 4|status of 503/ });

test('one request for news at a time', async (page) => {
  await page.goto('/');
  await says(page.locator('#link'), /^Live$/);
  const held = [];
  const first = gate();
  await page.route(NEWS, (route) => {
    held.push(route);
    first.open();
  });
  await first.opened;
  await page.evaluate(() => {
    for (let i = 0; i < 5; i += 1) document.dispatchEvent(new Event('visibilitychange'));
    for (let i = 0; i < 5; i += 1) window.dispatchEvent(new Event('online'));
  });
  const done = page.waitForResponse(NEWS);
  await held[0].continue();
  await done;
  assert.equal(held.length, 1);
}, { polls: true });

for (const [what, where] of [['news', NEWS], ['an order in doubt', ASKED]]) {
  test(`a shop that hangs is not called live: ${what}`, async (page) => {
    await page.addInitScript(() => localStorage.setItem('orders',
      JSON.stringify([{ key: 'hangs', name: 'Hangs', quantity: 1, at: Date.now() }])));
    const hangs = gate();
    const goesOn = gate();
    await page.route(where, async (route) => {
      hangs.open();
      await goesOn.opened;
      await route.continue();
    });
    await page.goto('/');
    await hangs.opened;
    await says(page.locator('#link[data-live="false"]'), /^The shop does not answer\. Waiting\.$/);
    goesOn.open();
    await says(page.locator('#link[data-live="true"]'), /^Live$/);
  }, { fresh: true, polls: true, allow: /status of (?:404|503)/ });
}

test('asks nothing while nobody looks', async (page) => {
  let asked = 0;
  await page.addInitScript(() => Object.defineProperty(document, 'hidden', { get: () => window.away === true }));
  await page.clock.install();
  await page.goto('/');
  await says(page.locator('#link'), /^Live$/);
  await page.evaluate('window.away = true');
  page.on('request', () => { asked += 1; });
  await page.clock.runFor(60000);
  assert.equal(asked, 0);
  const news = page.waitForRequest(NEWS);
  await page.evaluate('window.away = false; document.dispatchEvent(new Event("visibilitychange"))');
  await news;
}, { fresh: true, polls: true });

test('backs off from a shop that does not answer', async (page) => {
  await page.clock.install();
  await page.goto('/');
  await says(page.locator('#link'), /^Live$/);
  const at = [];
  await page.route(NEWS, async (route) => {
    at.push(Number(await page.evaluate('performance.now()')));
    await route.abort();
  });
  for (const ms of [2500, 5000, 10000, 20000]) {
    // The page waits up to 1.2 times as long as it says, so this is always enough.
    const failed = page.waitForEvent('requestfailed');
    await says(page.locator('#link'), /./);
    for (let waited = 0, over = false; !over; waited += 500) {
      assert.ok(waited < 2 * ms + 10000, 'it asks again');
      await page.clock.runFor(500);
      over = await Promise.race([failed.then(() => true), page.evaluate('false')]);
    }
  }
  const gaps = at.slice(1).map((time, i) => time - at[i]);
  assert.ok(gaps[0] > 3000 && gaps[1] > 6000 && gaps[2] > 12000, `gaps of ${gaps.map(Math.round)} ms`);
  await says(page.locator('#link'), /^The shop does not answer\. Trying again\.$/);
}, { fresh: true, polls: true, allow: /net::ERR_|status of 503/ });

test('asks no sooner than a busy shop says', async (page) => {
  const at = [];
  await page.clock.install();
  await page.goto('/');
  await says(page.locator('#link'), /^Live$/);
  await page.route(NEWS, async (route) => {
    at.push(Number(await page.evaluate('performance.now()')));
    await route.fulfill(problem('overloaded', 503, 60));
  });
  while (at.length < 2) await page.clock.runFor(500);
  assert.ok(at[1] - at[0] > 45000, `after ${at[1] - at[0]} ms`); // of the page's
}, { fresh: true, polls: true, allow: /status of 503/ });
