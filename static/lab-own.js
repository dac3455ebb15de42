// A lock of the learner's own: its text, which the browser keeps; and the search that
// judges it, or any other lock, and is watched while it goes on. Knows nothing of games.
import { keep, kept, pause } from './browser.js';
import { element } from './lab-lanes.js';

const KEPT = 'stockade-lab-mine';
const LOOK_MS = 300;
const $ = (id) => document.getElementById(id);

// As in an address: "own", the last text that was no lock's of the server, and what was chosen.
export const mine = new URLSearchParams(kept(KEPT) ?? '');

let searches = 0; // rises when the search under way is not wanted any more
let underWay = null;
let drawn; // what drawFound() was told last

// ---- the text ----------------------------------------------------------------

export const ownText = () => $('own-text').value;

// A lock of the server's, whose text, in either language, is TEXT.
const lockOf = (locks, text) => locks.find((each) => each.text && Object.values(each.text).includes(text));

// TEXT, or what was there last, or a lock that is worth mending.
export function openOwn(locks, text, words, language) {
  $('own-words').replaceChildren(...words.ownWords.flatMap(([word, means]) => [
    element('dt', {}, element('code', { text: word })), element('dd', { text: means })]));
  $('own-from').replaceChildren(element('option', { value: '', text: words.mine }),
    ...locks.filter((each) => each.text).map((each) => element('option', { text: each.name, title: each.claim[language] })));
  const own = text || ownText() || mine.get('own') || locks.find((each) => each.name === 'token').text.en;
  $('own-text').value = lockOf(locks, own)?.text[language] ?? own;
  showFrom(locks);
  tellFault('', words);
}

// Whose text it is, as far as it is known.
function showFrom(locks) {
  $('own-from').value = lockOf(locks, ownText())?.name ?? '';
  $('own-from').options[0].disabled = Boolean($('own-from').value) && !mine.get('own');
}

export function startFrom(locks, language) {
  $('own-text').value = locks.find((each) => each.name === $('own-from').value)?.text[language] ?? mine.get('own');
  showFrom(locks);
}

// Of every change, because the next click may put a lock's text in its place.
export function keepOwn(locks) {
  showFrom(locks);
  if (!$('own-from').value && ownText().trim()) keepMine({ own: ownText() });
}

export function keepMine(news) {
  for (const [name, value] of Object.entries(news)) mine.set(name, value);
  keep(KEPT, mine);
}

// "mine.lock:7: 'PXX': ..." stands below the text, whose line is marked.
export function tellFault(error, words) {
  const at = /^mine\.lock:(\d+): (.*)/s.exec(error);
  const box = $('own-text');
  $('own-fault').textContent = at ? words.line(at[1], at[2]) : error;
  box.toggleAttribute('aria-invalid', Boolean(error));
  if (!at) return;
  const lines = box.value.split('\n');
  const begin = lines.slice(0, at[1] - 1).reduce((sum, line) => sum + line.length + 1, 0);
  box.focus();
  box.setSelectionRange(begin, begin + (lines[at[1] - 1] ?? '').length);
}

// ---- the search --------------------------------------------------------------

function drawFound(found, context) {
  const { words, faultText, linkTo } = context;
  drawn = { found, context };
  const faults = Object.entries(found.faults).sort(([, one], [, other]) => one.split(' ').length - other.split(' ').length);
  const answer = faults.length ? 'breaks' : found.whole ? 'holds' : 'unknown';
  const isNews = found.done || $('found').dataset.answer !== answer || faults.length !== $('found').querySelectorAll('li').length;
  $('found').dataset.answer = answer;
  const says = !found.done && !found.isStopped ? words.searchGoes(found.schedules, found.moves)
    : faults.length ? words.searchBreaks(found.schedules)
      : (found.whole ? words.searchHolds : found.isStopped ? words.searchStopped : words.searchEnds)(found.schedules, found.moves);
  $('found').replaceChildren(element('p', { text: says }), element('ul', {},
    ...faults.map(([fault, schedule]) => element('li', {}, element('span', { text: words.searchFault(faultText(fault), schedule.split(' ').length) }), ' ',
      element('a', { href: linkTo(schedule), text: words.playIt })))),
  ...(faults.length === 1 && /^oversold:.* L /.test(faults[0].join(':')) ? [element('p', { text: words.searchOutlived })] : []),
  element('p', { class: 'hint', text: words.searchBounds(found.bounds) + (/keys beside/.test(found.verdict) ? ` ${words.searchBeside}` : '') }));
  if (isNews) $('found').scrollIntoView({ block: 'nearest' });
}

export const searchUnderWay = () => underWay;

function endSearch() {
  searches++;
  $('search-end').hidden = true;
}

// What was found is of a lock that stands there no more.
export function forgetFound() {
  endSearch();
  $('found').replaceChildren();
  delete $('found').dataset.answer;
}

export function stopSearch() {
  endSearch();
  drawFound({ ...drawn.found, isStopped: true }, drawn.context);
}

// Watches the search that WISH begins until it is done, or another one begins.
export async function search(wish, { call, words, faultText, linkTo, refused }) {
  const mine = ++searches;
  delete $('found').dataset.answer;
  let found = await call('POST', '/api/lab/searches', wish);
  if (found.status !== 200) {
    if (mine === searches) forgetFound();
    refused(found.error);
    return;
  }
  const { id } = found;
  const ask = (method, body) => call(method, `/api/lab/games/${id}`, body).catch(() => ({ error: words.gone }));
  if (mine === searches) {
    underWay = id;
    $('search-end').hidden = false;
  }
  while (found.status === 200 && mine === searches) {
    drawFound(found, { words, faultText, linkTo });
    if (found.done) break;
    await pause(LOOK_MS);
    if (mine === searches) found = await ask('POST', { command: 'look' });
  }
  await ask('DELETE');
  if (mine !== searches) return;
  underWay = null;
  endSearch();
  if (found.done) return;
  stopSearch();
  refused(found.error);
}
