CONSTANTS: dict[str, int]
STRUCTURES: dict[str, tuple[int, dict[str, tuple[int, str]]]]
