// A run as a file: what was played, or came of a load, all that it takes to look at it
// again, without a server.
import { download } from './browser.js';

const VERSION = 1;
const BYTES_MAX = 4 << 20;

export function saveFile(name, kind, content) {
  const text = JSON.stringify({ stockade: VERSION, kind, ...content }, null, 1);
  download(`stockade-${name}.json`, new Blob([text], { type: 'application/json' }));
}

const isList = (value) => Array.isArray(value);
const isText = (value) => typeof value === 'string';
const isRun = (run) => run && isText(run.lock) && isList(run.timeline) && isList(run.samples) && isList(run.faults ?? []);
const isGame = (game) => game && isText(game.schedule) && isText(game.lock)
  && [game.actors, game.steps, game.moves, game.locks, game.faults, game.remarks].every(isList);

// NULL: FILE is no run of ours. What is in it is shown as text only.
export async function readFile(file) {
  try {
    if (file.size > BYTES_MAX) return null;
    const saved = JSON.parse(await file.text());
    if (saved.stockade !== VERSION || !isText(saved.address)) return null;
    if (saved.kind === 'load') return Object.values(saved.runs).every(isRun) ? saved : null;
    return saved.kind === 'steps' && isGame(saved.game) && isList(saved.inside) && (!saved.beside || isGame(saved.beside.game)) ? saved : null;
  } catch {
    return null;
  }
}
