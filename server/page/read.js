// The reader of images: files, dropped or pasted ones, each with what the model reads in it.
import {$, announce, clearErrors, copyButton, element, field, fieldValues, focusError, seconds, showError, size,
        takeFiles} from './dom.js';
import {complete, curlJson, failureOf} from './api.js';
import {LINE} from './samples.js';

const LARGEST = 20e6;  // bytes

const dataUrl = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
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

export class Reader {
  constructor() {
    this.section = $('read');
    this.form = $('read-form');
    this.working = null;
    this.last = 'data:image/png;base64,…';
    $('read-options').append(
        field('read', 'prompt', 'Text beside the image',
              {type: 'text', autocomplete: 'off', spellcheck: false, placeholder: 'none, or a task such as <OCR>'}),
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
    const {prompt, ...params} = fieldValues($('read-options'));
    return {prompt: {...prompt && {prompt}, multi_modal_data: {image: this.last}}, max_tokens: null, ...params};
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
    const item = element('li', 'reading'), image = element('img'), right = element('div', 'pane'), foot = element('div', 'pane-foot');
    const text = element('p', 'output'), facts = element('span', 'hint', 'reading');
    image.alt = file.name;
    image.src = URL.createObjectURL(file);
    image.onload = () => URL.revokeObjectURL(image.src);
    text.dir = 'auto';
    item.setAttribute('aria-label', 'Text of ' + file.name);
    item.setAttribute('aria-busy', 'true');
    foot.append(copyButton(() => text.textContent), facts);
    right.append(text, foot);
    item.append(image, right);
    $('readings').prepend(item);
    const begun = performance.now(), words = document.createTextNode('');
    text.append(words);
    let end;
    try {
      this.last = await dataUrl(file);
      document.dispatchEvent(new Event('curl'));
      end = await complete(this.body(), signal, (piece) => words.appendData(piece));
    } catch (e) {
      end = {error: failureOf(e)};
    }
    item.setAttribute('aria-busy', 'false');
    if (end.error) return this.fail(item, file, end.error);
    const said = end.parsed;
    if (said) foot.before(element('pre', 'output parsed', typeof said === 'string' ? said : JSON.stringify(said, null, 1)));
    facts.textContent = end.stopped ? 'stopped' : `${file.name} · ${seconds(performance.now() - begun)}`;
    announce(end.stopped ? 'Stopped.' : `${file.name} is read.`);
  }
  fail(item, file, error) {
    item.remove();
    const at = error.param && $('read-' + error.param), param = error.param || '';
    const message = error.message.replace(param + ': ', '');
    showError(at || $('image'), at ? message : `${file.name}: ${message}`);
    announce('Failed: ' + message);
  }
}
