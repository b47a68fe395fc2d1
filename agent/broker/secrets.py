"""The secret store: values by name, in the broker's memory alone (D2).

House rules:
* A value is given out only by `get`, and every `get` is recorded by name: a test shows that a refused request
  was refused before its secret was read.
* No representation shows a value: not `repr`, not a traceback's locals, not a pickle or copy (refused).
* Names may be shown; lengths and digests may not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from agent.contract.errors import Refusal, UserError
from agent.contract.regex import regex

GITHUB_TOKEN, PUSH_TOKEN, API_KEY = "github-token", "push-token", "api-key"  # names, not values

_NAME = regex(r"[A-Z_][A-Z0-9_]{0,99}")


class SecretUnavailable(Refusal):
    """The policy allowed the request, and its secret is not there (409)."""

    def __init__(self, name: str) -> None:
        super().__init__("secret_unavailable", f"The secret {name!r} is not set, so the request was not sent.")
        self.name = name


class SecretStore:
    """Values by name. Its text form names the secrets and nothing more."""

    __slots__ = ("_reads", "_values")

    def __init__(self, values: Mapping[str, str]) -> None:
        """
        Args:
            values: by name; an empty value is a secret that is not set.
        """
        self._values = {name: _Value(value) for name, value in values.items() if value}
        self._reads: list[str] = []

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, str]) -> SecretStore:
        """Sort the secret inputs `api-key github-token push-token secrets`.

        `push-token` is the `github-token` where the input is absent or says `github-token`, as action.yml's
        default does. Given and empty, it is not set: the workflow meant another token, and its secret is gone.

        Raises:
            UserError: a line of `secrets` is no NAME=VALUE; the text never shows the line.
        """
        values = {name: inputs.get(name, "").strip() for name in (GITHUB_TOKEN, API_KEY)}
        given = inputs.get(PUSH_TOKEN, GITHUB_TOKEN).strip()
        values[PUSH_TOKEN] = values[GITHUB_TOKEN] if given == GITHUB_TOKEN else given
        values.update(parse_secret_lines(inputs.get("secrets", "")))
        return cls(values)

    def get(self, name: str) -> str:
        """The value; the read is recorded.

        Raises:
            SecretUnavailable: not set.
        """
        self._reads.append(name)
        value = self._values.get(name)
        if value is None:
            raise SecretUnavailable(name)
        return value.reveal()

    def has(self, name: str) -> bool:
        """Whether it is set; no read."""
        return name in self._values

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the secrets that are set."""
        return tuple(self._values)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names asked for so far, in order."""
        return tuple(self._reads)

    def for_redaction(self) -> dict[str, str]:
        """Every value by name, for the redactor alone: what it knows does not pass."""
        return {name: value.reveal() for name, value in self._values.items()}

    def __repr__(self) -> str:
        return f"SecretStore({', '.join(self._values)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret store is not copied or written anywhere")


class _Value:
    """One value that no representation shows. Not a `str`, so that no format or join takes it by mistake."""

    __slots__ = ("_reveal",)

    def __init__(self, value: str) -> None:
        # In a closure: a debugger's or traceback's dump of attributes shows a function.
        self._reveal: Callable[[], str] = lambda: value

    def reveal(self) -> str:
        return self._reveal()

    def __repr__(self) -> str:
        return "(secret)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not copied or written anywhere")


def parse_secret_lines(text: str) -> dict[str, str]:
    """The input `secrets`: one NAME=VALUE a line; empty lines and lines beginning with # do not count.

    Raises:
        UserError: a line has no such form, or a name twice. The text names the line's number only.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        name = name.strip()
        if not separator or not _NAME.fullmatch(name):
            raise UserError(
                f"Line {number} of the input `secrets` is not NAME=VALUE with a name of capitals, digits and _."
            )
        if name in found:
            raise UserError(f"Line {number} of the input `secrets` sets {name} a second time.")
        found[name] = value.strip()
    return found
