"""``python -m zerosys`` is the command ``zerosys``."""

import sys

from zerosys.cli import main

if __name__ == "__main__":
    sys.exit(main())
