"""`python -m omni_host` is `omni`."""

import sys

from omni_host.cli import main

if __name__ == "__main__":
    sys.exit(main())
