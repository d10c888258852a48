"""The demo's output on the terminal."""

from __future__ import annotations

from typing import TextIO


class Screen:
    """Prints lines and, on a terminal, a progress line that is overwritten."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._terminal = out.isatty()
        self._moving = 0

    def say(self, line: str = "") -> None:
        """Print a line that stays."""
        if self._moving:
            self._out.write("\r" + " " * self._moving + "\r")
            self._moving = 0
        print(line, file=self._out, flush=True)

    def move(self, line: str) -> None:
        """Print a line that the next one overwrites; without a terminal it stays."""
        if not self._terminal:
            self.say(line)
            return
        self._out.write("\r" + line.ljust(self._moving))
        self._out.flush()
        self._moving = max(self._moving, len(line))
