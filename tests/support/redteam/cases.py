"""Reads case files and spreads them into runs: one per variant, and per value where a case lists values."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

SETUP_KEYS = frozenset(
    "event actor permissions env config limits repo world emulator model_provider concurrent custom_tools "
    "mode_values custom_tools_each canaries".split()
)
DANGEROUS = frozenset("res-fork res-output res-disk res-loop res-daemon res-storm res-tree".split())


class BadCase(ValueError):
    """A case file that cannot be understood; the text names the file."""


@dataclass(frozen=True)
class Plan:
    """One run to make: a case, a variant of it, and (for lists of values) the value.

    Attributes:
        setup, model, oracle, control: as in the case format, the variant's laid over the case's.
        mode: value of the action's input `mode`.
        starts: False where the run is meant to be refused at start; then no control call can be made.
        dangerous: may exhaust the machine; only runs inside namespaces with limits.
        theirs: a user's configuration, which lies under the case's own.
    """

    case: str
    variant: str
    title: str
    mode: str
    setup: dict[str, Any]
    model: dict[str, Any]
    oracle: list[dict[str, Any]]
    control: list[dict[str, Any]]
    starts: bool = True
    dangerous: bool = False
    injection: dict[str, Any] = field(default_factory=dict)
    theirs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.case}/{self.variant}" if self.variant else self.case


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, key by key through dictionaries."""
    out = dict(base)
    for key, value in over.items():
        out[key] = merge(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def load(paths: Sequence[Path]) -> list[Plan]:
    """Plans of all case files in the given files and folders, in order.

    Raises:
        BadCase: a file that is no case.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml"))
        elif path.is_file():
            files.append(path)
        else:
            raise BadCase(f"{path}: no such file or folder")
    if not files:
        raise BadCase(f"no case files in {', '.join(map(str, paths))}")
    return [plan for path in files for plan in plans_of(path)]


def plans_of(path: Path) -> list[Plan]:
    """The plans of one file."""
    try:
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as exc:
        raise BadCase(f"{path}: {' '.join(str(exc).split())}") from None
    if not isinstance(case, dict) or not case.get("id") or not case.get("mode"):
        raise BadCase(f"{path}: not a case (needs id and mode)")
    rows = case.get("variants") or [{}]
    return [plan for row in rows for plan in _spread(path, case, row)]


def _spread(path: Path, case: dict[str, Any], variant: dict[str, Any]) -> list[Plan]:
    setup = merge(case.get("setup") or {}, variant.get("setup") or {})
    unknown = set(setup) - SETUP_KEYS
    if unknown:
        raise BadCase(f"{path}: setup keys nothing here understands: {', '.join(sorted(unknown))}")
    own = variant.get("oracle") or []
    replace = variant.get("oracle_replace") or case.get("oracle_replace")
    oracle = own if replace else [*(case.get("oracle") or []), *own]
    base = Plan(
        case=str(case["id"]),
        variant=str(variant.get("name", "")),
        title=str(case.get("title", "")),
        mode=str(variant.get("mode", case["mode"])),
        setup=setup,
        model=copy.deepcopy(variant.get("model") or case.get("model") or {}),
        oracle=oracle,
        control=case.get("control") or [],
        dangerous=bool(DANGEROUS & set(case.get("kinds") or [])),
        injection=case.get("injection") or {},
    )
    if setup.get("mode_values"):
        return [_one(base, i, value, mode=str(value)) for i, value in enumerate(setup["mode_values"])]
    if setup.get("custom_tools_each"):
        rows = setup["custom_tools_each"]
        return [_one(base, i, row, custom=row) for i, row in enumerate(rows)]
    return [base]


def _one(base: Plan, number: int, value: Any, mode: str | None = None, custom: Any = None) -> Plan:
    setup = {k: v for k, v in base.setup.items() if k not in ("mode_values", "custom_tools_each")}
    if custom is not None:
        setup["custom_tools"] = [custom]
    return Plan(
        **{
            **base.__dict__,
            "variant": f"{base.variant}[{number}:{value!r}]"[:60],
            "mode": base.mode if mode is None else mode,
            "setup": setup,
            "starts": False,
        }
    )
