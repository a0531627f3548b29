"""Command lines for memhog and migratepages, and what must be the same of Debian's and ours."""

from __future__ import annotations

import random

SIZES = [
    "4k",
    "8K",
    "1m",
    "5k",
    "25m",
    "11m",
    "1",
    "0x2k",
    "010k",
    "1x",
    "1.5m",
    "0",
    "m",
    "-1m",
    " 1k",
    "+1k",
    "1kb",
]
POLICIES = [
    "membind",
    "interleave",
    "preferred",
    "preferred-many",
    "default",
    "local",
    "bind",
    "inter",
    "",
    "MEMBIND",
]


def node_texts(nodes: list[int]) -> list[str]:
    """Sets that exist, sets that do not, and texts that are none."""
    some = [*map(str, nodes), "all", "!0", "+0", f"0-{max(nodes)}", ",".join(map(str, nodes)), " 0", ""]
    return [
        *some,
        *some,
        str(max(nodes) + 1),
        f"0-{max(nodes) + 1}",
        "999999",
        "x",
        "0,",
        "0-",
        "-",
        "!",
        "1,,0",
    ]


def memhog_line(dice: random.Random, nodes: list[int], file: str) -> list[str]:
    options = [
        "-H",
        "-r2",
        "-r3",
        "-r0",
        "-rx",
        "-r",
        "-T",
        "-x",
        f"-f{file}",
        "-f/nonexistent",
        "-f",
        "--help",
        "-Hr2",
    ]
    words = dice.sample(options, dice.choice([0, 0, 0, 1, 1, 2]))
    if dice.random() < 0.95:
        words.append(dice.choice(SIZES))
        if dice.random() < 0.7:
            words.append(dice.choice(["", "", "-", "--"]) + dice.choice(POLICIES))
            if dice.random() < 0.85:
                words.append(dice.choice(node_texts(nodes)))
    return words


def migratepages_line(dice: random.Random, nodes: list[int], pids: list[str]) -> list[str]:
    words = [dice.choice(pids), *(dice.choice(node_texts(nodes)) for _ in range(2))]
    if dice.random() < 0.2:
        words = words[: dice.randrange(3)]
    for extra, chance in (
        (["-h"], 0.04),
        (["--help"], 0.04),
        (["-x"], 0.04),
        (["more"], 0.04),
        (["--"], 0.1),
    ):
        if dice.random() < chance:
            words[(at := dice.randint(0, len(words))) : at] = extra
    return words
