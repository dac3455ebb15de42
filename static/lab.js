// The laboratory in a browser: which game is played, and what the player does. The game
// itself is a process of the server's: it gets a line for each move, and answers all of
// the state. The schedule is in the address, so a link or a reload plays it again.
import { fill, firstLanguage, pause, showLanguage, wireLanguages } from './browser.js';
import { besideId, besideSaved, drawBeside, followBeside, setBeside, showBeside } from './lab-beside.js';
import { readFile, saveFile } from './lab-files.js';
import { choose, drawBoard, drawLanes, element, standing } from './lab-lanes.js';
import { addressOfLoad, drawLoad, endLoad, loadUnderWay, openLoad, runLoad, savedRuns, setRuns } from './lab-load.js';
import { drawMend, drawStop, drawStops, isBroken, keepBroken, nextOpen, showStill, stateOf } from './lab-path.js';
import { forgetFound, keepMine, keepOwn, mine, openOwn, ownText, search, searchUnderWay, startFrom, stopSearch, tellFault } from './lab-own.js';
import { words as allWords } from './lab-words.js';

const PLACE_MS = 1000;
const PLACE_TRIES = 20;
const $ = (id) => document.getElementById(id);

let language = firstLanguage(allWords);
let words = allWords[language];
let lab = { locks: [], experiments: [], stops: [], faults: {} };
let stop = null; // of the path; else there is a story, or a lock of one's own choice
let choice = ''; // of the stop: what is played in place of its lock
let isOwn = false; // the lock is a text of the learner's
let isLoad = false; // no game is played: instances run under load
let isSaved = false; // the game is one of a file, and nobody plays it
let game = null; // what the server said last
let inside = []; // by move: who was inside after it
let undone = []; // moves that redo makes again
let shows = 0; // rises when a demonstration is to end
let isShown = false; // these moves are not the player's own
let queue = Promise.resolve(); // one request after the other

// A game that somebody has left makes room after ten seconds, so a place is waited for.
async function call(method, path, body) {
  let reply;
  for (let tries = 0; tries < PLACE_TRIES; tries += 1) {
    reply = await fetch(path, {
      method,
      headers: body && { 'Content-Type': 'application/json' },
      body: body && JSON.stringify(body),
    });
    if (tries) tell('');
    if (reply.status !== 503) break;
    tell(words.waitsForGame);
    await pause(PLACE_MS);
  }
  return reply.status === 204 ? null : { status: reply.status, ...(await reply.json()) };
}

const tell = (text) => { $('told').textContent = text; };

// Only one thing is asked at a time; who clicks twice has two moves, one after the other.
function inTurn(work) {
  queue = queue.then(work).catch(() => tell(words.gone));
  return queue;
}

const faultText = (word) => lab.faults[word]?.[language] ?? word;

const story = () => (stop || isOwn ? undefined : lab.experiments.find((each) => each.id === $('story').value));

const context = () => ({ call, words, language, faultText, refused });

const isRenewed = () => lab.locks.find((each) => each.name === game.lock)?.renewed ?? /^renewed\b/m.test(ownText());

// What a story, or a stop, is to show, and how.
const aim = () => stop ?? story()?.plays[0];

// ---- drawing ---------------------------------------------------------------

function drawGoal() {
  const chosen = aim();
  const goals = chosen ? chosen.goal : [];
  const known = choice || !chosen?.schedule ? 0 : chosen.fewest ?? chosen.schedule.split(' ').length;
  const n = game.schedule.split(' ').filter(Boolean).length;
  const reached = goals.find((each) => game.faults.includes(each));
  const after = (faults) => Math.max(...faults.map((each) => game.broke_at?.[each] ?? n));
  const verdict = $('verdict');
  $('goal-text').textContent = goals.length ? words.bring(goals.map((each) => lab.faults[each].goal[language])) : words.anything;
  if (reached) {
    verdict.textContent = known ? words.goal(faultText(reached), after([reached]), known) : words.broke(faultText(reached), after([reached]));
  } else if (game.faults.length && !stop) {
    verdict.textContent = words.broke(game.faults.map(faultText).join('; '), after(game.faults));
  } else if (game.faults.length || game.remarks.length) {
    verdict.textContent = words.remark([...game.faults, ...game.remarks].map(faultText).join('; '));
  } else {
    verdict.textContent = game.over ? words.over : n === 0 ? words.begin : '';
  }
  $('goal').dataset.state = reached && known ? 'done' : reached || (game.faults.length && !stop) ? 'broken' : game.faults.length || game.remarks.length ? 'remark' : game.over ? 'over' : 'open';
  $('to-mend').hidden = !(stop && reached && known);
  $('why').hidden = !(story() && (reached || game.over));
  if (story()) {
    $('why-text').textContent = story()[language].why;
    $('fix-text').textContent = story()[language].fix;
  }
  if (stop && reached && known) reachStop(after([reached]));
}

// A demonstration opens the choices, too; but only one's own moves count.
function reachStop(n) {
  const before = stateOf(stop);
  if (!isShown) keepBroken(stop, n);
  if (stateOf(stop) !== before) drawPath();
  else if ($('choices').querySelector('button:disabled')) drawChoices(true);
}

// ---- the path ----------------------------------------------------------------

function drawChoices(isOpen) {
  drawMend(stop, isOpen, { words, language, faultText,
    ask: (wanted) => call('POST', '/api/lab/judge', { stop: stop.id, choice: wanted, language }),
    done: () => { drawStops(lab.stops, stop, words, language); showStill(stop); },
  });
}

function drawPath() {
  for (const id of ['path', 'stop', 'mend', 'place']) $(id).hidden = !stop;
  $('setup').hidden = Boolean(stop) || isLoad;
  $('load').hidden = !isLoad;
  $('break-one').hidden = !stop;
  $('what').hidden = Boolean(stop) && stop !== lab.stops[0];
  $('what').textContent = isLoad ? words.loadWhat : words.what;
  $('layout').classList.toggle('with-path', Boolean(stop));
  $('mode-path').toggleAttribute('aria-current', Boolean(stop));
  $('mode-free').toggleAttribute('aria-current', !stop && !isOwn && !isLoad);
  $('mode-load').toggleAttribute('aria-current', isLoad);
  $('mode-own').toggleAttribute('aria-current', isOwn);
  $('own').hidden = !isOwn;
  $('title').textContent = isLoad ? words.loadTitle : words.title;
  $('in-place').hidden = true;
  $('still').hidden = true;
  if (!stop) return;
  drawStops(lab.stops, stop, words, language);
  drawStop(lab.stops, stop, choice, words, language);
  drawChoices(!stop.schedule || isBroken(stop));
  showStill(stop);
}

// ---- all of it ---------------------------------------------------------------

function draw() {
  drawGoal();
  drawBoard(game, words, (move) => play([move]));
  drawLanes($('lanes'), game, inside, words);
  $('lanes-title').textContent = $('beside-lock').value ? words.withLock(game.lock) : words.lanes;
  $('undo').disabled = game.schedule === '';
  $('restart').disabled = game.schedule === '';
  $('save').disabled = false;
  $('redo').disabled = undone.length === 0;
  if (document.activeElement.disabled) $('actors').focus({ preventScroll: true }); // it was at the last undo
  $('show').hidden = !aim()?.schedule || Boolean(choice);
  $('command').textContent = stop ? `stockade lab path ${choice && `--choice ${choice} `}${stop.id}` : story() ? `stockade lab run -i ${story().id}` : `stockade replay ${$('deduct').value === 'guarded' ? '--deduct guarded ' : ''}${$('buyers').value === '2' ? '' : `--buyers ${$('buyers').value} `}${game.lock} '${game.schedule}'`;
  history.replaceState(null, '', addressOf(game.schedule));
}

function take(answer) {
  game = answer;
  const n = game.schedule.split(' ').filter(Boolean).length;
  inside[n] = standing(game);
  inside.length = n + 1;
}

async function drawTaken() {
  draw();
  await followBeside(game.schedule, isRenewed(), context());
}

const besides = () => $('beside-lock').value && { beside: $('beside-lock').value };
const picks = () => ({ buyers: $('buyers').value, deduct: $('deduct').value, ...besides() });

// A link to where SCHEDULE leads; it has all of a lock of one's own.
function addressOf(schedule) {
  const address = new URLSearchParams(stop ? { stop: stop.id, ...(choice && { choice }) }
    : story() ? { story: story().id, ...besides() } : { ...(isOwn ? { own: ownText() } : { lock: $('lock').value }), ...picks() });
  address.set('moves', schedule);
  return `#${address}`;
}

// ---- the game --------------------------------------------------------------

// False: the game is over, or the move is none; that is told. A game that has made room
// for others is begun anew, once.
async function ask(line, isAnew = false) {
  const answer = await call('POST', `/api/lab/games/${game.id}`, { command: line });
  if (answer.status === 404 && !isAnew) {
    await begin(game.schedule);
    return Boolean(game) && ask(line, true);
  }
  tell(answer.error || '');
  if (answer.schedule !== undefined) take(answer);
  return !answer.error;
}

async function command(line) {
  const isDone = await ask(line);
  if (game) await drawTaken();
  return isDone;
}

function play(moves) {
  shows++;
  isShown = false;
  undone = [];
  return inTurn(() => makeMoves(moves));
}

// Moves that are made together are drawn once.
async function makeMoves(moves, isAnew) {
  try {
    for (const move of moves) if (!(await ask(`move ${move}`, isAnew))) return;
  } finally {
    if (game && moves.length) await drawTaken();
  }
}

function freeWish() {
  return { ...(isOwn ? { text: ownText() } : { lock: $('lock').value }), buyers: Number($('buyers').value), deduct: $('deduct').value, language };
}

// What is played beside it: the fix of the story, or another lock.
function besideWish() {
  const value = stop ? '' : $('beside-lock').value;
  if (!value) return null;
  if (story()) return { experiment: story().id, ...(value === 'fix' ? { fix: true } : { lock: value }), language };
  return { lock: value, buyers: Number($('buyers').value), deduct: $('deduct').value, language };
}

// The game is none at once: the next one may stand there before the server answers.
async function endGame() {
  const id = game?.id;
  game = null;
  inside = [];
  $('save').disabled = true;
  if (id) await call('DELETE', `/api/lab/games/${id}`).catch(() => null);
}

async function begin(schedule) {
  const wish = stop ? { stop: stop.id, ...(choice && { choice }) } : story() ? { experiment: story().id } : freeWish();
  await endGame();
  await setBeside(null, context());
  showSaved(false);
  $('layout').classList.toggle('no-game', isLoad);
  if (isLoad) return;
  const answer = await call('POST', '/api/lab/games', { ...wish, language });
  refused(answer.error || '', wish.text);
  $('layout').classList.toggle('no-game', answer.status !== 200);
  if (answer.status !== 200) return;
  take(answer);
  draw();
  await setBeside(besideWish(), context());
  await makeMoves(schedule.split(' ').filter(Boolean), true);
}

// What is wrong with a TEXT stands below it, while it is the one that stands there.
function refused(error, text) {
  if (isOwn && text !== undefined && text !== ownText()) return;
  tell(isOwn ? '' : error);
  if (isOwn) tellFault(error, words);
}

function searchAll() {
  const wish = freeWish();
  return search(wish, { call, words, faultText, linkTo: addressOf, refused: (error) => refused(error, wish.text) }).catch(() => tell(words.gone));
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
    const isReached = ['done', 'broken'].includes($('goal').dataset.state);
    const text = move ? words.hintIs(move, n, faultText(fault)) : isReached ? words.brokenAlready : whole ? (stop ? words.noWayHere : words.noWay)(schedules) : words.notFound(schedules);
    tell(text);
    document.querySelector(`[data-move="${CSS.escape(move || '')}"]`)?.classList.add('hinted');
  });
}

// Plays the known schedule, slowly enough to be read. Any other click ends it.
function show() {
  const mine = ++shows;
  undone = [];
  isShown = true;
  return inTurn(() => command('back 0')).then(async () => {
    for (const move of aim().schedule.split(' ')) {
      await pause(900);
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

// ---- files -----------------------------------------------------------------

function showSaved(is) {
  isSaved = is;
  $('layout').classList.toggle('saved', is);
  $('go-on').hidden = !is;
}

function save() {
  if (isLoad) saveFile(`load-${$('load-story').value}`, 'load', { address: location.hash, runs: savedRuns() });
  else saveFile(game.lock, 'steps', { address: location.hash, game: { ...game, id: undefined, moves: [] }, inside, beside: besideSaved() });
}

// Waits for its turn, because what was asked before would draw over it.
async function openFile() {
  const [file] = $('file').files;
  $('file').value = '';
  if (!file) return null;
  const saved = await readFile(file);
  if (!saved) return tell(words.noFile);
  return inTurn(() => showFile(saved, file.name));
}

// Nothing is asked of the server.
function showFile(saved, name) {
  shows++;
  undone = [];
  endLoad(call);
  endGame();
  setBeside(null, context());
  setUp(new URLSearchParams(saved.address.slice(1)));
  $('layout').classList.toggle('no-game', isLoad);
  tell(words.opened(name));
  if (isLoad) {
    setRuns(saved.runs, context());
    return;
  }
  ({ game, inside } = saved);
  isShown = true; // whoever played it, it was not the reader
  showSaved(true);
  draw();
  showBeside(saved.beside, context());
}

// ---- load ------------------------------------------------------------------

function startLoad(event) {
  event.preventDefault();
  history.replaceState(null, '', `#${addressOfLoad()}`);
  tell('');
  return runLoad(lab, context()).catch(() => {
    stopLoad();
    tell(words.gone);
  });
}

function stopLoad() {
  endLoad(call);
  drawLoad(context());
}

// ---- the page --------------------------------------------------------------

function fillWords() {
  showLanguage(language);
  fill(document, (name) => words[name]);
}

function fillStories() {
  const chosen = $('story').value;
  $('story').replaceChildren(element('option', { value: '', text: words.free }),
    ...lab.experiments.filter((each) => each.kind === 'steps').map((each) => element('option', { value: each.id, text: `${each.id}  ${each[language].title}` })));
  $('story').value = chosen;
}

const optionOf = ({ name, claim }) => element('option', { text: name, value: name, title: claim[language] });

function showFree() {
  for (const each of document.querySelectorAll('.free, .stories, .mine')) {
    each.hidden = (each.matches('.free') && Boolean(story())) || (each.matches('.stories') && isOwn) || (each.matches('.mine') && !isOwn);
  }
  const lock = lab.locks.find((each) => each.name === $('lock').value);
  $('claim').textContent = lock?.claim[language];
  $('lock-code').hidden = !lock?.text;
  $('lock-text').textContent = lock?.text?.[language];
  const { value } = $('beside-lock');
  $('beside-lock').replaceChildren(element('option', { value: '', text: words.nothing }),
    ...(story()?.plays[1] ? [element('option', { value: 'fix', text: `${story().plays[1].lock}: ${words.theFix}` })] : []),
    ...lab.locks.map(optionOf));
  choose($('beside-lock'), value, '');
  forgetFound();
}

function speak(next) {
  language = next;
  words = allWords[language];
  fillWords();
  fillStories();
  showFree();
  drawPath();
  if (isOwn) openOwn(lab.locks, '', words, language);
  if (isLoad) openLoad(lab, addressOfLoad(), words, language);
  drawLoad(context());
  if (isSaved) {
    draw();
    drawBeside(context());
  } else {
    inTurn(() => begin(game ? game.schedule : ''));
  }
}

function setUp(address) {
  fillStories();
  $('lock').replaceChildren(...lab.locks.map(optionOf));
  isOwn = address.has('own');
  isLoad = address.has('load');
  setRuns({}, context());
  if (isLoad) openLoad(lab, address, words, language);
  if (isOwn) openOwn(lab.locks, address.get('own'), words, language);
  const isFree = isOwn || isLoad || address.has('story') || address.has('lock');
  stop = isFree ? null : lab.stops.find((each) => each.id === address.get('stop')) ?? nextOpen(lab.stops);
  choice = stop?.choices['abcd'.indexOf(address.get('choice'))] ? address.get('choice') : '';
  isShown = address.has('moves');
  drawPath();
  choose($('story'), address.get('lock') ? '' : address.get('story'), '08');
  choose($('lock'), address.get('lock'), 'set-nx-px');
  const picked = isOwn && !address.get('own') ? mine : address;
  choose($('buyers'), picked.get('buyers'), '2');
  choose($('deduct'), picked.get('deduct'), 'naive');
  showFree();
  choose($('beside-lock'), picked.get('beside'), '');
}

function onSetup(event) {
  event.preventDefault();
  showFree();
  if (isOwn) keepMine({ beside: '', ...picks() });
  shows++;
  undone = [];
  return inTurn(() => begin('')).then(() => event.type === 'submit' && $('actors').scrollIntoView());
}

const KEYS = { u: undo, r: redo, '?': hint };

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('select, input, textarea')) return;
  if (isLoad || isSaved || !game) return;
  if (KEYS[event.key]) KEYS[event.key]();
  else if (game.moves.some((each) => each.move === event.key)) play([event.key]);
}

// The game of the address: a link, a reload, or one that was typed.
async function follow(hash) {
  const address = new URLSearchParams(hash.slice(1));
  shows++;
  undone = [];
  endLoad(call);
  const before = stop;
  setUp(address);
  if (before && stop && stop !== before) {
    $('title').focus();
    scrollTo(0, 0);
  }
  await begin(address.get('moves') ?? '');
  const shown = { stop: stop?.id, lock: $('lock').value, story: $('story').value };
  const missing = Object.keys(shown).find((each) => address.has(each) && address.get(each) !== shown[each]);
  if (missing && !(missing === 'story' && address.has('lock'))) tell(words.notThere(address.get(missing)));
}

async function start() {
  fillWords();
  lab = await call('GET', '/api/lab');
  lab.locks.forEach(({ claim }, i) => { // each is read alone here
    for (const each of ['en', 'zh']) claim[each] = claim[each].replace(/^(?:The same|同上)/, allWords[each].as(lab.locks[i - 1]?.name));
  });
  await follow(location.hash);
}

for (const each of ['change', 'submit']) $('setup').addEventListener(each, onSetup);
$('load-setup').addEventListener('submit', startLoad);
$('load-story').addEventListener('change', () => {
  stopLoad();
  setUp(new URLSearchParams({ load: $('load-story').value }));
  history.replaceState(null, '', `#${addressOfLoad()}`);
});
$('file').addEventListener('change', openFile);
$('own-from').addEventListener('change', () => startFrom(lab.locks, language));
// What was played is another lock than the text that stands there now.
$('own-text').addEventListener('input', () => {
  keepOwn(lab.locks);
  forgetFound();
  $('layout').classList.add('no-game');
  return inTurn(endGame);
});
$('to-mend').addEventListener('click', () => {
  $('mend').scrollIntoView();
  $('mend-title').focus({ preventScroll: true });
});
for (const [id, work] of Object.entries({ search: searchAll, 'search-end': stopSearch, undo, redo, restart, hint, show, link: copyLink, save, open: () => $('file').click(), 'load-end': stopLoad, 'go-on': () => inTurn(() => begin(game.schedule)) })) $(id).addEventListener('click', work);
wireLanguages(speak);
document.addEventListener('keydown', onKey);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => isLoad && drawLoad(context()));
// The address is the event's, because drawing what was asked before may have put its own there.
addEventListener('hashchange', ({ newURL }) => inTurn(() => follow(new URL(newURL).hash)));
addEventListener('pagehide', () => {
  for (const id of [game?.id, besideId(), searchUnderWay(), loadUnderWay()].filter(Boolean)) fetch(`/api/lab/games/${id}`, { method: 'DELETE', keepalive: true });
});
inTurn(start);
