"""Files of a checkpoint and of a saved engine, damaged in every way: the right rows, or an error.

Four damages (a byte flipped, the end cut off, the file deleted, two files swapped) of every file of
checkpoints that were left midway and at the end, with the JVM stood in for: the command run again
gives the right rows, or an error that names the file, and so does ``penstock checkpoint verify``.
Then damages of saved engines, and edits of their ``state.json`` with a checksum that fits, after
which an engine may be refused, or work; an error that is not ours is wrong either way. Half of the
engines have a topology that their queries stand on. What Spark itself writes is damaged by the
campaign ``damage_spark``.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock import tuning
from penstock.cli.commands import main
from penstock.engines.shared.checksums import SEAL_SIZE, add_seal
from penstock.program.isa.flow import DesignName
from tests.engines.spark.in_process import Cluster, DictStore, InProcess, standing_in
from tests.random_topology import blocks_to_span

COUNT = 3000
KINDS = ("flip", "truncate", "delete", "swap")


# -- damages --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Damage:
    """What is done to a file; ``other`` is the file that it is swapped with."""

    kind: str
    path: Path
    at: int = 0
    mask: int = 0
    other: Path | None = None

    @property
    def named(self) -> list[str]:
        """What an error may name."""
        return [str(path) for path in (self.path, self.other) if path is not None]

    def do(self) -> None:
        content = self.path.read_bytes()
        if self.kind == "flip":
            self.path.write_bytes(
                content[: self.at] + bytes([content[self.at] ^ self.mask]) + content[self.at + 1 :]
            )
        elif self.kind == "truncate":
            self.path.write_bytes(content[: self.at])
        elif self.kind == "delete":
            self.path.unlink()
        else:
            assert self.other is not None
            self.path.write_bytes(self.other.read_bytes())
            self.other.write_bytes(content)


def some_damage(chance: random.Random, kind: str, path: Path, files: list[Path]) -> Damage | None:
    """A damage of that kind; None if there is none, as of an empty file."""
    content = path.read_bytes()
    if kind == "delete":
        return Damage(kind, path)
    if kind == "swap":
        others = [one for one in files if one.read_bytes() != content]
        return Damage(kind, path, other=chance.choice(others))
    if not content:
        return None
    return Damage(kind, path, chance.randrange(len(content)), chance.randrange(1, 256))


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@dataclass(frozen=True)
class Said:
    """What a command came to."""

    code: int
    error: str

    def tells(self, damage: Damage) -> bool:
        """Whether it is an error of ours that names the file."""
        return self.code in (1, 2) and any(
            line.startswith("penstock: ") and name_in(name, line)
            for name in damage.named
            for line in self.error.splitlines()
        )


def name_in(name: str, line: str) -> bool:
    """Whether a message names a file; a segment of the log is known by one of its positions."""
    folder, _, last = name.rpartition("/")
    first, after, *_ = [*last.split("-"), ""]
    return name in line or f"{folder}/{first}-..." in line or f"{folder}/...-{after}-..." in line


def call(*arguments: object) -> Said:
    """The command in this process."""
    error = io.StringIO()
    with (
        contextlib.redirect_stderr(error),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            return Said(int(ended.code or 0), error.getvalue())
        except BaseException:
            return Said(99, traceback.format_exc())
    return Said(0, error.getvalue())


# -- checkpoints ----------------------------------------------------------------------------

QUERY = (
    "CREATE STREAM big AS SELECT ts, id, x FROM R WHERE x > 2;\n"
    "SELECT b.id AS r, s.id AS s, b.x FROM big [RANGE 9 WATTR ts SLACK 2] AS b "
    "FULL JOIN S [RANGE 6 WATTR ts] AS s ON b.x <= s.x"
)
CHAIN = (
    "SELECT r.id AS r, s.id AS s, t.id AS t FROM R [ROWS 5] AS r "
    "JOIN S [RANGE 6 WATTR ts SLACK 2] AS s ON r.x = s.x JOIN T [ROWS 7] AS t ON s.x <= t.x"
)
TREE = (
    "SELECT r.id AS r, s.id AS s, t.id AS t FROM R [RANGE 5 WATTR ts SLACK 2] AS r "
    "JOIN S [RANGE 6 WATTR ts] AS s ON r.x = s.x "
    "LEFT JOIN T [RANGE 7 WATTR ts SLACK 3] AS t ON s.x = t.x AND r.id <= t.id"
)
STANDING = (
    (QUERY, 3, "auto"),
    (QUERY, 5, "auto"),
    (QUERY, None, "auto"),
    (CHAIN, 5, "auto"),
    (CHAIN, None, "stashed"),
    (CHAIN, 3, "parallel"),
    (TREE, 5, "auto"),
    (TREE, None, "auto"),
)
"""Queries, after how many batches their checkpoints are left, and their designs."""


class _Ended(BaseException):
    """Nothing after this happens in the process."""


def _copy(cluster: Cluster) -> Cluster:
    """A cluster of its own with the same state; its workers remember nothing."""
    copied = Cluster(eager=True)
    copied.offset, copied.planned, copied.batch = cluster.offset, cluster.planned, cluster.batch
    for core, store in cluster.stores.items():
        copied.stores[core] = DictStore()
        copied.stores[core]._map._kept = dict(store._map._kept)
    return copied


class Standing:
    """A command over generated files whose checkpoint was left after some batches."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        batches: int | None,
        query: str = QUERY,
        design: str = "auto",
    ) -> None:
        rng = np.random.default_rng(seed)
        self.checkpoint, self._out = folder / "c", folder / "out.jsonl"
        (folder / "q.sql").write_text(query)
        self._command: list[object] = ["run", folder / "q.sql", "--order-by", "at"]
        names = [name for name in "RST" if f" {name} [" in query or f" {name} WHERE" in query]
        for name in names:
            count = 300 // len(names)
            columns = {
                "at": np.arange(count),
                "ts": np.arange(count) - rng.choice([0, 0, 0, 1, 5], count),
                "id": rng.integers(0, 1000, count),
                "x": rng.integers(0, 6, count),
            }
            table = pa.table({key: pa.array(column) for key, column in columns.items()})
            pq.write_table(table, folder / f"{name}.parquet", row_group_size=11)
            self._command += ["--stream", f"{name}={folder / name}.parquet"]
        self._command += ["--out", self._out]
        assert call(*self._command, "--engine", "local").code == 0
        self.rows = self._out.read_text()
        self._command += ["--checkpoint", self.checkpoint, "--rows-per-trigger", 40]
        if design != "auto":
            self._command += ["--design", design, "--cores", 2 if design == "parallel" else 1]
        self.cluster = Cluster(eager=True)
        self._out.unlink()
        taken = 0

        def ends(resident: InProcess) -> None:
            nonlocal taken
            taken += 1
            if taken == batches:
                raise _Ended

        with patch.object(InProcess, "before_commit", ends):
            said = self._call(self.cluster)
        assert said.code == (0 if batches is None else 99), said.error
        self._kept = folder / "kept"
        shutil.copytree(self.checkpoint, self._kept)

    def _call(self, cluster: Cluster) -> Said:
        with (
            standing_in(cluster),
            tuning.given(run_batch_rows=13),
            patch("penstock.cli.run.bounded._warm_up", lambda *_: None),
        ):
            return call(*self._command)

    def restore(self) -> None:
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self._kept, self.checkpoint)
        self._out.unlink(missing_ok=True)

    def again(self) -> Said:
        """Run it again."""
        return self._call(_copy(self.cluster))

    def found(self) -> str | None:
        return self._out.read_text() if self._out.exists() else None


def wrong_with(standing: Any, damage: Damage) -> tuple[str, str]:
    """What came of a damage, and what is wrong with that; nothing if nothing is."""
    seen = call("checkpoint", "verify", standing.checkpoint)
    again = standing.again()
    if again.code == 0:
        if standing.found() != standing.rows:
            return "", "the command gives other rows"
        if seen.code and not seen.tells(damage):
            return "", f"verify says: {seen.error}"
        return ("rows, verify names it" if seen.code else "rows"), ""
    if not again.tells(damage):
        return "", f"the command says: {again.error}"
    if not seen.tells(damage):
        return "", f"the command is refused, and verify says: {seen.error or 'nothing'}"
    return "error", ""


def _checkpoints(seed: int, count: int, outcomes: Counter[str]) -> Iterator[str]:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        cases = []
        for number, (query, batches, design) in enumerate(STANDING):
            folder = Path(name) / str(number)
            folder.mkdir()
            standing = Standing(folder, seed, batches, query, design)
            files = files_of(standing.checkpoint)
            cases += [(standing, file, kind) for file in files for kind in KINDS]
        chance.shuffle(cases)
        for standing, file, kind in (cases * (count // len(cases) + 1))[:count]:
            standing.restore()
            damage = some_damage(chance, kind, file, files_of(standing.checkpoint))
            if damage is None:
                outcomes["nothing to damage"] += 1
                continue
            damage.do()
            outcome, wrong = wrong_with(standing, damage)
            outcomes[outcome or "wrong"] += 1
            if wrong:
                yield f"{damage}: {wrong}"


# -- saved engines --------------------------------------------------------------------------

MakeEngine = Callable[[int], "ps.Engine"]
STREAMS = ("R", "S", "Q")
DESIGNS: tuple[DesignName, ...] = ("auto", "stashed", "circular", "cascade", "parallel")


def _engine(seed: int) -> ps.Engine:
    """An engine with a derived stream, joins, an aggregate, letters and undrained rows."""
    chance = random.Random(seed)
    engine = ps.connect("local", compile_predicates=False)
    for name in STREAMS:
        engine.sql(f"CREATE STREAM {name} (x BIGINT, t BIGINT)")
    engine.sql("CREATE STREAM big AS SELECT x, t FROM R WHERE x > 2")
    engine.install(
        "SELECT b.x, s.t FROM big [RANGE 9 WATTR t SLACK 2] AS b "
        "LEFT JOIN S [ROWS 7] AS s ON b.x <= s.x",
        name="pairs",
    )
    engine.install(
        "SELECT x, COUNT(*) AS n, SUM(t) AS total, window_end "
        "FROM S [RANGE 6 SLIDE 3 WATTR t SLACK 1] GROUP BY x",
        name="sums",
    )
    for design in DESIGNS:
        engine.install(
            "SELECT b.x, s.t AS s, q.t AS q FROM big [RANGE 9 WATTR t SLACK 2] AS b "
            "JOIN S [ROWS 7] AS s ON b.x = s.x JOIN Q [ROWS 5] AS q ON s.x <= q.x",
            name=design.replace("-", "_"),
            design=design,
        )
    engine.install(
        "SELECT r.x, s.t AS s FROM R [RANGE 9 WATTR t SLACK 4] AS r "
        "LEFT JOIN S [RANGE 7 WATTR t SLACK 2] AS s ON r.x = s.x "
        "SEMI JOIN Q [RANGE 5 WATTR t SLACK 4] AS q ON r.x <= q.x",
        name="tree",
    )
    engine.install(
        "SELECT r.x, s.t AS s, q.t AS q FROM R [ROWS 9] AS r JOIN S [ROWS 7] AS s ON r.x = s.x "
        "FULL JOIN Q [RANGE 5 WATTR t SLACK 4] AS q ON r.x = q.x",
        name="counts",
    )
    return _begun(engine, chance)


def _engine_on_topology(seed: int) -> ps.Engine:
    """An engine whose joins span blocks, with selections, a derived stream, letters and rows."""
    engine = ps.connect("local", compile_predicates=False, topology=blocks_to_span(2))
    for name in STREAMS:
        engine.sql(f"CREATE STREAM {name} (x BIGINT, t BIGINT)")
    engine.sql("CREATE STREAM big AS SELECT x, t FROM R WHERE x > 2 OR NOT (t < 9)")
    for name, text in (
        ("pairs", "SELECT b.x, s.t FROM big [ROWS 5] AS b JOIN S [ROWS 4] AS s ON b.x <= s.x"),
        ("equal", "SELECT r.x, q.t FROM R [ROWS 2] AS r JOIN Q [ROWS 6] AS q ON r.x = q.x"),
        ("some", "SELECT x + 1 AS x, t FROM R WHERE x = 0 OR x BETWEEN 2 AND 4"),
        ("others", "SELECT x, t FROM R WHERE x <> 1 AND NOT (x = 3)"),
    ):
        engine.install(text, name=name)
    return _begun(engine, random.Random(seed))


ENGINES = (_engine, _engine_on_topology)


def _begun(engine: ps.Engine, chance: random.Random) -> ps.Engine:
    _push(engine, chance, 0, 30)
    engine.punctuate("S", 25, attribute="t")
    return engine


def _push(engine: ps.Engine, chance: random.Random, start: int, stop: int) -> None:
    for t in range(start, stop, 5):
        for name in STREAMS:
            times = range(t, t + 5)
            rows = [
                {"x": chance.randrange(6), "t": time - chance.choice((0, 0, 4))} for time in times
            ]
            engine.push(name, [*rows, {"x": "?", "t": t}])


def _rows(engine: ps.Engine) -> dict[str, Any]:
    """All that a restored engine gives, after some more input."""
    _push(engine, random.Random(7), 30, 50)
    engine.end()
    found: dict[str, Any] = {}
    for name, query in engine.queries.items():
        found[name] = query.rows().to_pylist(), query.late().to_pylist()
        query.metrics()
    return found


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _leaves(value[key], (*path, key))


def _edited(chance: random.Random, state: dict[str, Any]) -> str:
    """Change one value of a state."""
    path = chance.choice([*_leaves(state)])
    place: Any = state
    for key in path[:-1]:
        place = place[key]
    others = [None, -1, 0, 1, 10**30, 2.5, "x", "", [], {}, [1], {"a": 1}, True, "SELECT x FROM R"]
    kind = chance.choice(("delete", "other", "other", "next"))
    if kind == "delete":
        del place[path[-1]]
    elif kind == "next" and type(place[path[-1]]) is int:
        place[path[-1]] += chance.choice((-1, 1, 1000))
    else:
        place[path[-1]] = chance.choice(others)
    return f"{kind} {path}"


def reseal(path: Path, members: dict[str, bytes]) -> None:
    """Write an archive with a checksum that fits."""
    with path.open("w+b") as opened:
        with zipfile.ZipFile(opened, "w") as file:
            for name, content in members.items():
                file.writestr(name, content)
            file.comment = bytes(SEAL_SIZE)
        add_seal(opened, "saved engine")


def _saved(make: MakeEngine, seed: int, count: int, outcomes: Counter[str]) -> Iterator[str]:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "engine.penstock"
        make(seed).save(path)
        content = path.read_bytes()
        for case in range(count):
            start = len(content) * case // count  # every region in turn
            kind = chance.choice(("flip", "truncate", "delete"))
            damage = Damage(kind, path, start, chance.randrange(1, 256))
            path.write_bytes(content)
            damage.do()
            try:
                ps.restore(path)
                wrong = "it is restored"
            except ps.StateError as error:
                wrong = "" if str(path) in error.what else f"it says {error}"
            except Exception:
                wrong = traceback.format_exc()
            if not wrong and not call("checkpoint", "verify", path).tells(damage):
                wrong = "verify does not tell"
            outcomes["wrong" if wrong else "saved engine: error"] += 1
            if wrong:
                yield f"saved engine, {replace(damage, path=Path('file'))}: {wrong}"


def _edits(make: MakeEngine, seed: int, count: int, outcomes: Counter[str]) -> Iterator[str]:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "engine.penstock"
        make(seed).save(path)
        expected = _rows(ps.restore(path))
        with zipfile.ZipFile(path) as file:
            members = {one: file.read(one) for one in file.namelist()}
        for _ in range(count):
            state = json.loads(members["state.json"])
            what = _edited(chance, state)
            reseal(path, {**members, "state.json": json.dumps(state).encode()})
            outcome, wrong = _outcome(path, expected)
            outcomes["wrong" if wrong else f"edit: {outcome}"] += 1
            if wrong:
                yield f"edited state.json, {what}: {wrong}"


def _outcome(path: Path, expected: dict[str, Any]) -> tuple[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            engine = ps.restore(path)
        except ps.StateError as error:
            told = str(path) in error.what
            return "refused", "" if told else f"it says {error}"
        except Exception:
            return "", traceback.format_exc()
        try:
            found = _rows(engine)
        except ps.PenstockError:
            return "an error of ours later", ""
        except Exception:
            return "", traceback.format_exc()
    return "the same rows" if found == expected else "another state, other rows", ""


def run(seed: int, count: int) -> int:
    """Half of the cases on checkpoints, the others on saved engines."""
    outcomes: Counter[str] = Counter()
    wrong = 0
    parts = [(partial(part, make), count // 8) for part in (_saved, _edits) for make in ENGINES]
    rest = count - sum(size for _, size in parts)
    for part, size in (partial(_checkpoints), rest), *parts:
        for told in part(seed, size, outcomes):
            wrong += 1
            print(told, flush=True)
    for outcome, number in sorted(outcomes.items()):
        print(f"  {outcome}: {number}")
    return wrong
