"""``zerosys ring``: the rings of this machine that have names; recordings into them and out of them."""

from __future__ import annotations

import argparse

from zerosys.cli.usage import EXITS, Help, Parser, Part


def parser(prog: str) -> argparse.ArgumentParser:
    """The arguments of the command and of its parts."""
    made = Parser(
        prog=prog,
        description="See rings with names, look into their streams, record and play them.",
        epilog=EXITS,
        formatter_class=Help,
    )
    parts = made.add_subparsers(dest="part", metavar="COMMAND", required=True, parser_class=Part)

    def part(name: str, summary: str, description: str) -> argparse.ArgumentParser:
        added = parts.add_parser(
            name, help=summary, description=description, epilog=EXITS, formatter_class=Help
        )
        added.add_argument("--json", action="store_true", help="print it as JSON, one object a line")
        return added

    part("ls", "list them: what they carry, who is at their ends", "List the rings that have names.")
    stat = part("stat", "counters of the writer and of each reader", "Tell what NAME has carried and lost.")
    stat.add_argument("name", metavar="NAME")
    stat.add_argument(
        "--watch",
        nargs="?",
        type=_seconds,
        const=1.0,
        metavar="SECONDS",
        help="tell it again, with rates, every SECONDS (default: 1), until Ctrl-C or the end of the stream",
    )
    _tail_arguments(
        part(
            "tail",
            "print items or messages as they come",
            "Print what comes through NAME. It takes a slot, and a reader that is slow holds a writer that"
            " waits for it up: so does this one.",
        )
    )
    _record_arguments(
        part("record", "write the stream to a file", "Write NAME's stream to FILE until it ends or Ctrl-C.")
    )
    _play_arguments(
        part(
            "play",
            "send a recording through a ring",
            "Play FILE, SigMF or raw samples, into NAME: a ring that is there, or one that is made, and"
            " removed when a reader has had all of it.",
        )
    )
    rm = part("rm", "remove names", "Remove names; who has such a ring attached keeps it.")
    rm.add_argument("names", metavar="NAME", nargs="+")
    return made


def _tail_arguments(tail: argparse.ArgumentParser) -> None:
    tail.add_argument("name", metavar="NAME")
    tail.add_argument("-n", type=_count, metavar="COUNT", help="so many, and no more")
    tail.add_argument(
        "--oldest", action="store_true", help="begin with the oldest that is there, not with the next"
    )


def _record_arguments(record: argparse.ArgumentParser) -> None:
    record.add_argument("name", metavar="NAME")
    record.add_argument(
        "file", metavar="FILE", help="samples go there; one ending in .sigmf-meta or .sigmf-data has both"
    )
    record.add_argument("-n", type=_count, metavar="COUNT", help="so many items, and no more")
    record.add_argument(
        "--oldest", action="store_true", help="begin with the oldest that is there, not with the next"
    )
    record.add_argument("--rate", type=_rate, help="samples a second, for the metadata")
    record.add_argument("--frequency", type=float, metavar="HZ", help="the middle of the band, likewise")
    record.add_argument(
        "--format", help="of the samples, where the ring's items do not say it: cu8, ci16 ..."
    )
    record.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="give up when nothing comes so long"
    )


def _play_arguments(play: argparse.ArgumentParser) -> None:
    play.add_argument("file", metavar="FILE")
    play.add_argument("name", metavar="NAME")
    play.add_argument("--format", help="of a raw file whose name does not end in it: cu8, ci16, cf32 ...")
    play.add_argument(
        "--rate",
        type=_rate,
        help="samples a second, or max (default: the metadata's, else as fast as they are read)",
    )
    play.add_argument("--repeat", type=_count, default=1, metavar="TIMES")
    play.add_argument("--capacity", default="8MiB", help="of a ring that is made (default: %(default)s)")
    play.add_argument("--readers", type=_count, default=8, help="at most, likewise (default: %(default)s)")
    play.add_argument("--node", help="the nodes that it shall lie on, likewise")
    play.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="give up when nobody reads so long")


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return number


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return number


def _seconds(text: str) -> float:
    return _positive(text)


def _rate(text: str) -> float:
    return float("inf") if text == "max" else _positive(text)


def main(argv: list[str], prog: str) -> int:
    """Run a part of the command; return its exit status."""
    chosen = parser(prog).parse_args(argv)
    if chosen.part in ("record", "play"):
        from zerosys.cli.ring import recordings

        return recordings.record(chosen, prog) if chosen.part == "record" else recordings.play(chosen, prog)
    from zerosys.cli.ring import seeing

    status: int = getattr(seeing, chosen.part)(chosen, prog)
    return status
