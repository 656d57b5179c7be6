'use strict';
// What the page has for a model that hears: files and a microphone, text with times as it comes,
// subtitles. Uses what app.js made.
(() => {
const {$, element, ask, errorOf, eventsOf} = page;
const FIELDS = {language: 'speech_language', prompt: 'speech_prompt'};  // others: the file's
const PERIOD = 2, LONGEST_TAIL = 24;  // seconds: between two looks at what is said; that is looked at again
let model = {}, chosen = null, working = null, recorder = null;

const clock = (seconds, point) => {
  const ms = Math.max(0, Math.round(seconds * 1000)), pad = (n, width = 2) => String(n).padStart(width, '0');
  const parts = [Math.floor(ms / 3600000), Math.floor(ms / 60000) % 60, Math.floor(ms / 1000) % 60];
  return parts.map((n) => pad(n)).join(':') + point + pad(ms % 1000, 3);
};
const brief = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;
const route = () => '/v1/audio/' + ($('speech_task').value === 'translate' ? 'translations' : 'transcriptions');

// --- What was said: a card ---------------------------------------------------------------------------
class Transcript {
  constructor(title) {
    this.settled = [];  // segments: start, end (seconds; or nothing), text
    this.tail = [];     // that may change yet
    this.text = '';     // of a model without times
    this.card = element('article', 'run said');
    this.card.setAttribute('aria-busy', 'true');
    this.facts = element('p', 'facts', 'waiting for the first words');
    this.facts.setAttribute('aria-live', 'off');
    this.list = element('ol', 'segments');
    this.tools = element('p', 'actions');
    this.tools.hidden = true;
    this.copied = element('span', 'hint');
    this.copied.setAttribute('role', 'status');
    this.card.append(element('h3', '', title), this.facts, this.list, this.tools);
    if (navigator.clipboard) this.button('Copy', () => this.copy());
    for (const kind of ['txt', 'srt', 'vtt'])
      if (kind === 'txt' || model.speech_times) this.button('Save .' + kind, () => this.save(kind, title));
    this.tools.append(this.copied);
    $('runs').replaceChildren(this.card);
    $('runs').classList.remove('three');
  }
  button(name, act) {
    const button = element('button', '', name);
    button.type = 'button';
    button.onclick = act;
    this.tools.append(button);
  }
  get segments() { return [...this.settled, ...this.tail]; }
  plain() { return this.segments.map((s) => s.text.trim()).filter(Boolean).join('\n'); }
  subtitles(kind) {
    const point = kind === 'srt' ? ',' : '.';
    const cues = this.segments.filter((s) => s.text.trim()).map((s, i) =>
        (kind === 'srt' ? `${i + 1}\n` : '') + `${clock(s.start, point)} --> ${clock(s.end, point)}\n` +
        s.text.trim().replaceAll(/\s+/g, ' ').replaceAll('-->', '->') + '\n\n');
    return (kind === 'vtt' ? 'WEBVTT\n\n' : '') + cues.join('');
  }
  async copy() {
    try {
      await navigator.clipboard.writeText(this.plain());
      this.copied.textContent = 'copied';
    } catch {
      this.copied.textContent = 'the browser does not allow it';
    }
  }
  save(kind, title) {
    const text = kind === 'txt' ? this.plain() + '\n' : this.subtitles(kind);
    const link = element('a');
    link.href = URL.createObjectURL(new Blob([text], {type: kind === 'vtt' ? 'text/vtt' : 'text/plain'}));
    link.download = `${title}.${kind}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  // Lines that stay as they are are left alone: somebody may be reading, or selecting, them.
  show() {
    const shown = this.segments;
    while (this.list.children.length > shown.length) this.list.lastChild.remove();
    shown.forEach((segment, i) => {
      let item = this.list.children[i];
      if (!item) {
        item = element('li');
        item.append(element('span', 'time'), element('p', 'text'));
        this.list.append(item);
      }
      const time = segment.start === undefined ? '' : brief(segment.start), text = segment.text.trim();
      if (item.children[0].textContent !== time) item.children[0].textContent = time;
      if (item.children[1].textContent !== text) item.children[1].textContent = text;
      item.classList.toggle('open', i >= this.settled.length);
    });
    this.tools.hidden = shown.length === 0;
  }
  state(...facts) { this.facts.replaceChildren(...facts.filter(Boolean).map((fact) => element('span', '', fact))); }
  fail(error) {
    this.failed = true;
    this.state('failed');
    this.card.append(element('p', 'error', error.message));
    const field = $(FIELDS[error.param] || 'file');
    $('error-' + field.id).textContent = error.message.replace(error.param + ': ', '');
    field.setAttribute('aria-invalid', 'true');
  }
  end() { this.card.setAttribute('aria-busy', 'false'); }
}

// --- Asking --------------------------------------------------------------------------------------------
function fieldsOf(stream) {
  const fields = {};
  if (model.speech_times) fields.response_format = 'verbose_json';
  if (stream) fields.stream = 'true';
  for (const [name, id] of Object.entries(FIELDS)) if ($(id).value) fields[name] = $(id).value;
  return fields;
}
function send(file, name, stream, signal) {
  const body = new FormData();
  for (const [key, value] of Object.entries(fieldsOf(stream))) body.set(key, value);
  body.set('file', file, name);
  return ask(route(), {method: 'POST', body, signal});
}
async function read(file, said, signal) {
  const begun = performance.now();
  let last = null;
  const response = await send(file, file.name, true, signal);
  if (!response.ok) return said.fail(await errorOf(response));
  for await (const event of eventsOf(response)) {
    if (event.error) return said.fail(event.error);
    if (event.type === 'transcript.text.segment') said.settled.push(event);
    if (event.type === 'transcript.text.delta' && !model.speech_times) {
      said.text += event.delta;
      said.tail = [{text: said.text}];
    }
    if (event.type === 'transcript.text.done') last = event;
    said.show();
    if (said.settled.length) said.state(`${brief(said.settled.at(-1).end)} so far`);
  }
  if (!last) return said.fail({message: 'the answer broke off'});
  const took = (performance.now() - begun) / 1000;
  if (!said.segments.length) said.tail = [{text: last.text || '(nothing was heard)'}];
  said.show();
  said.state(last.language, `${last.duration.toFixed(1)} s of sound`, `${took.toFixed(1)} s`,
             last.duration > 0 && `${(last.duration / took).toFixed(1)} × as fast as it is said`);
}

function begin(title) {
  for (const e of document.querySelectorAll('#hear [aria-invalid]')) e.removeAttribute('aria-invalid');
  for (const e of document.querySelectorAll('#hear .error')) e.textContent = '';
  working = new AbortController();
  $('transcribe').disabled = true;
  return new Transcript(title);
}
function finish(said) {
  working = null;
  said.end();
  $('transcribe').disabled = $('record').disabled = false;
  $('hear-stop').disabled = true;
  $('announce').textContent = said.failed ? 'Failed.' : 'Finished.';
  const wrong = document.querySelector('#hear [aria-invalid]');
  if (wrong) wrong.focus();
}
async function guarded(said, work) {
  try {
    await work();
  } catch (e) {
    if (e.name === 'AbortError') said.state('stopped');
    else said.fail({message: 'the server cannot be reached'});
  }
  finish(said);
}
function transcribe() {
  if (working) return;
  const file = chosen;
  if (!file) {
    $('error-file').textContent = 'choose a file first, or record something';
    $('file').focus();
    return;
  }
  const said = begin(file.name);
  $('record').disabled = true;
  $('hear-stop').disabled = false;
  guarded(said, () => read(file, said, working.signal));
}

// --- The microphone ------------------------------------------------------------------------------------
// Samples as they are recorded. A worklet would need a script that the page's policy forbids; what
// MediaRecorder makes (WebM) the server's library does not read.
class Recorder {
  async start() {
    this.stream = await navigator.mediaDevices.getUserMedia({audio: {channelCount: 1}});
    this.context = new AudioContext();
    await this.context.resume();
    this.rate = this.context.sampleRate;
    this.pieces = [];
    this.dropped = this.size = 0;  // samples that are gone, that there are in all
    this.node = this.context.createScriptProcessor(4096, 1, 1);
    this.node.onaudioprocess = ({inputBuffer}) => {
      this.pieces.push(Int16Array.from(inputBuffer.getChannelData(0), (x) => 32767 * Math.max(-1, Math.min(1, x))));
      this.size += inputBuffer.length;
    };
    this.context.createMediaStreamSource(this.stream).connect(this.node);
    this.node.connect(this.context.destination);
  }
  // From there on, as a WAV file.
  file(from) {
    while (this.pieces.length && this.dropped + this.pieces[0].length <= from) this.dropped += this.pieces.shift().length;
    const count = this.size - from, samples = new Int16Array(count);
    let at = this.dropped - from;
    for (const piece of this.pieces) {
      samples.set(at < 0 ? piece.subarray(-at) : piece, Math.max(0, at));
      at += piece.length;
    }
    const header = new DataView(new ArrayBuffer(44));
    const text = (at, word) => [...word].forEach((c, i) => header.setUint8(at + i, c.charCodeAt(0)));
    text(0, 'RIFF'); header.setUint32(4, 36 + 2 * count, true); text(8, 'WAVEfmt ');
    header.setUint32(16, 16, true); header.setUint16(20, 1, true); header.setUint16(22, 1, true);
    header.setUint32(24, this.rate, true); header.setUint32(28, 2 * this.rate, true);
    header.setUint16(32, 2, true); header.setUint16(34, 16, true);
    text(36, 'data'); header.setUint32(40, 2 * count, true);
    return new Blob([header, samples], {type: 'audio/wav'});
  }
  stop() {
    this.node.onaudioprocess = null;
    for (const track of this.stream.getTracks()) track.stop();
    this.context.close();
  }
}

// Sends what is not settled yet, again and again. Returns where that begins then; segments that others
// have followed, or all if it is long, are settled.
async function look(from, said, last, signal) {
  const size = recorder.size, start = from / recorder.rate, length = (size - from) / recorder.rate;
  if (length < (last ? 0.1 : 0.5)) return from;
  const response = await send(recorder.file(from), 'microphone.wav', false, signal);
  if (!last && (response.status === 429 || response.status === 503)) return from;  // later then
  if (!response.ok) {
    said.fail(await errorOf(response));
    return from;
  }
  const answer = await response.json();
  said.tail = (answer.segments || [{start: 0, end: length, text: answer.text}]).filter((s) => s.text.trim())
      .map((s) => ({start: start + s.start, end: start + Math.min(s.end, length), text: s.text}));
  if (length > LONGEST_TAIL) {
    const open = said.tail.length > 1 ? said.tail.pop() : null;
    said.settled.push(...said.tail);
    said.tail = open ? [open] : [];
    from = open ? Math.round(open.start * recorder.rate) : size;
  }
  said.show();
  return from;
}
async function listen(said) {
  let from = 0;
  const {signal} = working;
  for (let last = false; !last && !said.failed;) {
    if (!recorder.stopped)
      await new Promise((resolve) => { recorder.wake = resolve; setTimeout(resolve, PERIOD * 1000); });
    last = recorder.stopped;
    from = await look(from, said, last, signal);
    said.state(last ? '' : 'listening', `${(recorder.size / recorder.rate).toFixed(1)} s of sound`);
  }
  if (!said.failed && !said.segments.length) said.state('nothing was heard');
}
async function record() {
  if (recorder) {  // the last look is under way, or the next one
    recorder.stopped = true;
    recorder.stop();
    recorder.wake();
    $('record').disabled = true;
    return;
  }
  if (working) return;
  const said = begin('Microphone');
  const started = new Recorder();
  try {
    await started.start();
  } catch (e) {
    said.fail({message: e.name === 'NotAllowedError' ? 'the browser does not let the page hear the microphone'
                                                     : 'there is no microphone: ' + e.message});
    return finish(said);
  }
  recorder = started;
  recorder.wake = () => {};
  said.state('listening');
  showRecording(true);
  await guarded(said, () => listen(said));
  if (!recorder.stopped) recorder.stop();
  recorder = null;
  showRecording(false);
}
function showRecording(on) {
  $('record').setAttribute('aria-pressed', String(on));
  $('record').textContent = on ? 'Stop recording' : 'Record';
}

// --- The form --------------------------------------------------------------------------------------------
function choose(file) {
  chosen = file || null;
  $('chosen').textContent = chosen ? `${chosen.name}, ${(chosen.size / 1e6).toFixed(1)} MB` : '';
  $('error-file').textContent = '';
  $('file').removeAttribute('aria-invalid');
  page.showCurl();
}
page.curls.hear = (quoted, key) => {
  const form = {...fieldsOf(false), file: '@' + (chosen ? chosen.name : 'FILE')};
  return `curl ${location.origin}${page.ROOT}${route()} ${key}\\\n` +
      Object.entries(form).map(([name, value]) => `     -F ${quoted(name + '=' + value)}`).join(' \\\n');
};
$('file').onchange = () => choose($('file').files[0]);
$('hear').oninput = () => page.showCurl();
$('hear').onsubmit = (event) => { event.preventDefault(); transcribe(); };
$('hear-stop').onclick = () => { if (working) working.abort(); };
$('record').onclick = record;
const drop = $('drop');
for (const name of ['dragenter', 'dragover'])
  drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add('over'); });
for (const name of ['dragleave', 'drop']) drop.addEventListener(name, () => drop.classList.remove('over'));
drop.addEventListener('drop', (event) => {
  event.preventDefault();
  if (!event.dataTransfer.files.length) return;
  $('file').value = '';
  choose(event.dataTransfer.files[0]);
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !$('hear').hidden && !$('key-dialog').open) transcribe();
});
document.addEventListener('model', ({detail}) => {
  model = detail;
  if (!model.speech_tasks) return;
  const fill = (id, names, none) => {
    $(id).replaceChildren(...(none ? [Object.assign(element('option', '', none), {value: ''})] : []),
                          ...names.map((name) => Object.assign(element('option', '', name), {value: name})));
    $(id).closest('.field').hidden = names.length < 2;
  };
  fill('speech_task', model.speech_tasks);
  fill('speech_language', [...model.speech_languages].sort(), 'found out');
  $('record').hidden = !(navigator.mediaDevices && window.AudioContext);
  $('record-note').textContent = $('record').hidden ? 'A microphone needs HTTPS, or localhost.' : '';
  $('form').hidden = true;
  $('hear').hidden = false;
  $('runs').replaceChildren(element('p', 'empty', 'What is said appears here as it is understood.'));
  page.showCurl();
});
})();
