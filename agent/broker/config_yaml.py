"""YAML from trusted bytes, with the line of every key, and without YAML's surprises.

Trusted is who wrote it, not that it is well made: aliases, tags, several documents, a key twice and very deep
or long files are errors, so that what a reviewer reads in the diff is what is in force.
"""

from __future__ import annotations

import math
from typing import Any

from agent.contract.dataclass import dataclass
from agent.contract.errors import UserError

SIZE_CAP = 256 << 10  # bytes
DEPTH_CAP = 30

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A parsed file.

    Attributes:
        value: plain dicts, lists, texts, numbers, truth values, None.
        lines: line number, from 1, of every key and list entry, by path.
    """

    value: Any
    lines: dict[Path, int]

    def line(self, path: Path) -> int:
        """Line of the path, or of the nearest key around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(data: bytes, file: str) -> Document:
    """Parse one document.

    Args:
        file: name for errors.

    Raises:
        UserError: too large, not UTF-8, not YAML, or one of the surprises above; with file and line.
    """
    import yaml  # lazily: a run without a configuration file does not pay for it

    if len(data) > SIZE_CAP:
        raise UserError(f"{file} is {len(data)} bytes long; more than {SIZE_CAP} is no configuration.")
    try:
        text = data.decode("utf-8-sig")
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if isinstance(token, yaml.AliasToken | yaml.TagToken | yaml.AnchorToken):
                kind = type(token).__name__.removesuffix("Token").lower()
                raise UserError(
                    f"{file}, line {token.start_mark.line + 1}: an {kind} (& * !) is not allowed here; write it out."
                    if kind != "tag"
                    else f"{file}, line {token.start_mark.line + 1}: a tag (!) is not allowed here; quote the text."
                )
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as exc:
        raise UserError(f"{file} is not UTF-8.") from exc
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{file}{where}: this is not YAML: {exc.problem or exc.context}.") from exc
    except (yaml.YAMLError, RecursionError) as exc:
        raise UserError(f"{file}: this is not YAML, or it is nested too deeply.") from exc
    lines: dict[Path, int] = {}
    try:
        value = None if root is None else _value(root, (), lines, file)
    except ValueError as exc:
        raise UserError(f"{file}: a number in it cannot be read: {exc}.") from exc
    return Document(value, lines)


def _value(node: Any, path: Path, lines: dict[Path, int], file: str) -> Any:
    import yaml

    lines.setdefault(path, node.start_mark.line + 1)
    if len(path) > DEPTH_CAP:
        raise UserError(f"{file}, line {node.start_mark.line + 1}: nested too deeply.")
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, item in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise UserError(f"{file}, line {line}: a key must be a plain text.")
            if key.value in found:
                raise UserError(f"{file}, line {line}: the key {key.value!r} is there a second time.")
            lines[*path, key.value] = line
            found[key.value] = _value(item, (*path, key.value), lines, file)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*path, index), lines, file) for index, item in enumerate(node.value)]
    kind = node.tag.rpartition(":")[2]
    if kind in {"str", "timestamp", "value", "merge"}:
        return node.value  # a date is a text here
    constructor = yaml.constructor.SafeConstructor()
    if kind == "int":
        return constructor.construct_yaml_int(node)
    if kind == "float":
        number = constructor.construct_yaml_float(node)
        if not math.isfinite(number):
            raise UserError(f"{file}, line {node.start_mark.line + 1}: a number must be finite.")
        return number
    if kind == "bool":
        return constructor.construct_yaml_bool(node)
    return None  # kind null; tags, and with them every other kind, were refused before
