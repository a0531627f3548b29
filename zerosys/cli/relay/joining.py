"""One run of ``zerosys relay``: connections made or taken, and joined on an event loop."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import socket
import sys
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import partial

from zerosys.cli import said
from zerosys.cli.places import SOCKETS, Place, connected, listening, place
from zerosys.cli.standards import occupy, require_open
from zerosys.pumps import aio
from zerosys.pumps.aio.ends import TwoWay
from zerosys.pumps.both_ways import RelayResult

_PAUSE = 0.1  # s after an accept for which there was no descriptor left


@dataclass(frozen=True)
class Plan:
    """What was asked for, checked; if one listens it is *a*."""

    a: Place
    b: Place
    once: bool
    strict: bool
    timeout: float | None
    stall_timeout: float | None
    pipes: int
    json: bool
    prog: str


def plan(chosen: argparse.Namespace, prog: str) -> Plan:
    """The plan that the arguments describe. Raises ValueError for what makes no sense."""
    a, b = place(chosen.a), place(chosen.b)
    for end in (a, b):
        if end.kind not in (*SOCKETS, "standard"):
            raise ValueError(f"{end.text!r} cannot be read and written: pump it")
    if a.kind == b.kind == "standard":
        raise ValueError("A and B are both standard input and output")
    if b.listens and not a.listens:
        a, b = b, a
    if chosen.pipes < 1:
        raise ValueError(f"--pipes must be at least 1, not {chosen.pipes}")
    for name in ("timeout", "stall_timeout"):
        if (seconds := getattr(chosen, name)) is not None and not seconds >= 0:
            raise ValueError(f"--{name.replace('_', '-')} must be seconds, 0 or more, not {seconds}")
    # Standard input and a second listener are there once.
    once = chosen.once or not a.listens or b.listens or b.kind == "standard"
    return Plan(
        a, b, once, chosen.strict, chosen.timeout, chosen.stall_timeout, chosen.pipes, chosen.json, prog
    )


def join(plan: Plan) -> int:
    """Carry it out; return the exit status."""
    if "standard" in (plan.a.kind, plan.b.kind):
        for fd in (0, 1):
            require_open(fd)
    occupy()
    return asyncio.run(_once(plan) if plan.once else _serve(plan))


async def _once(plan: Plan) -> int:
    with ExitStack() as stack:
        ends: list[TwoWay] = []
        for end in (plan.a, plan.b):
            if end.kind == "standard":
                ends.append((0, 1))
                continue
            # Waiting for who connects is in a thread, so that Ctrl-C is answered.
            open_it = partial(stack.enter_context, connected(end, plan.prog))
            try:
                ends.append(await asyncio.to_thread(open_it) if end.listens else open_it())
            except OSError as failure:
                return _not_there(plan, end, failure)
        near, far = ends
        return 0 if await _relay(plan, near, far, aio.PipePool(plan.pipes)) else 1


def _not_there(plan: Plan, end: Place, failure: OSError) -> int:
    """Tell that *end* could not be had, and why; the exit status."""
    # By its number: asyncio's own text does not tell why.
    why = os.strerror(failure.errno) if failure.errno and failure.errno > 0 else said(failure)
    print(f"{plan.prog}: {end.text}: {why}", file=sys.stderr, flush=True)
    return 1


async def _relay(plan: Plan, a: TwoWay, b: TwoWay, pool: aio.PipePool) -> bool:
    """Join *a* and *b*; whether it went well. What went wrong is told."""
    try:
        result = await aio.relay(
            a,
            b,
            timeout=plan.timeout,
            stall_timeout=plan.stall_timeout,
            strict=plan.strict,
            pool=pool,
        )
    except OSError as failure:
        why = said(failure).partition("; stranded_bytes has")[0]  # which is for who calls from Python
        print(f"{plan.prog}: {why}", file=sys.stderr, flush=True)
        _tell(plan, getattr(failure, "result", None), why)
        return False
    _tell(plan, result, None)
    return True


def _tell(plan: Plan, result: RelayResult | None, error: str | None) -> None:
    if plan.json:
        told = {"error": error} | (asdict(result) if result else {})
        print(json.dumps(told), file=sys.stderr if plan.a.kind == "standard" else sys.stdout, flush=True)


async def _serve(plan: Plan) -> int:
    """Join each who connects, until a signal ends it."""
    _allow_descriptors()
    loop, pool = asyncio.get_running_loop(), aio.PipePool(plan.pipes)
    serving = asyncio.current_task()
    assert serving is not None
    loop.add_signal_handler(signal.SIGTERM, serving.cancel)
    connections: set[asyncio.Task[None]] = set()
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(listening(plan.a, plan.prog))
        except OSError as failure:
            return _not_there(plan, plan.a, failure)
        stack.enter_context(suppress(asyncio.CancelledError))
        listener.setblocking(False)
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as failure:  # a descriptor may be had again when one who is joined leaves
                print(f"{plan.prog}: {said(failure)}", file=sys.stderr, flush=True)
                await asyncio.sleep(_PAUSE)
                continue
            connection = asyncio.create_task(_join_one(plan, client, pool))
            connections.add(connection)
            connection.add_done_callback(connections.discard)
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)
    return 0


async def _join_one(plan: Plan, client: socket.socket, pool: aio.PipePool) -> None:
    with client:
        try:
            server = await _connect(plan.b)
        except OSError as failure:
            _not_there(plan, plan.b, failure)
            return
        with server:
            await _relay(plan, client, server, pool)


async def _connect(where: Place) -> socket.socket:
    loop = asyncio.get_running_loop()
    if where.kind == "unix":
        server = socket.socket(socket.AF_UNIX)
        address: object = where.path
    else:
        (family, kind, protocol, _, address), *_ = await loop.getaddrinfo(
            *where.address, type=socket.SOCK_STREAM
        )
        server = socket.socket(family, kind, protocol)
    try:
        server.setblocking(False)
        await loop.sock_connect(server, address)  # type: ignore[arg-type]
    except BaseException:
        server.close()
        raise
    return server


def _allow_descriptors() -> None:
    """As many as we may have: each connection wants four."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
