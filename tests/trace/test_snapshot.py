"""Snapshots whose INI files are hostile: refused in one printable sentence that is not as long as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.trace.decode import Capture

from .snapshots import write

LONG = "x" * 100_000
BUFFER = "[trace_buffers]\nbuffers=b\n[b]\nname=B\nfile=trace.bin\nformat=coresight\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"trace": f"[trace_buffers]\nbuffers=b\n[b]\nname=x\nfile=trace.bin\nformat={LONG}\n"},
        {"trace": f"[trace_buffers]\nbuffers={LONG}\n"},
        {"trace": f"[trace_buffers]\nbuffers=b\n[b]\nname=ETB\nfile={LONG}\nformat=coresight\n"},
        {"trace": BUFFER.replace("name=B", "name=a\x1b[31mb")},
        {"trace": f"{BUFFER}[source_buffers]\n{LONG}=B\n"},
        {"trace": f"{BUFFER}[source_buffers]\nETM={LONG}\n"},
        {"snapshot": f"[device_list]\na={LONG}\n[trace]\nmetadata=trace.ini\n"},
        {"snapshot": f"[device_list]\na=cpu.ini\n[trace]\nmetadata={LONG}\n"},
        {"etm": f"[device]\nname=ETM\nclass=trace_source\ntype={LONG}\n"},
        {"cpu": f"[device]\nname=cpu\nclass=core\ntype=A7\n[dump]\nfile={LONG}\naddress=0\n"},
        {"cpu": f"[device]\nname=cpu\nclass={LONG}\ntype=A7\n"},
        {"ptm": f"[device]\nname=PTM\nclass=trace_source\ntype={'x' * 4000}\n[regs]\nETMTRACEIDR=0x10\n", "etm": None},
    ],
    ids=range(12),
)
def test_what_is_refused_is_refused_in_a_short_sentence(tmp_path: Path, changes: dict[str, str | None]) -> None:
    with pytest.raises(HeadwayError) as refused:
        Capture.open(str(write(tmp_path / "s", None, **changes)))
    text = str(refused.value)
    assert text.isprintable()
    assert len(text) < 600 + len(str(tmp_path))
