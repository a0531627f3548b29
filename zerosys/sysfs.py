"""Small files of sysfs and procfs, read below any root; what is not there is None or nothing."""

from __future__ import annotations

import errno
import os
from io import FileIO

from zerosys.nodes import parse_list

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Not there, or hidden from us: either way it is not told.
_UNTOLD = (FileNotFoundError, NotADirectoryError, PermissionError)


def text(path: str) -> str | None:
    """What the file says, stripped; None where there is none. Bytes that are no UTF-8 are kept as surrogates.

    Names in it are whatever somebody chose: a process's own is cut after 15 bytes, in the middle of a letter.
    """
    try:
        with FileIO(path) as file:  # which owns its descriptor from the start, whatever signal comes
            said = file.readall()
    except _UNTOLD:
        return None
    except OSError as gone:
        if gone.errno != errno.ENODEV:  # its device went while we read
            raise
        return None
    return said.decode(errors="surrogateescape").strip(" \n\0")  # recorded trees keep a NUL at the end


def lines(path: str) -> list[str]:
    """The lines of the file. Only a newline ends one: names have all that str.splitlines() would cut at."""
    return (text(path) or "").split("\n")


def number(path: str) -> int | None:
    """The whole number that the file says; None where it says none."""
    said = text(path) or ""
    digits = said.removeprefix("-")
    return int(said) if digits.isascii() and digits.isdigit() else None


def entries(folder: str) -> list[str]:
    """The names in *folder*; none where there is no such folder."""
    try:
        return os.listdir(folder)
    except _UNTOLD:
        return []


def numbered(folder: str, prefix: str, suffix: str = "") -> list[int]:
    """The numbers of the entries called *prefix*NUMBER*suffix*, ascending."""
    return sorted(_numbers(entries(folder), prefix, suffix))


def _numbers(names: list[str], prefix: str, suffix: str) -> Iterator[int]:
    for name in names:
        if name.startswith(prefix) and name.endswith(suffix):
            digits = name[len(prefix) : len(name) - len(suffix)]
            if digits.isascii() and digits.isdigit():
                yield int(digits)


# What a file says that cannot be read as the kernel writes it is ValueError, which names the file: such are
# trees that somebody recorded, and what a container's file system puts in the kernel's place.


def strange(path: str, wrong: ValueError) -> ValueError:
    """The error of a file that says something else than the kernel does."""
    return ValueError(f"{path}: {wrong}")


def listed(path: str) -> frozenset[int] | None:
    """The set that the file lists; None where there is none."""
    said = text(path)
    try:
        return None if said is None else parse_list(said)
    except ValueError as wrong:
        raise strange(path, wrong) from None


def members(list_file: str, mask_file: str) -> frozenset[int]:
    """The set that a file tells as a list, or where that is not there another as a mask of bits."""
    found = listed(list_file)
    if found is not None:
        return found
    words = (text(mask_file) or "0").split(",")
    try:
        bits = int("".join(word.strip().rjust(8, "0") for word in words), 16)
    except ValueError as wrong:
        raise strange(mask_file, wrong) from None
    return frozenset(number for number in range(bits.bit_length()) if bits >> number & 1)


def fields(path: str, prefix: str = "") -> dict[str, str]:
    """The ``key: value`` lines of the file, without *prefix*."""
    found = {}
    for line in lines(path):
        key, colon, value = line.strip().removeprefix(prefix).partition(":")
        if colon:
            found[key.strip()] = value.strip()
    return found


def sizes(path: str, prefix: str = "") -> dict[str, int]:
    """The lines of the file that are sizes (``MemFree: 123 kB``), in bytes."""
    told = fields(path, prefix).items()
    try:
        return {key: int(value[:-2]) * 1024 for key, value in told if value.endswith(" kB")}
    except ValueError as wrong:
        raise strange(path, wrong) from None


def thread_status(root: str = "") -> dict[str, str]:
    """The fields of /proc/thread-self/status, or of /proc/self/status in a recorded tree."""
    return fields(f"{root}/proc/thread-self/status") or fields(f"{root}/proc/self/status")


def capable(capability: int) -> bool:
    """Whether this thread has *capability*, such as 23 (CAP_SYS_NICE), in effect; False without procfs."""
    return bool(int(thread_status().get("CapEff", "0"), 16) >> capability & 1)
