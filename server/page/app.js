'use strict';
// The page's script: a form that asks /v1/completions, and a pane that polls /status. Text of the
// server's or the model's becomes text nodes only. For hear.js: `page`, and an event "model".
const page = (() => {
const $ = (id) => document.getElementById(id);
const element = (tag, className = '', text = '') => {
  const e = document.createElement(tag);
  e.className = className;
  e.textContent = text;
  return e;
};
const count = (n) => Math.round(n).toLocaleString('en');
const brief = (n) => n < 1e6 ? count(n) : n.toLocaleString('en', {notation: 'compact', maximumFractionDigits: 2});
const setText = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };

// --- Key and theme ---------------------------------------------------------------------------------
const ROOT = document.documentElement.dataset.root;  // what a proxy puts before each path
const KEY = 'tandem-api-key', THEME = 'tandem-theme';
let apiKey = sessionStorage.getItem(KEY) || '';
let keyWanted = null;  // while the dialog is open: a promise, of whether there is a new key

async function ask(path, options = {}) {
  for (;;) {
    const headers = {...options.headers};
    const used = apiKey;
    if (used) headers.Authorization = 'Bearer ' + used;
    const response = await fetch(ROOT + path, {...options, headers, cache: 'no-store'});
    if (response.status !== 401) return response;
    if (used === apiKey && !(await wantKey(used !== ''))) return response;
  }
}
function wantKey(wrong) {
  if (keyWanted) return keyWanted;
  $('key-button').hidden = false;
  $('key-error').textContent = wrong ? 'The server does not know this key.' : '';
  keyWanted = new Promise((resolve) => {
    const dialog = $('key-dialog');
    const done = (given) => { keyWanted = null; dialog.onclose = null; dialog.close(); resolve(given); if (given) setTimeout(() => { poll(); countTokens(); showMenus(); }); };
    dialog.onclose = () => done(false);
    $('key-cancel').onclick = () => done(false);
    $('key-form').onsubmit = (event) => {
      event.preventDefault();
      apiKey = $('key').value.trim();
      sessionStorage.setItem(KEY, apiKey);
      $('key').value = '';
      showCurl();
      done(apiKey !== '');
    };
    dialog.showModal();
  });
  return keyWanted;
}
$('key-button').hidden = !apiKey;
$('key-button').onclick = () => wantKey(false);

const root = document.documentElement;
const dark = matchMedia('(prefers-color-scheme: dark)');
try { root.dataset.theme = localStorage.getItem(THEME) || ''; } catch { /* no storage: the system's */ }
$('theme-button').onclick = () => {
  const isDark = root.dataset.theme ? root.dataset.theme === 'dark' : dark.matches;
  root.dataset.theme = isDark ? 'light' : 'dark';
  try { localStorage.setItem(THEME, root.dataset.theme); } catch { /* for this visit then */ }
};

// --- The form --------------------------------------------------------------------------------------
const EXAMPLES = [
  $('prompt').value,
  'This library provides functions to read observations from small weather stations that are attached to a serial port or to USB. It converts units, smooths noisy wind measurements and computes the dew point and the heat index. This package contains the header files and the static library that are needed to build programs with it.',
  'This package provides a Perl module that parses dates and times written in many formats and converts them to a standard form. Time zones and leap years are handled.',
];
const KINDS = {
  greedy: {title: 'Greedy', fields: [], fixed: {do_sample: false, num_beams: 1}},
  sample: {title: 'Sampling', fields: ['temperature', 'top_p', 'n', 'seed'], fixed: {do_sample: true, num_beams: 1}},
  beams: {title: 'Beams', fields: ['num_beams', 'num_return_sequences', 'length_penalty'], fixed: {do_sample: false}},
};
// Of models that have them: fields of /v1/models, and what a menu says where nothing is chosen.
const MENUS = {
  src_lang: {list: 'source_languages', none: (model) => model.default_source_language || '–'},
  tgt_lang: {list: 'target_languages', none: () => "the model's choice"},
  task: {list: 'tasks', none: () => 'none'},
};
const mode = () => document.querySelector('input[name=mode]:checked').value;
const kinds = () => mode() === 'compare' ? ['greedy', 'beams', 'sample'] : [mode()];

// What stands in the fields goes to the server as it is: it knows what is wrong with it.
let picture = '';  // of a model that reads images: a data URL
const source = () => $('picture').hidden ? $('prompt').value : {multi_modal_data: {image: picture}};
function requestBody(kind) {
  const body = {prompt: source(), stream: true};
  for (const name of ['max_tokens', ...KINDS[kind].fields])
    if ($(name).value.trim() !== '') body[name] = Number($(name).value);
  Object.assign(body, KINDS[kind].fixed);
  for (const name of Object.keys(MENUS)) if ($(name).value) body[name] = $(name).value;
  if ($('cut').checked) body.truncate_prompt_tokens = -1;
  if ($('decoder_prompt').value !== '') body.decoder_prompt = $('decoder_prompt').value;
  return body;
}
const curls = {  // of each form that may be there: its command
  form: (quoted, key) => kinds().map((kind) => {
    const body = JSON.stringify(requestBody(kind), null, 1).replaceAll(/\n */g, ' ')
        .replace(/(data:image\/[a-z]+;base64,)[^"]*/, '$1…');
    return `curl -N ${location.origin}${ROOT}/v1/completions ${key}\\\n` +
        `     -H 'Content-Type: application/json' \\\n     -d ${quoted(body)}`;
  }).join('\n\n'),
};
function showCurl() {
  const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
  const key = apiKey ? '\\\n     -H "Authorization: Bearer $TANDEM_API_KEY" ' : '';
  const form = Object.keys(curls).find((id) => !$(id).hidden);
  $('curl').textContent = curls[form](quoted, key);
}
function showFields() {
  const shown = kinds();
  for (const field of document.querySelectorAll('[data-for]')) field.hidden = !shown.includes(field.dataset.for);
  showCurl();
}
async function showMenus() {
  let model;
  try {
    // Not ask(): the key is asked for elsewhere, and this comes again with it.
    const response = await fetch(ROOT + '/v1/models', {headers: apiKey ? {Authorization: 'Bearer ' + apiKey} : {}});
    if (!response.ok) return;
    model = (await response.json()).data[0];
  } catch {
    return;
  }
  for (const [name, {list, none}] of Object.entries(MENUS)) {
    const option = (value, text) => Object.assign(element('option', '', text), {value});
    const values = model[list] || [];
    $(name).replaceChildren(option('', none(model)), ...values.map((value) => option(value, value)));
    $(name).closest('.field').hidden = values.length === 0;
    if (values.length) $('model-fields').hidden = false;
  }
  $('source').hidden = Boolean(model.reads_images);
  $('picture').hidden = !model.reads_images;
  showCurl();
  document.dispatchEvent(new CustomEvent('model', {detail: model}));
}
function showFieldError(name, message) {
  const place = $('error-' + name);
  if (!place) return;
  place.textContent = message;
  $(name).setAttribute('aria-invalid', 'true');
}
function clearErrors() {
  for (const e of document.querySelectorAll('#form [aria-invalid]')) e.removeAttribute('aria-invalid');
  for (const e of document.querySelectorAll('#form .error')) e.textContent = '';
}

// How many tokens the text has, once nobody has typed for a moment. Answers that come late are for
// a text that is no longer there.
const PAUSE = 300, MOST_COUNTED = 1 << 20;
let countTimer = 0, counted = {prompt: null}, counting = null;  // counting: an AbortController
function showCount() {
  const {tokens, limit} = counted, over = limit > 0 && tokens > limit;
  const known = counted.prompt === $('prompt').value;
  $('count').classList.toggle('over', known && over && !$('cut').checked);
  if (limit > 0) setText('cut-note', `to ${count(limit)} tokens`);
  if (!known) return;
  setText('count', tokens === undefined ? '\u00a0'
      : !over ? `${count(tokens)}${limit > 0 ? ` of ${count(limit)}` : ''} tokens`
      : $('cut').checked ? `${count(tokens)} tokens, cut to ${count(limit)}`
      : `${count(tokens)} tokens: more than the ${count(limit)} that the model takes`);
}
async function countTokens() {
  const prompt = $('prompt').value;
  if (counting) counting.abort();
  if (prompt === counted.prompt) return showCount();
  const controller = counting = new AbortController();
  let news = {prompt, limit: counted.limit};
  try {
    // Not ask(): a key is wanted for what somebody asks for, not for this.
    const headers = {'Content-Type': 'application/json', ...(apiKey && {Authorization: 'Bearer ' + apiKey})};
    const response = prompt.length > MOST_COUNTED ? null : await fetch(ROOT + '/tokenize', {
      method: 'POST', signal: controller.signal, body: JSON.stringify({prompt}), headers});
    if (response && response.ok) {
      const answer = await response.json();
      news = {prompt, tokens: answer.count, limit: answer.max_model_len};
    } else if (response) {
      news.prompt = null;  // again at the next change
    }
  } catch {
    return;
  }
  counted = news;
  showCount();
}
function countSoon() {
  clearTimeout(countTimer);
  countTimer = setTimeout(countTokens, PAUSE);
  showCount();
}

// --- A run: one request and its card ---------------------------------------------------------------
class Run {
  constructor(kind) {
    this.kind = kind;
    this.body = requestBody(kind);
    this.card = element('article', 'run');
    this.card.setAttribute('aria-busy', 'true');
    this.facts = element('p', 'facts', 'waiting for the first token');
    this.list = element('ol', 'texts');
    this.facts.setAttribute('aria-live', 'off');
    this.card.append(element('h3', '', KINDS[kind].title), this.facts, this.list);
    const sequences = kind === 'sample' ? this.body.n : kind === 'beams' ? this.body.num_return_sequences : 1;
    this.choices = [];
    for (let i = 0; i < Math.min(sequences || 1, 64); ++i) this.choice(i);
  }
  choice(index) {
    if (!this.choices[index]) {
      const item = element('li');
      const text = element('p', 'text'), meta = element('p', 'meta');
      item.append(text, meta);
      this.list.append(item);
      this.choices[index] = {text, meta, tokens: 0};
    }
    return this.choices[index];
  }
  async go(signal) {
    this.begun = performance.now();
    try {
      const body = {...this.body, return_token_ids: true, stream_options: {include_usage: true}};
      const response = await ask('/v1/completions', {
        method: 'POST', signal, body: JSON.stringify(body), headers: {'Content-Type': 'application/json'}});
      if (!response.ok) return this.fail(await errorOf(response));
      for await (const event of eventsOf(response)) this.take(event);
      this.showFacts(true);
    } catch (e) {
      if (e.name === 'AbortError') this.showFacts(true, 'stopped');
      else this.fail({message: 'the server cannot be reached'});
    } finally {
      this.card.setAttribute('aria-busy', 'false');
    }
  }
  take(event) {
    if (event.error) return this.fail(event.error);
    const now = performance.now();
    for (const news of event.choices) {
      const choice = this.choice(news.index);
      if (news.token_ids && news.token_ids.length) {
        this.first ??= now;
        this.last = now;
        choice.tokens += news.token_ids.length;
      }
      if (news.text) choice.text.append(news.text);
      if (news.finish_reason) this.showMeta(choice, news);
    }
    if (event.usage) this.usage = event.usage;
    this.showFacts(false);
  }
  showMeta(choice, news) {
    const end = {stop: '', length: ', cut at the limit'}[news.finish_reason] ?? ', ' + news.finish_reason;
    const count = `${choice.tokens} token${choice.tokens === 1 ? '' : 's'}${end}`;
    choice.meta.textContent = '';
    if (typeof news.score === 'number')
      choice.meta.append('score ', element('b', '', news.score.toFixed(3).replace('-', '−')), ' · ');
    choice.meta.append(count);
  }
  // Beams come all at once, at the end: for them there is a time, not a rate.
  showFacts(ended, word = '') {
    const facts = [];
    if (this.first !== undefined) {
      const tokens = this.choices.reduce((sum, c) => sum + c.tokens, 0);
      const wait = this.first - this.begun;
      if (this.kind === 'beams') {
        facts.push(`all after ${count(wait)} ms`);
      } else {
        facts.push(`first token ${count(wait)} ms`);
        // With the wait for the first: tokens may arrive several at once, and seem faster than they are.
        facts.push(`${count(tokens * 1000 / (this.last - this.begun))} tokens/s`);
      }
      if (ended && this.usage && kinds().length === 1) facts.push(`${this.usage.prompt_tokens} tokens read`);
    }
    if (word) facts.push(word);
    if (facts.length) this.facts.replaceChildren(...facts.map((fact) => element('span', '', fact)));
  }
  fail(error) {
    this.failed = error.message;
    this.facts.textContent = 'failed';
    if (this.first === undefined) this.list.replaceChildren();
    this.card.append(element('p', 'error', error.message));
    // The field says its name itself.
    if (!error.param) return;
    const field = !$('picture').hidden && error.param.startsWith('prompt') ? 'image' : error.param;
    showFieldError(field, error.message.replace(error.param + ': ', ''));
  }
}
async function errorOf(response) {
  const body = await response.json().catch(() => ({}));
  return body.error || {message: `the server answered ${response.status}`};
}
async function* eventsOf(response) {
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    rest += decoder.decode(value, {stream: true});
    const events = rest.split('\n\n');
    rest = events.pop();
    for (const event of events)
      if (event.startsWith('data: ') && event !== 'data: [DONE]') yield JSON.parse(event.slice(6));
  }
}

let under_way = null;  // the AbortController of the runs
async function generate() {
  if (under_way) return;
  clearErrors();
  const runs = kinds().map((kind) => new Run(kind));
  $('runs').replaceChildren(...runs.map((run) => run.card));
  $('runs').classList.toggle('three', runs.length === 3);
  const controller = under_way = new AbortController();
  $('generate').disabled = true;
  $('stop').disabled = false;
  await Promise.all(runs.map((run) => run.go(controller.signal)));
  under_way = null;
  $('generate').disabled = false;
  $('stop').disabled = true;
  $('announce').textContent = runs.some((run) => run.failed) ? 'Failed.' : 'Finished.';
  const wrong = document.querySelector('#form [aria-invalid]');
  if (wrong) wrong.focus();
}
$('form').onsubmit = (event) => { event.preventDefault(); generate(); };
$('image').onchange = () => {
  const reader = new FileReader(), file = $('image').files[0];
  reader.onload = () => { picture = reader.result; showCurl(); };
  picture = '';
  if (file) reader.readAsDataURL(file);
};
$('stop').onclick = () => { if (under_way) under_way.abort(); };
$('form').oninput = () => { showFields(); countSoon(); };
document.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !$('form').hidden && !$('key-dialog').open) generate();
});
for (const button of document.querySelectorAll('[data-example]'))
  button.onclick = () => { $('prompt').value = EXAMPLES[button.dataset.example]; showFields(); countSoon(); };

// --- The engine, live ------------------------------------------------------------------------------
const PERIOD = 500, POINTS = 120;
let history = [], before = null, status = null;

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
  setText('workers-note', `${ranks} rank${ranks === 1 ? '' : 's'} per replica · ` +
      (status.num_restarts ? `${count(status.num_restarts)} restart${status.num_restarts === 1 ? '' : 's'}` : 'no restarts'));
}

function showStatus(now) {
  const state = status.draining ? 'draining' : status.ready ? 'ready' : status.num_restarts ? 'down' : 'loading';
  $('state').dataset.state = state;
  setText('state-text', state === 'ready' ? 'ready' : state === 'draining' ? 'shutting down' : status.reason);
  setText('model', status.model);
  document.title = `${status.model} · Tandem`;
  setText('about', `Tandem ${status.version} · ${status.model} · ${status.dtype || '…'}`);

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

let timer = 0, polling = false;
async function poll() {
  clearTimeout(timer);
  if (polling || document.visibilityState !== 'visible') return;
  polling = true;
  let again = true;
  try {
    const response = await ask('/status', {signal: AbortSignal.timeout(5000)});
    if (response.ok) {
      status = await response.json();
      document.querySelector('.engine').classList.remove('stale');
      setText('engine-note', 'live');
      showStatus(performance.now());
    } else {
      again = response.status !== 401;  // until there is a key
      showUnreachable(again ? `status ${response.status}` : 'locked');
    }
  } catch {
    before = null;
    showUnreachable('unreachable');
  }
  polling = false;
  if (again) timer = setTimeout(poll, PERIOD);
}
document.addEventListener('visibilitychange', () => { before = null; poll(); });
new ResizeObserver(() => { if (status) showPool(); }).observe($('blocks'));

showFields();
showMenus();
countTokens();
poll();
return {$, ROOT, element, ask, errorOf, eventsOf, showCurl, curls};
})();
