"""A live IQ stream for several TCP clients by tee; a slow one misses whole samples, and is told how many.

python examples/iq_fan_out.py    (ZEROSYS_DATA: where iq/modes1.bin lies; else a generated tone)
"""

import math
import os
import socket
import threading
from pathlib import Path

from zerosys import pump

CLIENTS, RATE, SAMPLE = 4, 4_000_000, 2  # bytes a second; a sample is two bytes, I and Q
TONE = bytes(
    int(127.5 + 100 * wave(2 * math.pi * n / 64)) for n in range(64) for wave in (math.cos, math.sin)
)
RECORDING = Path(os.environ.get("ZEROSYS_DATA", ""), "iq/modes1.bin")


def live(samples: bytes, out: int, sleeper: threading.Thread) -> None:
    """The radio: gives its samples at their rate, whoever listens; one client wakes at the end."""
    with open(out, "wb", buffering=0) as pipe:
        pump(samples, pipe, rate=RATE)
    sleeper.start()


def listen(connection: socket.socket, got: bytearray) -> None:
    """A client: reads to the end."""
    while piece := connection.recv(1 << 16):
        got += piece


def main() -> None:
    samples = RECORDING.read_bytes() if RECORDING.is_file() else TONE * 5000
    with socket.create_server(("127.0.0.1", 0)) as listener:
        clients = [socket.create_connection(listener.getsockname()) for _ in range(CLIENTS)]
        sinks = [listener.accept()[0] for _ in clients]
    for end in (clients[-1], sinks[-1]):  # the last one sleeps: full soon
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
    antenna, radio = os.pipe()
    got = [bytearray() for _ in clients]
    threads = [threading.Thread(target=listen, args=each) for each in zip(clients, got, strict=True)]
    for thread in [*threads[:-1], threading.Thread(target=live, args=(samples, radio, threads[-1]))]:
        thread.start()
    result = pump(antenna, sinks, unit=SAMPLE, on_slow="drop", pipe_size=1 << 16)
    for number, sink in enumerate(result.sinks):
        sinks[number].close()
        threads[number].join()
        clients[number].close()
        assert len(got[number]) == sink.bytes == len(samples) - sink.dropped * SAMPLE
        assert got[number] == samples or sink.dropped
        print(f"{sink.bytes:,} bytes, {sink.moved:,} moved, {sink.dropped:,} samples missed")
    os.close(antenna)


if __name__ == "__main__":
    main()
