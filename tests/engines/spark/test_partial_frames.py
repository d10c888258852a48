"""Partial results in pieces: what is cut is joined again, whatever order the pieces come in."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.spark.partial_frames import PIECE, joined_pieces, pieces_of

sizes = st.sampled_from([0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 7])


@given(st.lists(sizes, max_size=5), st.randoms(use_true_random=False))
def test_pieces_of_several_are_joined_in_any_order(lengths: list[int], rng: random.Random) -> None:
    wholes = [rng.randbytes(length) for length in lengths]
    pieces = [piece for whole in wholes for piece in pieces_of(whole)]
    assert all(len(piece) <= PIECE + 24 for piece in pieces)
    rng.shuffle(pieces)
    assert sorted(joined_pieces(pieces)) == sorted(wholes)


def test_a_lost_piece_is_noticed() -> None:
    pieces = list(pieces_of(bytes(3 * PIECE)))
    with pytest.raises(AssertionError, match="1 partial results have come without some of their"):
        list(joined_pieces(pieces[:-1]))
