"""A real browser without a screen, to open pages in: Debian's chromium, driven by selenium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

__all__ = ["ask", "browser", "load", "missing", "said"]


def missing() -> str:
    """Why there is no browser here; "" if there is one."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return "needs chromium and chromium-driver (Debian packages)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "needs selenium"
    return ""


@contextmanager
def browser(width: int = 1440, height: int = 900, *, dark: bool = False) -> Iterator[Chrome]:
    """A browser with a window of that size, which can reach no network."""
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",  # tests may run as root, and in containers
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--window-size={width},{height}",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []),
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = None
    for last in (False, False, True):  # another program may take the port that it has chosen
        try:
            driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
            break
        except WebDriverException:
            if last:
                raise
    assert driver is not None
    try:
        driver.set_script_timeout(60)
        driver.set_page_load_timeout(60)
        yield driver
    finally:
        driver.quit()


def load(driver: Chrome, page: Path) -> None:
    """Open a page, and wait until everything that it begins with is drawn."""
    driver.get(page.resolve().as_uri())
    ask(driver, "await window.headway; return true")


def ask(driver: Chrome, script: str, *arguments: Any) -> Any:
    """What a script in the page answers; it may wait. ``page`` is what the page can be asked."""
    wrapped = f"""
        const done = arguments[arguments.length - 1];
        const given = [...arguments].slice(0, -1);
        (async () => {{ const page = await window.headway; {script} }})().then(
            (value) => done([true, value]), (error) => done([false, String(error && error.stack || error)]));
    """
    well, answer = driver.execute_async_script(wrapped, *arguments)
    assert well, answer
    return answer


def said(driver: Chrome) -> list[str]:
    """What the page has written to the console since it was last asked: errors and warnings."""
    entries = driver.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]
