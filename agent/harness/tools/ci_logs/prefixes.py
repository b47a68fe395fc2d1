"""Output of several packages in one step: whose line it is, and in which folder its paths begin. Pure.

Task runners put a name before each line (`@quay/ui:build: `, `packages/ui build: `) and pnpm names the folder that a
script runs in. Compilers in there print paths relative to that folder, not to the repository.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import Checkout

_SCRIPT = regex(r"^([@\w][^\s>]{0,200}: )?> \S{1,200}@\S* \S{1,100} ((?:/|[A-Za-z]:[\\/])\S{1,400})$")
_PNPM = regex(r"^(([\w@][^\s$]{0,200}) [\w:.-]{1,100})\$ ")
_PREFIX = regex(r"^(?:[@\w][^\s>]{0,200}: |[\w@][^\s:]{0,200} [\w:.-]{1,100}: )")


def unprefixed(lines: Sequence[str], checkout: Checkout) -> tuple[list[str], dict[int, str]]:
    """Lines without the names of packages, and the folder of each line that runs in one.

    Only a prefix that the log itself explains is taken off: by the line that starts the package's script.
    """
    folders: dict[str, str] = {}
    bare: list[str] = []
    owned: dict[int, str] = {}
    here = ""
    for i, text in enumerate(lines):
        begins, runs = _SCRIPT.match(text), _PNPM.match(text)
        if begins:
            folder = checkout.relative(begins[2] + "/") or ""
            if begins[1]:
                folders[begins[1]] = folder.rstrip("/")
            else:
                here = folder.rstrip("/")
        elif runs:
            folders[f"{runs[1]}: "] = runs[2]
        elif text.startswith(("##[group]", "##[endgroup]")):
            here = ""
        found = _PREFIX.match(text)
        prefix = found[0] if found and found[0] in folders else ""
        bare.append(text[len(prefix) :])
        folder = folders[prefix] if prefix else here
        if folder:
            owned[i] = folder
    return bare, owned
