"""The pictures of docs/html.md: a page of headway's own demo program, recorded and profiled here, in headless Chromium.

``python docs/pictures/page.py [FOLDER]`` as root, from the package; without a folder it replaces those beside it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.browser import ask, browser, load, missing, said

from headway.demo import program

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
WHOLE = "return true"
CLOSE = """
    const { timeline, store } = page;
    document.getElementById('timeline').scrollIntoView();
    scrollBy(0, -110);
    // The first long wait for the lock after the middle that its holder ended.
    store.instant = store.length * 0.5;
    for (let at = 0; at < 1000; at++) {
        const found = await timeline.find('wait.futex', 1);
        if (!found || (store.wakerThread(found.waker) !== null && found.end - found.start > 1e6)) break;
    }
    const end = store.stretch.end;
    await timeline.show(end - 2.5e6, end + 1.5e6);
    await new Promise((resolve) => setTimeout(resolve, 400));
    return true;
"""
FLAMES = """
    for (const box of document.querySelectorAll('.kinds input'))
        if (/ready|wait/.test(box.parentElement.innerText)) box.click();
    document.getElementById('flames').scrollIntoView();
    scrollBy(0, -110);
    await new Promise((resolve) => setTimeout(resolve, 400));
    return true;
"""


def _headway(folder: Path, *words: str | Path) -> None:
    subprocess.run([*HEADWAY, *map(str, words)], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Take them."""
    if missing():
        raise SystemExit(missing())
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    with TemporaryDirectory() as scratch:
        here = Path(scratch)
        run, prof = here / "demo.hw", here / "prof.hw"
        shutil.copy(program(), here / "demo")
        command = ["--", "./demo", "--seconds", "1.5"]
        _headway(here, "record", "-o", run, *command)
        _headway(here, "profile", "-o", prof, *command)
        for path in (run, prof):
            _headway(here, "report", path, "--html", path.with_suffix(".html"))
        for name, path, dark, height, script in (
            ("html.png", run, False, 1140, WHOLE),
            ("html-close-dark.png", run, True, 900, CLOSE),
            ("html-flames.png", prof, False, 700, FLAMES),
        ):
            with browser(1440, height, dark=dark) as driver:
                load(driver, path.with_suffix(".html"))
                ask(driver, script)
                driver.save_screenshot(str(folder / name))
                if said(driver):
                    raise SystemExit(f"{name}: {said(driver)}")


if __name__ == "__main__":
    main()
