NATIVE: dict[int, str]
COMPAT: dict[int, str]
