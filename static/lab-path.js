// The path: its stops, what the learner has solved of them (kept in this browser), and the
// judge of what mends a lock. Knows nothing of how a game is played.
import { keep, kept, parse } from './browser.js';
import { element } from './lab-lanes.js';

const KEPT = 'stockade-lab-path';
const $ = (id) => document.getElementById(id);
const letter = (index) => 'abcd'[index];

// ---- progress ----------------------------------------------------------------

// By the name of a stop: { moves, mended }. One without moves was not broken yet.
const progress = () => parse(kept(KEPT)) || {};

function keepNews(stop, news) {
  const all = progress();
  keep(KEPT, JSON.stringify({ ...all, [stop.name]: { ...all[stop.name], ...news } }));
}

export const isBroken = (stop) => Boolean(progress()[stop.name]?.moves);

export function stateOf(stop) {
  const known = progress()[stop.name];
  if (known?.mended && (known.moves || !stop.schedule)) return 'solved';
  return known?.moves ? 'broken' : 'open';
}

// The learner has broken it in N moves.
export function keepBroken(stop, n) {
  const before = progress()[stop.name]?.moves;
  if (!before || n < before) keepNews(stop, { moves: n });
}

// Where a learner goes on: the first that is not solved, or the first of all.
export const nextOpen = (stops) => stops.find((each) => stateOf(each) !== 'solved') ?? stops[0];

// ---- drawing -----------------------------------------------------------------

export function drawStops(stops, current, words, language) {
  const solved = stops.filter((each) => stateOf(each) === 'solved').length;
  $('progress').textContent = words.progress(solved, stops.length);
  $('stops').replaceChildren(...stops.map((each, i) => {
    const state = stateOf(each);
    return element('li', { 'data-state': state },
      element('a', { href: `#stop=${each.id}`, 'aria-current': each === current && 'page' },
        element('span', { class: 'number', text: i + 1 }),
        element('span', { class: 'title', text: each[language].title }),
        element('span', { class: 'unseen', text: words[state] })));
  }));
}

// What the books say, and the lock. CHOICE: what is played in its place, or ''.
export function drawStop(stops, stop, choice, words, language) {
  const i = stops.indexOf(stop);
  const next = stops[i + 1];
  const mend = choice && stop.choices['abcd'.indexOf(choice)];
  $('place').textContent = words.place(i + 1, stops.length);
  $('title').textContent = stop[language].title;
  $('literature').textContent = stop[language].literature;
  $('code').textContent = stop.code.split(/ ?\| ?/).map((line) => line.replace(/^\.+/, (dots) => ' '.repeat(dots.length))).join('\n');
  $('in-place').hidden = !mend;
  if (mend) {
    $('in-place').replaceChildren(element('span', { text: words.inPlace(choice, mend[language]) }), ' ',
      element('a', { href: `#stop=${stop.id}`, text: words.backToStop }));
  }
  $('still-text').textContent = stop[language].still;
  $('elsewhere').replaceChildren(...['redisson', 'redsync', 'spring'].flatMap((each) => [
    element('dt', { text: { redisson: 'Redisson', redsync: 'redsync', spring: 'Spring' }[each] }),
    element('dd', { text: stop[language][each] })]));
  $('next-stop').hidden = !next;
  if (next) {
    $('next-stop').href = `#stop=${next.id}`;
    $('next-stop').textContent = words.nextStop(next[language].title);
  }
}

function answerText(stop, answer, words, faultText) {
  if (answer.answer === 'breaks') return (stop.goal.includes(answer.fault) ? words.breaks : words.breaksAnew)(faultText(answer.fault));
  const others = answer.others.length ? ` ${words.others(answer.others.map(faultText).join('; '))}` : '';
  return `${(answer.answer === 'holds' ? words.holds : words.unsure)(answer.says)}${answer.answer === 'unknown' ? ` ${words.unknown}` : ''}${others}`;
}

function drawAnswer(place, stop, answer, words, faultText) {
  place.dataset.answer = answer.answer ?? 'unknown';
  place.replaceChildren(element('p', { text: answer.error ?? answerText(stop, answer, words, faultText) }));
  if (answer.answer !== 'breaks' && answer.bounds) place.append(element('p', { class: 'hint', text: answer.bounds }));
  if (answer.answer === 'breaks') {
    place.append(element('p', {}, element('a', {
      href: `#stop=${stop.id}${answer.choice === '-' ? '' : `&choice=${answer.choice}`}&moves=${encodeURIComponent(answer.schedule)}`, text: words.playIt,
    }), ' ', element('code', { text: answer.schedule })));
  }
}

// The choices of STOP, each a button that ASKs the judge; a right lock has the search alone.
// DONE is called when something has held.
export function drawMend(stop, isOpen, { words, language, faultText, ask, done }) {
  const choices = stop.choices.length ? stop.choices.map((each, i) => ({ choice: letter(i), text: each[language] })) : [{ text: words.cannot }];
  const rows = choices.map(({ choice, text }) => {
    const button = element('button', { type: 'button', class: 'choice', disabled: !isOpen, 'data-choice': choice ?? 'search' },
      ...(choice ? [element('kbd', { text: choice })] : []), element('span', { text }));
    const place = element('div', { class: 'answer', role: 'status' });
    button.addEventListener('click', async () => {
      place.replaceChildren(element('p', { text: words.judging }));
      delete place.dataset.answer;
      button.disabled = true;
      const answer = await ask(choice).catch(() => ({ error: words.gone }));
      button.disabled = false;
      if (document.activeElement === document.body) button.focus({ preventScroll: true });
      drawAnswer(place, stop, answer, words, faultText);
      place.scrollIntoView({ block: 'nearest' });
      if (answer.answer !== 'holds') return;
      keepNews(stop, { mended: true });
      done();
    });
    return element('li', {}, button, place);
  });
  $('mend-title').textContent = stop.schedule ? words.mend : words.canIt;
  $('mend-hint').textContent = !stop.schedule ? words.canItHint : isOpen ? words.mendHint : words.breakFirst;
  $('choices').replaceChildren(...rows);
}

export const showStill = (stop) => { $('still').hidden = stateOf(stop) !== 'solved'; };
