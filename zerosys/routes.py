"""Through which network interface an address is reached: rtnetlink(7)."""

from __future__ import annotations

import errno
import os
import socket
import struct

_NEW_ROUTE, _GET_ROUTE, _ERROR, _REQUEST = 24, 26, 2, 1
_DST, _OIF = 1, 4  # RTA_*
_LOCAL = 2  # RTN_LOCAL: one of our own addresses
_HEADER, _ROUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBBBBBI")


def interface_to(host: str) -> str:
    """The interface through which *host*, an address or a name, is reached; of our own address, its own.

    Raises OSError: gaierror for a name that is not known, ENETUNREACH where no route leads there.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    family, address = found[0][0], str(found[0][4][0])
    kind, index = _route(family, socket.inet_pton(family, address.partition("%")[0]))
    if kind == _LOCAL:
        return _owner(address) or socket.if_indextoname(index)
    return socket.if_indextoname(index)


def _route(family: int, address: bytes) -> tuple[int, int]:
    """The type of the route to *address*, and the number of its interface."""
    attribute = struct.pack("=HH", 4 + len(address), _DST) + address
    body = _ROUTE.pack(family, 8 * len(address), 0, 0, 0, 0, 0, 0, 0) + attribute
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
    ) as link:
        link.settimeout(5)
        link.send(_HEADER.pack(_HEADER.size + len(body), _GET_ROUTE, _REQUEST, 1, 0) + body)
        answer = link.recv(65536)
    length, kind, *_ = _HEADER.unpack_from(answer)
    if kind == _ERROR:
        number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        raise OSError(number, f"no route: {os.strerror(number)}")
    if kind != _NEW_ROUTE:
        raise OSError(errno.EPROTO, f"the kernel answered a question for a route with message {kind}")
    attributes = _attributes(answer[_HEADER.size + _ROUTE.size : length])
    if _OIF not in attributes:
        raise OSError(errno.ENETUNREACH, "the route leads to no interface")
    return _ROUTE.unpack_from(answer, _HEADER.size)[7], struct.unpack("=I", attributes[_OIF])[0]


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind] = data[4:length]
        data = data[length + 3 & ~3 :]
    return found


def _owner(address: str) -> str | None:
    """The interface that has *address* as its own."""
    import psutil

    for name, owned in psutil.net_if_addrs().items():
        if any(str(one.address).partition("%")[0] == address for one in owned):
            return str(name)
    return None
