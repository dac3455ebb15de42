// A second lock beside the one that is played: a game of its own, which gets the same
// moves, where they are possible. A watchdog does not sleep there because the first lock
// has none: while a lease would end, it has its turns.
import { drawFacts, drawLanes, standing } from './lab-lanes.js';

const $ = (id) => document.getElementById(id);

let wish = null; // what is played there; null: nothing
let game = null;
let inside = [];
let made = []; // { move, as }: a move of the first game, and those that were made here

const TURNS = 4; // of a watchdog, until a lease would have ended

export const besideSaved = () => game && { game: { ...game, id: undefined, moves: [] }, inside, made };

// BESIDE: of a file.
export function showBeside(beside, context) {
  ({ game, inside, made } = beside ?? { game: null, inside: [], made: [] });
  drawBeside(context);
}

export const besideId = () => game?.id;

export function drawBeside({ words, faultText }) {
  $('beside').hidden = !game;
  $('pair').classList.toggle('two', Boolean(game));
  if (!game) return;
  const others = made.filter(({ move, as }) => as.length && as.join() !== move);
  const none = made.filter(({ as }) => !as.length).map(({ move }) => move);
  const wrong = [...game.faults, ...game.remarks].map(faultText).join('; ');
  $('beside-title').textContent = words.withLock(game.lock);
  $('beside-verdict').dataset.answer = game.faults.length ? 'breaks' : game.remarks.length ? 'unknown' : 'holds';
  $('beside-verdict').textContent = wrong ? `${wrong}.` : game.over ? words.over2 : words.holdsSoFar;
  $('beside-skipped').textContent = [...others.map(({ move, as }) => words.insteadOf(move, as.join(' '))), ...(none.length ? [words.notPossible(none.join(' '))] : [])].join(' ');
  drawFacts($('beside-facts'), game, words);
  drawLanes($('beside-lanes'), game, inside, words);
}

function take(answer) {
  game = answer;
  const n = game.schedule.split(' ').filter(Boolean).length;
  inside[n] = standing(game);
  inside.length = n + 1;
}

// The game is none at once: the next one may stand there before the server answers.
async function end(call) {
  const id = game?.id;
  game = null;
  inside = [];
  made = [];
  if (id) await call('DELETE', `/api/lab/games/${id}`).catch(() => null);
}

// NEXT, or null, is what is played from now on.
export async function setBeside(next, context) {
  await end(context.call);
  wish = next;
  if (wish) {
    const answer = await context.call('POST', '/api/lab/games', wish);
    if (answer.status === 200) take(answer);
    else context.refused(answer.error);
  }
  drawBeside(context);
}

// What MOVE of the first game is here. RENEWED: its lock has watchdogs, too.
function movesFor(move, renewed) {
  const watchdogs = game.moves.map((each) => each.move).filter((each) => /^[a-d]w$/.test(each));
  return move === 'L' && !renewed && watchdogs.length ? Array(TURNS).fill(watchdogs).flat() : [move];
}

// Makes the moves of SCHEDULE that are possible, and takes those back that are not in it.
// A game that has made room for others is begun anew, once.
export async function followBeside(schedule, renewed, context) {
  try {
    await follow(schedule, renewed, context);
  } catch (error) {
    if (error.cause !== 404) throw error;
    await setBeside(wish, context);
    await follow(schedule, renewed, context);
  }
}

async function follow(schedule, renewed, context) {
  if (!wish || !game) return;
  const moves = schedule.split(' ').filter(Boolean);
  const ask = async (command) => {
    const answer = await context.call('POST', `/api/lab/games/${game.id}`, { command });
    if (answer.schedule === undefined) throw new Error(answer.error, { cause: answer.status });
    take(answer);
    return !answer.error;
  };
  let same = 0;
  while (same < made.length && made[same].move === moves[same]) same += 1;
  if (same < made.length) {
    made.length = same;
    await ask(`back ${made.flatMap((each) => each.as).length}`);
  }
  for (const move of moves.slice(same)) {
    const as = [];
    for (const each of movesFor(move, renewed)) if (await ask(`move ${each}`)) as.push(each);
    made.push({ move, as });
  }
  drawBeside(context);
}
