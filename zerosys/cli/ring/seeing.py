"""``zerosys ring ls | stat | tail | rm``: what there is, what it has carried, what comes now."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from zerosys.cli import said
from zerosys.cli.table import plain, table
from zerosys.errors import NotReady
from zerosys.names import SHM
from zerosys.ring.base import Ring
from zerosys.ring.files import DATA
from zerosys.sizes import show_size


def attached(name: str) -> Ring:
    """The ring of that name, of either kind."""
    try:
        ring: Ring = Ring.attach(name)
    except FileNotFoundError:
        why = "there is no ring of this name; zerosys ring ls lists what there is"
        raise FileNotFoundError(errno.ENOENT, why, name) from None
    return ring


def _names() -> list[str]:
    """Names that have a ring's second file beside them."""
    there = set(os.listdir(SHM))
    return sorted(name for name in there if name + DATA in there)


def about(ring: Ring) -> dict[str, Any]:
    """Everything that is told of a ring."""
    return {
        "name": ring.name,
        "kind": ring.kind,
        "format": ring.format,
        "item_size": ring.item_size,
        "capacity": ring.capacity,
        "on_full": ring.on_full,
        "on_dead": ring.on_dead,
        "slots": ring.slots,
        **ring.stat(),
    }


def ls(chosen: argparse.Namespace, prog: str) -> int:
    """List the rings; those that cannot be looked into are named on stderr."""
    found, status = [], 0
    for name in _names():
        try:
            with attached(name) as ring:
                found.append(about(ring))
        except FileNotFoundError:
            continue  # gone meanwhile
        except (OSError, ValueError, NotReady) as refused:
            print(f"{prog}: {plain(name)}: {said(refused)}", file=sys.stderr)
            status = 1
    if chosen.json:
        for one in found:
            print(json.dumps(one))
        return status
    head = "NAME KIND FORMAT CAPACITY ON-FULL WRITER READERS ITEMS LOST".split()
    rows = [
        [
            plain(str(one["name"])), one["kind"], plain(one["format"]), show_size(one["capacity"]),
            one["on_full"], _writer(one), f"{len(_present(one))}/{one['slots']}",
            f"{one['items']:,}", f"{_lost(one):,}",
        ]
        for one in found
    ]  # fmt: skip
    print(table(head, rows, right="CAPACITY ITEMS LOST"))
    return status


def _present(one: dict[str, Any]) -> list[dict[str, Any]]:
    return [reader for reader in one["readers"] if reader["state"] != "left"]


def _lost(one: dict[str, Any]) -> int:
    return int(one["lost"] + sum(reader["lost"] for reader in one["readers"]))


def _writer(one: dict[str, Any]) -> str:
    if one["state"] == "left":
        return "ended" if one["closed"] else "none"
    return f"{one['pid']} {one['state']}" if one["state"] != "alive" else str(one["pid"])


def stat(chosen: argparse.Namespace, prog: str) -> int:
    """Tell a ring's counters, once or again and again."""
    with attached(chosen.name) as ring:
        before, then = None, 0.0
        while True:
            now, told = time.monotonic(), about(ring)
            if before:
                told["items_per_second"] = (told["items"] - before["items"]) / (now - then)
                told["bytes_per_second"] = (told["bytes"] - before["bytes"]) / (now - then)
            print(json.dumps(told) if chosen.json else _page(told), flush=True)
            if chosen.watch is None or told["closed"]:
                return 0
            before, then = told, now
            time.sleep(chosen.watch)


def _page(one: dict[str, Any]) -> str:
    rate = ""
    if "items_per_second" in one:
        rate = f"  {one['items_per_second']:,.0f} items/s  {show_size(int(one['bytes_per_second']))}/s"
    lines = [
        f"{plain(str(one['name']))}: {one['kind']} of {plain(one['format'])}, {show_size(one['capacity'])}, "
        f"on_full={one['on_full']}, on_dead={one['on_dead']}" + (", ended" if one["closed"] else ""),
        f"written {one['items']:,} ({show_size(one['bytes'])}){rate}",
    ]
    head = "END PROCESS STATE ITEMS LOST LAG HIGH-WATER BLOCKED".split()
    ends = [_row("writer", one, "")]
    ends += [_row(f"reader {reader['slot']}", reader, f"{reader['lag']:,}") for reader in _present(one)]
    return "\n".join([*lines, table(head, ends, right="PROCESS ITEMS LOST LAG HIGH-WATER BLOCKED")])


def _row(end: str, told: dict[str, Any], lag: str) -> list[str]:
    pid = str(told["pid"]) if told["pid"] and told["state"] != "left" else ""
    return [
        end, pid, told["state"], f"{told['items']:,}", f"{told['lost']:,}", lag, f"{told['high_water']:,}",
        f"{told['blocked']:.3f} s",
    ]  # fmt: skip


def tail(chosen: argparse.Namespace, prog: str) -> int:
    """Print what comes, an item or message a line."""
    with attached(chosen.name) as ring, ring.reader("oldest" if chosen.oldest else "next") as reader:  # type: ignore[attr-defined]
        left = chosen.n
        for one in _each(ring, reader, chosen.n):
            print(json.dumps(_told(one)) if chosen.json else _shown(one), flush=True)
            left = None if left is None else left - 1
            if left == 0:
                return 0
    return 0


def _each(ring: Ring, reader: Any, most: int | None) -> Iterator[Any]:
    """Messages as bytes, items as Python values; none is taken that is not printed."""
    if ring.kind == "messages":
        while window := reader.peek():
            with window:
                message = window.tobytes()
            yield message
        return
    if ring.on_full == "overwrite":
        room = bytearray(ring.item_size)
        while reader.read_into(room):
            yield from _values(room, ring)
        return
    left = most
    while window := reader.peek_some(left):
        with window:
            values = _values(window, ring)
        yield from values
        left = None if left is None else left - len(values)


def _values(items: Any, ring: Ring) -> list[Any]:
    import numpy as np

    values: list[Any] = np.frombuffer(items, ring.dtype).tolist()
    return values


def _told(one: Any) -> Any:
    if isinstance(one, bytes):
        return {"bytes": len(one), "hex": one.hex()}
    if isinstance(one, complex):
        return [one.real, one.imag]
    return one


def _shown(one: Any) -> str:
    if not isinstance(one, bytes):
        return str(one)
    try:
        return plain(one.decode())
    except UnicodeDecodeError:
        return one.hex(" ")


def rm(chosen: argparse.Namespace, prog: str) -> int:
    """Remove names, and with each its data's; who is not there, or no ring, is told."""
    status = 0
    for name in chosen.names:
        try:
            with attached(name) as ring:
                ring.unlink()
        except (OSError, ValueError, NotReady) as refused:
            print(f"{prog}: {plain(name)}: {said(refused)}", file=sys.stderr)
            status = 1
    return status
