"""``pytest --headway``: each test's effective progress beside its time, and whether it has become slower.

`plugin` is all that pytest loads without ``--headway``. `phases` measures where tests run, through `meter`, which talks
to a separate process (`observer`). `results` collects the figures, compares them with a `baseline` and shows them,
where pytest has its terminal. With pytest-xdist these are different processes; the figures travel in the tests' reports
(`record`).
"""
