// The API key of this tab, and the dialog that asks for it.
import {$, button, element} from './dom.js';

const KEY = 'tandem-api-key';
let key = sessionStorage.getItem(KEY) || '';
let wanted = null;  // while the dialog is open: a promise, of whether there is a new key

const dialog = element('dialog'), form = element('form'), input = element('input'), error = element('p', 'error');
const use = element('button', 'primary', 'Use it'), cancel = button('Not now', () => dialog.close());
const title = element('h2', '', 'API key'), label = element('label', '', 'Key'), actions = element('div', 'actions');
for (const [e, id] of [[dialog, 'key-dialog'], [form, 'key-form'], [input, 'key'], [error, 'key-error'],
                       [cancel, 'key-cancel'], [title, 'key-title']]) e.id = id;
dialog.setAttribute('aria-labelledby', title.id);
label.htmlFor = input.id;
Object.assign(input, {type: 'password', autocomplete: 'off', spellcheck: false});
input.setAttribute('aria-describedby', error.id);
error.setAttribute('role', 'alert');
actions.append(use, cancel);
form.append(title, element('p', '', 'This server wants a key. It stays in this tab.'), label, input, error, actions);
dialog.append(form);
document.body.append(dialog);

export const apiKey = () => key;

// wrong: the server did not take the one that it got. Event "key" on the document: there is a new one.
export function wantKey(wrong) {
  if (wanted) return wanted;
  $('key-button').hidden = false;
  error.textContent = wrong ? 'The server does not know this key.' : '';
  wanted = new Promise((resolve) => {
    let given = false;
    form.onsubmit = (event) => {
      event.preventDefault();
      key = input.value.trim();
      sessionStorage.setItem(KEY, key);
      given = key !== '';
      dialog.close();
    };
    dialog.onclose = () => {
      wanted = null;
      input.value = '';
      resolve(given);
      if (given) setTimeout(() => document.dispatchEvent(new Event('key')));
    };
    dialog.showModal();
  });
  return wanted;
}
$('key-button').hidden = !key;
$('key-button').onclick = () => wantKey(false);
