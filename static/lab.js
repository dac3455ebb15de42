// The laboratory in a browser: which game is played, and what the player does. The game
// itself is a process of the server's: it gets a line for each move, and answers all of
// the state. The schedule is in the address, so a link or a reload plays it again.
import { drawBoard, drawLanes, element } from './lab-lanes.js';
import { firstLanguage, keepLanguage, words as allWords } from './lab-words.js';

const $ = (id) => document.getElementById(id);

let language = firstLanguage();
let words = allWords[language];
let lab = { locks: [], experiments: [], faults: {} };
let game = null; // what the server said last
let inside = []; // by move: who was inside after it
let undone = []; // moves that redo makes again
let shows = 0; // rises when a demonstration is to end
let queue = Promise.resolve(); // one request after the other

async function call(method, path, body) {
  const reply = await fetch(path, {
    method,
    headers: body && { 'Content-Type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  return reply.status === 204 ? null : { status: reply.status, ...(await reply.json()) };
}

function tell(text) {
  $('told').textContent = text;
}

// Only one thing is asked at a time; who clicks twice has two moves, one after the other.
function inTurn(work) {
  queue = queue.then(work).catch(() => tell(words.gone));
  return queue;
}

function faultText(word) {
  return lab.faults[word] ? lab.faults[word][language] : word;
}

function story() {
  return lab.experiments.find((each) => each.id === $('story').value);
}

// ---- drawing ---------------------------------------------------------------

function drawGoal() {
  const chosen = story();
  const goals = chosen ? chosen.goal : [];
  const n = game.schedule.split(' ').filter(Boolean).length;
  const reached = goals.find((each) => game.faults.includes(each));
  const verdict = $('verdict');
  $('goal-text').textContent = goals.length ? words.bring(goals.map(faultText).join(language === 'zh' ? '；' : '; ')) : words.anything;
  if (reached) {
    verdict.textContent = words.goal(faultText(reached), n, chosen.schedule.split(' ').length);
  } else if (game.faults.length) {
    verdict.textContent = words.broke(game.faults.map(faultText).join('; '), n);
  } else if (game.remarks.length) {
    verdict.textContent = words.remark(game.remarks.map(faultText).join('; '));
  } else {
    verdict.textContent = game.over ? words.over : n === 0 ? words.begin : '';
  }
  $('goal').dataset.state = game.faults.length ? 'broken' : game.remarks.length ? 'remark' : game.over ? 'over' : 'open';
  $('why').hidden = !(chosen && (reached || game.over));
  if (chosen) {
    $('why-text').textContent = chosen[language].why;
    $('fix-text').textContent = chosen[language].fix;
  }
}

function draw() {
  drawGoal();
  drawBoard(game, words, (move) => play([move]));
  drawLanes(game, inside, words);
  $('undo').disabled = game.schedule === '';
  $('restart').disabled = game.schedule === '';
  $('redo').disabled = undone.length === 0;
  $('show').hidden = !story();
  $('command').textContent = story() ? `stockade lab run -i ${story().id}` : `stockade replay ${$('deduct').value === 'guarded' ? '--deduct guarded ' : ''}${$('buyers').value === '2' ? '' : `--buyers ${$('buyers').value} `}${game.lock} '${game.schedule}'`;
  const address = new URLSearchParams(story() ? { story: story().id } : { lock: $('lock').value, buyers: $('buyers').value, deduct: $('deduct').value });
  address.set('moves', game.schedule);
  history.replaceState(null, '', `#${address}`);
}

function take(answer) {
  game = answer;
  const n = game.schedule.split(' ').filter(Boolean).length;
  inside[n] = game.actors.filter((each) => each.inside).map((each) => each.name);
  inside.length = n + 1;
  draw();
}

// ---- the game --------------------------------------------------------------

// False: the game is over, or the move is none; that is told.
async function command(line) {
  const answer = await call('POST', `/api/lab/games/${game.id}`, { command: line });
  if (answer.status === 404 || answer.status === 503) {
    await begin(game.schedule);
    return false;
  }
  tell(answer.error || '');
  if (answer.schedule !== undefined) take(answer);
  return !answer.error;
}

function play(moves) {
  shows++;
  undone = [];
  return inTurn(() => makeMoves(moves));
}

async function makeMoves(moves) {
  for (const move of moves) if (!(await command(`move ${move}`))) return;
}

async function begin(schedule) {
  const wish = story() ? { experiment: story().id } : { lock: $('lock').value, buyers: Number($('buyers').value), deduct: $('deduct').value };
  if (game) await call('DELETE', `/api/lab/games/${game.id}`).catch(() => null);
  game = null;
  inside = [];
  const answer = await call('POST', '/api/lab/games', { ...wish, language });
  tell(answer.error || '');
  if (answer.status !== 200) return;
  take(answer);
  await makeMoves(schedule.split(/[ +]/).filter(Boolean));
}

function undo() {
  shows++;
  return inTurn(async () => {
    const moves = game.schedule.split(' ').filter(Boolean);
    if (!moves.length) return;
    undone.push(moves.pop());
    await command(`back ${moves.length}`);
  });
}

function redo() {
  shows++;
  return inTurn(async () => {
    if (undone.length) await command(`move ${undone.pop()}`);
    draw();
  });
}

function restart() {
  shows++;
  undone = [];
  return inTurn(() => command('back 0'));
}

function hint() {
  shows++;
  return inTurn(async () => {
    tell(words.searching);
    if (!(await command('hint'))) return;
    const { move, n, fault, schedules, whole } = game.hint;
    const text = move ? words.hintIs(move, n, faultText(fault)) : whole ? words.noWay(schedules) : words.notFound(schedules);
    tell(text);
    document.querySelector(`[data-move="${CSS.escape(move || '')}"]`)?.classList.add('hinted');
  });
}

// Plays the known schedule, slowly enough to be read. Any other click ends it.
function show() {
  const mine = ++shows;
  undone = [];
  const pause = () => new Promise((resolve) => { setTimeout(resolve, 900); });
  return inTurn(async () => {
    await command('back 0');
  }).then(async () => {
    for (const move of story().schedule.split(' ')) {
      await pause();
      if (mine !== shows) return;
      await inTurn(() => command(`move ${move}`));
    }
  });
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    tell(words.copied);
  } catch {
    tell(words.copyThis);
  }
}

// ---- the page --------------------------------------------------------------

function fillWords() {
  document.documentElement.lang = language;
  for (const each of document.querySelectorAll('[data-word]')) each.textContent = words[each.dataset.word];
  for (const each of document.querySelectorAll('[data-label]')) each.setAttribute('aria-label', words[each.dataset.label]);
  $('en').setAttribute('aria-pressed', language === 'en');
  $('zh').setAttribute('aria-pressed', language === 'zh');
}

function fillStories() {
  const chosen = $('story').value;
  $('story').replaceChildren(element('option', { value: '', text: words.free }),
    ...lab.experiments.map((each) => element('option', { value: each.id, text: `${each.id}  ${each[language].title}` })));
  $('story').value = chosen;
}

function showFree() {
  for (const each of document.querySelectorAll('.free')) each.hidden = Boolean(story());
}

function speak(next) {
  language = next;
  words = allWords[language];
  keepLanguage(language);
  fillWords();
  fillStories();
  inTurn(() => begin(game ? game.schedule : ''));
}

function setUp(address) {
  fillStories();
  $('lock').replaceChildren(...lab.locks.map((each) => element('option', { text: each.name, title: each.claim })));
  $('story').value = address.get('story') ?? (address.get('lock') ? '' : '08');
  if ($('story').selectedIndex < 0) $('story').value = '08';
  $('lock').value = address.get('lock') ?? 'set-nx-px';
  if ($('lock').selectedIndex < 0) $('lock').value = 'set-nx-px';
  $('buyers').value = address.get('buyers') === '3' ? '3' : '2';
  $('deduct').value = address.get('deduct') === 'guarded' ? 'guarded' : 'naive';
  showFree();
}

const KEYS = { u: undo, r: redo, '?': hint };

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('select, input, textarea')) return;
  if (KEYS[event.key]) KEYS[event.key]();
  else if (game?.moves.some((each) => each.move === event.key)) play([event.key]);
}

// The game of the address: a link, a reload, or one that was typed.
async function follow() {
  const address = new URLSearchParams(location.hash.slice(1));
  shows++;
  undone = [];
  setUp(address);
  await begin(address.get('moves') ?? '');
}

async function start() {
  fillWords();
  lab = await call('GET', '/api/lab');
  await follow();
}

$('setup').addEventListener('change', () => {
  showFree();
  shows++;
  undone = [];
  inTurn(() => begin(''));
});
$('setup').addEventListener('submit', (event) => event.preventDefault());
for (const [id, work] of Object.entries({ undo, redo, restart, hint, show, link: copyLink })) $(id).addEventListener('click', work);
for (const each of ['en', 'zh']) $(each).addEventListener('click', () => speak(each));
document.addEventListener('keydown', onKey);
addEventListener('hashchange', () => inTurn(follow));
addEventListener('pagehide', () => {
  if (game) fetch(`/api/lab/games/${game.id}`, { method: 'DELETE', keepalive: true });
});
inTurn(start);
