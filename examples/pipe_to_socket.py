"""Pipe to socket: what a command prints goes to a TCP peer, and no byte enters this process.

python examples/pipe_to_socket.py
"""

import hashlib
import socket
import subprocess
import sys
import threading

from zerosys._transfer import Transfer

SIZE = 16 << 20
PRINT = f"import os, sys; sys.stdout.buffer.write(os.urandom({SIZE // 2}) * 2)"


def collect(connection: socket.socket, into: "hashlib._Hash") -> None:
    """The far side: an ordinary reader."""
    while piece := connection.recv(1 << 18):
        into.update(piece)


def main() -> None:
    near, far = socket.socketpair()
    seen = hashlib.sha256()
    reader = threading.Thread(target=collect, args=(far, seen))
    reader.start()

    with subprocess.Popen([sys.executable, "-c", PRINT], stdout=subprocess.PIPE) as command:
        # The socket is blocking; it is made non-blocking while the transfer runs, and restored.
        with Transfer(command.stdout, near) as transfer:
            carried = transfer.run(timeout=30)
    near.shutdown(socket.SHUT_WR)
    reader.join()

    assert carried == SIZE
    assert (transfer.moved, transfer.copied) == (SIZE, 0)
    assert near.getblocking()
    print(f"{transfer.moved:,} bytes moved by {transfer.path}, {transfer.copied} copied")
    print(f"the peer got sha256 {seen.hexdigest()[:16]}…, and the socket is blocking again")
    near.close()
    far.close()


if __name__ == "__main__":
    main()
