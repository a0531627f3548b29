"""A file server: asyncio answers HTTP, and the kernel carries the files; slow clients cost no thread each.

python examples/file_server.py
"""

import asyncio
import hashlib
import os
import tempfile
import urllib.request
from pathlib import Path

from zerosys.pumps import aio

CLIENTS, SIZE = 8, 5_000_000


class Server:
    """Serves the files of *folder*; counts how their bytes went."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.moved, self.copied = folder, 0, 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        try:
            with open(self.folder / Path(path).name, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                writer.write(f"HTTP/1.0 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
                # The pair of streams is an end: what the writer holds, the head, goes first.
                result = await aio.pump(file, (reader, writer), size, stall_timeout=30)
            self.moved += result.moved
            self.copied += result.copied
        except OSError:  # no such file; a client that left ends in a PumpError, an OSError too
            writer.write(b"HTTP/1.0 404 Not Found\r\n\r\n")
        finally:
            writer.close()


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as response:
        return hashlib.sha256(response.read()).hexdigest()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = os.urandom(SIZE)
        Path(folder, "data").write_bytes(data)
        files = Server(Path(folder))
        async with await asyncio.start_server(files.answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/data"
            got = await asyncio.gather(*(asyncio.to_thread(fetch, url) for _ in range(CLIENTS)))
    assert set(got) == {hashlib.sha256(data).hexdigest()}
    assert (files.moved, files.copied) == (CLIENTS * SIZE, 0)
    print(f"{CLIENTS} clients got the file, {files.moved:,} bytes moved, {files.copied} copied")


if __name__ == "__main__":
    asyncio.run(main())
