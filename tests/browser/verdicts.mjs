// Goal: the page says of experiments of steps what `stockade lab run` says of them: by
// their schedules, with the fix beside them, each that has a move or a goal which none
// before it has; with LAB_ALL=1 all of them. (lab.t runs all of them, and the page hears
// from the same server. Those of load: load.mjs.)

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { BINARY, api, at, says, test } from './page.mjs';

const OTHER_MOVES = ['23']; // its fix is a server that dies in place of one that forgets: by the same moves it breaks

const { experiments, faults } = await api('GET', '/api/lab');
const seen = new Set();
const hasNews = ({ plays: [{ schedule, goal }] }) => [...schedule.split(' '), ...goal].filter((each) => !seen.has(each) && seen.add(each)).length;
const steps = experiments.filter((each) => each.kind === 'steps' && (hasNews(each) || process.env.LAB_ALL));
assert.ok(steps.length > 10);
const { stdout } = await promisify(execFile)(BINARY, ['lab', 'run', '--json', ...steps.map((each) => each.id)], { maxBuffer: 1 << 28 });
const ran = new Map(stdout.trim().split('\n').map(JSON.parse).map((each) => [each.id, each]));

const inWords = (list) => list.map((each) => faults[each].en).join('; ');

// The sentence at the head of the page, of what BUG came to.
function sentence(bug, goal) {
  const reached = goal.find((each) => bug.faults.includes(each));
  if (reached) return `: ${faults[reached].en}. The fewest known are `;
  return bug.faults.length + bug.remarks.length ? `: ${inWords([...bug.faults, ...bug.remarks])}.` : 'All are done, and nothing broke.';
}

async function expectAsRun(page, { id, plays: [{ goal, schedule }, fix] }) {
  const { bug } = ran.get(id);
  await page.goto(`/lab#${new URLSearchParams({ typed: id, story: id, moves: schedule, ...(fix && { beside: 'fix' }) })}`);
  await at(page, 'typed', null); // the page has put its own address there
  await at(page, 'moves', schedule);
  const said = await page.locator('#verdict').textContent();
  assert.ok(said.includes(sentence(bug, goal)), `the page says "${said}" of ${JSON.stringify([bug.faults, bug.remarks])}`);
  await says(page.locator('#facts'), new RegExp(`${bug.stock} left, ${bug.sold} sold`));
  assert.ok(bug.as_told);
  if (!fix || OTHER_MOVES.includes(id)) return;
  await page.locator('#beside-verdict[data-answer]').waitFor();
  for (const each of goal.filter((one) => !fix.goal.includes(one))) assert.ok(!(await page.locator('#beside-verdict').textContent()).includes(faults[each].en), 'the fix does not break so');
}

// A page for many, as who follows one link after the other has it; and a part for each
// of those that run at a time, since the loads behind them want the machine.
const PARTS = 4;
for (let part = 0; part < PARTS; part += 1) {
  test(`step by step, ${part + 1} of ${PARTS}`, async (page) => {
    const wrong = [];
    for (const each of steps.filter((_, i) => i % PARTS === part)) await expectAsRun(page, each).catch((error) => wrong.push(`${each.id}: ${error}`));
    assert.deepEqual(wrong, []);
  });
}
