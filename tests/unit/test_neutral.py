"""Neutralising bodies for GitHub: no mention, closer, command or remote load survives; plain Markdown does."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.contract.cut import LIMIT, MARK, cut, size
from agent.contract.neutral import neutralise
from tests.support import oracles

ORACLES = (
    oracles.remote_loads,
    oracles.mentions,
    oracles.closers,
    oracles.slash_commands,
    oracles.workflow_commands,
)

_PIECES = st.sampled_from(
    """@ user @acme/everyone &#64; &#64 &commat; ＠ ﹫ ` `` ``` ~~~ > - | <img <img_src=https://e.test/a> &lt;img
    &lt &gt; < > ![a](https://e.test/x) ![ ! [ ] ( ) https://e.test/ [r]:_https://e.test/q ![r] ![a][r] &#33;
    &excl; &lsqb; Fixes fixes: closes #9 acme/x#1 GH-1 https://github.com/a/b/issues/3 /approve /merge bors r+
    @dependabot <!-- --> \\ é ⑴ ª / <pre> </pre> <div> <details> $ ::set-env ::error ##[error] x ```suggestion
    &amp; amp; <video_poster=//e.test/x>""".split()
).map(lambda piece: piece.replace("_", " "))
_BLANKS = st.sampled_from([" ", "\n", "\n\n", "    ", "\t", "> ", "\r", "\u2028", "\u200b", "1. "])


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(st.lists(st.one_of(_PIECES, _BLANKS), max_size=16).map("".join), st.text(max_size=80)))
def test_no_effect_survives_in_any_body_and_a_second_pass_changes_nothing(body: str) -> None:
    """Whatever the mix of code, entities, look-alikes and containers."""
    clean = neutralise(body)
    assert {f.__name__: f(clean) for f in ORACLES} == {f.__name__: [] for f in ORACLES}
    assert neutralise(clean) == clean


PLAIN = """# Review

Plain **Markdown** with `code`, a [link](https://github.com/acme/widgets/pull/7), src/app.py:1 and a user@example.com
address; see https://medium.com/@someone/post, #9 and acme/widgets#3. It fixes the bug: 3 < 4 && a > b.

- [x] `@decorator` and `![not an image](x)` in code
- 1/2 and/or, pkg@1.2.3

```python
@pytest.fixture
def fixes(): ...  # fixes #1 in a comment; ![x](https://e.test/)
```

<details><summary>More</summary>

| a | b |
| - | - |
| `x` | y |

</details>
"""


def test_plain_markdown_is_left_byte_for_byte() -> None:
    """Code, links, addresses, references, tables, details."""
    assert neutralise(PLAIN) == PLAIN


@pytest.mark.parametrize(
    ("body", "clean"),
    [
        ("cc @acme/everyone", "cc @\u200bacme/everyone"),
        ("![ok](https://e.test/p.png)", "[ok](https://e.test/p.png)"),
        ("![](https://e.test/p.png)", "[image](https://e.test/p.png)"),
        ("![x][r]\n\n[r]: https://e.test/1", "!\u200b[x][r]\n\n[r]: https://e.test/1"),
        ('<img src="https://e.test/q">', '<\u200bimg src="https://e.test/q">'),
        ("Fixes #9", "Fixes \u200b#9"),
        ("/approve", "\\/approve"),
        ("bors r+", "bors\u200b r+"),
        ("<!-- hidden -->", "<\u200b!-- hidden -->"),
        ("::error::boom", ": :error::boom"),
        ("##[error]boom", "##\u200b[error]boom"),
        ("[//]: # (hidden)", "[//]\u200b: # (hidden)"),
        ("a\u202eb\U000e0041c", "abc"),
        ("https://e.test.org/?q=@user", "https://e.test.org/?q=%40user"),
    ],
)
def test_each_effect_is_taken_away_and_the_words_stay(body: str, clean: str) -> None:
    """The change that each kind gets."""
    assert neutralise(body) == clean


def test_code_that_only_one_reader_takes_for_code_is_neutralised() -> None:
    """A span across lines, raw HTML before a span, a fence that a list item ends, a table cell."""
    for body in (
        "a ` b\n`@user` c`",
        "<div>\n`<img src=https://e.test/x>`",
        "- a\n  ```\n  x\n```\ntext\n```\n@user\n```",
        "- ```\n  code\n  ```\n@user\n```",
        "| ` | @user | ` |\n| - | - | - |",
        "\\`@user`",
        "``` `x`\n@user",
        "<pre>\n\n```\n<img src=https://e.test/x>\n```",
    ):
        clean = neutralise(body)
        assert "@user" not in clean, body
        assert "<img" not in clean, body


def test_a_suggestion_whose_code_had_to_change_cannot_be_applied() -> None:
    """A line that a bot would take as a command is broken, so the block is shown as text; others stay."""
    assert neutralise("```suggestion\nx = 1\n```") == "```suggestion\nx = 1\n```"
    assert neutralise("```suggestion\n/approve\n```") == "```text\n\u200b/approve\n```"


def test_only_a_mark_of_ours_alone_on_its_line_is_kept_and_only_on_demand() -> None:
    """Anything else in a comment is shown to the reader."""
    mark = "<!-- airlock:finding:0123456789abcdef:1 -->"
    assert MARK.fullmatch(mark)
    assert neutralise(f"text\n\n{mark}", keep_mark=True) == f"text\n\n{mark}"
    assert mark not in neutralise(f"text\n\n{mark}")
    assert mark not in neutralise(f"text {mark}", keep_mark=True)
    assert "<!--" not in neutralise("<!-- airlock:do what I say -->", keep_mark=True)


def test_a_long_body_is_cut_with_its_code_block_and_details_closed() -> None:
    """70,000 characters with a fence open at the cut (F17)."""
    body = (
        "Intro\n\n<details>\n<summary>All</summary>\n\n```text\n"
        + "line of output 🙂 more\n" * 4000
        + "```\n\n</details>\n"
    )
    out = neutralise(body, rest="The rest is in the transcript.")
    assert size(out) <= LIMIT
    assert len(out) > 60_000
    assert out.count("```") == 2
    assert out.count("<details>") == out.count("</details>") == 1
    assert out.endswith("The rest is in the transcript.]*")
    kept = out.partition("\n```\n\n</details>")[0]
    assert body.startswith(kept)
    assert kept.endswith("more")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["👩‍👩‍👧", "é", "e\u0301", "🇩🇪", "👍🏽", "❤️", "a", "日"]), min_size=1, max_size=80),
    st.integers(0, 40),
)
def test_a_cut_never_falls_inside_a_character(parts: list[str], more: int) -> None:
    """Joined emoji, flags, skin tones, combining marks."""
    body = "".join(parts)
    limit = 130 + more
    out = cut(body, limit)
    assert size(out) <= max(limit, size(body) if size(body) <= limit else limit)
    if out != body:
        kept = out.split("\n\n*[Cut here")[0]
        ends = {sum(map(len, parts[:k])) for k in range(len(parts) + 1)}
        assert body.startswith(kept)
        assert len(kept) in ends or kept == ""


def test_a_cut_keeps_the_mark_on_the_last_line() -> None:
    """Else the next run would not know its own comment."""
    mark = "<!-- airlock:note:0123456789abcdef:1 -->"
    out = neutralise("word " * 20_000 + f"\n\n{mark}", keep_mark=True)
    assert out.endswith(f"\n\n{mark}")
    assert size(out) <= LIMIT


@pytest.mark.parametrize(
    "body", ["\n" * 60_000, "`" * 60_000, "![" * 30_000, "@a " * 20_000, "::\n" * 20_000, "> " * 30_000]
)
def test_hostile_bodies_cost_linear_work(body: str) -> None:
    """Sixty thousand characters of the worst: a quadratic pattern would take minutes here, not be merely slow."""
    clean = neutralise(body)
    assert oracles.mentions(clean) == []
