"""Numbers from the text of the papers. Numbers that are only drawn there are not here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A number, its meaning, and its source."""

    what: str
    cores: int
    value: float
    source: str


# Tuples per second of each stream, the two-dimensional band join, windows of 15 minutes.
HANDSHAKE_PER_STREAM = Published("handshake", 8, 1_400, "Teubner & Mueller 2011 §5.4")
CELLJOIN_PER_STREAM = Published("CellJoin", 9, 750, "Teubner & Mueller 2011 §5.4, of Gedik et al.")
CELLJOIN_TUNED_PER_STREAM = Published(
    "CellJoin, tuned", 9, 1_000, "Teubner & Mueller 2011 §5.4, of Gedik et al."
)
# Tuples per second of both streams together, the same join: windows of 15 minutes, of 2^21 tuples.
SPLITJOIN_TIME = Published("SplitJoin", 28, 4_400, "Najafi 2019 §5.6.4")
SPLITJOIN_COUNT = Published("SplitJoin", 28, 5_200, "Najafi 2019 §5.6.4")
SPLITJOIN_COUNT_WINDOW = 1 << 21
# Seconds from the arrival of the younger tuple until the pair is found, on average; 15 minutes.
SPLITJOIN_VISITING = Published("SplitJoin", 28, 8.1e-3, "Najafi 2019 §5.6.3")
LOW_LATENCY_VISITING = Published("low-latency", 28, 26.8e-3, "Najafi 2019 §5.6.3")
# Tuples per second of Query Q3 with any RANGE: at the circuit's own rate, and through the network.
# A circuit's cores are its window-aggregation modules, 11 to 61.
WID_CIRCUIT = Published("circuit", 61, 157e6, "Oge et al. 2013 §VI-A")
WID_NETWORK = Published("circuit behind its network", 61, 6e6, "Oge et al. 2013 §VI-B")
# Records per second of window aggregates, in order.
LIGHTSABER = Published("LightSaber", 16, 470e6, "Theodorakis et al. 2020, abstract")
# Tuples per second of all streams, Circular-MJ with nested loops, windows of 2^14, on an FPGA at
# 100 MHz: six streams, by match probability; at 0.1 % while the windows fill.
CIRCULAR_SIX = (
    (1e-6, Published("Circular-MJ", 6, 10_000, "Najafi 2019 §6.5.1")),
    (1e-5, Published("Circular-MJ", 6, 7_000, "Najafi 2019 §6.5.1")),
    (1e-4, Published("Circular-MJ", 6, 1_000, "Najafi 2019 §6.5.1")),
    (1e-3, Published("Circular-MJ", 6, 100, "Najafi 2019 §6.5.1")),
)
# Intermediate results in a stage buffer, three streams, 0.1 %: on average, and at most.
STAGE_BUFFER_MEAN = Published("average", 3, 0.7, "Najafi 2019 §6.5.1")
STAGE_BUFFER_MOST = Published("most", 3, 50, "Najafi 2019 §6.5.1")
# Pairs that a stash of 2^5 slots has after its warm-up; arrivals until windows of 2^15 are full.
STASH_PAIRS = Published("pairs in the stash", 1, 19, "Najafi 2019 §6.5.2")
STASH_WARM_UP = Published("end of the warm-up", 1, 100_000, "Najafi 2019 §6.5.2")
# How many times lower the rate is with 2^16 slots than with 2^12, after the first expiration.
LARGE_STASH_LOSS = Published("Stashed-MJ", 1, 5, "Najafi 2019 §6.5.2")
# Tuples per second of three streams, windows of 2^14, 0.001 %, by global join cores.
STASH_DISABLED = Published("Stashed-MJ, stash disabled", 1, 5_970, "Najafi 2019 §6.5.3")
PARALLEL = (
    STASH_DISABLED,
    Published("Parallel-MJ", 8, 47_000, "Najafi 2019 §6.5.3"),
    Published("Parallel-MJ", 16, 97_000, "Najafi 2019 §6.5.3"),
    Published("Parallel-MJ", 32, 194_000, "Najafi 2019 §6.5.3"),
    Published("Parallel-MJ", 64, 386_000, "Najafi 2019 §6.5.3"),
    Published("Parallel-MJ", 128, 763_000, "Najafi 2019 §6.5.3"),
)
# Tuples per second of an OP-Block at 125 MHz, and of a topology of 24; the join has windows of 16,
# the chained join four blocks of such windows, six times.
OP_BLOCK = {
    "selection": Published("OP-Block", 1, 9.61e6, "Najafi 2019 §4.5.7"),
    "projection": Published("OP-Block", 1, 11.36e6, "Najafi 2019 §4.5.7"),
    "join": Published("OP-Block", 1, 1.44e6, "Najafi 2019 §4.5.7"),
}
OP_BLOCKS_24 = {
    "selection": Published("24 OP-Blocks", 24, 230.6e6, "Najafi 2019 Table 4.5.5"),
    "projection": Published("24 OP-Blocks", 24, 272.6e6, "Najafi 2019 Table 4.5.5"),
    "join": Published("24 OP-Blocks", 24, 34.5e6, "Najafi 2019 Table 4.5.5"),
    "chained join": Published("24 OP-Blocks", 24, 8.6e6, "Najafi 2019 Table 4.5.5"),
}
# Arrivals per second of a chain of 16 blocks, and the match probability that fills its output.
OP_CHAIN = Published("OP-Chain", 16, 1.26e6, "Najafi 2019 §4.5.3")
OP_CHAIN_SATURATED = Published("OP-Chain, output full", 16, 0.05, "Najafi 2019 §4.5.3")
# Cycles until an instruction is in an OP-Block.
INSTRUCTION_CYCLES = {"selection": 6, "projection": 5, "join": 5, "reset": 4}
