// Two panes: a text, typed, pasted or dropped, and what the model makes of it. The translator and the
// summariser are such tasks.
import {$, announce, button, clearErrors, copyButton, count, element, field, fieldValues, focusError, onRun, plural,
        save, seconds, showBusy, showError, size, takeFiles} from './dom.js';
import {complete, failureOf} from './api.js';

const LARGEST_TEXT = 8e6;  // bytes
// Read here; of the others those that the server does not read, and that are texts too.
const PLAIN = /\.(txt|text|log)$|^[^.]*$/i, MARKED = /\.(md|markdown|rst|csv)$/i;

// Throws an Error with words for people.
async function textOf(file) {
  if (file.size > LARGEST_TEXT) throw new Error(`${file.name} has ${size(file.size)}; ${size(LARGEST_TEXT)} is the most`);
  try {
    return new TextDecoder('utf-8', {fatal: true}).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not a text in UTF-8`);
  }
}

export class TextTask {
  // words: {source, output, go, done, placeholder, empty}. Subclasses say what is asked: request().
  constructor(id, words) {
    this.id = id;
    this.words = words;
    this.section = $(id);
    this.form = $(id + '-form');
    this.file = null;      // that the text is from, for the name of the answer
    this.document = null;  // a file that the server reads
    this.formats = [];     // endings of those
    this.working = null;
    this.build();
    this.form.onsubmit = (event) => { event.preventDefault(); this.run(); };
    this.form.addEventListener('input', () => this.changed());
    takeFiles(this.form, (files) => this.take(files), () => !this.section.hidden);
    onRun(this.section, () => this.run());
    $(id + '-options').append(
        field(id, 'max_tokens', 'Most tokens', {type: 'number', min: 1, inputmode: 'numeric', placeholder: 'no limit'}, 'of each part'),
        field(id, 'num_beams', 'Beams', {type: 'number', min: 1, inputmode: 'numeric', placeholder: 'the model’s'}));
  }

  build() {
    const {id, words} = this;
    this.source = element('textarea');
    Object.assign(this.source, {id: id + '-source', rows: 7, dir: 'auto', placeholder: words.placeholder, spellcheck: true});
    this.source.setAttribute('aria-label', words.source);
    this.source.setAttribute('aria-describedby', `error-${id}-source ${id}-count`);
    const error = element('p', 'error');
    error.id = `error-${id}-source`;
    this.counter = element('span', 'hint');
    this.counter.id = id + '-count';
    this.clear = button('Clear', () => this.setText(''), 'link');
    this.chooser = Object.assign(element('input', 'visually-hidden'), {type: 'file', id: id + '-file'});
    this.chooser.onchange = () => { this.take([...this.chooser.files]); this.chooser.value = ''; };
    const choose = element('label', 'link', 'Open a file');
    choose.htmlFor = this.chooser.id;
    this.samples = element('span', 'samples');
    this.samples.setAttribute('role', 'group');
    this.samples.setAttribute('aria-label', 'Samples');
    this.card = element('p', 'document');
    this.card.hidden = true;
    this.go = element('button', 'primary', words.go);
    this.go.id = id + '-go';
    this.stop = button('Stop', () => this.working && this.working.abort());
    this.stop.id = id + '-stop';
    this.stop.disabled = true;
    const keys = element('span', 'hint keys');
    keys.append(element('kbd', '', 'Ctrl'), ' ', element('kbd', '', 'Enter'));
    const left = element('div', 'pane'), foot = element('div', 'pane-foot'), tools = element('div', 'pane-tools');
    tools.append(this.samples, this.chooser, choose, this.clear);
    foot.append(this.go, this.stop, keys, this.counter);
    left.append(this.source, this.card, error, tools, foot);

    this.output = element('div', 'output');
    this.output.id = id + '-output';
    this.output.dir = 'auto';
    this.output.tabIndex = 0;
    this.output.dataset.empty = words.empty;
    for (const [name, value] of [['role', 'region'], ['aria-label', words.output], ['aria-busy', 'false']])
      this.output.setAttribute(name, value);
    this.failure = element('p', 'error failure');
    this.failure.setAttribute('role', 'alert');
    this.facts = element('span', 'hint');
    this.facts.id = id + '-facts';
    this.copy = copyButton(() => this.output.textContent);
    this.save = button('Save', () => this.saveAnswer());
    const right = element('div', 'pane answer'), below = element('div', 'pane-foot');
    below.append(this.copy, this.save, this.facts);
    right.append(this.output, this.failure, below);
    $(id + '-pair').append(left, right);
    this.show();
  }

  // samples: {name: text}.
  setSamples(samples) {
    this.samples.replaceChildren(...(Object.keys(samples).length ? [element('span', 'hint', 'Try')] : []),
        ...Object.entries(samples).map(([name, text]) => button(name, () => { this.setText(text); this.run(); }, 'link')));
  }
  setText(text, file = null) {
    this.document = null;
    this.file = file;
    this.source.value = text;
    this.changed();
    if (!text) this.setAnswer('');
    if (matchMedia('(pointer: fine)').matches) this.source.focus();  // elsewhere a keyboard would come
    else this.output.focus();
  }
  setAnswer(text) {
    this.output.replaceChildren(...(text ? [text] : []));
    this.answer = null;  // a file
    this.failure.textContent = this.facts.textContent = '';
    this.show();
  }
  changed() {
    this.show();
    document.dispatchEvent(new Event('curl'));
  }
  show() {
    const n = this.source.value.length, busy = this.working !== null;
    this.counter.textContent = n && !this.document ? plural(n, 'character') : '';
    this.clear.hidden = !n && !this.document;
    this.samples.hidden = !this.clear.hidden;
    this.source.hidden = this.document !== null;
    this.card.hidden = !this.source.hidden;
    showBusy(this.go, this.stop, busy);
    const none = busy || (!this.output.textContent && !this.answer);
    this.copy.disabled = none || Boolean(this.answer);
    this.save.disabled = none;
  }

  // --- Files -------------------------------------------------------------------------------------------
  async take(files) {
    clearErrors(this.form);
    const file = files[0], ending = (/\.[^.]+$/.exec(file.name) || [''])[0].toLowerCase();
    try {
      if (files.length > 1) throw new Error('one file at a time');
      if (!PLAIN.test(file.name) && this.formats.includes(ending)) return this.takeDocument(file);
      if (!PLAIN.test(file.name) && !MARKED.test(file.name)) {
        const known = [...new Set(['.txt', '.md', ...this.formats])].join(', ');
        throw new Error(`${file.name} cannot be read here, only text files: ${known}`);
      }
      const text = await textOf(file);
      this.setText(text, file.name);
      announce(`${file.name} is read, ${plural(text.length, 'character')}.`);
    } catch (e) {
      showError(this.source, e.message);
      focusError(this.form);
    }
  }
  takeDocument(file) {
    this.setText('');
    this.document = file;
    this.card.replaceChildren(element('b', '', file.name), element('span', 'hint', size(file.size)));
    this.show();
    this.clear.focus();
    announce(`${file.name} is chosen.`);
  }
  answerName() {
    const [, stem, ending] = /^(.*?)(\.[^.]*)?$/.exec(this.file || this.words.output.toLowerCase());
    const mark = this.mark();
    return `${stem}${this.file && mark ? '.' + mark : ''}${ending || '.txt'}`;
  }
  saveAnswer() {
    if (this.answer) save(this.answer.name, this.answer.blob);
    else save(this.answerName(), this.output.textContent);
  }

  // --- A run -------------------------------------------------------------------------------------------
  async run() {
    if (this.working) return;
    clearErrors(this.form);
    this.setAnswer('');
    if (!this.document && !this.source.value.trim()) {
      showError(this.source, 'type or paste a text first');
      return focusError(this.form);
    }
    const controller = this.working = new AbortController();
    this.output.setAttribute('aria-busy', 'true');
    this.show();
    const begun = performance.now();
    try {
      if (await this.ready(controller.signal))
        this.end(await (this.document ? this.translateDocument(controller.signal) : this.ask(controller.signal)),
                 performance.now() - begun);
    } catch (e) {
      const error = failureOf(e);
      this.end(error ? {error} : {stopped: true}, performance.now() - begun);
    }
    this.working = null;
    this.output.setAttribute('aria-busy', 'false');
    this.show();
    focusError(this.form);
  }
  ready() { return true; }  // false: an error stands at its field
  body() {
    const body = {prompt: this.source.value, ...this.request(), ...fieldValues($(this.id + '-options'))};
    if (!('max_tokens' in body) && this.unlimited()) body.max_tokens = null;
    return body;
  }
  unlimited() { return true; }
  ask(signal) {
    const words = document.createTextNode('');
    this.output.replaceChildren(words);
    return complete(this.body(), signal, (piece) => words.appendData(piece));
  }
  end({error, stopped, usage, cut, warnings = []}, ms) {
    if (error) return this.fail(error);
    const facts = stopped ? ['stopped'] : [seconds(ms)];
    if (usage) facts.unshift(`${count(usage.completion_tokens)} tokens`);
    if (cut) facts.push('a part was cut at its longest');
    if (!stopped && !this.answer && !this.output.textContent) facts.unshift('the model answered nothing');
    this.facts.textContent = [...facts, ...warnings].join(' · ');
    announce(stopped ? 'Stopped.' : this.words.done);
  }
  fail(error) {
    const at = this.fields()[error.param] || $(`${this.id}-${error.param}`);
    const message = error.param ? error.message.replace(error.param + ': ', '') : error.message;
    if (at) showError(at, message);
    else this.failure.textContent = message;
    const options = at && at.closest('details');
    if (options) options.open = true;
    announce('Failed: ' + message);
  }
  fields() { return {prompt: this.source}; }
}
