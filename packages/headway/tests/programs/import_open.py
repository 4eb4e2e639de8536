from headway import open  # noqa: F401
