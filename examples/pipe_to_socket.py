"""Pipe to socket: what a command prints goes to a TCP peer, and no byte enters this process.

python examples/pipe_to_socket.py
"""

import hashlib
import socket
import subprocess
import sys
import threading

from zerosys import pump

SIZE = 16 << 20
PRINT = f"import os, sys; sys.stdout.buffer.write(os.urandom({SIZE // 2}) * 2)"


def collect(connection: socket.socket, into: "hashlib._Hash") -> None:
    """The far side: an ordinary reader."""
    while piece := connection.recv(1 << 18):
        into.update(piece)


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    seen = hashlib.sha256()
    reader = threading.Thread(target=collect, args=(far, seen))
    reader.start()

    with subprocess.Popen([sys.executable, "-c", PRINT], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        # The socket is blocking; it is made non-blocking while the pump runs, and restored.
        result = pump(command.stdout, near, timeout=30, strict=True)  # strict: raises before the first copy
    near.shutdown(socket.SHUT_WR)
    reader.join()

    assert (result.bytes, result.moved, result.copied) == (SIZE, SIZE, 0)
    assert near.getblocking()
    print(f"{result.moved:,} bytes moved by {result.path}, {result.copied} copied")
    print(f"the peer got sha256 {seen.hexdigest()[:16]}…, and the socket is blocking again")
    near.close()
    far.close()


if __name__ == "__main__":
    main()
