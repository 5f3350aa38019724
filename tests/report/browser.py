"""A real browser for the page: Debian's Chromium without a window, driven through selenium."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

HOW = "no browser: apt-get install chromium chromium-driver, and pip install selenium"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


def missing() -> bool:
    try:
        import selenium  # noqa: F401
    except ImportError:
        return True
    return CHROMIUM is None or DRIVER is None


def start(profile: Path, size: tuple[int, int] = (1360, 900)) -> Any:
    """A Chromium that keeps what the page says on its console."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = str(CHROMIUM)
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-proxy-server",
        "--hide-scrollbars",
    ):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={profile}")
    options.add_argument(f"--window-size={size[0]},{size[1]}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(str(DRIVER)))
