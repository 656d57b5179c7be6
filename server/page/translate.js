// The translator: languages by name, of which the first may be found out, and documents.
import {$, announce, element, option, showError} from './dom.js';
import {ask, askJson, curlJson, errorOf, ROOT} from './api.js';
import {byName, nameOf} from './languages.js';
import {SENTENCES} from './samples.js';
import {TextTask} from './text_task.js';

const AUTO = 'auto', PAUSE = 300, MOST_DETECTED = 2000;  // milliseconds, characters
const TASK = /^translation_([a-z]+)_to_([a-z]+)$/;

// What a model translates: {sources, targets(source), request(source, target)}; languages as
// [{code, name}]. Nothing: it does not.
export function pairsOf(model, known) {
  const reached = new Set(known.flatMap(({targets}) => targets));
  const languages = byName(known.filter(({code}) => reached.has(code))
      .map(({code, name}) => ({code, name: name === code ? nameOf(code) : name})));
  const tasks = (model.tasks || []).map((name) => TASK.exec(name)).filter(Boolean);
  const list = (codes) => [...new Set(codes)].map((code) => ({code, name: nameOf(code)}));
  if (model.target_languages && languages.length)
    return {sources: model.source_languages ? languages : list(model.source_language ? [model.source_language] : []),
            detects: Boolean(model.source_languages), targets: () => languages, own: model.default_source_language,
            request: (source, target) => ({...(model.source_languages && {src_lang: source}), tgt_lang: target})};
  if (tasks.length)
    return {sources: list(tasks.map(([, source]) => source)),
            targets: (source) => list(tasks.filter((task) => task[1] === source).map((task) => task[2])),
            request: (source, target) => ({task: `translation_${source}_to_${target}`})};
  if ((model.pipelines || []).includes('translation')) {
    const [source, target] = model.language_pair || [];
    return {sources: source ? list([source]) : [], targets: () => target ? list([target]) : [], request: () => ({})};
  }
  return null;
}

export class Translator extends TextTask {
  constructor(pairs, settings) {
    super('translate', {source: 'Text to translate', output: 'Translation', go: 'Translate', done: 'The translation is complete.',
                        placeholder: 'Type or paste a text, or drop a document', empty: 'The translation'});
    this.pairs = pairs;
    this.found = null;  // {code, text}: the language of that text
    this.formats = settings.filesTranslation ? settings.supportedFilesFormat || [] : [];
    this.from = $('translate-from');
    this.to = $('translate-to');
    const {sources, detects} = pairs;
    this.from.replaceChildren(...(detects ? [option(AUTO, 'Detect language')] : []),
                              ...sources.map(({code, name}) => option(code, name)));
    this.from.disabled = sources.length + Boolean(detects) < 2;
    this.from.hidden = this.from.options.length === 0;
    this.showTargets(this.firstTarget());
    $('translate-swap').hidden = !this.canSwap();
    $('translate-swap').onclick = () => this.swap();
    this.from.onchange = () => { this.showTargets(this.to.value); this.showDetected(); };
    this.to.onchange = () => { this.toIsChosen = true; };
    this.toIsChosen = false;  // by hand: then it stays
    this.timer = 0;
    this.source.addEventListener('input', () => { this.detectSoon(); });
    const known = (code) => sources.some((one) => one.code === code);
    this.setSamples(Object.fromEntries(Object.entries(SENTENCES).filter(([code]) => known(code) && code !== this.to.value)
        .slice(0, 3).map(([code, text]) => [nameOf(code), text])));
  }
  get code() { return this.from.value === AUTO ? this.found && this.found.code : this.from.value; }
  canSwap() {
    const targets = this.pairs.targets(this.from.value);
    return this.pairs.sources.some(({code}) => targets.some((one) => one.code === code)) && this.pairs.sources.length > 1;
  }
  // The browser's languages first. source: of the text, if it is known; else English is the likeliest.
  firstTarget(source = 'en') {
    const from = this.pairs.sources[0] && this.pairs.sources[0].code;
    const targets = this.pairs.targets(this.from.value === AUTO ? from : this.from.value).map(({code}) => code);
    return [...navigator.languages.map((name) => name.split('-')[0]), 'en', 'de', 'fr', 'es']
        .find((code) => code !== source && targets.includes(code)) || targets[0];
  }
  showTargets(chosen) {
    const targets = this.pairs.targets(this.from.value);
    this.to.replaceChildren(...targets.map(({code, name}) => option(code, name)));
    if (targets.some(({code}) => code === chosen)) this.to.value = chosen;
    this.to.disabled = targets.length < 2;
    this.to.hidden = targets.length === 0;
  }

  // --- The language of the text --------------------------------------------------------------------------
  setText(text, file) {
    super.setText(text, file);
    this.detectSoon();
  }
  detectSoon() {
    clearTimeout(this.timer);
    if (this.from.value === AUTO) this.timer = setTimeout(() => this.detect().catch(() => {}), PAUSE);
  }
  async detect(signal) {
    const text = this.source.value.slice(0, MOST_DETECTED);
    if (this.found && this.found.text === text) return;
    let code = null;
    if (text.trim()) {
      const response = await askJson('/detect', {q: text}, signal);
      if (!response.ok) throw new Error((await errorOf(response)).message);
      const languages = await response.json();
      code = languages.length ? languages[0].language : null;
    }
    if (text !== this.source.value.slice(0, MOST_DETECTED)) return;  // somebody types
    this.found = {code, text};
    this.showDetected();
  }
  showDetected() {
    const auto = this.from.value === AUTO, code = auto && this.found && this.found.code;
    if (code && code === this.to.value && !this.toIsChosen) this.showTargets(this.firstTarget(code));
    $('translate-detected').textContent = code ? 'Detected: ' + this.nameIn(this.pairs.sources, code) : '';
    document.dispatchEvent(new Event('curl'));
  }
  nameIn(languages, code) { return (languages.find((one) => one.code === code) || {name: code}).name; }

  swap() {
    const source = this.code, target = this.to.value, answer = this.output.textContent;
    if (!this.pairs.targets(target).some(({code}) => code === source)) {
      showError(this.from, 'choose a language first: none is known to swap with');
      return this.from.focus();
    }
    const busy = this.working !== null;
    this.from.value = target;
    this.showTargets(source);
    if (answer && !busy && !this.document) {
      this.setText(answer);
      this.setAnswer('');
    }
    this.showDetected();
    announce(`From ${this.nameIn(this.pairs.sources, target)} into ${this.nameIn(this.pairs.targets(target), source)}.`);
    $('translate-swap').focus();
  }

  // --- A run ---------------------------------------------------------------------------------------------
  mark() { return this.to.value; }
  fields() { return {prompt: this.source, src_lang: this.from, tgt_lang: this.to, source: this.from, target: this.to, q: this.source}; }
  async ready(signal) {
    this.output.lang = this.to.value;
    if (this.from.value !== AUTO || this.document) return true;
    await this.detect(signal);
    if (this.code) return true;
    showError(this.from, 'the language was not recognised: choose it');
    return false;
  }
  request() {
    return {...this.pairs.request(this.code || this.pairs.own, this.to.value), split: 'auto'};
  }
  async translateDocument(signal) {
    const form = new FormData();
    form.set('source', this.from.value);
    form.set('target', this.to.value);
    form.set('file', this.document, this.document.name);
    const response = await ask('/translate_file', {method: 'POST', body: form, signal});
    if (!response.ok) return {error: await errorOf(response)};
    // The server's own words for its address may not be the browser's.
    const path = new URL((await response.json()).translatedFileUrl, location.href).pathname;
    const file = await ask(path.startsWith(ROOT + '/') ? path.slice(ROOT.length) : path, {signal});
    if (!file.ok) return {error: await errorOf(file)};
    const [, stem, ending] = /^(.*?)(\.[^.]*)?$/.exec(this.document.name);
    this.answer = {name: `${stem}.${this.to.value}${ending || ''}`, blob: await file.blob()};
    this.output.replaceChildren(element('b', '', this.answer.name), ' is ready to be saved.');
    return {};
  }
  curl() { return curlJson('/v1/completions', this.body()); }
}
