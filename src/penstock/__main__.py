"""The ``penstock`` command, also as ``python -m penstock``."""

from penstock.cli.exit_signals import end_on_signals


def main() -> None:
    """Run the command; signals end it with one line from the start on."""
    end_on_signals("penstock")
    from penstock.cli.commands import main

    main()


if __name__ == "__main__":
    main()
