"""Queries on a topology, without running them: ``penstock assign``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from penstock.cli.run.setup import in_place
from penstock.connectors.files import FileSource
from penstock.engines.local.engine import Engine
from penstock.errors import InputError, PenstockError, SqlError
from penstock.processor.query_assigner.assignment import Assignment, assignment_of
from penstock.processor.query_assigner.query_assigner import PlacedQuery
from penstock.processor.topology.topology import Topology
from penstock.program.isa.instructions import CreateStream, Derive, Install, Instruction
from penstock.sql.parse import statements
from penstock.sql.parse.parser import parse
from penstock.streams.schema import Stream, describe


def assigned(
    texts: Mapping[Path, str], streams: Mapping[str, str], topology: Topology
) -> Assignment:
    """Where the queries of some files stand on a topology, in the order of the files.

    Every SELECT is a query, with the name of its file, and a number if the file has several.
    ``streams`` has the files that give the columns of streams that no text declares.
    """
    parsed = {path: _in_file(path, partial(parse, text)) for path, text in texts.items()}
    made = _Queries()
    with Engine(topology=topology, windows_required=False) as engine:
        engine.feed(_undeclared(streams, parsed.values()))
        for path, found in parsed.items():
            for instruction in made.of(path, found):
                _in_file(path, partial(engine.feed, [instruction]), found)
        placed = [PlacedQuery(q.name, q.derived, q.program) for q in engine.queries.values()]
    if not placed:
        raise InputError(
            "there is no query to assign",
            "Write a SELECT, or a CREATE STREAM … AS SELECT, into one of the files.",
        )
    return assignment_of(topology, placed)


T = TypeVar("T")


def _in_file(path: Path, work: Callable[[], T], found: list[statements.Statement] = []) -> T:  # noqa: B006  (only read)
    """Do the work; an error of it names the file."""
    try:
        return work()
    except SqlError as error:
        placed = in_place(error, found)
        raise SqlError(f"{path}: {placed.what}", placed.remedy) from None
    except PenstockError as error:
        raise InputError(f"{path}: {error.what}", error.remedy) from None


def _undeclared(
    files: Mapping[str, str], texts: Iterable[Sequence[statements.Statement]]
) -> list[Instruction]:
    """The streams that no text declares, with the columns of their files."""
    declared = {
        one.stream.name.lower()
        for text in texts
        for one in text
        if isinstance(one, statements.CreateStream)
    }
    return [
        CreateStream(FileSource.open(name, path, None).stream)
        for name, path in files.items()
        if name.lower() not in declared
    ]


class _Queries:
    """The instructions of one file after the other: what several declare alike is created once."""

    def __init__(self) -> None:
        self._streams: dict[str, tuple[Path, Stream]] = {}
        self._derived: dict[str, tuple[Path, str]] = {}
        self._queries: dict[str, Path] = {}

    def of(self, path: Path, found: Sequence[statements.Statement]) -> list[Instruction]:
        """The instructions of a file."""
        made: list[Instruction] = []
        selects = [one for one in found if isinstance(one, statements.QueryText)]
        for statement in found:
            if isinstance(statement, statements.CreateStream):
                made += self._created(path, statement.stream)
            elif isinstance(statement, statements.DeriveStream):
                made += self._deriving(path, statement)
            elif isinstance(statement, statements.QueryText):
                number = f"-{selects.index(statement) + 1}" if len(selects) > 1 else ""
                made.append(self._installing(path, f"{path.stem}{number}", statement))
        return made

    def _created(self, path: Path, stream: Stream) -> list[Instruction]:
        stream = replace(stream, bounded=True)
        where, known = self._streams.setdefault(stream.name.lower(), (path, stream))
        if where == path:
            return [CreateStream(stream)]
        if known == stream:
            return []
        raise InputError(
            f"{path}: stream {stream.name} is {describe(stream.schema)} here, and "
            f"{describe(known.schema)} in {where}",
            "Declare it alike, or in one of the files only.",
        )

    def _deriving(self, path: Path, statement: statements.DeriveStream) -> list[Instruction]:
        name, text = statement.name, statement.query.text
        where, known = self._derived.setdefault(name.lower(), (path, text))
        if where == path:
            return [Derive(name, text)]
        if known == text:
            return []
        raise InputError(
            f"{path}: the stream {name} is another query here than in {where}",
            "Give one of them another name.",
        )

    def _installing(self, path: Path, name: str, statement: statements.QueryText) -> Install:
        before = self._queries.setdefault(name.lower(), path)
        if before != path:
            raise InputError(
                f"two queries have the name {name}: those of {before} and of {path}",
                "A query has the name of its file: rename one of them.",
            )
        return Install(name, statement.text)
