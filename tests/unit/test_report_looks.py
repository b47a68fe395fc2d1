"""Step summary and comment as people see them: rendered Markdown in a real browser, in light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from agent.broker.report.facts import RAISE, Cap, Change, Denial, GateLine, RunReport
from agent.broker.report.summary import comment, summary
from agent.contract.outcomes import StopReason
from agent.contract.totals import Totals
from tests.support.artifacts import folder
from tests.unit.viewer_chromium import CHROMIUM, browser

PAGE = """<!DOCTYPE html><meta charset="utf-8"><style>
:root{color-scheme:light dark}body{font:16px/1.5 sans-serif;max-width:50rem;margin:1rem auto;padding:0 1rem}
table{border-collapse:collapse}th,td{border:1px solid #8886;padding:.3rem .8rem}code,pre{background:#8882}
p,code{overflow-wrap:anywhere}</style>"""
HOSTILE = (
    "I fixed **two** of three. @everyone look: ![x](https://evil.example/a.png) <img src=https://evil.example/b>\n"
    "<details><summary>hidden</summary>\n\n```sh\nrm -rf /\n"
)


def report(reason: StopReason) -> RunReport:
    """Every part filled, with words of a hostile model and odd names."""
    return RunReport(
        reason, "fix-ci", RAISE.get(reason, ""), output=HOSTILE, structured=None,
        gates=(GateLine("actor", True, "octocat has write access."), GateLine("stop", False, "exit status 1")),
        changes=(Change("src/`odd`|name.py", 12, 3), Change("logo.png", None, None, "added"), Change("d/" * 60, 1, 0)),
        branch="airlock/fix-4711", commits=("a" * 40,), tip="b" * 40, comments=2,
        totals=Totals(turns=9, tool_calls=12, input_tokens=36_055, cached_tokens=30_000, output_tokens=202,
                      cost_usd=0.1112),
        caps=(Cap("tool calls", 12, 12), Cap("time", 3.4, 30, "min"), Cap("tokens", 36_257, None)),
        denials=(Denial("PUT /repos/a/b/merge", "egress_path_blocked", "no route"),),
        notes=("The sandbox's network was open, as configuration asks.",), manifest_digest="c" * 64,
        settings_read="d" * 40, duration_s=203.0, artifact="https://github.com/a/b/actions/runs/1#artifacts",
        run_url="https://github.com/a/b/actions/runs/1", transcript_digest="e" * 64, version="1", mark="run-1",
    )  # fmt: skip


@pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")
def test_summary_and_comment_are_whole_in_a_browser(tmp_path: Path) -> None:
    """All tables are tables, nothing of the model's words loads or swallows what follows; pictures are kept."""
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    with browser() as tab:
        for reason in (StopReason.COMPLETED, StopReason.MAX_TOOL_CALLS):
            for name, text in (("summary", summary(report(reason))), ("comment", comment(report(reason)))):
                page = tmp_path / "page.html"
                page.write_text(PAGE + markdown.render(text))
                tab.open(page)
                assert tab.js("document.querySelectorAll('table').length") == 4
                assert tab.js("document.querySelectorAll('img,script,iframe').length") == 0
                shown = tab.js("document.body.textContent")
                assert "| ---" not in shown
                assert shown.count("Raise it with") == (reason is StopReason.MAX_TOOL_CALLS)
                assert tab.js("document.querySelectorAll('details').length") == (1 if name == "comment" else 0)
                last = tab.js("[...document.querySelectorAll('body > p')].pop().textContent")
                assert last == "Run · Transcript (artifact)"
                assert [r for r in tab.seen("Network.requestWillBeSent") if "evil" in r["request"]["url"]] == []
                tab.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")
                for scheme in ("light", "dark"):
                    tab.scheme(scheme)
                    tab.screenshot(folder() / f"{name}-{reason}-{scheme}.png", height=1500)
                assert tab.js("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
