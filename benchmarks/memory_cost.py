"""What do the calls on memory and its placement add to their system calls, against C and the mmap module?

Figures are nanoseconds a call, on one page that is there; a "pair" is given for both calls together. See
loops.py for how they are taken. Calls that answer with Python's collections (get_mempolicy, move_pages)
make them within the time.
"""

import mmap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.common import Bar, Row, c_library, main
from benchmarks.loops import Call, table
from zerosys import _numa
from zerosys._mmap import MAP_PRIVATE, Mapping

PAGE = mmap.PAGESIZE
CALLS_OF = {
    "mbind a page": Call(
        "mbind_page page", {"zerosys": f"mbind(page, {PAGE}, {_numa.MPOL_BIND}, (0,))"}, None, 75
    ),
    "get_mempolicy": Call(
        "get_mempolicy_thread", {"zerosys": "get_mempolicy()"}, (_numa.MPOL_DEFAULT, frozenset()), 75
    ),
    "set_mempolicy": Call(
        "set_mempolicy_thread", {"zerosys": f"set_mempolicy({_numa.MPOL_DEFAULT})"}, None, 75
    ),
    "move_pages, ask for one": Call("move_pages_ask page", {"zerosys": "move_pages(0, pages)"}, [0], 75),
    "getcpu": Call("getcpu_call", {"zerosys": "getcpu()[1]"}, 0, 75),
    "advise a page": Call(
        "advise_page page",
        {"mmap": f"theirs.madvise({mmap.MADV_NORMAL})", "zerosys": f"mapping.advise({mmap.MADV_NORMAL})"},
        None,
        75,
    ),
    "lock + unlock a page, pair": Call(
        "lock_pair page", {"zerosys": "mapping.lock() or mapping.unlock()"}, None, 150
    ),
    "sync a page": Call("sync_page page", {"mmap": "theirs.flush()", "zerosys": "mapping.sync()"}, None, 75),
    "closed": Call(None, {"mmap": "theirs.closed", "zerosys": "mapping.closed"}, False, 30),
    "size": Call(None, {"mmap len() for": "len(theirs)", "zerosys": "mapping.size"}, PAGE, 30),
}


class Page:
    """One page of each, there and writable: ours, and the standard library's for its own calls."""

    def __init__(self, stack: ExitStack) -> None:
        self.mapping = stack.enter_context(Mapping(None, PAGE, flags=MAP_PRIVATE))
        self.theirs = stack.enter_context(mmap.mmap(-1, PAGE))
        self.mapping.populate()
        self.theirs[0] = 1
        self.page = self.mapping.address
        self.pages = (self.page,)

    def names(self) -> dict[str, object]:
        ours = ("mbind", "get_mempolicy", "set_mempolicy", "move_pages", "getcpu")
        return {**vars(self), **{name: getattr(_numa, name) for name in ours}}


@contextmanager
def build(quick: bool) -> Iterator[tuple[list[Row], list[Bar]]]:
    with ExitStack() as stack:
        yield table(CALLS_OF, Page(stack), c_library("memory_cost"), quick)


if __name__ == "__main__":
    main("memory_cost", "ns a call", build, slices=100)
