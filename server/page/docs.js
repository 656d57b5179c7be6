// The page at /docs: shows /openapi.json. What the document says becomes text nodes only.
import {$, element} from './dom.js';
import {ask, curlAlone, curlForm, curlJson, errorOf, failureOf, socketAddress} from './api.js';
import './theme.js';

// --- Schemas ---
let schemas = {};
const REF = '#/components/schemas/';
const nameOf = (schema) => (schema.$ref || '').slice(REF.length);
const resolved = (schema) => schema.$ref ? schemas[nameOf(schema)] : schema;
const alternatives = (schema) => schema.oneOf || schema.anyOf || [];

// In a few words.
function typeOf(schema) {
  if (schema.$ref) return nameOf(schema);
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(' | ');
  if (alternatives(schema).length) return [...new Set(alternatives(schema).map(typeOf))].join(' | ');
  if (schema.allOf) return schema.allOf.map(typeOf).join(' & ');
  const types = [schema.type || 'any'].flat();
  const bounds = [['minimum', '≥ '], ['exclusiveMinimum', '> '], ['maximum', '≤ ']]
      .filter(([bound]) => bound in schema).map(([bound, sign]) => sign + schema[bound]);
  const text = types.map((type) => type === 'array' ? 'list of ' + typeOf(schema.items || {}) : type).join(' | ');
  return [text, ...bounds].join(', ') + ('default' in schema ? ', default ' + JSON.stringify(schema.default) : '');
}

// Those with members of their own, that a schema is made of.
function objectsIn(schema, seen = new Set()) {
  const found = resolved(schema);
  if (!found || seen.has(found)) return [];
  seen.add(found);
  if (found.properties) return [found];
  const inner = [...alternatives(found), ...(found.allOf || [])];
  for (const under of [found.items, found.additionalProperties]) if (under && typeof under === 'object') inner.push(under);
  return inner.flatMap((one) => objectsIn(one, seen));
}

// Of all members, down to the last one.
function collectNames(schema, names, seen = new Set()) {
  for (const object of objectsIn(schema).filter((one) => !seen.has(one))) {
    seen.add(object);
    for (const [name, member] of Object.entries(object.properties)) {
      names.add(name);
      collectNames(member, names, seen);
    }
  }
}

function members(schema) {
  const list = element('ul', 'schema');
  const objects = objectsIn(schema);
  objects.forEach((object, i) => {
    if (i > 0 && !schema.allOf) list.append(element('li', 'type', 'or'));
    for (const [name, member] of Object.entries(object.properties)) list.append(memberOf(name, member, object));
  });
  return objects.length ? list : null;
}

function memberOf(name, schema, object) {
  const line = [element('code', '', name), ' ', element('span', 'type', typeOf(schema))];
  if ((object.required || []).includes(name)) line.push(' ', element('span', 'must', 'required'));
  if (schema.description) line.push(' ', element('span', 'hint', schema.description));
  if (!objectsIn(schema).length) return element('li', '', ...line);
  const more = element('details', '', element('summary', '', ...line));
  more.addEventListener('toggle', () => more.append(members(schema)), {once: true});
  return element('li', '', more);
}

function shown(title, content) {
  return Object.entries(content || {}).flatMap(([type, {schema}]) => {
    const about = resolved(schema).description;
    const parts = [element('h3', '', title + ' ', element('span', 'type hint', `${type}: ${typeOf(schema)}`))];
    if (about) parts.push(element('p', 'hint', about));
    const inside = members(resolved(schema));
    return inside ? [...parts, inside] : parts;
  });
}

// --- Routes ---
// The status and the content of an answer without an error.
function success(operation) {
  const [status, {content}] = Object.entries(operation.responses).find(([code]) => code < '3');
  return {status, content};
}
function curl(method, path, operation) {
  if (success(operation).status === '101') return socketAddress(path);
  const content = (operation.requestBody || {}).content || {}, [type] = Object.keys(content);
  const verb = method === 'get' || method === 'post' ? '' : `-X ${method.toUpperCase()} `;
  if (!type) return curlAlone(path, method === 'post' ? '-d "" ' : verb);
  if (type === 'multipart/form-data') return curlForm(path, {file: '@talk.flac'});
  return curlJson(path, exampleOf(content[type].schema), verb);
}
function exampleOf(schema) {
  const found = resolved(schema);
  if (found.examples) return found.examples[0];
  if (found.allOf) return Object.assign({}, ...found.allOf.map(exampleOf));
  if (alternatives(found).length) return exampleOf(alternatives(found)[0]);
  if ('const' in found) return found.const;
  if (found.enum) return found.enum[found.enum.length - 1];
  if (found.type === 'array') return [exampleOf(found.items || {type: 'string'})];
  if (found.type === 'object') return Object.fromEntries((found.required || []).map((name) => [name, exampleOf(found.properties[name])]));
  return found.type === 'integer' ? 5 : 'A text.';
}

function fill(route, method, path, operation) {
  const inside = element('div', 'inside'), answer = success(operation);
  inside.append(...shown('Request', (operation.requestBody || {}).content),
                ...(answer.content ? shown('Answer', answer.content)
                                   : [element('h3', '', 'Answer ', element('span', 'type hint', `${answer.status}: nothing`))]),
                ...shown('Error', operation.responses.default.content),
                element('h3', '', 'Command'), element('pre', '', curl(method, path, operation)));
  route.append(inside);
}

function routeOf(method, path, operation) {
  const route = element('details', 'route', element('summary', '',
      element('span', 'method', method.toUpperCase()), element('code', '', path), element('span', 'says', operation.summary)));
  route.id = `${method}${path}`;
  route.addEventListener('toggle', () => fill(route, method, path, operation), {once: true});
  const names = new Set();
  for (const content of [(operation.requestBody || {}).content, success(operation).content])
    for (const {schema} of Object.values(content || {})) collectNames(schema, names);
  route.dataset.words = [method, path, operation.summary, ...names].join(' ').toLowerCase();
  return route;
}

function filter() {
  const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  const routes = [...document.querySelectorAll('.route')];
  for (const route of routes) route.hidden = !words.every((word) => route.dataset.words.includes(word));
  const left = routes.filter((route) => !route.hidden).length;
  $('count').textContent = left === routes.length ? `${left} routes` : `${left} of ${routes.length} routes`;
}

// What the address names is open.
function openNamed() {
  const route = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!route || !route.classList.contains('route')) return;
  route.open = true;
  route.scrollIntoView();
}

function show(document_) {
  schemas = document_.components.schemas;
  $('title').textContent = `${document_.info.title} ${document_.info.version}`;
  $('routes').replaceChildren(...Object.entries(document_.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => routeOf(method, path, operation))));
  $('list').hidden = false;
  $('filter').oninput = filter;
  filter();
  openNamed();
  addEventListener('hashchange', openNamed);
}

async function load() {
  try {
    const response = await ask('/openapi.json');
    if (!response.ok) throw new Error((await errorOf(response)).message);
    show(await response.json());
    $('error').textContent = '';
  } catch (error) {
    $('error').textContent = failureOf(error).message;
    document.addEventListener('key', load, {once: true});
  }
}
load();
