"""numastat's tables: their widths, their order and how they are folded into the width of a terminal."""

from __future__ import annotations

import os

from zerosys.cli.c_numbers import atoi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PLAIN_COLUMN = 16  # with the space before it; longer numbers are cut, as in the original
_LABEL, _LONGEST_LABEL, _LONGEST_COMPACT_LABEL = 15, 23, 15
_NARROWEST, _USUAL, _WIDEST = 32, 80, 10_000_000


class Table:
    """Numbers by row and column; a row is there once a number was added to it.

    With *total* there is a further column with the sum of each row's numbers; with *footer* a
    last row, under a line, with the sum of each column's.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[str],
        *,
        total: bool = True,
        footer: bool = False,
        corner: str = "",
    ) -> None:
        self.columns = [*columns, "Total"] if total else list(columns)
        self.labels = list(rows)
        self.cells = [[0.0] * len(self.columns) for _ in self.labels]
        self.given = [False] * len(self.labels)
        self.order = list(range(len(self.labels)))
        self.total, self.footer, self.corner = total, footer, corner
        self.used_rows: set[int] = set()  # those with something other than 0
        self.used_columns: set[int] = set()

    def add(self, row: int, column: int | None, amount: float) -> None:
        """Add *amount*; to the total alone where *column* is None, of a node that is not shown."""
        self.given[row] = True
        total = [len(self.columns) - 1] if self.total else []
        for target in total if column is None else [column, *total]:
            self.cells[row][target] += amount
            if amount:
                self.used_rows.add(row)
                self.used_columns.add(target)

    def empty(self) -> None:
        """Make every number 0. The order stays, and rows and columns that were used are shown still."""
        for cells in self.cells:
            cells[:] = [0.0] * len(cells)

    def sort(self, column: int) -> None:
        """Order the rows by *column*, the greatest first."""
        order = self.order
        # The original has a row change places with the greatest below: that is the order of equal ones.
        for place in range(len(order)):
            best = max(range(place, len(order)), key=lambda at: (self.cells[order[at]][column], -at))
            order[place], order[best] = order[best], order[place]

    def text(
        self, *, compact: bool = False, skip_zeros: bool = False, decimals: int = 2, width: int | None = None
    ) -> str:
        """The table in lines; one below the other in pieces, where its columns do not fit *width*."""
        rows = [row for row in self.order if self.given[row]]
        if not rows:
            return "Table has no data.\n"
        columns = list(range(len(self.columns)))
        if skip_zeros:
            rows = [row for row in rows if row in self.used_rows]
            columns = [column for column in columns if column in self.used_columns]
            if not any(map(any, self.cells)):
                return "Table has no non-zero data.\n"
        lines = self._lines(rows, columns, decimals)
        widths = self._widths(lines, compact)
        if self.total:
            rule = ["-" * (size - 1) for size in widths]
            lines.insert(1, [rule[0] if self.corner else "", *rule[1:]])
            if self.footer:
                lines.insert(-1, rule)
        return _folded(lines, widths, width)

    def _lines(self, rows: list[int], columns: list[int], decimals: int) -> list[list[str]]:
        """The texts of each line: the columns' names, the rows, and the footer where there is one."""
        body = [(self.labels[row], [self.cells[row][column] for column in columns]) for row in rows]
        if self.footer:
            sums = [sum(cells) for cells in zip(*(cells for _, cells in body), strict=True)]
            body.append(("Total", sums))
        head = [self.corner, *(self.columns[column] for column in columns)]
        return [head] + [[label, *(f"{cell:.{decimals}f}" for cell in cells)] for label, cells in body]

    def _widths(self, lines: list[list[str]], compact: bool) -> list[int]:
        label = max(map(len, self.labels))
        if compact:
            cells = [max(map(len, cells)) + 1 for cells in zip(*(line[1:] for line in lines), strict=True)]
            return [min(label, _LONGEST_COMPACT_LABEL) + 1, *cells]
        shortest = _LABEL + self.footer
        return [min(max(label, shortest), _LONGEST_LABEL) + 1, *[_PLAIN_COLUMN] * (len(lines[0]) - 1)]


def _folded(lines: list[list[str]], widths: list[int], width: int | None) -> str:
    """*lines* in pieces of as many columns as fit *width*, each with the labels and at least one column."""
    pieces, start = [], 1
    while start < len(widths):
        end, taken = start + 1, widths[0] + widths[start]
        while end < len(widths) and (width is None or taken + widths[end] <= width):
            taken += widths[end]
            end += 1
        pieces.append("".join(_line(line, widths, start, end) for line in lines))
        start = end
    return "\n".join(pieces)


def _line(line: list[str], widths: list[int], start: int, end: int) -> str:
    pairs = zip(line[start:end], widths[start:end], strict=True)
    cells = "".join(cell[:size].rjust(size) for cell, size in pairs)
    return f"{line[0][: widths[0]].ljust(widths[0])}{cells}\n"


def terminal_width() -> int | None:
    """The width to fold at: NUMASTAT_WIDTH, else the terminal's; None where the output is no terminal."""
    asked = os.environ.get("NUMASTAT_WIDTH")
    if asked is not None:
        width = atoi(asked)
    elif os.isatty(1):
        width = os.get_terminal_size(1).columns
    else:
        return None
    return max(width, _NARROWEST) if 1 <= width <= _WIDEST else _USUAL
