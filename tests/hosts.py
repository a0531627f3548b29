"""Hosts of our own: network namespaces, each with an address, joined by a bridge, gone after the block."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def refusal() -> str | None:
    """Why this machine makes no such hosts, or None."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    if not shutil.which("ip"):
        return "the command ip is missing: apt-get install iproute2"
    name = f"zs-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return made.stderr.strip()
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def hosts(count: int, folder: Path) -> Iterator[tuple[list[str], Path]]:
    """Make *count* hosts that reach one another; give their addresses, and a command that runs on one.

    The command is called as rsh is: HOST WORDS..., with an address as HOST. The first host is where
    launchers run: everything happens in namespaces, and nothing outside them is reached.
    """
    tag = f"zs{os.getpid()}"
    names = [f"{tag}-{n}" for n in range(count)]
    addresses = [f"10.83.0.{n + 1}" for n in range(count)]
    hub = f"{tag}-hub"
    on = folder / "on-host"
    on.write_text(
        f'#!/bin/sh\nhost=$1; shift\nexec ip netns exec "{tag}-$((${{host##*.}} - 1))" sh -c "$*"\n'
    )
    on.chmod(0o755)
    try:
        _ip("netns", "add", hub)
        _ip("-n", hub, "link", "add", "hub", "type", "bridge")
        _ip("-n", hub, "link", "set", "hub", "up")
        for n, (name, address) in enumerate(zip(names, addresses, strict=True)):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "add", "net0", "type", "veth", "peer", "name", f"port{n}", "netns", hub)
            _ip("-n", hub, "link", "set", f"port{n}", "master", "hub", "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "net0")
            _ip("-n", name, "link", "set", "net0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield addresses, on
    finally:
        for name in [*names, hub]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
