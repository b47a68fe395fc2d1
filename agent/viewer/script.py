"""The page's script. It makes elements from strings by `textContent` alone: no markup is ever parsed.

A turn's content is made when it is opened, so a page of 200 turns and 20 MB opens at once.
"""

SCRIPT = r"""
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
let last = 0;
for (const event of events) {
  const kind = String(event.type);
  if (kind === "agent.stop" || kind === "run.end") { if (last !== -1) { begin("End"); last = -1; } }
  else if (kind === "agent.rendered" || (kind === "model.request" && num(event.turn) !== last)) {
    if (num(event.turn) !== last) { last = num(event.turn); begin("Turn " + last); }
  }
  group.events.push(event);
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
  pre.tabIndex = 0;
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

/* one event */
const head = (title, ...tags) => el("h3", "", title, ...tags.flatMap((t) => [" ", t]));
const tag = (words, cls) => el("span", "tag " + cls, words);
const dim = (words) => el("span", "dim", words);
const unanswered = (e) => num(e.status) >= 400 || e.status === null;
const ended = (e) =>
  e.timed_out ? "timed out" : e.signal ? "signal " + num(e.signal) : "exit status " + num(e.exit_code);
const took = (e) => e.ms === undefined ? "" : secs(num(e.ms));
const passed = (ok, yes, no) => ok ? tag(yes, "good") : tag(no, "bad");
const RENDER = {
  "model.response": (e) => [
    head("Model", dim([str(e.model), took(e), usageWords(e.usage)].filter(Boolean).join(" · "))), text(e.text)],
  "tool.call": (e) => {
    const args = e.arguments || {};
    const rest = Object.assign({}, args);
    const parts = [head("Call " + str(e.name), dim(str(args.path || "")))];
    if (e.name === "edit_file") {
      const from = args.old !== undefined ? "old" : "old_text", to = args.new !== undefined ? "new" : "new_text";
      parts.push(text(sides(args[from], args[to]), "diff"));
      delete rest[from]; delete rest[to];
    } else if (e.name === "write_file" && args.content !== undefined) {
      parts.push(text(str(args.content).split("\n").map((l) => "+" + l).join("\n"), "diff"));
      delete rest.content;
    } else if (e.name === "run_command" && args.command !== undefined) {
      parts.push(text("$ " + str(args.command)));
      delete rest.command;
    }
    delete rest.path;
    if (Object.keys(rest).length) parts.push(text(rest));
    return parts;
  },
  "tool.result": (e) => [head("Result of " + str(e.name), e.is_error ? tag("error", "bad") : null, dim(took(e))),
    text(e.text, looksDiff(str(e.text)) ? "diff" : "")],
  "diff": (e) => [head("Changes of the run", dim("+" + num(e.added) + " −" + num(e.removed))), text(e.text, "diff")],
  "egress.request": (e) => [head(str(e.method) + " " + str(e.path), dim("to " + str(e.connection)))],
  "egress.response": (e) => [
    head("Answer", tag(str(e.status) || "none came", unanswered(e) ? "bad" : "good"), dim(took(e))), text(e.error)],
  "egress.dry_run": (e) => [
    head("Not sent (dry run): " + str(e.method) + " " + str(e.path), dim("to " + str(e.connection))), text(e.body)],
  "command": (e) => [
    head("Command ended", passed(e.exit_code === 0 && !e.timed_out, "exit status 0", ended(e)),
      dim([secs(num(e.duration_ms)), e.output_id ? "full text in commands/" + str(e.output_id) + ".txt" : ""]
        .filter(Boolean).join(" · "))), text("$ " + str(e.command))],
  "egress.denied": (e) => [
    head("Refused: " + str(e.method) + " " + str(e.path), tag(str(e.code), "bad")), text(e.message || e.reason)],
  "tool.denied": (e) => [head("Refused: " + str(e.name), tag(str(e.code || "denied"), "bad")), text(e.reason)],
  "git.denied": (e) => [head("Refused", tag(str(e.code), "bad")), text(e.reason)],
  "gate.decision": (e) => [head("Actor gate: " + str(e.mode)), text(e.reason)],
  "hook.end": (e) => [
    head("Hook " + str(e.purpose), passed(e.passed, "passed", "did not pass"), dim(str(e.ended))), text(e.output)],
  "sandbox.probe": (e) => [
    head("Sandbox probe (" + str(e.backend) + ")", passed(e.ok, "held", "failed")), text(e.items)],
  "agent.rendered": (e) => [
    head("Tools shown", dim(many((e.tools || []).length, "tool"))), text((e.tools || []).join(" "))],
  "limit": (e) => [head("Limit reached: " + str(e.limit), tag("limit", "warn")), text(e.how_to_raise)],
  "run.end": (e) => [head("Outcome: " + str(e.outcome), dim(str(e.stop_reason))), text(e.output)],
};
const OWN = new Set(["seq", "ts", "type", "prev", "turn"]);
const fallback = (e) => {
  const rest = {};
  for (const key of Object.keys(e)) if (!OWN.has(key)) rest[key] = e[key];
  return [head(str(e.type)), Object.keys(rest).length ? text(rest) : null];
};
const usageWords = (u) => u && typeof u === "object" ? num(u.input_tokens).toLocaleString("en") + " in, " +
  num(u.output_tokens).toLocaleString("en") + " out" : "";
const show = (e) => {
  const make = Object.prototype.hasOwnProperty.call(RENDER, e.type) ? RENDER[e.type] : fallback;
  const box = el("div", "event");
  try { box.append(...make(e).filter(Boolean)); } catch (fault) { box.append(...fallback(e).filter(Boolean)); }
  return box;
};

/* turns */
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
  const points = turns.map((g) => ({name: g.name, tokens: (tokens += g.tokens), cost: (cost += g.cost)}));
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("viewBox", "0 0 600 140");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "Sum of tokens by turn, up to " + tokens.toLocaleString("en") +
    ", and cost, up to $" + cost.toFixed(4) + ". The numbers are in the table below.");
  const line = (key, top, cls) => {
    if (!top) return;
    const path = document.createElementNS(NS, "polyline");
    path.setAttribute("class", cls);
    path.setAttribute("vector-effect", "non-scaling-stroke");
    const x = (i) => (600 * i / (points.length - 1)).toFixed(1), y = (p) => (130 - 120 * p[key] / top).toFixed(1);
    path.setAttribute("points", points.map((p, i) => x(i) + "," + y(p)).join(" "));
    svg.append(path);
  };
  line("tokens", tokens, "tokens");
  line("cost", cost, "cost");
  const rows = el("tbody", "");
  const cell = (w) => el("td", "", w), th = (w) => { const c = el("th", "", w); c.scope = "col"; return c; };
  for (const p of points)
    rows.append(el("tr", "", cell(p.name), cell(p.tokens.toLocaleString("en")), cell("$" + p.cost.toFixed(4))));
  const headings = el("thead", "", el("tr", "", th("Turn"), th("Tokens so far"), th("Cost so far")));
  use.append(svg, el("p", "dim", "Solid line: tokens, " + tokens.toLocaleString("en") +
    " in all. Dashed line: cost, $" + cost.toFixed(4) + " in all."),
    el("details", "", el("summary", "", "Numbers by turn"), el("table", "", headings, rows)));
} else use.hidden = true;
apply();
})();
"""
