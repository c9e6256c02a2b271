"""`python -m silomq.cli.demo`: the tour of `make demo`."""

from __future__ import annotations

import sys

from .demo import main

sys.exit(main())
