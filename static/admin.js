// For the administrator, while that part of the page is open: adding a product, its stock,
// its sale's beginning and end, how its stock is split over segments; and the audit.

import { call, count, explain, newKey, noAnswer, now, say, setText } from './shop.js';

const admin = document.getElementById('admin');
const token = document.getElementById('token');

export const isAdmin = () => admin.open;

// A bar for each segment, as high as its stock next to what the largest has had.
function drawSegments(card, { segments, epoch, lock, stock_by_segment: inUse }) {
  const box = card.querySelector('.stocks');
  const most = Math.max(1, ...inUse.map((each) => each.initial));
  const stocks = inUse.map((each) => each.stock);
  const range = `${count(Math.min(...stocks))} to ${count(Math.max(...stocks))} left in each`;
  const some = inUse.length === segments ? '' : `${inUse.length} of `;
  setText(card.querySelector('.split-text'), `${some}${segments} ${segments === 1 ? 'segment' : 'segments'}, epoch ${epoch}, lock ${lock}`);
  if (box.getAttribute('aria-label') !== range) box.setAttribute('aria-label', range);
  box.classList.toggle('many', inUse.length > 32);
  while (box.children.length > inUse.length) box.lastElementChild.remove();
  while (box.children.length < inUse.length) box.append(document.getElementById('segment').content.firstElementChild.cloneNode(true));
  inUse.forEach((each, i) => {
    box.children[i].title = `Segment ${each.segment}: ${count(each.stock)} of ${count(each.initial)} left`;
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
  if (reply.status >= 200 && reply.status < 300 && reply.body) say(answer, done(reply.body), done.kind?.(reply.body) ?? 'yes');
  else if (reply.body && reply.status < 500) say(answer, `Not done: ${explain(reply)}`, 'no');
  else say(answer, `${noAnswer(reply)} We do not know whether it was done.`, 'no');
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
    ({ segments }) => `Split over ${segments} ${segments === 1 ? 'segment' : 'segments'}.`));
  onClick('.warmup', () => ask((access) => call('POST', `${path}/warmup`, access),
    (warm) => (warm.in_redis ? 'Its stock hints are in Redis.' : 'Redis has no stock hints now; orders do without.')));
  // A restock keeps its key until it is done: pressed again it adds nothing twice.
  let key = newKey();
  let units = 0;
  onSubmit('.restock', async () => {
    const quantity = Number(place.querySelector('.units').value);
    if (quantity !== units) key = newKey();
    units = quantity;
    const reply = await ask((access) => call('POST', `${path}/restock`, { body: { quantity }, key, ...access }),
      ({ stock }) => `${count(quantity)} more: ${count(stock)} are left now.`);
    if (reply?.status === 200) key = newKey();
  });
  const iso = (ms) => new Date(ms).toISOString();
  onClick('.open', () => patch({ opens_at: null, ends_at: null }, () => 'Open, without an end.'));
  onClick('.close', () => patch({ opens_at: null, ends_at: iso(now()) }, () => 'Closed.'));
}

// ---- a new product, and the audit -----------------------------------------------

// The price is rounded because 0.29 * 100 is no whole number.
function newProduct(form) {
  const body = { name: form.elements.name.value, stock: form.elements.stock.valueAsNumber,
    price_cents: Math.round(form.elements.price.valueAsNumber * 100) };
  const { limit, opens, ends } = form.elements;
  if (limit.value) body.limit_per_user = limit.valueAsNumber;
  if (opens.value) body.opens_at = new Date(opens.value).toISOString();
  if (ends.value) body.ends_at = new Date(ends.value).toISOString();
  return body;
}

const FAULTS = ['oversold', 'undersold', 'phantom', 'negative', 'stranded', 'duplicates', 'over_limit', 'miscounted', 'fence_regressions', 'unsettled', 'lost'];

function verdict(audit) {
  if (audit.balanced) return `The ledger adds up: ${count(audit.sold)} sold in ${count(audit.orders)} orders, ${count(audit.cancelled)} cancelled.`;
  const faults = FAULTS.filter((name) => audit[name]).map((name) => `${count(audit[name])} ${name.replace('_', ' ')}`);
  return `The ledger does not add up: ${faults.join(', ')}.`;
}
verdict.kind = ({ balanced }) => (balanced ? 'yes' : 'no');

// REFRESH draws the products anew.
export function wireAdminPart(refresh) {
  const form = document.getElementById('new-product');
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const path = `/api/products/${form.elements.id.value}`;
    const body = newProduct(form);
    const reply = await administer(form, async (access) => {
      const there = await call('GET', path); // PUT would change a product that is there
      return there.status === 404 ? call('PUT', path, { body, ...access })
        : { ...there, body: there.status === 200 ? { title: 'This number has a product already' } : there.body, status: there.status === 200 ? 409 : there.status };
    }, ({ name, stock }) => `Added: ${name}, ${count(stock)} in stock.`);
    if (reply?.status === 201) form.reset();
    refresh();
  });
  document.getElementById('audit').addEventListener('click', () => {
    administer(document.getElementById('ledger'), (access) => call('GET', '/api/audit', access), verdict);
  });
}

document.getElementById('credentials').addEventListener('submit', (event) => event.preventDefault());
