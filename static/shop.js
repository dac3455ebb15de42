// Talking to the shop, and putting into words what it says. Requests have a
// bound, orders are safe to repeat, and "no" and "don't know" stay apart.

import { parse } from './browser.js';
import { locale, text } from './words.js';

const TIMEOUT_MS = 15000; // for one request
const TRIES_MAX = 4; // of one order, all with the same key
const WAIT_S_MAX = 10; // between two of them
const LATE_MS = TIMEOUT_MS + 5000; // no Date is older when it is read

// ---- requests ---------------------------------------------------------------

let ahead = -Infinity; // the server's clock minus ours
const underWay = new Set(); // requests without a reply, the oldest first

// How long the shop has owed us a reply.
export function owedMs() {
  const [oldest] = underWay;
  return oldest ? performance.now() - oldest.at : 0;
}

// The server's time of day. A Date header is cut to seconds, and a beat takes its time,
// so the latest of all is the nearest; but a clock that ran ahead may have been put back.
// Our own clock may be wrong by hours.
export const now = () => (ahead === -Infinity ? Date.now() : ahead + performance.now());

export function readClock(date) {
  const ms = Date.parse(date) - performance.now(); // NaN is neither more nor less
  if (ms > ahead || ms < ahead - LATE_MS) ahead = ms;
}

// A reply as {status, body, raw, next}; status 0 = there was none, or only a part of it;
// body null = it is not JSON. next: the page after this one. TOKEN is the administrator's. IS_NEW: nothing that is
// there already is changed.
export async function call(method, path, { body, key, token, isNew } = {}) {
  const headers = { Accept: 'application/json' };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (method !== 'GET') headers['Content-Type'] = 'application/json';
  if (key) headers['Idempotency-Key'] = key;
  if (isNew) headers['If-None-Match'] = '*';
  const request = { at: performance.now() };
  underWay.add(request);
  try {
    const reply = await fetch(path, { method, headers, body: body && JSON.stringify(body),
      cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT_MS) });
    const raw = await reply.text();
    readClock(reply.headers.get('Date'));
    return { status: reply.status, body: parse(raw), raw, retryS: Number(reply.headers.get('Retry-After')) || 0,
      next: /^<(.*)>; rel="next"$/.exec(reply.headers.get('Link'))?.[1] };
  } catch {
    return { status: 0, body: null, retryS: 0 };
  } finally {
    underWay.delete(request);
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

// These refuse for now, and nothing was ordered for certain, if they do not say otherwise.
const NOT_NOW = new Set(['too-many-in-flight', 'overloaded', 'lock-timeout', 'lock-unreachable', 'shutting-down']);

// A yes or a no, and not a "not now" or a broken reply.
export const isAnswer = ({ status, body }) => status > 0 && status < 500 && status !== 429 && body !== null;

// Sends an order until there is an answer. With one key for all tries there is at
// most one order, however often it is sent. TELL gets a text while it waits.
// Returns {reply, known}; known is false if it may have been ordered or not: a try
// without a reply may be placed after the no of a later one.
export async function placeOrder(order, key, tell) {
  let known = true;
  for (let tries = 1; ; tries += 1) {
    const reply = await call('POST', '/api/orders', { body: order, key });
    if (isAnswer(reply)) return { reply, known: known || reply.status === 201 };
    if (reply.body?.may_have_ordered || !NOT_NOW.has(slug(reply))) known = false;
    const waitS = reply.retryS || tries;
    if (tries === TRIES_MAX || waitS > WAIT_S_MAX) return { reply, known };
    const told = known; // as it is now
    tell(() => (told ? text('busy', waitS) : text('askingNow', noAnswer(reply))));
    await sleep(waitS * 1000);
  }
}

// ---- words --------------------------------------------------------------------

const formats = new Map(); // to make one takes a browser a hundred times as long as to use it

function format(Kind, options) {
  const key = JSON.stringify([locale(), options]);
  if (!formats.has(key)) formats.set(key, new Kind(locale(), options));
  return formats.get(key);
}

export const money = (cents) => format(Intl.NumberFormat, { style: 'currency', currency: 'EUR' }).format(cents / 100);

export const count = (n) => (Number.isFinite(n) ? format(Intl.NumberFormat).format(n) : undefined);

// Today without the date.
export function when(time) {
  const date = new Date(time);
  const today = date.toDateString() === new Date(now()).toDateString();
  return format(Intl.DateTimeFormat, today ? { timeStyle: 'medium' } : { dateStyle: 'medium', timeStyle: 'short' }).format(date);
}

// "3 days", then "47:59:59"; rounded up: it says 0:01 until the moment has come.
export function countdown(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const pad = (n) => String(n).padStart(2, '0');
  const hours = Math.floor(s / 3600);
  const minutes = Math.floor((s % 3600) / 60);
  if (hours >= 48) return text('days', count(Math.floor(hours / 24)));
  return `${hours ? `${hours}:${pad(minutes)}` : minutes}:${pad(s % 60)}`;
}

// "15 minutes"; in the largest unit of which it is a whole number.
export function duration(s) {
  const [unit, n] = [['hour', 3600], ['minute', 60], ['second', 1]].find(([, each]) => s % each === 0);
  return (s / n).toLocaleString(locale(), { style: 'unit', unit, unitDisplay: 'long' }).replace(/(?<=\d)(?=\p{Script=Han})/u, ' ');
}

export function noAnswer(reply) {
  if (reply.status !== 0) return text('trouble');
  return text(navigator.onLine ? 'silent' : 'offline');
}

// Why not, for a person. ORDER has what the words need of an order and its product.
export function explain(reply, { quantity, limit_per_user: limit } = {}) {
  const words = text('problems')[slug(reply)];
  const { title, detail, errors } = reply.body ?? {};
  if (typeof words === 'function') return words({ quantity: count(quantity), limit: count(limit), errors: errors ?? [], detail });
  if (words) return words;
  if (!title) return noAnswer(reply);
  const more = errors ? text('fields', errors) : detail ?? '';
  return text('because', title, more.toLowerCase() === title.toLowerCase() ? '' : more);
}

// ---- showing ------------------------------------------------------------------

// Only what has changed is touched, or a screen reader would never rest.
export function setText(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

const said = new WeakMap(); // by answer: how to say it in any language

// The answer stands where somebody pressed. WHAT makes the text. KIND: yes, no, wait.
export function say(answer, what, kind) {
  sayLater(answer, what, kind);
  answer.scrollIntoView({ block: 'nearest' });
}

// Whoever reads something else by then is left there.
export function sayLater(answer, what, kind) {
  answer.dataset.kind = kind;
  said.set(answer, what);
  setText(answer, what());
}

// After another language was chosen.
export function sayAgain() {
  for (const answer of document.querySelectorAll('.answer')) setText(answer, said.get(answer)?.() ?? '');
}
