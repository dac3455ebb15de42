// Draws a game: a card for each actor with its moves, the state, and the lanes of what
// has happened. Knows nothing of how moves are made.

export function element(tag, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

// VALUE, or what is OTHERWISE chosen where it is none of SELECT's.
export function choose(select, value, otherwise) {
  select.value = value ?? otherwise;
  if (select.selectedIndex < 0) select.value = otherwise;
}

// The actor of "a~" is a; "L", "^" and "2!" are the world's.
export const actorOf = (move) => (/^[a-d]/.test(move) ? move[0] : null);

function moveButton({ move, says }, isMain, choose) {
  const button = element('button', { type: 'button', class: isMain ? 'step' : 'trouble', 'data-move': move },
    element('kbd', { text: move }), element('span', { text: says }));
  button.addEventListener('click', () => choose(move));
  return button;
}

function statusOf(actor, moves, words) {
  if (actor.dead) return words.dead;
  if (actor.done) return words.done;
  if (actor.inside) return words.inside;
  return moves.some((each) => each.move === actor.name) ? words.ready : words.waiting;
}

function actorCard(game, actor, clash, words, choose) {
  const moves = game.moves.filter((each) => actorOf(each.move) === actor.name);
  const own = moves.find((each) => each.move === actor.name);
  const card = element('article', {
    class: 'card actor', 'data-actor': actor.name, 'data-inside': actor.inside && (clash ? 'clash' : 'yes'),
    'data-over': actor.dead || actor.done,
  },
  element('h2', {}, element('span', { class: 'name', text: actor.name }),
    element('span', { class: 'status', text: statusOf(actor, moves, words) })));
  if (own) card.append(moveButton(own, true, choose));
  else if (!actor.dead && !actor.done) card.append(element('p', { class: 'hint', text: actor.next }));
  if (actor.answer) card.append(element('p', { class: 'hint', text: actor.answer }));
  const others = moves.filter((each) => each !== own);
  if (others.length) card.append(element('div', { class: 'moves' }, ...others.map((each) => moveButton(each, false, choose))));
  return card;
}

function lockFact(lock, words) {
  if (lock.ttl_ms === -2) return words.noKey;
  if (!lock.holder) return words.ofNobody(lock.ttl_ms);
  return lock.ttl_ms === -1 ? words.forEver(lock.holder) : words.held(lock.holder, lock.ttl_ms);
}

export function drawFacts(place, game, words) {
  place.replaceChildren();
  for (const lock of game.locks) {
    place.append(element('dt', {}, element('code', { text: lock.name })), element('dd', { text: lockFact(lock, words) }));
  }
  place.append(element('dt', { text: words.stock }), element('dd', { text: words.units(game.stock, game.sold) }),
    element('dt', { text: words.orders }), element('dd', { text: game.orders }));
}

// Whoever made a move by the keyboard stays at it, or at the next one of its actor.
export function drawBoard(game, words, choose) {
  const clash = game.actors.filter((each) => each.inside).length > 1;
  const { move } = document.activeElement.dataset;
  document.getElementById('actors').replaceChildren(
    ...game.actors.map((actor) => actorCard(game, actor, clash, words, choose)));
  drawFacts(document.getElementById('facts'), game, words);
  document.getElementById('world-moves').replaceChildren(
    ...game.moves.filter((each) => !actorOf(each.move)).map((each) => moveButton(each, false, choose)));
  if (!move) return;
  const buttonOf = (wanted) => document.querySelector(`button[data-move="${CSS.escape(wanted)}"]`);
  (buttonOf(move) ?? buttonOf(move[0]) ?? document.getElementById('actors')).focus({ preventScroll: true });
}

// How the actors of GAME stand: "a" is inside, "b waits".
export const standing = ({ actors, moves }) => actors.filter((each) => !each.dead && !each.done)
  .flatMap(({ name, inside }) => (inside ? [name] : moves.some((each) => each.move === name) ? [] : [`${name} waits`]));

const isUnknown = ({ actor, reply }, name) => actor === name && /^\((?:no reply|held up|not awaited|lost)\)/.test(reply);

function laneOf(now, name, step) {
  if (isUnknown(step, name)) return 'unknown';
  if (now.includes(name)) return now.filter((each) => each.length === 1).length > 1 ? 'clash' : 'held';
  return now.includes(`${name} waits`) ? 'waits' : undefined;
}

// Into PLACE. INSIDE: for each move how the actors stood after it.
export function drawLanes(place, game, inside, words) {
  const names = game.actors.map((each) => each.name);
  const moves = game.schedule.split(' ').filter(Boolean);
  const table = element('table', {}, element('caption', { text: words.colours }), element('thead', {}, element('tr', {},
    element('th', { scope: 'col', text: words.move }), element('th', { scope: 'col', class: 'ms', text: words.ms }),
    ...names.map((name) => element('th', { scope: 'col', text: name })))));
  const body = element('tbody');
  let before = 0;
  for (const step of game.steps) {
    if (step.move === 0) continue;
    const now = inside[step.move] || [];
    const row = element('tr', { 'data-move': step.move },
      step.move === before ? element('td', { class: 'ms' }) : element('th', { scope: 'row', text: moves[step.move - 1] }),
      element('td', { class: 'ms', text: Math.round(step.at_us / 1000) }));
    for (const name of names) {
      const cell = element('td', { 'data-lane': laneOf(now, name, step), class: step.actor ? undefined : 'world-step' });
      if (name === (step.actor ?? names[0])) {
        cell.append(element('span', { text: step.says }));
        if (step.mark) cell.append(element('strong', { class: 'mark', text: step.mark }));
      }
      row.append(cell);
    }
    body.append(row);
    before = step.move;
  }
  table.append(body);
  place.replaceChildren(table);
  place.scrollTop = place.scrollHeight;
}
