// What the engine does, twice a second while somebody looks at it; else only whether it is ready.
import {$, brief, count, element, plural, setText} from './dom.js';
import {ask} from './api.js';

const PERIOD = 500, STARTING = 1000, READY = 5000, POINTS = 120;  // milliseconds; points of a line
let history = [], before = null, status = null;
const open = () => $('engine').open;

const sum = (field) => status.replicas.reduce((n, r) => n + (r.up ? r[field] || 0 : 0), 0);

function sparkPath(values, top) {
  const x = (i) => i + POINTS - values.length;
  return values.map((v, i) => `${i ? 'L' : 'M'}${x(i)} ${(40 - 38 * v / top).toFixed(2)}`).join('');
}
function drawSpark(id, lines) {
  const top = Math.max(1, ...lines.flat());
  const [area, line] = ['.area:not(.wait)', '.line'].map((s) => $(id).querySelector(s));
  const close = (values) => values.length > 1
      ? sparkPath(values, top) + `L119 40L${POINTS - values.length} 40Z` : '';
  area.setAttribute('d', close(lines[0]));
  line.setAttribute('d', sparkPath(lines[0], top));
  if (lines[1]) $(id).querySelector('.area.wait').setAttribute('d', close(lines[1]));
}

// A square for every block, or for 2, 5, 10, 20, … of them, so that they fit.
function perSquare(total, room) {
  for (let scale = 1;; scale *= 10)
    for (const factor of [1, 2, 5])
      if (total / (scale * factor) <= room) return scale * factor;
}
function drawBlocks(svg, total, parts) {
  const width = svg.clientWidth, height = svg.clientHeight;
  const least = 8;  // pixels of a square with its gap
  const per = perSquare(total, Math.floor(width / least) * Math.floor(height / least));
  const squares = Math.ceil(total / per);
  let pitch = least;
  while (pitch < 20 && Math.floor(width / (pitch + 1)) * Math.floor(height / (pitch + 1)) >= squares) ++pitch;
  const columns = Math.max(1, Math.floor(width / pitch)), side = pitch - (pitch > 11 ? 3 : 2);
  let at = 0;
  const paths = Object.entries(parts).map(([kind, blocks]) => {
    const wanted = kind === 'free' ? squares - at : Math.min(Math.ceil(blocks / per), squares - at);
    let d = '';
    for (const end = at + wanted; at < end; ++at)
      d += `M${(at % columns) * pitch} ${Math.floor(at / columns) * pitch}h${side}v${side}h-${side}z`;
    return [kind, d];
  });
  for (const [kind, d] of paths) {
    let path = svg.querySelector('.' + kind);
    if (!path) {
      path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      path.setAttribute('class', kind);
      svg.append(path);
    }
    path.setAttribute('d', d);
  }
  svg.setAttribute('aria-label', `${count(total)} blocks: ` +
      Object.entries(parts).map(([kind, blocks]) => `${count(blocks)} ${kind}`).join(', '));
  return per;
}
function showPool() {
  const total = sum('total_blocks'), idle = sum('cached_blocks');
  const parts = {self: sum('self_blocks'), cross: sum('cross_blocks'), cached: idle, free: sum('free_blocks') - idle};
  for (const [kind, blocks] of Object.entries(parts)) setText(kind + '-blocks', total ? count(blocks) : '–');
  $('cached-row').hidden = !status.replicas.some((r) => 'cached_blocks' in r);
  const scale = (per) => per === 1 ? '' : ` · ■ = ${count(per)} blocks`;
  const used = total ? Math.round(100 * (parts.self + parts.cross) / total) : 0;
  const per = drawBlocks($('blocks'), total, parts);
  setText('pool-note', total ? `${used} % of ${count(total)} blocks in use${scale(per)}` : 'no workers');
  const host = sum('total_host_blocks'), swapped = host - sum('free_host_blocks');
  const hostPer = drawBlocks($('host-blocks'), host, {swap: swapped, free: host - swapped});
  setText('host-note', host ? `${count(swapped)} of ${count(host)} blocks${scale(hostPer)}` : 'none');
}

function showWorkers() {
  const items = [...$('workers').children];
  while (items.length > status.replicas.length) items.pop().remove();
  status.replicas.forEach((r, i) => {
    let item = items[i];
    if (!item) {
      item = element('li');
      const bar = element('span', 'bar');
      bar.append(element('span', 'self'), element('span', 'cross'));
      item.append(element('span', 'dot'), element('b', '', `Replica ${i}`), element('span', 'word'), element('p', 'what'), bar);
      $('workers').append(item);
    }
    const [dot, , word, what, bar] = item.children;
    dot.className = r.up ? 'dot up' : 'dot down';
    word.textContent = !r.up ? (r.generation ? 'being started again' : 'starting') : r.running ? 'computing' : 'idle';
    const starts = r.generation > 1 ? `generation ${r.generation}` : 'first generation';
    what.textContent = r.up ? `${count(r.running)} running · ${count(r.waiting)} waiting · ${starts}` : starts;
    bar.children[0].style.width = r.up && r.total_blocks ? `${100 * r.self_blocks / r.total_blocks}%` : '0';
    bar.children[1].style.width = r.up && r.total_blocks ? `${100 * r.cross_blocks / r.total_blocks}%` : '0';
  });
  const ranks = status.tensor_parallel_size || 1;
  setText('workers-note', `${plural(ranks, 'rank')} per replica · ` +
      (status.num_restarts ? plural(status.num_restarts, 'restart') : 'no restarts'));
}

function showStatus(now) {
  const state = status.draining ? 'draining' : status.ready ? 'ready' : status.num_restarts ? 'down' : 'loading';
  $('state').dataset.state = state;
  setText('state-text', state === 'ready' ? 'ready' : state === 'draining' ? 'shutting down' : status.reason);
  setText('model', status.model);
  document.title = `${status.model} · Tandem`;
  setText('about', `Tandem ${status.version} · ${status.model} · ${status.dtype || '…'}`);

  if (!open()) return;
  const tokens = status.generation_tokens;
  if (before && tokens < before.tokens) before = null, history = [];  // another server now
  const rate = before ? Math.max(0, (tokens - before.tokens) * 1000 / (now - before.now)) : 0;
  before = {tokens, now};
  history.push({rate, running: sum('running'), waiting: sum('waiting')});
  history = history.slice(-POINTS);
  const lately = history.slice(-3);
  setText('tps', count(lately.reduce((n, p) => n + p.rate, 0) / lately.length));
  setText('tps-peak', `peak ${count(Math.max(...history.map((p) => p.rate)))}`);
  setText('total-tokens', brief(tokens));
  for (const field of ['running', 'waiting', 'swapped', 'preemptions']) setText(field, brief(sum(field)));
  drawSpark('spark-tps', [history.map((p) => p.rate)]);
  drawSpark('spark-requests', [history.map((p) => p.running), history.map((p) => p.running + p.waiting)]);
  showPool();
  showWorkers();
}
function showUnreachable(word) {
  $('state').dataset.state = 'down';
  setText('state-text', word);
  document.querySelector('.engine').classList.add('stale');
  setText('engine-note', 'as it was last seen');
}

let timer = 0, polling = false, again = false;
async function poll() {
  clearTimeout(timer);
  again = polling;
  if (polling || document.visibilityState !== 'visible') return;
  polling = true;
  let period = STARTING;
  try {
    const response = await ask('/status', {signal: AbortSignal.timeout(5000)});
    if (response.ok) {
      status = await response.json();
      document.querySelector('.engine').classList.remove('stale');
      setText('engine-note', 'live');
      showStatus(performance.now());
      period = open() ? PERIOD : status.ready ? READY : STARTING;
    } else {
      if (response.status === 401) period = 0;  // until there is a key
      showUnreachable(period ? `status ${response.status}` : 'locked');
    }
  } catch {
    before = null;
    showUnreachable('unreachable');
  }
  polling = false;
  if (again) poll();
  else if (period) timer = setTimeout(poll, period);
}

export function watchEngine() {
  document.addEventListener('visibilitychange', () => { before = null; poll(); });
  document.addEventListener('key', poll);
  $('engine').addEventListener('toggle', () => { before = null; history = []; poll(); });
  new ResizeObserver(() => { if (status && open()) showPool(); }).observe($('blocks'));
  poll();
}
