"""`python -m sequence_extension`: the command."""

import sys

from sequence_extension.cli import main

if __name__ == "__main__":
    sys.exit(main())
