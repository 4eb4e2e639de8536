"""The picture of ``headway serve``'s page: the demo program, as a headless Chromium shows it.

As root, where Chromium is installed: ``python docs/pictures/serve.py``. It writes serve.png and serve-dark.png.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headway.demo import program

HERE = Path(__file__).parent
SIZE = "1240,760"


def main() -> None:
    """Make the pictures."""
    browser = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if browser is None:
        sys.exit("there is no Chromium here")
    words = ["headway", "serve", "--listen", "127.0.0.1:0", "--", str(program()), "--seconds", "40"]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    address = ""
    while not address:
        line = server.stderr.readline()
        if not line:
            sys.exit("headway serve did not start")
        address = found[0] if (found := re.search(r"http://\S+/", line)) else ""
    try:
        time.sleep(3)
        for name, options in (
            ("serve", ()),
            ("serve-dark", ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")),
        ):
            with tempfile.TemporaryDirectory() as profile:
                subprocess.run(
                    [
                        browser,
                        "--headless=new",
                        "--no-sandbox",
                        "--disable-gpu",
                        "--hide-scrollbars",
                        f"--user-data-dir={profile}",
                        f"--window-size={SIZE}",
                        "--virtual-time-budget=6000",
                        f"--screenshot={HERE / name}.png",
                        *options,
                        address,
                    ],
                    check=True,
                    stderr=subprocess.DEVNULL,
                    timeout=120,
                )
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
