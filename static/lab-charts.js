// Charts of a run under load, by Chart.js, which a build without libjs-chart.js does not
// have: then the numbers stand in a table alone.
import { element } from './lab-lanes.js';

const loaded = () => import('/chart.js').catch(() => null);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Lines differ by their dashes, too.
const LINES = {
  orders: [['placed', '--yes', []], ['stock', '--wood', [6, 3]], ['sold_out', '--quiet', [2, 2]], ['not_now', '--no', [8, 3, 2, 3]], ['units', '--ink', [12, 4]]],
  times: [['latency_ms', '--wood', []], ['wait_ms', '--yes', [6, 3]]],
};

const FEW = 12; // points, which a line between them would hide

// The legend would draw all of them alike.
const dashed = (chart) => globalThis.Chart.defaults.plugins.legend.labels.generateLabels(chart)
  .map((label) => ({ ...label, lineDash: chart.data.datasets[label.datasetIndex].borderDash }));

function optionsOf(most, unit, words) {
  const ticks = { color: colour('--quiet'), maxTicksLimit: 6 };
  const grid = { color: colour('--line') };
  const title = (text) => ({ display: true, text, color: colour('--quiet') });
  return {
    animation: false,
    maintainAspectRatio: false,
    parsing: false,
    normalized: true,
    interaction: { mode: 'nearest', axis: 'x', intersect: false },
    scales: {
      x: { type: 'linear', min: 0, suggestedMax: most.ms, ticks, grid, title: title(words.ms) },
      y: { beginAtZero: true, suggestedMax: most[unit], ticks, grid, title: title(words.axes[unit]) },
    },
    plugins: { legend: { labels: { color: colour('--ink'), usePointStyle: true, pointStyleWidth: 28, generateLabels: dashed } } },
  };
}

function drawOne(canvas, unit, samples, most, words) {
  const lines = LINES[unit].filter(([name]) => samples.some((each) => each[name]));
  const data = { datasets: lines.map(([name, tint, borderDash]) => {
    const points = samples.filter((each) => each[name] !== null).map((each) => ({ x: each.ms, y: each[name] }));
    return { label: words.samples[name], data: points, borderColor: colour(tint), borderDash, borderWidth: 2, pointStyle: 'line',
      pointRadius: points.length < FEW ? 3 : 0, spanGaps: true };
  }) };
  const options = optionsOf(most, unit, words);
  const chart = globalThis.Chart.getChart(canvas);
  if (!chart) {
    new globalThis.Chart(canvas, { type: 'line', data, options }); // eslint-disable-line no-new
    return;
  }
  Object.assign(chart, { data, options });
  chart.update();
}

const mean = (now, before, sum, n) => (now[n] > (before?.[n] ?? 0) ? Math.round(1e5 * (now[sum] - (before?.[sum] ?? 0)) / (now[n] - (before?.[n] ?? 0))) / 100 : null);

// What is drawn of a run: means are of the time since the sample before.
function pointsOf({ samples, units }) {
  return samples.map((each, i) => ({ ...each, units, not_now: each.overloaded + each.lock_timeout,
    latency_ms: mean(each, samples[i - 1], 'orders_s', 'orders'), wait_ms: mean(each, samples[i - 1], 'waits_s', 'waits') }));
}

const mostOf = (samples, names) => samples.reduce((most, each) => Math.max(most, ...names.map((name) => each[name] ?? 0)), 0);

// How far the axes of several runs have to reach, so that these can be compared.
export function reachOf(runs) {
  const samples = runs.flatMap(pointsOf);
  return { ms: mostOf(samples, ['ms']) || undefined,
    ...Object.fromEntries(Object.entries(LINES).map(([unit, lines]) => [unit, mostOf(samples, lines.map(([name]) => name))])) };
}

function tableOf(samples, words) {
  const names = ['ms', ...Object.values(LINES).flat().map(([name]) => name)];
  return element('table', {}, element('thead', {}, element('tr', {}, ...names.map((name) => element('th', { scope: 'col', text: words.samples[name] })))),
    element('tbody', {}, ...samples.map((each) => element('tr', {}, ...names.map((name) => element('td', { class: 'number', text: each[name] ?? '–' }))))));
}

// Into PLACE the charts of RUN, and their numbers.
export async function drawCharts(place, name, run, most, words) {
  const samples = pointsOf(run);
  await loaded();
  if (!place.firstChild) {
    place.append(...Object.keys(LINES).filter(() => globalThis.Chart).map((unit) => element('div', { class: 'chart' },
      element('canvas', { role: 'img', 'data-unit': unit, 'aria-label': `${name}: ${words.axes[unit]}; ${words.numbersBelow}` }))),
    element('details', { open: !globalThis.Chart }, element('summary', { text: words.numbers }), element('div', { class: 'lanes numbers', tabindex: 0, role: 'region', 'aria-label': `${words.numbers}: ${name}` })));
  }
  for (const canvas of place.querySelectorAll('canvas')) drawOne(canvas, canvas.dataset.unit, samples, most, words);
  place.querySelector('.numbers').replaceChildren(tableOf(samples, words));
}
