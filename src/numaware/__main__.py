"""`python -m numaware`."""

import sys

from numaware.cli import main

sys.exit(main())
