"""From a device's name to its folder in sysfs, below any root; each finding what it stands on."""

from __future__ import annotations

import errno
import os

from zerosys.errors import PlacementError
from zerosys.routes import interface_to
from zerosys.sysfs import entries, lines

TYPE_CHECKING = False  # typing costs a command milliseconds, and is needed by checkers alone
if TYPE_CHECKING:
    from collections.abc import Iterator


def missing(what: str, why: str) -> PlacementError:
    """The error for a device that is not there."""
    return PlacementError(errno.ENODEV, f"{what}: {why}")


def pci_folder(base: str, address: str) -> str:
    """The folder of ``[domain:]bus:device[.function]``, numactl's ``bus:device:function`` too."""
    folder = f"{base}/sys/bus/pci/devices/{pci_address(address)}"
    if not os.path.isdir(folder):
        raise missing(f"pci:{address}", "there is no such device (ls /sys/bus/pci/devices)")
    return os.path.realpath(folder)


def pci_address(text: str) -> str:
    """*text* as sysfs writes a PCI address; ValueError for what is none."""
    front, dot, function = text.strip().lower().partition(".")
    parts = front.split(":")
    if not dot and len(parts) in (3, 4) and len(parts[-1]) == 1:  # bus:device:function
        function, parts = parts[-1], parts[:-1]
    if len(parts) == 2:
        parts.insert(0, "0")
    try:
        domain, bus, device = (int(part, 16) for part in parts)
        return f"{domain:04x}:{bus:02x}:{device:02x}.{int(function or '0', 16):x}"
    except ValueError:
        raise ValueError(f"{text[:80]!r} is no PCI address such as 0000:3b:00.0 or 3b:00.0") from None


def netdev_folders(base: str, name: str) -> list[str]:
    """The folders of the hardware under a network interface: its own, or of those that it joins."""
    return _hardware(f"{base}/sys/class/net", name, f"netdev:{name}", "ip link")


def block_folders(base: str, name: str) -> list[str]:
    """The folders of the hardware under a block device, given by its name or the path of its file."""
    if "/" in name:
        try:
            number = os.stat(name).st_rdev
        except OSError as refusal:
            raise missing(f"block:{name}", str(refusal.strerror)) from refusal
        if not number:
            raise missing(f"block:{name}", "this is no device; file: takes a file")
        return _of_number(base, number, f"block:{name}")
    return _hardware(f"{base}/sys/class/block", name, f"block:{name}", "lsblk")


def file_folders(base: str, path: str) -> list[str]:
    """The folders of the hardware on which the file system of *path* lies."""
    try:
        number = os.stat(path).st_dev
    except OSError as refusal:
        raise missing(f"file:{path}", str(refusal.strerror)) from refusal
    if os.major(number):
        return _of_number(base, number, f"file:{path}")
    source = _mount_source(base, number)
    if source is None or not source.startswith("/dev/"):
        raise missing(f"file:{path}", f"its file system ({source or 'unknown'}) lies on no block device")
    return block_folders(base, os.path.basename(os.path.realpath(source)))


def ip_folders(base: str, host: str) -> list[str]:
    """The folders of the hardware through which *host* is reached."""
    try:
        return netdev_folders(base, interface_to(host))
    except PlacementError:
        raise
    except UnicodeError as wrong:
        raise ValueError(f"ip:{host[:80]}: no host has such a name") from wrong
    except OSError as refusal:
        raise missing(f"ip:{host}", refusal.strerror or str(refusal)) from refusal


def _of_number(base: str, number: int, what: str) -> list[str]:
    link = f"{base}/sys/dev/block/{os.major(number)}:{os.minor(number)}"
    if not os.path.exists(link):
        raise missing(what, f"sysfs has no block device {os.major(number)}:{os.minor(number)}")
    folder = os.path.realpath(link)
    return _hardware(os.path.dirname(folder), os.path.basename(folder), what, "lsblk")


def _hardware(parent: str, name: str, what: str, lister: str) -> list[str]:
    folder = f"{parent}/{name}"
    if name in ("", ".", "..") or "/" in name or not os.path.isdir(folder):
        raise missing(what, f"there is no such device ({lister})")
    return sorted(set(_below(os.path.realpath(folder), depth=8)))


def _below(folder: str, depth: int) -> Iterator[str]:
    """The folder itself, or for a bond, a mapped or a striped device those that it is made of."""
    lower = [f"{folder}/slaves/{name}" for name in entries(f"{folder}/slaves")]
    lower += [f"{folder}/{name}" for name in entries(folder) if name.startswith("lower_")]
    subsystem = os.path.dirname(folder)
    if "/nvme-subsystem/" in f"{subsystem}/":  # a disk of several paths: its controllers are links here
        lower += [
            f"{subsystem}/{name}"
            for name in entries(subsystem)
            if os.path.islink(f"{subsystem}/{name}/device")
        ]
    if not lower or not depth:
        yield folder
    for one in lower:
        yield from _below(os.path.realpath(one), depth - 1)


def _mount_source(base: str, number: int) -> str | None:
    """What is mounted there, of a file system that has no device number of its own."""
    wanted = f"{os.major(number)}:{os.minor(number)}"
    for line in lines(f"{base}/proc/self/mountinfo"):
        front, dash, back = line.partition(" - ")
        if dash and front.split(" ")[2] == wanted:
            return back.split(" ")[1]
    return None
