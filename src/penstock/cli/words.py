"""Words of topologies on the command line: ``penstock asm`` and ``penstock disasm``."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import InputError, WordError
from penstock.program.isa.words.assembly import assemble, disassemble, from_hex, to_hex
from penstock.program.isa.words.layout import WordLayout, layout_from


def assembled(text: str, layout: WordLayout, is_hex: bool) -> str | bytes:
    """The words of a text, as hexadecimal digits or raw."""
    words = assemble(text, layout)
    return to_hex(words, layout) if is_hex else words


def disassembled(words: str | bytes, layout: WordLayout) -> str:
    """The text of words, which are hexadecimal digits or raw."""
    try:
        return disassemble(from_hex(words) if isinstance(words, str) else words, layout)
    except WordError as error:  # as for words of other widths
        same = "If asm made them with --topology or --bits, pass the same here."
        raise InputError(error.what, f"{error.remedy} {same}") from error


def layout_of(bits: Sequence[str], topology: str | None) -> WordLayout:
    """The layout that ``--bits`` or ``--topology`` asks for."""
    if topology is None:
        return _layout(bits)
    if bits:
        raise InputError(
            "--topology and --bits both say how wide the fields of words are",
            "Give one of them; the [widths] of a topology are in its file.",
        )
    from penstock.processor.topology.load import load_topology

    return load_topology(topology).widths


def _layout(bits: Sequence[str]) -> WordLayout:
    widths: dict[str, int] = {}
    for one in bits:
        name, _, width = one.partition("=")
        if not (width.isascii() and width.isdigit() and len(width) < 10):
            raise InputError(f"--bits {one} names no field and width", "Write --bits b-id=8.")
        if name in widths:
            raise InputError(f"--bits {name} is given twice", "Give each field once.")
        widths[name] = int(width)
    return layout_from(widths)
