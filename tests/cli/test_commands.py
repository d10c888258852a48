"""The command line: its output, its files, its errors."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.spark.in_process import Cluster, standing_in

import penstock as ps
from penstock import __version__
from penstock.cli.commands import main
from penstock.program.isa.flow import EXACT_FLOWS

EXAMPLES = Path(__file__).parents[2] / "examples"
JOIN = "SELECT r.id AS r, s.id AS s FROM R [ROWS 2] AS r JOIN S [ROWS 2] AS s ON r.name = s.name;"
LEFT_SCRIPT = """\
stream R (x int32)
stream S (x int32)
install q: SELECT r.x FROM R [ROWS 2] r LEFT JOIN S [ROWS 2] s ON r.x = s.x
"""


class Cli:
    """Runs a command in this process and in a folder of its own.

    On the embedded engine if it does not say; Spark has tests of its own.
    """

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        words = [str(argument) for argument in arguments]
        if words[0] in ("run", "replay", "explain") and "--engine" not in words:
            words += ["--engine", "local"]
        with pytest.raises(SystemExit) as caught:
            main(words)
        printed = self.capsys.readouterr()
        return int(caught.value.code or 0), printed.out, printed.err

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path, capsys)


@pytest.fixture
def files(cli: Cli) -> list[object]:
    """A query and its streams, as arguments."""
    pq.write_table(
        pa.table({"ts": [1, 3, 5], "id": [1, 2, 3], "name": ["ö", "b", "c"]}),
        cli.folder / "r.parquet",
    )
    cli.write("s.csv", "ts,id,name\n2,10,ö\n4,20,c\n,30,b\n6,40,c,x\n7,50,c\n")
    query = cli.write("q.sql", JOIN)
    return [
        "run", query, "--stream", f"R={cli.folder}/r.parquet", "--stream", f"s={cli.folder}/s.csv",
        "--order-by", "ts",
    ]  # fmt: skip


def test_version_is_quick(cli: Cli) -> None:
    assert cli("--version") == (0, f"penstock {__version__}\n", "")
    # Processor time, and the least of three, so that a busy machine does not decide.
    command = [sys.executable, "-m", "penstock", "--version"]
    seconds = []
    for _ in range(3):
        started = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(ended.ru_utime + ended.ru_stime - started.ru_utime - started.ru_stime)
    assert min(seconds) < 0.5


def test_nothing_heavy_is_imported_at_the_start() -> None:
    code = (
        "import sys, penstock.cli.commands\n"
        "heavy = ('numba', 'pyarrow', 'sqlglot', 'numpy', 'pyspark')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_run_prints_aligned_text_in_a_pipe(cli: Cli, files: list[object]) -> None:
    code, out, err = cli(*files)
    assert code == 0
    assert out == "r   s\n1  10\n3  20\n3  50\n"
    counts, *letters = err.splitlines()
    assert counts.startswith("6 tuples in, 3 rows out, 0 late, 2 dead letters, ")
    assert counts.endswith(" tuples/s")
    assert letters == [
        "dead s: NULL, 30, 'b' (NULL in order column ts (s.csv, row 3))",
        "dead s: '6,40,c,x' (the record has 4 fields, not 3 (s.csv, row 4))",
    ]


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.jsonl"])
def test_run_writes_files_and_a_summary(cli: Cli, files: list[object], name: str) -> None:
    out, summary = cli.folder / name, cli.folder / "s.json"
    code, printed, _ = cli(*files, "--out", out, "--summary", summary, "--order", "outer")
    assert (code, printed) == (0, "")
    assert out.exists()
    if name == "out.parquet":
        assert pq.read_table(out).to_pydict() == {"r": [1, 3, 3], "s": [10, 20, 50]}
    counts = json.loads(summary.read_text())
    assert list(counts) == [
        "engine", "kernel", "flow", "design", "cores", "tuples_in", "rows_out", "late",
        "dead_letters", "shed", "expression_failures", "seconds", "tuples_per_second",
    ]  # fmt: skip
    assert counts["seconds"] > 0
    assert counts["tuples_per_second"] == pytest.approx(6 / counts["seconds"])
    del counts["seconds"], counts["tuples_per_second"]
    assert counts == {
        "engine": "local", "kernel": "hash", "flow": "three-step", "design": None,
        "cores": [{"core": 0, "stored": [3, 3], "probed": [3, 3], "matched": 3}], "tuples_in": 6,
        "rows_out": 3, "late": 0, "dead_letters": 2, "shed": 0,
        "expression_failures": 0,
    }  # fmt: skip


def test_declared_types_and_derived_streams_are_used(cli: Cli) -> None:
    data = cli.write("r.jsonl", '{"id": 1, "x": 1}\n{"id": 2, "x": 200}\n{"id": 3, "x": 7}\n')
    query = cli.write(
        "q.sql",
        "CREATE STREAM R (id int64, x int8);\n"
        "CREATE STREAM big AS SELECT id, x FROM R WHERE x > 1;\n"
        "SELECT id FROM R; SELECT id, x FROM big",
    )
    code, out, err = cli("run", query, "--stream", f"R={data}")
    assert (code, out) == (0, "id  x\n 3  7\n")
    assert "dead big: R: 2, 200 (column x: 200 does not fit int8 (r.jsonl, line 2))" in err


def test_more_rows_than_the_buffer_holds(cli: Cli) -> None:
    count = 2000
    for name in ("r", "s"):
        pq.write_table(pa.table({"id": range(count)}), cli.folder / f"{name}.parquet")
    query = cli.write("q.sql", "SELECT r.id AS r, s.id AS s FROM R AS r JOIN S AS s ON r.id >= 0")
    out = cli.folder / "out.parquet"
    code, _, err = cli("run", query, "--stream", f"R={cli.folder}/r.parquet",
                       "--stream", f"S={cli.folder}/s.parquet", "--out", out)  # fmt: skip
    assert code == 0
    assert err.startswith("4,000 tuples in, 4,000,000 rows out, ")
    assert pq.read_metadata(out).num_rows == count * count


def test_the_examples_work(cli: Cli) -> None:
    code, out, err = cli(
        "run", EXAMPLES / "trades.sql", "--stream", f"trades={EXAMPLES}/trades.csv",
        "--stream", f"quotes={EXAMPLES}/quotes.csv", "--order-by", "ts",
    )  # fmt: skip
    assert code == 0
    assert out == (
        "ts                   symbol  price    bid    ask\n"
        "2024-03-01 09:00:01  ACME    10.00   9.90  10.10\n"
        "2024-03-01 09:00:04  BOLT    55.10  55.00  55.30\n"
        "2024-03-01 09:00:07  ACME    10.40  10.30  10.60\n"
        "2024-03-01 09:00:15  BOLT    54.90  54.70  55.00\n"
        "2024-03-01 09:00:31  ACME     9.80   9.70   9.90\n"
    )
    assert err.startswith("11 tuples in, 5 rows out, 0 late, 0 dead letters, ")
    assert cli("replay", EXAMPLES / "pairs.flow") == (0, "pairs: 1, 7\npairs: 1, 8\n", "")


def test_explain_shows_plan_program_and_kernel(cli: Cli, files: list[object]) -> None:
    code, out, err = cli("explain", *files[1:])
    assert (code, err) == (0, "")
    for part in ("plan\n", "program\n", "kernel hash: "):
        assert part in out


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_explain_as_json_has_a_program_that_can_be_installed(cli: Cli, engine: str) -> None:
    streams = "CREATE STREAM R (id INT, x INT); CREATE STREAM S (id INT, a INT)"
    query = cli.write(
        "q.sql",
        f"{streams}; SELECT r.id AS r, s.id AS s FROM R [ROWS 5] r JOIN S [ROWS 5] s ON r.x = s.a",
    )
    code, out, err = cli("explain", query, "--format", "json", "--engine", engine)
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert list(said) == ["digest", "flow", "kernels", "plan", "program", "query"]
    program = ps.Program.from_json(json.dumps(said["program"]))
    assert program.digest == said["digest"]
    assert program.text.strip() == said["query"].strip()
    assert said["plan"][0] == "project r.id AS r, s.id AS s"
    [kernel] = said["kernels"]
    assert (kernel["kernel"], kernel["reason"]) == ("hash", "equality on (r.x = s.a)")
    flow = {"local": "three-step", "spark": "splitjoin"}
    chosen = said["flow"]
    assert (chosen["name"], chosen["design"], chosen["stash"]) == (flow[engine], None, None)
    assert chosen["reasons"]
    assert not any("\n" in reason for reason in chosen["reasons"])
    with ps.connect("local", compile_predicates=False) as target:
        target.sql(streams)
        installed = target.install(program)
        target.push("R", [{"id": 1, "x": 5}])
        target.push("S", [{"id": 7, "a": 5}])
        assert installed.rows().to_pylist() == [{"r": 1, "s": 7}]


def test_explain_needs_no_files_for_declared_streams(cli: Cli) -> None:
    query = cli.write("q.sql", "CREATE STREAM R (x int32); SELECT x FROM R WHERE x > 1")
    code, out, _ = cli("explain", query)
    assert code == 0
    assert "scan R" in out


def test_replay_prints_rows_and_fails_with_a_diff(cli: Cli) -> None:
    script = cli.write(
        "q.flow", "stream R (x string)\ninstall q: SELECT x FROM R\nR: 'ä'\nexpect q: 'a'\nend\n"
    )
    for batch in (1, 2, 100):
        assert cli("replay", script, "--batch", batch) == (
            1,
            "q: 'ä'\n",
            f"{script}, line 4: expect q is not met\n"
            "--- expected\n+++ came\n@@ -1 +1 @@\n-'a'\n+'ä'\n",
        )


def test_output_that_the_terminal_cannot_show_does_not_fail(cli: Cli) -> None:
    script = cli.write("q.flow", "stream R (x string)\ninstall q: SELECT x FROM R\nR: 'ä'\n")
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "replay", str(script), "--engine", "local"],
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "q: '\\xe4'\n"


def test_bad_input_is_one_message_and_exit_code_2(cli: Cli, files: list[object]) -> None:
    folder = cli.folder
    query, r, s = files[1], files[3], files[5]
    unsorted = cli.write("u.csv", "ts,id,name\n2,1,a\n1,2,b\n")
    second = cli.write("second.sql", "CREATE STREAM b AS SELECT id FROM R;\n\nSELECT no FROM b;")
    create = cli.write("create.sql", "CREATE STREAM R (x int32)")
    explained = cli.write("explained.sql", "EXPLAIN SELECT id FROM R")
    by_text = cli.write(
        "by.sql", "CREATE STREAM R (name string) TIMESTAMP BY name; SELECT 1 FROM R"
    )
    any_pair = cli.write("any.sql", "SELECT id FROM R [ROWS 2] JOIN S [ROWS 2] ON TRUE")
    other = cli.write("other.csv", "id,name\nx,b\n")  # its id cannot be compared with R's
    apart = cli.write("apart.csv", "a\n1\n")
    sums = cli.write("sums.sql", "SELECT SUM(id) AS s FROM R [ROWS 2 SLIDE 2]")
    no_join = "the flow splitjoin is asked for, and the query has no join that cores could share"
    on_threads = (
        "Leave the flow out; cores=2 (--cores 2) alone lets two threads divide the batches of an "
        "aggregate."
    )
    on_tasks = (
        "Leave the flow out; the cores of the engine, ps.connect('spark', cores=2) (--cores 2), "
        "share the groups of an aggregate by themselves."
    )
    cases: list[tuple[list[object], str]] = [
        (["run", folder / "no.sql"],
         f"{folder}/no.sql cannot be read: No such file or directory\nCheck the path."),
        (["run", query, "--stream", "R"],
         "--stream R names no stream and file\nWrite --stream R=r.parquet."),
        (["run", query, "--stream", r, "--stream", r],
         "--stream R is given twice\nGive each stream once; several files of it go into one "
         "directory."),
        (["run", query, "--stream", f"R={folder}/no.csv"],
         f"there is no file {folder}/no.csv\nCheck the path. Penstock reads .parquet, .csv and "
         ".jsonl files, and directories of them."),
        (["run", query, "--stream", r],
         f"unknown stream 'S' at line 1, column {JOIN.index('S [') + 1}\n  {JOIN}\n"
         f"  {' ' * JOIN.index('S [')}^\nPass its file: --stream S=path."),
        (["run", query, "--stream", r, "--stream", s],
         "the windows of the query need an arrival order of R and s, and none is given\n"
         "Pass the column that they are sorted by, one of ts, id, name: --order-by COLUMN."),
        (["run", query, "--stream", r, "--stream", f"S={other}"],
         "the windows of the query need an arrival order of R and S, and none is given\n"
         "Pass the column that they are sorted by: --order-by name."),
        (["run", any_pair, "--stream", r, "--stream", f"S={apart}"],
         "the windows of the query need an arrival order of R and S, and none is given\n"
         "Give them a column in common that they are sorted by, and pass it: --order-by COLUMN."),
        (["run", query, "--stream", r, "--stream", s, "--order-by", "time"],
         "stream R has no column 'time' to order by\n"
         "Order by a column that all streams have; R has ts, id, name."),
        (["run", query, "--stream", r, "--stream", f"S={unsorted}", "--order-by", "ts"],
         f"{unsorted} is not sorted by ts: row 2 has 1 after 2\n"
         "Sort it by ts. Or, if its tuples arrived in this order, merge by a column that tells "
         "when, and write ts as WATTR with SLACK: that is for times that go back as tuples "
         "arrive."),
        (["run", second, "--stream", r],
         "unknown column 'no' of b at line 3, column 8\n  SELECT no FROM b;\n         ^^\n"
         "The columns are id."),
        (["run", create, "--stream", r],
         "the text has no SELECT\nWrite the query whose rows are the result."),
        ([*files, "--summary", folder / "no" / "s.json"],
         f"{folder}/no/s.json cannot be written: there is no directory {folder}/no\n"
         "Name a file in a directory that exists."),
        ([*files, "--engine", "steam"],
         "unknown engine 'steam'\nWrite --engine spark or --engine local."),
        (["replay", query, "--engine", "steam"],
         "unknown engine 'steam'\nWrite --engine spark or --engine local."),
        ([*files, "--engine", "local", "--rows-per-trigger", "2"],
         "--rows-per-trigger is an option of --engine spark\n"
         "Leave out --rows-per-trigger or --engine local."),
        ([*files, "--flow", "tree"],
         "unknown flow 'tree'\nWrite one of: three-step, shared, splitjoin, celljoin, handshake, "
         "low-latency-handshake."),
        ([*files, "--cores", "0"],
         "0 cores cannot share a query\nWrite a number from 1 to 1024."),
        ([*files, "--engine", "spark", "--cores", "0"],
         "0 cores cannot share a query\nWrite a number from 1 to 1024."),
        ([*files, "--branching", "1"],
         "a distribution tree with branching 1 does not branch\n"
         "Write 2 or more, or leave it out: 8."),
        ([*files, "--precision", "2"],
         "a precision of 2 without an order\n"
         "Ask for the order outer or inner too, or leave the precision out."),
        ([*files, "--admission", "drop"], "unknown admission 'drop'\nWrite wait or shed."),
        ([*files, "--flow", "handshake", "--order", "outer"],
         "the flow handshake does not offer the order outer: its rows come when two tuples meet\n"
         "Ask for the order none, or for the flow splitjoin."),
        ([*files, "--engine", "spark", "--flow", "handshake"],
         "the flow handshake cannot run on Spark: its cores send each other messages, and tasks of "
         "a Spark stage cannot\nLeave the flow out: it is splitjoin for joins of two streams; or "
         "run it on the embedded engine: "
         "ps.connect('local') (--engine local)."),
        (["explain", *files[1:], "--engine", "spark", "--branching", "2"],
         "a branching of 2 cannot be had on Spark: Spark itself distributes the tuples, not a tree "
         "of Penstock's\nLeave the branching out, or run it on the embedded engine: "
         "ps.connect('local') (--engine local)."),
        (["replay", cli.write("left.flow", LEFT_SCRIPT), "--engine", "local", "--flow", "celljoin"],
         "line 3: the flow celljoin does not offer left joins: no core of it knows whether a "
         "tuple has found a partner in another\n  install q: SELECT r.x FROM R [ROWS 2] r LEFT "
         "JOIN S [ROWS 2] s ON r.x = s.x\nAsk for one of the flows three-step and splitjoin."),
        (["run", sums, "--stream", r, "--kernel", "hash"],
         "the kernel 'hash' is for joins, and the query has none\n"
         "Leave the kernel out, or write one for aggregates: panes, wid."),
        (["run", sums, "--stream", r, "--flow", "splitjoin"], f"{no_join}\n{on_threads}"),
        (["explain", sums, "--stream", r, "--flow", "splitjoin"], f"{no_join}\n{on_threads}"),
        (["run", sums, "--stream", r, "--engine", "spark", "--flow", "splitjoin"],
         f"{no_join}\n{on_tasks}"),
        (["explain", sums, "--stream", r, "--engine", "spark", "--flow", "splitjoin"],
         f"{no_join}\n{on_tasks}"),
        (["replay", query, "--engine", "local", "--checkpoint", folder / "c"],
         "--checkpoint is an option of --engine spark\n"
         "Leave out --checkpoint or --engine local."),
        (["run", explained, "--stream", r],
         "the text has no SELECT but one to EXPLAIN, which makes no rows\n"
         "Leave EXPLAIN out, or use penstock explain QUERY.sql to see its plan."),
        (["run", by_text, "--stream", r],
         "column name of R is string and cannot be a time attribute\n"
         "Use an integer up to int64, a float, a decimal of at most 18 digits, a date or a "
         "timestamp."),
        (["replay", cli.write("bad.flow", "R 1")],
         "line 1: neither a command nor a tuple of a stream\n  R 1\nWrite a tuple (R: 1, 2) or one "
         "of: stream, derive, install, change, drop, punctuate, end, expect."),
    ]  # fmt: skip
    for arguments, message in cases:
        assert cli(*arguments) == (2, "", f"penstock: {message}\n")
    assert not (folder / "o.csv").exists()


def test_an_error_says_that_a_type_was_inferred_from_a_file(cli: Cli) -> None:
    sql = "SELECT AVG(Price) AS p FROM Trades [RANGE 10 SLIDE 5 WATTR Time]"
    data = cli.write("bad.csv", "Price,Time\n1,0\n2,1\n3,oops\n")
    at = sql.index("Time")
    common = "Use an integer up to int64, a decimal of at most 18 digits, a date or a timestamp."
    wrong = (
        f"penstock: column Time of Trades is string and cannot be a time attribute at line 1, "
        f"column {at + 1}\n  {sql}\n  {' ' * at}^^^^\n{common}"
    )
    assert cli("run", cli.write("q.sql", sql), "--stream", f"Trades={data}") == (
        2,
        "",
        f"{wrong} The type was inferred from bad.csv, and one value unlike the others makes it "
        "another: declare the stream, CREATE STREAM Trades (Time type, ...), and such a row is a "
        "dead letter.\n",
    )
    pq.write_table(pa.table({"Price": [1], "Time": ["0"]}), cli.folder / "t.parquet")
    parquet = f"Trades={cli.folder}/t.parquet"
    assert cli("run", cli.folder / "q.sql", "--stream", parquet) == (2, "", f"{wrong}\n")
    declared = cli.write("d.sql", f"CREATE STREAM Trades (Price int, Time int);\n{sql}")
    code, out, err = cli("run", declared, "--stream", f"Trades={data}")
    assert (code, out.split()) == (0, ["p", "1.5", "1.5"])
    assert err.splitlines()[1:] == [
        "dead Trades: 3, 'oops' (column Time: 'oops' does not fit int32 (bad.csv, row 3))"
    ]


@pytest.mark.parametrize(("command", "flag"), [(["run"], "--watch"), ([], "--version")])
def test_flags_are_shown_without_a_type(cli: Cli, command: list[str], flag: str) -> None:
    code, out, _ = cli(*command, "--help")
    assert code == 0
    assert flag in out
    assert "bool" not in out.lower()


def test_an_output_must_not_be_an_input(cli: Cli, files: list[object]) -> None:
    folder, query, s = cli.folder, files[1], f"{cli.folder}/s.csv"
    (folder / "in" / "deep").mkdir(parents=True)
    (folder / "in" / "r.csv").write_text("ts,id,name\n1,1,a\n")
    (folder / "link.csv").symlink_to(s)
    streams = ["--stream", f"R={folder}/in", "--stream", f"S={s}", "--order-by", "ts"]
    replaced = "Name another file; this one would be replaced."
    beside = "Name a file elsewhere; all files in that directory are input."
    cases: list[tuple[list[object], str]] = [
        (["--out", s], f"--out {s} is a file that stream S is read from\n{replaced}"),
        (["--letters", folder / "in" / ".." / "s.csv"],
         f"--letters {folder}/in/../s.csv is a file that stream S is read from\n{replaced}"),
        (["--summary", folder / "link.csv"],
         f"--summary {folder}/link.csv is a file that stream S is read from\n{replaced}"),
        (["--out", folder / "in" / "deep" / "o.csv"],
         f"--out {folder}/in/deep/o.csv lies in {folder}/in, which stream R is read from\n"
         f"{beside}"),
        (["--summary", query], f"--summary {query} is the query itself\nName another file."),
        (["--summary", folder / "o.json", "--letters", folder / "o.json"],
         f"--summary and --letters are both {folder}/o.json\nName a file for each of them."),
    ]  # fmt: skip
    before = sorted((path, path.read_bytes()) for path in folder.rglob("*") if path.is_file())
    for options, message in cases:
        assert cli("run", query, *streams, *options) == (2, "", f"penstock: {message}\n")
    after = sorted((path, path.read_bytes()) for path in folder.rglob("*") if path.is_file())
    assert after == before


def test_json_without_records_is_a_stream_without_tuples(cli: Cli) -> None:
    empty = cli.write("r.jsonl", "")
    declared = cli.write("q.sql", "CREATE STREAM R (x int32); SELECT x FROM R")
    code, out, err = cli("run", declared, "--stream", f"R={empty}")
    assert (code, out) == (0, "x\n")
    assert err.startswith("0 tuples in, 0 rows out, 0 late, 0 dead letters, ")
    query = cli.write("q.sql", "SELECT x FROM R")
    message = (
        f"penstock: {empty} has no records that would tell the columns of stream R\n"
        "Declare the stream in the query: CREATE STREAM R (column type, ...);\n"
    )
    for text in ("", "\n \n"):
        empty.write_text(text)
        assert cli("run", query, "--stream", f"R={empty}") == (2, "", message)


def test_a_stream_that_is_not_read_is_a_warning(cli: Cli, files: list[object]) -> None:
    warning = "penstock: warning: the query does not read stream T; it reads R and s"
    code, out, err = cli(*files, "--stream", f"T={cli.folder}/s.csv")
    assert (code, out) == (0, "r   s\n1  10\n3  20\n3  50\n")
    assert err.splitlines()[0] == warning
    code, _, err = cli("explain", *files[1:], "--stream", f"T={cli.folder}/s.csv")
    assert (code, err) == (0, warning + "\n")


def test_all_letters_go_to_a_file(cli: Cli) -> None:
    data = cli.write("r.csv", "x,t\n1,9\n2,1\n" + "3,y\n" * 10)
    empty = cli.write("s.jsonl", "")
    query = cli.write(
        "q.sql",
        "CREATE STREAM R (x int64, t int64); CREATE STREAM S (x int64, t int64);"
        "SELECT R.x FROM R [RANGE 1 WATTR t] JOIN S [RANGE 1 WATTR t] ON R.t < S.t",
    )
    arguments = [
        "run", query, "--stream", f"R={data}", "--stream", f"S={empty}", "--order-by", "x",
    ]  # fmt: skip
    code, _, err = cli(*arguments)
    assert code == 0
    lines = err.splitlines()
    assert lines[0].startswith("2 tuples in, 0 rows out, 1 late, 10 dead letters, ")
    assert lines[-1] == "and 1 more; --letters FILE.jsonl writes them all"

    letters = cli.folder / "letters.jsonl"
    code, _, err = cli(*arguments, "--letters", letters)
    assert err.splitlines()[-1] == f"and 1 more; all are in {letters}"
    found = [json.loads(line) for line in letters.read_text().splitlines()]
    assert [letter["kind"] for letter in found] == ["late"] + ["dead"] * 10
    first = found[0]["position"]
    assert found[:2] == [
        {"kind": "late", "query": "result", "stream": "R", "position": first,
         "reason": "t = 1 is before the punctuation 9", "tuple": "2, 1"},
        {"kind": "dead", "query": "result", "stream": "R", "position": first + 1,
         "reason": "column t: 'y' does not fit int64 (r.csv, row 3)", "tuple": "3, 'y'"},
    ]  # fmt: skip
    assert list(found[0]) == ["kind", "query", "stream", "position", "reason", "tuple"]


def test_a_letter_of_a_derived_stream_names_it(cli: Cli) -> None:
    data = cli.write("r.csv", "x,t\n1,0\n2,9\n3,1\n")
    query = cli.write(
        "q.sql",
        "CREATE STREAM a AS SELECT t AS u, COUNT(*) AS n FROM R [RANGE 2 SLIDE 2 WATTR t] "
        "GROUP BY t;\n"
        "CREATE STREAM b AS SELECT t AS u, COUNT(*) AS n FROM R [RANGE 4 SLIDE 4 WATTR t] "
        "GROUP BY t;\n"
        "SELECT a.n FROM a [ROWS 9] JOIN b [ROWS 9] ON a.u = b.u",
    )
    letters = cli.folder / "letters.jsonl"
    code, _, err = cli("run", query, "--stream", f"R={data}", "--letters", letters)
    assert code == 0
    counts, *lines = err.splitlines()
    assert counts.startswith("3 tuples in, 2 rows out, 2 late, 0 dead letters, ")
    reason = "t = 1 is before the punctuation 9: it missed the window"
    assert lines == [
        f"late a: R: 3, 1 ({reason} [0, 2))",
        f"late b: R: 3, 1 ({reason} [0, 4))",
    ]
    found = [json.loads(line) for line in letters.read_text().splitlines()]
    assert [(letter["kind"], letter["query"], letter["stream"]) for letter in found] == [
        ("late", "a", "R"),
        ("late", "b", "R"),
    ]


def test_one_of_something_is_not_several(cli: Cli) -> None:
    data = cli.write("r.csv", "x\n1\ny\n")
    query = cli.write("q.sql", "CREATE STREAM R (x int64); SELECT x FROM R")
    _, _, err = cli("run", query, "--stream", f"R={data}")
    assert err.startswith("1 tuple in, 1 row out, 0 late, 1 dead letter, ")


def test_explain_takes_a_query_to_explain(cli: Cli) -> None:
    query = cli.write("q.sql", "CREATE STREAM R (x int32); EXPLAIN SELECT x FROM R")
    code, out, _ = cli("explain", query)
    assert code == 0
    assert "scan R" in out


def test_explain_says_the_flow_on_both_engines(cli: Cli, files: list[object]) -> None:
    asked = ["explain", *files[1:], "--order", "outer", "--precision", "4", "--cores", "2"]
    code, out, _ = cli(*asked, "--flow", "splitjoin", "--branching", "2")
    assert (code, out.splitlines()[-4:]) == (0, [
        "order outer", "flow splitjoin on 2 cores: asked for", "branching 2", "precision 4",
    ])  # fmt: skip
    code, out, _ = cli(*asked, "--engine", "spark")
    assert (code, out.splitlines()[-4:]) == (0, [
        "order outer", "flow splitjoin: the one that Spark can run", "precision 4",
        "distribution: broadcast to 2 cores, each tuple stored on one (SplitJoin)",
    ])  # fmt: skip


def test_the_parts_of_a_design_are_options(cli: Cli) -> None:
    streams = "".join(f"CREATE STREAM {name} (t BIGINT, k INT); " for name in "ABC")
    query = cli.write(
        "three.sql",
        f"{streams}SELECT a.k FROM A [ROWS 9] a JOIN B [ROWS 9] b ON a.k = b.k "
        "JOIN C [ROWS 9] c ON b.k = c.k",
    )
    asked = ("explain", query, "--engine", "local")
    for options, line in (
        (("--probe-order", "fixed"),
         "probe orders fixed: asked for; from each stream's place in FROM around"),
        (("--design", "cascade"), "design cascade on 1 core: asked for"),
        (("--design", "stashed", "--stash", "5"),
         "stash of 5 pairs of A (1) and B (2): without estimates, the pair that the closest "
         "condition links; the number is asked for"),
    ):  # fmt: skip
        code, out, _ = cli(*asked, *options)
        assert code == 0
        assert line in out.splitlines()
    for options, message in (
        (("--probe-order", "any"), "unknown probe order 'any'\nWrite measured or fixed."),
        (("--design", "stashed", "--stash", "0"),
         "a stash of 0 pairs holds nothing\nWrite 1 or more, or leave the size out."),
        (("--stash", "5"),
         "a stash of 5 pairs is asked for, which belongs to the design stashed\n"
         "Leave the stash out, or ask for the design stashed: design='stashed' (--design "
         "stashed)."),
    ):  # fmt: skip
        code, _, err = cli(*asked, *options)
        assert code == 2
        assert message in err


WIDE = "SELECT a.k FROM A [ROWS 9] a JOIN B [ROWS 9] b ON a.k = b.k JOIN C [ROWS 9] c ON b.k = c.k"


@pytest.mark.parametrize(
    ("engine", "options", "design", "stash", "cores"),
    [
        ("local", (), "mjoin", None, [0]),
        ("local", ("--cores", "2"), "shared", None, [0, 1]),
        ("local", ("--design", "stashed"), "stashed", 9, [0, 1]),
        ("local", ("--design", "stashed", "--stash", "5"), "stashed", 5, [0, 1]),
        ("spark", (), "mjoin", None, [0]),
        ("spark", ("--cores", "2"), "parallel", None, [0, 1]),
        ("spark", ("--design", "stashed"), "stashed", 9, [0, 1]),
        ("spark", ("--design", "circular", "--cores", "2"), "circular", None, [0, 1, 2]),
    ],
)
@pytest.mark.filterwarnings("ignore:query 'result' runs on one of 2 cores")
def test_explain_and_the_summary_have_the_design_of_a_wide_join(
    cli: Cli, engine: str, options: tuple[str, ...], design: str, stash: int | None, cores: Any
) -> None:
    query, summary = cli.write("wide.sql", WIDE), cli.folder / "s.json"
    data = [cli.write(f"{name}.csv", "t,k\n1,1\n2,2\n") for name in "ABC"]
    streams = [one for path in data for one in ("--stream", f"{path.stem}={path}")]
    asked = [query, *streams, "--order-by", "t", "--engine", engine, *options]
    code, out, _ = cli("explain", *asked, "--format", "json")
    said = json.loads(out)["flow"]
    assert (code, said["name"], said["design"], said["stash"]) == (0, None, design, stash)
    assert any(reason.startswith(f"design {design}") for reason in said["reasons"])
    assert not any("\n" in reason for reason in said["reasons"])
    with standing_in(Cluster(eager=True)):
        code, out, _ = cli("run", *asked, "--summary", summary)
    told = json.loads(summary.read_text())
    assert (code, out) == (0, "k\n1\n2\n")
    assert (told["flow"], told["design"]) == (None, design)
    assert [core["core"] for core in told["cores"]] == cores


def test_the_join_of_a_derived_stream_takes_no_design(cli: Cli) -> None:
    streams = "".join(f"CREATE STREAM {name} (t BIGINT, k INT);\n" for name in "ABC")
    query = cli.write(
        "derived.sql",
        f"{streams}CREATE STREAM j AS SELECT a.k FROM A [ROWS 9] a JOIN B [ROWS 9] b "
        "ON a.k = b.k JOIN C [ROWS 9] c ON b.k = c.k;\nSELECT k FROM j",
    )
    for engine in ("local", "spark"):
        assert cli("explain", query, "--engine", engine, "--design", "cascade") == (2, "", (
            "penstock: the design cascade is asked for, and the query joins fewer than three "
            "streams: the join of 3 is that of the derived stream j, which takes no options\n"
            "Leave it out: the engine chooses the design of j. Or install that join as a query of "
            "its own.\n"
        ))  # fmt: skip


def test_the_summary_of_an_aggregate_has_its_kernel_and_no_flow(cli: Cli) -> None:
    data = cli.write("r.csv", "x\n1\n2\n")
    query = cli.write("q.sql", "SELECT SUM(x) AS s FROM R [ROWS 2 SLIDE 2]")
    summary = cli.folder / "s.json"
    for options in ([], ["--cores", "2"], ["--kernel", "panes"]):
        code, out, _ = cli("run", query, "--stream", f"R={data}", "--summary", summary, *options)
        assert (code, out) == (0, "s\n3\n")
        counts = json.loads(summary.read_text())
        assert (counts["kernel"], counts["flow"], counts["cores"]) == ("panes", None, [])


def test_the_error_of_a_sum_that_does_not_fit_has_its_value(cli: Cli) -> None:
    data = cli.write("r.csv", f"x\n{2**62}\n{2**62}\n")
    query = cli.write("q.sql", "SELECT SUM(x) AS s FROM R [ROWS 2 SLIDE 2]")
    assert cli("run", query, "--stream", f"R={data}", "--out", cli.folder / "o.csv") == (
        2,
        "",
        "penstock: SUM(x) of the window [0, 2) is 9223372036854775808, which does not fit int64\n"
        "Sum a decimal: SUM(CAST(x AS decimal(38, 0))).\n",
    )
    assert not (cli.folder / "o.csv").exists()


def test_a_run_has_the_requested_flow(cli: Cli, files: list[object]) -> None:
    summary = cli.folder / "s.json"
    for flow in EXACT_FLOWS:
        cores = "1" if flow == "three-step" else "2"
        code, out, _ = cli(*files, "--flow", flow, "--cores", cores, "--summary", summary)
        counts = json.loads(summary.read_text())
        assert (code, sorted(out.splitlines()[1:])) == (0, ["1  10", "3  20", "3  50"])
        assert counts["flow"] == flow
        assert sum(core["matched"] for core in counts["cores"]) == 3


def test_a_run_can_be_watched(cli: Cli, files: list[object]) -> None:
    code, out, err = cli(*files, "--watch")
    assert (code, sorted(out.splitlines()[1:])) == (0, ["1  10", "3  20", "3  50"])
    drawn = err.splitlines()[0]
    assert ": 6 tuples in, 3 rows out; core 0: " in drawn
    assert "matches 3" in drawn
    assert cli(*files, "--watch", "--engine", "spark") == (2, "", (
        "penstock: --watch cannot see the cores on Spark: they are in processes of Spark, which "
        "tell of themselves when a micro-batch is done\nWatch it with --engine local, or leave "
        "out --watch; --summary has the figures of Spark's cores.\n"
    ))  # fmt: skip


def test_a_replay_has_the_requested_flow(cli: Cli) -> None:
    script = cli.write("left.flow", f"{LEFT_SCRIPT}R: 1\nR: 2\nR: 3\nexpect q: 1\n")
    options = ["--flow", "splitjoin", "--cores", "2", "--order", "outer", "--precision", "2"]
    assert cli("replay", script, *options) == (0, "q: 1\n", "")


def test_wrong_options_are_exit_code_2(cli: Cli) -> None:
    assert cli("run")[0] == 2
    assert cli("replay", "x.flow", "--batch", 0)[0] == 2
    assert cli("run", "x.sql", "--order", "sideways")[0] == 2


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        ("penstock re", ["replay"]),
        ("penstock run q.sql --flow s", ["shared", "splitjoin"]),
        ("penstock run q.sql --engine l", ["local"]),
        ("penstock run q.sql --order-", ["--order-by"]),
    ],
)
def test_a_shell_completes_commands_options_and_values(words: str, proposed: list[str]) -> None:
    asked = {"_PENSTOCK_COMPLETE": "complete_bash", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(len(words.split()) - 1)
    done = subprocess.run(
        [sys.executable, "-m", "penstock"],
        env={**os.environ, **asked}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (proposed, "")


def test_completion_can_be_installed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "--install-completion", "bash"],
        env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "completion" in (tmp_path / ".bashrc").read_text()
    help_text = subprocess.run(
        [sys.executable, "-m", "penstock", "--help"], capture_output=True, text=True
    ).stdout
    assert "--install-completion" in help_text
    assert "<bool>" not in help_text


def test_expressions_that_fail_are_counted(cli: Cli) -> None:
    (cli.folder / "q.sql").write_text("SELECT x / 0 AS y FROM r")
    (cli.folder / "r.csv").write_text("x\n1\n2\n")
    code, printed, err = cli("run", cli.folder / "q.sql", "--stream", f"r={cli.folder / 'r.csv'}",
                              "--engine", "local")  # fmt: skip
    assert (code, printed.split()) == (0, ["y", "NULL", "NULL"])
    assert err.startswith(
        "2 tuples in, 2 rows out, 0 late, 0 dead letters, 2 expressions failed and gave NULL, "
    )


# -- words ----------------------------------------------------------------------------------

ASSEMBLY = """\
reset block=2 query=0 result_port=final every_query=no
selection block=2 query=0 step=1 input=0 | attribute=1 value=25 | operator=gt type=int32 \
side=0 clause=0
"""
HEX = "f10001000000000000\nc10003000000000100\n410000000100000019\n424030000000000000\n"


def test_asm_and_disasm_are_inverse(cli: Cli) -> None:
    source = cli.write("q.asm", ASSEMBLY)
    assert cli("asm", source) == (0, HEX, "")
    assert cli("disasm", cli.write("q.hex", HEX)) == (0, ASSEMBLY, "")
    raw, text = cli.folder / "q.bin", cli.folder / "again.asm"
    wide = ("--bits", "b-id=9", "--bits", "query=20", "--format", "bytes")
    assert cli("asm", source, "--out", raw, *wide) == (0, "", "")
    assert len(raw.read_bytes()) == 4 * 11
    assert cli("disasm", raw, "--out", text, *wide) == (0, "", "")
    assert text.read_text() == ASSEMBLY
    code, out, err = cli("disasm", raw, *wide[:2], *wide[4:])
    assert (code, out) == (2, "")
    assert err.startswith("penstock: instruction 1 (byte 0), chunk ")


def test_words_of_a_topology_have_its_widths(cli: Cli) -> None:
    source = cli.write("q.asm", ASSEMBLY)
    _, out, _ = cli("asm", source, "--topology", "fqp:chain:40")
    assert {len(line) for line in out.splitlines()} == {2 * 10}
    words = cli.write("q.hex", out)
    assert cli("disasm", words, "--topology", "fqp:chain:40") == (0, ASSEMBLY, "")
    assert cli("asm", source, "--bits", "b-id=6") == (0, out, "")


def test_words_go_to_a_pipe_as_they_are(cli: Cli) -> None:
    source = cli.write("q.asm", ASSEMBLY)
    command = [sys.executable, "-m", "penstock", "asm", str(source), "--format", "bytes"]
    done = subprocess.run(command, check=True, capture_output=True)
    assert done.stdout == bytes.fromhex(HEX)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["asm", "q.asm", "--bits", "b-id"],
            "--bits b-id names no field and width\nWrite --bits b-id=8.\n",
        ),
        (
            ["asm", "q.asm", "--bits", "b-id=8", "--bits", "b-id=9"],
            "--bits b-id is given twice\nGive each field once.\n",
        ),
        (
            ["asm", "q.asm", "--bits", "b-id=8", "--topology", "fqp:chain:4"],
            "--topology and --bits both say how wide the fields of words are\n"
            "Give one of them; the [widths] of a topology are in its file.\n",
        ),
        (
            ["asm", "q.asm", "--out", "q.asm"],
            "--out q.asm is the input itself\nName another file.\n",
        ),
        (
            ["disasm", "none.hex"],
            "none.hex cannot be read: No such file or directory\nCheck the path.\n",
        ),
        (
            ["disasm", "q.asm"],
            "expected hexadecimal digits, found 'r' at line 1, column 1\n"
            "  reset block=2 query=0 result_port=final every_query=no\n  ^\n"
            "Write words as asm gives them, or pass --format bytes.\n",
        ),
        (
            ["disasm", "q.asm", "--format", "bytes"],
            "instruction 1 (byte 0), chunk 1, S: expected 1, the first chunk of an instruction, "
            "found 0, a further one\n"
            "Send every chunk of an instruction once, in their order, and count them in CC. "
            "If asm made them with --topology or --bits, pass the same here.\n",
        ),
        (
            ["disasm", "q.bin"],
            "q.bin is not UTF-8 text\nWrite words as asm gives them, or pass --format bytes.\n",
        ),
        (
            ["disasm", "wide.hex"],
            "instruction 1 (byte 0), chunk 2, Q: expected 1, a further chunk of the instruction, "
            "found 0, a tuple\n"
            "Send every chunk of an instruction once, in their order, and count them in CC. "
            "If asm made them with --topology or --bits, pass the same here.\n",
        ),
    ],
)
def test_errors_of_words(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    source = cli.write("q.asm", ASSEMBLY)
    cli("asm", source, "--format", "bytes", "--out", cli.folder / "q.bin")
    cli("asm", source, "--topology", "fqp:chain:20", "--out", cli.folder / "wide.hex")
    monkeypatch.chdir(cli.folder)
    assert cli(*arguments) == (2, "", f"penstock: {message}")
