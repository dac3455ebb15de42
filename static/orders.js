// "Your last orders": the browser keeps their keys, and the shop is asked by key
// what became of each. A key is kept before its order is sent: whatever happens
// then, a reload finds out.

import { call, count, explain, money, noAnswer, say, setText, slug, when } from './shop.js';
import { text } from './words.js';

const ORDERS_MAX = 10;
const LATE_MS = 10000; // so long an order whose reply was lost may still arrive
const narrow = matchMedia('(max-width: 59.99rem)'); // as in style.css

const items = new Map(); // key -> {element, order (as the shop has it), state, onKnown}
let memory = null; // the list, if the browser does not store it

// ---- what the browser keeps: {key, product, name, quantity, at}, newest first --------------

function isEntry(entry) {
  return typeof entry?.key === 'string' && typeof entry.name === 'string'
    && Number.isSafeInteger(entry.quantity) && Number.isFinite(entry.at);
}

// Read anew each time: another tab may have ordered.
function kept() {
  if (memory) return memory;
  try {
    const list = JSON.parse(localStorage.getItem('orders') ?? '[]');
    return Array.isArray(list) ? list.filter(isEntry).slice(0, ORDERS_MAX) : [];
  } catch {
    return [];
  }
}

function keep(list) {
  const last = list.slice(0, ORDERS_MAX);
  try {
    localStorage.setItem('orders', JSON.stringify(last));
    memory = null;
  } catch {
    memory = last; // then they are known until the page is left
  }
  drawOrders();
}

// ---- drawing ----------------------------------------------------------------------

const STATES = {
  sending: () => text('sending'),
  asking: () => text('asking'),
  placed: (order) => text('placed', when(order.created_at)),
  cancelled: (order) => text('cancelled', when(order.cancelled_at)),
  'awaiting-payment': (order) => text('awaitingPayment', when(order.pay_until)),
  paid: (order) => text('paid', when(order.paid_at)),
  expired: () => text('expired'),
  unknown: () => text('unknown'),
};

function makeItem(entry) {
  const element = document.getElementById('order').content.firstElementChild.cloneNode(true);
  const what = `${count(entry.quantity)} × ${entry.name}`;
  const item = { element, what, order: null, state: 'asking', onKnown: null };
  element.querySelector('.what').textContent = what;
  element.querySelector('.cancel').addEventListener('click', () => cancel(item));
  return item;
}

function drawItem({ element, what, order, state }) {
  element.dataset.state = state;
  setText(element.querySelector('.state'), STATES[state](order));
  setText(element.querySelector('.total'), order?.total_cents != null ? money(order.total_cents) : '');
  const button = element.querySelector('.cancel');
  button.hidden = state !== 'placed' && state !== 'awaiting-payment';
  setText(button, text('cancel'));
  button.setAttribute('aria-label', text('cancelWhat', what));
}

// Beside the products is the list; where there is no room beside, an order stands in its
// product's card, below the button.
function placeOf({ product }) {
  const list = document.getElementById('orders');
  return narrow.matches ? document.querySelector(`#product-${Number(product)} .mine`) ?? list : list;
}

export function drawOrders() {
  const list = kept();
  const keys = new Set(list.map((entry) => entry.key));
  for (const [key, item] of items) {
    if (keys.has(key)) continue;
    item.element.remove();
    item.onKnown?.('dropped', null);
    items.delete(key);
  }
  const places = new Map(); // how many each has
  for (const entry of list) {
    if (!items.has(entry.key)) items.set(entry.key, makeItem(entry));
    const item = items.get(entry.key);
    const box = placeOf(entry);
    const place = places.get(box) ?? 0;
    places.set(box, place + 1);
    drawItem(item);
    if (box.children[place] !== item.element) box.insertBefore(item.element, box.children[place]);
  }
  document.getElementById('no-orders').hidden = list.length > 0;
  document.querySelector('.aside').hidden = list.length > 0 && !document.getElementById('orders').children.length;
}

function settle(key, state, order) {
  const item = items.get(key);
  if (!item) return;
  Object.assign(item, { state, order });
  drawOrders();
  item.onKnown?.(state, order);
  item.onKnown = null;
}

// ---- for the page ------------------------------------------------------------------

export function beginOrder(entry) {
  keep([{ ...entry, at: Date.now() }, ...kept()]);
  settle(entry.key, 'sending', null);
}

export const confirmOrder = (key, order) => settle(key, order.state, order);

export const forgetOrder = (key) => keep(kept().filter((entry) => entry.key !== key));

// Nobody knows whether it was ordered: ON_KNOWN is called with 'placed',
// 'cancelled' or 'unknown' and the order, once the shop has said so; or with
// 'dropped', since newer orders have taken its place.
export function doubtOrder(key, onKnown) {
  keep(kept().map((entry) => (entry.key === key ? { ...entry, at: Date.now() } : entry)));
  const item = items.get(key);
  if (!item) {
    onKnown('dropped', null);
    return;
  }
  item.state = 'asking';
  item.onKnown = onKnown;
  drawItem(item);
}

// Asks after those that are in doubt, one by one, until one gets no answer.
export async function askOrders() {
  for (const { key, at } of kept()) {
    if (items.get(key)?.state !== 'asking') continue;
    const reply = await call('GET', `/api/orders?key=${encodeURIComponent(key)}`);
    if (reply.status === 200 && reply.body) settle(key, reply.body.state, reply.body);
    else if (slug(reply) !== 'no-such-order') return;
    else if (Date.now() - at > LATE_MS || Date.now() < at) settle(key, 'unknown', null);
  }
}

async function cancel(item) {
  const button = item.element.querySelector('.cancel');
  const answer = item.element.querySelector('.answer');
  if (button.ariaDisabled === 'true') return;
  button.ariaDisabled = 'true';
  const reply = await call('DELETE', `/api/orders/${encodeURIComponent(item.order.id)}`);
  button.ariaDisabled = null;
  if (reply.status === 200 && reply.body) {
    Object.assign(item, { state: reply.body.state, order: reply.body });
    say(answer, () => text('cancelDone'), 'yes');
    answer.focus({ preventScroll: true }); // the button goes
    drawItem(item);
  } else if (reply.body) {
    say(answer, () => text('notCancelled', explain(reply)), 'no');
  } else {
    say(answer, () => text('cancelInDoubt', noAnswer(reply)), 'no');
  }
}

addEventListener('storage', drawOrders);
narrow.addEventListener('change', drawOrders);
