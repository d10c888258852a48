"""The check of a topology: everything that does not fit together, with what to write instead.

The check goes in stages, since a later one is about what the earlier have left in order: names and
numbers, then ports and what is said of each, then the ways along the wires. It reports all problems
of the first stage that has any.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from penstock.errors import SURROGATE, Problem
from penstock.processor.topology.kinds import (
    COURSES,
    KINDS,
    MOST_BLOCKS,
    MOST_WIDTH,
    OP_BLOCK,
    PARAMETERS,
    Port,
)
from penstock.processor.topology.parts import Unit, UnitPort, Wire
from penstock.program.isa.words.layout import WordLayout
from penstock.streams.display import counted, listed

if TYPE_CHECKING:
    from penstock.processor.topology.topology import Topology

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The name of a unit: it stands before a dot in the name of a port."""
LONGEST_NAME = 200
MOST_SHOWN = 8
"""Wires of a cycle that its message names."""
MOST_UNITS = 2 * MOST_BLOCKS - 1
"""As many blocks as there may be, and the tree that gathers their results."""


def problems_of(topology: Topology) -> tuple[Problem, ...]:
    """What is wrong with a topology, by stages: the problems of the first stage that has any."""
    stages: list[Callable[[Topology], Iterator[Problem]]] = [
        _types, _sizes, _units, _numbers, _ports, _dangling, _cycles, _neighbours,
    ]  # fmt: skip
    for stage in stages:
        found = tuple(stage(topology))
        if found:
            return found
    return ()


def near(name: str, known: Iterable[str], word: str = "or") -> str:
    """What to write instead of a name that is not known: the one it is like, or all of them."""
    names = list(known)
    alike = get_close_matches(name, names, 1)
    return alike[0] if alike else listed(names, word)


# -- names and numbers ----------------------------------------------------------------------------


_EXAMPLES: dict[str, tuple[type, str]] = {
    "units": (Unit, "Unit('block-1', 'op-block', number=1, window=512)"),
    "wires": (Wire, "Wire(UnitPort('block-1', 'r-out'), UnitPort('block-2', 'r'))"),
    "entries": (UnitPort, "UnitPort('block-1', 'r')"),
    "ends": (UnitPort, "UnitPort('block-1', 's-out')"),
}


def _types(topology: Topology) -> Iterator[Problem]:
    """Parts that are of another type than a topology has: a program can give any."""
    if not isinstance(topology.name, str):
        yield Problem(f"its name is {topology.name!r}", "Write the name as a string.")
    for name, (kind, example) in _EXAMPLES.items():
        given = getattr(topology, name)
        if not isinstance(given, tuple) or not all(_is_part(part, kind) for part in given):
            yield Problem(
                f"its {name} are no tuple of {kind.__name__}", f"Write {name}=({example},)."
            )
    if not _is_part(topology.exit, UnitPort):
        yield Problem("its exit is no UnitPort", "Write exit=UnitPort('node-1', 'out').")
    if not isinstance(topology.widths, WordLayout):
        yield Problem("its widths are no WordLayout", "Write widths=WordLayout(port=64).")
    if not isinstance(topology.segments, bool):
        yield Problem(f"its segments is {topology.segments!r}", "Write segments=True or False.")


def _is_part(part: object, kind: type) -> bool:
    if isinstance(part, Wire):
        return kind is Wire and all(_is_part(at, UnitPort) for at in part)
    if isinstance(part, UnitPort):
        return kind is UnitPort and all(isinstance(name, str) for name in part)
    if isinstance(part, Unit):
        return kind is Unit and isinstance(part.name, str) and isinstance(part.kind, str)
    return False


def _sizes(topology: Topology) -> Iterator[Problem]:
    if not (topology.name.strip() and len(topology.name) <= LONGEST_NAME):
        yield Problem(
            f"its name has {len(topology.name):,} characters" if topology.name.strip()
            else "it has no name",
            f"Give it a name of up to {LONGEST_NAME} characters.",
        )  # fmt: skip
    elif SURROGATE.search(topology.name):
        yield Problem(
            f"its name is {topology.name!r}, which no file can hold",
            "Give it a name without lone surrogates.",
        )
    if not any(unit.kind == OP_BLOCK for unit in topology.units):
        yield Problem(
            "it has no op-block" if topology.units else "it has no units",
            "Give it an op-block, or take a preset: fqp:chain:1.",
        )
    if len(topology.units) > MOST_UNITS:
        yield Problem(
            f"it has {len(topology.units):,} units",
            f"Give it at most {MOST_UNITS:,}: {MOST_BLOCKS:,} blocks, and the tree over them.",
        )
    most = sum(len(kind.outputs) for kind in KINDS.values()) * MOST_UNITS
    if max(len(topology.wires), len(topology.entries), len(topology.ends)) > most:
        yield Problem("it has more wires than its units have ports", "Wire each port once.")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _units(topology: Topology) -> Iterator[Problem]:
    seen: set[str] = set()
    for unit in topology.units:
        if not NAME.fullmatch(unit.name):
            yield Problem(
                f"a unit is called {unit.name!r}",
                "Write up to 64 letters, digits, - and _, and a letter or a digit first: block-1.",
                unit.name,
            )
        elif unit.name in seen:
            yield Problem(
                f"two units are called {unit.name}", "Give each a name of its own.", unit.name
            )
        else:
            seen.add(unit.name)
        if unit.kind not in KINDS:
            yield Problem(
                f"unit {unit.name} is of the kind {unit.kind!r}, which there is not",
                f"Write {near(unit.kind, KINDS)}.",
                unit.kind,
            )
        else:
            yield from _parameters(unit)


def _parameters(unit: Unit) -> Iterator[Problem]:
    for name, parameter in PARAMETERS.items():
        value = getattr(unit, name)
        if name not in unit.traits.parameters:
            if value != 0:
                yield Problem(
                    f"the {unit.kind} {unit.name} has a {name}, {value!r}",
                    f"Leave it out: {_having(name)} has one.",
                    unit.name,
                )
        elif not _is_number(value) or not 1 <= value <= parameter.most:
            yield Problem(
                f"the {name} of {unit.name} is {value!r}",
                f"Write {parameter.summary}: 1 to {parameter.most:,}.",
                unit.name,
            )
    if not _is_number(unit.width) or not 0 <= unit.width <= MOST_WIDTH:
        yield Problem(
            f"the width of {unit.name} is {unit.width!r}",
            f"Write the bits of its ports, 1 to {MOST_WIDTH:,}, or leave it out.",
            unit.name,
        )


def _having(parameter: str) -> str:
    return listed(
        (f"an {name}" if name[0] in "aeio" else f"a {name}"
         for name, kind in KINDS.items() if parameter in kind.parameters),
        "or",
    )  # fmt: skip


def _numbers(topology: Topology) -> Iterator[Problem]:
    named: dict[int, str] = {}
    for unit in topology.units:
        if not unit.number:
            continue
        if unit.number in named:
            yield Problem(
                f"{named[unit.number]} and {unit.name} both have the number {unit.number}",
                "Give each a number of its own: instructions name a block by it.",
                unit.name,
            )
        named.setdefault(unit.number, unit.name)
    largest = max(named)
    bits = topology.widths.b_id
    if largest > 1 << bits:
        yield Problem(
            f"the number {largest:,} of {named[largest]} does not fit the width b-id, "
            f"{counted(bits, 'bit')}",
            f"Make the width b-id {(largest - 1).bit_length()}, or number the blocks from 1 to "
            f"{1 << bits:,}.",
            named[largest],
        )
    if len(named) > MOST_BLOCKS:
        yield Problem(f"it has {len(named):,} blocks", f"Give it at most {MOST_BLOCKS:,}.")


# -- ports ----------------------------------------------------------------------------------------


def _ports(topology: Topology) -> Iterator[Problem]:
    """What is said of ports: that they are there, and that each is used once, and as it is."""
    units = {unit.name: unit for unit in topology.units}
    uses: dict[UnitPort, list[str]] = defaultdict(list)
    for wire in topology.wires:
        text = str(wire)
        wrong = [
            *_misused(units, wire.source, False, f"wire {text}"),
            *_misused(units, wire.target, True, f"wire {text}"),
        ]
        yield from wrong or _mismatch(topology, units, wire)
        uses[wire.source].append(f"wire {text}")
        uses[wire.target].append(f"wire {text}")
    for what, key, ports, is_input in (
        ("entry", "entries", topology.entries, True),
        ("end", "ends", topology.ends, False),
        ("exit", "exit", (topology.exit,), False),
    ):
        for at in ports:
            use = f"{what} {at}"
            wrong = [*_misused(units, at, is_input, use)] or [
                *_mispassed(units, at, what),
                *_too_wide(topology, units[at.unit], use),
            ]
            yield from (problem._replace(key=key) for problem in wrong)
            uses[at].append(use)
    for at, found in uses.items():
        if len(found) > 1:
            yield Problem(
                f"{at} is used {'twice' if len(found) == 2 else f'{len(found)} times'}: "
                f"{listed(found)}",
                f"Keep one of them: {_once(units, at)}.",
                found[-1].partition(" ")[2],
            )


def _once(units: Mapping[str, Unit], at: UnitPort) -> str:
    unit = units.get(at.unit)
    is_input = unit is not None and any(port.name == at.port for port in unit.traits.inputs)
    if is_input:
        return "an input has one wire, or is an entry"
    return "an output has one wire, or is an end or the exit"


def _misused(
    units: Mapping[str, Unit], at: UnitPort, is_input: bool, use: str
) -> Iterator[Problem]:
    """A port that is not there, or is an input where an output is needed."""
    piece = use.partition(" ")[2]
    if at.unit not in units:
        digits = re.sub(r"\D", "", at.unit)
        alike = get_close_matches(
            at.unit, [name for name in units if re.sub(r"\D", "", name) == digits], 1
        )
        yield Problem(
            f"{use}: there is no unit {at.unit}",
            f"Write {alike[0]}.{at.port}." if alike else f"Write one of its units: {_some(units)}.",
            piece,
        )
        return
    kind = units[at.unit].kind
    ports = {True: KINDS[kind].inputs, False: KINDS[kind].outputs}
    if any(port.name == at.port for port in ports[is_input]):
        return
    names = listed((f"{at.unit}.{port.name}" for port in ports[is_input]), "or")
    if any(port.name == at.port for port in ports[not is_input]):
        what = f"{at} is an {'output' if is_input else 'input'}"
        remedy = f"Write an {'input' if is_input else 'output'}: {names}."
    else:
        what, remedy = f"{at.unit}, an {kind}, has no port {at.port}", f"Write {names}."
        if kind == "buffer-node":
            what = what.replace(", an ", ", a ")
    yield Problem(f"{use}: {what}", remedy, piece)


def _some(units: Mapping[str, Unit]) -> str:
    names = list(units)
    return listed(names, "or") if len(names) <= 4 else f"{', '.join(names[:3])}, …"


def _port(units: Mapping[str, Unit], at: UnitPort) -> Port:
    kind = units[at.unit].traits
    [found] = [port for port in (*kind.inputs, *kind.outputs) if port.name == at.port]
    return found


def _mismatch(topology: Topology, units: Mapping[str, Unit], wire: Wire) -> Iterator[Problem]:
    """A wire between ports that carry different things, or have different widths."""
    source, target = _port(units, wire.source), _port(units, wire.target)
    if source.carries != target.carries:
        kind = units[wire.target.unit].traits
        fitting = [port.name for port in kind.inputs if port.carries == source.carries]
        yield Problem(
            f"wire {wire}: {wire.source} carries {COURSES[source.carries].summary}, and "
            f"{wire.target} takes {COURSES[target.carries].summary}",
            f"Write {wire.source} -> "
            f"{listed((f'{wire.target.unit}.{name}' for name in fitting), 'or')}."
            if fitting
            else f"Wire {wire.source} to a port that takes {COURSES[source.carries].summary}.",
            str(wire),
        )
    plain = topology.widths.port
    widths = [units[at.unit].width or plain for at in wire]
    if widths[0] != widths[1]:
        yield Problem(
            f"wire {wire}: {wire.source} is {widths[0]:,} bits wide, and {wire.target} "
            f"{widths[1]:,}",
            f"Give {wire.source.unit} and {wire.target.unit} the same width.",
            str(wire),
        )


def _mispassed(units: Mapping[str, Unit], at: UnitPort, what: str) -> Iterator[Problem]:
    """Streams that would leave by the exit, or results that would enter or end elsewhere."""
    course = COURSES[_port(units, at).carries]
    if course.passes != (what != "exit"):
        yield Problem(
            f"{what} {at}: {at} carries {course.summary}",
            "Results leave by the exit: name the output of the last buffer-node, or the final port "
            "of the only block."
            if what == "exit"
            else "Streams enter and end here: name a port that carries stream R or S.",
            str(at),
        )


def _too_wide(topology: Topology, unit: Unit, use: str) -> Iterator[Problem]:
    """A unit that streams enter or leave, and that is not as wide as these."""
    width = topology.widths.port
    if unit.width not in (0, width):
        yield Problem(
            f"{use}: {unit.name} is {unit.width:,} bits wide, and the width port is {width:,}",
            f"Leave out the width of {unit.name}, or make the width port {unit.width:,}.",
            unit.name,
        )


def _dangling(topology: Topology) -> Iterator[Problem]:
    """Ports of which nothing is said."""
    used = {at for wire in topology.wires for at in wire}
    used.update(topology.entries, topology.ends, {topology.exit})
    for unit in topology.units:
        for port in unit.traits.inputs:
            if (unit.name, port.name) not in used:
                what = COURSES[port.carries]
                yield Problem(
                    f"nothing leads to {unit.name}.{port.name}",
                    f"Wire the output that gives it {what.summary} to it"
                    f"{', or make it an entry' if what.passes else ''}.",
                    unit.name,
                )
        for port in unit.traits.outputs:
            if (unit.name, port.name) not in used:
                what = COURSES[port.carries]
                at = f"{unit.name}.{port.name}"
                yield Problem(
                    f"{at} leads nowhere"
                    if what.passes
                    else f"{at} leads nowhere: results of {unit.name} have no way to the exit",
                    f"Wire {at} to the next unit, or make it an end."
                    if what.passes
                    else f"Wire {at} to an input of a buffer-node, or make it the exit.",
                    unit.name,
                )


# -- ways -----------------------------------------------------------------------------------------


def _cycles(topology: Topology) -> Iterator[Problem]:
    """Wires of one axis that come back to where they began; one cycle for each axis."""
    units = {unit.name: unit for unit in topology.units}
    steps: dict[str, dict[str, list[tuple[str, Wire]]]] = defaultdict(lambda: defaultdict(list))
    for wire in topology.wires:
        course = COURSES[_port(units, wire.source).carries]
        first, then = wire.source.unit, wire.target.unit
        if course.against:
            first, then = then, first
        steps[course.axis][first].append((then, wire))
    for axis, following in steps.items():
        cycle = _cycle(following)
        if cycle:
            yield Problem(
                f"a cycle {axis}: {_shortened(cycle)}",
                "Remove one of these wires: each stream flows one way, R to the right and S to "
                "the left."
                if axis == "left to right"
                else "Remove one of these wires: results flow one way, to the exit.",
                str(cycle[-1]),
            )


def _shortened(wires: Sequence[Wire]) -> str:
    texts = [str(wire) for wire in wires]
    if len(texts) > MOST_SHOWN:
        texts = [*texts[: MOST_SHOWN - 1], f"… ({len(texts) - MOST_SHOWN:,} more)", texts[-1]]
    return ", ".join(texts)


def _cycle(following: Mapping[str, list[tuple[str, Wire]]]) -> list[Wire]:
    """The wires of a cycle, in its order; empty if there is none."""
    done: set[str] = set()
    for start in list(following):
        path: list[str] = []
        wires: list[Wire] = []
        pending: list[list[tuple[str, Wire]]] = []
        place: dict[str, int] = {}
        if start not in done:
            place[start] = 0
            path.append(start)
            pending.append(list(following.get(start, ())))
        while path:
            if not pending[-1]:
                done.add(path[-1])
                del place[path.pop()]
                pending.pop()
                if wires:
                    wires.pop()
                continue
            then, wire = pending[-1].pop(0)
            if then in place:
                return [*wires[place[then] :], wire]
            if then not in done:
                place[then] = len(path)
                path.append(then)
                wires.append(wire)
                pending.append(list(following.get(then, ())))
    return []


def _neighbours(topology: Topology) -> Iterator[Problem]:
    """Wires whose course has to come back between the same units, and does not."""
    units = {unit.name: unit for unit in topology.units}
    courses: dict[tuple[str, str], set[str]] = defaultdict(set)
    for source, target in topology.wires:
        courses[source.unit, target.unit].add(_port(units, source).carries)
    for wire in topology.wires:
        carried = _port(units, wire.source).carries
        back = COURSES[carried].returned_by
        ends = wire.source.unit, wire.target.unit
        if back is not None and back not in courses[ends[1], ends[0]]:
            yield Problem(
                f"wire {wire}: {COURSES[carried].summary} leads from {ends[0]} to {ends[1]}, and "
                f"{COURSES[back].summary} does not lead back",
                f"Wire {_carrying(units[ends[1]], back, False)} to "
                f"{_carrying(units[ends[0]], back, True)}: neighbours have both streams between "
                "them.",
                str(wire),
            )


def _carrying(unit: Unit, course: str, is_input: bool) -> str:
    ports = unit.traits.inputs if is_input else unit.traits.outputs
    return listed((f"{unit.name}.{port.name}" for port in ports if port.carries == course), "or")
