// Live captions: the microphone's samples go to /v1/realtime while they are recorded. What is settled comes
// back, and what may yet change.
import {openSocket} from './api.js';

export class Captions {
  // settings: session.audio.input, but for the format. `ended` is rejected with {message, param}; with
  // {unopened} where there was no session at all.
  constructor(recorder, settings, show) {
    Object.assign(this, {recorder, show, items: new Map(), stopping: false, committed: false});
    this.ended = new Promise((resolve, reject) => Object.assign(this, {resolve, reject}));
    this.socket = openSocket('/v1/realtime');
    this.socket.onopen = () => {
      const format = {type: 'audio/pcm', rate: recorder.rate};
      this.send({type: 'session.update', session: {type: 'transcription', audio: {input: {format, ...settings}}}});
      recorder.give((samples) => this.append(samples));
      this.opened = true;
      if (this.stopping) this.stop();
    };
    this.socket.onmessage = ({data}) => this.take(JSON.parse(data));
    this.socket.onclose = ({reason}) => {
      if (this.opened && this.done()) this.resolve();
      else this.reject({unopened: !this.opened, message: 'the server has ended the session' + (reason && ': ' + reason)});
    };
  }
  send(event) { this.socket.send(JSON.stringify(event)); }
  append(samples) {
    if (this.socket.readyState !== WebSocket.OPEN || this.committed) return;
    let bytes = '';
    for (const byte of new Uint8Array(samples.buffer)) bytes += String.fromCharCode(byte);
    this.send({type: 'input_audio_buffer.append', audio: btoa(bytes)});
  }
  // The rest is transcribed yet.
  stop() {
    this.stopping = true;
    if (!this.opened) return;
    this.send({type: 'input_audio_buffer.commit', event_id: 'last'});
    this.committed = true;
  }
  done() { return this.replied && [...this.items.values()].every((item) => item.ended); }

  take(event) {
    const kind = event.type.split('.').at(-1), seconds = this.recorder.size / this.recorder.rate;
    if (kind === 'error' && event.error.event_id !== 'last')
      return this.fail({...event.error, param: (event.error.param || '').split('.').at(-1)});
    if (kind === 'failed') return this.fail(event.error);
    if (event.item_id && !this.items.has(event.item_id)) this.items.set(event.item_id, {start: seconds, text: '', partial: ''});
    const item = this.items.get(event.item_id);
    if (kind === 'speech_started') item.start = event.audio_start_ms / 1000;
    if (kind === 'speech_stopped') item.end = event.audio_end_ms / 1000;
    if (kind === 'delta') Object.assign(item, {text: item.text + event.delta, partial: event.partial});
    if (kind === 'completed') Object.assign(item, {text: event.transcript, partial: '', ended: true, end: item.end || seconds});
    if (this.committed && (kind === 'committed' || kind === 'error')) this.replied = true;
    const items = [...this.items.values()];
    this.show(items.filter(({text}) => text.trim()).map((item) => ({end: seconds, ...item})),
              items.filter(({partial}) => partial.trim()).map(({partial}) => ({start: seconds, end: seconds, text: partial})));
    if (this.done()) this.socket.close();
  }
  fail(error) {
    this.reject(error);
    this.socket.close();
  }
}
