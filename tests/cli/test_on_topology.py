"""Queries on a topology from the command line: assign, and run, replay and explain with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_commands import Cli
from tests.engines.spark.in_process import Cluster, standing_in
from tests.processor.test_query_assigner import spied_words

from penstock import Topology
from penstock.cli.assign import assigned
from penstock.engines.local.engine import Engine

STREAMS = """\
CREATE STREAM Customer (ID INT, Age INT, Product INT);
CREATE STREAM Product (Product INT, Price INT);
"""
ADULTS = "CREATE STREAM Adults AS SELECT ID, Product FROM Customer WHERE Age > 25;\n"
BOUGHT = """\
SELECT c.ID, p.Price FROM Adults [ROWS 7] AS c JOIN Product [ROWS 4] AS p ON c.Product = p.Product;
"""
CHAIN = "fqp:chain:4:3"


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path, capsys)


def refused(cli: Cli, *arguments: object) -> str:
    """The message of a command that is refused."""
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    return err.removeprefix("penstock: ").removesuffix("\n")


# -- assign ---------------------------------------------------------------------------------------


def test_text_is_a_table_and_what_disasm_prints(cli: Cli) -> None:
    query = cli.write("young.sql", f"{STREAMS}SELECT ID FROM Customer WHERE Age < 25;")
    code, out, err = cli("assign", query, "--topology", "fqp:chain:2:512")
    assert (code, err) == (0, "")
    assert out == (
        "; fqp:chain:2:512: 1 query on 1 block, 1 free\n"
        "; streams: 0 Customer\n"
        "; block  window  query  name   what the block does\n"
        ";     1     512      0  young  select (1 comparison) and project (1 column)\n"
        "\n"
        "reset block=1 query=0 result_port=final every_query=no\n"
        "ports block=1 query=0 | stream=0 port=r role=reads\n"
        "selection block=1 query=0 step=1 input=0 | attribute=1 value=25 | operator=lt type=int32 "
        "side=0 clause=0\n"
        "+ selection.columns | attribute=0\n"
        "projection block=1 query=0 step=2 input=1 | attribute=0 type=int32 side=0\n"
        '+ projection.names ["ID"]\n'
    )


def test_the_words_are_read_by_disasm_and_the_text_by_asm(cli: Cli) -> None:
    query = cli.write("bought.sql", STREAMS + ADULTS + BOUGHT)
    words, text = cli.folder / "words.hex", cli.folder / "words.txt"
    on = ("--topology", CHAIN)
    assert cli("assign", query, *on, "--format", "hex", "--out", words) == (0, "", "")
    assert cli("assign", query, *on, "--out", text) == (0, "", "")
    shown = text.read_text(encoding="utf-8")
    assert cli("disasm", words, *on) == (0, shown.partition("\n\n")[2], "")
    assert cli("asm", text, *on) == (0, words.read_text(encoding="utf-8"), "")
    assert shown.splitlines()[:7] == [
        f"; {CHAIN}: 2 queries on 4 blocks, none free",
        "; streams: 0 Adults, 1 Customer and 2 Product",
        "; block  window  query  name    what the block does",
        ";     1       3      0  Adults  select (1 comparison) and project (2 columns); rows go on",
        ";     2       3      1  bought  join, windows of 7, part 1 of 3",
        ";     3       3      1  bought  join, windows of 7, part 2 of 3",
        ";     4       3      1  bought  join, windows of 7, part 3 of 3",
    ]


def test_json(cli: Cli) -> None:
    query = cli.write("bought.sql", STREAMS + ADULTS + BOUGHT)
    code, out, _ = cli("assign", query, "--topology", "fqp:chain:6:3", "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert found["topology"] == "fqp:chain:6:3"
    assert found["streams"] == ["Adults", "Customer", "Product"]
    assert found["free"] == [5, 6]
    assert found["queries"] == [
        {
            "number": 0,
            "name": "Adults",
            "is_derived": True,
            "sql": "SELECT ID, Product FROM Customer WHERE Age > 25",
            "blocks": [1],
            "window": None,
            "selections": 1,
            "projections": 2,
            "reads": ["Customer"],
        },
        {
            "number": 1,
            "name": "bought",
            "is_derived": False,
            "sql": BOUGHT.strip().removesuffix(";"),
            "blocks": [2, 3, 4],
            "window": 7,
            "selections": 0,
            "projections": 2,
            "reads": ["Adults", "Product"],
        },
    ]
    first = found["instructions"][0]
    assert first["text"] == ["reset block=1 query=0 result_port=stream-r every_query=no"]
    code, out, _ = cli("assign", query, "--topology", "fqp:chain:6:3", "--format", "hex")
    assert out.splitlines() == [word for one in found["instructions"] for word in one["words"]]


@pytest.mark.parametrize("topology", ("fqp:chain:9:9", "fqp:partial:2x5:4", "fqp:partial:3x5:9"))
def test_the_words_are_those_that_an_engine_sends(
    topology: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{STREAMS}{ADULTS}{BOUGHT}SELECT ID FROM Customer WHERE Age < 9;{BOUGHT}"
    sent = spied_words(monkeypatch)
    with Engine(topology=topology) as engine:
        for statement in filter(str.strip, text.split(";")):
            engine.sql(statement)
        installed = b"".join(sent)
    assert assigned({Path("q.sql"): text}, {}, engine.topology).words == installed


def test_several_files_share_a_topology(cli: Cli) -> None:
    common = cli.write("streams.sql", STREAMS + ADULTS)
    cli.write("r.csv", "x,y\n1,2\n")
    first = cli.write("first.sql", f"{STREAMS}{ADULTS}SELECT ID FROM Adults; SELECT Age FROM R")
    second = cli.write("second.sql", BOUGHT)
    code, out, err = cli(
        "assign", common, first, second, "--topology", CHAIN, "--stream", f"R={cli.folder}/r.csv"
    )
    assert (code, out) == (2, "")
    assert err.startswith(f"penstock: {first}: unknown column 'Age'")
    first = cli.write("first.sql", f"{STREAMS}{ADULTS}SELECT ID FROM Adults; SELECT y FROM R")
    code, out, err = cli(
        "assign", common, first, second, "--topology", "fqp:chain:4:8", "--stream",
        f"R={cli.folder}/r.csv",
    )  # fmt: skip
    assert (code, err) == (0, "")
    named = [line.split()[4] for line in out.splitlines()[3:] if line.startswith(";")]
    assert named == ["Adults", "first-1", "first-2", "second"]


def test_misfits_are_explained(cli: Cli) -> None:
    large = "SELECT c.ID FROM Customer [ROWS 32768] c JOIN Product [ROWS 9] p ON c.ID = p.Price"
    query = cli.write("large.sql", f"{STREAMS}{large}")
    assert refused(cli, "assign", query, "--topology", "fqp:chain:1:16384") == (
        f"{query}: query 'large' needs a join block with a window of 32,768; the largest free one "
        "has 16,384, and free neighbours together have no room for 32,768; topology "
        "fqp:chain:1:16384\nDrop a query, write smaller windows, take a larger topology, or run "
        "the query on an engine without a topology."
    )
    count = cli.write("count.sql", f"{STREAMS}SELECT COUNT(*) FROM Customer")
    assert refused(cli, "assign", count, "--topology", CHAIN) == (
        f"{count}: an aggregate does not fit FQP: its blocks select, project, and join two streams"
        "\nRun the query on an engine without a topology."
    )
    left = cli.write(
        "left.sql",
        f"{STREAMS}SELECT c.ID FROM Customer [ROWS 2] c LEFT JOIN Product [ROWS 2] p "
        "ON c.ID = p.Price",
    )
    assert refused(cli, "assign", left, "--topology", CHAIN) == (
        f"{left}: a LEFT JOIN does not fit FQP: its blocks select, project, and join two streams\n"
        "Run the query on an engine without a topology."
    )


def test_bad_input_of_assign(cli: Cli) -> None:
    query = cli.write("q.sql", f"{STREAMS}SELECT ID FROM Customer")
    assert refused(cli, "assign", query, "--topology", "fqp:ring:4") == (
        "there is no topology 'fqp:ring'\n"
        "Write fqp:chain:N, fqp:parallel:N or fqp:partial:AxB, or with the window of each block "
        "fqp:chain:9:512, or the path of a TOML file."
    )
    (cli.folder / "other").mkdir()
    other = cli.write("other/q.sql", "SELECT Age FROM Customer")
    assert refused(cli, "assign", query, other, "--topology", CHAIN) == (
        f"two queries have the name q: those of {query} and of {other}\n"
        "A query has the name of its file: rename one of them."
    )
    assert refused(cli, "assign", query, query, "--topology", CHAIN) == (
        f"{query} is given twice\nGive each file once."
    )
    none = cli.write("none.sql", STREAMS)
    assert refused(cli, "assign", none, "--topology", CHAIN) == (
        "there is no query to assign\n"
        "Write a SELECT, or a CREATE STREAM … AS SELECT, into one of the files."
    )
    cli.write("young.sql", f"{STREAMS}CREATE STREAM Young AS SELECT ID FROM Customer WHERE Age < 9")
    same = cli.write("same.sql", "CREATE STREAM Young AS SELECT ID FROM Customer WHERE Age < 8")
    young = cli.folder / "young.sql"
    assert refused(cli, "assign", young, same, "--topology", CHAIN) == (
        f"{same}: the stream Young is another query here than in {young}\n"
        "Give one of them another name."
    )
    types = cli.write("types.sql", "CREATE STREAM Product (Product INT, Price BIGINT)")
    assert refused(cli, "assign", query, types, "--topology", CHAIN) == (
        f"{types}: stream Product is (Product int32, Price int64) here, and "
        f"(Product int32, Price int32) in {query}\n"
        "Declare it alike, or in one of the files only."
    )
    wrong = cli.write("wrong.sql", f"{STREAMS}SELECT Name FROM Customer")
    assert refused(cli, "assign", wrong, "--topology", CHAIN) == (
        f"{wrong}: unknown column 'Name' of Customer at line 3, column 8\n"
        "  SELECT Name FROM Customer\n"
        "         ^^^^\n"
        "The columns are ID, Age, Product."
    )
    assert refused(cli, "assign", query, "--topology", CHAIN, "--out", query) == (
        f"--out {query} is the input itself\nName another file."
    )


# -- run, replay and explain ----------------------------------------------------------------------


@pytest.fixture
def files(cli: Cli) -> list[object]:
    """A query over two files, as arguments; its join spans blocks two to four."""
    query = cli.write("bought.sql", STREAMS + ADULTS + BOUGHT)
    rows = [(at, at, 20 + at, at % 3) for at in range(0, 60, 2)]
    cli.write("c.csv", "t,ID,Age,Product\n" + "".join(f"{t},{i},{a},{p}\n" for t, i, a, p in rows))
    cli.write("p.csv", "t,Product,Price\n" + "".join(f"{t},{t % 3},{t}\n" for t in range(1, 60, 2)))
    return [
        query, "--stream", f"Customer={cli.folder}/c.csv", "--stream",
        f"Product={cli.folder}/p.csv",
    ]  # fmt: skip


@pytest.fixture
def ordered(cli: Cli, files: list[object]) -> list[object]:
    """The same with an order of the streams, and declarations that have its column."""
    declared = STREAMS.replace("(", "(t INT, ")
    cli.write("bought.sql", declared + ADULTS + BOUGHT)
    return ["run", *files, "--order-by", "t"]


def sorted_lines(text: str) -> list[str]:
    return sorted(text.splitlines())


@pytest.mark.parametrize("cores", (1, 2))
@pytest.mark.parametrize("topology", (CHAIN, "fqp:partial:2x2:40"))
def test_run_on_both_engines(cli: Cli, ordered: list[object], topology: str, cores: int) -> None:
    code, expected, _ = cli(*ordered)
    assert code == 0
    assert len(expected.splitlines()) > 20
    on = ("--topology", topology)
    code, out, _ = cli(*ordered, *on)
    assert (code, sorted_lines(out)) == (0, sorted_lines(expected))
    summary = cli.folder / "s.json"
    with standing_in(Cluster(eager=True)):
        code, out, _ = cli(
            *ordered, *on, "--engine", "spark", "--cores", cores, "--summary", summary
        )
    assert (code, sorted_lines(out)) == (0, sorted_lines(expected))
    flow = "low-latency-handshake" if topology == CHAIN else "three-step"
    assert json.loads(summary.read_text())["flow"] == flow


def test_a_checkpoint_belongs_to_its_topology(cli: Cli, ordered: list[object]) -> None:
    spark = ("--engine", "spark", "--checkpoint", cli.folder / "kept")
    with standing_in(Cluster(eager=True)):
        code, first, _ = cli(*ordered, *spark, "--topology", CHAIN)
        assert code == 0
        code, again, _ = cli(*ordered, *spark, "--topology", CHAIN)
        assert (code, again) == (0, first)
    assert refused(cli, *ordered, *spark, "--topology", "fqp:chain:5:3") == (
        f"the checkpoint {cli.folder}/kept was begun with other topology\n"
        f"  topology then: {CHAIN}\n"
        "  topology now:  fqp:chain:5:3\n"
        "Run the same command over the same files again, or name another folder."
    )
    assert refused(cli, *ordered, *spark) == (
        f"the checkpoint {cli.folder}/kept was begun with other topology\n"
        f"  topology then: {CHAIN}\n"
        "  topology now:  not given\n"
        "Run the same command over the same files again, or name another folder."
    )


SCRIPT = """\
stream R (x int32)
stream S (x int32)
install q: SELECT r.x AS r, s.x AS s FROM R [ROWS 5] r JOIN S [ROWS 5] s ON r.x < s.x
R: 1
R: 2
S: 2
expect q: 1, 2
change q: SELECT r.x AS r, s.x AS s FROM R [ROWS 5] r JOIN S [ROWS 5] s ON r.x = s.x
S: 2
expect q: 2, 2
drop q
"""


@pytest.mark.parametrize("engine", ("local", "spark"))
def test_replay_on_both_engines(cli: Cli, engine: str) -> None:
    script = cli.write("s.flow", SCRIPT)
    with standing_in(Cluster(eager=True)):
        found = cli("replay", script, "--engine", engine, "--topology", "fqp:chain:3:2")
    assert found == (0, "q: 1, 2\nq: 2, 2\n", "")
    with standing_in(Cluster(eager=True)):
        code, _, err = cli("replay", script, "--engine", engine, "--topology", "fqp:chain:2:2")
    assert code == 2
    assert "query 'q' needs a join block with a window of 5; the largest free one has 2" in err


def test_explain_says_where_a_query_stands(cli: Cli, files: list[object]) -> None:
    on = ("--topology", CHAIN)
    flow = (
        "flow low-latency-handshake on 3 cores: the join spans as many blocks of the topology, "
        "which are its cores"
    )
    place = (
        f"placement: blocks 2 to 4 of topology {CHAIN}, a join with windows of 7 that spans them "
        "(low-latency handshake join)"
    )
    code, out, _ = cli("explain", *files, *on)
    assert (code, out.splitlines()[-2:]) == (0, [flow, place])
    code, out, _ = cli("explain", *files, *on, "--engine", "spark")
    assert (code, out.splitlines()[-3:]) == (0, [flow, "distribution: one core", place])
    code, out, _ = cli("explain", *files, *on, "--engine", "spark", "--cores", 2)
    assert out.splitlines()[-2] == (
        "distribution: core 0 of 2, numbered from 0; each branch of the topology is in one"
    )
    code, out, _ = cli("explain", *files, *on, "--format", "json")
    assert json.loads(out)["flow"]["reasons"] == [flow, place]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--flow", "splitjoin"), ("--cores", 2), ("--branching", 4), ("--admission", "shed"),
        ("--design", "mjoin"), ("--probe-order", "fixed"), ("--stash", 8),
    ],
)  # fmt: skip
def test_options_about_cores_are_refused(
    cli: Cli, files: list[object], option: str, value: Any
) -> None:
    for command in ("run", "explain"):
        assert refused(cli, command, *files, option, value, "--topology", CHAIN) == (
            f"{option} {value} is about the cores of a query, and on a topology its blocks do the "
            f"work\nLeave out {option}, or --topology {CHAIN}."
        )
    script = cli.write("s.flow", SCRIPT)
    assert refused(cli, "replay", script, option, value, "--topology", CHAIN).startswith(option)


def test_a_design_on_spark_is_refused_too(cli: Cli, files: list[object]) -> None:
    asked = ("--engine", "spark", "--design", "circular", "--topology", CHAIN)
    assert refused(cli, "run", *files, *asked) == (
        "--design circular is about the cores of a query, and on a topology its blocks do the work"
        f"\nLeave out --design, or --topology {CHAIN}."
    )


def test_an_order_where_a_join_would_span_blocks(cli: Cli, files: list[object]) -> None:
    message = refused(cli, "explain", *files, "--order", "outer", "--topology", CHAIN)
    assert message == (
        "query 'result' needs a join block with a window of 7; the largest free one has 3, and the "
        "join of a query with EMIT ORDER does not span several (to the right of the block that "
        f"makes Adults); topology {CHAIN}\nDrop a query, write smaller windows, take a larger "
        "topology, or run the query on an engine without a topology."
    )


def test_a_file_as_topology(cli: Cli, files: list[object]) -> None:
    path = cli.folder / "mine.toml"
    path.write_text(Topology.from_toml(_toml()).to_toml(), encoding="utf-8")
    code, out, _ = cli("explain", *files, "--topology", path)
    assert (code, out.splitlines()[-1].partition(",")[0]) == (
        0,
        "placement: blocks 2 to 4 of topology mine",
    )


def _toml() -> str:
    from penstock import topology

    return topology(CHAIN).to_toml().replace(CHAIN, "mine")
