"""Payloads cut into rows are joined again, in any order of the rows."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.spark.core.frames import PIECE, cut, joined

sizes = st.sampled_from([0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 7])


@given(st.lists(sizes, max_size=5), st.randoms(use_true_random=False))
def test_pieces_of_several_are_joined_in_any_order(lengths: list[int], rng: random.Random) -> None:
    wholes = [rng.randbytes(length) for length in lengths]
    pieces = [
        ((number, place), piece)
        for number, whole in enumerate(wholes)
        for place, piece in enumerate(cut(whole))
    ]
    assert all(len(piece) <= PIECE + 24 for _, piece in pieces)
    rng.shuffle(pieces)
    found = sorted((along, bytes(data)) for along, data in joined(pieces))
    assert found == [((number, 0), whole) for number, whole in enumerate(wholes)]


def test_a_lost_piece_is_noticed() -> None:
    pieces = list(cut(bytes(3 * PIECE)))
    with pytest.raises(AssertionError, match=r"^1 frames have come without"):
        list(joined((None, piece) for piece in pieces[:-1]))
