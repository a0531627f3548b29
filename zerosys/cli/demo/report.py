"""The contest's outcome: the promises, each judged by what was counted, and the table."""

from __future__ import annotations

from typing import Any

from zerosys.cli.demo import stream

HELD, BROKEN, NOT_ASKED = "held", "BROKEN", "not asked"
Promise = dict[str, str]


def judge(seen: dict[str, Any]) -> list[Promise]:
    """Each promise with its verdict and the evidence for it."""
    return [
        _nothing_copied(seen),
        _nothing_lost(seen),
        _same_bytes(seen),
        _placed(seen),
        _shared(seen),
        _sealed(seen),
        _left_as_found(seen),
        *_signal(seen),
    ]


def _promise(text: str, held: bool | None, evidence: str) -> Promise:
    verdict = NOT_ASKED if held is None else HELD if held else BROKEN
    return {"promise": text, "verdict": verdict, "evidence": evidence}


def _nothing_copied(seen: dict[str, Any]) -> Promise:
    ours, size = seen["ways"]["zerosys"], seen["file"]["bytes"]
    held = ours["copied"] == 0 and ours["moved"] == ours["received"] == size
    return _promise(
        "no byte went through a buffer in user memory",
        held,
        f"{ours['moved']:,} moved, {ours['received']:,} received in place, {ours['copied']:,} copied",
    )


def _nothing_lost(seen: dict[str, Any]) -> Promise:
    ours = seen["ways"]["zerosys"]
    sums, right = ours["checksums"], seen["file"]["checksum"]
    return _promise(
        "nothing was lost in any round",
        ours["stranded"] == 0 and all(value == right for value in sums),
        f"{ours['stranded']} bytes stranded; the checksum of each of {len(sums)} rounds is the file's",
    )


def _same_bytes(seen: dict[str, Any]) -> Promise:
    there, here = seen["file"]["sha256"], seen["reader"]["sha256"]
    return _promise(
        "the reader has the sender's bytes", there == here, f"sha256 {there[:16]}… and {here[:16]}…"
    )


def _placed(seen: dict[str, Any]) -> Promise:
    region = seen["region"]
    text = f"every page lies on node {region['node']}"
    if region["refusal"]:
        return _promise("pages lie where asked", None, f"unplaced: {region['refusal']}")
    proof = region["proof"]
    return _promise(
        text,
        proof["verified"],
        f"pages by node {_by_node(proof)}{proof['why_not'] and '; '}{proof['why_not']}",
    )


def _shared(seen: dict[str, Any]) -> Promise:
    reader, proof = seen["reader"], seen["region"]["proof"]
    same = reader["file"] == proof["file"]
    return _promise(
        "the reader's array is the receiver's memory, not a copy",
        same and reader["in_place"],
        f"one file (inode {proof['file'][1]} in both), the array inside its mapping",
    )


def _sealed(seen: dict[str, Any]) -> Promise:
    return _promise(
        "no peer can shrink the memory under another",
        seen["reader"]["shrink_refused"],
        f"the reader's ftruncate was {'refused' if seen['reader']['shrink_refused'] else 'not refused'}",
    )


def _left_as_found(seen: dict[str, Any]) -> Promise:
    before, after = seen["descriptors"]["before"], seen["descriptors"]["after"]
    restored = seen["ways"]["zerosys"]["flags_restored"]
    return _promise(
        "everything is left as it was found",
        restored and before == after,
        f"sockets are {'blocking again' if restored else 'NOT blocking'}; descriptors before and after: "
        f"{sum(before.values())} and {sum(after.values())}",
    )


def _signal(seen: dict[str, Any]) -> list[Promise]:
    peak = seen["reader"]["iq"]["peak"]
    if seen["file"]["name"] is not None or peak is None:
        return []
    return [
        _promise(
            "what arrived is the signal that was sent",
            abs(peak - stream.STRONGEST) < 1 / stream.FFT,
            f"strongest tone at {peak:+.4f} of the sample rate, made at {stream.STRONGEST:+.4f}",
        )
    ]


def _page_size(proof: dict[str, Any]) -> str:
    size = f"{proof['page_size'] >> 10} KiB"
    if proof["huge_bytes"] and proof["page_size"] < 1 << 20:  # transparent ones keep the small size
        return f"{size}, {proof['huge_bytes'] / proof['mapped_size']:.0%} of it huge"
    return size


def _by_node(proof: dict[str, Any]) -> str:
    pages = proof["pages_by_node"]
    if pages is None:
        return "unknown"
    counted = [f"{node}: {count}" for node, count in pages.items()]
    counted += [f"{name}: {proof[name]}" for name in ("absent", "unmapped", "unknown") if proof.get(name)]
    return "{" + ", ".join(counted) + "}"


def ratios(seen: dict[str, Any]) -> dict[str, float | None]:
    """Our throughput and processor time as multiples of the ordinary way's."""
    ours, theirs = (seen["ways"][way] for way in ("zerosys", "ordinary"))
    if not seen["file"]["bytes"]:
        return {"throughput": None, "cpu": None}
    spent = theirs["cpu_s_per_gib"]["all"]
    return {
        "throughput": ours["gb_per_s"] / theirs["gb_per_s"],
        "cpu": ours["cpu_s_per_gib"]["all"] / spent if spent else None,
    }


def table(seen: dict[str, Any]) -> str:
    """What was moved and how, one column a way."""
    ways = [seen["ways"][way] for way in ("zerosys", "ordinary")]
    proof, empty = seen["region"]["proof"], not seen["file"]["bytes"]
    figure = "{:.3f}".format
    rows: list[tuple[str, ...]] = [("", "", "zerosys", "ordinary")]
    rows.append(("throughput", "GB/s", *("-" if empty else f"{way['gb_per_s']:.2f}" for way in ways)))
    for role in ("sender", "receiver", "reader", "all"):
        unit = "s/GiB " + role
        cells = ("-" if empty else figure(way["cpu_s_per_gib"][role]) for way in ways)
        rows.append(("processor" if role == "sender" else "", unit, *cells))
    for name in ("moved", "received", "copied"):
        rows.append(("bytes" if name == "moved" else "", name, *(f"{way[name]:,}" for way in ways)))
    for role in ("sender", "receiver"):
        rows.append(("path" if role == "sender" else "", role, *(way["path"][role] or "-" for way in ways)))
    rows.append(("pages", "by node", _by_node(proof), "-"))
    rows.append(("", "size got", _page_size(proof), "-"))
    hashes = (seen["reader"]["sha256"], seen["ordinary_sha256"])
    rows.append(("sha256", "sender", *(seen["file"]["sha256"][:16] + "…",) * 2))
    rows.append(("", "reader", *(value[:16] + "…" for value in hashes)))
    return _aligned(rows)


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join(left + right).rstrip())
    return "\n".join(lines)


def text(seen: dict[str, Any]) -> str:
    """The whole report for a person."""
    return "\n".join([_heading(seen), "", table(seen), "", *_comparison(seen), "", *_verdicts(seen)])


def _heading(seen: dict[str, Any]) -> str:
    file, iq = seen["file"], seen["reader"]["iq"]
    what = file["name"] or "a generated IQ stream"
    rounds = len(seen["ways"]["zerosys"]["seconds"])
    lines = [
        f"{what}: {file['bytes']:,} bytes, file -> pipe -> TCP -> shared memory -> another process's array",
        f"medians of {rounds} round{'s' * (rounds != 1)}; region: {seen['region']['backing']}",
    ]
    if iq["samples"] and iq["power_db"] is not None:
        peak = f", strongest tone at {iq['peak']:+.4f} of the sample rate" if iq["peak"] is not None else ""
        lines.append(f"read as cu8: {iq['samples']:,} samples, mean power {iq['power_db']:.2f} dBFS{peak}")
    return "\n".join(lines)


def _comparison(seen: dict[str, Any]) -> list[str]:
    found = ratios(seen)
    if found["throughput"] is None:
        return ["an empty file has no speed"]
    cpu = f"{found['cpu']:.2f}x the processor time" if found["cpu"] is not None else "too short to time"
    clock, ticks = (sum(way[kind] for way in seen["ways"].values()) for kind in ("cpu_s", "psutil_cpu_s"))
    return [
        f"zerosys against ordinary: {found['throughput']:.2f}x the throughput, {cpu}",
        f"(all rounds: {clock:.2f} s by the processes' own clocks, {ticks:.2f} s by psutil's ticks of 10 ms)",
    ]


def _verdicts(seen: dict[str, Any]) -> list[str]:
    return [f"{made['verdict']:>9}  {made['promise']}: {made['evidence']}" for made in seen["promises"]]
