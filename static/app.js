// The page at /: shows what is on sale, once a second while somebody looks at
// it, and places orders. Everything it knows comes from the HTTP interface in
// /openapi.json; nothing is loaded from anywhere else.

const POLL_MS = 1000;
const ORDERS_MAX = 10;
const TRIES_MAX = 4;

const $ = (id) => document.getElementById(id);
const cards = new Map(); // product id -> its list item
const orders = []; // newest first

// ---- talking to the server -------------------------------------------------

// A reply as {status, body}; status 0 = there was none. The admin token, if one
// was typed, goes along where it counts.
async function call(method, path, body, { key, token } = {}) {
  const headers = { Accept: 'application/json' };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (method !== 'GET') headers['Content-Type'] = 'application/json';
  if (key) headers['Idempotency-Key'] = key;
  try {
    const reply = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: 'no-store' });
    return { status: reply.status, body: await reply.json().catch(() => null),
      replayed: reply.headers.get('Idempotent-Replayed') === 'true',
      retryS: Number(reply.headers.get('Retry-After')) || 0 };
  } catch {
    return { status: 0, body: null, replayed: false, retryS: 1 };
  }
}

// crypto.randomUUID() is only there on https and localhost.
function newKey() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// "Don't know" is not "no": no reply, 429 and 503 are asked again with the same
// key, so that however often it is asked, there is at most one order.
async function placeOrder(order) {
  const key = newKey();
  let reply;
  for (let i = 1; i <= TRIES_MAX; i += 1) {
    reply = await call('POST', '/api/orders', order, { key });
    if (reply.status !== 0 && reply.status !== 429 && reply.status !== 503) break;
    if (i === TRIES_MAX) break;
    say(`${explain(reply)} Asking again with the same key (${i} of ${TRIES_MAX - 1}).`, 'wait');
    await sleep(Math.max(reply.retryS, 0.5) * 1000);
  }
  return reply;
}

// ---- saying what happened ---------------------------------------------------

function say(text, kind) {
  $('outcome').textContent = text;
  $('outcome').dataset.kind = kind;
}

function explain(reply) {
  if (reply.status === 0) return 'The server did not answer.';
  const { title, detail, errors } = reply.body ?? {};
  if (!title) return `The server answered ${reply.status}.`;
  const fields = (errors ?? []).map((e) => `${e.field} ${e.detail}`).join('; ');
  const said = detail && detail.toLowerCase() === title.toLowerCase() ? '' : detail;
  return `${title}.${fields || said ? ` (${fields || said})` : ''}`;
}

const money = (cents) => (cents === null ? 'a lot' : (cents / 100).toFixed(2));
const count = (n) => n.toLocaleString('en');
const when = (time) => new Date(time).toLocaleString();

// ---- products ---------------------------------------------------------------

function makeCard(id) {
  const card = $('product').content.firstElementChild.cloneNode(true);
  card.querySelector('.name').id = `name-${id}`;
  card.querySelector('.bar').setAttribute('aria-labelledby', `name-${id}`);
  card.querySelector('button').setAttribute('aria-describedby', `name-${id}`);
  card.querySelector('.buy').addEventListener('submit', (event) => {
    event.preventDefault();
    buy(id, card);
  });
  card.querySelector('.resize').addEventListener('submit', (event) => {
    event.preventDefault();
    split(id, card, card.querySelector('.resize [type=submit]'));
  });
  card.querySelector('.warmup').addEventListener('click', (event) => warmUp(id, card, event.target));
  onScreen.observe(card);
  return card;
}

function saleState(product, now) {
  if (product.opens_at && now < Date.parse(product.opens_at)) return `Opens ${when(product.opens_at)}`;
  if (product.ends_at && now >= Date.parse(product.ends_at)) return `Ended ${when(product.ends_at)}`;
  if (product.ends_at) return `Open until ${when(product.ends_at)}`;
  return 'Open';
}

// Only what has changed is touched, or a screen reader would never rest.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function drawCard(card, product) {
  const bar = card.querySelector('.bar');
  const share = product.initial ? Math.max(0, product.stock) / product.initial : 0;
  setText(card.querySelector('.name'), product.name);
  setText(card.querySelector('.price'), money(product.price_cents));
  setText(card.querySelector('.left'), product.stock > 0
    ? `${count(product.stock)} of ${count(product.initial)} left` : 'Sold out');
  setText(card.querySelector('.window'), saleState(product, Date.now()));
  setText(card.querySelector('.terms'), [
    product.limit_per_user ? `${count(product.limit_per_user)} per user` : 'no limit per user',
    `lock: ${product.lock}`,
  ].join(', '));
  bar.setAttribute('aria-valuemax', product.initial);
  bar.setAttribute('aria-valuenow', Math.max(0, product.stock));
  bar.setAttribute('aria-valuetext', card.querySelector('.left').textContent);
  bar.querySelector('.fill').style.inlineSize = `${(share * 100).toFixed(1)}%`;
  card.classList.toggle('low', share > 0 && share <= 0.1);
  card.classList.toggle('gone', product.stock <= 0);
  card.classList.toggle('is-split', product.segments > 1);
  card.querySelector('.resize').hidden = !$('admin').open;
  const segments = card.querySelector('.segments');
  if (document.activeElement !== segments && Number(segments.dataset.shown) !== product.segments) {
    segments.value = product.segments;
    segments.dataset.shown = product.segments;
  }
  if (product.segments === 1) card.querySelector('.split').hidden = true;
}

// ---- segments ---------------------------------------------------------------

// The stock by segment is asked for product by product, so only of what is seen.
const onScreen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) target.classList.toggle('seen', isIntersecting);
});

// A bar for each segment, as high as its stock next to what the largest has had.
function drawSegments(card, { segments, epoch, stock_by_segment: inUse }) {
  const box = card.querySelector('.stocks');
  const most = Math.max(1, ...inUse.map((each) => each.initial));
  const stocks = inUse.map((each) => each.stock);
  const range = `${count(Math.min(...stocks))} to ${count(Math.max(...stocks))} left in each`;
  card.querySelector('.split').hidden = false;
  setText(card.querySelector('.split-text'), `${inUse.length === segments ? '' : `${inUse.length} of `}${segments} segments, epoch ${epoch}`);
  if (box.getAttribute('aria-label') !== range) box.setAttribute('aria-label', range);
  box.classList.toggle('many', inUse.length > 32);
  while (box.children.length > inUse.length) box.lastElementChild.remove();
  while (box.children.length < inUse.length) box.append($('segment').content.firstElementChild.cloneNode(true));
  inUse.forEach((each, i) => {
    box.children[i].title = `Segment ${each.segment}: ${count(each.stock)} of ${count(each.initial)} left`;
    box.children[i].firstElementChild.style.blockSize = `${((100 * each.stock) / most).toFixed(1)}%`;
  });
}

async function refreshSegments() {
  await Promise.all([...cards].filter(([, card]) => card.matches('.seen.is-split')).map(async ([id, card]) => {
    const reply = await call('GET', `/api/products/${id}`);
    if (reply.status === 200 && reply.body.segments > 1) drawSegments(card, reply.body);
  }));
}

// Does what the administrator asked for, and says how it went.
async function administer(card, pressed, act, done) {
  const buttons = card.querySelectorAll('.resize button');
  for (const button of buttons) button.disabled = true;
  const reply = await act({ token: $('token').value });
  for (const button of buttons) button.disabled = false;
  pressed.focus();
  if (reply.status === 200) say(`${card.querySelector('.name').textContent}: ${done(reply.body)}`, 'yes');
  else say(`Not done. ${explain(reply)}`, 'error');
  refresh();
}

function split(id, card, pressed) {
  const segments = Number(card.querySelector('.segments').value);
  administer(card, pressed, (admin) => call('PATCH', `/api/products/${id}`, { segments }, admin),
    (product) => `split over ${product.segments} ${product.segments === 1 ? 'segment' : 'segments'}.`);
}

function warmUp(id, card, pressed) {
  administer(card, pressed, (admin) => call('POST', `/api/products/${id}/warmup`, undefined, admin),
    (warm) => (warm.in_redis ? 'its stock hints are in Redis.' : 'Redis has no stock hints now; orders do without.'));
}

function drawProducts(products) {
  const seen = new Set();
  for (const product of products) {
    seen.add(product.id);
    if (!cards.has(product.id)) {
      cards.set(product.id, makeCard(product.id));
      $('products').append(cards.get(product.id));
    }
    drawCard(cards.get(product.id), product);
  }
  for (const [id, card] of cards) {
    if (seen.has(id)) continue;
    card.remove();
    cards.delete(id);
  }
  $('empty').hidden = products.length > 0;
}

async function refresh() {
  const reply = await call('GET', '/api/products?limit=200');
  const live = reply.status === 200;
  setText($('link'), live ? 'live' : explain(reply));
  $('link').dataset.live = live;
  if (!live) return;
  drawProducts(reply.body.products);
  await refreshSegments();
}

async function buy(id, card) {
  const button = card.querySelector('button');
  const quantity = card.querySelector('.quantity');
  if (!$('buyer').reportValidity()) return;
  const order = { product_id: id, user_id: Number($('user').value), quantity: Number(quantity.value) };
  localStorage.setItem('user', $('user').value);
  button.disabled = true;
  const reply = await placeOrder(order);
  button.disabled = false;
  button.focus();
  if (reply.status === 201) {
    const name = card.querySelector('.name').textContent;
    say(`Ordered: ${count(order.quantity)} × ${name}, ${money(reply.body.total_cents)} in all.`, 'yes');
    remember({ ...reply.body, name });
  } else {
    say(`Not ordered. ${explain(reply)}`, reply.status === 409 ? 'no' : 'error');
  }
  refresh();
}

// ---- orders -----------------------------------------------------------------

function remember(order) {
  orders.unshift(order);
  orders.length = Math.min(orders.length, ORDERS_MAX);
  drawOrders();
}

function drawOrder(order) {
  const item = $('order').content.firstElementChild.cloneNode(true);
  const cancel = item.querySelector('.cancel');
  item.querySelector('.what').textContent = `${count(order.quantity)} × ${order.name}`;
  item.querySelector('.id').textContent = order.id;
  item.querySelector('.state').textContent = order.state;
  item.classList.toggle('cancelled', order.state === 'cancelled');
  cancel.hidden = order.state === 'cancelled';
  cancel.setAttribute('aria-label', `Cancel ${count(order.quantity)} × ${order.name}`);
  cancel.addEventListener('click', () => cancelOrder(order, cancel));
  return item;
}

function drawOrders() {
  $('orders').replaceChildren(...orders.map(drawOrder));
  $('no-orders').hidden = orders.length > 0;
}

async function cancelOrder(order, button) {
  button.disabled = true;
  const reply = await call('DELETE', `/api/orders/${encodeURIComponent(order.id)}`);
  button.disabled = false;
  if (reply.status === 200) {
    order.state = reply.body.state;
    say(`Cancelled: ${count(order.quantity)} × ${order.name}. The units are on sale again.`, 'yes');
    drawOrders();
    $('products').focus({ preventScroll: true });
  } else {
    say(`Not cancelled. ${explain(reply)}`, 'error');
  }
  refresh();
}

// ---- beginning --------------------------------------------------------------

async function watch() {
  for (;;) {
    if (!document.hidden) await refresh();
    await sleep(POLL_MS);
  }
}

$('user').value = localStorage.getItem('user') ?? String(1 + Math.floor(Math.random() * 1e6));
$('buyer').addEventListener('submit', (event) => event.preventDefault());
$('credentials').addEventListener('submit', (event) => event.preventDefault());
$('admin').addEventListener('toggle', () => refresh());
document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });
watch();
