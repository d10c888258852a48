"""A registry in a form that JSON can hold: streams, programs by their texts, promises."""

from __future__ import annotations

import base64
from fractions import Fraction
from typing import Any, TypeVar

import pyarrow as pa

from penstock.blocks.state import physical, plain
from penstock.engines.shared.registry import Registry
from penstock.engines.shared.running import Known
from penstock.program.flow_choice import ANY_FLOW, FlowChoice
from penstock.program.instructions import CreateStream, Derive, Install
from penstock.streams.schema import Stream

Q = TypeVar("Q", bound=Known)


def save_stream(stream: Stream) -> dict[str, Any]:
    """A stream's declaration."""
    return {
        "name": stream.name,
        "time": stream.time,
        "bounded": stream.bounded,
        "slack": None if stream.slack is None else str(stream.slack),
        "schema": base64.b64encode(stream.schema.serialize().to_pybytes()).decode(),
    }


def load_stream(saved: dict[str, Any]) -> Stream:
    """The stream that :func:`save_stream` was given."""
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(saved["schema"])))
    slack = None if saved.get("slack") is None else Fraction(saved["slack"])
    # Not Stream.of: what was checked once may have columns that it was told to let pass.
    return Stream(saved["name"], schema, saved["time"], saved["bounded"], slack=slack)


def save_choice(choice: FlowChoice) -> dict[str, Any]:
    """What was asked for of a flow, without what was not."""
    return {name: value for name, value in vars(choice).items() if value is not None}


def load_choice(saved: dict[str, Any] | None) -> FlowChoice:
    """The choice that :func:`save_choice` was given; of none at all, any flow."""
    return FlowChoice(**saved) if saved else ANY_FLOW


def save_registry(registry: Registry[Q]) -> dict[str, Any]:
    """What the registry knows, oldest first. Queries are saved by the text in force."""
    return {
        "streams": [save_stream(stream) for stream in registry.catalog if not stream.derived],
        "queries": [
            {
                "name": query.name,
                "text": query.program.text,
                "order": query.order,
                "kernel": query.kernel,
                "flow": save_choice(query.flow),
                "derived": query.derived,
            }
            for query in registry.queries.values()
        ],
        "ended": sorted(registry.ended),
        "promises": {
            name: [[column, plain(value)] for column, value in promises.items()]
            for name, promises in registry.promises.items()
        },
    }


def load_registry(registry: Registry[Q], saved: dict[str, Any]) -> None:
    """Bring an empty registry to what was saved."""
    for stream in saved["streams"]:
        registry.create(CreateStream(load_stream(stream)))
    for query in saved["queries"]:
        if query["derived"]:
            registry.derive(Derive(query["name"], query["text"]))
        else:
            text, order, kernel = query["text"], query["order"], query["kernel"]
            flow = load_choice(query.get("flow"))
            registry.install(Install(query["name"], text, order, kernel, flow))
    registry.ended = set(saved["ended"])
    registry.promises = {
        name: {column: physical(value) for column, value in promises}
        for name, promises in saved["promises"].items()
    }
