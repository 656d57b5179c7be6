// The plain prompt: greedy output, samples and beams of a text, one of them or side by side.
import {$, announce, button, clearErrors, count, element, focusError, onRun, option, setText, showBusy, showError} from './dom.js';
import {askJson, bearer, curlJson, errorOf, eventsOf, failureOf, ROOT} from './api.js';
import {PACKAGES} from './samples.js';

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
  adapter: {list: 'adapters', none: () => 'none', field: 'model'},
};
const mode = () => document.querySelector('input[name=mode]:checked').value;
const kinds = () => mode() === 'compare' ? ['greedy', 'beams', 'sample'] : [mode()];

// What stands in the fields goes to the server as it is: it knows what is wrong with it.
function requestBody(kind) {
  const body = {prompt: $('prompt').value, stream: true};
  for (const name of ['max_tokens', ...KINDS[kind].fields])
    if ($(name).value.trim() !== '') body[name] = Number($(name).value);
  Object.assign(body, KINDS[kind].fixed);
  for (const name of Object.keys(MENUS)) if ($(name).value) body[MENUS[name].field || name] = $(name).value;
  if ($('cut').checked) body.truncate_prompt_tokens = -1;
  else body.split = 'auto';
  if ($('decoder_prompt').value !== '') body.decoder_prompt = $('decoder_prompt').value;
  return body;
}
function showFields() {
  const shown = kinds();
  for (const field of document.querySelectorAll('[data-for]')) field.hidden = !shown.includes(field.dataset.for);
  document.dispatchEvent(new Event('curl'));
}

// How many tokens the text has, once nobody has typed for a moment. Answers that come late are for
// a text that is no longer there.
const PAUSE = 300, MOST_COUNTED = 1 << 20;
let countTimer = 0, counted = {prompt: null}, counting = null;  // counting: an AbortController
function showCount() {
  const {tokens, limit} = counted, over = limit > 0 && tokens > limit;
  if (limit > 0) setText('cut-note', `to ${count(limit)} tokens`);
  if (counted.prompt !== $('prompt').value) return;
  setText('count', tokens === undefined ? '\u00a0'
      : !over ? `${count(tokens)}${limit > 0 ? ` of ${count(limit)}` : ''} tokens`
      : $('cut').checked ? `${count(tokens)} tokens, cut to ${count(limit)}`
      : `${count(tokens)} tokens, more than ${count(limit)}: read in parts`);
}
async function countTokens() {
  const prompt = $('prompt').value;
  if (counting) counting.abort();
  if (prompt === counted.prompt) return showCount();
  const controller = counting = new AbortController();
  let news = {prompt, limit: counted.limit};
  try {
    // Not ask(): a key is wanted for what somebody asks for, not for this.
    const response = prompt.length > MOST_COUNTED ? null : await fetch(ROOT + '/tokenize', {
      method: 'POST', signal: controller.signal, body: JSON.stringify({prompt}),
      headers: {'Content-Type': 'application/json', ...bearer()}});
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

// One request and its card.
class Run {
  constructor(kind) {
    this.kind = kind;
    this.body = requestBody(kind);
    this.card = element('article', 'run');
    this.card.setAttribute('aria-label', KINDS[kind].title);
    this.card.setAttribute('aria-busy', 'true');
    this.facts = element('p', 'facts', 'waiting for the first token');
    this.list = element('ol', 'texts');
    this.card.append(element('h2', '', KINDS[kind].title), this.facts, this.list);
    const sequences = kind === 'sample' ? this.body.n : kind === 'beams' ? this.body.num_return_sequences : 1;
    this.choices = [];
    for (let i = 0; i < Math.min(sequences || 1, 64); ++i) this.choice(i);
  }
  choice(index) {
    if (!this.choices[index]) {
      const item = element('li');
      const text = element('p', 'text'), meta = element('p', 'meta');
      text.dir = 'auto';
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
      const response = await askJson('/v1/completions', body, signal);
      if (!response.ok) return this.fail(await errorOf(response));
      for await (const event of eventsOf(response)) this.take(event);
      this.showFacts(true);
    } catch (e) {
      const error = failureOf(e);
      if (error) this.fail(error);
      else this.showFacts(true, 'stopped');
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
    if (error.param && $('error-' + error.param)) showError($(error.param), error.message.replace(error.param + ': ', ''));
  }
}

export class Prompter {
  constructor(model) {
    this.section = $('prompt-mode');
    this.working = null;  // the AbortController of the runs
    for (const [name, {list, none}] of Object.entries(MENUS)) {
      const values = model[list] || [];
      $(name).replaceChildren(option('', none(model)), ...values.map((value) => option(value, value)));
      $(name).closest('.field').hidden = values.length === 0;
      if (values.length) $('model-fields').hidden = false;
    }
    $('prompt').value = PACKAGES.spreadsheets;
    for (const [name, text] of Object.entries(PACKAGES))
      $('prompt-samples').append(button(name, () => { $('prompt').value = text; showFields(); countSoon(); }, 'link'));
    $('form').onsubmit = (event) => { event.preventDefault(); this.run(); };
    $('form').oninput = () => { showFields(); countSoon(); };
    $('stop').onclick = () => this.working && this.working.abort();
    onRun(this.section, () => this.run());
    showFields();
    countTokens();
  }
  async run() {
    if (this.working) return;
    clearErrors($('form'));
    const runs = kinds().map((kind) => new Run(kind)), {signal} = this.working = new AbortController();
    $('runs').replaceChildren(...runs.map((run) => run.card));
    $('runs').classList.toggle('three', runs.length === 3);
    showBusy($('generate'), $('stop'), true);
    await Promise.all(runs.map((run) => run.go(signal)));
    this.working = null;
    showBusy($('generate'), $('stop'), false);
    announce(runs.some((run) => run.failed) ? 'Failed.' : 'Finished.');
    focusError($('form'));
  }
  curl() { return kinds().map((kind) => curlJson('/v1/completions', requestBody(kind), '-N ')).join('\n\n'); }
}
