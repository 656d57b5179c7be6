// The summariser: a text of any length, and its summary.
import {curlJson} from './api.js';
import {PACKAGES, ARTICLE} from './samples.js';
import {TextTask} from './text_task.js';

export class Summariser extends TextTask {
  constructor(model) {
    super('summarise', {source: 'Text to summarise', output: 'Summary', go: 'Summarise', done: 'The summary is complete.',
                        placeholder: 'Paste an article, or drop a text file', empty: 'The summary'});
    this.tasks = (model.tasks || []).filter((name) => name.startsWith('summarization'));
    this.setSamples({'a news article': ARTICLE, 'a package': PACKAGES.spreadsheets, 'another package': PACKAGES.weather});
  }
  mark() { return 'summary'; }
  request() { return {split: 'auto', merge: 'summary', ...(this.tasks.length && {task: this.tasks[0]})}; }
  unlimited() { return this.tasks.length === 0; }  // a task has lengths of its own
  curl() { return curlJson('/v1/completions', this.body()); }
}
