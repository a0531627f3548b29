"""Recordings into rings and out of them; and a real one decoded the same at both ends."""

import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from needs import need

from zerosys import StreamRing
from zerosys.ring.playing import play, record
from zerosys.ring.recording import Recording, SigMF
from zerosys.ring.samples import SampleFormat

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import mode_s

NAMES = [
    "cu8",
    "ci8",
    "ru8",
    "ci16_le",
    "ci16_be",
    "ri16_le",
    "cu32_le",
    "cf32_le",
    "cf32_be",
    "cf64_le",
    "rf32_le",
]
DATA = os.environ.get("ZEROSYS_DATA")
WHOLE_BLOCKS = 2 * 262144  # bytes of the recording that its reference decoder reads: whole buffers alone


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_a_dtype_and_back(name):
    form = SampleFormat.parse(name)
    assert form.name == name
    assert SampleFormat.of(form.dtype) == form


@pytest.mark.parametrize(("alias", "name"), [("cs16", "ci16_le"), ("CF32", "cf32_le"), ("cfile", "cf32_le")])
def test_what_others_call_a_format_is_understood(alias, name):
    assert SampleFormat.parse(alias).name == name


@pytest.mark.parametrize("text", ["cf16", "cu8_le", "c8", "x", "", "ci24", "cu64"])
def test_what_is_no_format_is_refused_with_the_grammar(text):
    with pytest.raises(ValueError, match="is no sample format: it is r or c"):
        SampleFormat.parse(text)


@pytest.mark.parametrize(
    "dtype", ["V3", "?", "(3,)u1", [("a", "i2"), ("b", "i4")], [("a", "i2")], "i8", "M8[s]"]
)
def test_items_that_sigmf_has_no_name_for_are_refused(dtype):
    with pytest.raises(ValueError, match="SigMF has no name"):
        SampleFormat.of(dtype)


def test_pairs_without_names_are_complex_too():
    assert SampleFormat.of("(2,)i2").name == "ci16_le"


@pytest.mark.parametrize(
    ("name", "raw", "values"),
    [
        ("cu8", bytes([0, 255]), [-1 + 1j]),
        ("ci8", bytes([127, 0x81]), [1 - 1j]),
        ("ci16_be", b"\x7f\xff\x00\x00", [1]),
        ("cf32_be", np.array([0.5 - 2j], ">c8").tobytes(), [0.5 - 2j]),
        ("ri16_le", b"\xff\x7f", [1]),
    ],
)
def test_integers_become_fractions_of_their_range(name, raw, values):
    assert SampleFormat.parse(name).complex_of(raw).tolist() == values


def sigmf(folder, samples, about, captures=({"core:sample_start": 0},)):
    (folder / "a.sigmf-data").write_bytes(samples)
    meta = {
        "global": {"core:datatype": "ci16_le", "core:version": "1.0.0"} | about,
        "captures": list(captures),
    }
    (folder / "a.sigmf-meta").write_text(json.dumps(meta | {"annotations": []}))
    return folder / "a.sigmf-meta"


def test_a_sigmf_recording_says_format_rate_and_where_it_begins(tmp_path):
    captures = [{"core:sample_start": 0, "core:header_bytes": 3}]
    meta = sigmf(
        tmp_path, bytes(3 + 10 * 4 + 5), {"core:sample_rate": 2.5e6, "core:trailing_bytes": 5}, captures
    )
    for path in (meta, meta.with_suffix(".sigmf-data")):
        found = Recording.find(path)
        assert (found.format.name, found.rate, found.offset, len(found)) == ("ci16_le", 2.5e6, 3, 10)
    assert Recording.find(meta, format="cu8", rate=1).rate == 1


@pytest.mark.parametrize(
    ("about", "captures", "says"),
    [
        ({"core:datatype": 7}, [], "core:datatype"),
        ({"core:datatype": "cf16"}, [], "is no sample format"),
        ({"core:num_channels": 2}, [], "2 channels"),
        ({}, [{}, {"core:header_bytes": 9}], "header bytes between"),
    ],
)
def test_what_sigmf_says_and_we_cannot_play_is_refused(tmp_path, about, captures, says):
    with pytest.raises(ValueError, match=says):
        Recording.find(sigmf(tmp_path, b"", about, captures))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"global": 1}'])
def test_metadata_that_are_none_are_refused(tmp_path, text):
    (tmp_path / "a.sigmf-meta").write_text(text)
    with pytest.raises(ValueError, match="is no SigMF metadata"):
        Recording.find(tmp_path / "a.sigmf-meta")


def test_a_recording_without_its_data_is_not_found(tmp_path):
    path = sigmf(tmp_path, b"", {})
    path.with_suffix(".sigmf-data").unlink()
    with pytest.raises(FileNotFoundError):
        Recording.find(path)


def all_of(fd):
    with open(fd, "rb") as file:
        return file.read()


def through(recording, on_full="block", **words):
    """What arrives of *recording* at the far end of a small ring, and how many seconds it took."""
    with StreamRing.create("64KiB", recording.format.dtype, on_full=on_full) as ring:
        reader, begun = ring.reader("oldest"), time.monotonic()

        def send():
            with ring.writer() as writer:
                play(recording, writer, **words)

        sender = threading.Thread(target=send)
        sender.start()
        read, write = os.pipe()
        arrived = []
        taker = threading.Thread(target=lambda: arrived.append(all_of(read)))
        taker.start()
        count = record(reader, write, timeout=20)
        os.close(write)
        sender.join()
        taker.join()
        reader.close()
        assert len(arrived[0]) == count * ring.item_size
        return arrived[0], time.monotonic() - begun


def test_what_is_played_is_recorded_byte_for_byte(tmp_path):
    raw = np.random.default_rng(1).bytes(1_000_002)
    path = tmp_path / "a.cu8"
    path.write_bytes(raw)
    assert through(Recording.find(path))[0] == raw
    assert through(Recording.find(path), repeat=3)[0] == raw * 3


def test_a_cut_last_sample_is_not_played(tmp_path):
    path = tmp_path / "a.cf32"
    path.write_bytes(bytes(8 * 100 + 7))
    assert len(through(Recording.find(path))[0]) == 800


def test_a_rate_is_kept_by_the_clock(tmp_path):
    path = tmp_path / "a.cu8"
    path.write_bytes(bytes(2 * 50_000))
    raw, seconds = through(Recording.find(path), rate=100_000)
    assert len(raw) == 100_000
    assert seconds > 0.45  # never too early; too late is the machine's affair


def test_a_ring_of_other_items_is_refused(tmp_path):
    path = tmp_path / "a.cf32"
    path.write_bytes(bytes(80))
    with StreamRing.create(4096, "u1") as ring, ring.writer() as writer:
        with pytest.raises(ValueError, match=r"take 8 bytes, and the ring's items 1"):
            play(Recording.find(path), writer)


def test_what_was_overwritten_is_marked_in_the_metadata(tmp_path):
    form = SampleFormat.parse("ci16")
    with StreamRing.create(4096, form.dtype, on_full="overwrite") as ring:
        with ring.reader("oldest") as reader, ring.writer() as writer:
            for first in range(0, 3072, 512):
                pairs = np.repeat(np.arange(first, first + 512, dtype="i2"), 2)
                writer.write(pairs.view(form.dtype))
            writer.close()
            notes = SigMF(tmp_path / "a.sigmf-meta", form, rate=1e6, frequency=1.09e9)
            with open(tmp_path / "a.sigmf-data", "wb") as file:
                kept = record(reader, file.fileno(), timeout=5, notes=notes)
            notes.write()
            assert kept + reader.lost == 3072 and reader.lost > 0
            lost = reader.lost
    first = json.loads((tmp_path / "a.sigmf-meta").read_text())["captures"][0]
    assert (first["core:sample_start"], first["core:global_index"]) == (0, lost)
    assert first["core:frequency"] == 1.09e9
    found = Recording.find(tmp_path / "a.sigmf-meta")
    assert (found.format, found.rate, len(found)) == (form, 1e6, kept)
    assert np.fromfile(found.data, "i2")[0] == lost


# -- the real recording ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def modes1():
    need("data", None if DATA else "ZEROSYS_DATA names no folder of recordings")
    return Recording.find(f"{DATA}/iq/modes1.bin", format="cu8")


@pytest.fixture(scope="module")
def heard(modes1):
    return mode_s.Decoder().feed(modes1.format.complex_of(modes1.data.read_bytes()))


def test_the_decoder_hears_the_same_at_the_far_end_of_a_ring(modes1, heard):
    raw, _ = through(modes1)
    decoder = mode_s.Decoder()
    messages = []
    for start in range(0, len(raw), 30_000):
        messages += decoder.feed(modes1.format.complex_of(raw[start : start + 30_000]))
    assert messages == heard
    assert len(heard) > 150
    assert {int(message[:2], 16) >> 3 for message in heard} == {11, 17}


def test_the_reference_decoder_has_each_message_in_the_same_order_as_far_as_it_listened(modes1):
    """It stopped at the last whole buffer of 256 KiB: both end with the same message, just before."""
    text = Path(f"{DATA}/iq/modes1.expected.txt").read_text()
    expected = [line.strip("*;") for line in text.split()]
    part = modes1.data.read_bytes()[:WHOLE_BLOCKS]
    heard = mode_s.Decoder().feed(modes1.format.complex_of(part))
    following = iter(expected)
    assert [message for message in heard if message not in following] == []
    assert len(heard) == 144 and heard[-1] == expected[-1]


def test_what_follows_in_the_last_buffer_is_of_the_aircraft_that_the_reference_decoder_heard(modes1, heard):
    """Its list cannot tell of these 55, of which 33 are no repetition; each has a right checksum."""
    later = heard[144:]
    assert len(later) == 55
    assert {message[2:8] for message in later} == {"4d2023"} == {message[2:8] for message in heard[:144]}
