// Talking to the shop, and putting into words what it says. Requests have a
// bound, orders are safe to repeat, and "no" and "don't know" stay apart.

const TIMEOUT_MS = 15000; // for one request
const TRIES_MAX = 4; // of one order, all with the same key
const WAIT_S_MAX = 10; // between two of them

// ---- requests ---------------------------------------------------------------

let ahead = -Infinity; // the server's clock minus ours
const underWay = new Set(); // requests without a reply, the oldest first

// How long the shop has owed us a reply.
export function owedMs() {
  const [oldest] = underWay;
  return oldest ? performance.now() - oldest.at : 0;
}

// The server's time of day. A Date header is cut to seconds, so the latest of
// all is the nearest; our own clock may be wrong by hours.
export const now = () => (ahead === -Infinity ? Date.now() : ahead + performance.now());

function readClock(date) {
  const ms = Date.parse(date);
  if (!Number.isNaN(ms)) ahead = Math.max(ahead, ms - performance.now());
}

// A reply as {status, body}; status 0 = there was none, or only a part of it;
// body null = it is not JSON. TOKEN is the administrator's.
export async function call(method, path, { body, key, token } = {}) {
  const headers = { Accept: 'application/json' };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (method !== 'GET') headers['Content-Type'] = 'application/json';
  if (key) headers['Idempotency-Key'] = key;
  const request = { at: performance.now() };
  underWay.add(request);
  try {
    const reply = await fetch(path, { method, headers, body: body && JSON.stringify(body),
      cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT_MS) });
    const text = await reply.text();
    readClock(reply.headers.get('Date'));
    return { status: reply.status, body: parse(text), retryS: Number(reply.headers.get('Retry-After')) || 0 };
  } catch {
    return { status: 0, body: null, retryS: 0 };
  } finally {
    underWay.delete(request);
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// Ends early when the browser is online again: then there is no need to wait.
export const sleep = (ms) => new Promise((resolve) => {
  const done = () => {
    clearTimeout(timer);
    removeEventListener('online', done);
    resolve();
  };
  const timer = setTimeout(done, ms);
  addEventListener('online', done);
});

// ---- orders -------------------------------------------------------------------

// crypto.randomUUID() is only there on https and localhost.
export function newKey() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

export const slug = (reply) => String(reply.body?.type ?? '').replace('urn:stockade:problem:', '');

// These refuse for now, and nothing was ordered for certain.
const NOT_NOW = new Set(['too-many-in-flight', 'overloaded', 'lock-timeout', 'lock-unreachable', 'shutting-down']);

// A yes or a no, and not a "not now" or a broken reply.
const isAnswer = ({ status, body }) => status > 0 && status < 500 && status !== 429 && body !== null;

// Sends an order until there is an answer. With one key for all tries there is at
// most one order, however often it is sent. TELL gets a text while it waits.
// Returns {reply, known}; known is false if it may have been ordered or not.
export async function placeOrder(order, key, tell) {
  let known = true;
  for (let tries = 1; ; tries += 1) {
    const reply = await call('POST', '/api/orders', { body: order, key });
    if (isAnswer(reply)) return { reply, known: true };
    if (!NOT_NOW.has(slug(reply))) known = false;
    const waitS = reply.retryS || tries;
    if (tries === TRIES_MAX || waitS > WAIT_S_MAX) return { reply, known };
    if (known) tell(`The shop is busy. Trying again in ${waitS} s.`);
    else tell(`${noAnswer(reply)} We do not know yet whether this was ordered. Asking.`);
    await sleep(waitS * 1000);
  }
}

// ---- words --------------------------------------------------------------------

const price = new Intl.NumberFormat(undefined, { style: 'currency', currency: 'EUR' });

export const money = (cents) => price.format(cents / 100);

export const count = (n) => n.toLocaleString();

// Today without the date.
export function when(time) {
  const date = new Date(time);
  const today = date.toDateString() === new Date(now()).toDateString();
  return date.toLocaleString(undefined, today ? { timeStyle: 'medium' } : { dateStyle: 'medium', timeStyle: 'short' });
}

// "3 days", then "47:59:59"; rounded up: it says 0:01 until the moment has come.
export function countdown(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const pad = (n) => String(n).padStart(2, '0');
  const hours = Math.floor(s / 3600);
  const minutes = Math.floor((s % 3600) / 60);
  if (hours >= 48) return `${count(Math.floor(hours / 24))} days`;
  return `${hours ? `${hours}:${pad(minutes)}` : minutes}:${pad(s % 60)}`;
}

export function noAnswer(reply) {
  if (reply.status !== 0) return 'The shop has trouble just now.';
  return navigator.onLine ? 'The shop does not answer.' : 'You are offline.';
}

const REFUSALS = {
  'sold-out': ({ quantity }) => (quantity > 1 ? `fewer than ${count(quantity)} are left.` : 'sold out.'),
  'purchase-limit': ({ limit_per_user: limit }) => `one customer may buy ${count(limit)} in all.`,
  'sale-not-open': () => 'the sale is not open yet.',
  'sale-ended': () => 'the sale has ended.',
  'no-such-product': () => 'this is not on sale any more.',
  'too-many-in-flight': () => 'too many orders come from your address just now. Please try again in a moment.',
  overloaded: () => 'the shop is too busy just now. Please try again in a moment.',
  'lock-timeout': () => 'the shop is too busy just now. Please try again in a moment.',
  'lock-unreachable': () => 'the shop has trouble just now. Please try again in a minute.',
  'shutting-down': () => 'the shop is being restarted. Please try again in a minute.',
  forbidden: () => 'only the administrator may do that. Is the admin token right?',
  'no-such-order': () => 'the shop does not know this order.',
};

// Why not, for a person. ORDER has what the words need of an order and its product.
export function explain(reply, order = {}) {
  const words = REFUSALS[slug(reply)];
  const { title, detail, errors } = reply.body ?? {};
  if (words) return words(order);
  if (!title) return noAnswer(reply);
  const more = (errors ?? []).map((e) => `${e.field} ${e.detail}`).join('; ') || detail;
  return more && more.toLowerCase() !== title.toLowerCase() ? `${title} (${more}).` : `${title}.`;
}

// ---- showing ------------------------------------------------------------------

// Only what has changed is touched, or a screen reader would never rest.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// The answer stands where somebody pressed. KIND: yes, no, wait.
export function say(answer, text, kind) {
  sayLater(answer, text, kind);
  answer.scrollIntoView({ block: 'nearest' });
}

// Whoever reads something else by then is left there.
export function sayLater(answer, text, kind) {
  answer.dataset.kind = kind;
  setText(answer, text);
}
