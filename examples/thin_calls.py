"""The thin calls: one Python call, one system call; short counts and 0 are answers.

python examples/thin_calls.py
"""

import os
import tempfile

import zerosys
from zerosys import SpliceFlag


def main() -> None:
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
        source.write(b"0123456789" * 1000)
        source.flush()

        reader, writer = os.pipe()
        second_reader, second_writer = os.pipe()
        print(
            f"the pipe holds {zerosys.set_pipe_capacity(writer, 1 << 20):,} bytes of the 1,048,576 wished for"
        )

        moved = zerosys.splice(source, writer, 5000, offset_src=0)
        assert zerosys.pipe_occupancy(reader) == moved == 5000

        # tee: the second pipe refers to the same pages, and the first still has them.
        assert zerosys.tee(reader, second_writer, 5000) == 5000
        assert os.read(second_reader, 5000) == b"0123456789" * 500

        assert zerosys.splice(reader, sink, 1 << 20) == 5000  # asked for more: a short count
        try:
            zerosys.splice(reader, sink, 1, flags=SpliceFlag.NONBLOCK)
        except BlockingIOError:
            print("an empty pipe that could still be written is BlockingIOError under NONBLOCK")
        os.close(writer)
        assert zerosys.splice(reader, sink, 1) == 0  # nobody can write any more: the end

        assert zerosys.copy_file_range(source, sink, 5000, offset_src=5000) == 5000
        sink.seek(0)
        assert sink.read() == b"0123456789" * 1000
        print("10,000 bytes went by splice, tee and copy_file_range, and none was read")
        for fd in (reader, second_reader, second_writer):
            os.close(fd)


if __name__ == "__main__":
    main()
