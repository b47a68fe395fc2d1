"""Drives a headless Chromium over its debugging pipe, kept off every network. Standard library only."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-default-apps", "--metrics-recording-only", "--no-default-browser-check", "--disable-domain-reliability",
    "--disable-client-side-phishing-detection", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=http://127.0.0.1:9", "--window-size=1200,900",
)  # fmt: skip


class Browser:
    """One tab. `events` are the protocol's events seen so far."""

    def __init__(self, write_fd: int, read_fd: int) -> None:
        self._write = os.fdopen(write_fd, "wb", buffering=0)
        self._read = os.fdopen(read_fd, "rb", buffering=0)
        self._buffer = b""
        self._next = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self.events.append(answer)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = self._read.read(1 << 16)
            if not data:
                raise AssertionError("the browser went away")
            self._buffer += data
        message, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(message))

    def open(self, page: Path) -> None:
        """Load a file and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._message())

    def js(self, expression: str) -> Any:
        """Value of an expression in the page; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """One key, as a keyboard sends it."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def scheme(self, name: str) -> None:
        """What the system prefers: `light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def size(self, width: int, height: int) -> None:
        """The window's inside, in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path: Path, *, width: int = 1200, height: int = 900) -> None:
        """What a window of this size shows, as PNG."""
        self.size(width, height)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def seen(self, method: str) -> list[dict[str, Any]]:
        return [dict(e["params"]) for e in self.events if e.get("method") == method]


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own that is gone afterwards."""
    assert CHROMIUM is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    profile = tempfile.mkdtemp(prefix="airlock-chromium-")
    script = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'
    process = subprocess.Popen(
        ["/bin/bash", "-c", script, CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(to_read, from_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"HOME": profile, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Browser(to_write, from_read)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(profile, ignore_errors=True)
