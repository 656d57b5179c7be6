// The reader of images and PDF files, dropped or pasted ones: each page with what the model reads in it.
import {$, announce, clearErrors, copyButton, element, field, fieldValues, focusError, seconds, showError, size,
        takeFiles} from './dom.js';
import {complete, curlJson, failureOf} from './api.js';
import {LINE} from './samples.js';

const LARGEST = 20e6;  // bytes

const isDocument = (file) => file.type === 'application/pdf' || (!file.type && /\.pdf$/i.test(file.name));
const dataUrl = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(isDocument(file) ? new Blob([file], {type: 'application/pdf'}) : file);
});
// A picture of a line of text.
function drawLine(text) {
  const canvas = Object.assign(element('canvas'), {width: 900, height: 90}), draw = canvas.getContext('2d');
  draw.fillStyle = '#fff';
  draw.fillRect(0, 0, canvas.width, canvas.height);
  draw.fillStyle = '#111';
  draw.font = '40px serif';
  draw.textBaseline = 'middle';
  draw.fillText(text, 24, canvas.height / 2, canvas.width - 48);
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(new File([blob], 'line.png', {type: 'image/png'}))));
}

// The number of the i-th page, from 0, of a list such as "1-3,7,9-"; without one, of all.
function pageNumber(i, list) {
  for (const part of (list || '1-').split(',')) {
    const [first, last] = part.split('-').map((text) => text.trim());
    const end = last === undefined ? +first : last ? +last : Infinity;
    if (+first + i <= end) return +first + i;
    i -= end - first + 1;
  }
  return i + 1;  // what the server refuses
}

// Where the text of an image, or of a page of a document, appears.
class Reading {
  // file: to be shown; null: a page of a document, in words. behind: the one before it, or undefined.
  constructor(name, file, behind) {
    this.name = name;
    this.item = element('li', 'reading');
    const right = element('div', 'pane'), text = element('p', 'output');
    this.foot = element('div', 'pane-foot');
    this.facts = element('span', 'hint', 'reading');
    this.words = document.createTextNode('');
    text.dir = 'auto';
    text.append(this.words);
    this.item.setAttribute('aria-label', 'Text of ' + name);
    this.item.setAttribute('aria-busy', 'true');
    this.foot.append(copyButton(() => text.textContent), this.facts);
    right.append(text, this.foot);
    this.item.append(file ? Reading.picture(file) : element('p', 'page-name', name), right);
    if (behind) behind.item.after(this.item);
    else $('readings').prepend(this.item);
  }
  static picture(file) {
    const image = element('img');
    image.alt = file.name;
    image.src = URL.createObjectURL(file);
    image.onload = () => URL.revokeObjectURL(image.src);
    return image;
  }
  say(piece) { this.words.appendData(piece); }
  end(parsed, facts) {
    this.item.setAttribute('aria-busy', 'false');
    if (parsed) this.foot.before(element('pre', 'output parsed', typeof parsed === 'string' ? parsed : JSON.stringify(parsed, null, 1)));
    this.facts.textContent = facts;
  }
}

export class Reader {
  constructor() {
    this.section = $('read');
    this.form = $('read-form');
    this.working = null;
    this.last = 'data:image/png;base64,…';
    $('read-options').append(
        field('read', 'prompt', 'Text beside the image',
              {type: 'text', autocomplete: 'off', spellcheck: false, placeholder: 'none, or a task such as <OCR>'}),
        field('read', 'pages', 'Pages of PDF files', {type: 'text', autocomplete: 'off', spellcheck: false, placeholder: 'all, or 1-3,7,9-'}),
        field('read', 'decoder_prompt', 'Output begins with', {type: 'text', autocomplete: 'off', spellcheck: false}),
        field('read', 'max_tokens', 'Most tokens', {type: 'number', min: 1, inputmode: 'numeric', placeholder: 'no limit'}),
        field('read', 'num_beams', 'Beams', {type: 'number', min: 1, inputmode: 'numeric', placeholder: 'the model’s'}));
    this.form.onsubmit = (event) => event.preventDefault();
    this.form.oninput = () => document.dispatchEvent(new Event('curl'));
    $('image').onchange = () => { this.take([...$('image').files]); $('image').value = ''; };
    takeFiles(this.section, (files) => this.take(files), () => !this.section.hidden);
    $('read-sample').onclick = async () => this.take([await drawLine(LINE)]);
    $('read-stop').onclick = () => this.working && this.working.abort();
  }
  body() {
    const {prompt, pages, ...params} = fieldValues($('read-options'));
    const image = this.last, of_document = image.startsWith('data:application/pdf');
    return {prompt: {...prompt && {prompt}, multi_modal_data: {image}}, max_tokens: null, ...of_document && pages && {pages}, ...params};
  }
  curl() { return curlJson('/v1/completions', this.body()); }

  async take(files) {
    if (this.working || !files.length) return;
    clearErrors(this.form);
    const {signal} = this.working = new AbortController();
    $('read-stop').disabled = false;
    for (const file of files) {
      if (signal.aborted) break;
      await this.read(file, signal);
    }
    this.working = null;
    $('read-stop').disabled = true;
    focusError(this.form);
  }
  async read(file, signal) {
    if (file.size > LARGEST) return showError($('image'), `${file.name} has ${size(file.size)}; ${size(LARGEST)} is the most`);
    const readings = [], {pages} = fieldValues($('read-options'));
    const reading = (index) => {
      for (let i = readings.length; i <= index; ++i)
        readings.push(isDocument(file) ? new Reading(`${file.name}, page ${pageNumber(i, pages)}`, null, readings[i - 1]) :
                                         new Reading(file.name, file));
      return readings[index];
    };
    reading(0);
    const begun = performance.now();
    let end;
    try {
      this.last = await dataUrl(file);
      document.dispatchEvent(new Event('curl'));
      end = await complete(this.body(), signal, (piece, index) => reading(index).say(piece));
    } catch (e) {
      end = {error: failureOf(e)};
    }
    if (end.error) return this.fail(readings, file, end.error);
    readings.forEach((one, i) => one.end(!end.stopped && end.parsed[i],
                                         end.stopped ? 'stopped' : `${one.name} · ${seconds(performance.now() - begun)}`));
    announce(end.stopped ? 'Stopped.' : `${file.name} is read.`);
  }
  fail(readings, file, error) {
    for (const one of readings) one.item.remove();
    const at = error.param && $('read-' + error.param), param = error.param || '';
    const message = error.message.replace(param + ': ', '');
    showError(at || $('image'), at ? message : `${file.name}: ${message}`);
    announce('Failed: ' + message);
  }
}
