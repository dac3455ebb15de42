// For the administrator, while that part of the page is open: adding a product, its stock,
// its sale's beginning and end, how its stock is split over segments; the audit, and all
// orders as a file.

import { download } from './browser.js';
import { call, count, explain, newKey, noAnswer, now, say, setText } from './shop.js';
import { text } from './words.js';

const admin = document.getElementById('admin');
const token = document.getElementById('token');

export const isAdmin = () => admin.open;

// A bar for each segment, as high as its stock next to what the largest has had.
function drawSegments(card, { segments, epoch, lock, stock_by_segment: inUse }) {
  const box = card.querySelector('.stocks');
  const most = Math.max(1, ...inUse.map((each) => each.initial));
  const stocks = inUse.map((each) => each.stock);
  const range = text('range', count(Math.min(...stocks)), count(Math.max(...stocks)));
  delete card.querySelector('.split-text').dataset.word;
  setText(card.querySelector('.split-text'), text('segmentsOf', inUse.length, segments, epoch, lock));
  if (box.getAttribute('aria-label') !== range) box.setAttribute('aria-label', range);
  box.classList.toggle('many', inUse.length > 32);
  while (box.children.length > inUse.length) box.lastElementChild.remove();
  while (box.children.length < inUse.length) box.append(document.getElementById('segment').content.firstElementChild.cloneNode(true));
  inUse.forEach((each, i) => {
    box.children[i].title = text('segment', each.segment, count(each.stock), count(each.initial));
    box.children[i].firstElementChild.style.blockSize = `${((100 * each.stock) / most).toFixed(1)}%`;
  });
}

// Of the products on the screen only, one after the other.
export async function refreshSegments(cards) {
  for (const [id, card] of cards) {
    const box = card.getBoundingClientRect();
    if (!admin.open || box.bottom < 0 || box.top > innerHeight) continue;
    const reply = await call('GET', `/api/products/${id}`);
    if (reply.status !== 200 || !reply.body) return;
    drawSegments(card, reply.body);
  }
}

export function drawAdmin(card, product) {
  const segments = card.querySelector('.segments');
  card.querySelector('.segmented').hidden = !admin.open;
  if (document.activeElement === segments || Number(segments.dataset.shown) === product.segments) return;
  segments.value = product.segments;
  segments.dataset.shown = product.segments;
}

// Does what the administrator asked for, in PLACE, and says there how it went.
async function administer(place, act, done) {
  const answer = place.querySelector('.answer');
  const buttons = [...place.querySelectorAll('button')];
  if (buttons.some((button) => button.ariaDisabled === 'true')) return null;
  for (const button of buttons) button.ariaDisabled = 'true';
  const reply = await act({ token: token.value });
  for (const button of buttons) button.ariaDisabled = null;
  const isDone = reply.status >= 200 && reply.status < 300 && (reply.body || reply.parts);
  if (isDone) say(answer, () => done(reply.body, reply), done.kind?.(reply.body) ?? 'yes');
  else if (reply.body && reply.status < 500) say(answer, () => text('notDone', explain(reply)), 'no');
  else say(answer, () => text('doneInDoubt', noAnswer(reply)), 'no');
  return reply;
}

export function wireAdmin(card, id, refresh) {
  const place = card.querySelector('.segmented');
  const path = `/api/products/${id}`;
  const ask = async (act, done) => {
    const reply = await administer(place, act, done);
    refresh();
    return reply;
  };
  const onSubmit = (form, run) => place.querySelector(form).addEventListener('submit', (event) => {
    event.preventDefault();
    run();
  });
  const onClick = (button, run) => place.querySelector(button).addEventListener('click', run);
  const patch = (body, done) => ask((access) => call('PATCH', path, { body, ...access }), done);

  onSubmit('.resize', () => patch({ segments: Number(place.querySelector('.segments').value) },
    ({ segments }) => text('splitOver', segments)));
  onClick('.warmup', () => ask((access) => call('POST', `${path}/warmup`, access),
    (warm) => text(warm.in_redis ? 'warm' : 'notWarm')));
  // A restock keeps its key until it is done: pressed again it adds nothing twice.
  let key = newKey();
  let units = 0;
  onSubmit('.restock', async () => {
    const quantity = Number(place.querySelector('.units').value);
    if (quantity !== units) key = newKey();
    units = quantity;
    const reply = await ask((access) => call('POST', `${path}/restock`, { body: { quantity }, key, ...access }),
      ({ stock }) => text('restocked', count(quantity), count(stock)));
    if (reply?.status === 200) key = newKey();
  });
  const iso = (ms) => new Date(ms).toISOString();
  onClick('.open', () => patch({ opens_at: null, ends_at: null }, () => text('opened')));
  onClick('.close', () => patch({ opens_at: null, ends_at: iso(now()) }, () => text('closed')));
}

// ---- a new product, and the audit -----------------------------------------------

// The price is rounded because 0.29 * 100 is no whole number.
function newProduct(form) {
  const body = { name: form.elements.name.value, stock: form.elements.stock.valueAsNumber,
    price_cents: Math.round(form.elements.price.valueAsNumber * 100) };
  const { limit, pay, opens, ends } = form.elements;
  if (limit.value) body.limit_per_user = limit.valueAsNumber;
  if (pay.value) body.pay_within_s = pay.valueAsNumber;
  if (opens.value) body.opens_at = new Date(opens.value).toISOString();
  if (ends.value) body.ends_at = new Date(ends.value).toISOString();
  return body;
}

const FAULTS = ['oversold', 'undersold', 'phantom', 'negative', 'stranded', 'duplicates', 'over_limit', 'miscounted', 'fence_regressions', 'unsettled', 'lost'];

function verdict(audit) {
  const payments = [audit.held, audit.expired, audit.late_payments];
  const more = payments.some((n) => n > 0) ? text('payments', ...payments.map(count)) : '';
  if (audit.balanced) return text('balanced', count(audit.sold), count(audit.orders), count(audit.cancelled)) + more;
  return text('unbalanced', FAULTS.filter((name) => audit[name]).map((name) => [name, count(audit[name])]));
}
verdict.kind = ({ balanced }) => (balanced ? 'yes' : 'no');

const form = document.getElementById('new-product');

// NUMBER is of no product; one that the administrator types, or has typed, stays.
export function proposeNumber(number) {
  const { id } = form.elements;
  if (id !== document.activeElement && id.value === id.defaultValue) id.value = id.defaultValue = number;
}

// REFRESH draws the products anew.
export function wireAdminPart(refresh) {
  form.elements.id.addEventListener('input', ({ target }) => { target.defaultValue = ''; });
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const path = `/api/products/${form.elements.id.value}`;
    const body = newProduct(form);
    const reply = await administer(form, (access) => call('PUT', path, { body, isNew: true, ...access }),
      ({ name, stock }) => text('added', name, count(stock)));
    if (reply?.status === 201) form.reset();
    refresh();
  });
  document.getElementById('audit').addEventListener('click', () => {
    administer(document.getElementById('ledger'), (access) => call('GET', '/api/audit', access), verdict);
  });
  document.getElementById('export').addEventListener('click', () => {
    administer(document.getElementById('ledger'), exportOrders, exported);
  });
}

// All pages, one after the other; all or nothing.
async function exportOrders(access) {
  const parts = [];
  let next = '/api/orders.csv';
  let reply;
  while (next) {
    reply = await call('GET', next, access);
    if (reply.status !== 200) return reply;
    parts.push(reply.raw);
    ({ next } = reply);
  }
  download('orders.csv', new Blob(parts, { type: 'text/csv' }));
  return { ...reply, parts };
}

// Lines but for the head's; no field has a line's end in it.
const exported = (_, { parts }) => text('exported', count(parts.reduce((n, part) => n + part.split('\n').length - 1, -1)));

// The words of this part, explained.
export function drawWords() {
  document.getElementById('glossary').replaceChildren(...text('glossary').flat().map((words, i) => {
    const element = document.createElement(i % 2 ? 'dd' : 'dt');
    element.textContent = words;
    return element;
  }));
}

document.getElementById('credentials').addEventListener('submit', (event) => event.preventDefault());
