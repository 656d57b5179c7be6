// What was said in one recording: a card with its segments as they come, and files of subtitles.
import {announce, button, copyButton, element, save} from './dom.js';

const pad = (n, width = 2) => String(n).padStart(width, '0');
const clock = (seconds, point) => {
  const ms = Math.max(0, Math.round(seconds * 1000));
  const parts = [Math.floor(ms / 3600000), Math.floor(ms / 60000) % 60, Math.floor(ms / 1000) % 60];
  return parts.map((n) => pad(n)).join(':') + point + pad(ms % 1000, 3);
};
export const minutes = (seconds) => `${Math.floor(seconds / 60)}:${pad(Math.floor(seconds % 60))}`;

export class Transcript {
  constructor(title, times) {
    this.title = title;
    this.settled = [];  // segments: start, end (seconds; or nothing), text
    this.tail = [];     // that may change yet
    this.text = '';     // of a model without times
    this.card = element('article', 'run said');
    this.card.setAttribute('aria-busy', 'true');
    this.card.setAttribute('aria-label', 'Transcript of ' + title);
    this.facts = element('p', 'facts', 'waiting for the first words');
    this.list = element('ol', 'segments');
    this.list.tabIndex = 0;
    this.tools = element('p', 'actions');
    this.tools.hidden = true;
    this.card.append(element('h2', '', title), this.facts, this.list, this.tools);
    this.tools.append(copyButton(() => this.plain()));
    for (const kind of ['txt', 'srt', 'vtt'])
      if (kind === 'txt' || times) this.tools.append(button(kind === 'txt' ? 'Save text' : 'Save ' + kind.toUpperCase(), () => this.save(kind)));
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
  save(kind) {
    const text = kind === 'txt' ? this.plain() + '\n' : this.subtitles(kind);
    save(`${this.title.replace(/\.[^.]+$/, '')}.${kind}`, text, kind === 'vtt' ? 'text/vtt' : 'text/plain');
    announce(`${kind.toUpperCase()} file saved.`);
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
        item.lastChild.dir = 'auto';
        this.list.append(item);
      }
      const time = segment.start === undefined ? '' : minutes(segment.start), text = segment.text.trim();
      if (item.children[0].textContent !== time) item.children[0].textContent = time;
      if (item.children[1].textContent !== text) item.children[1].textContent = text;
      item.classList.toggle('open', i >= this.settled.length);
    });
    this.tools.hidden = shown.length === 0;
  }
  state(...facts) { this.facts.replaceChildren(...facts.filter(Boolean).map((fact) => element('span', '', fact))); }
  // field: where the words stand too.
  fail(message) {
    this.failed = true;
    this.state('failed');
    this.card.append(element('p', 'error', message));
  }
  end() { this.card.setAttribute('aria-busy', 'false'); }
}
