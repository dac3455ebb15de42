// Experiments of load: real instances with many buyers, watched while they run; on the
// left the bug, on the right its fix, or any two locks on the same load. One after the
// other, because each wants the machine.
import { pause } from './browser.js';
import { drawCharts, reachOf } from './lab-charts.js';
import { choose, element } from './lab-lanes.js';

const LOOK_MS = 300;
const WAIT_MS = 2000;
const SIDES = ['left', 'right'];
const $ = (id) => document.getElementById(id);

let runs = { left: null, right: null }; // what came of each side: answers of the server, and "lock"
let wanted = 0; // rises when the runs under way are not wanted any more
let underWay = null; // the name of the server's

const loads = (lab) => lab.experiments.filter((each) => each.kind === 'load');
export const loadOf = (lab) => loads(lab).find((each) => each.id === $('load-story').value);

// ---- what is to be run -------------------------------------------------------

function fillLocks(lab, words, language) {
  const { plays } = loadOf(lab);
  const others = lab.locks.filter((each) => each.in_one_redis).map((each) => element('option', { text: each.name, value: each.name, title: each.claim[language] }));
  const first = (play, word) => element('option', { value: '', text: play ? `${play.lock}: ${word}` : words.nothing });
  $('left').replaceChildren(first(plays[0], plays[1] ? words.theBug : words.asPlayed), ...others);
  $('right').replaceChildren(first(plays[1], words.theFix), ...others.map((each) => each.cloneNode(true)));
}

function drawText(lab, language) {
  $('load-see').textContent = loadOf(lab)[language].see;
  $('load-why-text').textContent = loadOf(lab)[language].why;
  $('load-fix-text').textContent = loadOf(lab)[language].fix;
}

// The experiment and the locks of ADDRESS.
export function openLoad(lab, address, words, language) {
  $('load-story').replaceChildren(...loads(lab).map((each) => element('option', { value: each.id, text: `${each.id}  ${each[language].title}` })));
  choose($('load-story'), address.get('load'), '03');
  fillLocks(lab, words, language);
  for (const side of SIDES) choose($(side), address.get(side), '');
  drawText(lab, language);
}

export function addressOfLoad() {
  return new URLSearchParams({ load: $('load-story').value, ...Object.fromEntries(SIDES.filter((side) => $(side).value).map((side) => [side, $(side).value])) });
}

// The wish of a side; null: nothing is to be run there.
function wishOf(lab, side, language) {
  if ($(side).value) return { lock: $(side).value, language };
  if (side === 'right') return loadOf(lab).plays[1] ? { fix: true, language } : null;
  return { language };
}

// ---- drawing -----------------------------------------------------------------

function lanesOf(run, words) {
  const actors = [...'abcd'].slice(0, run.timeline[0].lanes?.length ?? 0); // of a crowd, and in an old file, there are none
  if (!actors.length && run.timeline.length === 1) return element('p', { text: run.timeline[0].text });
  const names = actors.length ? actors : [''];
  const head = element('tr', {}, element('th', { scope: 'col', class: 'ms', text: words.ms }), ...names.map((name) => element(name ? 'th' : 'td', { scope: name ? 'col' : undefined, text: name })));
  const rows = run.timeline.map(({ ms, actor, text, lanes = [] }) => element('tr', {}, element('td', { class: 'ms', text: ms }),
    ...names.map((name, i) => element('td', { text: name === (actor ?? names[0]) ? text : '', class: actor ? undefined : 'world-step', 'data-lane': lanes[i] || undefined }))));
  return element('table', {}, ...(actors.length ? [element('caption', { text: words.colours })] : []), element('thead', {}, head), element('tbody', {}, ...rows));
}

function verdictOf(run, { words, faultText }) {
  if (run.error) return ['unknown', run.error];
  if (!run.done) return [undefined, run.says ? words[run.says] : words.running];
  const sold = words.soldBy(run.sold, run.stock);
  if (run.faults.length) return ['breaks', `${words.loadBroke(run.faults.map(faultText).join('; '))}${sold}`];
  return run.said ? ['unknown', sold.trim()] : ['holds', `${words.nothingBroke}${sold}`]; // whose locks were not seen has said so
}

function drawSide(side, context) {
  const run = runs[side];
  const place = $(`run-${side}`);
  place.hidden = !run;
  if (!run) return;
  const { words } = context;
  const [answer, text] = verdictOf(run, context);
  place.querySelector('h2').textContent = words.withLock(run.lock);
  const verdict = place.querySelector('.answer');
  if (answer) verdict.dataset.answer = answer;
  else delete verdict.dataset.answer;
  verdict.replaceChildren(element('p', { text }), ...(run.said ? [element('p', { text: run.said })] : []));
  place.querySelector('.happened').replaceChildren(...(run.timeline?.length ? [lanesOf(run, words)] : []));
  place.querySelector('.happened').hidden = !run.timeline?.length;
  const flags = run.flags ? `stockade serve --lock ${run.lock} ${run.flags}`.split(/ (?=--)/) : [];
  place.querySelector('.flags').replaceChildren(...flags.flatMap((each) => [element('span', { text: each }), ' ']));
  if (run.samples?.length) drawCharts(place.querySelector('.charts'), words.withLock(run.lock), run, reachOf(Object.values(runs).filter((each) => each?.samples)), words);
}

export function drawLoad(context) {
  const isAtButton = [$('load-run'), $('load-end')].includes(document.activeElement);
  for (const side of SIDES) drawSide(side, context);
  $('load-why').hidden = !runs.left?.done;
  $('load-run').hidden = Boolean(underWay);
  $('load-end').hidden = !underWay;
  if (isAtButton) (underWay ? $('load-end') : $('load-run')).focus();
  $('save').disabled = !savedRuns();
}

// RESULTS: of a file; else there are none.
export function setRuns(results, context) {
  runs = { left: null, right: null, ...results };
  for (const place of document.querySelectorAll('.charts')) {
    for (const canvas of place.querySelectorAll('canvas')) globalThis.Chart.getChart(canvas)?.destroy();
    place.replaceChildren();
  }
  drawLoad(context);
}

// NULL: nothing is there to be saved.
export function savedRuns() {
  const done = Object.entries(runs).filter(([, run]) => run?.done);
  return done.length ? Object.fromEntries(done) : null;
}

// ---- running -----------------------------------------------------------------

export function endLoad(call) {
  wanted++;
  if (underWay) call('DELETE', `/api/lab/games/${underWay}`).catch(() => null);
  underWay = null;
  for (const side of SIDES) if (runs[side] && !runs[side].done) runs[side].says = 'stopped';
}

export const loadUnderWay = () => underWay;

// Watches one side's run to its end. False: it is not wanted any more, or there is none.
async function watch(side, wish, lock, mine, context) {
  const { call } = context;
  let answer = await call('POST', '/api/lab/runs', wish);
  while (answer.status === 429 && mine === wanted) {
    runs[side] = { lock, says: 'waitsForPlace' };
    drawLoad(context);
    await pause(WAIT_MS);
    answer = await call('POST', '/api/lab/runs', wish);
  }
  const { id } = answer;
  if (mine !== wanted) {
    if (id) await call('DELETE', `/api/lab/games/${id}`);
    return false;
  }
  underWay = answer.status === 200 ? id : null;
  while (mine === wanted) {
    runs[side] = { ...answer, lock };
    drawLoad(context);
    if (answer.done || answer.status !== 200) break;
    await pause(LOOK_MS);
    if (mine === wanted) answer = await call('POST', `/api/lab/games/${id}`, { command: 'look' });
  }
  if (mine === wanted) underWay = null;
  return mine === wanted && answer.done && !answer.error;
}

export async function runLoad(lab, context) {
  endLoad(context.call);
  const mine = wanted;
  const { id: experiment, plays } = loadOf(lab);
  const wishes = SIDES.map((side) => ({ side, wish: wishOf(lab, side, context.language) })).filter((each) => each.wish);
  const lockOf = (wish) => wish.lock ?? plays[wish.fix ? 1 : 0].lock;
  setRuns(Object.fromEntries(wishes.map(({ side, wish }) => [side, { lock: lockOf(wish), says: 'turn' }])), context);
  for (const { side, wish } of wishes) if (!(await watch(side, { ...wish, experiment }, lockOf(wish), mine, context))) break;
  if (mine === wanted) endLoad(context.call); // the other side's turn does not come after an error
  drawLoad(context);
}
