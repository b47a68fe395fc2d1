"""The helper's wire format: what `helper.c` and `helper.py` speak. Pure encoding and decoding.

A frame is a big-endian 32-bit length and that many bytes: a type letter, then NUL-terminated strings, or
for `D` fixed fields and the two outputs. The formats are described at the head of `helper.c`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from agent.contract.sandbox import ExecRequest, ExecResult
from agent.sandbox.policy import Plan

FRAME_CAP = 8 << 20
MAX_OUTPUT = 16 << 20
LENGTH = struct.Struct(">I")
_DONE = struct.Struct(">iiIIIQ")  # exit, signal, timed out, reason, survivors, microseconds
_STREAM = struct.Struct(">QII")  # dropped, head, kept

KILLED_NOT, KILLED_MEMORY, KILLED_PIDS, KILLED_DISK = range(4)
REASONS = {
    KILLED_MEMORY: "its processes used more memory than a command may",
    KILLED_PIDS: "it started more processes than a command may",
    KILLED_DISK: "it filled the disk further than a command may",
}


class ProtocolError(Exception):
    """The helper sent something that is no frame of this protocol."""


def strings(*texts: str | bytes) -> bytes:
    """NUL-terminated strings. Raises ValueError where one holds a NUL: it would end early."""
    raw = [t if isinstance(t, bytes) else t.encode("utf-8", "surrogateescape") for t in texts]
    if any(b"\0" in t for t in raw):
        raise ValueError("a NUL inside a string of the protocol")
    return b"".join(t + b"\0" for t in raw)


def split(body: bytes) -> list[str]:
    """Inverse of `strings`."""
    return [t.decode("utf-8", "surrogateescape") for t in body.split(b"\0")[:-1]]


def frame(kind: bytes, body: bytes) -> bytes:
    return LENGTH.pack(len(body) + 1) + kind + body


def encode_plan(plan: Plan) -> bytes:
    """The `P` frame."""
    return frame(b"P", b"".join(strings(*entry) for entry in _plan_entries(plan)))


def _plan_entries(plan: Plan) -> Iterator[tuple[str, ...]]:
    yield "root", plan.root
    yield "at", plan.at
    yield "stage", plan.stage
    yield "tmp", plan.tmp
    for key in ("uid", "gid", "memory", "pids", "reserve", "growth"):
        yield key, str(getattr(plan, key))
    for level in plan.levels:
        yield "level", level.name
        yield "filter", level.name, level.filter.hex()
    for mount in plan.mounts:
        yield "mount", mount.kind, mount.source, mount.target
    for form, rules in (("any", plan.rules), ("root", plan.root_rules)):
        for rule in rules:
            yield "rule", form, f"{rule.rights:x}", rule.path
    for name, value in plan.env:
        yield "env", f"{name}={value}"
    for argument in plan.argv:
        yield "arg", argument
    for resource, most in plan.limits:
        yield "limit", str(resource), str(most)


def encode_exec(request: ExecRequest) -> bytes:
    """The `X` frame. Raises ValueError for a NUL in the command or folder."""
    timeout = max(1, int(request.timeout_s * 1000))
    return frame(b"X", strings(str(timeout), str(max(2, request.output_cap)), request.cwd, request.command))


def encode_acts(acts: Iterable[tuple[str, str]]) -> bytes:
    """The `T` frame."""
    return frame(b"T", b"".join(strings(act, argument) for act, argument in acts))


def encode_done(result: ExecResult, reason: int) -> bytes:
    """The `D` frame, as the stand-in sends it."""
    exit_code = -1 if result.exit_code is None else result.exit_code
    fixed = _DONE.pack(
        exit_code, result.signal or 0, result.timed_out, reason, result.survivors, int(result.duration_ms * 1000)
    )
    out = _STREAM.pack(result.stdout_dropped, result.stdout_head, len(result.stdout))
    err = _STREAM.pack(result.stderr_dropped, result.stderr_head, len(result.stderr))
    return frame(b"D", fixed + out + err + result.stdout + result.stderr)


def decode_done(body: bytes) -> ExecResult:
    """The result in a `D` frame's body. A command that was killed for a cap says so at the end of stderr.

    Raises:
        ProtocolError: lengths that do not add up.
    """
    try:
        exit_code, signal, timed_out, reason, survivors, micros = _DONE.unpack_from(body)
        out_dropped, out_head, out_kept = _STREAM.unpack_from(body, _DONE.size)
        err_dropped, err_head, err_kept = _STREAM.unpack_from(body, _DONE.size + _STREAM.size)
    except struct.error as exc:
        raise ProtocolError("a result is cut short") from exc
    at = _DONE.size + 2 * _STREAM.size
    if len(body) != at + out_kept + err_kept:
        raise ProtocolError("a result's lengths do not add up")
    stderr = body[at + out_kept :]
    if reason in REASONS:
        stderr += f"\n[airlock: the command was killed because {REASONS[reason]}]\n".encode()
    return ExecResult(
        exit_code=None if exit_code < 0 else exit_code,
        signal=signal or None,
        timed_out=bool(timed_out),
        stdout=body[at : at + out_kept],
        stderr=stderr,
        stdout_dropped=out_dropped,
        stderr_dropped=err_dropped,
        stdout_head=out_head,
        stderr_head=err_head,
        survivors=survivors,
        duration_ms=micros / 1000,
    )
