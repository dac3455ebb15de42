// "Your last orders": the browser keeps their keys, and the shop is asked by key
// what became of each. A key is kept before its order is sent: whatever happens
// then, a reload finds out. So is the reference of a payment: a second press of Pay, and
// one after a reload, is the same payment.

import * as browser from './browser.js';
import { call, count, countdown, explain, isAnswer, money, newKey, noAnswer, now, say, sayLater, setText, slug, when } from './shop.js';
import { text } from './words.js';

const ORDERS_MAX = 10;
const SOON_MS = 60000; // the last minute to pay looks like it
const LATE_MS = 10000; // so long an order whose reply was lost may still arrive
const HUNG_MS = 600000; // so long it may still be placed, by a shop whose disk hangs
const narrow = matchMedia('(max-width: 59.99rem)'); // as in style.css

const items = new Map(); // key -> {element, order (as the shop has it), state, onKnown}
let memory = null; // the list, if the browser does not store it

// ---- what the browser keeps: {key, product, name, quantity, at, payment}, newest first ------

function isEntry(entry) {
  return typeof entry?.key === 'string' && typeof entry.name === 'string'
    && Number.isSafeInteger(entry.quantity) && Number.isFinite(entry.at);
}

// Read anew each time: another tab may have ordered.
function kept() {
  if (memory) return memory;
  const list = browser.parse(browser.kept('orders'));
  return Array.isArray(list) ? list.filter(isEntry).slice(0, ORDERS_MAX) : [];
}

function keep(list) {
  const last = list.slice(0, ORDERS_MAX);
  memory = browser.keep('orders', JSON.stringify(last)) ? null : last; // else they are known until the page is left
  drawOrders();
}

// ---- drawing ----------------------------------------------------------------------

export const STATES = {
  sending: () => text('sending'),
  asking: () => text('asking'),
  placed: (order) => text('placed', when(order.created_at)),
  cancelled: (order) => text('cancelled', when(order.cancelled_at)),
  'awaiting-payment': (order) => text('awaitingPayment', when(order.pay_until)),
  paid: (order) => text('paid', when(order.paid_at)),
  expired: (order) => text('expired', when(order.pay_until)),
  unknown: () => text('unknown'),
};

function makeItem(entry) {
  const element = document.getElementById('order').content.firstElementChild.cloneNode(true);
  const what = `${count(entry.quantity)} × ${entry.name}`;
  const item = { key: entry.key, element, what, order: null, state: 'asking', onKnown: null };
  element.querySelector('.what').textContent = what;
  element.querySelector('.cancel').addEventListener('click', () => act(item, 'cancel', (path) => call('DELETE', path)));
  element.querySelector('.pay').addEventListener('click', () => act(item, 'pay', (path) => call('POST', `${path}/pay`, { body: { payment: paymentOf(item.key) } })));
  return item;
}

const leftMs = (order) => Date.parse(order.pay_until) - now();

function drawItem({ element, what, order, state }) {
  const isHeld = state === 'awaiting-payment';
  const shown = { pay: isHeld, cancel: isHeld || state === 'placed' };
  element.dataset.state = state;
  setText(element.querySelector('.state'), STATES[state](order));
  setText(element.querySelector('.due'), isHeld ? countdown(leftMs(order)) : '');
  element.classList.toggle('soon', isHeld && leftMs(order) <= SOON_MS);
  setText(element.querySelector('.total'), order?.total_cents != null ? money(order.total_cents) : '');
  for (const [name, isShown] of Object.entries(shown)) {
    const button = element.querySelector(`.${name}`);
    const isLost = !isShown && button === document.activeElement; // the focus, with the button
    button.hidden = !isShown;
    setText(button, text(name));
    button.setAttribute('aria-label', text(`${name}What`, what));
    if (isLost) element.querySelector('.answer').focus({ preventScroll: true });
  }
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

// An order whose time is over is paid or expired, which is not known yet.
const stateOf = (order) => (order.state === 'awaiting-payment' && leftMs(order) <= 0 ? 'asking' : order.state);

// What is said when it becomes so, while somebody looks; of a late payment after a reload, too.
const OUTCOMES = { paid: 'payDone', cancelled: 'cancelDone', expired: 'timeIsUp' };

function settle(key, state, order) {
  const item = items.get(key);
  if (!item) return;
  if (OUTCOMES[state] && (item.order || order.late_payments)) {
    sayLater(item.element.querySelector('.answer'), () => text(order.late_payments ? 'payLate' : OUTCOMES[state], item.what), order.late_payments || state === 'expired' ? 'no' : 'yes');
  }
  Object.assign(item, { state, order });
  drawOrders();
  item.onKnown?.(state, order);
}

// ---- for the page ------------------------------------------------------------------

export function beginOrder(entry) {
  keep([{ ...entry, at: Date.now() }, ...kept()]);
  settle(entry.key, 'sending', null);
}

// ON_KNOWN is called with its state now, and with each that comes.
export function confirmOrder(key, order, onKnown) {
  if (items.has(key)) items.get(key).onKnown = onKnown;
  settle(key, stateOf(order), order);
}

export const forgetOrder = (key) => keep(kept().filter((entry) => entry.key !== key));

// Nobody knows whether it was ordered: ON_KNOWN is called with 'placed',
// 'cancelled' or 'unknown' and the order, as soon as the shop says so, and with what
// becomes of it; or with 'dropped', since newer orders have taken its place.
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
    const state = items.get(key)?.state;
    const ms = Date.now() - at;
    if (state !== 'asking' && !(state === 'unknown' && ms >= 0 && ms < HUNG_MS)) continue;
    const reply = await call('GET', `/api/orders?key=${encodeURIComponent(key)}`);
    if (items.get(key)?.state !== state) continue; // a press was answered meanwhile
    if (reply.status === 200 && reply.body) settle(key, stateOf(reply.body), reply.body);
    else if (slug(reply) !== 'no-such-order') return;
    else if (state === 'asking' && (ms > LATE_MS || ms < 0)) settle(key, 'unknown', null);
  }
}

// Each tick. True: the time of one is over, and the shop is to be asked what became of it.
export function tickOrders() {
  const held = [...items.values()].filter(({ state }) => state === 'awaiting-payment');
  for (const item of held) {
    item.state = stateOf(item.order);
    drawItem(item);
  }
  return held.some(({ state }) => state === 'asking');
}

// ---- what the customer presses --------------------------------------------------------

function paymentOf(key) {
  const list = kept();
  const entry = list.find((each) => each.key === key);
  if (entry.payment) return entry.payment;
  entry.payment = newKey();
  keep(list);
  return entry.payment;
}

// Something else has come first; a payment is on record all the same.
const isLate = (reply) => ['order-expired', 'order-cancelled', 'already-paid'].includes(slug(reply));

// Does what NAME says, and tells at the order how it went.
async function act(item, name, send) {
  const button = item.element.querySelector(`.${name}`);
  const answer = item.element.querySelector('.answer');
  if (button.ariaDisabled === 'true') return;
  button.ariaDisabled = 'true';
  const path = `/api/orders/${encodeURIComponent(item.order.id)}`;
  const reply = await send(path);
  button.ariaDisabled = null;
  if (reply.status === 200 && reply.body) {
    settle(item.key, reply.body.state, reply.body);
    answer.scrollIntoView({ block: 'nearest' });
    return;
  }
  if (isAnswer(reply)) say(answer, () => text(name === 'pay' && isLate(reply) ? 'payLate' : `${name}Not`, explain(reply)), 'no');
  else say(answer, () => text(`${name}InDoubt`, noAnswer(reply)), 'no');
  if (!isLate(reply)) return;
  const { status, body } = await call('GET', path); // askOrders() may have asked before this press
  if (status === 200 && body) settle(item.key, stateOf(body), body);
  else item.state = 'asking';
}

addEventListener('storage', drawOrders);
narrow.addEventListener('change', drawOrders);
