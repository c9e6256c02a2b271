"""`python -m silomq.supervisor [NAME=VALUE ...]`: a store without the `silo` command around it."""

import sys

from ..conf.settings import load
from .main import serve

if __name__ == "__main__":
    sys.exit(serve(load(overrides=sys.argv[1:])))
