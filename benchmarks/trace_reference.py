"""How much of OpenCSD's snapshots is decoded as OpenCSD decodes it: each snapshot, or the reason why not.

``HEADWAY_OPENCSD`` names the folder ``decoder/tests`` of OpenCSD's sources (docs/trace/trace-checks.md), and
``trc_pkt_lister`` must be installed. A snapshot counts as equal if in every stream the same instructions were executed
in the same order. Where no instruction can be known, because no program is, the packets must be the same. Snapshots of
which OpenCSD shows more than is certain are compared with ``--assume``, too.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

from tests.trace import opencsd

from headway.errors import HeadwayError

from .common import heading, load, table


def main() -> None:
    """Print the table as Markdown."""
    print("\n## Snapshots of OpenCSD\n")
    if not opencsd.FOLDER or not opencsd.LISTER:
        print("Not compared: HEADWAY_OPENCSD names no folder, or trc_pkt_lister is not installed.")
        return
    rows, equal, followed, all_ = [], Counter[str](), Counter[str](), Counter[str]()
    for folder, snapshots in groupby(opencsd.SNAPSHOTS, lambda snapshot: Path(snapshot).parent.name):
        for snapshot in snapshots:
            streams: list[opencsd.Comparison] | HeadwayError
            try:
                streams = opencsd.compare(snapshot)
            except HeadwayError as error:
                streams = error
            except opencsd.UnlistedError as error:
                rows.append([snapshot, "", "", "", f"not compared: {error}"])
                continue
            why = opencsd.reason(snapshot, streams)
            all_[folder] += 1
            equal[folder] += not why
            row = [snapshot, "", "", "", why]
            if not isinstance(streams, HeadwayError):
                row[1] = ", ".join(sorted({one.stream.setting.protocol for one in streams}))
                row[2] = f"{sum(one.instructions for one in streams):,}"
                reference = sum(one.reference for one in streams)
                row[3] = f"{sum(one.common for one in streams):,} of {reference:,}"
                if not why:
                    row[4] = "equal" if reference else "equal in packets"
                elif snapshot in opencsd.UNCERTAIN and not opencsd.reason(
                    snapshot, opencsd.compare(snapshot, assumes=True)
                ):
                    followed[folder] += 1
                    row[4] = f"equal with --assume: {why}"
            rows.append(row)
    print(table(["snapshot", "protocol", "instructions", "as OpenCSD's", "result"], rows))
    print()
    for folder, count in all_.items():
        print(f"{folder}: {equal[folder]} of {count} equal, {followed[folder]} more with --assume")


if __name__ == "__main__":
    print(f"# {heading()}\n\n({load()})", flush=True)
    main()
