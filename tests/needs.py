"""The one place where a test may skip: a named feature, and the refusal that was seen."""

import os

import pytest

# Features that this machine was promised to have: their refusal is a failure, not a skip.
REQUIRED = frozenset(filter(None, os.environ.get("ZEROSYS_REQUIRE", "").split(",")))


def need(feature: str, refusal: str | None) -> None:
    """Go on if *refusal* is None; else skip, or fail where *feature* is in ZEROSYS_REQUIRE."""
    if not refusal:
        return
    if feature in REQUIRED:
        pytest.fail(f"{feature} was promised on this machine: {refusal}", pytrace=False)
    pytest.skip(f"{feature}: {refusal}")
