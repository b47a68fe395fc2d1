"""`python -m tests.support.redteam PATH…`."""

import sys

from . import main

sys.exit(main(sys.argv[1:]))
