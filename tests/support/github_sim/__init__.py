"""A GitHub simulator: real HTTP on loopback over real bare git repositories. Usable without pytest."""

from __future__ import annotations

from .git import Person
from .repository import Repository
from .runner import runner_environment
from .server import Received
from .sim import GitHubSim
from .world import ACTIONS_BOT

__all__ = ["ACTIONS_BOT", "GitHubSim", "Person", "Received", "Repository", "runner_environment"]
