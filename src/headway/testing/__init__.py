"""``pytest --headway``: each test's effective progress beside its time, and whether it has become slower.

`plugin` is all that pytest loads when nobody asks for it; `phases` measures where tests run, through `meter`, which
talks to a process of its own (`observer`); `results` gathers, compares with a `baseline` and shows, where pytest has
its terminal. With pytest-xdist these are different processes: what was measured travels in the tests' reports
(`record`).
"""
