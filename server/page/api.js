// Requests to the server, with the key if it wants one.
import {apiKey, wantKey} from './key.js';

export const ROOT = document.documentElement.dataset.root;  // what a proxy puts before each path

export const bearer = () => apiKey() ? {Authorization: 'Bearer ' + apiKey()} : {};

// fetch(), and the dialog until the key is right or nobody gives one.
export async function ask(path, options = {}) {
  for (;;) {
    const used = apiKey();
    const response = await fetch(ROOT + path, {...options, headers: {...options.headers, ...bearer()}, cache: 'no-store'});
    if (response.status !== 401 && response.status !== 403) return response;
    if (response.status === 403 && !used) return response;
    if (used === apiKey() && !(await wantKey(used !== ''))) return response;
  }
}
export const socketAddress = (path) => location.origin.replace('http', 'ws') + ROOT + path;
// Pages send a key with a WebSocket as a protocol's name. Throws where it cannot be one.
export const openSocket = (path) => new WebSocket(socketAddress(path),
  ['realtime', ...(apiKey() ? ['openai-insecure-api-key.' + apiKey()] : [])]);
export const askJson = (path, body, signal) => ask(path, {
  method: 'POST', signal, body: JSON.stringify(body), headers: {'Content-Type': 'application/json'}});

// Of an answer that is no 200: {message, param}. LibreTranslate's routes have a text alone.
export async function errorOf(response) {
  const {error} = await response.json().catch(() => ({}));
  if (typeof error === 'string') return {message: error};
  if (error && response.status === 429) return {...error, message: 'the server is busy: ' + error.message};
  return error || {message: `the server answered ${response.status}`};
}
export async function* eventsOf(response) {
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    rest += decoder.decode(value, {stream: true});
    const events = rest.split('\n\n');
    rest = events.pop();
    for (const event of events)
      if (event.startsWith('data: ') && event !== 'data: [DONE]') yield JSON.parse(event.slice(6));
  }
}

// One text of /v1/completions as it comes: onText(piece, index of the choice). Returns {usage, cut, warnings, parsed}, or
// {stopped: true}, or {error}.
export async function complete(body, signal, onText) {
  const out = {usage: null, cut: false, warnings: [], parsed: []};
  try {
    const response = await askJson('/v1/completions', {...body, stream: true, stream_options: {include_usage: true}}, signal);
    if (!response.ok) return {error: await errorOf(response)};
    for await (const event of eventsOf(response)) {
      if (event.error) return {error: event.error};
      for (const choice of event.choices) {
        onText(choice.text || '', choice.index);
        if (choice.finish_reason === 'length') out.cut = true;
        if (choice.parsed !== undefined) out.parsed[choice.index] = choice.parsed;
      }
      if (event.warnings) out.warnings.push(...event.warnings);
      if (event.usage) out.usage = event.usage;
    }
    return out;
  } catch (e) {
    const error = failureOf(e);
    return error ? {error} : {stopped: true};
  }
}
// Of what is thrown: {message}, or null if somebody stopped it.
export function failureOf(e) {
  if (e.name === 'AbortError') return null;
  return {message: e instanceof TypeError ? 'the server cannot be reached' : e.message};
}

// --- The same with curl ------------------------------------------------------------------------------
const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
const head = (path, flags) => `curl ${flags}${location.origin}${ROOT}${path} ` +
    (apiKey() ? '\\\n     -H "Authorization: Bearer $TANDEM_API_KEY" ' : '');
export const curlAlone = (path, flags = '') => head(path, flags).trimEnd();
export function curlJson(path, body, flags = '') {
  const text = JSON.stringify(body, null, 1).replaceAll(/\n */g, ' ')
      .replace(/(data:[a-z]+\/[a-z]+;base64,)[^"]*/, '$1…');
  return `${head(path, flags)}\\\n     -H 'Content-Type: application/json' \\\n     -d ${quoted(text)}`;
}
export const curlForm = (path, fields) => `${head(path, '')}\\\n` +
    Object.entries(fields).map(([name, value]) => `     -F ${quoted(name + '=' + value)}`).join(' \\\n');
