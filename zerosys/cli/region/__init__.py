"""``zerosys region``: the shared memory of this machine that has names."""

from __future__ import annotations

import argparse

from zerosys.cli.usage import EXITS, Help, Parser, Part


def parser(prog: str) -> argparse.ArgumentParser:
    """The arguments of the command and of its parts."""
    made = Parser(
        prog=prog,
        description="See, make and remove shared memory with names: in /dev/shm, and in hugetlbfs mounts.",
        epilog=EXITS,
        formatter_class=Help,
    )
    parts = made.add_subparsers(dest="part", metavar="COMMAND", required=True, parser_class=Part)

    def part(name: str, summary: str, description: str) -> argparse.ArgumentParser:
        added = parts.add_parser(
            name, help=summary, description=description, epilog=EXITS, formatter_class=Help
        )
        added.add_argument("--json", action="store_true", help="print it as JSON")
        return added

    part(
        "ls",
        "list them: size, pages by node, owner, state, who has them attached",
        "List shared memory with names. Looking makes no page and touches none. State: 'in use' and"
        " 'orphan' (nobody has it: gc may remove it) are zerosys's own, 'kept' is its own and not for gc,"
        " 'foreign' is another program's, 'unknown' one whose lock you may not look at.",
    )
    _create_arguments(part("create", "make one", "Make NAME of SIZE bytes: whole, populated, on its node."))
    show = part("show", "tell all about one", "Tell everything that ls knows about NAME.")
    show.add_argument("name", metavar="NAME")
    rm = part(
        "rm",
        "remove names, whoever made them",
        "Remove names for everybody, whoever made them. Who has the memory attached keeps it.",
    )
    rm.add_argument("names", metavar="NAME", nargs="+")
    gc = part(
        "gc",
        "remove orphans",
        "List what zerosys made and nobody has attached any more, and remove it: after a question on a"
        " terminal, or with --yes; with neither, nothing is removed and the status is 1. What another"
        " program made, and what is to be kept, is left alone.",
    )
    gc.add_argument("--yes", action="store_true", help="remove without asking")
    gc.add_argument("--dry-run", action="store_true", help="list only")
    return made


def _create_arguments(create: argparse.ArgumentParser) -> None:
    create.add_argument("name", metavar="NAME")
    create.add_argument("size", metavar="SIZE", help="bytes, or text such as 64MiB")
    create.add_argument("--node", help="the nodes that it shall lie on, such as 0 or 0,2-3")
    create.add_argument(
        "--pages",
        default="auto",
        choices=("auto", "base", "thp", "2M", "1G"),
        help="the kind of pages (default: %(default)s)",
    )
    create.add_argument(
        "--mode",
        type=_octal,
        default=0o600,
        metavar="OCTAL",
        help="permissions, whatever the umask (default: 600)",
    )
    create.add_argument("--keep", action="store_true", help="gc shall never remove it")
    create.add_argument(
        "--hold", action="store_true", help="stay and have it attached, until Ctrl-C or SIGTERM"
    )
    create.add_argument(
        "--lock",
        action="store_true",
        help="keep it from being swapped, which lasts as long as --hold, implied",
    )


def _octal(text: str) -> int:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise argparse.ArgumentTypeError(f"{text!r} is no permissions in octal, 0 to 777")
    return mode


def main(argv: list[str], prog: str) -> int:
    """Run a part of the command; return its exit status."""
    arguments = parser(prog)
    chosen = arguments.parse_args(argv)
    from zerosys.cli.region import making, seeing

    if chosen.part == "create":
        try:
            chosen.size = making.size(chosen.size)
        except ValueError as wrong:
            arguments.error(str(wrong))
        return making.create(chosen, prog)
    if chosen.part in ("rm", "gc"):
        from zerosys.cli.region import clearing

        return clearing.rm(chosen, prog) if chosen.part == "rm" else clearing.gc(chosen, prog)
    return seeing.ls(chosen, prog) if chosen.part == "ls" else seeing.show(chosen, prog)
