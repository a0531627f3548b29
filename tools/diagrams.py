"""Draw the diagrams of the documentation: docs/diagrams/*.svg. Run after changing one; the files are kept."""

from __future__ import annotations

from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "docs/diagrams"
INK, FAINT, BLUE, SAND, GREEN = "#1b1f24", "#6e7781", "#cfe3f5", "#f6ecd2", "#d8efdc"


class Drawing:
    """Shapes on a page of *width* by *height* units."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            'font-family="sans-serif" font-size="13">',
            f"<title>{title}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def box(self, x: float, y: float, w: float, h: float, *lines: str, fill: str = BLUE) -> None:
        """A box with *lines* in its middle; the first is the name, the others are about it."""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="5" fill="{fill}" stroke="{INK}"/>'
        )
        top = y + h / 2 - 8 * (len(lines) - 1) + 4.5
        for n, line in enumerate(lines):
            style = 'font-weight="bold"' if n == 0 and len(lines) > 1 else ""
            self.text(x + w / 2, top + 16 * n, line, anchor="middle", style=style)

    def text(self, x: float, y: float, line: str, *, anchor: str = "start", style: str = "") -> None:
        self._parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{INK}" {style}>{line}</text>')

    def note(self, x: float, y: float, line: str, *, anchor: str = "start") -> None:
        self._parts.append(
            f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{FAINT}" font-size="11.5">{line}</text>'
        )

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        path = " ".join(f"{x},{y}" for x, y in points)
        dash = 'stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.4" {dash} '
            'marker-end="url(#tip)"/>'
        )

    def save(self, name: str) -> None:
        (TARGET / name).write_text("\n".join([*self._parts, "</svg>", ""]))


def page_life() -> None:
    """The order in which memory is made, and what goes wrong in another."""
    steps = [
        ("size", "ftruncate"),
        ("seal", "no shrinking"),
        ("map", "mmap"),
        ("bind", "mbind"),
        ("populate", "write each page"),
        ("verify", "move_pages asks"),
        ("lock", "mlock"),
        ("register", "the GPU's driver"),
        ("verify", "again"),
    ]
    drawing = Drawing(780, 295, "The life of a page, from size to the second verification")
    at = []
    for n, (name, how) in enumerate(steps):
        row, column = divmod(n, 5)
        x, y = 15 + 153 * column, 20 + 130 * row
        at.append((x, y))
        drawing.box(x, y, 128, 48, name, how, fill=GREEN if name == "verify" else SAND if n > 5 else BLUE)
        if column:
            drawing.arrow((x - 25, y + 24), (x - 3, y + 24))
    drawing.arrow((691, 70), (691, 122), (79, 122), (79, 147))
    drawing.note(15, 86, "fallocate here would put every")
    drawing.note(15, 100, "page on the wrong node")
    drawing.note(310, 215, "only where it was asked for", anchor="middle")
    drawing.note(
        15,
        245,
        "verify: the kernel shrinks masks and spills to other nodes without a word: each page is asked.",
    )
    drawing.note(15, 262, "again: registering may move pages out of zones that cannot hold pinned ones.")
    drawing.note(
        15,
        279,
        "populate is the reservation: a full /dev/shm or an empty pool is an OSError now, not SIGBUS later.",
    )
    drawing.save("page-life.svg")


def mirror() -> None:
    """A ring's data, mapped twice in a row."""
    drawing = Drawing(
        780, 250, "A ring's data file is mapped twice in a row, so that a window may cross its end"
    )
    drawing.text(15, 30, "in the file", style='font-weight="bold"')
    drawing.box(250, 45, 260, 40, "", fill=BLUE)
    drawing.box(250, 45, 60, 40, "B", fill=GREEN)
    drawing.box(440, 45, 70, 40, "A", fill=GREEN)
    drawing.note(375, 70, "free", anchor="middle")
    drawing.text(15, 130, "in each process", style='font-weight="bold"')
    for x, what in ((120, "first mapping"), (380, "second mapping")):
        drawing.box(x, 150, 260, 40, "", fill=BLUE)
        drawing.box(x, 150, 60, 40, "B", fill=GREEN)
        drawing.box(x + 190, 150, 70, 40, "A", fill=GREEN)
        drawing.note(x + 130, 207, what, anchor="middle")
    drawing.arrow((330, 88), (250, 147), dashed=True)
    drawing.arrow((430, 88), (510, 147), dashed=True)
    drawing.arrow((310, 228), (438, 228))
    drawing.arrow((438, 228), (310, 228))
    drawing.note(374, 244, "one window, A then B, without a seam", anchor="middle")
    drawing.save("mirror.svg")


def aliasing() -> None:
    """Why an empty pipe proves nothing after vmsplice."""
    drawing = Drawing(780, 210, "vmsplice lends a page; it is read later, by whoever holds a reference")
    drawing.box(15, 70, 120, 56, "your buffer", "one page", fill=SAND)
    drawing.box(220, 70, 120, 56, "pipe 1", "empty again")
    drawing.box(425, 70, 120, 56, "pipe 2", "holds the page")
    drawing.box(630, 70, 130, 56, "the last reader", "reads now", fill=GREEN)
    drawing.arrow((138, 98), (217, 98))
    drawing.note(178, 88, "vmsplice", anchor="middle")
    drawing.arrow((343, 98), (422, 98))
    drawing.note(383, 88, "splice, tee", anchor="middle")
    drawing.arrow((548, 98), (627, 98))
    drawing.note(588, 88, "read", anchor="middle")
    drawing.arrow((485, 129), (485, 165), (75, 165), (75, 130), dashed=True)
    changes = "the same page: a write to the buffer still changes what the last reader gets"
    drawing.note(280, 182, changes, anchor="middle")
    drawing.note(280, 50, "FIONREAD is 0: this proves nothing", anchor="middle")
    drawing.save("aliasing.svg")


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    page_life()
    mirror()
    aliasing()
