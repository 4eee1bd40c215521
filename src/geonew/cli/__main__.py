"""``python -m geonew.cli``."""

import sys

from geonew.cli import main

sys.exit(main())
