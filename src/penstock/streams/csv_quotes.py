"""Watch the quotes of CSV text as it is read.

A quote that is never closed makes all that follows one value, and the CSV reader has nothing to say
about it: only the end of the text tells that it was not meant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import InputError

QUOTE = ord('"')
NEWLINE = ord("\n")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ENDS_OF_FIELDS = b",\r\n"


class QuoteWatch:
    r"""Follows the quotes of a text that comes in pieces.

    A quote opens a value where a field begins, and anywhere else outside of values is a character
    as others. Inside, a doubled one is taken as one that closes the value and one that reopens it.

    >>> watch = QuoteWatch()
    >>> watch.take(b'x\n"a""b",5" wide\n"c')
    >>> watch.opened
    3
    """

    def __init__(self) -> None:
        self.opened: int | None = None
        """The line, from 1, of the quote that is open; None while there is none."""
        self._line = 1
        self._last: int | None = None
        # Where the value began that the very last character has closed.
        self._closed: int | None = None

    def take(self, piece: bytes) -> None:
        """The next piece of the text."""
        if self._last is None:
            piece = piece.removeprefix(BYTE_ORDER_MARK)
        # Few values run over the end of a line, so nearly all can be judged at once up to there.
        end = piece.rfind(b"\n") + 1
        for part in (piece[:end], piece[end:]):
            if part:
                self._take(part)

    def _take(self, part: bytes) -> None:
        if QUOTE in part:
            text = np.frombuffer(part, np.uint8)
            places = np.flatnonzero(text == QUOTE)
            before = text[places - 1]
            if places[0] == 0:
                before[0] = NEWLINE if self._last is None else self._last
            if self._all_closed(places, before, part):
                self.opened = self._closed = None
            else:
                self._walk(places.tolist(), before.tolist(), part)
        else:
            self._closed = None
        self._line += part.count(b"\n")
        self._last = part[-1]

    def _all_closed(
        self, places: npt.NDArray[np.int64], before: npt.NDArray[np.uint8], part: bytes
    ) -> bool:
        """Whether quotes simply take turns, with the last one a closing one that is settled."""
        first = 0 if self.opened is None else 1
        if (len(places) - first) % 2 or part[-1] == QUOTE or self._closed is not None:
            return False
        reopens = np.diff(places, prepend=-2) == 1
        starts = np.isin(before, np.frombuffer(ENDS_OF_FIELDS, np.uint8))
        return bool((starts | reopens)[first::2].all())

    def _walk(self, places: list[int], before: list[int], part: bytes) -> None:
        """Take one quote after the other."""
        closed_at = -1 if self._closed is not None else -2
        line, counted = self._line, 0
        for place, character in zip(places, before, strict=True):
            if self.opened is not None:
                self._closed, self.opened, closed_at = self.opened, None, place
            elif closed_at == place - 1:
                self.opened = self._closed
            elif character in ENDS_OF_FIELDS:
                line, counted = line + part.count(b"\n", counted, place), place
                self.opened = line
        if self.opened is not None or closed_at != len(part) - 1:
            self._closed = None


class WatchedFile:
    """A binary file to read from, which refuses to end inside a quote."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path = path
        self._file = file
        self._watch = QuoteWatch()
        self._stopped = False

    def stop(self) -> None:
        """Let the file end here, for a reader that is ahead of who reads from it."""
        self._stopped = True

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes, or all; InputError at the end of the file if a quote is open."""
        if self._stopped:
            return b""
        piece: bytes = self._file.read(size if size >= 0 else None)
        self._watch.take(piece)
        if self._watch.opened is not None and (not piece or size < 0):
            raise InputError(
                f"{self._path} ends inside a value whose quote was opened "
                f"in line {self._watch.opened}",
                'Close the quote; a " inside a value is written twice.',
            )
        return piece

    def read_to_end(self, block: int) -> None:
        """Read what is left, to know whether a quote is open."""
        self._stopped = False
        while self.read(block):
            pass
