// What every part of the page uses. Text of the server's or the model's becomes text nodes only.
export const $ = (id) => document.getElementById(id);
// content: texts and elements.
export const element = (tag, className = '', ...content) => {
  const e = document.createElement(tag);
  e.className = className;
  e.append(...content);
  return e;
};
export const button = (text, act, className = '') => {
  const e = element('button', className, text);
  e.type = 'button';
  e.onclick = act;
  return e;
};
export const option = (value, text) => Object.assign(element('option', '', text), {value});
export const setText = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };
export const count = (n) => Math.round(n).toLocaleString('en');
export const brief = (n) => n < 1e6 ? count(n) : n.toLocaleString('en', {notation: 'compact', maximumFractionDigits: 2});
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;
export const seconds = (ms) => ms < 1000 ? `${count(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
export const size = (bytes) => bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

// While something runs, only Stop can be pressed; the focus does not get lost.
export function showBusy(go, stop, busy) {
  const held = document.activeElement;
  go.disabled = busy;
  stop.disabled = !busy;
  if (held === (busy ? go : stop)) (busy ? stop : go).focus();
}

// Said to people who do not see the page.
export const announce = (text) => { $('announce').textContent = text; };

// --- Errors: in words, at their field ----------------------------------------------------------------
export function showError(field, message) {
  const place = $('error-' + field.id);
  place.textContent = message;
  field.setAttribute('aria-invalid', 'true');
}
export function clearErrors(within) {
  for (const e of within.querySelectorAll('[aria-invalid]')) e.removeAttribute('aria-invalid');
  for (const e of within.querySelectorAll('.error')) e.textContent = '';
}
export function focusError(within) {
  const wrong = within.querySelector('[aria-invalid]');
  if (wrong) wrong.focus();
}

// --- Files -------------------------------------------------------------------------------------------
export function save(name, content, type = 'text/plain') {
  const link = element('a');
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
// take(files): what is dropped there, or pasted while `active()`.
export function takeFiles(target, take, active = () => false) {
  for (const name of ['dragenter', 'dragover'])
    target.addEventListener(name, (event) => {
      if (![...event.dataTransfer.types].includes('Files')) return;
      event.preventDefault();
      target.classList.add('over');
    });
  target.addEventListener('dragleave', (event) => {
    if (!target.contains(event.relatedTarget)) target.classList.remove('over');
  });
  target.addEventListener('drop', (event) => {
    target.classList.remove('over');
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    take([...event.dataTransfer.files]);
  });
  document.addEventListener('paste', (event) => {
    if (!active() || !event.clipboardData.files.length) return;
    event.preventDefault();
    take([...event.clipboardData.files]);
  });
}

// A button that copies text(); it says so for a moment.
export function copyButton(text) {
  const e = button('Copy', async () => {
    try {
      await navigator.clipboard.writeText(text());
      e.textContent = 'Copied';
      announce('Copied.');
    } catch {
      e.textContent = 'Not allowed';
      announce('The browser does not allow it.');
    }
    setTimeout(() => { e.textContent = 'Copy'; }, 1600);
  });
  e.hidden = !navigator.clipboard;  // of an address that is neither HTTPS nor localhost
  return e;
}

// Ctrl+Enter, or Command+Enter, while `section` is shown.
export function onRun(section, run) {
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    if (section.hidden || $('key-dialog').open) return;
    event.preventDefault();
    run();
  });
}

// A field of numbers or text, with the place of its error. name: the request's; shown: its label.
export function field(prefix, name, label, attributes, hint = '') {
  const box = element('div', 'field'), input = element('input'), id = `${prefix}-${name}`;
  const title = element('label', '', label);
  title.htmlFor = input.id = id;
  if (hint) title.append(' ', element('span', 'hint', hint));
  for (const [key, value] of Object.entries(attributes)) input.setAttribute(key, value);
  input.setAttribute('aria-describedby', 'error-' + id);
  input.dataset.name = name;
  const error = element('p', 'error');
  error.id = 'error-' + id;
  box.append(title, input, error);
  return box;
}
// What stands in such fields, as a request's.
export function fieldValues(within) {
  const out = {};
  for (const input of within.querySelectorAll('[data-name]'))
    if (input.value.trim() !== '') out[input.dataset.name] = input.type === 'number' ? Number(input.value) : input.value;
  return out;
}
