// A game of the laboratory's page is opened, and played by clicks: the scripts share this.

import { at } from './page.mjs';

export const OVERSELL = ['a', 'a', 'L', 'b', 'b', 'a', 'a', 'b', 'b']; // of story 08

export const move = (page, name) => page.locator(`button[data-move="${name}"]`);
export const verdict = (page) => page.locator('#verdict');
export const atMoves = (page, moves) => at(page, 'moves', moves.join(' '));

export async function open(page, address) {
  await page.goto(`/lab${address}`);
  await page.locator('.actor').first().waitFor();
}

// Each click waits for what it did: the next one is of what is seen then.
export async function click(page, moves, before = []) {
  for (let i = 0; i < moves.length; i += 1) {
    await move(page, moves[i]).click();
    await atMoves(page, [...before, ...moves.slice(0, i + 1)]);
  }
}
