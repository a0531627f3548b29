"""Two processes, on CPU 0 and CPU 1, joined by a peer of ring_peers: what got through, and how fast?"""

import os
import subprocess
import time
from collections.abc import Callable, Iterable
from itertools import cycle, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Row
from benchmarks.ring_peers import Peer, Take, Words

TwoFigures = Callable[[], Iterable[float]]
FORK = get_context("fork")
# Messages are looked at by so many within the clock: kept for longer, they would fault in fresh memory, and
# the clock would measure that. Small ones are all summed; of larger ones both numbers are looked at,
# and the sum over every byte in a run before, without a clock.
SMALL, CHUNK = 512, 1024
WARM = 32  # batches of records that are made before the clock starts, and sent again and again
IDLE = 10_000  # times that nothing comes after the sender is done: what was dropped is lost
PATIENCE = 60.0


def pin(cpu: int) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[cpu % len(allowed)]})


class Meeting:
    """What the two ends say to each other beside the channel."""

    def __init__(self) -> None:
        self.listening, self.sending, self.ready, self.received = (FORK.Event() for _ in range(4))
        self.sent = FORK.Value("b", 0, lock=False)
        self._idle = 0

    def over(self) -> bool:
        """Whether nothing more can come: asked where a receiver found nothing, and cheap."""
        self._idle = self._idle + 1 if self.sent.value else 0
        return self._idle > IDLE


def _end(work: Callable[..., object], cpu: int, answer: Any, *words: object) -> None:
    pin(cpu)
    try:
        answer.send((True, work(*words)))
    except BaseException as failure:
        answer.send((False, repr(failure)))
    answer.close()
    os._exit(0)  # the peers' own clearing up at exit is not our question


def both(first: Callable[..., Any], second: Callable[..., Any], *words: object) -> tuple[Any, Any]:
    """Run *first* and *second* in a process each; return what each returned. An end that fails, fails us."""
    ends = []
    for cpu, work in enumerate((first, second)):
        ours, theirs = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_end, args=(work, cpu, theirs, *words), daemon=True)
        process.start()
        theirs.close()
        ends.append((process, ours))
    try:
        answers = [_answer(process, ours) for process, ours in ends]
    finally:
        for process, ours in ends:
            process.kill()
            process.join()
            ours.close()
    return answers[0], answers[1]


def _answer(process: Any, ours: Any) -> Any:
    if not ours.poll(PATIENCE):
        raise AssertionError(f"no answer within {PATIENCE:g} s")
    try:
        fine, answer = ours.recv()
    except EOFError:
        process.join(5)
        raise AssertionError(f"an end died with {process.exitcode}") from None
    if not fine:
        raise AssertionError(answer)
    return answer


# --- messages -------------------------------------------------------------------------------------


def numbered(count: int, size: int) -> list[bytes]:
    """So many messages, each with its number in front and in the end, and ones between."""
    middle = np.ones(size // 8 - 2, np.uint64).tobytes()
    ends = [number.to_bytes(8, "little") for number in range(count)]
    return [end + middle + end for end in ends]


def number_of(message: Any) -> int:
    return int.from_bytes(message[:8], "little")


def check(messages: list[Any], start: int, size: int) -> int:
    """The sum over *messages*, which must be whole and ascend from *start*."""
    words = np.frombuffer(b"".join(messages), np.uint64).reshape(len(messages), size // 8)
    numbers = words[:, 0]
    if not np.array_equal(numbers, words[:, -1]):
        raise AssertionError("a message is torn")
    if np.any(numbers < start) or np.any(np.diff(numbers.astype(np.int64)) < 1):
        raise AssertionError("messages came twice, or out of order")
    return int(words.sum(dtype=np.uint64))


def glance(messages: list[Any], start: int) -> None:
    """As check(), by the first and the last number of each message alone."""
    following = start
    for message in messages:
        number = number_of(message)
        if number < following or bytes(message[-8:]) != bytes(message[:8]):
            raise AssertionError("a message is torn, doubled or out of order")
        following = number + 1


def _send_all(peer: Peer, meet: Meeting, count: int, batch: int, _whole: bool) -> None:
    messages = numbered(count, peer.size)
    batches = [messages[at : at + batch] for at in range(0, count, batch)] if batch > 1 else []
    meet.listening.wait(PATIENCE)
    send: Any = peer.many_sender() if batch > 1 else peer.sender()  # type: ignore[attr-defined]
    meet.sending.set()
    for message in messages if batch == 1 else ():
        while not send(message):
            pass
    for some in batches:
        while some:
            some = some[send(some) :]
    meet.sent.value = 1
    meet.received.wait(PATIENCE)  # a peer may drop what it holds when its sender leaves


def _receive_all(peer: Peer, meet: Meeting, count: int, batch: int, whole: bool) -> tuple[float, int]:
    take: Any = peer.many_receiver() if batch > 1 else peer.receiver()  # type: ignore[attr-defined]
    meet.listening.set()
    meet.sending.wait(PATIENCE)
    chunk = CHUNK if peer.size <= SMALL else CHUNK // 16
    got, total, following = 0, 0, 0
    messages = _many(take, 1, batch, meet)
    start = time.perf_counter()
    while messages:
        if whole:
            total += check(messages, following, peer.size)
        else:
            glance(messages, following)
        got, following = got + len(messages), number_of(messages[-1]) + 1
        messages = _many(take, min(chunk, count - got), batch, meet) if got < count else []
    seconds = time.perf_counter() - start
    meet.received.set()
    right = count * (count - 1) + count * (peer.size // 8 - 2)
    if whole and got == count and total != right:
        raise AssertionError(f"the sum is {total}, not {right}")
    return seconds, got


def _many(take: Any, count: int, batch: int, meet: Meeting) -> list[Any]:
    """The next *count* messages; fewer only where the sender is done and nothing more comes."""
    messages: list[Any] = []
    if batch > 1:
        while len(messages) < count:
            some = take(min(batch, count - len(messages)))
            messages += some
            if not some and meet.over():
                break
        return messages
    append = messages.append
    for _ in repeat(None, count):
        while (message := take()) is None:
            if meet.over():
                return messages
        append(message)
    return messages


def rate(make: Callable[[], Peer], count: int, batch: int = 1) -> tuple[float, float]:
    """Messages a second through a peer that *make* makes, and which part of *count* arrived."""
    small = make()
    arrived = 1.0
    if small.size > SMALL:
        _, arrived = _rate(small, max(count // 10, batch), batch, True)
        small = make()
    figure, part = _rate(small, count, batch, small.size <= SMALL)
    return figure, min(part, arrived)


def _rate(peer: Peer, count: int, batch: int, whole: bool) -> tuple[float, float]:
    try:
        _, (seconds, got) = both(_send_all, _receive_all, peer, Meeting(), count, batch, whole)
    finally:
        peer.close()
    return (got - 1) / seconds, got / count


# --- round trips: each message is copied in, out, in and out ----------------------------------------


def _trips_there(there: Peer, back: Peer, meet: Meeting, count: int) -> list[int]:
    take = back.receiver()
    meet.listening.set()
    meet.sending.wait(PATIENCE)
    send, clock = there.sender(), time.perf_counter_ns
    meet.ready.set()
    messages, taken = numbered(count, there.size), []
    for message in messages:
        start = clock()
        while not send(message):
            pass
        while (echo := take()) is None:
            pass
        taken.append(clock() - start)
        if bytes(echo) != message:
            raise AssertionError("another message came back")
    meet.received.set()
    return taken


def _trips_back(there: Peer, back: Peer, meet: Meeting, count: int) -> None:
    take = there.receiver()
    meet.sending.set()
    meet.listening.wait(PATIENCE)
    send = back.sender()
    meet.ready.wait(PATIENCE)
    for _ in range(count):
        while (message := take()) is None:
            pass
        while not send(message):
            pass
    meet.received.wait(PATIENCE)


def trips(there: Peer, back: Peer, count: int) -> tuple[float, float]:
    """The round trip's median and 99th percentile, in ns."""
    return percentiles(between(_trips_there, _trips_back, there, back, count))


def between(first: Any, second: Any, there: Peer, back: Peer, count: int) -> list[int]:
    try:
        taken, _ = both(first, second, there, back, Meeting(), count)
    finally:
        there.close()
        back.close()
    return taken


def percentiles(taken: list[int]) -> tuple[float, float]:
    ordered = sorted(taken)
    return float(ordered[len(ordered) // 2]), float(ordered[len(ordered) * 99 // 100])


# --- blocks: copied into their place, and summed there ------------------------------------------------


def _put_all(peer: Peer, meet: Meeting, count: int) -> None:
    block = np.ones(peer.size // 8, np.uint64)
    meet.listening.wait(PATIENCE)
    put = peer.block_sender()  # type: ignore[attr-defined]
    meet.sending.set()
    for number in range(count):
        block[0] = number
        while not put(block):
            pass
    meet.sent.value = 1
    meet.received.wait(PATIENCE)


def _take_all(peer: Peer, meet: Meeting, count: int) -> tuple[float, int]:
    take, ones = peer.block_receiver(), peer.size // 8 - 1  # type: ignore[attr-defined]
    meet.listening.set()
    meet.sending.wait(PATIENCE)
    got, following, start = 0, 0, 0.0

    def look(block: Words) -> int:
        number = int(block[0])
        if number < following or int(np.add.reduce(block)) != number + ones:
            raise AssertionError("a block is torn, doubled or out of order")
        return number + 1

    while got < count:
        while (made := take(look)) is None:
            if meet.over():
                count = 0
                break
        else:
            following, got = made, got + 1
            start = start or time.perf_counter()
    seconds = time.perf_counter() - start
    meet.received.set()
    return seconds, got


def throughput(peer: Peer, count: int) -> tuple[float, float]:
    """Bytes a second through *peer*, and which part of *count* blocks arrived."""
    try:
        _, (seconds, got) = both(_put_all, _take_all, peer, Meeting(), count)
    finally:
        peer.close()
    return (got - 1) * peer.size / seconds, got / count


def _blocks_there(there: Peer, back: Peer, meet: Meeting, count: int) -> list[int]:
    take: Take = back.block_receiver()  # type: ignore[attr-defined]
    meet.listening.set()
    meet.sending.wait(PATIENCE)
    put, clock = there.block_sender(), time.perf_counter_ns  # type: ignore[attr-defined]
    meet.ready.set()
    block, taken = np.ones(there.size // 8, np.uint64), []
    for number in range(count):
        block[0] = block[-1] = number
        start = clock()
        while not put(block):
            pass
        while (echo := take(lambda view: int(view[0]) + int(view[-1]))) is None:
            pass
        taken.append(clock() - start)
        if echo != 2 * number:
            raise AssertionError("another block came back")
    meet.received.set()
    return taken


def _blocks_back(there: Peer, back: Peer, meet: Meeting, count: int) -> None:
    take: Take = there.block_receiver()  # type: ignore[attr-defined]
    meet.sending.set()
    meet.listening.wait(PATIENCE)
    put = back.block_sender()  # type: ignore[attr-defined]
    meet.ready.wait(PATIENCE)

    def hand_on(block: Words) -> int:
        while not put(block):
            pass
        return 1

    for _ in range(count):
        while take(hand_on) is None:
            pass
    meet.received.wait(PATIENCE)


def block_trips(there: Peer, back: Peer, count: int) -> tuple[float, float]:
    """The round trip of a block, copied once each way and looked at in its place: p50 and p99 in ns."""
    return percentiles(between(_blocks_there, _blocks_back, there, back, count))


# --- the limit in C -----------------------------------------------------------------------------------


def c_ring(built: Path, *words: object) -> list[float]:
    """What the C program (c/ring.c) prints for *words*."""
    done = subprocess.run([built, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise AssertionError(f"C ring: {done.stderr}")
    return [float(word) for word in done.stdout.split()]


class Delivering(Row):
    """A row whose rival may lose messages: the name says so when it did."""

    def __init__(self, name: str, run: Callable[[], tuple[float, float]]) -> None:
        super().__init__(name, self._measure)
        self.run, self.delivered = run, 1.0

    def _measure(self) -> float:
        figure, delivered = self.run()
        self.delivered = min(self.delivered, delivered)
        return figure


class Both(Row):
    """Two figures of one run: this row keeps the first, and :attr:`second` the other."""

    def __init__(self, names: tuple[str, str], run: TwoFigures) -> None:
        super().__init__(names[0], self._measure)
        self.second = Row(names[1], lambda: self._other)
        self.run, self._other = run, 0.0

    def _measure(self) -> float:
        figure, self._other = self.run()
        return figure


class Best(Row):
    """The best of *rows* in the same round, of those that lost nothing; goes after them."""

    def __init__(self, name: str, rows: list[Row], better: Callable[[Iterable[float]], float]) -> None:
        super().__init__(name, self._measure)
        self.rows, self.better, self._last = rows, better, dict[str, float]()
        for row in rows:
            row.measure = self._kept(row, row.measure)

    def _kept(self, row: Row, measure: Callable[[], float]) -> Callable[[], float]:
        def measured() -> float:
            self._last[row.name] = measure()
            return self._last[row.name]

        return measured

    def _measure(self) -> float:
        return self.better(self._last[row.name] for row in self.rows if getattr(row, "delivered", 1) == 1)


def say_what_was_lost(rows: list[Row]) -> None:
    for row in rows:
        if isinstance(row, Delivering) and row.delivered < 1:
            print(f"LOSES MESSAGES: {row.name}: {row.delivered:.1%} arrived at worst")


# --- records: whole arrays in, windows out -------------------------------------------------------------


def _records_out(peer: Peer, meet: Meeting, count: int) -> None:
    words, batch = peer.size // 8, 32
    array = np.ones((WARM * batch, words), np.uint64)
    array[:, 0] = np.arange(WARM * batch)
    records = array.view(np.dtype((np.void, peer.size)))[:, 0]
    batches = [records[at : at + batch] for at in range(0, WARM * batch, batch)]
    meet.listening.wait(PATIENCE)
    write = peer.array_sender()  # type: ignore[attr-defined]
    meet.sending.set()
    for _, some in zip(range(0, count, batch), cycle(batches), strict=False):
        write(some)
    meet.received.wait(PATIENCE)


def _records_in(peer: Peer, meet: Meeting, count: int) -> float:
    peek, turn = peer.array_receiver(), WARM * 32  # type: ignore[attr-defined]
    meet.listening.set()
    meet.sending.wait(PATIENCE)
    got, total, start = 0, 0, 0.0
    while got < count:
        with peek() as window:
            words = np.frombuffer(window, np.uint64).reshape(-1, peer.size // 8)
            if words[0, 0] != got % turn or words[-1, 0] != (got + len(words) - 1) % turn:
                raise AssertionError("records are missing or out of order")
            total += int(np.add.reduce(words, axis=None))
            got += len(words)
        start = start or time.perf_counter()
    seconds = time.perf_counter() - start
    meet.received.set()
    whole, rest = divmod(count, turn)
    numbers = whole * (turn * (turn - 1) // 2) + rest * (rest - 1) // 2
    if total != numbers + count * (peer.size // 8 - 1):
        raise AssertionError(f"the sum is {total}")
    return seconds


def records(peer: Peer, count: int) -> float:
    """Records a second, 32 at a time in one array."""
    try:
        _, seconds = both(_records_out, _records_in, peer, Meeting(), count)
    finally:
        peer.close()
    return count / float(seconds)
