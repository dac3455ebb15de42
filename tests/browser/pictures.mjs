// The README's pictures, of the program as it is: `make pictures`. Step by step with two
// processes inside, in red; a stop of the path that was solved; and the shop.
//
//   node tests/browser/pictures.mjs FOLDER

import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';

import { launch, start } from './page.mjs';

const BYTES_MAX = 200_000;
const WIDE = { width: 1120, height: 900 };

const moves = (page, wanted) => page.waitForFunction((text) => new URLSearchParams(location.hash.slice(1)).get('moves') === text, wanted);

async function step(page, url) {
  await page.goto(`${url}/lab#story=08&moves=a+a+L+b+b`);
  await page.locator('#lanes tr[data-move="5"]').waitFor();
}

async function path(page, url) {
  await page.goto(`${url}/lab#stop=03`);
  for (const [move, address] of [['a', 'a'], ['a!', 'a a!']]) {
    await page.locator(`button[data-move="${move}"]`).click();
    await moves(page, address);
  }
  for (const choice of ['a', 'c']) {
    await page.locator(`[data-choice="${choice}"]`).click();
    await page.locator(`[data-choice="${choice}"] + .answer[data-answer]`).waitFor({ timeout: 120_000 });
  }
  await page.evaluate('scrollTo(0, 0)');
}

async function shop(page, url) {
  await page.goto(url);
  await page.getByRole('button', { name: /^Order/ }).first().click();
  await page.locator('.product .answer').first().filter({ hasText: /./ }).waitFor();
}

const [folder] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node tests/browser/pictures.mjs FOLDER');
  process.exit(2);
}
const place = mkdtempSync(`${tmpdir()}/stockade-pictures-`);
const lab = start(['lab', 'serve', '--port', '0'], /(http:\S+)\/lab/);
const service = start(['serve', '--listen', '127.0.0.1:0', '--db', `sqlite:${place}/shop.db`], /page=(\S+)/);
const browser = await launch();
try {
  for (const [name, draw, url] of [['step', step, lab.url], ['path', path, lab.url], ['shop', shop, service.url]]) {
    const page = await browser.newPage({ viewport: WIDE, locale: 'en-US', colorScheme: 'light', reducedMotion: 'reduce' });
    await draw(page, await url);
    const file = `${folder}/${name}.png`;
    await page.screenshot({ path: file });
    await page.close();
    const { size } = statSync(file);
    console.log(`${file}: ${size} bytes`);
    if (size > BYTES_MAX) process.exitCode = 1;
  }
} finally {
  await browser.close();
  await Promise.all([lab.end(), service.end()]);
  rmSync(place, { recursive: true });
}
