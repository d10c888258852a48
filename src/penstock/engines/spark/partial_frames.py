"""Partial results on their way from the partitions of the input to the cores, as bytes."""

from __future__ import annotations

import numpy as np

from penstock.blocks.partial_batch import PartialBatch
from penstock.engines.spark.column_chunks import packed_columns, unpacked_columns
from penstock.engines.spark.frames import from_ipc, ipc, one_batch

_CELL = "cell."


def pack_partial(part: PartialBatch) -> bytes:
    """The partial results as bytes: arrays, and an Arrow stream of the keys of the groups."""
    known = part.highest is not None
    columns = {
        "numbers": np.array([part.tuples, part.dead, known, part.highest or 0], np.int64),
        "seen": part.seen,
        "counts": part.counts,
        "panes": part.panes,
        "groups": part.groups,
        **{f"{_CELL}{name}": column for name, column in part.cells.items()},
    }
    if part.keys is not None:
        columns["keys"] = np.frombuffer(ipc(part.keys), np.uint8)
    return packed_columns(columns)


def unpack_partial(data: bytes | memoryview) -> PartialBatch:
    """What :func:`pack_partial` was given."""
    columns = unpacked_columns(data)
    tuples, dead, known, highest = columns["numbers"].tolist()
    keys = columns.get("keys")
    return PartialBatch(
        tuples=tuples,
        dead=dead,
        highest=highest if known else None,
        seen=columns["seen"],
        counts=columns["counts"],
        panes=columns["panes"],
        groups=columns["groups"],
        keys=None if keys is None else one_batch(from_ipc(keys.data)),
        cells={k[len(_CELL) :]: c for k, c in columns.items() if k.startswith(_CELL)},
    )
