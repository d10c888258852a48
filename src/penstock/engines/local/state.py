"""Saving an engine to a file and restoring it: streams, programs, windows, undrained results.

The file is a ZIP archive of ``state.json`` and Arrow streams, with a seal as its comment. A
restored engine continues with the same positions, windows, punctuations and undrained rows.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from penstock.blocks.state import BlockState, physical, plain
from penstock.engines.local.engine import Engine
from penstock.engines.shared.checksums import (
    SEAL_SIZE,
    Verification,
    add_seal,
    check_sealed,
    has_seal,
    replacing,
)
from penstock.engines.shared.failure import load_failure, save_failure
from penstock.engines.shared.pipeline import Pipeline, Tally
from penstock.engines.shared.query import Balance, Query, Result
from penstock.engines.shared.running_query import Letter, written
from penstock.engines.shared.saved_registry import made_by
from penstock.errors import SURROGATE, InputError, PenstockError, StateError
from penstock.flows.make import UnknownOwnBlock
from penstock.processor.topology.load import load_topology
from penstock.processor.topology.topology import Topology
from penstock.program.isa.encoding import decode, encode
from penstock.program.isa.instructions import CreateStream, Derive, Install
from penstock.streams.schema import Stream
from penstock.version import VERSION

FORMAT = 4
VERSIONS = {1: "0.1", 2: "0.2.0 before its release", 3: "0.2.0 before its release"}
"""The versions of Penstock that saved engines in older formats."""

_PLACE = "saved engine"
"""The place in the seal: a file may be renamed and moved, so only its kind."""
_BEGINNING = b"PK\x03\x04"
_AS_WRITTEN = "Pass a file that engine.save wrote, as it was written."


class _Archive:
    """Arrow tables and JSON in a ZIP file."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file

    def write_batches(self, name: str, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        self._file.writestr(name, sink.getvalue().to_pybytes())

    def write_json(self, state: dict[str, Any]) -> None:
        self._file.writestr("state.json", json.dumps(state))

    def read_json(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._file.read("state.json"))
        return state

    def read_batches(self, name: str) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        with pa.ipc.open_stream(self._file.read(name)) as reader:
            return reader.schema, list(reader)

    def write_arrays(self, name: str, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        for key, values in arrays.items():
            column = pa.RecordBatch.from_arrays([pa.array(values)], [key])
            self.write_batches(f"{name}.{key}", column.schema, [column])

    def read_array(self, name: str, key: str) -> np.ndarray[Any, Any]:
        _, batches = self.read_batches(f"{name}.{key}")
        column: np.ndarray[Any, Any] = batches[0].column(0).to_numpy(zero_copy_only=False)
        return column


def as_path(path: object) -> Path:
    """The path of a saved engine; an error if it is no path."""
    if not isinstance(path, str | Path) or SURROGATE.search(str(path)):
        raise InputError(f"{path!r} is no path of a file", "Give it as a string or a Path.")
    return Path(path)


def save(engine: Engine, path: Path) -> None:
    """Write the engine's state atomically: if that fails, an older file stays."""
    if not path.parent.is_dir():
        raise StateError(
            f"the engine cannot be saved to {path}: there is no folder {path.parent}",
            "Create the folder first, or save elsewhere.",
        )
    try:
        with replacing(path) as file:
            with zipfile.ZipFile(file, "w") as archive:
                _write(_Archive(archive), engine)
                archive.comment = bytes(SEAL_SIZE)
            add_seal(file, _PLACE)
    except OSError as error:
        raise StateError(
            f"the engine cannot be saved to {path}: {error.strerror or error}; "
            + ("the file that was there stays" if path.exists() else "there is no such file"),
            "Make room on the disk, or save where there is room and you may write.",
        ) from error


def _write(archive: _Archive, engine: Engine) -> None:
    queries = [
        _save_query(archive, f"q{i}", query)
        for i, query in enumerate(engine._registry.queries.values())
    ]
    state = {
        "format": FORMAT,
        "version": VERSION,
        "position": engine.position,
        "names": engine.registry.names,
        "ended": sorted(engine._registry.ended),
        "streams": [
            encode(CreateStream(stream))
            for stream in engine._registry.streams
            if not stream.derived
        ],
        "furthest": engine._registry.furthest,
        "punctuations": {
            name: [[column, plain(value)] for column, value in columns.items()]
            for name, columns in engine._registry.punctuations.items()
        },
        "queries": queries,
        "options": {
            "batch_rows": engine.batch_rows,
            "buffer_rows": engine.buffer_rows,
            "push_timeout": engine.push_timeout,
            "window_memory": engine.window_memory,
            "compile_predicates": engine.compile_predicates,
            "windows_required": engine._compiler.windows_required,
            "order_column": engine._compiler.order_column,
            "topology": None if engine.topology is None else engine.topology.to_toml(),
        },
    }
    archive.write_json(state)


def restore(path: Path, **options: Any) -> Engine:
    """Restore an engine from saved state; ``options`` override the saved options."""
    with _opened(path) as archive:
        return _restored(path, archive, options)


def verify(path: Path) -> Verification:
    """Check a saved engine against its seal."""
    damages: list[StateError] = []
    try:
        with _opened(path):
            pass
    except StateError as error:
        damages.append(error)
    return Verification(1, path.stat().st_size, damages)


@contextmanager
def _opened(path: Path) -> Iterator[_Archive]:
    """The archive of a file, after its seal is checked."""
    try:
        with path.open("rb") as file:
            try:
                check_sealed(file, path, _PLACE, _AS_WRITTEN)
            except StateError:
                _refuse_other(file, path)
                raise
            try:
                archive = zipfile.ZipFile(file)
            except zipfile.BadZipFile as error:
                raise _undecodable(path, error) from error
            with archive:
                yield _Archive(archive)
    except FileNotFoundError:
        raise StateError(
            f"there is no file {path}", "Pass a file that engine.save wrote."
        ) from None
    except OSError as error:
        raise StateError(
            f"{path} cannot be read: {error.strerror or error}", "Check the path and its rights."
        ) from error


def _refuse_other(file: BinaryIO, path: Path) -> None:
    """Raise if an unsealed file is of an older format, which had no seal, or of another kind."""
    sealed = has_seal(file)
    file.seek(0)
    if not sealed and not _BEGINNING.startswith(file.read(len(_BEGINNING))):
        raise StateError(f"{path} is no saved engine", "Pass a file that engine.save wrote.")
    try:
        with zipfile.ZipFile(file) as archive:
            found = _Archive(archive).read_json()["format"]
    except Exception:  # it may be anything
        return
    if found in VERSIONS:
        _check_format(path, {"format": found, "version": VERSIONS[found]})


def _restored(path: Path, archive: _Archive, options: dict[str, Any]) -> Engine:
    """The engine of an archive. Every error of decoding becomes one that names the file."""
    try:
        state = archive.read_json()
        _check_format(path, state)
        saved_options = _options(state["options"])
        engine = Engine(**saved_options)
        if not options:
            _restore(archive, state, engine)
            return engine
    except (StateError, MemoryError):
        raise
    except Exception as error:  # a file that was edited and sealed again can be wrong in any way
        raise _undecodable(path, error) from error
    if "topology" in options and state["queries"]:
        _check_topology(path, saved_options["topology"], options["topology"])
    overridden = Engine(**{**saved_options, **options})  # errors here are of the caller's options
    try:
        _restore(archive, state, overridden)
    except Exception as error:
        raise _undecodable(path, error) from error
    return overridden


def _options(saved: dict[str, Any]) -> dict[str, Any]:
    """The options of a saved engine."""
    topology = saved["topology"]
    return {**saved, "topology": None if topology is None else Topology.from_toml(topology)}


def _check_topology(
    path: Path, saved: Topology | None, asked: Topology | str | Path | None
) -> None:
    """Refuse another topology: its blocks are not those that the windows of the queries are in."""
    if asked is None:  # each query has blocks of its own, which take its whole windows
        return
    topology = load_topology(asked)
    if saved is None:
        raise StateError(
            f"{path} was saved without a topology, and its queries have blocks of their own; they "
            f"cannot go on on the topology {topology.name!r}",
            "Leave topology= out to restore it as it was saved.",
        )
    if saved.to_toml() == topology.to_toml():
        return
    other = "another one of that name" if saved.name == topology.name else repr(topology.name)
    raise StateError(
        f"{path} was saved with the topology {saved.name!r}, on whose blocks its queries stand; "
        f"they cannot go on on {other}",
        f"Leave topology= out to restore it on {saved.name!r}, or pass topology=None, which gives "
        "each query blocks of its own.",
    )


def _undecodable(path: Path, error: Exception) -> StateError:
    if isinstance(error, UnknownOwnBlock):
        name, implementation = error.block.name, error.block.implementation
        block = implementation.rpartition(":")[2]
        return StateError(
            f"{path} has a query through a block of your own: {error.what}",
            f'Register it first: ps.register_block("{name}", {block}), and then ps.restore.',
        )
    what = error.what if isinstance(error, PenstockError) else error
    return StateError(
        f"{path} holds no engine that can be restored ({type(error).__name__}: {what})", _AS_WRITTEN
    )


def _check_format(path: Path, state: dict[str, Any]) -> None:
    if state.get("format") != FORMAT:
        version = VERSIONS.get(state.get("format", 0), state.get("version", "another version"))
        raise StateError(
            f"{path} was saved by Penstock {version} in the format {state.get('format')}; this is "
            f"Penstock {VERSION}, which reads the format {FORMAT}",
            "Restore it with the version that saved it, or build the engine anew.",
        )


def _restore(archive: _Archive, state: dict[str, Any], engine: Engine) -> None:
    for saved in state["streams"]:
        created = decode(saved)
        if not isinstance(created, CreateStream):
            raise ValueError(f"{created!r} creates no stream")
        engine.feed([created])
    for i, saved in enumerate(state["queries"]):
        _restore_query(archive, f"q{i}", saved, engine)
    engine._processing.position = _count(state["position"])
    engine.registry.names = _count(state["names"])
    known = {stream.name.lower(): stream for stream in engine._registry.streams}
    engine._registry.furthest = {
        known[name].name.lower(): _number(time) for name, time in state["furthest"].items()
    }
    engine._registry.ended = {known[name].name.lower() for name in state["ended"]}
    engine._registry.punctuations = {
        name: {_column(known[name], column): physical(value) for column, value in columns}
        for name, columns in state["punctuations"].items()
    }


def _column(stream: Stream, number: int | None) -> int | None:
    """Check the column number of a punctuation; None: it names no column."""
    if number is not None:
        stream.schema.field(number)
    return number


def _count(saved: Any) -> int:
    """Check a count: an integer, 0 or more."""
    if type(saved) is not int or not 0 <= saved < 1 << 63:
        raise ValueError(f"{saved!r} is no count")
    return saved


def _counts(saved: dict[str, Any]) -> dict[str, int]:
    return {name: _count(tuples) for name, tuples in saved.items()}


def _balance(saved: list[Any]) -> Balance:
    """The counts of a query from before its failure."""
    tuples, malformed, shed, late, dead, tallies = saved
    return Balance(
        _counts(tuples),
        _counts(malformed),
        _counts(shed),
        _count(late),
        _count(dead),
        [Tally(str(name), bool(window), *map(_count, rest)) for name, window, *rest in tallies],
    )


def _number(saved: Any) -> int | float:
    if type(saved) not in (int, float) or saved != saved:
        raise ValueError(f"{saved!r} is no number")
    return saved  # type: ignore[no-any-return]


def _save_query(archive: _Archive, prefix: str, query: Query[Pipeline]) -> dict[str, Any]:
    # What the blocks of a failed query hold may not be whole, and no query goes on with it.
    units = query.pipeline.units if query.failure is None else {}
    blocks = {
        str(number): _save_block(archive, f"{prefix}.b{number}", block.save())
        for number, block in units.items()
    }
    with query._room:
        query._gather_loose()
        results = list(query._results)
        letters = [one for letter in query._letters for one in written(letter)]
    for i, result in enumerate(results):
        archive.write_batches(f"{prefix}.r{i}", result.batch.schema, [result.batch])
        archive.write_arrays(f"{prefix}.r{i}", {"positions": result.positions})
    return {
        "made_by": encode(made_by(query)),
        "failure": None if query.failure is None else save_failure(query.failure),
        "rows_out": query._rows_out,
        "counts": query._counts,
        "shed": None if query._shedding is None else query._shedding.save(),
        "tuples_in": query._tuples_in,
        "malformed": query._malformed,
        "settled": query._settled if query.failure is None else query._balanced(),
        "results": len(results),
        "letters": [[x.kind, x.position, x.stream, x.text, x.reason] for x in letters],
        "blocks": blocks,
    }


def _restore_query(archive: _Archive, prefix: str, saved: dict[str, Any], engine: Engine) -> None:
    registry, made = engine._registry, decode(saved["made_by"])
    if not isinstance(made, Install | Derive):
        raise ValueError(f"{made!r} makes no query")
    derived = isinstance(made, Derive)
    name = made.name if isinstance(made, Derive) else made.query
    registry.check_free(name)
    program = registry.compiled(made.program, flow=made.asked_flow)
    flow = registry.decide(program)
    query = registry.remember(engine._new_query(name, program, derived, flow), made)
    if saved["failure"] is not None:
        query.failure = load_failure(saved["failure"])
    else:
        for number, block in query.pipeline.units.items():
            state = saved["blocks"][str(number)]
            block.restore(_saved_block(archive, f"{prefix}.b{number}", state))
    query._rows_out = _count(saved["rows_out"])
    query._tuples_in = _counts(saved["tuples_in"])
    query._malformed = _counts(saved["malformed"])
    query._settled = None if saved["settled"] is None else _balance(saved["settled"])
    for i in range(saved["results"]):
        _, batches = archive.read_batches(f"{prefix}.r{i}")
        positions = archive.read_array(f"{prefix}.r{i}", "positions")
        if len(positions) != batches[0].num_rows:
            raise ValueError(f"{len(positions)} positions of {batches[0].num_rows} rows")
        query._results.append(Result(batches[0], positions))
        query._waiting_rows += batches[0].num_rows
    query._letters.extend(map(_letter, saved["letters"]))
    query._waiting_letters = len(saved["letters"])
    query._counts = {kind: _count(saved["counts"][kind]) for kind in query._counts}
    if query._shedding is not None:
        query._shedding.load(saved["shed"])
    query.metrics()  # finds counts that are no numbers


def _letter(saved: list[Any]) -> Letter:
    letter = Letter(*saved)
    _count(letter.position)
    texts = (letter.kind, letter.stream, letter.text, letter.reason)
    if letter.kind not in ("late", "dead") or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{saved!r} is no letter")
    return letter


def _save_block(archive: _Archive, prefix: str, state: BlockState) -> dict[str, Any]:
    """Write the rows and columns of a block; returns the rest for the JSON."""
    for name, (schema, batches) in state.rows.items():
        archive.write_batches(f"{prefix}.{name}", schema, batches)
    archive.write_arrays(prefix, state.columns)
    return {"values": state.values, "rows": list(state.rows), "columns": list(state.columns)}


def _saved_block(archive: _Archive, prefix: str, saved: dict[str, Any]) -> BlockState:
    return BlockState(
        saved["values"],
        {name: archive.read_batches(f"{prefix}.{name}") for name in saved["rows"]},
        {name: archive.read_array(prefix, name) for name in saved["columns"]},
    )
