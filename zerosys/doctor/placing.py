"""What the doctor finds about the calls of NUMA, as capabilities() tried them."""

from __future__ import annotations

import errno

from zerosys.abilities import Capability, capabilities
from zerosys.doctor.finding import Finding, State

# Without these nothing can be placed, or proved to be; the others only widen what can be asked for.
_NEEDED = {"mbind", "page lookup", "sched_setaffinity"}


def check() -> list[Finding]:
    """One finding for each call."""
    return [_finding(capability) for capability in capabilities().values()]


def _finding(capability: Capability) -> Finding:
    if capability:
        return Finding(capability.name, "ok", "a real call succeeded")
    code = errno.errorcode.get(capability.errno, str(capability.errno))
    lost = "nothing can be placed" if capability.name in _NEEDED else "what asks for it is refused"
    state: State = "broken" if capability.name in _NEEDED else "limited"
    if capability.cause in ("kernel", "build"):
        state = "absent" if capability.name not in _NEEDED else "limited"
    return Finding(capability.name, state, f"{code}: without it {lost}", capability.remedy or None)
