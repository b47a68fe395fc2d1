"""Neutralise text that goes to GitHub: what a model writes may inform, never notify, close, command or load.

Mentions, closing keywords, slash commands of other bots, images and media, hidden HTML comments and workflow
commands lose their effect and stay readable (DESIGN section 5, R17). Code keeps every character, save where a bot
or a runner would read a command in it anyway. The broker applies it to every body; it is idempotent.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from html.entities import html5

from agent.contract.cut import LIMIT, MARK, cut, size
from agent.contract.dataclass import dataclass
from agent.contract.neutral_code import Span, lenient_code, outside, strict_code
from agent.contract.regex import regex

BREAK = "\u200b"
"""Zero-width space: ends a mention, a keyword or a tag name without showing."""

_ENTITY = regex(r"&(#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)")
_MEDIA = (
    "img|image|source|video|audio|picture|track|embed|iframe|frame|object|applet|link|input|svg|script|style|base|meta"
)
_TAG = regex(rf"(?i)<(?=(?:{_MEDIA})\b)|<(?=[!?])")
_IMAGE = regex(r"!(?=\[)")
_DIRECT = regex(r"!\[[^\[\]\n]{0,500}\]\(")
_MENTION = regex(r"(?<![A-Za-z0-9_])@(?=[A-Za-z0-9])")
_URL = regex(r"(?:^|[\s(*_~<\"'])https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?/[\w.~:/?#!$&'*+,;=%@-]*\Z", re.A)
_CLOSER = regex(
    r"(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)(?::\s*|\s+)[*_~\[(<\"']{0,4}"
    r"(?=(?:[\w.-]+/[\w.-]+)?#\d|GH-\d|https?://\S+/(?:issues|pull|discussions)/\d)"
)
_SLASH = regex(r"(?m)^[ \t>]*(/)(?=[A-Za-z][A-Za-z-])")
_BOT_WORD = regex(r"(?im)^[ \t>]*(bors|homu|ok|test|retest)(?=\s+(?:\S+))")
_BOT_PHRASE = regex(r"(?i)(?:bors|homu)\s+\S|ok\s+to\s+test|(?:re)?test\s+this\s+please|retest\s*$")
_BOT_NAME = regex(
    r"(?im)^[ \t>]*(@)(?=(?:dependabot|renovate|mergify|bors|homu|rustbot|coderabbit|copilot|claude|codex|"
    r"github-actions|k8s-ci-robot|snyk|greenkeeper|sourcery|gemini)[\w-]*)"
)
_COMMANDS = (
    "set-env|set-output|save-state|add-path|add-mask|add-matcher|remove-matcher|warning|error|debug|notice|group|"
    "endgroup|echo|stop-commands|internal-set-repo-path"
)
_COMMAND = regex(rf"(?im)^[ \t\u00a0\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*(::)(?=(?:{_COMMANDS})\b)")
_LOG_COMMAND = regex(r"##(?=\[[A-Za-z]|vso\[)", re.I)
_HIDDEN_NOTE = regex(r"(?m)^ {0,3}\[[^\]\n]{1,200}\](?=:[ \t]*(?:#|<>)(?:\s|$))")
_DROPPED = regex(r"[\x00-\x08\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_ROUNDS = 12

Edit = tuple[int, int, str]


def neutralise(body: str, *, keep_mark: bool = False, limit: int = LIMIT, rest: str = "") -> str:
    """Return the text without effects, at most `limit` characters long.

    Args:
        body: Markdown.
        keep_mark: leave hidden marks of our own that stand alone on a line.
        limit: most characters, counted in UTF-16 units, which is never fewer than GitHub counts.
        rest: sentence that says where the rest is, when the text had to be cut.
    """
    text = body.replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"[\u2028\u2029\x0b\x0c\x85]", " ", _DROPPED.sub("", text))
    room = limit
    while True:
        out = _without_effects(cut(text, room, rest), keep_mark=keep_mark)
        over = size(out) - limit
        if over <= 0:
            return out
        room -= over + 16  # what neutralising added


def _without_effects(body: str, *, keep_mark: bool) -> str:
    for _ in range(_ROUNDS):
        edits = _edits(body, keep_mark=keep_mark)
        if not edits:
            return body
        body = _applied(body, edits)
    return re.sub(r"(?<=[@!<&])(?!\u200b)|(?<=::)(?!\u200b)", BREAK, body)  # never seen; safe rather than pretty


def _applied(body: str, edits: dict[tuple[int, int], str]) -> str:
    parts: list[str] = []
    at = 0
    for (start, end), text in sorted(edits.items()):
        if start < at:
            continue  # overlaps the edit before it: the next round sees it again
        parts += [body[at:start], text]
        at = end
    return "".join([*parts, body[at:]])


def _edits(body: str, *, keep_mark: bool) -> dict[tuple[int, int], str]:
    """All edits that the text needs, by the span they replace."""
    strict = strict_code(body)
    edits: dict[tuple[int, int], str] = {}
    for start, end, text in _raw_edits(body, strict):
        edits.setdefault((start, end), text)
    for spans in (strict, lenient_code(body)):
        parts = outside(body, spans)
        for view in _views(body, parts):
            for start, end, text in _view_edits(view, body, keep_mark=keep_mark):
                edits.setdefault((start, end), text)
    return edits


def _inside(spans: list[Span], at: int) -> bool:
    return any(left <= at < right for left, right in spans)


def _raw_edits(body: str, strict: list[Span]) -> Iterator[Edit]:
    """Edits for readers that know no Markdown: bots read lines, runners read logs."""
    for m in _SLASH.finditer(body):
        at = m.start(1)
        code = _inside(strict, at)
        yield at, at, BREAK if code else "\\"
        if code:
            yield from _plain_suggestion(body, strict, at)
    for m in _BOT_WORD.finditer(body):
        if _BOT_PHRASE.match(body, m.start(1)):
            yield m.end(1), m.end(1), BREAK
            yield from _plain_suggestion(body, strict, m.start(1))
    for m in _BOT_NAME.finditer(body):
        yield m.end(1), m.end(1), BREAK
        yield from _plain_suggestion(body, strict, m.start(1))
    for m in _COMMAND.finditer(body):
        yield m.start(1), m.end(1), ": :"
        yield from _plain_suggestion(body, strict, m.start(1))
    for m in _LOG_COMMAND.finditer(body):
        yield m.end(), m.end(), BREAK
        yield from _plain_suggestion(body, strict, m.start())


def _plain_suggestion(body: str, strict: list[Span], at: int) -> Iterator[Edit]:
    """A suggestion whose code had to be changed must not be applied with one click: show it as text."""
    for left, right in strict:
        if left <= at < right:
            found = re.compile(r"[ ]{0,3}[`~]{3,}[ \t]*(suggestion)\b").match(body, left)
            if found:
                yield found.start(1), found.end(1), "text"


@dataclass(frozen=True)
class _View:
    """A text as some reader sees it, and where each character stands in the source."""

    text: str
    starts: list[int]
    ends: list[int]


def _views(body: str, parts: list[Span]) -> Iterator[_View]:
    """The text as written, with entities read, and with look-alikes folded too."""
    raw_text = "".join(body[a:b] for a, b in parts)
    raw_at = [i for a, b in parts for i in range(a, b)]
    yield _View(raw_text, raw_at, [i + 1 for i in raw_at])
    chars: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for m in _ENTITY.finditer(raw_text):
        length, meant = _entity(m[0])
        if not length:
            continue
        for i in range(at, m.start()):
            chars.append(raw_text[i])
            starts.append(raw_at[i])
            ends.append(raw_at[i] + 1)
        for c in meant:
            chars.append(c)
            starts.append(raw_at[m.start()])
            ends.append(raw_at[m.start() + length - 1] + 1)
        at = m.start() + length
    if at:
        for i in range(at, len(raw_text)):
            chars.append(raw_text[i])
            starts.append(raw_at[i])
            ends.append(raw_at[i] + 1)
        yield _View("".join(chars), starts, ends)
    else:
        chars, starts = list(raw_text), raw_at
        ends = [i + 1 for i in raw_at]
    if raw_text.isascii() and "".join(chars).isascii():
        return
    folded = [unicodedata.normalize("NFKC", c) for c in chars]
    yield _View(
        "".join(folded),
        [s for s, f in zip(starts, folded, strict=True) for _ in f],
        [e for e, f in zip(ends, folded, strict=True) for _ in f],
    )


def _entity(text: str) -> tuple[int, str]:
    """Length of the entity that the text begins with, and what it means; 0 where it is none."""
    if text[1] == "#":
        return len(text), html.unescape(text)
    name = text[1:]
    if name in html5:
        return len(text), html5[name]
    for x in range(len(name) - 1, 1, -1):
        if name[:x] in html5:
            return x + 1, html5[name[:x]]
    return 0, ""


def _view_edits(view: _View, body: str, *, keep_mark: bool) -> Iterator[Edit]:
    """Edits for readers of Markdown and HTML."""
    text = view.text

    def after(at: int) -> Edit:
        return view.ends[at], view.ends[at], BREAK

    for m in _MENTION.finditer(text):
        url = _URL.search(text[max(0, m.start() - 400) : m.start()])
        if url is None:
            yield after(m.start())
        elif text[m.start() - 1] != "/":
            yield view.starts[m.start()], view.ends[m.start()], "%40"
    for m in _TAG.finditer(text):
        if not (keep_mark and _is_mark(body, view.starts[m.start()])):
            yield after(m.start())
    references, last_link = "]:" in text, text.rfind("](")
    for m in _IMAGE.finditer(text):
        at = m.start()
        if _DIRECT.match(text, at) and not (at and text[at - 1] in "!<"):
            yield view.starts[at], view.ends[at], ""
            if text[at + 2] == "]":
                yield view.ends[at + 1], view.ends[at + 1], "image"
        elif references or at < last_link:
            yield after(at)
    for m in _CLOSER.finditer(text):
        yield view.starts[m.end()], view.starts[m.end()], BREAK
    for m in _HIDDEN_NOTE.finditer(text):
        yield after(m.end() - 1)


def _is_mark(body: str, at: int) -> bool:
    """A mark of our own, alone on its line."""
    found = MARK.match(body, at)
    if found is None:
        return False
    line_start = body.rfind("\n", 0, at) + 1
    line_end = body.find("\n", at)
    return body[line_start : len(body) if line_end < 0 else line_end].strip(" ") == found[0]
