"""The viewer's page: self-contained, inert whatever a transcript holds, usable by keyboard and at full size."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.redact import Redactor
from agent.broker.transcript import Transcript
from agent.contract.errors import UserError
from agent.viewer.command import main
from agent.viewer.page import render, write_page
from tests.support.artifacts import folder
from tests.unit.viewer_chromium import CHROMIUM, Browser, browser

PWN = "document.title='pwned'"
XSS = (
    f"<script>{PWN}</script>", f"</script><script>{PWN}</script>", f"<img src=x onerror={PWN}>",
    f"<svg onload={PWN}>", f"<!--<script>{PWN}</script>", "<!--<script>", f"]]><script>{PWN}</script>",
    f"\"><script>{PWN}</script>", f"' onmouseover='{PWN}", f"javascript:{PWN}", f"</style><script>{PWN}</script>",
    f"</title><script>{PWN}</script>", f"</noscript><script>{PWN}</script>", f"\u2028;{PWN}//", f"{{{{{PWN}}}}}",
    f"<iframe srcdoc='<script>parent.{PWN}</script>'>", f"<a href=\"javascript:{PWN}\">x</a>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>", "<base href=https://evil.example/>",
    "<link rel=stylesheet href=https://evil.example/a.css>", "<form action=https://evil.example><button id=open>",
    f"<math><mtext></form><form><mglyph><style></math><img src onerror={PWN}>", f"\\u003cscript>{PWN}</script>",
    f"&lt;script&gt;{PWN}&lt;/script&gt;", "__proto__", "constructor", "\x00<script>", f"${{{PWN}}}", "`;" + PWN,
)  # fmt: skip


def hostile() -> list[dict[str, Any]]:
    """Every hostile text in every field that a transcript takes from outside."""
    events: list[dict[str, Any]] = [{"type": "run.start", "mode": XSS[0], "event": XSS[1], "repository": XSS[11]}]
    for number, text in enumerate(XSS):
        events += [
            {"type": "agent.rendered", "turn": number + 1, "tools": [text]},
            {"type": "model.response", "turn": number + 1, "text": text, "model": text, "usage": {"input_tokens": 5}},
            {"type": "tool.call", "turn": number + 1, "name": text, "arguments": {text: text, "path": text}},
            {"type": "tool.call", "name": "edit_file", "arguments": {"path": text, "old": text, "new": text}},
            {
                "type": "tool.result",
                "name": text,
                "text": f"--- a\n+++ b\n@@ -1 +1 @@\n-{text}\n+{text}",
                "is_error": True,
            },
            {"type": "egress.denied", "connection": text, "method": text, "path": text, "code": text, "reason": text},
            {"type": text, "turn": text, text: text},
            {"type": "hook.end", "purpose": text, "passed": False, "ended": text, "output": text},
        ]
    return [*events, {"type": "run.end", "stop_reason": XSS[2], "outcome": XSS[3], "exit_status": 0, "output": XSS[4]}]


class Elements(html.parser.HTMLParser):
    """What a parser finds: tags with their attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in self.texts:
            self.texts[self.inside].append(data)


def test_no_text_of_a_transcript_becomes_markup() -> None:
    """The page of the hostile transcript has the elements of the page of an empty one, no more."""
    plain = Elements(render([{"type": "log", "message": "x"}]))
    shown = Elements(render(hostile()))
    counted = [tag for tag, _ in shown.tags if tag not in ("div", "dt", "dd")]
    assert counted == [tag for tag, _ in plain.tags if tag not in ("div", "dt", "dd")]
    assert not any(name.startswith("on") for _, attributes in shown.tags for name in attributes)
    data = "".join(shown.texts["script"]).split('\n"use strict"')[0]
    assert json.loads(data) == hostile()


def test_the_policy_allows_our_own_script_and_style_alone() -> None:
    """`default-src 'none'` and the two hashes, which match; nothing in the page names another place."""
    page = render(hostile()[:1] + hostile()[-1:])
    elements = Elements(page)
    (policy,) = [a["content"] for t, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy"]
    script, style = elements.texts["script"][-1], "".join(elements.texts["style"])
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert [a for _, a in elements.tags if {"src", "srcset", "action", "background"} & set(a)] == []
    assert [a["href"] for _, a in elements.tags if "href" in a] == ["#turns"]
    assert (
        re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|fetch\(|XMLHttp", script)
        is None
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=8), st.text(max_size=40), max_size=4), max_size=4))
def test_any_events_survive_the_page(events: list[dict[str, str]]) -> None:
    """What the script reads is what the transcript held."""
    data = Elements(render(events)).texts["script"]
    assert json.loads("".join(data).split('\n"use strict"')[0]) == events


def test_a_cut_off_transcript_is_shown_up_to_its_last_event(tmp_path: Path) -> None:
    """After a crash the page is what one looks at; without any event there is nothing to show."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"type":"log","message":"a"}\n{"type":"log","message":"b"}\n{"type":"lo')
    assert write_page(path, tmp_path / "t.html") == 2
    path.write_bytes(b'{"ty')
    with pytest.raises(UserError):
        write_page(path, tmp_path / "u.html")
    with pytest.raises(UserError):
        write_page(tmp_path / "none", tmp_path / "u.html")
    assert not (tmp_path / "u.html").exists()


def test_the_command_writes_the_page_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a file, for the results folder, and with one sentence where there is nothing."""
    (tmp_path / "transcript.jsonl").write_text('{"type":"log","message":"a"}\n')
    assert main([str(tmp_path / "transcript.jsonl"), "-o", str(tmp_path / "p.html")]) == 0
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / "p.html").read_text() == (tmp_path / "transcript.html").read_text()
    assert main([str(tmp_path / "none")]) == 2
    (tmp_path / "folder").mkdir()
    assert main([str(tmp_path), "-o", str(tmp_path / "folder")]) == 2
    assert main([str(tmp_path), "-o", "/proc/none/p.html"]) == 2
    assert list(tmp_path.glob("*.part")) == []
    shown = capsys.readouterr()
    assert shown.out == f"1 events: {tmp_path}/p.html\n1 events: {tmp_path}/transcript.html\n"
    assert shown.err.splitlines() == [
        f"airlock view: {tmp_path}/none: No such file or directory.",
        f"airlock view: {tmp_path}/folder: Is a directory.",
        "airlock view: /proc/none/p.html: No such file or directory.",
    ]


# ------------------------------------------------------------------ in a real browser

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as started:
        yield started


def run_of(turns: int, size: int) -> list[dict[str, Any]]:
    """A run with edits, errors and denials here and there."""
    body = ("def f(x):\n    return x < 1 & 2\n" * (size // 32 + 1))[:size]
    events: list[dict[str, Any]] = [
        {"type": "run.start", "mode": "fix-ci", "event": "workflow_run", "repository": "acme/shop"},
        {"type": "gate.decision", "mode": "fix-ci", "reason": "octocat has write access"},
        {"type": "sandbox.probe", "backend": "process", "ok": True, "items": [{"name": "connect out", "held": True}]},
    ]
    for turn in range(1, turns + 1):
        usage = {"input_tokens": 900 + turn, "cached_tokens": 800, "output_tokens": 60, "cost": 0.004}
        events += [
            {"type": "agent.rendered", "turn": turn, "tools": ["read_file", "edit_file", "run_command"]},
            {"type": "model.response", "turn": turn, "text": f"Step {turn}.", "usage": usage, "ms": 1200, "model": "m"},
        ]
        if turn % 5 == 0:
            arguments: dict[str, Any] = {"path": "a.py", "old": "x = 1\ny = 2", "new": "x = 3\ny = 2"}
            events.append({"type": "tool.call", "turn": turn, "name": "edit_file", "arguments": arguments})
        elif turn % 7 == 0:
            events.append(
                {
                    "type": "egress.denied",
                    "connection": "github",
                    "method": "PUT",
                    "path": "/x",
                    "code": "egress_path_blocked",
                }
            )
        else:
            events.append(
                {"type": "tool.call", "turn": turn, "name": "run_command", "arguments": {"command": "make test"}}
            )
            failed = turn % 11 == 0
            events.append(
                {"type": "tool.result", "turn": turn, "name": "run_command", "text": body, "is_error": failed}
            )
    events.append({"type": "command", "command": "make test", "exit_code": 2, "duration_ms": 5.0, "output_id": "3"})
    events.append({"type": "egress.response", "status": None, "error": "no route to the model"})
    diff = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-x = 1\n+x = 3\n y = 2"
    events.append({"type": "diff", "text": diff, "added": 1, "removed": 1})
    end = {"type": "run.end", "stop_reason": "completed", "outcome": "done", "exit_status": 0, "output": "Fixed."}
    totals = {"tools": {"run_command": {"calls": 6, "errors": 1, "ms": 4100.0}}, "models": {"m": {"calls": turns}}}
    return [*events, {**end, "totals": totals}]


def page_of(events: list[dict[str, Any]], tmp_path: Path) -> Path:
    transcript = Transcript(tmp_path / "transcript.jsonl", Redactor({}), time.time)
    for event in events:
        transcript.write(event["type"], **{k: v for k, v in event.items() if k != "type"})
    write_page(transcript.path, tmp_path / "transcript.html")
    return tmp_path / "transcript.html"


OPEN = "[...document.querySelectorAll('#turns>details')].filter(d => d.open).length"
SEEN = "[...document.querySelectorAll('#turns>details')].filter(d => !d.hidden).length"


@needs_chromium
def test_hostile_content_is_inert_in_a_browser(tab: Browser, tmp_path: Path) -> None:
    """Everything opened and searched: no script ran, nothing was asked of any host, no markup was made."""
    page = tmp_path / "hostile.html"
    page.write_text(render(hostile()), encoding="utf-8", errors="replace")
    tab.open(page)
    title = tab.js("document.title")
    tab.js("document.getElementById('open').click()")
    tab.js("new Promise(r => setTimeout(r, 300))")
    tab.js("(q => { q.value = '<script'; q.dispatchEvent(new Event('input')); })(document.getElementById('q'))")
    tab.js("new Promise(r => setTimeout(r, 500))")
    assert tab.js(OPEN) > 20
    assert tab.js("document.title") == title != "pwned"
    assert tab.js("document.querySelectorAll('#turns img,#turns a,#turns iframe,#turns script,#turns svg').length") == 0
    assert tab.js("document.querySelector('#turns').textContent.includes('onerror=document')") is True
    asked = [request["request"]["url"] for request in tab.seen("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith("file:")] == []
    assert tab.seen("Runtime.exceptionThrown") == []
    assert [e for e in tab.seen("Log.entryAdded") if e["entry"]["level"] == "error"] == []


@needs_chromium
def test_the_policy_holds_even_if_markup_got_in(tab: Browser, tmp_path: Path) -> None:
    """Depth: with a script and an image put into the page by force, neither runs nor loads."""
    page = tmp_path / "forced.html"
    text = render([{"type": "log", "message": "x"}])
    page.write_text(text.replace("<main", f"<script>{PWN}</script><img src=https://evil.example/a><main", 1))
    tab.open(page)
    assert tab.js("document.title") != "pwned"
    assert "Content Security Policy" in json.dumps(tab.seen("Log.entryAdded"))
    assert tab.js("document.querySelector('img').naturalWidth") == 0


@needs_chromium
def test_filters_search_and_keys(tab: Browser, tmp_path: Path) -> None:
    """Denials, errors, edits; the count is announced; j, k, o and / work without a mouse."""
    tab.open(page_of(run_of(22, 200), tmp_path))
    assert tab.js(SEEN) == 24
    for name, count in (("denials", 3), ("errors", 2), ("edits", 4)):
        tab.js(f"document.getElementById('f-{name}').click()")
        assert tab.js(SEEN) == count
        assert tab.js("document.getElementById('count').textContent") == f"{count} of 24 parts"
        tab.js(f"document.getElementById('f-{name}').click()")
    for key in ("j", "j", "o"):
        tab.press(key)
    assert tab.js("document.activeElement.textContent").startswith("Turn 1 ")
    assert tab.js("document.activeElement.parentNode.open") is True
    tab.press("k")
    assert tab.js("document.activeElement.textContent").startswith("Before the first turn")
    tab.press("/")
    assert tab.js("document.activeElement.id") == "q"
    tab.call("Input.insertText", text="Step 17.")
    tab.js("new Promise(r => setTimeout(r, 400))")
    assert tab.js(SEEN) == 1
    tab.press("Escape")
    assert tab.js("document.activeElement.id") != "q"


@needs_chromium
def test_diffs_and_the_chart_are_rendered(tab: Browser, tmp_path: Path) -> None:
    """An edit shows removed and added lines; tokens and cost have a picture, its words and a table."""
    tab.open(page_of(run_of(10, 200), tmp_path))
    tab.js("document.getElementById('open').click()")
    tab.js("new Promise(r => setTimeout(r, 300))")
    assert tab.js("[...document.querySelectorAll('.diff .del')].map(x => x.textContent).join('|')") == (
        "-x = 1|-x = 1|-x = 1"
    )
    assert tab.js("[...document.querySelectorAll('.diff .add')].map(x => x.textContent).includes('+x = 3')") is True
    assert tab.js("document.querySelectorAll('#use rect').length") == 10
    assert tab.js("document.querySelectorAll('#use polyline').length") == 1
    shown = tab.js("document.getElementById('turns').textContent")
    assert "exit status 2 5 ms · full text in commands/3.txt$ make test" in shown
    assert "Answer none came" in shown
    label = tab.js("document.querySelector('#use svg').ariaLabel")
    assert "at most 970, 9,655 in all" in label
    assert "cost so far, up to $0.0400" in label
    assert tab.js("document.querySelectorAll('#use tbody tr').length") == 10
    times = "[...document.querySelectorAll('#turns tbody tr')].map(r => [...r.cells].map(c => c.textContent).join('|'))"
    assert tab.js(times) == ["m|10|0|0 ms", "run_command|6|1|4.1 s"]


@needs_chromium
def test_names_roles_and_contrast(tab: Browser, tmp_path: Path) -> None:
    """Every control has a name, the page its landmarks, and words stand out in light and in dark."""
    tab.open(page_of(run_of(8, 200), tmp_path))
    tab.js("document.getElementById('open').click()")
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    roles = {node["role"]["value"] for node in tree}
    assert {"main", "search", "searchbox", "checkbox", "button", "banner", "status", "heading", "image"} <= roles
    nameless = [
        node["role"]["value"]
        for node in tree
        if node["role"]["value"] in ("button", "searchbox", "checkbox", "image", "main")
        and not node.get("name", {}).get("value")
    ]
    assert nameless == []
    contrast = """
      (() => { const lum = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
          .map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126*v[0]+.7152*v[1]+.0722*v[2]; };
        const under = n => { for (; n; n = n.parentElement) { const c = getComputedStyle(n).backgroundColor;
          if (c !== "rgba(0, 0, 0, 0)") return c; } return "rgb(255,255,255)"; };
        const all = document.querySelectorAll("dt,dd,summary,.tag,.dim,pre,.add,.del,.at,button,label");
        return Math.min(...[...all].map(n => {
          const a = lum(getComputedStyle(n).color), b = lum(under(n));
          return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); })); })()
    """
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        assert tab.js(contrast) >= 4.5
        tab.screenshot(folder() / f"viewer-{scheme}.png", height=3000)
        assert (folder() / f"viewer-{scheme}.png").stat().st_size > 10_000
    tab.scheme("light")


@needs_chromium
def test_nothing_stands_out_of_a_narrow_page(tab: Browser, tmp_path: Path) -> None:
    """On a telephone's width, everything opened: long paths and names break, nothing scrolls sideways."""
    long = "/repos/acme/shop/git/trees/" + "0123456789abcdef" * 12
    request = {"type": "egress.request", "n": 1, "connection": "github", "method": "GET", "path": long}
    call = {"type": "tool.call", "turn": 1, "name": "x" * 150, "arguments": {"path": long}}
    events = run_of(3, 200)
    tab.open(page_of([*events[:5], request, call, *events[5:]], tmp_path))
    tab.js("document.getElementById('open').click()")
    tab.js("new Promise(r => setTimeout(r, 300))")
    tab.screenshot(folder() / "viewer-narrow.png", width=400, height=2000)
    assert tab.js("document.documentElement.scrollWidth") == 400
    tab.size(1200, 900)


@needs_chromium
def test_a_request_and_its_answer_are_one_line(tab: Browser, tmp_path: Path) -> None:
    """The answer stands with what it answers, also when others come between; one that never came is told."""
    asked = [
        {"type": "egress.request", "n": n, "connection": "github", "method": "GET", "path": f"/{n}"} for n in (1, 2, 3)
    ]
    answers = [{"type": "egress.response", "n": n, "status": 200 + n, "ms": 5} for n in (2, 1)]
    tab.open(page_of([*asked, *answers, {"type": "run.end", "stop_reason": "error", "outcome": "error"}], tmp_path))
    tab.js("document.getElementById('open').click()")
    tab.js("new Promise(r => setTimeout(r, 300))")
    shown = tab.js("[...document.querySelectorAll('.event.line')].slice(0, 3).map(x => x.textContent)")
    assert shown == ["GET /1 to github 201 5 ms", "GET /2 to github 202 5 ms", "GET /3 to github no answer"]


@needs_chromium
def test_two_hundred_turns_of_twenty_megabytes_open_and_answer(tab: Browser, tmp_path: Path) -> None:
    """Nothing of a turn is made before it is opened; a search over all of it ends in seconds."""
    page = tmp_path / "big.html"
    page.write_text(render(run_of(200, 160_000)), encoding="utf-8")
    assert page.stat().st_size > 20_000_000
    started = time.monotonic()
    tab.open(page)
    assert tab.js(SEEN) == 202
    tab.screenshot(folder() / "viewer-200-turns.png")
    assert tab.js("document.querySelectorAll('*').length") < 6000
    tab.js("(q => { q.value = 'Step 199.'; q.dispatchEvent(new Event('input')); })(document.getElementById('q'))")
    tab.js("new Promise(r => setTimeout(r, 250))")
    assert tab.js(SEEN) == 1
    assert time.monotonic() - started < 30
