"""The sandboxes of a run: which backend, and each sandbox by its number. Used by launch alone.

House rules: the broker names a sandbox's spec and never a backend's object; a backend that the user named is
never replaced by another, nor is an image; a backend is used only after its probe; what `auto` could not take is
told.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.contract.dataclass import replace
from agent.contract.errors import AirlockError, UpstreamError
from agent.contract.sandbox import ExecRequest, ExecResult, ProbeItem, ProbeReport, SandboxSpec
from agent.kernel.passable import make_passable
from agent.launch_place import Place

if TYPE_CHECKING:  # loaded at the first use, when broker and harness have been started
    from agent.sandbox.probe import ProbeTargets
    from agent.sandbox.session import Session


class Backend(Protocol):
    """What is needed of a backend."""

    def start(self, spec: SandboxSpec) -> Session: ...


class Sandboxes:
    """The sandboxes of this run, by number."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        place: Place,
        *,
        state: Path,
        owner: tuple[int, int],
        watched: Callable[[], tuple[int, ...]],
    ) -> None:
        """Prepare; nothing is started.

        Args:
            settings: the action's inputs and facts.
            place: where we run.
            state: launch's private folder.
            owner: uid and gid of commands.
            watched: processes that no sandbox may look into or signal.
        """
        self._settings = settings
        self._place = place
        self._folder = state / "sandbox"
        self._owner = owner
        self._watched = watched
        self._lock = threading.Lock()
        self._sessions: dict[int, Any] = {}
        self._count = 0
        self._backend: Backend | None = None
        self._made: list[Any] = []
        self._probed: tuple[SandboxSpec, Any] | None = None

    def warm_up(self) -> None:
        """Load what starts and probes sandboxes in a thread; nothing waits for it.

        Loading takes less than the broker needs for event, configuration and permissions, and depends on none of
        them. The engine's client is loaded where a container may be wanted.
        """
        container = self._place.engine is not None and self._settings.get("sandbox") != "process"
        threading.Thread(target=_load_container if container else _load_process, name="sandboxes", daemon=True).start()

    def start(self, spec: SandboxSpec) -> int:
        """Start a sandbox in the backend that passed its probe.

        Raises:
            UpstreamError: none did, or it cannot be started.
        """
        if self._backend is None:
            raise UpstreamError("start sandbox", "no sandbox has passed its probe")
        session = self._take_probed(spec) or self._backend.start(spec)
        with self._lock:
            self._count += 1
            self._sessions[self._count] = session
            return self._count

    def _take_probed(self, spec: SandboxSpec) -> Any:
        """The sandbox that passed the probe, where just that one is wanted; it is ended when another comes first.

        Setup comes first, and a sandbox from before it would not have its HOME.
        """
        with self._lock:
            probed, self._probed = self._probed, None
        if probed is None:
            return None
        if probed[0] == spec:
            return probed[1]
        probed[1].close()
        return None

    def run(self, number: int, request: ExecRequest) -> ExecResult:
        """Run one command in a sandbox."""
        result: ExecResult = self._sessions[number].exec(request)
        return result

    def stop(self, number: int) -> None:
        """End a sandbox with all that runs in it."""
        with self._lock:
            session = self._sessions.pop(number, None)
        if session is not None:
            session.close()

    def stop_all(self) -> None:
        """End every sandbox, and remove what a backend may have left."""
        with suppress(Exception):
            if self._probed is not None:
                self._probed[1].close()
        for number in list(self._sessions):
            with suppress(Exception):  # one that will not close must not keep the others open
                self.stop(number)
        for backend in self._made:
            with suppress(Exception):
                if backend.name == "container":
                    backend.remove_leftovers()
                backend.close()

    def probe(self, spec: SandboxSpec, forbidden: tuple[str, ...], unwritable: tuple[str, ...]) -> ProbeReport:
        """Choose the backend: the strongest that refuses every forbidden act (DESIGN section 7).

        Args:
            spec: the run's main sandbox, with what configuration says of backend and image.
            forbidden: paths that must be neither readable nor writable.
            unwritable: further folders that must not be writable.

        Returns:
            The report of the backend that was taken, or of the last that was tried. Why no container was taken
            is the first thing that its `missing` says.
        """
        from agent.sandbox.probe import ProbeTargets

        targets = ProbeTargets(
            unreadable=forbidden,
            unwritable=(*forbidden, *unwritable),
            pids=(os.getpid(), *self._watched()),
            network=spec.network,  # open because configuration asks for it: reaching out is no failure then
        )
        make_passable(self._folder, exist_ok=True)
        name, *weaker = self._names(spec)
        report = self._try(name, spec, targets)
        for name in weaker:
            if report.ok:
                break
            why = next(f"{item.name}: {item.detail}" for item in report.items if not item.held)
            report = self._try(name, spec, targets)
            report = replace(report, missing=(f"no container backend ({why})", *report.missing))
        return report

    def _names(self, spec: SandboxSpec) -> tuple[str, ...]:
        """Backends to try, strongest first."""
        asked = self._settings.get("sandbox") or "auto"
        name = spec.backend if asked == "auto" else asked
        if name != "auto":
            return (name,)
        # an image that somebody named has the tools that the commands want: they run in it, or not at all
        return ("container",) if self._image(spec) else ("container", "process")

    def _image(self, spec: SandboxSpec) -> str:
        """The image that input or configuration names, or the empty text."""
        return str(self._settings.get("sandbox-image") or spec.image)

    def _try(self, name: str, spec: SandboxSpec, targets: ProbeTargets) -> ProbeReport:
        """Probe one backend; where it held, it is the run's, and the sandbox of the probe is kept."""
        from agent.sandbox.probe import probe

        try:
            backend = self._container(spec) if name == "container" else self._process()
            session = backend.start(spec)
        except AirlockError as exc:
            item = ProbeItem("start a sandbox", held=False, detail=str(exc))
            return ProbeReport(name, ok=False, loopback=False, items=(item,))
        report = probe(session, spec.root, targets, backend=name)
        if report.ok:
            self._backend, self._probed = backend, (spec, session)
        else:
            session.close()
        return report

    def _process(self) -> Backend:
        from agent.sandbox.process import ProcessBackend

        backend = ProcessBackend(base=str(self._folder), uid=self._owner[0], gid=self._owner[1])
        self._made.append(backend)
        return backend

    def _container(self, spec: SandboxSpec) -> Backend:
        if self._place.engine is None:
            wanted = f", and commands shall run in the image {image}" if (image := self._image(spec)) else ""
            raise UpstreamError("find Docker", f"its socket is not here{wanted}")
        from agent.sandbox.container import ContainerBackend
        from agent.sandbox.engine import own_container

        own = own_container(str(self._place.engine))
        if own is not None and self._place.state is None:
            raise UpstreamError("find Docker", "this container was not started by the action's own script")
        image = self._image(spec) or (own.image if own else "")
        if not image:
            raise UpstreamError("find Docker", "no image is named (input `sandbox-image`)")
        run = own.run if own else ""
        backend = ContainerBackend(
            image=image,
            run=run or f"airlock-{self._settings.get('GITHUB_RUN_ID', 'local')}-{os.getpid()}",
            socket_path=str(self._place.engine),
            uid=self._owner[0],
            gid=self._owner[1],
            own=own,
            base=str(self._folder),
        )
        self._made.append(backend)
        return backend


def _load_container() -> None:
    from agent.sandbox.container import load_client

    load_client()


def _load_process() -> None:
    import agent.sandbox.build
    import agent.sandbox.process  # noqa: F401 - loaded in this thread, used by `_process`
