// Runs the tests of SCRIPTS in one browser:
//
//   STOCKADE_URL=http://127.0.0.1:PORT node tests/browser/run.mjs ordering,pay [PART OF A NAME]
//
// tests/full/page.t and lab-page.t start the server and run the scripts.

import { readTests, runTests } from './page.mjs';

const [scripts, part] = process.argv.slice(2);
for (const script of scripts.split(',')) await readTests(script);
await runTests(part);
