"""What an index has to tell of a search."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.kernels.nested_loop import Pairs


@dataclass(frozen=True)
class Looked:
    """What came of looking for partners.

    Parameters
    ----------
    pairs
        By probe and then by stored index; None if there are too many.
    met
        How many candidates there were.
    crowd
        How many of them were in segments.
    most
        The most pairs that one segment had.
    probes
        How many looked.
    live
        How many entries they might have met, all together; 0 if that does not matter.
    """

    pairs: Pairs | None
    met: int
    crowd: int
    most: int
    probes: int
    live: int
