CONSTANTS: dict[str, int]
ENUMERATIONS: dict[str, tuple[str, ...]]
STRUCTURES: dict[str, tuple[int, dict[str, tuple[int, str]]]]
