"""Saving an engine to a file and restoring it: streams, programs, windows, undrained results.

The file is a ZIP archive of ``state.json`` and Arrow streams. A restored engine goes on as if
nothing had happened: the same positions, windows, promises and rows that nobody has drained.
"""

from __future__ import annotations

import decimal
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.blocks.join import JoinBlock
from penstock.blocks.join_side import JoinSide
from penstock.blocks.union import UnionBlock
from penstock.engines.local.engine import Engine
from penstock.engines.local.query import Letter, Query, Result, _written
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
                    name: [[column, _plain(value)] for column, value in promises.items()]
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
    except (zipfile.BadZipFile, OSError, KeyError, json.JSONDecodeError, pa.ArrowInvalid) as error:
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
        name: {column: _value(value) for column, value in promises}
        for name, promises in state["promises"].items()
    }
    return engine


def _save_query(archive: _Archive, prefix: str, query: Query) -> dict[str, Any]:
    for number, block in query.pipeline.blocks.items():
        if isinstance(block, JoinBlock):
            for side in block.sides:
                _save_side(archive, f"{prefix}.{number}.{side.index}", side)
    with query._room:
        results = list(query._results)
        letters = [one for letter in query._letters for one in _written(letter)]
    for i, result in enumerate(results):
        archive.write_batches(f"{prefix}.r{i}", result.batch.schema, [result.batch])
        archive.write_arrays(f"{prefix}.r{i}", {"positions": result.positions})
    return {
        "name": query.name,
        "text": query.text,
        "order": query.order,
        "kernel": query.kernel,
        "derived": query.derived,
        "rows_out": query._rows_out,
        "counts": query._counts,
        "tuples_in": query._tuples_in,
        "results": len(results),
        "letters": [[x.kind, x.position, x.stream, x.text, x.reason] for x in letters],
        "blocks": {str(n): _save_block(block) for n, block in query.pipeline.blocks.items()},
    }


def _restore_query(archive: _Archive, prefix: str, saved: dict[str, Any], engine: Engine) -> None:
    program = engine._registry.program(saved["text"], saved["order"], saved["kernel"])
    query = engine._new_query(saved["name"], program, saved["derived"])
    pipeline = query.pipeline
    query.order, query.kernel = saved["order"], saved["kernel"]
    engine._registry.queries[query.name.lower()] = query
    if query.derived:
        bounded = all(scan.stream.bounded for scan in program.scans)
        stream = Stream.of(query.name, program.schema, bounded=bounded, derived=True)
        engine.catalog.add(stream)
    for number, block in pipeline.blocks.items():
        _restore_block(block, saved["blocks"][str(number)])
        if isinstance(block, JoinBlock):
            for side in block.sides:
                _restore_side(archive, f"{prefix}.{number}.{side.index}", side)
            block.matcher.rebuild()
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


def _save_block(block: Any) -> dict[str, Any]:
    if isinstance(block, UnionBlock):
        promises = [[[c, _plain(v)] for c, v in known.items()] for known in block.promises]
        return {"promises": promises, "ended": block.ended}
    saved: dict[str, Any] = {"failures": block.failures.count}
    if isinstance(block, JoinBlock):
        saved["promised"] = block.promised
        saved["comparisons"] = block.matcher.comparisons
        saved["matches"] = block.matches
        saved["sides"] = [
            {
                "first": side.rows.first,
                "next": side.rows.next,
                "ended": side.ended,
                "in_order": side.in_order,
                "seen": side.punctuator.seen,
                "promise": side.punctuator.promise,
                "has_source": side.punctuator.has_source,
            }
            for side in block.sides
        ]
    return saved


def _restore_block(block: Any, saved: dict[str, Any]) -> None:
    if isinstance(block, UnionBlock):
        block.promises = [{c: _value(v) for c, v in known} for known in saved["promises"]]
        block.ended = saved["ended"]
        return
    block.failures.count = saved["failures"]
    if isinstance(block, JoinBlock):
        block.promised = saved["promised"]
        block.matcher.comparisons = saved["comparisons"]
        block.matches = saved["matches"]
        for side, known in zip(block.sides, saved["sides"], strict=True):
            side.rows.first = side.rows.next = known["first"]
            side.ended, side.in_order = known["ended"], known["in_order"]
            side.punctuator.seen = known["seen"]
            side.punctuator.promise = known["promise"]
            side.punctuator.has_source = known["has_source"]


def _buffers(side: JoinSide) -> dict[str, Any]:
    named = {"times": side.times, "expiry": side.expiry}
    optional = {"matched": side.matched, "arrived": side.arrived}
    return {**named, **{name: b for name, b in optional.items() if b is not None}}


def _save_side(archive: _Archive, name: str, side: JoinSide) -> None:
    archive.write_batches(name, side.rows.schema, side.rows.batches())
    arrays = {key: buffer.view() for key, buffer in _buffers(side).items()}
    archive.write_arrays(name, arrays)


def _restore_side(archive: _Archive, name: str, side: JoinSide) -> None:
    _, batches = archive.read_batches(name)
    for batch in batches:
        side.rows.append(batch)
    for key, buffer in _buffers(side).items():
        buffer.replace(archive.read_array(name, key))


def _plain(value: object) -> object:
    return {"decimal": str(value)} if isinstance(value, decimal.Decimal) else value


def _value(saved: Any) -> Any:
    return decimal.Decimal(saved["decimal"]) if isinstance(saved, dict) else saved
