// The page at /: what is on sale, live while somebody looks at it, and a button for
// each product. The answer to a press stands at the product. All it knows comes from
// the interface in /openapi.json.

import { drawAdmin, drawWords, isAdmin, proposeNumber, refreshSegments, wireAdmin, wireAdminPart } from './admin.js';
import { fill, keep, kept, showLanguage, wireLanguages } from './browser.js';
import { drawLink, follow, refresh } from './live.js';
import { STATES, askOrders, beginOrder, confirmOrder, doubtOrder, drawOrders, forgetOrder, tickOrders } from './orders.js';
import { count, countdown, duration, explain, money, newKey, noAnswer, now, placeOrder, say, sayAgain, sayLater, setText, sleep, when } from './shop.js';
import { choose, language, text } from './words.js';

const TICK_MS = 250; // of countdowns
const SOON_MS = 60000; // the last minute before a sale looks like it
const REST_MS = 1000; // after an answer a button rests, so that a double click is one press

const $ = (id) => document.getElementById(id);
const cards = new Map(); // product id -> {card, product}

// ---- products -----------------------------------------------------------------

function makeCard(id) {
  const card = $('product').content.firstElementChild.cloneNode(true);
  const button = card.querySelector('.buy button');
  fill(card, text);
  card.id = `product-${id}`;
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

// What can be done with a product now, and what to say of it: words, a clock, a time.
function saleState({ opens_at: opens, ends_at: ends, pay_within_s: pay, stock }, time) {
  if (ends && time >= Date.parse(ends)) return ['ended', text('ended', when(ends))];
  if (opens && time < Date.parse(opens)) return ['soon', text('opensIn'), countdown(Date.parse(opens) - time), when(opens)];
  if (stock <= 0) return ['gone', text(pay ? 'soldOutHeld' : 'soldOut')];
  return ['open', ends ? text('until', when(ends)) : ''];
}

const isTimed = ({ product }) => product.opens_at || product.ends_at; // else no time changes its state

// The part that changes with time alone.
function drawState({ card, product }) {
  const [state, words, clock = '', at = ''] = saleState(product, now());
  const form = card.querySelector('.buy');
  const isSoon = state === 'soon' && Date.parse(product.opens_at) - now() <= SOON_MS;
  card.classList.toggle('opened', card.classList.contains('opened') || (card.dataset.state === 'soon' && state === 'open'));
  card.dataset.state = state;
  card.classList.toggle('soon', isSoon);
  setText(card.querySelector('.window .words'), words);
  setText(card.querySelector('.clock'), clock);
  setText(card.querySelector('.window .at'), at);
  // A press that is under way keeps its button, and with it the focus.
  const hide = state !== 'open' && form.querySelector('button').ariaDisabled !== 'true';
  const focused = hide && form.contains(document.activeElement);
  form.hidden = hide;
  if (focused) card.querySelector('.answer').focus({ preventScroll: true });
}

function drawCard({ card, product }) {
  const bar = card.querySelector('.bar');
  const share = product.initial ? Math.max(0, product.stock) / product.initial : 0;
  const { limit_per_user: limit, pay_within_s: pay } = product;
  setText(card.querySelector('.name'), product.name);
  setText(card.querySelector('.price'), money(product.price_cents));
  setText(card.querySelector('.left'), text('left', count(product.stock), count(product.initial)));
  setText(card.querySelector('.limit'), [limit && text('each', count(limit)), pay && text('payWithin', duration(pay))].filter(Boolean).join(' · '));
  bar.setAttribute('aria-valuemax', Math.max(1, product.initial));
  bar.setAttribute('aria-valuenow', Math.max(0, product.stock));
  bar.setAttribute('aria-valuetext', card.querySelector('.left').textContent);
  bar.querySelector('.fill').style.inlineSize = `${(share * 100).toFixed(1)}%`;
  card.classList.toggle('low', share > 0 && share <= 0.1);
  drawAdmin(card, product);
}

function drawProduct(product) {
  const { id } = product;
  if (!cards.has(id)) {
    cards.set(id, { card: makeCard(id) });
    $('products').append(cards.get(id).card);
    $('empty').hidden = true;
    drawOrders(); // some may stand in it
  }
  cards.get(id).product = product;
  drawCard(cards.get(id));
  drawState(cards.get(id));
  proposeNumber(1 + Math.max(...cards.keys()));
}

function drawProducts({ products, next }) {
  const seen = new Set(products.map((product) => product.id));
  for (const product of products) drawProduct(product);
  for (const [id, { card }] of cards) {
    if (seen.has(id)) continue;
    card.remove();
    cards.delete(id);
  }
  $('empty').hidden = products.length > 0;
  $('more').hidden = next === null;
  setText($('more'), text('first', count(products.length)));
}

// ---- ordering -----------------------------------------------------------------

const ordered = (what, { state, total_cents: total, pay_until: until }) => text(state === 'awaiting-payment' ? 'reserved' : 'ordered', what, total === null ? '' : money(total), until && when(until));

const ENDS = { paid: 'yes', cancelled: 'wait', expired: 'no' };

// At its product, whatever becomes of an order, until something else is said there.
function follower(answer, key, what) {
  answer.dataset.key = key;
  return (state, order) => {
    if (answer.dataset.key !== key) return;
    if (state === 'unknown') sayLater(answer, () => text('notOrdered', text('notReached')), 'no');
    else if (ENDS[state]) sayLater(answer, () => text('outcome', what, STATES[state](order)), ENDS[state]);
    else if (order) sayLater(answer, () => ordered(what, order), 'yes');
  };
}

// An order in doubt is asked for by its key from now on; see askOrders().
function resolveDoubt(answer, key, tell, reply) {
  say(answer, () => text('inDoubt', noAnswer(reply)), 'wait');
  return new Promise((resolve) => {
    doubtOrder(key, (state, order) => {
      tell(state, order);
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
    say(answer, () => text('notOrdered', text('noCustomer')), 'no');
    return;
  }
  button.ariaDisabled = 'true';
  button.dataset.word = 'ordering';
  setText(button, text('ordering'));
  say(answer, () => '', 'wait');
  keep('user', $('user').value);
  beginOrder({ key, product: id, name: product.name, quantity });
  const tell = follower(answer, key, what);
  const order = { product_id: id, user_id: Number($('user').value), quantity };
  const { reply, known } = await placeOrder(order, key, (says) => say(answer, says, 'wait'));
  if (!known) {
    await resolveDoubt(answer, key, tell, reply);
  } else if (reply.status === 201) {
    confirmOrder(key, reply.body, tell);
    answer.scrollIntoView({ block: 'nearest' });
  } else {
    forgetOrder(key);
    say(answer, () => text('notOrdered', explain(reply, { ...product, quantity })), 'no');
  }
  refresh();
  button.dataset.word = 'order';
  setText(button, text('order'));
  await sleep(REST_MS);
  button.ariaDisabled = null;
  if (cards.has(id)) drawState(cards.get(id));
}

// ---- the language ---------------------------------------------------------------

function speak(next) {
  choose(next);
  showLanguage(next);
  document.title = text('title');
  fill(document, text);
  for (const each of cards.values()) {
    drawCard(each);
    drawState(each);
  }
  drawWords();
  drawOrders();
  drawLink();
  sayAgain();
}

// ---- beginning ------------------------------------------------------------------

$('user').value = kept('user') ?? String(1 + Math.floor(Math.random() * 1e6));
$('buyer').addEventListener('submit', (event) => event.preventDefault());
$('admin').addEventListener('toggle', () => {
  const { top } = $('admin').getBoundingClientRect();
  cards.forEach(drawCard);
  scrollBy(0, $('admin').getBoundingClientRect().top - top); // the cards above have grown
  refresh();
});
setInterval(() => {
  for (const each of cards.values()) if (isTimed(each)) drawState(each);
  if (tickOrders()) refresh();
  drawLink();
}, TICK_MS);
wireAdminPart(refresh);
wireLanguages(speak);
speak(language);
follow({
  onProducts: drawProducts,
  onProduct: drawProduct,
  onNews: async () => {
    await askOrders();
    if (isAdmin()) await refreshSegments([...cards].map(([id, { card }]) => [id, card]));
  },
});
