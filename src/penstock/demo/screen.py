"""Where the demo tells what happens."""

from __future__ import annotations

from typing import TextIO


class Screen:
    """Lines, and on a terminal one that is written over while something goes on."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._terminal = out.isatty()
        self._moving = 0

    def say(self, line: str = "") -> None:
        """A line that stays."""
        if self._moving:
            self._out.write("\r" + " " * self._moving + "\r")
            self._moving = 0
        print(line, file=self._out, flush=True)

    def move(self, line: str) -> None:
        """A line that the next one takes the place of; elsewhere than on a terminal it stays."""
        if not self._terminal:
            self.say(line)
            return
        self._out.write("\r" + line.ljust(self._moving))
        self._out.flush()
        self._moving = max(self._moving, len(line))
