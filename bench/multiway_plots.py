"""The figures of the benchmark ``multiway_figures``. A figure without numbers is not drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench import published
from bench.flow_figures import joined, lines
from bench.plot import Axis, Mark, Plot, Point, Series
from bench.published import Published

Entries = list[dict[str, Any]]
Drawn = Iterator[tuple[str, Plot]]
RATE = Axis("arrivals of all streams per second of the processor", log=10)
PROBABILITY = Axis("match probability, %", log=10)
STREAMS = Axis("streams")
CORES = Axis("global join cores", log=2)
MEAN = Axis("mean of the origin, as the number of a stream")
ARRIVALS = Axis("arrivals")
RESULTS = "intermediate results that wait before a stage"
CHUNKS = "chunks of one arrival; a set counts until it is processed"


def figures(results: dict[str, Any], cpu: str) -> Drawn:
    """Every figure that has numbers, by the name of its file."""
    draw: dict[str, Callable[[Any, str], Drawn]] = {
        "by_streams": by_streams,
        "by_match_probability": by_match_probability,
        "hash": by_streams_with_hash,
        "origins": origins,
        "by_origin": by_origin,
        "by_deviation": by_deviation,
        "stage_buffers": stage_buffers,
        "stash_activity": stash_activity,
        "stash_utilization": stash_utilization,
        "stash_overwrite": stash_overwrite,
        "stash_size": stash_size,
        "stash_share": stash_share,
        "stash_match_probability": stash_match_probability,
        "parallel": parallel,
    }
    for name, drawn in draw.items():
        if results.get(name):
            for figure, plot in drawn(results[name], cpu):
                yield f"multiway-{figure}.svg", plot


def percent(entry: dict[str, Any]) -> float:
    """The match probability in percent."""
    return round(100 * float(entry["match_probability"]), 7)


def rate(entry: dict[str, Any], x: float) -> Point:
    """Tuples per second of the processor's time, which other programs change least."""
    return Point(x, entry["by_processor_time"])


def of_six() -> list[Series]:
    """The published rates of six streams, one by one."""
    return [
        Series(f"{100 * mp:g} %, published", [Point(number.cores, number.value)])
        for mp, number in published.CIRCULAR_SIX[:3]
    ]


def by_streams(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.2.4."""
    circular = [e for e in entries if e["design"] == "circular"]
    named = ((f"{percent(e):g} %", rate(e, e["streams"])) for e in circular)
    subtitle = joined(cpu, "nested loop, windows of 2^14; published: an FPGA, §6.5.1")
    title = "Circular-MJ by the number of streams (Fig. 6.2.4)"
    series = [*lines(named), *of_six()]
    yield "streams", Plot(title, STREAMS, RATE, series, subtitle)
    named = ((f"{percent(e):g} %", rate(e, e["streams"])) for e in entries if e not in circular)
    subtitle = joined(cpu, "mjoin with an index, the default; published: an FPGA, §6.5.1")
    title = "The workloads of Fig. 6.2.4 with mjoin"
    yield "streams-mjoin", Plot(title, STREAMS, RATE, [*lines(named), *of_six()], subtitle)


def by_streams_with_hash(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.5.8."""
    series = lines((f"{percent(e):g} %", rate(e, e["streams"])) for e in entries)
    subtitle = joined(cpu, "windows of 2^14; the text has no number")
    title = "Circular-MJ with a hash index (Fig. 6.5.8)"
    yield "hash", Plot(title, STREAMS, RATE, series, subtitle)


def by_match_probability(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.2.5."""
    named = ((f"{e['design']}, {e['kernel']}", rate(e, percent(e))) for e in entries)
    theirs = [Point(100 * mp, number.value) for mp, number in published.CIRCULAR_SIX]
    series = [*lines(named), Series("published", theirs)]
    subtitle = joined(cpu, "windows of 2^14; published: an FPGA, §6.5.1")
    title = "Six streams by match probability (Fig. 6.2.5)"
    yield "match-probability", Plot(title, PROBABILITY, RATE, series, subtitle)


def origins(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.5.4."""
    series = [
        Series(
            f"mean {e['mean']}, deviation {e['deviation']}",
            [Point(i + 1, 100 * share) for i, share in enumerate(e["shares"])],
        )
        for e in entries
    ]
    title = "Normal origin of tuples within six streams (Fig. 6.5.4)"
    yield "origins", Plot(title, Axis("stream"), Axis("share of the arrivals, %"), series)


def by_origin(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.5.3, 6.5.6 and 6.5.7."""
    normal = [e for e in entries if e["mean"] is not None]
    uniform = [e for e in entries if e["mean"] is None]
    subtitle = joined(cpu, "nested loop, windows of 2^14; “uniform” at 0")
    every = [*uniform, *normal]
    series = lines((f"{percent(e):g} %", rate(e, e["mean"] or 0)) for e in every)
    title = "Six streams by the origin of tuples, deviation 1 (Fig. 6.5.3)"
    yield "origin", Plot(title, MEAN, RATE, series, subtitle)
    subtitle = joined("the first stage", CHUNKS, "“uniform” at 0")
    named = (
        (f"{percent(e):g} %", Point(e["mean"] or 0, e["stage_buffers"][0]["most"])) for e in every
    )
    title = "Stage buffer, most, by the origin of tuples, deviation 1 (Fig. 6.5.6)"
    yield "origin-most", Plot(title, MEAN, Axis(RESULTS), lines(named), subtitle)
    highest = max(map(percent, entries))
    named = (
        (
            "uniform" if e["mean"] is None else f"mean {e['mean']}",
            Point(number + 1, buffer["mean"]),
        )
        for e in every
        if percent(e) == highest
        for number, buffer in enumerate(e["stage_buffers"])
    )
    title = f"Stage buffers on average, {highest:g} %, deviation 1 (Fig. 6.5.7)"
    yield "origin-stages", Plot(title, Axis("stage"), Axis(RESULTS), lines(named), CHUNKS)


def by_deviation(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.5.5."""
    series = lines((f"deviation {e['deviation']}", rate(e, e["mean"])) for e in entries)
    subtitle = joined(cpu, "nested loop, windows of 2^14; the text has no number")
    title = "Six streams by mean and deviation of the origin, 0.01 % (Fig. 6.5.5)"
    y = Axis(RATE.title)
    yield "deviation", Plot(title, MEAN, y, series, subtitle)


def stage_buffers(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.5.1 and 6.5.2."""
    six = [e for e in entries if e["streams"] == 6]
    named = (
        (name, Point(percent(e), e["stage_buffers"][0][key]))
        for e in six
        for name, key in (("average", "mean"), ("most", "most"))
    )
    title = "Stage buffer of the first of six stages (Fig. 6.5.1)"
    yield "stage-buffer", Plot(title, PROBABILITY, Axis(RESULTS), lines(named), CHUNKS)
    named = (
        (name, Point(number + 1, buffer[key]))
        for e in entries
        if e["streams"] == 3
        for number, buffer in enumerate(e["stage_buffers"])
        for name, key in (("average", "mean"), ("most", "most"))
    )
    both = (published.STAGE_BUFFER_MEAN, published.STAGE_BUFFER_MOST)
    series = [*lines(named), *(every_stage(number) for number in both)]
    title = "Stage buffers of three stages, 0.1 % (Fig. 6.5.2)"
    subtitle = joined(CHUNKS, "published: §6.5.1")
    yield "stage-buffers", Plot(title, Axis("stage"), Axis(RESULTS), series, subtitle)


def every_stage(number: Published) -> Series:
    """A published number that holds for all three stages."""
    return Series(f"{number.what}, published", [Point(stage, number.value) for stage in (1, 2, 3)])


def stash_activity(entry: dict[str, Any], cpu: str) -> Drawn:
    """Fig. 6.5.9 and 6.3.1."""
    whole = entry["samples"]
    pairs = published.STASH_PAIRS
    ends = (whole[0]["arrivals"], whole[-1]["arrivals"])
    series = [
        Series("pairs", [Point(s["arrivals"], s["fill"]) for s in whole]),
        Series("slots", [Point(x, entry["size"]) for x in ends]),
        Series("published", [Point(x, pairs.value) for x in ends]),
    ]
    title = "Stash activity, windows of 2^10, 2^5 slots (Fig. 6.5.9)"
    y = Axis("pairs in the stash")
    yield "stash-activity", Plot(title, ARRIVALS, y, series, "published: §6.5.2")
    near = entry["around_the_first_overwrite"]
    stored = [Point(s["arrivals"], slot) for s in near for slot in s["stored"]]
    series = [
        Series("bit set", stored),
        Series("valid bits", [Point(s["arrivals"], s["fill"]) for s in near[::8]]),
    ]
    title = "Valid bits that are set around the invalid state (Fig. 6.3.1)"
    marks = changes(near)
    x = Axis("arrivals since the first that is shown")
    start = near[0]["arrivals"]
    series = [Series(s.name, [Point(p.x - start, p.y) for p in s.points]) for s in series]
    marks = [Mark(mark.x - start, mark.label) for mark in marks]
    yield "stash-slots", Plot(title, x, Axis("slot; number of valid bits"), series, "", marks)


def changes(samples: Entries) -> list[Mark]:
    """Where the stash becomes invalid, and valid again: the first of either."""
    rest = iter(samples)
    lost = next((s for s in rest if not s["valid"]), None)
    again = next((s for s in rest if s["valid"]), None)
    named = ((lost, "invalid"), (again, "valid again"))
    return [Mark(sample["arrivals"], label) for sample, label in named if sample is not None]


def stash_utilization(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.5.10."""
    series = [
        Series(f"{percent(e):g} %", [Point(s["arrivals"], s["fill"]) for s in e["samples"]])
        for e in entries
    ]
    number = published.STASH_WARM_UP
    marks = [Mark(number.value, f"{number.what}, published")]
    title = "Stash utilization, windows of 2^15 (Fig. 6.5.10)"
    y = Axis("pairs in the stash")
    yield "stash-utilization", Plot(title, ARRIVALS, y, series, "", marks)


def stash_overwrite(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.5.11."""
    named = ((e["stash"], rate(s, s["arrivals"])) for e in entries for s in e["samples"])
    marks = [mark for mark in changes(entries[0]["samples"]) if mark.label == "invalid"]
    title = "Rate while a stash of 2^10 slots is overwritten, 0.0001 % (Fig. 6.5.11)"
    subtitle = joined(cpu, "nested loop, windows of 2^15; the mark: the stash as published")
    yield "stash-overwrite", Plot(title, ARRIVALS, RATE, lines(named), subtitle, marks)


def stash_size(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.5.12a."""
    named = (
        (f"{e['size']:,} slots", rate(s, s["arrivals"])) for e in entries for s in e["samples"]
    )
    loss = published.LARGE_STASH_LOSS
    title = "Rate with a small and a large stash, 0.001 % (Fig. 6.5.12a)"
    subtitle = joined(cpu, f"published: {loss.value:g} times lower with 2^16 slots, §6.5.2")
    yield "stash-size", Plot(title, ARRIVALS, RATE, lines(named), subtitle)


def designs(entries: Entries, x: Callable[[dict[str, Any]], float]) -> list[Series]:
    """A series for each design of entries of ``multiway_designs``."""
    return lines((name, rate(f, x(e))) for e in entries for name, f in e["designs"].items())


def stash_share(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.5.12b."""
    series = designs(entries, lambda e: 100 * float(e["share_of_the_third"]))
    title = "Stash by the share of S3, 0.001 % (Fig. 6.5.12b)"
    subtitle = joined(cpu, "nested loop, windows of 2^14; the text has no number")
    x = Axis("share of the arrivals that S3 has, %")
    yield "stash-share", Plot(title, x, RATE, series, subtitle)


def stash_match_probability(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.5.12c."""
    number = published.STASH_DISABLED
    theirs = Series("disabled, published", [Point(0.001, number.value)])
    title = "Stash by match probability (Fig. 6.5.12c)"
    subtitle = joined(cpu, "nested loop, windows of 2^14; published: an FPGA, §6.5.3")
    series = [*designs(entries, percent), theirs]
    yield "stash-match-probability", Plot(title, PROBABILITY, RATE, series, subtitle)


def parallel(entries: Entries, cpu: str) -> Drawn:
    """Fig. 6.5.12d, 6.5.12e and 6.5.13; the last by the clock too, on which cores save time."""
    named = ((f"{e['cores']} core{'s' * (e['cores'] > 1)}", rate(e, percent(e))) for e in entries)
    subtitle = joined(cpu, "nested loop, windows of 2^14; the text has no number")
    title = "Parallel-MJ by match probability (Fig. 6.5.12d and e)"
    yield "parallel", Plot(title, PROBABILITY, RATE, lines(named), subtitle)
    shown = [e for e in entries if percent(e) == 0.001]
    theirs = [Point(number.cores, number.value) for number in published.PARALLEL]
    series = [
        Series("by the processor", [rate(e, e["cores"]) for e in shown]),
        Series("by the clock", [Point(e["cores"], e["tuples_per_second"]) for e in shown]),
        Series("published", theirs),
    ]
    title = "Parallel-MJ by global join cores, 0.001 % (Fig. 6.5.13)"
    subtitle = joined(cpu, "nested loop, windows of 2^14; published: an FPGA, §6.5.3")
    y = Axis("arrivals of all streams per second", log=10)
    yield "parallel-cores", Plot(title, CORES, y, series, subtitle)
