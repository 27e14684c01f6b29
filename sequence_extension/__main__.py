"""`python -m sequence_extension`: the command."""

import sys

from sequence_extension.cli import main

sys.exit(main(sys.argv[1:]))
