"""A registry in a form that JSON can hold: the instructions that make it, and its punctuations."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from penstock.blocks.state import physical, plain
from penstock.engines.shared.registry import Registry
from penstock.engines.shared.running_query import RegisteredQuery
from penstock.program.isa.encoding import decode, encode
from penstock.program.isa.instructions import CreateStream, Derive, Install, Instruction

Q = TypeVar("Q", bound=RegisteredQuery)


def made_by(query: RegisteredQuery) -> Install | Derive:
    """The instruction that makes a query as it is now."""
    if query.derived:
        return Derive(query.name, query.program)
    return Install(query.name, query.program, query.order, query.kernel)


class SavedRegistry(Generic[Q]):
    """Saves a registry; a stream or program that has been encoded is not encoded again."""

    def __init__(self, registry: Registry[Q]) -> None:
        self._registry = registry
        self._encoded: dict[str, tuple[object, dict[str, Any]]] = {}

    def save(self) -> dict[str, Any]:
        """What the registry knows, oldest first. Queries have the program in force."""
        registry = self._registry
        streams = [stream for stream in registry.streams if not stream.derived]
        encoded = {
            **{one.name.lower(): self._saved(one.name, one, CreateStream(one)) for one in streams},
            **{
                name: self._saved(name, query.program, made_by(query))
                for name, query in registry.queries.items()
            },
        }
        self._encoded = encoded
        return {
            "instructions": [instruction for _, instruction in encoded.values()],
            "ended": sorted(registry.ended),
            "furthest": registry.furthest,
            "punctuations": {
                name: [[column, plain(value)] for column, value in columns.items()]
                for name, columns in registry.punctuations.items()
            },
        }

    def _saved(
        self, name: str, subject: object, instruction: Instruction
    ) -> tuple[object, dict[str, Any]]:
        known = self._encoded.get(name.lower())
        if known is not None and known[0] is subject:
            return known
        return subject, encode(instruction)


def saved_instructions(saved: dict[str, Any]) -> list[Instruction]:
    """The instructions of a saved registry."""
    found = [decode(one) for one in saved["instructions"]]
    return [one for one in found if isinstance(one, CreateStream | Derive | Install)]


def load_registry(registry: Registry[Q], saved: dict[str, Any]) -> None:
    """Bring an empty registry to what was saved."""
    for instruction in saved_instructions(saved):
        if isinstance(instruction, CreateStream):
            registry.create(instruction)
        elif isinstance(instruction, Derive):
            registry.derive(instruction)
        elif isinstance(instruction, Install):
            registry.install(instruction)
    registry.ended = set(saved["ended"])
    registry.furthest = dict(saved["furthest"])
    registry.punctuations = {
        name: {column: physical(value) for column, value in columns}
        for name, columns in saved["punctuations"].items()
    }
