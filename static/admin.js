// For the administrator, while that part of the page is open: how the stock of a
// product is split over segments, and splitting it anew.

import { call, count, explain, noAnswer, say, setText } from './shop.js';

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

// Does what the administrator asked for, and says there how it went.
async function administer(card, act, done, refresh) {
  const answer = card.querySelector('.segmented .answer');
  const buttons = [...card.querySelectorAll('.resize button')];
  if (buttons.some((button) => button.ariaDisabled === 'true')) return;
  for (const button of buttons) button.ariaDisabled = 'true';
  const reply = await act({ token: token.value });
  for (const button of buttons) button.ariaDisabled = null;
  if (reply.status === 200 && reply.body) say(answer, done(reply.body), 'yes');
  else if (reply.body) say(answer, `Not done: ${explain(reply)}`, 'no');
  else say(answer, `${noAnswer(reply)} We do not know whether it was done.`, 'no');
  refresh();
}

export function wireAdmin(card, id, refresh) {
  const wanted = card.querySelector('.segments');
  card.querySelector('.resize').addEventListener('submit', (event) => {
    event.preventDefault();
    administer(card, (access) => call('PATCH', `/api/products/${id}`, { body: { segments: Number(wanted.value) }, ...access }),
      (product) => `Split over ${product.segments} ${product.segments === 1 ? 'segment' : 'segments'}.`, refresh);
  });
  card.querySelector('.warmup').addEventListener('click', () => {
    administer(card, (access) => call('POST', `/api/products/${id}/warmup`, access),
      (warm) => (warm.in_redis ? 'Its stock hints are in Redis.' : 'Redis has no stock hints now; orders do without.'), refresh);
  });
}

document.getElementById('credentials').addEventListener('submit', (event) => event.preventDefault());
