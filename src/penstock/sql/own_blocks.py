"""The blocks of users' own that SQL can name: ``FROM dedup(R, key => id)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import InputError


@dataclass(frozen=True)
class OwnBlock:
    """A registered block of a user's own.

    Parameters
    ----------
    name
        What SQL calls it, in lower case.
    implementation
        Where its class is, ``module:Class``, for processes that have not registered it.
    parameters
        The names of its arguments; each must be given.
    """

    name: str
    implementation: str
    parameters: tuple[str, ...]


_REGISTERED: dict[str, OwnBlock] = {}


def register(name: str, implementation: str, parameters: Sequence[str]) -> OwnBlock:
    """Let SQL name a block; a name is of one block for good."""
    block = OwnBlock(name.lower(), implementation, tuple(p.lower() for p in parameters))
    known = _REGISTERED.setdefault(block.name, block)
    if known != block:
        raise InputError(
            f"there is a block named {name!r} already: {known.implementation}",
            "Register it by another name.",
        )
    return block


def registered(name: str) -> OwnBlock | None:
    """The block that SQL names so, without regard to case; None if there is none."""
    return _REGISTERED.get(name.lower())
