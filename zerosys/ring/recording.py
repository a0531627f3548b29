"""Recordings of samples on disk: SigMF (a data file and a JSON file beside it), or raw samples alone."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zerosys.ring.samples import SampleFormat

META, DATA = ".sigmf-meta", ".sigmf-data"
VERSION = "1.2.0"  # of the SigMF specification whose words we write


def is_sigmf(path: str | os.PathLike[str]) -> bool:
    """Whether *path* is named as one of a SigMF recording's two files."""
    return Path(path).suffix in (META, DATA)


@dataclass
class Recording:
    """Samples on disk that can be read: where they lie, of which format, how many a second.

    It owns no descriptor; :meth:`open` gives one.
    """

    data: Path
    format: SampleFormat
    rate: float | None  # samples a second; None: nobody wrote it down
    offset: int = 0  # bytes before the first sample
    trailing: int = 0  # bytes after the last

    @classmethod
    def find(
        cls, path: str | os.PathLike[str], *, format: str | None = None, rate: float | None = None
    ) -> Recording:
        """Look at *path*: either file of a SigMF recording, or raw samples of *format*.

        The format of a raw file is the end of its name (``.cu8``, ``.ci16``, ``.cf32``, ...) unless given;
        a *format* or *rate* that is given goes before what SigMF says. Raises FileNotFoundError, and
        ValueError for metadata that are not SigMF or that name a format we do not read.
        """
        chosen = Path(path)
        if not is_sigmf(chosen):
            if not chosen.exists():
                raise FileNotFoundError(2, os.strerror(2), str(path))
            return cls(chosen, SampleFormat.parse(format) if format else _format_by_name(chosen), rate)
        about = _metadata(chosen.with_suffix(META))
        chosen_format = SampleFormat.parse(format or _text(about, "core:datatype", chosen))
        if about.get("core:num_channels", 1) != 1:
            raise ValueError(f"{chosen} has {about['core:num_channels']} channels: one can be played")
        written = about.get("core:sample_rate")
        if rate is None and isinstance(written, (int, float)) and not isinstance(written, bool):
            rate = float(written)
        data = (
            chosen.with_name(about["core:dataset"]) if "core:dataset" in about else chosen.with_suffix(DATA)
        )
        if not data.exists():
            raise FileNotFoundError(2, os.strerror(2), str(data))
        return cls(data, chosen_format, rate, _header_bytes(chosen), int(about.get("core:trailing_bytes", 0)))

    def __len__(self) -> int:
        """How many whole samples there are."""
        size = os.stat(self.data).st_size - self.offset - self.trailing
        return max(0, size) // self.format.dtype.itemsize

    def open(self) -> int:
        """Return a descriptor that stands at the first sample; the caller's to close."""
        fd = os.open(self.data, os.O_RDONLY | os.O_CLOEXEC)
        os.lseek(fd, self.offset, os.SEEK_SET)
        return fd


@dataclass
class SigMF:
    """The metadata of a recording that is being made: written whole by :meth:`write`, never half."""

    path: Path  # of the metadata
    format: SampleFormat
    rate: float | None = None
    frequency: float | None = None  # Hz, the middle of the band
    description: str = ""
    started: float = field(default_factory=time.time)
    # (samples written before it, samples of the stream before it): the second runs ahead by what was lost
    captures: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    def lost(self, written: int, lost: int) -> None:
        """Note that after *written* samples, *lost* in all are missing from the stream."""
        if self.captures[-1][0] == written:
            self.captures.pop()
        self.captures.append((written, written + lost))

    def write(self) -> None:
        """Write the metadata file, replacing one of that name in one step."""
        about: dict[str, Any] = {
            "core:datatype": self.format.name,
            "core:version": VERSION,
            "core:recorder": "zerosys",
        }
        if self.rate is not None:
            about["core:sample_rate"] = self.rate
        if self.description:
            about["core:description"] = self.description
        text = json.dumps(
            {"global": about, "captures": [*map(self._capture, self.captures)], "annotations": []}, indent=4
        )
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        part.write_text(text + "\n")
        part.replace(self.path)

    def _capture(self, at: tuple[int, int]) -> dict[str, Any]:
        start, of_stream = at
        begun = self.started + (of_stream / self.rate if self.rate else 0)
        whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(begun))
        made: dict[str, Any] = {"core:sample_start": start, "core:global_index": of_stream}
        if start == 0 or self.rate:  # without a rate only the beginning's time is known
            made["core:datetime"] = f"{whole}.{int(begun % 1 * 1e6):06d}Z"
        if self.frequency is not None:
            made["core:frequency"] = self.frequency
        return made


def _format_by_name(path: Path) -> SampleFormat:
    try:
        return SampleFormat.parse(path.suffix.removeprefix("."))
    except ValueError:
        raise ValueError(f"{path} does not end in a sample format: say it, such as cu8") from None


def _metadata(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text("utf-8"))["global"]
    except (ValueError, KeyError, TypeError) as wrong:
        raise ValueError(f"{path} is no SigMF metadata: {wrong!r}") from None
    if not isinstance(about, dict):
        raise ValueError(f'{path} is no SigMF metadata: "global" is no object')
    return about


def _header_bytes(path: Path) -> int:
    captures = json.loads(path.with_suffix(META).read_text("utf-8")).get("captures") or [{}]
    if any(capture.get("core:header_bytes") for capture in captures[1:]):
        raise ValueError(f"{path} has header bytes between its captures: they would be played as samples")
    return int(captures[0].get("core:header_bytes", 0))


def _text(about: dict[str, Any], key: str, path: Path) -> str:
    value = about.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{path} does not say its {key}: it is no SigMF metadata")
    return value
