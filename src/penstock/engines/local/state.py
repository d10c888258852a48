"""Saving an engine to a file and restoring it: streams, programs, windows, undrained results.

The file is a ZIP archive of ``state.json`` and Arrow streams. A restored engine goes on as if
nothing had happened: the same positions, windows, promises and rows that nobody has drained.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.state import BlockState, physical, plain
from penstock.engines.local.engine import Engine
from penstock.engines.shared.pipeline import Pipeline
from penstock.engines.shared.query import Query, Result
from penstock.engines.shared.running import Letter, written
from penstock.engines.shared.saved import load_choice, save_choice
from penstock.errors import StateError
from penstock.program.instructions import CreateStream
from penstock.streams.schema import Stream

FORMAT = 1


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


def save(engine: Engine, path: Path) -> None:
    """Write the engine's state; the file is there whole or not at all."""
    if not path.parent.is_dir():
        raise StateError(
            f"the engine cannot be saved to {path}: there is no folder {path.parent}",
            "Create the folder first, or save elsewhere.",
        )
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    os.close(handle)
    try:
        with zipfile.ZipFile(temporary, "w") as file:
            archive = _Archive(file)
            queries = [
                _save_query(archive, f"q{i}", query)
                for i, query in enumerate(engine._registry.queries.values())
            ]
            derived = {
                query.name.lower() for query in engine._registry.queries.values() if query.derived
            }
            base = [s for s in engine.catalog if s.name.lower() not in derived]
            for i, stream in enumerate(base):
                archive.write_batches(f"s{i}", stream.schema, [])
            state = {
                "format": FORMAT,
                "position": engine.position,
                "names": engine._names,
                "ended": sorted(engine._registry.ended),
                "streams": [{"name": s.name, "time": s.time, "bounded": s.bounded} for s in base],
                "promises": {
                    name: [[column, plain(value)] for column, value in promises.items()]
                    for name, promises in engine._registry.promises.items()
                },
                "queries": queries,
                "options": {
                    "batch_rows": engine.batch_rows,
                    "buffer_rows": engine.buffer_rows,
                    "push_timeout": engine.push_timeout,
                    "window_memory": engine.window_memory,
                    "compile_predicates": engine.compile_predicates,
                    "windows_required": engine.catalog.windows_required,
                    "order_column": engine._registry.order_column,
                },
            }
            file.writestr("state.json", json.dumps(state))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def restore(path: Path, **options: Any) -> Engine:
    """An engine in the state that was saved; ``options`` override those it was saved with."""
    try:
        with zipfile.ZipFile(path) as file:
            state = json.loads(file.read("state.json"))
            if state.get("format") != FORMAT:
                raise StateError(
                    f"{path} has the state format {state.get('format')}, this is format {FORMAT}",
                    "Restore it with the version of Penstock that saved it.",
                )
            return _restore(_Archive(file), state, options)
    except FileNotFoundError:
        raise StateError(
            f"there is no file {path}", "Pass a file that engine.save wrote."
        ) from None
    except (
        zipfile.BadZipFile,
        RuntimeError,  # what zipfile says of a version or an encryption that it does not have
        OSError,
        KeyError,
        json.JSONDecodeError,
        pa.ArrowInvalid,
    ) as error:
        raise StateError(
            f"{path} is no saved engine, or a damaged one ({error})",
            "Pass a file that engine.save wrote.",
        ) from error


def _restore(archive: _Archive, state: dict[str, Any], options: dict[str, Any]) -> Engine:
    engine = Engine(**{**state["options"], **options})
    for i, saved in enumerate(state["streams"]):
        schema, _ = archive.read_batches(f"s{i}")
        stream = Stream.of(saved["name"], schema, saved["time"], saved["bounded"])
        engine.feed([CreateStream(stream)])
    for i, saved in enumerate(state["queries"]):
        _restore_query(archive, f"q{i}", saved, engine)
    engine._processing.position = state["position"]
    engine._names = state["names"]
    engine._registry.ended = set(state["ended"])
    engine._registry.promises = {
        name: {column: physical(value) for column, value in promises}
        for name, promises in state["promises"].items()
    }
    return engine


def _save_query(archive: _Archive, prefix: str, query: Query[Pipeline]) -> dict[str, Any]:
    blocks = {
        str(number): _save_block(archive, f"{prefix}.b{number}", block.save())
        for number, block in query.pipeline.blocks.items()
    }
    with query._room:
        query._gather_loose()
        results = list(query._results)
        letters = [one for letter in query._letters for one in written(letter)]
    for i, result in enumerate(results):
        archive.write_batches(f"{prefix}.r{i}", result.batch.schema, [result.batch])
        archive.write_arrays(f"{prefix}.r{i}", {"positions": result.positions})
    return {
        "name": query.name,
        "text": query.text,
        "order": query.order,
        "kernel": query.kernel,
        "flow": save_choice(query.flow),
        "derived": query.derived,
        "rows_out": query._rows_out,
        "counts": query._counts,
        "shed": None if query._shedding is None else query._shedding.save(),
        "tuples_in": query._tuples_in,
        "results": len(results),
        "letters": [[x.kind, x.position, x.stream, x.text, x.reason] for x in letters],
        "blocks": blocks,
    }


def _restore_query(archive: _Archive, prefix: str, saved: dict[str, Any], engine: Engine) -> None:
    registry, choice = engine._registry, load_choice(saved.get("flow"))
    program = registry.program(saved["text"], saved["order"], saved["kernel"], choice)
    flow = registry.decide(choice, program)
    query = engine._new_query(saved["name"], program, saved["derived"], flow)
    query.order, query.kernel, query.flow = saved["order"], saved["kernel"], choice
    engine._registry.queries[query.name.lower()] = query
    if query.derived:
        bounded = all(scan.stream.bounded for scan in program.scans)
        stream = Stream.of(query.name, program.schema, bounded=bounded, derived=True)
        engine.catalog.add(stream)
    for number, block in query.pipeline.blocks.items():
        block.load(_saved_block(archive, f"{prefix}.b{number}", saved["blocks"][str(number)]))
    query._rows_out = saved["rows_out"]
    query._tuples_in = saved["tuples_in"]
    for i in range(saved["results"]):
        _, batches = archive.read_batches(f"{prefix}.r{i}")
        positions = archive.read_array(f"{prefix}.r{i}", "positions")
        query._results.append(Result(batches[0], positions))
        query._waiting_rows += batches[0].num_rows
    query._letters.extend(Letter(*letter) for letter in saved["letters"])
    query._waiting_letters = len(saved["letters"])
    query._counts = saved["counts"]
    if query._shedding is not None:
        query._shedding.load(saved["shed"])


def _save_block(archive: _Archive, prefix: str, state: BlockState) -> dict[str, Any]:
    """Write the rows and columns of a block; the rest goes into the JSON."""
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
