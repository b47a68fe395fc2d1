"""The image of a sandbox: there or pulled, and with a shell. What it lacks is one sentence for who named it."""

from __future__ import annotations

from typing import Any

from agent.contract.errors import UpstreamError

STEP = "start the sandbox's container"


def require_image(client: Any, image: str) -> None:
    """See that the engine has an image; pull it where it has not.

    Raises:
        UpstreamError: it is not there and cannot be pulled.
        docker.errors.DockerException: the engine failed otherwise.
    """
    from docker.errors import APIError, ImageNotFound

    try:
        client.inspect_image(image)
    except ImageNotFound:
        try:
            client.pull(image)
            client.inspect_image(image)  # a pull that broke off is told in its progress alone
        except APIError as exc:
            raise UpstreamError(
                STEP,
                f"the image {image} is not on this runner and cannot be pulled ({_words(exc)}). "
                "Check its name; where it needs a login, pull it in an earlier step.",
            ) from exc


def has_bash(client: Any, number: str, image: str) -> bool:
    """Whether commands get bash, or sh alone.

    Args:
        number: a container of the image; it need not run.

    Raises:
        UpstreamError: it has neither, so that no command could ever be started.
    """
    if _holds(client, number, "/bin/bash"):
        return True
    if _holds(client, number, "/bin/sh"):
        return False
    raise UpstreamError(
        STEP, f"the image {image} has no shell (/bin/sh), so no command can run in it. Name an image that has one."
    )


def _holds(client: Any, number: str, path: str) -> bool:
    from docker.errors import NotFound

    try:
        stream, _about = client.get_archive(number, path)
    except NotFound:
        return False
    stream.close()
    return True


def _words(exc: Any) -> str:
    """The engine's own words, on one line."""
    return " ".join(str(exc.explanation or exc).split()).rstrip(".")
