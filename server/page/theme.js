// Light or dark: the system's choice, until the button is pressed. This browser keeps that.
import {$} from './dom.js';

const root = document.documentElement, THEME = 'tandem-theme';
const dark = matchMedia('(prefers-color-scheme: dark)');
try { root.dataset.theme = localStorage.getItem(THEME) || ''; } catch { /* no storage: the system's */ }
$('theme-button').onclick = () => {
  const isDark = root.dataset.theme ? root.dataset.theme === 'dark' : dark.matches;
  root.dataset.theme = isDark ? 'light' : 'dark';
  try { localStorage.setItem(THEME, root.dataset.theme); } catch { /* for this visit then */ }
};
