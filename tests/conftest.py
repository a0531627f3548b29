"""Marks and hooks only; helpers are modules of their own, imported by name."""

import os
import signal

# A shell starts what it puts in the background with SIGINT ignored, and children inherit that: the tests
# of Ctrl-C, and the commands that they run, are to be as on a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

collect_ignore = [] if os.environ.get("ZEROSYS_GUEST") else ["guest"]


def _guest_part_missing(report) -> bool:
    return report.skipped and "guest" in report.keywords


def pytest_report_teststatus(report, config):
    """Make the closing line itself say that the guest part did not run."""
    if _guest_part_missing(report):
        return "guest part not run", "s", "GUEST PART NOT RUN"
    return None


def pytest_terminal_summary(terminalreporter):
    missing = terminalreporter.getreports("guest part not run")
    for reason in sorted({report.longrepr[2] for report in missing}):
        terminalreporter.write_line(f"guest part not run: {reason}")
