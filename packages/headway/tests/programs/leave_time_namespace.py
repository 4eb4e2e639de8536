"""Leave a time namespace, and go back: print CLOCK_MONOTONIC before, outside, and back inside."""

import time

from headway.linux import time_namespace

before = time.monotonic_ns()
why = time_namespace.leave()
outside = time.monotonic_ns()
time_namespace.go_back()
print(before, outside, time.monotonic_ns(), why)
