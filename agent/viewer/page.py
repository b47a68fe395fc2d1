"""Make the page: the events as inert JSON, our style and script by hash, and nothing else allowed.

The policy (`default-src 'none'`, style and script by SHA-256) holds even if a hostile text got out of the JSON
block: it could neither run nor load. The script makes elements by `textContent` alone. The facts at the top
are written here, so that a page without scripts still says how the run went.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.contract.errors import UserError
from agent.contract.totals import Totals
from agent.viewer.script import SCRIPT
from agent.viewer.style import STYLE

WORDS = 2000  # characters of the last words at the top
_TONES = {"done": "good", "skipped": "", "capped": "warn", "cancelled": "warn", "not_verified": "warn"}


def render(events: Iterable[Mapping[str, Any]]) -> str:
    """The page for these events, as one HTML text."""
    shown = list(events)
    totals = Totals()
    start: Mapping[str, Any] = {}
    end: Mapping[str, Any] = {}
    for event in shown:
        kind = str(event.get("type", ""))
        totals.add(kind, event)
        start = event if kind == "run.start" and not start else start
        end = event if kind == "run.end" else end
    policy = (
        f"default-src 'none'; script-src '{_hash(SCRIPT)}'; style-src '{_hash(STYLE)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"Airlock transcript: {start.get('mode', 'run')} in {start.get('repository', 'unknown repository')}"
    return _PAGE.format(
        policy=html.escape(policy),
        title=html.escape(title),
        style=STYLE,
        facts=_facts(start, end, totals, _lasted(shown)),
        said=_said(end),
        data=_inert(shown),
        script=SCRIPT,
    )


def write_page(transcript: Path, page: Path) -> int:
    """Read a transcript file and write its page; returns the number of events.

    A transcript that a crash cut off is shown up to its last whole line.

    Raises:
        UserError: a file cannot be read or written, or there is no event in it.
    """
    events: list[Mapping[str, Any]] = []
    part: Path | None = None
    try:
        with transcript.open("rb") as file:
            for line in file:
                try:
                    event = json.loads(line)
                except (ValueError, RecursionError):
                    break
                if isinstance(event, dict):
                    events.append(event)
        if not events:
            raise UserError(f"{transcript} holds no transcript.")
        part = page.with_name(page.name + ".part")
        part.write_text(render(events), encoding="utf-8", errors="replace")
        part.replace(page)
    except OSError as exc:
        if part is not None:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        raise UserError(f"{transcript if part is None else page}: {exc.strerror}.") from exc
    return len(events)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _inert(events: list[Mapping[str, Any]]) -> str:
    """JSON in which no tag, comment or entity can begin: `<`, `>` and `&` are escapes."""
    text = json.dumps(events, ensure_ascii=True, separators=(",", ":"), default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _facts(start: Mapping[str, Any], end: Mapping[str, Any], totals: Totals, lasted: str) -> str:
    cost = "unknown" if totals.cost_usd is None else f"${totals.cost_usd:.4f}"
    models = start.get("models")
    outcome = str(end.get("outcome", "not recorded: the run did not end by itself"))
    facts = [
        ("Outcome", outcome, _TONES.get(outcome, "bad")),
        ("Stop reason", end.get("stop_reason", ""), ""),
        ("Mode", start.get("mode", ""), ""),
        ("Event", start.get("event", ""), ""),
        ("Actor", start.get("actor", ""), ""),
        ("Model", ", ".join(map(str, models)) if isinstance(models, list) else "", ""),
        ("Lasted", lasted, ""),
        ("Turns", totals.turns, ""),
        ("Tool calls", totals.tool_calls, ""),
        ("Denials", totals.denials, "warn" if totals.denials else ""),
        ("Tokens in", f"{totals.input_tokens:,} ({totals.cached_tokens:,} cached)", ""),
        ("Tokens out", f"{totals.output_tokens:,}", ""),
        ("Cost", cost, ""),
        ("Requests out", totals.egress_requests, ""),
    ]
    return "".join(
        f'<div class="{tone}"><dt>{html.escape(name)}</dt><dd>{html.escape(str(value))}</dd></div>'
        for name, value, tone in facts
        if value != "" and value is not None
    )


def _lasted(events: list[Mapping[str, Any]]) -> str:
    """From the first event to the last, in words."""
    times = [ts for e in events if isinstance(ts := e.get("ts"), int | float) and not isinstance(ts, bool)]
    seconds = max(0.0, times[-1] - times[0]) if times else 0.0
    if not 0 < seconds < 10**7:
        return ""
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def _said(end: Mapping[str, Any]) -> str:
    """The model's last words, which are what most readers come for."""
    words = str(end.get("output", "")).strip()
    shown = words if len(words) <= WORDS else f"{words[:WORDS]}\n[more at the end]"
    return (
        f'<section id="said"{"" if words else " hidden"}><h2>Last words</h2><pre>{html.escape(shown)}</pre></section>'
    )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#turns">Skip to the turns</a>
<header>
<h1>{title}</h1>
<dl class="facts">{facts}</dl>
{said}
</header>
<noscript><p>The turns below need the page's own script; the facts above do not.</p></noscript>
<div class="bar" role="search">
<label for="q">Search</label>
<input id="q" type="search" autocomplete="off" spellcheck="false">
<fieldset><legend>Only turns with</legend>
<label><input type="checkbox" id="f-denials"> denials</label>
<label><input type="checkbox" id="f-errors"> errors</label>
<label><input type="checkbox" id="f-edits"> edits</label>
</fieldset>
<button type="button" id="open">Open all</button>
<button type="button" id="close">Close all</button>
<button type="button" id="theme">Light or dark</button>
<span id="count" role="status" aria-live="polite"></span>
</div>
<section id="use" aria-labelledby="use-title"><h2 id="use-title">Tokens and cost over time</h2></section>
<main id="turns" tabindex="-1" aria-label="Turns"></main>
<footer>Keys: <kbd>/</kbd> search, <kbd>j</kbd> and <kbd>k</kbd> next and previous turn,
<kbd>o</kbd> open or close it.</footer>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
