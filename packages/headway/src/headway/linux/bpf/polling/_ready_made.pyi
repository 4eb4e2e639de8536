from typing import Any

CONTENT: dict[str, Any]
