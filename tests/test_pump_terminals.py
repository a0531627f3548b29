"""Terminals as ends: their driver sleeps in a write although poll calls them ready."""

import os
import pty
import termios
import tty

import pytest
from ends import Background, Sink

from zerosys import PumpTimeout, pump

DATA = bytes(range(32, 120)) * 3000


@pytest.fixture
def terminal():
    """A pseudo-terminal's master and slave; the slave passes bytes on as they are."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    yield master, slave
    termios.tcflush(slave, termios.TCIOFLUSH)  # or the last close would wait for a reader
    os.close(slave)
    os.close(master)


def feed():
    reader, writer = os.pipe()

    def write():
        view = memoryview(DATA)
        while view:
            view = view[os.write(writer, view) :]
        os.close(writer)

    return reader, Background(write)


def read_exactly(fd, size):
    got = b""
    while len(got) < size:
        got += os.read(fd, size - len(got))
    return got


@pytest.mark.parametrize("kind", ["pipe", "file", "memory"])
def test_a_terminal_that_nobody_reads_does_not_hold_us_beyond_the_deadline(terminal, kind, tmp_path):
    _, slave = terminal
    if kind == "pipe":
        source, feeder = feed()
    else:
        (tmp_path / "data").write_bytes(DATA)
        source, feeder = os.open(tmp_path / "data", os.O_RDONLY), None
    with pytest.raises(PumpTimeout) as late:
        pump(DATA if kind == "memory" else source, slave, timeout=0.5)
    assert late.value.side == "sink" and 0 < late.value.moved < len(DATA)
    assert os.get_blocking(slave)
    os.close(source)
    if feeder:
        with pytest.raises(BrokenPipeError):
            feeder.result()


def test_a_held_terminal_goes_on_when_it_is_let_go(terminal):
    """Ctrl-S holds the output of all who share the terminal."""
    master, slave = terminal
    termios.tcflow(slave, termios.TCOOFF)
    source, feeder = feed()
    with pytest.raises(PumpTimeout) as late:
        pump(source, slave, timeout=0.3)
    termios.tcflow(slave, termios.TCOON)
    collector = Background(read_exactly, master, len(DATA) - late.value.stranded)
    pump(source, slave, timeout=30)
    got = collector.result()
    feeder.result()
    assert got == DATA[: late.value.moved] + DATA[late.value.moved + late.value.stranded :]
    os.close(source)


def test_what_is_typed_is_pumped(terminal, tmp_path):
    master, slave = terminal
    sink = Sink("pipe", tmp_path)
    os.write(master, b"some keys")
    assert pump(slave, sink.fd, 9, timeout=30).bytes == 9
    assert sink.received() == b"some keys"
