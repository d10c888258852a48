"""A topology from what a user gives: the name of a preset, or the path of a TOML file."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import InputError, TopologyError
from penstock.processor.topology.presets import PRESETS, forms, topology_of
from penstock.processor.topology.topology import Topology


def load_topology(name: str | Path | Topology) -> Topology:
    """The topology of that name, or of that file; a topology as it is.

    >>> len(load_topology("fqp:parallel:4").branches)
    4
    """
    if isinstance(name, Topology):
        return name
    if not isinstance(name, str | Path):
        raise InputError(
            f"a topology is given as {type(name).__name__}",
            "Give the name of a preset, fqp:chain:4, the path of a TOML file, or a Topology.",
        )
    families = {preset.partition(":")[0] for preset in PRESETS}
    if isinstance(name, str) and (not name or name.partition(":")[0] in families):
        return topology_of(name)
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TopologyError(
            f"there is no file {str(name)!r}, and no topology of this name",
            f"Check the path, or write {forms()}.",
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", "Check the path.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text", "Save it as UTF-8.") from error
    except ValueError as error:  # a path with a NUL
        raise InputError(f"{str(name)!r} is no path", "Check the path.") from error
    return Topology.from_toml(text, str(path))
