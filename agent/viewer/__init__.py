"""`view`: a transcript as one self-contained page that loads nothing and runs nothing of what it shows."""

from agent.viewer.command import main
from agent.viewer.page import render, write_page

__all__ = ["main", "render", "write_page"]
