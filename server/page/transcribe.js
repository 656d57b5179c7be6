// The transcriber: files and a microphone, text with times as it comes, subtitles.
import {$, announce, button, clearErrors, element, focusError, onRun, option, showBusy, showError, size, takeFiles} from './dom.js';
import {ask, curlForm, errorOf, eventsOf, failureOf} from './api.js';
import {Captions} from './captions.js';
import {byName, nameOf} from './languages.js';
import {Recorder} from './recorder.js';
import {minutes, Transcript} from './transcript.js';

const FIELDS = {language: 'speech_language', prompt: 'speech_prompt'};  // others: the file's
const PERIOD = 2, LONGEST_TAIL = 24;  // seconds: between two looks at what is said; that is looked at again

export class Transcriber {
  constructor(model) {
    this.model = model;
    this.section = $('transcribe');
    this.form = $('hear');
    this.chosen = [];
    this.working = this.recorder = null;
    const fill = (id, options) => {
      $(id).replaceChildren(...options);
      $(id).closest('.field').hidden = options.length < 2;
    };
    fill('speech_task', model.speech_tasks.map((name) => option(name, name === 'translate' ? 'in English' : 'as it is spoken')));
    const languages = byName(model.speech_languages.map((code) => ({code, name: nameOf(code)})))
        .map(({code, name}) => option(code, name));
    fill('speech_language', languages.length ? [option('', 'Detect language'), ...languages] : []);
    $('times-field').hidden = !model.speech_times;
    $('record').hidden = !(navigator.mediaDevices && window.AudioWorkletNode);
    $('record-note').textContent = $('record').hidden ? 'A microphone needs HTTPS, or localhost.' : '';
    $('times').onchange = () => $('transcripts').classList.toggle('no-times', !$('times').checked);
    $('file').onchange = () => this.choose([...$('file').files]);
    takeFiles(this.section, (files) => { $('file').value = ''; this.choose(files); }, () => !this.section.hidden);
    this.form.oninput = () => document.dispatchEvent(new Event('curl'));
    this.form.onsubmit = (event) => { event.preventDefault(); this.run(); };
    onRun(this.section, () => this.run());
    $('hear-stop').onclick = () => this.working && this.working.abort();
    $('record').onclick = () => this.record();
  }

  choose(files) {
    this.chosen = files;
    $('chosen').replaceChildren(...files.map((file) => element('span', '', `${file.name}, ${size(file.size)}`)));
    if (files.length) $('chosen').append(button('Remove', () => { $('file').value = ''; this.choose([]); $('file').focus(); }, 'link'));
    $('error-file').textContent = '';
    $('file').removeAttribute('aria-invalid');
    document.dispatchEvent(new Event('curl'));
  }

  // --- Asking --------------------------------------------------------------------------------------------
  get route() { return '/v1/audio/' + ($('speech_task').value === 'translate' ? 'translations' : 'transcriptions'); }
  fields(stream) {
    const fields = {};
    if (this.model.speech_times) fields.response_format = 'verbose_json';
    if (stream) fields.stream = 'true';
    for (const [name, id] of Object.entries(FIELDS)) if ($(id).value) fields[name] = $(id).value;
    return fields;
  }
  send(file, name, stream, signal) {
    const body = new FormData();
    for (const [key, value] of Object.entries(this.fields(stream))) body.set(key, value);
    body.set('file', file, name);
    return ask(this.route, {method: 'POST', body, signal});
  }
  curl() {
    return curlForm(this.route, {...this.fields(false), file: '@' + (this.chosen.length ? this.chosen[0].name : 'FILE')});
  }
  fail(said, error) {
    const field = $(FIELDS[error.param] || 'file');
    const words = error.param ? error.message.replace(error.param + ': ', '') : error.message;
    said.fail(words);
    showError(field, words);
  }

  // --- Files ---------------------------------------------------------------------------------------------
  async read(file, said, signal) {
    const begun = performance.now();
    let last = null;
    const response = await this.send(file, file.name, true, signal);
    if (!response.ok) return this.fail(said, await errorOf(response));
    for await (const event of eventsOf(response)) {
      if (event.error) return this.fail(said, event.error);
      if (event.type === 'transcript.text.segment') said.settled.push(event);
      if (event.type === 'transcript.text.delta' && !this.model.speech_times) {
        said.text += event.delta;
        said.tail = [{text: said.text}];
      }
      if (event.type === 'transcript.text.done') last = event;
      said.show();
      if (said.settled.length) said.state(`${minutes(said.settled.at(-1).end)} so far`);
    }
    if (!last) return this.fail(said, {message: 'the answer broke off'});
    const took = (performance.now() - begun) / 1000;
    if (!said.segments.length) said.tail = [{text: last.text || '(nothing was heard)'}];
    said.show();
    said.state(last.language, `${last.duration.toFixed(1)} s of sound`, `${took.toFixed(1)} s`,
               last.duration > 0 && `${(last.duration / took).toFixed(1)} × as fast as it is said`);
  }
  begin(titles) {
    clearErrors(this.form);
    this.working = new AbortController();
    const cards = titles.map((title) => new Transcript(title, this.model.speech_times));
    $('transcripts').replaceChildren(...cards.map((said) => said.card));
    return cards;
  }
  finish(cards) {
    this.working = null;
    for (const said of cards) said.end();
    showBusy($('transcribe-go'), $('hear-stop'), false);
    $('record').disabled = false;
    announce(cards.some((said) => said.failed) ? 'Failed.' : 'The transcript is complete.');
    focusError(this.form);
  }
  async guarded(said, work) {
    try {
      await work();
    } catch (e) {
      const error = failureOf(e);
      if (error) this.fail(said, error);
      else said.state('stopped');
    }
    said.end();
  }
  async run() {
    if (this.working) return;
    if (!this.chosen.length) {
      showError($('file'), 'choose a file first, or record something');
      return $('file').focus();
    }
    const files = this.chosen, cards = this.begin(files.map((file) => file.name)), {signal} = this.working;
    $('record').disabled = true;
    showBusy($('transcribe-go'), $('hear-stop'), true);
    for (const [i, said] of cards.entries()) {
      if (signal.aborted) said.state('stopped');
      else await this.guarded(said, () => this.read(files[i], said, signal));
    }
    this.finish(cards);
  }

  // --- The microphone ------------------------------------------------------------------------------------
  // Sends what is not settled yet, again and again. Returns where that begins then; segments that others
  // have followed, or all if it is long, are settled.
  async look(from, said, last, signal) {
    const {recorder} = this, end = recorder.size, start = from / recorder.rate, length = (end - from) / recorder.rate;
    if (length < (last ? 0.1 : 0.5)) return from;
    const response = await this.send(recorder.file(from), 'microphone.wav', false, signal);
    if (!last && (response.status === 429 || response.status === 503)) return from;  // later then
    if (!response.ok) {
      this.fail(said, await errorOf(response));
      return from;
    }
    const answer = await response.json();
    said.tail = (answer.segments || [{start: 0, end: length, text: answer.text}]).filter((s) => s.text.trim())
        .map((s) => ({start: start + s.start, end: start + Math.min(s.end, length), text: s.text}));
    if (length > LONGEST_TAIL) {
      const open = said.tail.length > 1 ? said.tail.pop() : null;
      said.settled.push(...said.tail);
      said.tail = open ? [open] : [];
      from = open ? Math.round(open.start * recorder.rate) : end;
    }
    said.show();
    return from;
  }
  // Over a WebSocket. False: there was none, and nothing is lost.
  async caption(said) {
    const {recorder} = this, transcription = {};
    if ($('speech_language').value) transcription.language = $('speech_language').value;
    if ($('speech_prompt').value && this.model.speech_times) transcription.prompt = $('speech_prompt').value;
    const seconds = () => `${(recorder.size / recorder.rate).toFixed(1)} s of sound`;
    const show = (settled, tail) => {
      Object.assign(said, {settled, tail});
      said.show();
      said.state(!recorder.stopped && 'listening', seconds());
    };
    try {
      const captions = new Captions(recorder, {transcription}, show);
      recorder.wake = () => captions.stop();
      if (recorder.stopped) captions.stop();
      await captions.ended;
    } catch (error) {
      if (error.unopened || error instanceof DOMException) return false;
      this.fail(said, error);
    }
    if (!said.failed) said.state(!said.segments.length && 'nothing was heard', seconds());
    return true;
  }
  async listen(said) {
    const {recorder} = this, {signal} = this.working;
    // (The server takes rates of whole samples in 8 ms.)
    const live = $('speech_task').value !== 'translate' && recorder.rate % 125 === 0;
    if (live && await this.caption(said)) return;
    let from = 0;
    for (let last = false; !last && !said.failed;) {
      if (!recorder.stopped)
        await new Promise((resolve) => { recorder.wake = resolve; setTimeout(resolve, PERIOD * 1000); });
      last = recorder.stopped;
      from = await this.look(from, said, last, signal);
      said.state(last ? '' : 'listening', `${(recorder.size / recorder.rate).toFixed(1)} s of sound`);
    }
    if (!said.failed && !said.segments.length) said.state('nothing was heard');
  }
  async record() {
    if (this.recorder) {  // the last look is under way, or the next one
      this.recorder.stopped = true;
      this.recorder.stop();
      this.recorder.wake();
      $('record').disabled = true;
      return;
    }
    if (this.working) return;
    const [said] = this.begin(['Microphone']), started = new Recorder();
    try {
      await started.start();
    } catch (e) {
      started.stop();
      const words = e.name === 'NotAllowedError' ? 'the browser does not let the page hear the microphone'
                                                 : 'there is no microphone: ' + e.message;
      this.fail(said, {message: words});
      return this.finish([said]);
    }
    this.recorder = Object.assign(started, {stopped: false, wake: () => {}});
    said.state('listening');
    announce('Listening.');
    $('transcribe-go').disabled = true;
    this.showRecording(true);
    await this.guarded(said, () => this.listen(said));
    if (!started.stopped) started.stop();
    this.recorder = null;
    this.showRecording(false);
    this.finish([said]);
  }
  showRecording(on) {
    $('record').setAttribute('aria-pressed', String(on));
    $('record').textContent = on ? 'Stop recording' : 'Record';
  }
}
