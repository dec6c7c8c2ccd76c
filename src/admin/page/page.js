'use strict';

// Asks the service every two seconds and shows what it says. Whatever comes from there is put in
// as text, never as markup: a node's name may hold anything.

const EVERY_MS = 2000;
const PATIENCE_MS = 5000;
const PAGE = 100;
const MOST = 1000;

const at = (id) => document.getElementById(id);
const rows = new Map();
let limit = PAGE;
let timer = 0;
let asked = 0;
let answered = null;
let shownNodes = '';
let asking = null;

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// A name on one line: line breaks are shown as a sign, other control characters as unknown.
function visible(name) {
  return name.replace(/\r?\n|[\r\u0085\u2028\u2029]/g, '\u21b5').replace(/[\u0000-\u001f\u007f-\u009f]/g, '\ufffd');
}

// A name among other words: its direction of writing stays its own.
function isolated(name) {
  return '\u2068' + visible(name) + '\u2069';
}

function count(number) {
  return number.toLocaleString('en');
}

function bytes(number) {
  if (number < 1024) return number + ' B';
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let unit = -1;
  do {
    number /= 1024;
    unit += 1;
  } while (number >= 999.5 && unit < units.length - 1);
  return number.toFixed(number < 9.995 ? 2 : number < 99.95 ? 1 : 0) + ' ' + units[unit];
}

function duration(seconds) {
  const whole = Math.floor(seconds);
  const two = (number) => String(number).padStart(2, '0');
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days > 0) return days + ' d ' + two(hours) + ' h';
  if (hours > 0) return hours + ' h ' + two(minutes) + ' min';
  if (minutes > 0) return minutes + ' min ' + two(whole % 60) + ' s';
  return whole + ' s';
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// ---- the service ------------------------------------------------------------------------------

function showState(state, text) {
  at('state').dataset.state = state;
  set(at('state-text'), text);
  document.title = state === 'ready' ? 'Lineway' : text + ' · Lineway';
}

function showNotice(title, items, bad) {
  at('notice').hidden = !title;
  at('notice').classList.toggle('bad', Boolean(bad));
  set(at('notice-title'), title);
  const list = at('notice-list');
  if (list.dataset.items !== JSON.stringify(items)) {
    list.dataset.items = JSON.stringify(items);
    list.replaceChildren(...items.map((item) => element('li', '', item)));
  }
}

function showService(service, nodes) {
  set(at('version'), service.version);
  set(at('uptime'), duration(service.uptime_seconds));
  set(at('open'), count(service.lines_open));
  if (service.ready) {
    showState('ready', 'Ready');
    showNotice('', [], false);
    return;
  }
  showState('waiting', service.reasons.length > 0 ? capital(service.reasons[0]) : 'Not ready');
  const reasons = service.reasons.map((reason) => 'service: ' + reason);
  for (const node of nodes) {
    if (!node.ready) reasons.push(isolated(node.name) + ': ' + node.reason);
  }
  showNotice('Not ready', reasons, false);
}

// ---- chains -----------------------------------------------------------------------------------

function chainsOf(nodes) {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const followers = new Set(nodes.map((node) => node.next));
  const seen = new Set();
  const from = (first) => {
    const chain = [];
    const inChain = new Set();
    for (let node = first; node && !inChain.has(node.name); node = byName.get(node.next)) {
      chain.push(node);
      inChain.add(node.name);
      seen.add(node.name);
    }
    return chain;
  };
  const chains = nodes.filter((node) => !followers.has(node.name)).map(from);
  for (const node of nodes) {
    if (!seen.has(node.name)) chains.push(from(node));
  }
  return chains;
}

function addresses(settings) {
  const parts = [];
  if (settings.listen) parts.push(settings.listen.join(', '));
  if (settings.connect) parts.push('to ' + settings.connect.join(', '));
  if (settings.lines) parts.push(count(settings.lines) + (settings.lines === 1 ? ' line' : ' lines') + ' a worker');
  if (settings.candidates) parts.push(count(settings.candidates) + (settings.candidates === 1 ? ' candidate' : ' candidates') + ' a line');
  if (settings.server_first_delay_ms) parts.push('server first after ' + count(settings.server_first_delay_ms) + ' ms');
  return parts.join(' ');
}

function nodeBox(node, first) {
  const box = element('article', node.ready ? 'node' : 'node not-ready');
  const name = element('span', 'name', visible(node.name));
  name.dir = 'auto';
  name.title = visible(node.name);
  const address = element('span', 'address', addresses(node.settings));
  address.title = address.textContent;
  const health = element('span', 'health');
  health.append(element('span', 'dot'), element('span', '', node.ready ? 'ready' : node.reason));
  const foot = element('span', 'foot');
  foot.append(health);
  if (first || node.lines_open > 0) foot.append(element('span', 'open', count(node.lines_open) + ' open'));
  box.append(name, element('span', 'type', node.type), address, foot);
  return box;
}

function showNodes(nodes) {
  const text = JSON.stringify(nodes);
  if (text === shownNodes) return;
  shownNodes = text;
  const chains = chainsOf(nodes).map((chain) => {
    const list = element('ol', 'chain');
    list.append(...chain.map((node, index) => {
      const item = element('li');
      item.append(nodeBox(node, index === 0));
      return item;
    }));
    return list;
  });
  if (chains.length === 0) chains.push(element('p', 'empty', 'The configuration has no nodes.'));
  at('chains').replaceChildren(...chains);
  showFilter(nodes.map((node) => node.name));
}

function showFilter(names) {
  const select = at('node');
  const now = select.value;
  if (now && !names.includes(now)) names = [...names, now];
  const old = Array.from(select.options, (option) => option.value).slice(1);
  if (JSON.stringify(old) === JSON.stringify(names)) return;
  const options = names.map((name) => {
    const option = element('option', '', visible(name));
    option.value = name;
    return option;
  });
  select.replaceChildren(select.options[0], ...options);
  select.value = now;
}

// ---- lines ------------------------------------------------------------------------------------

// What a line made follows it; how deep a line stands below the first one.
function arranged(lines) {
  const byId = new Map(lines.map((line) => [line.id, line]));
  const made = new Map(lines.map((line) => [line.id, []]));
  const all = [];
  for (const line of lines) {
    if (line.maker && byId.has(line.maker)) made.get(line.maker).push(line);
  }
  const add = (line, depth) => {
    all.push([line, depth]);
    for (const child of made.get(line.id)) add(child, depth + 1);
  };
  for (const line of lines) {
    if (!line.maker || !byId.has(line.maker)) add(line, line.maker ? 1 : 0);
  }
  return all;
}

const COLUMNS = ['Line', 'Node', 'Peer', 'Age', 'State', 'Upstream', 'Downstream', 'Queued', 'Paused', ''];

function row(id) {
  const made = element('tr');
  for (const label of COLUMNS) {
    const cell = element('td');
    cell.dataset.label = label;
    made.append(cell);
  }
  for (const index of [3, 5, 6, 7]) made.cells[index].className = 'right';
  const name = element('bdi');
  made.cells[1].append(name);
  made.dataset.id = id;
  const button = element('button', '', 'Close');
  button.type = 'button';
  button.setAttribute('aria-label', 'Close line ' + id);
  button.addEventListener('click', () => ask(id, made));
  made.cells[9].append(button);
  return made;
}

function eitherWay(up, down) {
  return [up && '↑ ' + up, down && '↓ ' + down].filter(Boolean).join('  ');
}

function fill(made, line, depth) {
  const cells = made.cells;
  set(cells[0], line.id);
  made.className = depth > 0 ? 'made' : '';
  made.style.setProperty('--depth', Math.min(depth, 4));
  made.dataset.maker = line.maker || '';
  cells[0].title = capital(line.kind) + ' line' + (line.maker ? ', made by ' + line.maker : '') + ', opened at ' + line.opened_at;
  set(cells[1].firstChild, visible(line.node));
  cells[1].title = visible(line.node);
  set(cells[2], line.peer || (line.maker ? 'of ' + line.maker : '–'));
  cells[2].classList.toggle('none', !line.peer);
  cells[2].title = line.peer || '';
  set(cells[3], duration(line.age_seconds));
  set(cells[4], line.state);
  cells[4].dataset.state = line.state;
  set(cells[5], bytes(line.bytes.upstream));
  set(cells[6], bytes(line.bytes.downstream));
  const queued = line.queued.upstream + line.queued.downstream;
  set(cells[7], queued ? bytes(queued) : '–');
  cells[7].classList.toggle('none', !queued);
  cells[7].title = queued ? eitherWay(bytes(line.queued.upstream), bytes(line.queued.downstream)) : '';
  const paused = eitherWay(line.paused.upstream.join(', '), line.paused.downstream.join(', '));
  set(cells[8], paused || '–');
  cells[8].title = paused;
  cells[8].classList.toggle('none', !paused);
  cells[8].classList.toggle('held', Boolean(paused));
}

function showLines(answer) {
  const body = at('lines');
  const gone = new Set(rows.keys());
  let before = body.firstElementChild;
  for (const [line, depth] of arranged(answer.lines)) {
    gone.delete(line.id);
    let made = rows.get(line.id);
    if (!made) {
      made = row(line.id);
      rows.set(line.id, made);
    }
    fill(made, line, depth);
    while (before && gone.has(before.dataset.id)) before = before.nextElementSibling;
    if (made === before) before = before.nextElementSibling;
    else body.insertBefore(made, before);
  }
  for (const id of gone) {
    rows.get(id).remove();
    rows.delete(id);
  }
  const shown = answer.lines.length;
  set(at('count'), shown < answer.total ? count(shown) + ' of ' + count(answer.total) : count(answer.total) + ' open');
  at('more').hidden = shown >= answer.total || limit >= MOST;
  at('empty').hidden = shown > 0;
  set(at('empty'), at('node').value ? 'No open lines of this node.' : 'No open lines. They appear here as soon as someone connects.');
}

// ---- closing a line ---------------------------------------------------------------------------

function ask(id, made) {
  asking = id;
  set(at('ask-title'), 'Close line ' + id + '?');
  const peer = made.cells[2].textContent;
  const maker = made.dataset.maker;
  set(at('ask-text'), maker ? 'It belongs to line ' + maker + ', which ends as well if it goes through this one. This can not be undone.' : 'The connection' + (peer === '–' ? '' : ' of ' + peer) + ' and what it leads to end at once. This can not be undone.');
  at('ask').showModal();
  at('ask-no').focus();
}

async function close(id) {
  const made = rows.get(id);
  const button = made && made.cells[9].firstChild;
  if (button) button.disabled = true;
  let problem = '';
  try {
    const answer = await fetch('/api/lines/' + encodeURIComponent(id) + '/close', {
      method: 'POST',
      headers: { 'X-Lineway': '1' },
      signal: AbortSignal.timeout(PATIENCE_MS + 1000),
    });
    if (!answer.ok) {
      const said = await answer.json().catch(() => ({}));
      problem = said.error || 'the service answered ' + answer.status;
    }
  } catch (error) {
    problem = 'the service does not answer';
  }
  if (button) button.disabled = false;
  at('said').hidden = !problem;
  set(at('said'), problem && 'Line ' + id + ' was not closed: ' + problem + '.');
  poll();
}

// ---- asking -----------------------------------------------------------------------------------

async function fetchJson(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!answer.ok) throw new Error(path + ' answered ' + answer.status);
  return answer.json();
}

async function poll() {
  clearTimeout(timer);
  if (document.hidden) return;
  asked += 1;
  const turn = asked;
  const query = new URLSearchParams({ limit: String(limit) });
  if (at('node').value) query.set('node', at('node').value);
  try {
    const [about, lines] = await Promise.all([fetchJson('/api/nodes'), fetchJson('/api/lines?' + query)]);
    if (turn !== asked) return;
    answered = new Date();
    document.body.classList.remove('stale');
    showService(about.service, about.nodes);
    showNodes(about.nodes);
    showLines(lines);
  } catch (error) {
    if (turn !== asked) return;
    document.body.classList.add('stale');
    showState('gone', 'No answer');
    const since = answered ? 'What is shown is from ' + answered.toLocaleTimeString() + '.' : 'Nothing was heard from it yet.';
    showNotice('The service does not answer', [since, 'Asking again every two seconds.'], true);
  }
  if (!document.hidden) timer = setTimeout(poll, EVERY_MS);
}

at('ask-no').addEventListener('click', () => at('ask').close());
at('ask-yes').addEventListener('click', () => {
  at('ask').close();
  close(asking);
});
at('more').addEventListener('click', () => {
  limit = Math.min(limit * 3, MOST);
  poll();
});
at('node').addEventListener('change', () => {
  limit = PAGE;
  poll();
});
document.addEventListener('visibilitychange', poll);
poll();
