"""A headless browser for pages that must work in one: Chromium, driven by Selenium.

Debian has both as `chromium` and `chromium-driver`; Selenium comes from PyPI.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MISSING = (
    "no browser: apt-get install chromium chromium-driver, and pip install selenium, to test pages "
    "in a real one"
)
# Chromium must ask nobody for anything: what then goes over the network is the page's doing.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


def there_is_a_browser() -> bool:
    """Whether Chromium, its driver and Selenium are installed."""
    try:
        import selenium  # noqa: F401
    except ModuleNotFoundError:
        return False
    return shutil.which("chromium") is not None and shutil.which("chromedriver") is not None


def resize(driver: Any, width: int, height: int = 900) -> None:
    """Lay the open page out anew for a window of this size; windows themselves stop at 500."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@contextmanager
def browser(width: int = 1200, height: int = 1000, *, dark: bool = False) -> Iterator[Any]:
    """A fresh browser that keeps console messages and requests."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}")
        for flag in flags:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            driver.set_page_load_timeout(60)
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
            yield driver
        finally:
            driver.quit()
