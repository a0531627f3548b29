"""How a recording spells its samples: SigMF's datatypes (cu8, ci16_le, ...) as numpy dtypes and back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GRAMMAR = re.compile(r"([rc])(?:([fiu])(16|32|64)(?:_(le|be))?|([iu])8)")
# What other programs call the same: the ends of their files' names.
_ALIASES = {
    "cs8": "ci8",
    "cs16": "ci16_le",
    "fc32": "cf32_le",
    "cfile": "cf32_le",
    "complex64": "cf32_le",
    "cfloat": "cf32_le",
}
_BITS = {"f": ("32", "64"), "i": ("16", "32"), "u": ("16", "32")}
REMEDY = (
    "it is r or c (real, complex), then i8, u8, i16, u16, i32, u32, f32 or f64, then _le or _be "
    "(default _le), such as cu8, ci16 or cf32_le"
)


@dataclass(frozen=True)
class SampleFormat:
    """One datatype of SigMF: :attr:`name` as its metadata spells it, :attr:`dtype` as a ring's items.

    A complex float is numpy's own complex; a complex integer, which numpy has not, is a record of the
    fields ``i`` and ``q``.
    """

    name: str
    dtype: np.dtype[Any]

    @classmethod
    def parse(cls, text: str) -> SampleFormat:
        """Return the format that *text* names, the usual names of raw files among them (cs16, cfile).

        Raises ValueError for any other.
        """
        import numpy as np

        found = _GRAMMAR.fullmatch(_ALIASES.get(text.lower(), text.lower()))
        if found is None or (found[2] and found[3] not in _BITS[found[2]]):
            raise ValueError(f"{text!r} is no sample format: {REMEDY}")
        whole, kind, bits = found[1], found[2] or found[5], int(found[3] or 8)
        order = found[4] or "le"
        part = np.dtype(f"{'>' if order == 'be' else '<'}{kind}{bits // 8}")
        name = f"{whole}{kind}{bits}" + (f"_{order}" if bits > 8 else "")
        if whole == "r":
            return cls(name, part)
        if kind == "f":
            return cls(name, np.dtype(f"{part.byteorder.replace('=', '<')}c{bits // 4}"))
        return cls(name, np.dtype([("i", part), ("q", part)]))

    @classmethod
    def of(cls, dtype: Any) -> SampleFormat:
        """Return the format whose items are *dtype*, or any two equal integers in a row.

        Raises ValueError where SigMF has no name for such items.
        """
        import numpy as np

        asked = np.dtype(dtype)
        parts = [field[0] for field in (asked.fields or {}).values()] or [asked.base] * asked.itemsize
        part, whole = parts[0], "c" if asked.fields or asked.kind == "c" or asked.shape == (2,) else "r"
        kind, bits = part.kind.replace("c", "f"), part.itemsize * (4 if part.kind == "c" else 8)
        order = "_be" if part.byteorder == ">" else "_le"
        if kind in "fiu":
            try:
                made = cls.parse(f"{whole}{kind}{bits}{order if bits > 8 else ''}")
            except ValueError:
                made = None
            if made and made.dtype.itemsize == asked.itemsize and set(parts) == {part}:
                return made
        raise ValueError(f"SigMF has no name for items of {asked}: write them raw")

    def complex_of(self, items: Any) -> NDArray[np.complex64]:
        """Return *items*, a buffer of this format, as complex64; integers become fractions of their range."""
        import numpy as np

        raw = np.frombuffer(items, self.dtype)
        if self.dtype.kind in "cf":
            return raw.astype(np.complex64)
        part = np.dtype(self.dtype[0]) if self.dtype.fields else self.dtype
        limits = np.iinfo(part)
        middle = (limits.max + limits.min) / 2 if part.kind == "u" else 0
        reals = (raw.view(part).astype(np.float32) - np.float32(middle)) / np.float32(limits.max - middle)
        return reals.view(np.complex64) if self.dtype.fields else reals.astype(np.complex64)
