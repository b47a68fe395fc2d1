"""The part of the page's script that shows one event: for each type its heading, its words, its tables."""

EVENTS = r"""/* one event */
const head = (title, ...tags) =>
  el("h3", "", title, ...tags.filter((t) => t && t.textContent).flatMap((t) => [" ", t]));
const tag = (words, cls) => el("span", "tag " + cls, words);
const dim = (words) => el("span", "dim", words);
const unanswered = (e) => num(e.status) >= 400 || e.status === null;
const ended = (e) =>
  e.timed_out ? "timed out" : e.signal ? "signal " + num(e.signal) : "exit status " + num(e.exit_code);
const pairs = (o) => {
  const list = el("dl", "pairs");
  for (const [name, value] of Object.entries(o)) {
    const words = str(value).replace(/\s*\n\s*/g, " ");
    if (!words || words === "[]" || words === "{}") continue;
    list.append(el("div", "", el("dt", "", name), el("dd", "", marked(words))));
  }
  return list.children.length ? list : null;
};
const fold = (title, value) => {
  const box = el("details", "", el("summary", "dim", title));
  box.addEventListener("toggle", () => { if (box.open && box.children.length < 2) box.append(text(value)); });
  return box;
};
const OWN = new Set(["seq", "ts", "type", "prev", "turn", "known", "egress.response", "egress.redirect"]);
const fields = (e) => Object.fromEntries(Object.entries(e).filter(([name]) => !OWN.has(name)));
const answer = (e) => e === undefined ? [tag("no answer", "warn")] :
  [tag(str(e.status) || "none came", unanswered(e) ? "bad" : "good"), dim(took(e))];
const table = (heads, rows) => {
  const row = (make, cells) => el("tr", "", ...cells.map((c) => make(c)));
  const th = (w) => { const cell = el("th", "", w); cell.scope = "col"; return cell; };
  return el("table", "", el("thead", "", row(th, heads)),
    el("tbody", "", ...rows.map((cells) => row((w) => el("td", "", w), cells))));
};
const timesOf = (totals) => {
  const rows = ["models", "tools", "hooks"].flatMap((kind) => Object.entries((totals || {})[kind] || {}));
  return rows.length ? table(["Model, tool or hook", "Calls", "Errors", "Time"],
    rows.map(([name, t]) => [name, num(t.calls) + "", num(t.errors) + "", secs(num(t.ms))])) : null;
};
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
  "egress.request": (e) => [
    head(str(e.method) + " " + str(e.path), dim("to " + str(e.connection)), ...answer(e["egress.response"]),
      e["egress.redirect"] ? dim("by way of " + str(e["egress.redirect"].to)) : null),
    text((e["egress.response"] || {}).error)],
  "egress.response": (e) => [head("Answer", ...answer(e)), text(e.error)],
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
  "run.start": (e) => [head("Run"), pairs(fields(e))],
  "config": (e) => [head("Configuration"), pairs(fields(e))],
  "manifest": (e) => {
    const d = e.document || {};
    return [head("Manifest", dim(str(e.digest))),
      pairs({mode: d.mode, why: d.why, ceiling: d.ceiling, hooks: d.hooks, limits: d.limits, network: d.network,
        "protected paths": (d.protectedPaths || []).join(" "), connections: (d.connections || [])
          .map((c) => str(c.name) + " (" + many((c.routes || []).length, "route") + ")").join(", ")}),
      fold("The whole manifest", d)];
  },
  "model.request": (e) => [head("Asked the model", dim(many(num(e.messages), "message")))],
  "agent.note": (e) => [head("Told the model"), text(e.text)],
  "agent.stop": (e) => [head("The loop ended", dim(str(e.stop_reason))), text(e.reason)],
  "hook.start": (e) => [head("Hook " + str(e.purpose) + " begins", dim(str(e.command)))],
  "git.commit": (e) => [head("Commit " + str(e.commit).slice(0, 12)), text(e.message)],
  "git.push": (e) => [head("Pushed to " + str(e.branch), dim(str(e.sha).slice(0, 12)))],
  "pull_request": (e) => [head("Pull request " + str(e.number), dim(str(e.url)))],
  "comment": (e) => [head("Written at GitHub: " + str(e.kind), dim(str(e.url)))],
  "log": (e) => [head("Note", e.level === "error" ? tag("error", "bad") : null, dim(str(e.where))), text(e.message)],
  "gate.decision": (e) => [head("Actor gate: " + str(e.mode)), text(e.reason)],
  "hook.end": (e) => [
    head("Hook " + str(e.purpose), passed(e.passed, "passed", "did not pass"), dim(str(e.ended))), text(e.output)],
  "sandbox.probe": (e) => [
    head("Sandbox probe (" + str(e.backend) + ")", passed(e.ok, "held", "failed")),
    text((e.items || []).map((i) => (i.held ? "refused  " : "NOT REFUSED  ") + str(i.name) +
      (i.detail ? ": " + str(i.detail) : "")).join("\n"))],
  "agent.rendered": (e) => [
    head("Tools shown", dim(many((e.tools || []).length, "tool") + (e.known ? ", as before" : ""))),
    e.known ? null : text((e.tools || []).join(" "))],
  "limit": (e) => [head("Limit reached: " + str(e.limit), tag("limit", "warn")), text(e.how_to_raise)],
  "run.end": (e) => [head("Outcome: " + str(e.outcome), dim(str(e.stop_reason))), text(e.output), timesOf(e.totals)],
};
const fallback = (e) => {
  const rest = fields(e);
  return [head(str(e.type)), Object.keys(rest).length ? text(rest) : null];
};
const usageWords = (u) => u && typeof u === "object" ? num(u.input_tokens).toLocaleString("en") + " in, " +
  num(u.output_tokens).toLocaleString("en") + " out" : "";
const show = (e) => {
  const make = Object.prototype.hasOwnProperty.call(RENDER, e.type) ? RENDER[e.type] : fallback;
  let parts;
  try { parts = make(e).filter(Boolean); } catch (fault) { parts = fallback(e).filter(Boolean); }
  return el("div", parts.length > 1 ? "event" : "event line", ...parts);
};

"""
