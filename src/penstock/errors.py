"""Every error Penstock raises on purpose. Each says where, what, and what to write instead."""

from __future__ import annotations


class PenstockError(Exception):
    """The base of all errors raised by Penstock.

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
        super().__init__(f"{what}\n{remedy}")
        self.what = what
        self.remedy = remedy


class SqlError(PenstockError):
    """A statement that cannot be installed, with the offending piece of text underlined."""

    @classmethod
    def at(cls, sql: str, start: int, end: int, what: str, remedy: str) -> SqlError:
        """Point at ``sql[start:end]``.

        >>> print(SqlError.at("SELECT z FROM R", 7, 8, "unknown column 'z'", "Write id or x."))
        unknown column 'z' at line 1, column 8
          SELECT z FROM R
                 ^
        Write id or x.
        """
        start = max(0, min(start, len(sql)))
        line = sql.count("\n", 0, start) + 1
        line_start = sql.rfind("\n", 0, start) + 1
        line_end = sql.find("\n", start)
        text = sql[line_start : line_end if line_end >= 0 else len(sql)]
        column = start - line_start
        width = max(1, min(end, line_start + len(text)) - start)
        underline = " " * column + "^" * width
        return cls(f"{what} at line {line}, column {column + 1}\n  {text}\n  {underline}", remedy)


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
    """Nobody drained a query's output, and ``push`` waited as long as it was told to.

    ``taken`` is how many tuples of the refused push were taken before that.
    """

    def __init__(self, what: str, remedy: str, taken: int) -> None:
        super().__init__(what, remedy)
        self.taken = taken


class MemoryLimit(PenstockError):
    """A query's windows would need more memory than the engine may use.

    ``taken`` is how many tuples of the refused push were taken before that.
    """

    def __init__(self, what: str, remedy: str, taken: int) -> None:
        super().__init__(what, remedy)
        self.taken = taken


class ResultDoesNotFit(PenstockError):
    """A query has come to more than there is room for, and is stopped.

    A result does not fit its type, or results are more than can be held or given at once.
    """


class QueryFailed(PenstockError):
    """A query cannot go on and is stopped; every other one has taken the input.

    ``__cause__`` is the reason: a :class:`ResultDoesNotFit`, or what has gone wrong inside. On
    Spark, where it happened in another process, only the former is there.
    """


class ChangeRefused(PenstockError):
    """A running query cannot become what a change asks for. It goes on as it was."""


class StateError(PenstockError):
    """A saved state that cannot be restored."""


class EnvironmentProblem(PenstockError):
    """Something that the machine or the session must have is not there: Java, a kind of session."""


class EngineFailure(PenstockError):
    """The engine has stopped by itself; what it had taken is safe in its log."""
