// A picture of the page at a stockade that runs. Once before: make browser-deps browser
//
//   STOCKADE_URL=http://127.0.0.1:8080 node tests/browser/screenshot.mjs FILE.png [phone] [dark]

import { DESKTOP, PHONE, SHOP, launch } from './page.mjs';

const [file, ...words] = process.argv.slice(2);
if (!file || !SHOP) {
  console.error('usage: STOCKADE_URL=http://HOST:PORT node tests/browser/screenshot.mjs FILE.png [phone] [dark]');
  process.exit(2);
}
const browser = await launch();
const page = await browser.newPage({ viewport: words.includes('phone') ? PHONE : DESKTOP, locale: 'en-US',
  deviceScaleFactor: 2, colorScheme: words.includes('dark') ? 'dark' : 'light' });
await page.goto(SHOP);
await page.locator('.product').first().waitFor();
await page.screenshot({ path: file, fullPage: true });
await browser.close();
