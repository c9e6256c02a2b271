"""Names the tests that failed in the last run of pytest. Exit status 1 if none did, or too many.

`make retest` runs these once more. Run it as a program: `failed_tests.py --most NUMBER`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".pytest_cache/v/cache/lastfailed"


def failed(cache: Path) -> list[str]:
    """The ids of the tests that failed, as pytest keeps them. Empty if no run has left any."""
    try:
        return sorted(json.loads(cache.read_text()))
    except FileNotFoundError:
        return []


def main() -> int:
    """Prints the tests, and says whether another run makes sense."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, required=True, help="more failures are no accident")
    most = parser.parse_args().most
    names = failed(CACHE)
    for name in names:
        print(f"failed: {name}")
    if not names:
        print("no test has failed: what went wrong stands above", file=sys.stderr)
    elif len(names) > most:
        print(f"{len(names)} tests failed, more than {most}: not run again", file=sys.stderr)
    return 0 if 0 < len(names) <= most else 1


if __name__ == "__main__":
    sys.exit(main())
