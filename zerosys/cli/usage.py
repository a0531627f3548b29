"""What the commands' helps share: how they are laid out, and what their ends mean to a shell."""

from __future__ import annotations

import argparse

EXITS = """exit status:
  0    done; for demo: every promise held
  1    something failed, or a promise did not hold; stderr says what
  2    wrong usage
  130  ended by Ctrl-C
  141  nobody read the output
"""


class Help(argparse.HelpFormatter):
    """Fills paragraphs as usual, but leaves text of several lines, such as EXITS, as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)
