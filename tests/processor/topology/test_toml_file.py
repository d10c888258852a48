"""Topologies as TOML: round trips, and what is said of texts that describe none."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples
from tests.processor.topology.random_topologies import topologies

from penstock.errors import TopologyError
from penstock.processor.topology.presets import topology_of
from penstock.processor.topology.toml_file import LONGEST_TEXT
from penstock.processor.topology.topology import Topology

CHAIN = """\
name = "fqp:chain:2:512"

[widths]
port = 64
inst = 2
b-id = 4
query = 16
stream = 16
cc = 16
attribute = 32
value = 32
condition = 32
policies = 4
form = 4
more = 8
step = 8

[[unit]]
kind = "op-block"
name = "block-1"
number = 1
window = 512

[[unit]]
kind = "op-block"
name = "block-2"
number = 2
window = 512

[[unit]]
kind = "buffer-node"
name = "node-1"

[wiring]
entries = [
    "block-1.r",
    "block-2.s",
]
ends = [
    "block-2.r-out",
    "block-1.s-out",
]
exit = "node-1.out"
wires = [
    "block-1.r-out -> block-2.r",
    "block-2.s-out -> block-1.s",
    "block-1.final -> node-1.left",
    "block-2.final -> node-1.right",
]
"""

DAMAGES = [
    # A piece of CHAIN, what stands there instead, what is wrong, and the remedy.
    (
        'name = "fqp:chain:2:512"\n',
        "",
        "there is no name",
        'Write name = "two-branches" at the top of the file.',
    ),
    (
        '"fqp:chain:2:512"',
        "3",
        "line 1: name is 3",
        'Write name = "two-branches" at the top of the file.',
    ),
    (
        '"fqp:chain:2:512"',
        '" "',
        "it has no name",
        "Give it a name of up to 200 characters.",
    ),
    (
        'name = "fqp',
        'nmae = "fqp',
        "line 1: a topology has no 'nmae'",
        "Write name.",
    ),
    (
        "port = 64",
        "prot = 64",
        "line 4: [widths] has no 'prot'",
        "Write port.",
    ),
    (
        "port = 64",
        "port = 65",
        "line 3: the width of port is 65 bits",
        "Write whole bytes: a multiple of 8.",
    ),
    (
        "port = 64",
        "port = 32",
        "line 3: attribute and value need 64 bits, and the port has 32",
        "Make the port at least 64 bits wide, or the fields narrower.",
    ),
    (
        "port = 64",
        "port = 0",
        "line 3: the width of port is 0",
        "Write a number of bits from 8 to 4096.",
    ),
    (
        "port = 64",
        "port = -64",
        "line 3: the width of port is -64",
        "Write a number of bits from 8 to 4096.",
    ),
    (
        "port = 64",
        "port = true",
        "line 4: the port of [widths] is True",
        "Write a whole number from 1 on.",
    ),
    (
        "port = 64",
        'port = "64"',
        "line 4: the port of [widths] is '64'",
        "Write a whole number from 1 on.",
    ),
    (
        "port = 64",
        "port = 99999999999",
        "line 3: the width of port is 99999999999",
        "Write a number of bits from 8 to 4096.",
    ),
    (
        'kind = "buffer-node"',
        'kind = "bufer-node"',
        "line 31: unit node-1 is of the kind 'bufer-node', which there is not",
        "Write buffer-node.",
    ),
    (
        'kind = "buffer-node"',
        'kind = "join"',
        "line 31: unit node-1 is of the kind 'join', which there is not",
        "Write op-block or buffer-node.",
    ),
    (
        'kind = "buffer-node"\n',
        "",
        "line 31: unit node-1 has no kind",
        'Write kind = "op-block" or kind = "buffer-node".',
    ),
    (
        'kind = "buffer-node"',
        "kind = 3",
        "line 32: the kind of unit node-1 is 3",
        'Write kind = "op-block" or kind = "buffer-node".',
    ),
    (
        'name = "node-1"\n',
        "",
        "a buffer-node has no name",
        'Write name = "node-1".',
    ),
    (
        'name = "node-1"\n',
        "name = 3\n",
        "the name of a buffer-node is 3",
        'Write name = "node-1".',
    ),
    (
        'name = "node-1"',
        'name = "node-1"\nnumber = 3',
        "line 32: the buffer-node node-1 has a number, 3",
        "Leave it out: an op-block has one.",
    ),
    (
        'name = "node-1"',
        'name = "node 1"',
        "line 32: a unit is called 'node 1'",
        "Write up to 64 letters, digits, - and _, and a letter or a digit first: block-1.",
    ),
    (
        'name = "node-1"',
        'name = "block-1"',
        "line 32: two units are called block-1",
        "Give each a name of its own.",
    ),
    (
        "number = 2",
        "number = 1",
        "line 26: block-1 and block-2 both have the number 1",
        "Give each a number of its own: instructions name a block by it.",
    ),
    (
        "number = 2",
        "number = 0",
        "line 26: the number of block-2 is 0",
        "Write the number by which instructions name it (B-ID): 1 to 65,536.",
    ),
    (
        "number = 2\n",
        "",
        "line 26: unit block-2 has no number",
        "Write number = N: the number by which instructions name it (B-ID).",
    ),
    (
        "number = 2",
        "number = -2",
        "line 26: the number of block-2 is -2",
        "Write the number by which instructions name it (B-ID): 1 to 65,536.",
    ),
    (
        "number = 2",
        "number = 70000",
        "line 26: the number of block-2 is 70000",
        "Write the number by which instructions name it (B-ID): 1 to 65,536.",
    ),
    (
        "number = 2",
        "number = 300",
        "line 26: the number 300 of block-2 does not fit the width b-id, 4 bits",
        "Make the width b-id 9, or number the blocks from 1 to 16.",
    ),
    (
        "number = 2",
        "number = 2.0",
        "line 26: the number of unit block-2 is 2.0",
        "Write a whole number from 1 on.",
    ),
    (
        "number = 2\nwindow = 512",
        "number = 2",
        "line 26: unit block-2 has no window",
        "Write window = N: how many tuples of each stream it has room for.",
    ),
    (
        "number = 2\nwindow = 512",
        "number = 2\nwindow = 0",
        "line 26: the window of block-2 is 0",
        "Write how many tuples of each stream it has room for: 1 to 1,073,741,824.",
    ),
    (
        'name = "node-1"',
        'name = "node-1"\nwindow = 0',
        "line 32: the window of unit node-1 is 0",
        "Leave it out.",
    ),
    (
        'name = "node-1"',
        'name = "node-1"\nwidth = 0',
        "line 32: the width of unit node-1 is 0",
        "Leave it out.",
    ),
    (
        "number = 2\nwindow = 512",
        "number = 2\nwindow = -1",
        "line 26: the window of block-2 is -1",
        "Write how many tuples of each stream it has room for: 1 to 1,073,741,824.",
    ),
    (
        "number = 2\nwindow = 512",
        "number = 2\nwindow = 10_000_000_000",
        "line 26: the window of block-2 is 10000000000",
        "Write how many tuples of each stream it has room for: 1 to 1,073,741,824.",
    ),
    (
        "number = 2\nwindow = 512",
        "number = 2\nwindow = 512\nwidth = 128",
        "line 46: wire block-1.r-out -> block-2.r: block-1.r-out is 64 bits wide, and "
        "block-2.r 128 (the first of 5 problems)",
        "Give block-1 and block-2 the same width.",
    ),
    (
        "number = 2\nwindow = 512",
        "number = 2\nwindow = 512\nwidth = -1",
        "line 26: the width of block-2 is -1",
        "Write the bits of its ports, 1 to 4,096, or leave it out.",
    ),
    (
        "number = 2\nwindow = 512",
        "number = 2\nwindow = 512\nwdth = 1",
        "line 29: unit block-2 has no 'wdth'",
        "Write width.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"block-1.r-out > block-2.r"',
        "line 45: 'block-1.r-out > block-2.r' is no wire",
        "Write the output, an arrow and the input: block-1.r-out -> block-2.r.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"block-1 -> block-2.r"',
        "line 45: 'block-1 -> block-2.r' is no wire",
        "Write the output, an arrow and the input: block-1.r-out -> block-2.r.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        "3",
        "line 44: wires is no array of strings",
        'Write wires = ["block-1.r-out -> block-2.r"].',
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"block-3.r-out -> block-2.r"',
        "line 45: wire block-3.r-out -> block-2.r: there is no unit block-3",
        "Write one of its units: block-1, block-2 or node-1.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"blok-1.r-out -> block-2.r"',
        "line 45: wire blok-1.r-out -> block-2.r: there is no unit blok-1",
        "Write block-1.r-out.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"block-1.out -> block-2.r"',
        "line 45: wire block-1.out -> block-2.r: block-1, an op-block, has no port out",
        "Write block-1.r-out, block-1.s-out or block-1.final.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"block-1.r -> block-2.r"',
        "line 45: wire block-1.r -> block-2.r: block-1.r is an input (the first of 2 problems)",
        "Write an output: block-1.r-out, block-1.s-out or block-1.final.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"block-1.r-out -> block-2.s-out"',
        "line 45: wire block-1.r-out -> block-2.s-out: block-2.s-out is an output (the "
        "first of 2 problems)",
        "Write an input: block-2.r or block-2.s.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"block-1.r-out -> block-2.s"',
        "line 45: wire block-1.r-out -> block-2.s: block-1.r-out carries stream R, and "
        "block-2.s takes stream S with the instructions (the first of 2 problems)",
        "Write block-1.r-out -> block-2.r.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"block-1.r-out -> node-1.left"',
        "line 45: wire block-1.r-out -> node-1.left: block-1.r-out carries stream R, and "
        "node-1.left takes results (the first of 2 problems)",
        "Wire block-1.r-out to a port that takes stream R.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"block-1.r-out -> node-1.out"',
        "line 45: wire block-1.r-out -> node-1.out: node-1.out is an output (the first of "
        "2 problems)",
        "Write an input: node-1.left or node-1.right.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"block-1.r-out -> node-1.in"',
        "line 45: wire block-1.r-out -> node-1.in: node-1, a buffer-node, has no port in",
        "Write node-1.left or node-1.right.",
    ),
    (
        '"block-1.r-out -> block-2.r"',
        '"block-1.r-out -> block-2.r","block-1.r-out -> block-2.r"',
        "line 45: block-1.r-out is used twice: wire block-1.r-out -> block-2.r and wire "
        "block-1.r-out -> block-2.r (the first of 2 problems)",
        "Keep one of them: an output has one wire, or is an end or the exit.",
    ),
    (
        '    "block-1.r-out -> block-2.r",\n',
        "",
        "line 20: block-1.r-out leads nowhere (the first of 2 problems)",
        "Wire block-1.r-out to the next unit, or make it an end.",
    ),
    (
        '    "block-2.s",\n',
        "",
        "line 26: nothing leads to block-2.s",
        "Wire the output that gives it stream S with the instructions to it, or make it an entry.",
    ),
    (
        '    "block-2.r-out",\n',
        "",
        "line 26: block-2.r-out leads nowhere",
        "Wire block-2.r-out to the next unit, or make it an end.",
    ),
    (
        '    "block-2.s",\n',
        '    "block-2.r",\n',
        "line 37: block-2.r is used twice: wire block-1.r-out -> block-2.r and entry block-2.r",
        "Keep one of them: an input has one wire, or is an entry.",
    ),
    (
        '    "block-2.s",\n',
        '    "block-2.r-out",\n',
        "line 37: entry block-2.r-out: block-2.r-out is an output (the first of 2 problems)",
        "Write an input: block-2.r or block-2.s.",
    ),
    (
        '    "block-2.s",\n',
        '    "block-2.s",\n    "node-1.left",\n',
        "line 38: entry node-1.left: node-1.left carries results (the first of 2 problems)",
        "Streams enter and end here: name a port that carries stream R or S.",
    ),
    (
        '    "block-2.r-out",\n',
        '    "block-2.final",\n',
        "line 40: end block-2.final: block-2.final carries results (the first of 2 problems)",
        "Streams enter and end here: name a port that carries stream R or S.",
    ),
    (
        'exit = "node-1.out"',
        'exit = "block-1.final"',
        "line 43: block-1.final is used twice: wire block-1.final -> node-1.left and exit "
        "block-1.final",
        "Keep one of them: an output has one wire, or is an end or the exit.",
    ),
    (
        'exit = "node-1.out"',
        'exit = "block-2.r-out"',
        "line 43: exit block-2.r-out: block-2.r-out carries stream R (the first of 2 problems)",
        "Results leave by the exit: name the output of the last buffer-node, or the final "
        "port of the only block.",
    ),
    (
        'exit = "node-1.out"',
        'exit = "block"',
        "line 43: 'block' is no port",
        "Write the unit, a dot and its port: block-1.r.",
    ),
    (
        'exit = "node-1.out"\n',
        "",
        "there is no exit",
        'Write exit = "node-1.out" below [wiring].',
    ),
    (
        'exit = "node-1.out"\n',
        "exit = 3\n",
        "line 43: exit is 3",
        'Write exit = "node-1.out" below [wiring].',
    ),
    (
        '    "block-2.final -> node-1.right",\n',
        "",
        "line 26: block-2.final leads nowhere: results of block-2 have no way to the exit "
        "(the first of 2 problems)",
        "Wire block-2.final to an input of a buffer-node, or make it the exit.",
    ),
    (
        "[wiring]",
        "[wirin]",
        "line 34: a topology has no 'wirin'",
        "Write wiring.",
    ),
    (
        "[[unit]]",
        "[[units]]",
        "line 18: a topology has no 'units'",
        "Write unit.",
    ),
    (
        "entries = [",
        'entries = "x"\nother = [',
        "line 36: [wiring] has no 'other'",
        "Write entries, ends, exit or wires.",
    ),
]


def test_a_chain_as_toml() -> None:
    assert topology_of("fqp:chain:2:512").to_toml() == CHAIN
    assert Topology.from_toml(CHAIN) == topology_of("fqp:chain:2:512")


@pytest.mark.parametrize(("piece", "instead", "what", "remedy"), DAMAGES)
def test_damage_is_named(piece: str, instead: str, what: str, remedy: str) -> None:
    assert piece in CHAIN
    with pytest.raises(TopologyError) as caught:
        Topology.from_toml(CHAIN.replace(piece, instead), "t.toml")
    assert str(caught.value) == f"t.toml: {what}\n{remedy}"


def test_texts_of_any_size_and_depth() -> None:
    """Python's own limits are errors of ours."""
    for text, message in {
        "x" * (LONGEST_TEXT + 1): "t.toml: 4,194,305 characters\n"
        "Describe a topology in at most 4,194,304 characters.",
        f"wires = {'[' * 5000}": "t.toml: brackets are too deep\n"
        "Write arrays of strings, and tables.",
        f"port = {'9' * 5000}": "t.toml: a number is too long\nShorten it.",
        "[[unit]\n": "t.toml: not TOML: Expected ']]' at the end of an array declaration "
        "(at line 1, column 7)\nCorrect the text at this place.",
    }.items():
        with pytest.raises(TopologyError) as caught:
            Topology.from_toml(text, "t.toml")
        assert str(caught.value) == message


@examples(100)
@given(topology=topologies())
def test_round_trip(topology: Topology) -> None:
    assert Topology.from_toml(topology.to_toml()) == topology


VALUES = ["0", "-1", "3", "true", "1.5", '"block-1"', '"block-1.r"', '"a->b"', "[]", "{}", "nan"]
VALUES += ["2020-01-01", "9" * 30, '"\\u0000"', "[[]]", '["a"]', "=", '"', "'''", "[unit]"]
VALUES += ["[[unit]]", "[widths]", "[wiring]", '{kind="op-block"}']


@examples(200)
@given(topology=topologies(), seed=st.integers(0, 2**32), count=st.integers(1, 6))
def test_random_damage_is_an_error_of_ours(topology: Topology, seed: int, count: int) -> None:
    """Words, lines and characters removed, repeated, exchanged or replaced."""
    drawn = random.Random(seed)
    text = topology.to_toml()
    for _ in range(count):
        text = damaged(text, drawn)
    try:
        read = Topology.from_toml(text, "t.toml")
    except TopologyError as error:
        assert str(error).startswith("t.toml: ")
        assert error.remedy.endswith(".")
    else:  # what still fits together says what it is
        assert Topology.from_toml(read.to_toml()) == read


def damaged(text: str, drawn: random.Random) -> str:
    """The text with one change."""
    unit = drawn.choice([r"\n", r"(?<=[\s\".])|(?=[\s\".])", ""])
    pieces = re.split(f"({unit})", text) if unit else list(text)
    at, other = drawn.randrange(len(pieces)), drawn.randrange(len(pieces))
    match drawn.randrange(5):
        case 0:
            del pieces[at]
        case 1:
            pieces.insert(at, pieces[other] or "")
        case 2:
            pieces[at], pieces[other] = pieces[other], pieces[at]
        case 3:
            pieces[at] = drawn.choice(VALUES)
        case _:
            pieces[at] = drawn.choice(["\0", "\x7f", "é", "\n", "#", "\\", "\ud800", ".", "->"])
    return "".join(piece or "" for piece in pieces)
