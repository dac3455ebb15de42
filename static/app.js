// The page at /: what is on sale, kept fresh while somebody looks at it, and a
// button for each product. The answer to a press stands at the product. All it
// knows comes from the interface in /openapi.json.

import { drawAdmin, isAdmin, refreshSegments, wireAdmin, wireAdminPart } from './admin.js';
import { askOrders, beginOrder, confirmOrder, doubtOrder, forgetOrder } from './orders.js';
import { call, count, countdown, explain, money, newKey, noAnswer, now, owedMs, placeOrder, say, sayLater, setText, sleep, when } from './shop.js';

const POLL_MS = 2000;
const POLL_MS_MAX = 30000; // while the shop does not answer
const TICK_MS = 250; // of countdowns
const OWED_MS = 2000; // without a reply for so long, the shop is not called live
const REST_MS = 1000; // after an answer a button rests, so that a double click is one press

const $ = (id) => document.getElementById(id);
const cards = new Map(); // product id -> {card, product}

// ---- products -----------------------------------------------------------------

function makeCard(id) {
  const card = $('product').content.firstElementChild.cloneNode(true);
  const button = card.querySelector('.buy button');
  card.querySelector('.name').id = `name-${id}`;
  button.id = `order-${id}`;
  button.setAttribute('aria-labelledby', `order-${id} name-${id}`);
  card.querySelector('.bar').setAttribute('aria-labelledby', `name-${id}`);
  card.querySelector('.quantity').setAttribute('aria-describedby', `name-${id}`);
  card.querySelector('.segments').setAttribute('aria-describedby', `name-${id}`);
  card.querySelector('.buy').addEventListener('submit', (event) => {
    event.preventDefault();
    buy(id);
  });
  // A key that is held down presses once.
  card.addEventListener('keydown', (event) => {
    if (event.repeat && (event.key === 'Enter' || event.key === ' ')) event.preventDefault();
  });
  wireAdmin(card, id, refresh);
  return card;
}

// What can be done with a product now, and what to say of it.
function saleState({ opens_at: opens, ends_at: ends, stock }, time) {
  if (ends && time >= Date.parse(ends)) return ['ended', `Ended ${when(ends)}`];
  if (opens && time < Date.parse(opens)) return ['soon', `Opens in ${countdown(Date.parse(opens) - time)} (${when(opens)})`];
  if (stock <= 0) return ['gone', 'Sold out'];
  return ['open', ends ? `Open until ${when(ends)}` : ''];
}

// The part that changes with time alone.
function drawState({ card, product }) {
  const [state, text] = saleState(product, now());
  const form = card.querySelector('.buy');
  card.dataset.state = state;
  setText(card.querySelector('.window'), text);
  // A press that is under way keeps its button, and with it the focus.
  const hide = state !== 'open' && form.querySelector('button').ariaDisabled !== 'true';
  const focused = hide && form.contains(document.activeElement);
  form.hidden = hide;
  if (focused) card.querySelector('.answer').focus({ preventScroll: true });
}

function drawCard({ card, product }) {
  const bar = card.querySelector('.bar');
  const share = product.initial ? Math.max(0, product.stock) / product.initial : 0;
  const limit = product.limit_per_user;
  setText(card.querySelector('.name'), product.name);
  setText(card.querySelector('.price'), money(product.price_cents));
  setText(card.querySelector('.left'), `${count(product.stock)} of ${count(product.initial)} left`);
  setText(card.querySelector('.limit'), limit ? `${count(limit)} per customer` : '');
  bar.setAttribute('aria-valuemax', Math.max(1, product.initial));
  bar.setAttribute('aria-valuenow', Math.max(0, product.stock));
  bar.setAttribute('aria-valuetext', card.querySelector('.left').textContent);
  bar.querySelector('.fill').style.inlineSize = `${(share * 100).toFixed(1)}%`;
  card.classList.toggle('low', share > 0 && share <= 0.1);
  drawAdmin(card, product);
}

function drawProducts({ products, next }) {
  const seen = new Set(products.map((product) => product.id));
  for (const product of products) {
    if (!cards.has(product.id)) {
      cards.set(product.id, { card: makeCard(product.id) });
      $('products').append(cards.get(product.id).card);
    }
    cards.get(product.id).product = product;
    drawCard(cards.get(product.id));
    drawState(cards.get(product.id));
  }
  for (const [id, { card }] of cards) {
    if (seen.has(id)) continue;
    card.remove();
    cards.delete(id);
  }
  $('empty').hidden = products.length > 0;
  $('more').hidden = next === null;
  setText($('more'), `These are the first ${count(products.length)} products.`);
}

// ---- ordering -----------------------------------------------------------------

function ordered(what, order) {
  const total = order.total_cents === null ? '' : `, ${money(order.total_cents)} in all`;
  return `Ordered: ${what}${total}.`;
}

// An order in doubt is asked for by its key from now on; see askOrders().
function resolveDoubt(answer, key, what, reply) {
  say(answer, `${noAnswer(reply)} We do not know yet whether this was ordered. We keep asking.`, 'wait');
  return new Promise((resolve) => {
    doubtOrder(key, (state, order) => {
      if (state === 'unknown') sayLater(answer, 'Not ordered: your order did not reach the shop. Please try again.', 'no');
      else if (order) sayLater(answer, ordered(what, order), 'yes');
      resolve();
    });
  });
}

async function buy(id) {
  const { card, product } = cards.get(id);
  const button = card.querySelector('.buy button');
  const answer = card.querySelector('.answer');
  const quantity = Number(card.querySelector('.quantity').value);
  const what = `${count(quantity)} × ${product.name}`;
  const key = newKey();
  if (button.ariaDisabled === 'true') return;
  if (!$('buyer').reportValidity()) {
    say(answer, 'Not ordered: please give your customer number first.', 'no');
    return;
  }
  button.ariaDisabled = 'true';
  setText(button, 'Ordering');
  say(answer, '', 'wait');
  remember('user', $('user').value);
  beginOrder({ key, name: product.name, quantity });
  const order = { product_id: id, user_id: Number($('user').value), quantity };
  const { reply, known } = await placeOrder(order, key, (text) => say(answer, text, 'wait'));
  if (!known) {
    await resolveDoubt(answer, key, what, reply);
  } else if (reply.status === 201) {
    confirmOrder(key, reply.body);
    say(answer, ordered(what, reply.body), 'yes');
  } else {
    forgetOrder(key);
    say(answer, `Not ordered: ${explain(reply, { ...product, quantity })}`, 'no');
  }
  refresh();
  setText(button, 'Order');
  await sleep(REST_MS);
  button.ariaDisabled = null;
  if (cards.has(id)) drawState(cards.get(id));
}

// ---- staying fresh --------------------------------------------------------------

let failures = 0;
let waitMs = POLL_MS;
let running = null; // the refresh under way: there is never a second one
let link = { live: '', text: 'Connecting' }; // as the last reply has it

// Each tick: the last reply says nothing of a shop that has hung since.
function drawLink() {
  const { live, text } = owedMs() < OWED_MS ? link : { live: false, text: `${noAnswer({ status: 0 })} Waiting.` };
  $('link').dataset.live = live;
  setText($('link'), text);
}

function heard(reply) {
  const live = reply.status === 200 && reply.body !== null;
  failures = live ? 0 : failures + 1;
  waitMs = Math.max(reply.retryS * 1000, Math.min(POLL_MS * 2 ** failures, POLL_MS_MAX));
  link = { live, text: live ? 'Live' : `${noAnswer(reply)} Trying again.` };
  drawLink();
  return live;
}

async function refreshOnce() {
  const reply = await call('GET', '/api/products?limit=200');
  if (!heard(reply)) return;
  drawProducts(reply.body);
  await askOrders();
  if (isAdmin()) await refreshSegments([...cards].map(([id, { card }]) => [id, card]));
}

function refresh() {
  running ??= refreshOnce().finally(() => { running = null; });
  return running;
}

// Some pages wait longer and some shorter, so that a crowd does not ask in step.
async function watch() {
  for (;;) {
    if (!document.hidden) await refresh();
    await sleep(waitMs * (0.8 + 0.4 * Math.random()));
  }
}

// ---- beginning ------------------------------------------------------------------

function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch { /* then it is asked for again */ }
}

function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

$('user').value = remembered('user') ?? String(1 + Math.floor(Math.random() * 1e6));
$('buyer').addEventListener('submit', (event) => event.preventDefault());
$('admin').addEventListener('toggle', () => {
  const { top } = $('admin').getBoundingClientRect();
  cards.forEach(drawCard);
  scrollBy(0, $('admin').getBoundingClientRect().top - top); // the cards above have grown
  refresh();
});
document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });
setInterval(() => {
  cards.forEach(drawState);
  drawLink();
}, TICK_MS);
wireAdminPart(refresh);
watch();
