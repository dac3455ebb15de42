// How the shop is: by its event stream, or where that is refused or silent, by asking
// again and again, more and more rarely while there is no answer. An open stream says
// nothing of a shop that hangs: only what has come in the last seconds is called live.

import { call, noAnswer, owedMs, readClock, setText, sleep } from './shop.js';
import { text } from './words.js';

const POLL_MS = 2000;
const POLL_MS_MAX = 30000; // while the shop does not answer
const OWED_MS = 2000; // without a reply for so long, the shop is not called live
const OLD_MS = 5000; // two beats are missing
const DEAD_MS = 15000; // then a stream is opened anew
const REFUSED_MS = 30000; // until a stream is asked for again

const $ = (id) => document.getElementById(id);

let shop; // {onProducts, onProduct, onNews}
let stream = null;
let errors = 0; // of the stream, since an event came
let openAt = 0; // no stream before
let heardAt = -Infinity; // something by the stream
let newsAt = Infinity; // the products are as they were then
let failures = 0; // of asking
let waitMs = POLL_MS;
let running = null; // the refresh under way: there is never a second one
let link = { live: '', says: () => text('connecting') };

const LIVE = { live: true, says: () => text('live') };

// Each tick: what came last says nothing of a shop that has hung since.
export function drawLink() {
  const owes = owedMs() >= OWED_MS;
  const s = Math.floor((performance.now() - newsAt) / 1000);
  const isOld = s * 1000 >= OLD_MS;
  $('link').dataset.live = owes || (isOld && link.live) ? false : link.live;
  setText($('link'), owes || (isOld && link.live) ? text('waiting', noAnswer({ status: 0 })) : link.says());
  $('old').hidden = !isOld;
  $('products').classList.toggle('old', isOld);
  if (isOld) setText($('old'), text('noNews', s.toLocaleString()));
}

// ---- asking -----------------------------------------------------------------------

function heard(reply) {
  const live = reply.status === 200 && reply.body !== null;
  failures = live ? 0 : failures + 1;
  waitMs = Math.max(reply.retryS * 1000, Math.min(POLL_MS * 2 ** failures, POLL_MS_MAX));
  link = live ? LIVE : { live: false, says: () => text('again', noAnswer(reply)) };
  if (live) newsAt = performance.now();
  drawLink();
  return live;
}

const isStreaming = () => performance.now() - heardAt < OLD_MS;

async function refreshOnce() {
  if (!isStreaming()) {
    const reply = await call('GET', '/api/products?limit=200');
    if (!heard(reply)) return;
    shop.onProducts(reply.body);
  }
  await shop.onNews();
}

export function refresh() {
  running ??= refreshOnce().finally(() => { running = null; });
  return running;
}

// ---- the stream -----------------------------------------------------------------------

function closeStream() {
  stream?.close();
  stream = null;
  heardAt = -Infinity;
}

// The browser goes on by itself after a cut, from the last event, but once only: a crowd
// that did so each second would be too much for a shop in trouble.
function failed() {
  const isRefused = stream.readyState === EventSource.CLOSED;
  heardAt = -Infinity;
  errors += 1;
  if (isRefused || errors > 1) closeStream();
  if (isRefused) openAt = performance.now() + REFUSED_MS;
  refresh();
}

function openStream() {
  const handlers = {
    products: (page) => shop.onProducts(page),
    product: (product) => shop.onProduct(product),
    beat: ({ time }) => {
      readClock(time);
      refresh();
    },
  };
  stream = new EventSource('/api/events');
  stream.onerror = failed;
  for (const [kind, handle] of Object.entries(handlers)) {
    stream.addEventListener(kind, ({ data }) => {
      newsAt = performance.now();
      heardAt = newsAt;
      errors = 0;
      link = LIVE;
      handle(JSON.parse(data));
      drawLink();
    });
  }
  heardAt = performance.now(); // it has its time to begin
}

// Some pages wait longer and some shorter, so that a crowd does not ask in step.
export async function follow(handlers) {
  shop = handlers;
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) closeStream();
    else refresh();
  });
  addEventListener('offline', () => {
    closeStream();
    refresh();
  });
  for (;;) {
    if (!document.hidden) {
      if (stream?.readyState === EventSource.OPEN && performance.now() - heardAt > DEAD_MS) closeStream();
      if (!stream && failures === 0 && performance.now() >= openAt) openStream();
      if (!isStreaming()) await refresh();
    }
    await sleep(waitMs * (0.8 + 0.4 * Math.random()));
  }
}
