"""`python -m nightdesk.cli` is `nightdesk`."""

import sys

from nightdesk.cli import main

if __name__ == "__main__":
    sys.exit(main())
