"""The port to GitHub's REST API that publishing needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Api(Protocol):
    """GitHub's REST API for this repository; paths begin after `/repos/{owner}/{repo}/`."""

    def get(self, path: str, *, step: str, query: Mapping[str, str] | None = None) -> Any: ...

    def post(self, path: str, body: Mapping[str, Any], *, step: str) -> Any: ...

    def patch(self, path: str, body: Mapping[str, Any], *, step: str) -> Any: ...
