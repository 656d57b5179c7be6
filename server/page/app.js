// The page: asks what the model is, and shows what it is for.
import {$, element} from './dom.js';
import {ask, errorOf} from './api.js';
import {watchEngine} from './engine.js';
import {Prompter} from './prompt.js';
import {Reader} from './read.js';
import {Summariser} from './summarise.js';
import './theme.js';
import {Transcriber} from './transcribe.js';
import {pairsOf, Translator} from './translate.js';

const TITLES = {translate: 'Translate', summarise: 'Summarise', transcribe: 'Transcribe', read: 'Read images', prompt: 'Prompt'};
const sectionOf = (mode) => $(mode === 'prompt' ? 'prompt-mode' : mode);

// What the model can be asked for, the likeliest first.
function modesOf(model, pairs) {
  if (model.speech_tasks) return ['transcribe'];
  if (model.reads_images) return ['read'];
  const summarises = (model.pipelines || []).includes('summarization');
  if (pairs) return summarises ? ['translate', 'summarise', 'prompt'] : ['translate', 'prompt'];
  return summarises ? ['summarise', 'prompt'] : ['prompt', 'summarise'];
}
function make(mode, model, pairs, settings) {
  if (mode === 'translate') return new Translator(pairs, settings);
  if (mode === 'summarise') return new Summariser(model);
  if (mode === 'transcribe') return new Transcriber(model);
  return mode === 'read' ? new Reader() : new Prompter(model);
}

// --- Tabs ----------------------------------------------------------------------------------------------
let shown = null;
const tasks = {};  // by mode
function showCurl() {
  if (shown && $('request').open) $('curl').textContent = tasks[shown].curl();
}
function show(mode) {
  shown = mode;
  for (const other of Object.keys(tasks)) {
    sectionOf(other).hidden = other !== mode;
    const tab = $('tab-' + other);
    tab.setAttribute('aria-selected', String(other === mode));
    tab.tabIndex = other === mode ? 0 : -1;
  }
  showCurl();
}
function makeTabs(modes) {
  for (const mode of modes) {
    const tab = element('button', 'tab', TITLES[mode]), section = sectionOf(mode);
    Object.assign(tab, {type: 'button', id: 'tab-' + mode, onclick: () => { history.replaceState(null, '', '#/' + mode); show(mode); }});
    for (const [name, value] of [['role', 'tab'], ['aria-controls', section.id]]) tab.setAttribute(name, value);
    $('tabs').append(tab);
    if (modes.length > 1) {
      section.setAttribute('role', 'tabpanel');
      section.setAttribute('aria-labelledby', tab.id);
    }
  }
  $('tabs').hidden = modes.length < 2;
  $('tabs').onkeydown = (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    event.preventDefault();
    const next = $('tab-' + modes[(modes.indexOf(shown) + step + modes.length) % modes.length]);
    next.click();
    next.focus();
  };
}

// --- Start ---------------------------------------------------------------------------------------------
async function start() {
  try {
    const response = await ask('/v1/models');
    if (!response.ok) throw new Error((await errorOf(response)).message);
    const [model, ...others] = (await response.json()).data;
    model.adapters = others.filter((other) => other.parent).map((other) => other.id);
    const [languages, settings] = await Promise.all(
        ['/languages', '/frontend/settings'].map(async (path) => (await ask(path)).json().catch(() => ({}))));
    const pairs = pairsOf(model, Array.isArray(languages) ? languages : []);
    const modes = modesOf(model, pairs);
    for (const mode of modes) tasks[mode] = make(mode, model, pairs, settings);
    makeTabs(modes);
    $('starting').remove();
    $('request').hidden = false;
    const wanted = location.hash.slice(2);  // no id: the browser would go there
    show(modes.includes(wanted) ? wanted : modes[0]);
  } catch (e) {
    $('starting').textContent = e instanceof TypeError ? 'The server cannot be reached.' : `The server does not say what its model is: ${e.message}.`;
    document.addEventListener('key', start, {once: true});
  }
}

document.addEventListener('curl', showCurl);
document.addEventListener('key', showCurl);
$('request').addEventListener('toggle', showCurl);
// A file that misses its place must not take the page away.
for (const name of ['dragover', 'drop']) addEventListener(name, (event) => event.preventDefault());
start();
watchEngine();
