"""Damage a file of a real kernel cache, run the queries again: the right rows, whatever was done.

A case flips a bit of one file, cuts it, empties it, deletes it, or puts another one in its place,
and knows no more after that than a new process does.
"""

from __future__ import annotations

import os
import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.kernels import compiled

COUNT = 200
ON = ("r.x < s.x", "r.x = s.x", "r.x BETWEEN s.x - 1 AND s.x + 1 AND r.n <> s.n", "r.x + s.x > 9")


def rows() -> list[Any]:
    """What joins of all kinds come to, in batches and one tuple at a time."""
    compiled.load.cache_clear()
    found = []
    for on in ON:
        engine = ps.connect("local")
        engine.sql("CREATE STREAM R (x INT, n STRING); CREATE STREAM S (x INT, n STRING)")
        join = f"R [ROWS 9] AS r JOIN S [ROWS 9] AS s ON {on}"
        query = engine.install(f"SELECT r.x, s.x AS y FROM {join}")
        for start in range(0, 20, 4):
            some = [{"x": i * 7 % 10, "n": "ab"[i % 2]} for i in range(start, start + 4)]
            engine.push("R", some[:3])
            engine.push("S", some[1:])
            engine.push("R", some[3:])
        found.append(query.rows().to_pylist())
    return found


def damage(draw: random.Random, path: Path, others: list[Path]) -> str:
    """Do something to a file; says what."""
    content = bytearray(path.read_bytes())
    how = draw.choice(("flip", "cut", "empty", "delete", "swap"))
    if how == "flip":
        place = draw.randrange(len(content))
        content[place] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        return f"flip {path.name} at {place}"
    if how == "cut":
        length = draw.randrange(len(content))
        path.write_bytes(content[:length])
        return f"cut {path.name} to {length}"
    if how == "swap":
        path.write_bytes(draw.choice(others).read_bytes())
        return f"put another in the place of {path.name}"
    path.write_bytes(b"") if how == "empty" else path.unlink()
    return f"{how} {path.name}"


def run(seed: int, count: int) -> int:
    draw, wrong = random.Random(seed), 0
    before = os.environ.get("PENSTOCK_CACHE")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        os.environ["PENSTOCK_CACHE"] = folder
        try:
            wanted = rows()
            for case in range(count):
                paths = sorted(Path(folder).iterdir())
                done = damage(draw, draw.choice(paths), paths)
                try:
                    right = rows() == wanted
                except Exception as error:
                    right, done = False, f"{done}: {error!r}"
                if not right:
                    wrong += 1
                    print(f"case {case}: {done}", flush=True)
        finally:
            del os.environ["PENSTOCK_CACHE"]
            if before is not None:
                os.environ["PENSTOCK_CACHE"] = before
            compiled.load.cache_clear()
    return wrong
