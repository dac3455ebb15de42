// Goal: the page says of experiments what `stockade lab run` says of them: those of
// steps by their schedules, with the fix beside them, each that has a move or a goal which
// none before it has; and of load, which take their time, one of each group. With LAB_ALL=1
// all of both. (lab.t runs all of them, and the page hears from the same server.)

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { BINARY, WAIT_MS, api, at, says, test } from './page.mjs';

const RUN_MS = 600_000; // others run loads before us
const BUSY = { allow: /429/ };
const REPRESENTATIVES = ['06w', '14w', '20']; // an order of the dead, a lock that is renewed for ever, numbers; load.mjs has a crowd

const OTHER_MOVES = ['23']; // its fix is a server that dies in place of one that forgets: by the same moves it breaks

const { experiments, faults } = await api('GET', '/api/lab');
const seen = new Set();
const hasNews = ({ plays: [{ schedule, goal }] }) => [...schedule.split(' '), ...goal].filter((each) => !seen.has(each) && seen.add(each)).length;
const steps = experiments.filter((each) => each.kind === 'steps' && (hasNews(each) || process.env.LAB_ALL));
assert.ok(steps.length > 10);
const loads = experiments.filter((each) => each.kind === 'load' && (process.env.LAB_ALL || REPRESENTATIVES.includes(each.id)));
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

for (const { id, plays } of loads) {
  test(`${id}, under load`, async (page) => {
    const told = []; // the last answer of each side
    page.on('response', async (reply) => {
      const answer = reply.url().includes('/api/lab/games/') && reply.status() === 200 && await reply.json().catch(() => null);
      if (answer?.done) told.push(answer);
    });
    await page.goto(`/lab#load=${id}`);
    await page.locator('#load-run').click();
    await page.locator('#load-end').waitFor();
    await page.locator('#load-run').waitFor({ timeout: RUN_MS });
    for (let i = 0; i < WAIT_MS / 50 && told.length < plays.length; i += 1) await page.waitForTimeout(50); // the page may have read it before
    for (const [i, { lock, goal }] of plays.entries()) {
      const run = told[i];
      const place = page.locator(`#run-${i ? 'right' : 'left'} .answer`);
      const said = await place.textContent();
      assert.ok(run?.as_told, `${lock}: as told, ${JSON.stringify({ ...run, samples: 0 })}`);
      for (const each of goal) assert.ok(run.faults.includes(each), `${lock}: ${each}`);
      assert.equal(await place.getAttribute('data-answer'), run.faults.length ? 'breaks' : run.said ? 'unknown' : 'holds');
      assert.equal(said, `${run.faults.length ? `Broken: ${inWords(run.faults)}.` : 'Nothing broke.'} By the ledger ${run.sold} sold, ${run.stock} left.${run.said ?? ''}`);
    }
  }, BUSY);
}
