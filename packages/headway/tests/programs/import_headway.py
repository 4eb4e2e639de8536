import sys

import headway  # noqa: F401

print([name for name in sys.modules if name.startswith("headway")])
