"""All errors that Penstock raises on purpose. Each says where, what, and what to write instead.

Warnings point at the line of the program that called Penstock.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from typing import NamedTuple

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character: a Python string can contain one alone, but no encoding can."""


def printable(text: str) -> str:
    r"""The text with U+FFFD for every lone surrogate, which no file or terminal can show.

    >>> printable("a\ud800b") == "a\ufffdb"
    True
    """
    return SURROGATE.sub("\ufffd", text)


WITHIN = frozenset({"penstock", "numba", "contextlib"})
"""Packages whose frames are skipped between a warning and the program that it is for."""


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the program that called Penstock."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in WITHIN:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


class PenstockError(Exception):
    """The base class of all errors raised by Penstock.

    Parameters
    ----------
    what
        What is wrong, and where: one sentence without a full stop.
    remedy
        What to do instead: one sentence with its full stop.

    >>> print(PenstockError("unknown stream 'T'", "Create it first: CREATE STREAM T (...)."))
    unknown stream 'T'
    Create it first: CREATE STREAM T (...).
    """

    def __init__(self, what: str, remedy: str) -> None:
        self.what = printable(what)
        self.remedy = printable(remedy)
        super().__init__(f"{self.what}\n{self.remedy}")


def _pointed(text: str, start: int, end: int, what: str) -> str:
    """What is wrong with ``text[start:end]``, and the line with that piece underlined."""
    start = max(0, min(start, len(text)))
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    column = start - line_start
    width = max(1, min(end, line_start + len(line)) - start)
    number = text.count("\n", 0, start) + 1
    marks = " " * column + "^" * width
    return f"{what} at line {number}, column {column + 1}\n  {line}\n  {marks}"


class SqlError(PenstockError):
    """A statement that cannot be installed, with the offending piece of text underlined."""

    place: tuple[str, int, int, str] | None = None
    """The text, where its piece starts and ends, and what is wrong; None: it points nowhere."""

    @classmethod
    def at(cls, sql: str, start: int, end: int, what: str, remedy: str) -> SqlError:
        """Point at ``sql[start:end]``.

        >>> print(SqlError.at("SELECT z FROM R", 7, 8, "unknown column 'z'", "Write id or x."))
        unknown column 'z' at line 1, column 8
          SELECT z FROM R
                 ^
        Write id or x.
        """
        error = cls(_pointed(sql, start, end, what), remedy)
        error.place = (sql, max(0, min(start, len(sql))), end, what)
        return error

    def within(self, text: str, offset: int) -> SqlError:
        """The same error, pointing into a text that has the statement from ``offset`` on.

        >>> error = SqlError.at("SELECT z FROM R", 7, 8, "unknown column 'z'", "Write id or x.")
        >>> print(error.within("EXPLAIN SELECT z FROM R", 8))
        unknown column 'z' at line 1, column 16
          EXPLAIN SELECT z FROM R
                         ^
        Write id or x.
        """
        if self.place is None:
            return self
        _, start, end, what = self.place
        return SqlError.at(text, offset + start, offset + end, what, self.remedy)


class InputError(PenstockError):
    """Input that cannot be read at all: a missing file, a wrong schema, a stream that has ended."""


class ScriptError(PenstockError):
    """A line of a ``.flow`` script that cannot be read."""

    @classmethod
    def at_line(cls, line: int, text: str, what: str, remedy: str) -> ScriptError:
        """Point at a line of the script.

        >>> print(ScriptError.at_line(3, "R 1, 2", "no ':' after the stream", "Write R: 1, 2."))
        line 3: no ':' after the stream
          R 1, 2
        Write R: 1, 2.
        """
        return cls(f"line {line}: {what}\n  {text}", remedy)


class BufferFull(PenstockError):
    """A query's output was not drained, and ``push`` waited until its timeout.

    ``taken`` is the number of tuples of the refused push that were accepted before.
    """

    def __init__(self, what: str, remedy: str, taken: int) -> None:
        super().__init__(what, remedy)
        self.taken = taken


class MemoryLimit(PenstockError):
    """A query's windows would need more memory than the engine may use.

    ``taken`` is the number of tuples of the refused push that were accepted before.
    """

    def __init__(self, what: str, remedy: str, taken: int) -> None:
        super().__init__(what, remedy)
        self.taken = taken


class ResultDoesNotFit(PenstockError):
    """A query's result is too large, and the query is stopped.

    A result does not fit its type, or there are more results than can be held or emitted at once.
    """


class QueryFailed(PenstockError):
    """A query has failed and is stopped; all other queries have processed the input.

    ``__cause__`` is the reason: a :class:`ResultDoesNotFit`, or an internal error. On Spark, where
    it happened in another process, only the former is available.
    """


class OwnBlockFailed(PenstockError):
    """The code of a block of a user's own has raised an error, its ``__cause__``."""


class ChangeRefused(PenstockError):
    """A change that a running query cannot make. The query continues unchanged."""


class ProgramError(PenstockError):
    """An encoded program that is none, with the path of the field that is wrong."""


class Problem(NamedTuple):
    """One of several things that are wrong with a text.

    Parameters
    ----------
    what
        What is wrong: one sentence without a full stop.
    remedy
        What to do instead: one sentence with its full stop.
    piece
        The word or the string of the text that it is about, as written; empty: none alone.
    key
        The key whose value has the piece; empty: any.
    """

    what: str
    remedy: str
    piece: str = ""
    key: str = ""


class TopologyError(PenstockError):
    """A topology whose parts do not fit together; ``problems`` has all that was found at once."""

    problems: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, where: str, problems: Sequence[Problem]) -> TopologyError:
        """An error that says the first of the problems, and how many there are.

        >>> print(TopologyError.of("t.toml", [Problem("it has no name", "Write name = 'mine'.")]))
        t.toml: it has no name
        Write name = 'mine'.
        """
        first, *others = problems
        more = f" (the first of {len(problems):,} problems)" if others else ""
        error = cls(f"{where}: {first.what}{more}", first.remedy)
        error.problems = tuple(problems)
        return error


class WordError(ProgramError):
    """Words that are no instructions; the message names the instruction, the chunk and the field.

    ``place`` is where: the number of the instruction and of its chunk, from 0, and the field.
    ``problem`` is what is wrong with the field.
    """

    def __init__(self, byte: int, place: tuple[int, int, str], problem: str, remedy: str) -> None:
        number, chunk, field = place
        where = f"instruction {number + 1} (byte {byte}), chunk {chunk + 1}, {field}"
        super().__init__(f"{where}: {problem}", remedy)
        self.place = place
        self.problem = problem


class AssemblyError(ProgramError):
    """A text that is no instructions, with the offending piece of it underlined."""

    @classmethod
    def at(cls, text: str, start: int, end: int, what: str, remedy: str) -> AssemblyError:
        """Point at ``text[start:end]``.

        >>> print(AssemblyError.at("rest block=1", 0, 4, "unknown form 'rest'", "Write reset."))
        unknown form 'rest' at line 1, column 1
          rest block=1
          ^^^^
        Write reset.
        """
        return cls(_pointed(text, start, end, what), remedy)


class StateError(PenstockError):
    """A state that cannot be saved, or a saved state that cannot be restored."""


class EnvironmentProblem(PenstockError):
    """The machine or the session lacks something: Java, a kind of session."""


class EngineFailure(PenstockError):
    """The engine has stopped by itself; the input it accepted is safe in its log."""


def named(what: str, name: object) -> str:
    """The name of a stream, query or column; InputError if it is no string."""
    if not isinstance(name, str):
        raise InputError(f"the name of a {what} is {type(name).__name__}", "Give it as a string.")
    return name
