"""``zerosys hugepages``: the pools of huge pages by node and size: see them, add to them, give back."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack

from zerosys.cli.arguments import count
from zerosys.cli.table import table
from zerosys.cli.usage import Help, Parser, Part
from zerosys.sizes import show_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from zerosys.hugepages import Pool

EXAMPLES = """examples:
  zerosys hugepages                                  every pool
  zerosys hugepages reserve 64 --node 1              64 pages of the default size on node 1, or none
  zerosys hugepages reserve 2 --node 0-1 --size 1GiB --partial
  zerosys hugepages give-back 64 --node 1
  zerosys hugepages --json                           as JSON (docs/schemas/hugepages.json)

exit status:
  0    done
  1    the kernel refused, or granted less than was asked; stderr says why
  2    wrong usage
"""


def parser(prog: str) -> argparse.ArgumentParser:
    """The arguments of the command and of its parts."""
    made = Parser(
        prog=prog,
        description="See and set the pools of huge pages of each node. Alone it shows them.",
        epilog=EXAMPLES,
        formatter_class=Help,
    )
    made.add_argument("--json", action="store_true", help="print it as JSON")
    parts = made.add_subparsers(dest="part", metavar="COMMAND", parser_class=Part)

    def part(name: str, summary: str) -> argparse.ArgumentParser:
        added = parts.add_parser(
            name, help=summary, description=summary.capitalize() + ".", epilog=EXAMPLES, formatter_class=Help
        )
        # Left out, it must not undo the one before the part's name.
        added.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print it as JSON")
        return added

    part("show", "show every pool")
    for name, summary in (
        ("reserve", "add pages to the pools"),
        ("give-back", "take pages out of the pools"),
    ):
        change = part(name, summary)
        change.add_argument("count", metavar="COUNT", type=count, help="how many pages on each node")
        change.add_argument(
            "--node", required=True, metavar="NODES", help="of which nodes, such as 0-1: all, or none"
        )
        change.add_argument("--size", help="of which page size, such as 2MiB (default: the kernel's default)")
        if name == "reserve":
            change.add_argument(
                "--partial", action="store_true", help="keep what is granted, where that is less"
            )
    return made


def main(argv: list[str], prog: str) -> int:
    """Show or change the pools; return the exit status."""
    chosen = parser(prog).parse_args(argv)
    from zerosys import hugepages

    if chosen.part in (None, "show"):
        found = [pool for sizes in hugepages.pools().values() for pool in sizes.values()]
        _tell(found, chosen.json)
        return 0
    changed, short = _change(chosen, prog)
    _tell(changed, chosen.json)
    return 1 if short else 0


def _change(chosen: argparse.Namespace, prog: str) -> tuple[list[Pool], bool]:
    """Set the pools that *chosen* names; them as they are now, and whether one was granted less."""
    from zerosys import hugepages
    from zerosys.selection import node_set

    changed, short = [], False
    with ExitStack() as undo:  # on all the nodes, or on none
        for node in sorted(node_set(chosen.node)):
            before = hugepages.pool(node, chosen.size)
            if chosen.part == "give-back":
                after = hugepages.give_back(chosen.count, node, chosen.size)
            else:
                after = hugepages.reserve(chosen.count, node, chosen.size, strict=not chosen.partial)
                granted = after.lasting - before.lasting
                if granted < chosen.count:
                    short = True
                    print(f"{prog}: node {node} granted {granted} of {chosen.count} pages", file=sys.stderr)
            undo.callback(hugepages.restore, before)
            changed.append(after)
        undo.pop_all()
    return changed, short


def _tell(pools: list[Pool], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"pools": [pool.fields() for pool in pools]}, indent=2))
        return
    if not pools:
        print("this kernel has no pools of huge pages: it was built without hugetlb")
        return
    rows = [
        (str(pool.node), show_size(pool.size), *map(str, (pool.total, pool.free, pool.surplus)))
        for pool in pools
    ]
    print(table(("NODE", "SIZE", "TOTAL", "FREE", "SURPLUS"), rows, right="NODE SIZE TOTAL FREE SURPLUS"))
