"""The page's script. It makes elements from strings by `textContent` alone: no markup is ever parsed.

A turn's content is made when it is opened, so a page of 200 turns and 20 MB opens at once.
"""

from agent.viewer.script_events import EVENTS

SCRIPT = (
    r"""
"use strict";
(() => {
const events = JSON.parse(document.getElementById("data").textContent);
const LONG = 20000, NS = "http://www.w3.org/2000/svg";
const el = (tag, cls, ...kids) => {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  for (const kid of kids) if (kid !== null && kid !== undefined && kid !== "") node.append(kid);
  return node;
};
const str = (v) => v === undefined || v === null ? "" : typeof v === "string" ? v : JSON.stringify(v, null, 1);
const num = (v) => Number.isFinite(v) ? v : 0;
const many = (n, word) => n + " " + word + (n === 1 ? "" : "s");
const secs = (ms) => ms < 1000 ? Math.round(ms) + " ms" : (ms / 1000).toFixed(1) + " s";

/* group by turn: what comes before the first, each turn, what comes after the last */
const EDITS = new Set(["edit_file", "write_file", "delete_file"]);
const groups = [];
let group = null;
const begin = (name) => {
  group = {name, events: [], denials: 0, errors: 0, edits: 0, tokens: 0, cost: 0, ms: 0, tools: []};
  groups.push(group);
};
begin("Before the first turn");
let last = 0, tools = "";
const asked = new Map();  /* requests of this part that wait for their answer */
for (const event of events) {
  const kind = String(event.type);
  if (kind === "agent.stop" || kind === "run.end") { if (last !== -1) { begin("End"); last = -1; } }
  else if (kind === "agent.rendered" || (kind === "model.request" && num(event.turn) !== last)) {
    if (num(event.turn) !== last) { last = num(event.turn); begin("Turn " + last); }
  }
  const of = kind === "egress.response" || kind === "egress.redirect" ? asked.get(event.n) : undefined;
  if (of && of.group === group) of.event[kind] = event;
  else group.events.push(event);
  if (kind === "egress.request") asked.set(event.n, {event, group});
  if (kind === "agent.rendered") {
    event.known = str(event.tools) === tools;
    tools = str(event.tools);
  }
  if (kind.endsWith(".denied")) group.denials++;
  if (kind === "tool.result" && event.is_error || kind === "hook.end" && event.passed === false ||
      kind === "egress.response" && (num(event.status) >= 400 || event.status === null) ||
      kind === "sandbox.probe" && event.ok === false ||
      kind === "log" && event.level === "error") group.errors++;
  if (kind === "tool.call") { group.tools.push(str(event.name)); if (EDITS.has(event.name)) group.edits++; }
  if (kind === "model.response") {
    const usage = event.usage || {};
    group.tokens += num(usage.input_tokens) + num(usage.output_tokens);
    group.cost += num(usage.cost); group.ms += num(event.ms);
  }
}
if (!groups[0].events.length) groups.shift();

/* text, with matches of the search marked */
let query = "";
const marked = (text) => {
  const box = document.createDocumentFragment();
  if (!query) { box.append(text); return box; }
  const low = text.toLowerCase();
  let at = 0, hits = 0;
  for (let i = low.indexOf(query); i >= 0 && hits < 500; i = low.indexOf(query, at), hits++) {
    box.append(text.slice(at, i), el("mark", "", text.slice(i, i + query.length)));
    at = i + query.length;
  }
  box.append(text.slice(at));
  return box;
};
const text = (value, cls) => {
  const whole = str(value);
  if (!whole) return null;
  const pre = el("pre", cls || "");
  if (whole.length > 1500 || whole.split("\n").length > 24) pre.tabIndex = 0;  /* it scrolls */
  const fill = (shown) => { pre.textContent = ""; pre.append(cls === "diff" ? diffLines(shown) : marked(shown)); };
  if (whole.length <= LONG) { fill(whole); return pre; }
  fill(whole.slice(0, LONG));
  const more = el("button", "", "Show all " + whole.length.toLocaleString("en") + " characters");
  more.type = "button";
  more.addEventListener("click", () => { fill(whole); more.remove(); pre.focus(); });
  return el("div", "", pre, more);
};
const diffLines = (whole) => {
  const box = document.createDocumentFragment();
  for (const line of whole.split("\n")) {
    const cls = line.startsWith("@@") || line.startsWith("+++") || line.startsWith("---") || line.startsWith("diff ")
      ? "at" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "";
    box.append(el("span", cls, marked(line)));
  }
  return box;
};
const looksDiff = (t) => /^(diff --git |--- |@@ -)/m.test(t.slice(0, 4000)) && /^@@ -\d/m.test(t.slice(0, 20000));
const sides = (oldText, newText) => {
  const a = str(oldText).split("\n"), b = str(newText).split("\n");
  let top = 0, low = 0;
  while (top < a.length && top < b.length && a[top] === b[top]) top++;
  while (low < a.length - top && low < b.length - top && a[a.length - 1 - low] === b[b.length - 1 - low]) low++;
  const put = (mark, lines) => lines.map((line) => mark + line);
  return [...put(" ", a.slice(0, top)), ...put("-", a.slice(top, a.length - low)),
    ...put("+", b.slice(top, b.length - low)), ...put(" ", a.slice(a.length - low))].join("\n");
};

"""
    + EVENTS
    + r"""/* turns */
const main = document.getElementById("turns");
const haystack = (g) => g.low === undefined ? (g.low = JSON.stringify(g.events).toLowerCase()) : g.low;
for (const g of groups) {
  const summary = el("summary", "", g.name);
  const words = [];
  if (g.tools.length) words.push(g.tools.slice(0, 6).join(", ") + (g.tools.length > 6 ? " …" : ""));
  if (g.tokens) words.push(g.tokens.toLocaleString("en") + " tokens");
  if (g.ms) words.push(secs(g.ms));
  summary.append(" ", dim(words.join(" · ")));
  if (g.denials) summary.append(tag(many(g.denials, "denial"), "bad"));
  if (g.errors) summary.append(tag(many(g.errors, "error"), "warn"));
  if (g.edits) summary.append(tag(many(g.edits, "edit"), "good"));
  g.node = el("details", "", summary);
  g.summary = summary;
  g.fill = () => {
    while (g.node.lastChild !== summary) g.node.lastChild.remove();
    for (const e of g.events) g.node.append(show(e));
    g.filled = query;
  };
  g.node.addEventListener("toggle", () => { if (g.node.open && g.filled !== query) g.fill(); });
  main.append(g.node);
}

/* search and filters */
const input = document.getElementById("q"), count = document.getElementById("count");
const boxes = {};
for (const kind of ["denials", "errors", "edits"]) boxes[kind] = document.getElementById("f-" + kind);
const apply = () => {
  query = input.value.trim().toLowerCase();
  const needle = JSON.stringify(query).slice(1, -1);
  let shown = 0;
  for (const g of groups) {
    const wanted = Object.keys(boxes).filter((k) => boxes[k].checked);
    const ok = (!wanted.length || wanted.some((k) => g[k])) && (!query || haystack(g).includes(needle));
    g.node.hidden = !ok;
    if (ok) shown++;
    if (ok && g.node.open && g.filled !== query) g.fill();
  }
  count.textContent = shown + " of " + many(groups.length, "part");
};
let timer = 0;
input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, 150); });
for (const box of Object.values(boxes)) box.addEventListener("change", apply);
const press = (id, act) => document.getElementById(id).addEventListener("click", act);
press("open", () => { for (const g of groups) if (!g.node.hidden) g.node.open = true; });
press("close", () => { for (const g of groups) g.node.open = false; });
press("theme", () => {
  const root = document.documentElement, set = root.dataset.theme;
  const dark = set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

/* keys */
const move = (step) => {
  const seen = groups.filter((g) => !g.node.hidden);
  const now = seen.findIndex((g) => g.node.contains(document.activeElement));
  const next = seen[Math.min(Math.max(now + step, 0), seen.length - 1)];
  if (next) { next.summary.focus(); next.node.scrollIntoView({block: "nearest"}); }
};
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.target === input) { if (e.key === "Escape") input.blur(); return; }
  if (e.key === "/") { e.preventDefault(); input.focus(); }
  else if (e.key === "j") move(1);
  else if (e.key === "k") move(-1);
  else if (e.key === "o") {
    const g = groups.find((x) => x.node.contains(document.activeElement));
    if (g) { g.node.open = !g.node.open; g.summary.focus(); }
  }
});

/* tokens and cost over time */
const use = document.getElementById("use");
const turns = groups.filter((g) => g.tokens);
if (turns.length > 1) {
  let tokens = 0, cost = 0;
  const points = turns.map((g) =>
    ({name: g.name, now: g.tokens, tokens: (tokens += g.tokens), cost: (cost += g.cost)}));
  const most = Math.max(...points.map((p) => p.now)), wide = 600 / points.length;
  const svg = document.createElementNS(NS, "svg");
  const put = (name, attributes) => {
    const shape = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
    svg.append(shape);
  };
  const told = "Bars: tokens of each turn, at most " + most.toLocaleString("en") + ", " + tokens.toLocaleString("en") +
    " in all." + (cost ? " Line: cost so far, up to $" + cost.toFixed(4) + "." : " The price is not known.");
  svg.setAttribute("viewBox", "0 0 600 140");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", told + " The numbers are in the table below.");
  points.forEach((p, i) => {
    const high = 125 * p.now / most;
    put("rect", {class: "tokens", x: wide * (i + 0.12), width: wide * 0.76, y: 140 - high, height: high});
  });
  const along = points.map((p, i) => wide * (i + 0.5) + "," + (140 - 125 * p.cost / cost));
  if (cost) put("polyline", {class: "cost", "vector-effect": "non-scaling-stroke", points: along.join(" ")});
  use.append(svg, el("p", "dim", told), el("details", "", el("summary", "", "Numbers by turn"),
    table(["Turn", "Tokens", "Tokens so far", "Cost so far"], points.map((p) =>
      [p.name, p.now.toLocaleString("en"), p.tokens.toLocaleString("en"), "$" + p.cost.toFixed(4)]))));
} else use.hidden = true;
apply();
})();
"""
)
