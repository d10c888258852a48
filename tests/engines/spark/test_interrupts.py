"""Interrupts on Spark: of commands, and of a program that goes on after them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.campaigns.spark_interrupts import Case, Place, send, wrong
from tests.engines.spark.in_process import Cluster, connected, finish
from tests.kill.campaign import ROOT, kill_case
from tests.kill.hooks.sitecustomize import CASE, processes

from penstock.engines.spark.uninterrupted import awaited, done_whole, settle

TWICE = (signal.SIGINT, signal.SIGINT)
on_spark = pytest.mark.xdist_group("processes")


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """A KeyboardInterrupt strikes after a while, if the block is still running."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Folders of earlier tests may be collected, and struck, meanwhile.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", range(4))
def test_after_an_interrupted_push_every_row_is_there_once(seed: int) -> None:
    chance = random.Random(seed)
    pushed = struck = 0
    with connected(Cluster(), batch_rows=7, rows_per_trigger=chance.choice((10, 100))) as engine:
        engine.sql("CREATE STREAM R (x INT)")
        query = engine.install("SELECT x FROM R [NOW]")
        while pushed < 1_000:
            part = [{"x": x} for x in range(pushed, pushed + chance.randint(1, 100))]
            try:
                with interrupted_after(10 ** chance.uniform(-5, -2)):
                    engine.push("R", part)
                pushed += len(part)
            except KeyboardInterrupt:
                struck += 1
                # Nothing of it has happened, or the next call does the rest.
                assert engine.position in (pushed + 2, pushed + 2 + len(part))
                pushed = engine.position - 2
        engine.feed([])
        finish(engine)
        assert query.rows()["x"].to_pylist() == list(range(pushed))
        assert engine.position == pushed + 2
    assert struck


def test_work_is_done_whole_and_the_interrupt_comes_after_it() -> None:
    done: list[int] = []

    def work() -> None:
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            pass
        done.append(1)

    with pytest.raises(KeyboardInterrupt), interrupted_after(0.01):
        done_whole(work)
    assert done == [1]


def test_the_result_of_abandoned_work_is_undone() -> None:
    undone: list[str] = []

    def work() -> str:
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            pass
        return "made"

    with pytest.raises(KeyboardInterrupt), interrupted_after(0.01):
        awaited(work, undone.append)
    assert undone == []
    settle()
    assert undone == ["made"]


def interrupt(place: Place, case: Case, pattern: str) -> None:
    """Start a command, and interrupt it once there is a file of that name."""
    process, mark = place.start(case.command)
    while not list(place.folder.glob(pattern)):
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
            break
    for one in case.signals:
        send(process.pid, one, case.group)
    said = place.ended(process, mark)
    assert (said.code, wrong(place, case, said)) == (128 + case.signals[0], [])


@on_spark
def test_a_run_is_interrupted_while_spark_starts_and_while_it_writes(tmp_path: Path) -> None:
    place = Place(tmp_path)
    interrupt(place, Case("run", 0, TWICE, 0, group=True), "tmp/penstock-spark-*")
    interrupt(place, Case("run", 0, (signal.SIGTERM,), 0, group=False), "tmp/penstock-*/results/*")


@on_spark
def test_a_run_that_was_interrupted_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    place = Place(tmp_path)
    local, mark = place.start("local")
    assert place.ended(local, mark).code == 0
    interrupt(place, Case("checkpoint", 0, TWICE, 0, group=True), "checkpoint/results/*")
    assert place.checkpoint.is_dir()
    process, mark = place.start("checkpoint")
    assert place.ended(process, mark).code == 0
    found = (tmp_path / "out.jsonl").read_text()
    assert found == (place.written / "local.jsonl").read_text()


PROGRAM = """
import os, signal, sys, threading, time
import penstock as ps

def interrupt(ready):
    def wait():
        while not ready():
            time.sleep(0.001)
        os.killpg(0, signal.SIGINT)  # as a terminal does
    threading.Thread(target=wait, daemon=True).start()

inside = threading.Event()

def caught(work):
    try:
        inside.set()
        work()
    except KeyboardInterrupt:
        print("interrupted", flush=True)

folder = os.environ["TMPDIR"]
interrupt(lambda: any(name.startswith("penstock-spark-") for name in os.listdir(folder)))
caught(ps.connect)
with ps.connect("spark") as engine:
    engine.sql("CREATE STREAM R (x INT)")
    query = engine.install("SELECT x FROM R [NOW]")
    engine.push("R", [{"x": 1}])
    inside.clear()
    interrupt(inside.is_set)
    caught(lambda: engine.wait_for(10**9, 60))
    engine.wait()
    engine.push("R", [{"x": 2}])
    engine.wait()
    print(query.rows().to_pylist(), flush=True)
    interrupt(lambda: engine._closed)
    caught(engine.close)
print(len(os.listdir(folder)), flush=True)
"""


@on_spark
def test_a_program_goes_on_after_interrupts_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    environment: dict[str, Any] = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    environment[CASE] = str(tmp_path)
    environment.pop("SPARK_LOCAL_DIRS", None)
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, start_new_session=True,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        left = processes(str(tmp_path))
    finally:
        kill_case(str(tmp_path))
    assert (done.stdout.splitlines()[:4], done.stderr) == (
        ["interrupted", "interrupted", "[{'x': 1}, {'x': 2}]", "interrupted"],
        "",
    )
    assert (left, os.listdir(tmp_path / "tmp")) == ([], [])
