'use strict';

// Asks the service every two seconds and shows what it says. Whatever comes from there is put in
// as text, never as markup: a node's name may hold anything.

const EVERY_MS = 2000;
const PATIENCE_MS = 5000;
const PAGE = 100;
const MOST = 1000;
// Children of one node that are listed for each parent.
const CHILDREN = 10;
// Peers that are listed for each socket.
const PEERS = 20;
// Transactions of each SIP chain that are listed.
const CALLS = 50;

const at = (id) => document.getElementById(id);
const rows = new Map();
let limit = PAGE;
let timer = 0;
let asked = 0;
let answered = null;
let shownNodes = '';
let shownSockets = '';
let shownSip = '';
// What SIP nodes had counted at the last answer, and when that was asked for.
let sipBefore = new Map();
let sipAt = 0;
let asking = null;
let parent = '';
let shownLines = new Map();
const closing = new Set();

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

function some(number, one, more) {
  return count(number) + ' ' + (number === 1 ? one : more);
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

function scriptWords({ script, mode }) {
  return mode ? 'built-in script, ' + mode : visible(script);
}

function addresses(settings) {
  const parts = [];
  if (settings.listen) parts.push(settings.listen.join(', '));
  if (settings.script) parts.push(scriptWords(settings));
  if (settings.bind && settings.bind.length > 0) parts.push(settings.bind.map(visible).join(', '));
  if (settings.connect && settings.connect.length > 0) parts.push('to ' + settings.connect.map(visible).join(', '));
  if (settings.lines) parts.push(some(settings.lines, 'line', 'lines') + ' a worker');
  if (settings.candidates) parts.push(some(settings.candidates, 'candidate', 'candidates') + ' a line');
  if (settings.connection_capacity) parts.push(some(settings.connection_capacity, 'child', 'children') + ' a parent');
  if (settings.connection_duration_ms) parts.push('another parent after ' + count(settings.connection_duration_ms) + ' ms');
  if (settings.per_worker_connections_count) parts.push(some(settings.per_worker_connections_count, 'parent', 'parents') + ' a worker');
  if (settings.max_children) parts.push(some(settings.max_children, 'child', 'children') + ' at most');
  if (settings.server_first_delay_ms) parts.push('server first after ' + count(settings.server_first_delay_ms) + ' ms');
  return parts.join(' ');
}

function muxTitle(mux) {
  return [
    count(mux.parents_exhausted) + ' of the parents take no further child',
    some(mux.children_paused, 'child', 'children') + ' paused',
    bytes(mux.queued) + ' queued for children',
  ].join('\n');
}

function peersTitle(socket) {
  return [
    count(socket.peers_paused) + ' of the peers want no records at the moment',
    count(socket.held) + ' held for want of a worker',
    bytes(socket.queued) + ' queued',
  ].join('\n');
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
  box.append(name, element('span', 'type', node.type), address);
  if (node.mux) {
    const carried = element('span', 'carried', some(node.mux.parents_open, 'parent', 'parents') + ', ' + some(node.mux.children_open, 'child', 'children'));
    carried.title = muxTitle(node.mux);
    box.append(carried);
  }
  if (node.socket) {
    const words = [some(node.socket.peers, 'peer', 'peers')];
    const requests = node.socket.requests_pending + node.socket.held;
    if (requests > 0) words.push(some(requests, 'request', 'requests'));
    const carried = element('span', 'carried', words.join(', '));
    carried.title = peersTitle(node.socket);
    box.append(carried);
  }
  if (node.sip) {
    const carried = element('span', 'carried', sipWords(node.sip));
    box.append(carried);
  }
  if (!node.socket && !node.sip && (first || node.lines_open > 0)) foot.append(element('span', 'open', count(node.lines_open) + ' open'));
  box.append(foot);
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

// ---- sockets ----------------------------------------------------------------------------------

const PEER_COLUMNS = [
  ['Peer', 'c-peer-id'],
  ['Address', 'c-address'],
  ['Kind', 'c-kind'],
  ['Weight', 'c-number right'],
  ['State', 'c-state'],
  ['Sent', 'c-number right'],
  ['Received', 'c-number right'],
  ['Queued to it', 'c-number right'],
  ['Queued from it', 'c-number right'],
];

function peerRow(peer) {
  const made = element('tr');
  const words = [
    peer.routing_id || '–',
    peer.remote || peer.endpoint,
    peer.kind,
    count(peer.weight),
    peer.paused ? peer.state + ', paused' : peer.state,
    count(peer.records.out),
    count(peer.records.in),
    peer.queued.out ? bytes(peer.queued.out) : '–',
    peer.queued.in ? bytes(peer.queued.in) : '–',
  ];
  words.forEach((text, index) => {
    const [label, name] = PEER_COLUMNS[index];
    const cell = element('td', name.includes('right') ? 'right' : '');
    cell.dataset.label = label;
    const word = element('bdi', '', visible(text));
    cell.append(word);
    if (index < 2) cell.title = visible(text);
    made.append(cell);
  });
  made.cells[1].title = visible(peer.endpoint) + '\nconnection ' + peer.connection;
  made.cells[4].dataset.state = peer.paused || peer.state !== 'ready' ? 'draining' : 'open';
  return made;
}

function records(kinds) {
  const words = {
    data: ['data', 'data'],
    request: ['request', 'requests'],
    reply: ['reply', 'replies'],
    error_reply: ['error reply', 'error replies'],
  };
  const told = Object.keys(words).filter((kind) => kinds[kind] > 0);
  return told.map((kind) => some(kinds[kind], ...words[kind])).join(', ') || 'nothing';
}

function socketFacts(socket) {
  const facts = [['Routing id', visible(socket.routing_id)]];
  if (socket.bind.length > 0) facts.push(['Bound to', socket.bind.map(visible).join(', ')]);
  if (socket.connect.length > 0) facts.push(['Connects to', socket.connect.map(visible).join(', ')]);
  facts.push(['Weight', count(socket.weight)]);
  facts.push(['Sent', records(socket.records.out)]);
  facts.push(['Received', records(socket.records.in)]);
  facts.push(['Queued', bytes(socket.queued.out) + ' out, ' + bytes(socket.queued.in) + ' in']);
  if (socket.kind === 'DEALER') facts.push(['Requests', count(socket.requests_pending) + ' pending']);
  if (socket.replies_owed > 0) facts.push(['Replies', count(socket.replies_owed) + ' owed']);
  if (socket.wait_tokens > 0) facts.push(['Wait for room', count(socket.wait_tokens)]);
  if (socket.answers && socket.answers.held_requests > 0) facts.push(['Held', some(socket.answers.held_requests, 'request waits', 'requests wait') + ' for a worker']);
  if (socket.flow) facts.push(['Flow state', socket.flow.state + ', epoch ' + count(socket.flow.epoch)]);
  return facts;
}

// A table with these columns, each a title with its class, and rows.
function tableOf(kind, columns, rows) {
  const table = element('table', kind);
  const titles = element('tr');
  for (const [label, className] of columns) {
    const title = element('th', className, label);
    title.scope = 'col';
    titles.append(title);
  }
  const top = element('thead');
  top.append(titles);
  const body = element('tbody');
  body.append(...rows);
  table.append(top, body);
  return table;
}

function socketBox(socket) {
  const box = element('article', 'card socket');
  const head = element('header', 'socket-head');
  const name = element('bdi', 'name', visible(socket.node));
  head.append(name, element('span', 'type', socket.type));
  if (socket.state !== 'open') head.append(element('span', 'tag', socket.state));
  if (socket.flow && socket.flow.state === 'paused') head.append(element('span', 'tag', 'asks its peers to pause'));
  const facts = element('dl', 'socket-facts');
  for (const [term, text] of socketFacts(socket)) {
    const pair = element('div');
    const value = element('dd', '', text);
    value.title = text;
    pair.append(element('dt', '', term), value);
    facts.append(pair);
  }
  box.append(head, facts);
  if (socket.peers.length === 0) {
    box.append(element('p', 'empty', 'No peers. They appear here as soon as one is connected.'));
    return box;
  }
  box.append(tableOf('peers', PEER_COLUMNS, socket.peers.map(peerRow)));
  const more = socket.peers_total - socket.peers.length;
  if (more > 0) box.append(element('p', 'rest', 'and ' + count(more) + ' more'));
  return box;
}

function showSockets(answer, nodes) {
  // Ages change with each answer, and are not shown.
  const text = JSON.stringify(answer, (key, value) => (key === 'age_seconds' ? undefined : value));
  at('sockets-section').hidden = answer.total === 0;
  if (text === shownSockets) return;
  shownSockets = text;
  const peers = answer.sockets.reduce((sum, socket) => sum + socket.peers_total, 0);
  set(at('sockets-count'), some(peers, 'peer', 'peers'));
  const place = new Map(nodes.map((node, index) => [node.name, index]));
  const inOrder = [...answer.sockets].sort((a, b) => (place.get(a.node) ?? nodes.length) - (place.get(b.node) ?? nodes.length));
  at('sockets').replaceChildren(...inOrder.map(socketBox));
}

// ---- SIP --------------------------------------------------------------------------------------

function sum(counts) {
  return Object.values(counts).reduce((all, one) => all + one, 0);
}

// A count of each second, with two digits that matter.
function rate(number) {
  if (number >= 99.5) return count(Math.round(number));
  return number === 0 ? '0' : number.toFixed(number < 9.95 ? 1 : 0);
}

function sipWords(sip) {
  if (sip.listen) {
    return some(sum(sip.received), 'message', 'messages') + ' in, ' + count(sum(sip.sent)) + ' out';
  }
  const requests = Object.values(sip.requests).reduce((all, one) => all + one.received, 0);
  const errors = sum(sip.script_errors);
  return some(requests, 'request', 'requests') + (errors > 0 ? ', ' + some(errors, 'script error', 'script errors') : '');
}

// What a node has counted, as one flat map: `INVITE received` to a number.
function flat(sip) {
  const counts = new Map();
  const add = (value, path) => {
    if (typeof value === 'number') counts.set(path, value);
    else if (value && typeof value === 'object' && !Array.isArray(value)) {
      for (const key of Object.keys(value)) add(value[key], path ? path + ' ' + key : key);
    }
  };
  add(sip, '');
  return counts;
}

const SIP_COLUMNS = [
  ['Message', 'c-sip-what'],
  ['Received / s', 'c-number right'],
  ['Forwarded / s', 'c-number right'],
  ['Made here / s', 'c-number right'],
  ['Received', 'c-number right'],
  ['Forwarded', 'c-number right'],
  ['Made here', 'c-number right'],
];

function sipRow(what, counts, rates) {
  const made = element('tr');
  const kinds = ['received', 'forwarded', 'sent'];
  const words = [
    what,
    ...kinds.map((kind) => (rates && counts[kind] !== undefined ? rate(rates[kind]) : '–')),
    ...kinds.map((kind) => (counts[kind] === undefined ? '–' : count(counts[kind]))),
  ];
  words.forEach((text, index) => {
    const [label, name] = SIP_COLUMNS[index];
    const cell = element('td', name.includes('right') ? 'right' : '', text);
    cell.dataset.label = label;
    cell.classList.toggle('none', text === '–' || text === '0');
    made.append(cell);
  });
  return made;
}

function reasons(counts) {
  const told = Object.keys(counts).sort((a, b) => counts[b] - counts[a]);
  return told.map((why) => why + ' ' + count(counts[why])).join(', ') || 'none';
}

function sipFacts(listener, router) {
  const facts = [];
  if (listener) {
    const { sip } = listener;
    facts.push(['Listens on', sip.listen.join(', ')]);
    facts.push(['Received', count(sip.received.udp) + ' by UDP, ' + count(sip.received.tcp) + ' by TCP']);
    facts.push(['Sent', count(sip.sent.udp) + ' by UDP, ' + count(sip.sent.tcp) + ' by TCP']);
    facts.push(['Connections', count(sip.connections_open) + ' open']);
    if (sip.keepalives > 0) facts.push(['Keepalives', count(sip.keepalives)]);
    if (sip.overload > 0) facts.push(['Overload', count(sip.overload) + ' dropped', 'bad']);
  }
  const { sip } = router;
  const tm = sip.transactions;
  if (sum(tm.closed) + tm.invite + tm.non_invite > 0) {
    facts.push(['Transactions', count(tm.invite) + ' INVITE, ' + count(tm.non_invite) + ' other, ' + some(tm.branches, 'open branch', 'open branches')]);
    facts.push(['Came out', reasons(tm.closed)]);
    facts.push(['Sent again', reasons(tm.retransmitted)]);
  }
  if (sum(tm.timeouts) > 0) facts.push(['Timeouts', reasons(tm.timeouts), 'bad']);
  if (sum(tm.refused) > 0) facts.push(['Refused', reasons(tm.refused), 'bad']);
  if (sip.bindings > 0 || sum(sip.registrations) > 0) facts.push(['Registrations', count(sip.bindings) + ' live; ' + reasons(sip.registrations)]);
  if (sum(sip.targets) > 0) facts.push(['Dispatcher', reasons(sip.targets), sip.targets.inactive > 0 ? 'bad' : '']);
  if (sum(sip.authentications) > 0) facts.push(['Authentication', reasons(sip.authentications)]);
  facts.push(['Dropped', reasons(sip.dropped)]);
  if (sum(sip.send_errors) > 0) facts.push(['Not sent', reasons(sip.send_errors), 'bad']);
  if (sip.unresolved > 0) facts.push(['Unresolved', count(sip.unresolved), 'bad']);
  facts.push(['Script errors', reasons(sip.script_errors), sum(sip.script_errors) > 0 ? 'bad' : '']);
  if (sip.suspended > 0 || sip.waiting > 0) facts.push(['Waiting', count(sip.suspended) + ' for the network, ' + count(sip.waiting) + ' behind them']);
  return facts;
}

// What was counted in each second since the last answer; nothing for a node that was not in it.
function sipRates(name, counts, seconds) {
  const before = sipBefore.get(name);
  if (!before || seconds <= 0) return null;
  const rates = new Map();
  for (const [path, number] of counts) rates.set(path, Math.max(0, number - (before.get(path) || 0)) / seconds);
  return rates;
}

const CALL_COLUMNS = [
  ['Transaction', 'c-call'],
  ['State', 'c-state'],
  ['Caller', 'c-address'],
  ['Call-ID', 'c-call-id'],
  ['Age', 'c-age right'],
];

function callCells(words, className) {
  const made = element('tr', className);
  words.forEach(([text, state], index) => {
    const [label, name] = CALL_COLUMNS[index];
    const cell = element('td', name.includes('right') ? 'right' : '');
    cell.append(element('bdi', '', visible(text)));
    cell.dataset.label = label;
    if (state) cell.dataset.state = state;
    if (text === '') cell.classList.add('nothing');
    cell.title = visible(text);
    made.append(cell);
  });
  return made;
}

function statusWords(state, status) {
  return status > 0 ? state + ' (' + status + ')' : state;
}

// A transaction, and below it where it was sent to.
function callRows(call) {
  const whole = callCells([
    [call.method + ' ' + call.uri],
    [statusWords(call.state, call.status), call.state],
    [call.caller],
    [call.call_id],
    [duration(call.age_seconds)],
  ], 'call');
  const branches = call.branches.map((branch) => callCells([
    [branch.uri],
    [statusWords(branch.state, branch.status), branch.state],
    [''],
    [''],
    [''],
  ], 'branch'));
  return [whole, ...branches];
}

function callsOf(chain) {
  if (!chain || chain.transactions_total === 0) return [];
  if (chain.transactions === null) return [element('p', 'empty', 'A worker does not say which transactions live.')];
  const table = tableOf('calls', CALL_COLUMNS, chain.transactions.flatMap(callRows));
  const more = chain.transactions_total - chain.transactions.length;
  return more > 0 ? [table, element('p', 'rest', 'and ' + count(more) + ' more')] : [table];
}

function sipBox(listener, router, rates, chain) {
  const box = element('article', 'card socket');
  const head = element('header', 'socket-head');
  const names = listener ? [listener.name, router.name] : [router.name];
  head.append(element('bdi', 'name', names.map(isolated).join(' → ')));
  head.append(element('span', 'type', scriptWords(router.settings)));
  const facts = element('dl', 'socket-facts');
  for (const [term, text, state] of sipFacts(listener, router)) {
    const pair = element('div');
    const value = element('dd', state || '', text);
    value.title = text;
    pair.append(element('dt', '', term), value);
    facts.append(pair);
  }
  box.append(head, facts);
  const all = [
    ...Object.keys(router.sip.requests).map((key) => ['requests', key]),
    ...Object.keys(router.sip.replies).map((key) => ['replies', key]),
  ];
  if (all.length === 0) {
    box.append(element('p', 'empty', 'No messages yet.'));
    return box;
  }
  box.append(...callsOf(chain));
  const rows = all.map(([family, key]) => {
    const counts = router.sip[family][key];
    const of = rates && Object.fromEntries(Object.keys(counts).map((kind) => [kind, rates.get([family, key, kind].join(' ')) || 0]));
    return sipRow(family === 'replies' ? key + ' replies' : key, counts, of);
  });
  box.append(tableOf('sip', SIP_COLUMNS, rows));
  return box;
}

function showSip(nodes, live) {
  const routers = nodes.filter((node) => node.type === 'SipRouter' && node.sip);
  at('sip-section').hidden = routers.length === 0;
  const now = performance.now();
  const seconds = (now - sipAt) / 1000;
  const counted = new Map(nodes.filter((node) => node.sip).map((node) => [node.name, flat(node.sip)]));
  const listeners = new Map(nodes.filter((node) => node.type === 'SipListener' && node.sip).map((node) => [node.next, node]));
  let perSecond = 0;
  const boxes = routers.map((router) => {
    const listener = listeners.get(router.name);
    const rates = sipRates(router.name, counted.get(router.name), seconds);
    const carried = listener && sipRates(listener.name, counted.get(listener.name), seconds);
    if (carried) perSecond += carried.get('received udp') + carried.get('received tcp');
    const chain = live.chains.find((one) => one.router === router.name);
    return sipBox(listener, router, rates, chain);
  });
  const messages = [...listeners.values()].reduce((all, node) => all + sum(node.sip.received), 0);
  set(at('sip-count'), some(messages, 'message', 'messages') + (sipBefore.size > 0 ? ', ' + rate(perSecond) + ' a second' : ''));
  const text = boxes.map((box) => box.textContent).join('\n');
  if (text !== shownSip) at('sip').replaceChildren(...boxes);
  shownSip = text;
  [sipBefore, sipAt] = [counted, now];
}

// ---- lines ------------------------------------------------------------------------------------

// What a line made, or carries as a parent, follows it; how deep a line stands below the first one,
// and what stands above it. A parent's sides come first, and last how many children are not listed.
function arranged(lines) {
  const byId = new Map(lines.map((line) => [line.id, line]));
  const under = new Map(lines.map((line) => [line.id, []]));
  const all = [];
  const above = (line) => [line.maker, line.parent].find((id) => id && id !== line.id && byId.has(id));
  for (const line of lines) {
    if (above(line)) under.get(above(line)).push(line);
  }
  const add = (line, depth, from) => {
    all.push({ key: line.id, line, depth, from });
    line.mux.forEach((side) => all.push({ key: line.id + ' ' + side.side, side, depth }));
    for (const child of under.get(line.id)) add(child, depth + 1, line.id);
    const carried = line.mux.reduce((sum, side) => sum + side.children, 0);
    const shown = under.get(line.id).filter((child) => child.parent === line.id).length;
    if (!parent && shown >= CHILDREN && carried > shown) {
      all.push({ key: line.id + ' more', more: carried - shown, of: line.id, depth: depth + 1 });
    }
  };
  for (const line of lines) {
    if (!above(line)) add(line, line.maker || line.parent ? 1 : 0, '');
  }
  return all;
}

const COLUMNS = ['Line', 'Node', 'Peer', 'Age', 'State', 'Upstream', 'Downstream', 'Queued', 'Paused', ''];

function lineRow(id) {
  const made = element('tr');
  for (const label of COLUMNS) {
    const cell = element('td');
    cell.dataset.label = label;
    made.append(cell);
  }
  for (const index of [3, 5, 6, 7]) made.cells[index].className = 'right';
  const name = element('bdi');
  made.cells[1].append(name);
  const button = element('button', '', 'Close');
  button.type = 'button';
  button.addEventListener('click', () => ask(id));
  made.cells[9].append(button);
  return made;
}

function wideRow() {
  const made = element('tr', 'wide');
  const cell = element('td');
  cell.colSpan = COLUMNS.length;
  cell.append(element('span'));
  made.append(cell);
  return made;
}

function row({ line, more, of }) {
  if (line) return lineRow(line.id);
  const made = wideRow();
  if (more) {
    const button = element('button', '', 'Show this parent alone');
    button.type = 'button';
    button.addEventListener('click', () => choose(of));
    made.cells[0].append(button);
  }
  return made;
}

function eitherWay(up, down) {
  return [up && '↑ ' + up, down && '↓ ' + down].filter(Boolean).join('  ');
}

function sideWords(side) {
  const words = [some(side.children, 'child', 'children')];
  if (side.children_paused) words.push(count(side.children_paused) + ' paused');
  if (side.queued) words.push(bytes(side.queued) + ' queued for them');
  if (side.reading_paused) words.push('not read: ' + side.reading_paused);
  words.push(side.state);
  if (side.mode) words.push(side.mode);
  if (side.cids) words.push(count(side.cids.used) + ' of ' + count(side.cids.leased) + ' leased cids used');
  return isolated(side.node) + ' (' + side.side + '): ' + words.join(', ');
}

function fill(made, { line, side, more, depth, from }) {
  made.style.setProperty('--depth', Math.min(depth, 4));
  if (line) return fillLine(made, line, depth, from);
  made.className = side ? 'wide side' : 'wide made';
  made.classList.toggle('held', Boolean(side && side.reading_paused));
  set(made.cells[0].firstChild, side ? sideWords(side) : 'and ' + count(more) + ' more');
}

function fillLine(made, line, depth, from) {
  const cells = made.cells;
  const isParent = line.mux.length > 0;
  set(cells[0], line.id);
  made.className = depth > 0 ? 'made' : '';
  cells[0].title = capital(line.kind) + ' line' + (line.maker ? ', made by ' + line.maker : '') + (line.parent ? ', on parent ' + line.parent : '') + ', opened at ' + line.opened_at;
  set(cells[1].firstChild, visible(line.node));
  cells[1].title = visible(line.node);
  const elsewhere = line.parent && line.parent !== from ? 'on ' + line.parent : '';
  const of = line.maker && line.maker !== line.parent ? 'of ' + line.maker : '';
  set(cells[2], line.peer || [of, elsewhere].filter(Boolean).join(', ') || '–');
  cells[2].classList.toggle('none', !line.peer);
  cells[2].title = line.peer || '';
  set(cells[3], duration(line.age_seconds));
  set(cells[4], line.state);
  cells[4].dataset.state = line.state;
  set(cells[5], bytes(line.bytes.upstream));
  set(cells[6], bytes(line.bytes.downstream));
  const queued = { ...line.queued };
  const paused = { upstream: [...line.paused.upstream], downstream: [...line.paused.downstream] };
  for (const side of line.mux) {
    // What a mux does not read is what goes to its children.
    const direction = side.side === 'client' ? 'downstream' : 'upstream';
    queued[direction] += side.queued;
    if (side.reading_paused) paused[direction].push(side.reading_paused);
  }
  const waits = queued.upstream + queued.downstream;
  set(cells[7], waits ? bytes(waits) : '–');
  cells[7].classList.toggle('none', !waits);
  cells[7].title = waits ? eitherWay(bytes(queued.upstream), bytes(queued.downstream)) : '';
  const reasons = eitherWay(paused.upstream.join(', '), paused.downstream.join(', '));
  set(cells[8], reasons || '–');
  cells[8].title = reasons;
  cells[8].classList.toggle('none', !reasons);
  cells[8].classList.toggle('held', Boolean(reasons));
  const button = cells[9].firstChild;
  set(button, isParent ? 'Drain' : 'Close');
  button.setAttribute('aria-label', button.textContent + ' line ' + line.id);
  button.disabled = line.state === 'draining' || closing.has(line.id);
}

function showLines(answer) {
  const body = at('lines');
  const gone = new Set(rows.keys());
  let before = body.firstElementChild;
  shownLines = new Map(answer.lines.map((line) => [line.id, line]));
  for (const item of arranged(answer.lines)) {
    gone.delete(item.key);
    let made = rows.get(item.key);
    if (!made) {
      made = row(item);
      made.dataset.id = item.key;
      rows.set(item.key, made);
    }
    fill(made, item);
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
  at('more').hidden = !answer.next || limit >= MOST;
  at('empty').hidden = shown > 0;
  at('parent').hidden = !parent;
  set(at('parent-text'), 'Parent ' + parent);
  set(at('empty'), parent ? 'Parent ' + parent + ' is not there any more.' : at('node').value ? 'No open lines of this node.' : 'No open lines. They appear here as soon as someone connects.');
}

// Shows one parent with all of its children, or every line again.
function choose(id) {
  parent = id;
  limit = PAGE;
  poll();
}

// ---- closing a line ---------------------------------------------------------------------------

function ask(id) {
  const line = shownLines.get(id);
  if (!line) return;
  asking = id;
  const isParent = line.mux.length > 0;
  set(at('ask-title'), isParent ? 'Drain parent ' + id + '?' : 'Close line ' + id + '?');
  set(at('ask-yes'), isParent ? 'Drain parent' : 'Close line');
  set(at('ask-text'), consequence(line) + ' This can not be undone.');
  at('ask').showModal();
  at('ask-no').focus();
}

function consequence(line) {
  // In one process both sides have the same children.
  const children = Math.max(0, ...line.mux.map((side) => side.children));
  if (line.mux.length > 0 && children === 0) return 'It carries nobody, and ends at once.';
  if (line.mux.length > 0) return 'It takes no further child, and ends with the last of its ' + some(children, 'child', 'children') + '. Those that are left after the drain timeout are closed.';
  if (line.maker && line.maker === line.parent) return 'It is a child of parent ' + line.parent + '. Its connection ends at once, the parent and its other children go on.';
  if (line.maker) return 'It belongs to line ' + line.maker + ', which ends as well if it goes through this one.';
  const others = line.parent ? ' Parent ' + line.parent + ' and its other children go on.' : '';
  return 'The connection' + (line.peer ? ' of ' + line.peer : '') + ' and what it leads to end at once.' + others;
}

async function close(id) {
  const made = rows.get(id);
  if (made) made.cells[9].firstChild.disabled = true;
  closing.add(id);
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
  closing.delete(id);
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
  if (parent) query.set('parent', parent);
  else query.set('children', String(CHILDREN));
  try {
    const [about, sockets, live, lines] = await Promise.all([
      fetchJson('/api/nodes'),
      fetchJson('/api/sockets?limit=' + PEERS),
      fetchJson('/api/sip?limit=' + CALLS),
      fetchJson('/api/lines?' + query),
    ]);
    if (turn !== asked) return;
    answered = new Date();
    document.body.classList.remove('stale');
    showService(about.service, about.nodes);
    showNodes(about.nodes);
    showSockets(sockets, about.nodes);
    showSip(about.nodes, live);
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
at('parent-no').addEventListener('click', () => choose(''));
document.addEventListener('visibilitychange', poll);
poll();
