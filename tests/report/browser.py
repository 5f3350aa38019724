"""A real browser for the page: Debian's Chromium without a window, driven through selenium."""

import json
import shutil
import time

HOW = "no browser: apt-get install chromium chromium-driver, and pip install selenium"
CHROMIUM = (
    shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
)
DRIVER = shutil.which("chromedriver")
# keys by the code points of WebDriver
UP, DOWN, LEFT, RIGHT = "\ue013", "\ue015", "\ue012", "\ue014"
END, ENTER, TAB, ESCAPE = "\ue010", "\ue007", "\ue004", "\ue00c"


def missing():
    try:
        import selenium  # noqa: F401
    except ImportError:
        return True
    return CHROMIUM is None or DRIVER is None


def start(profile, size=(1360, 900)):
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


def as_printed(value, digits=1):
    """A number as the page prints it."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


class Page:
    """A page in the browser, asked through its document."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, address):
        self.driver.get(
            "about:blank"
        )  # so that an address that differs only after # is loaded again
        self.driver.get_log("browser")
        self.driver.get(address)
        self.until("return document.documentElement.dataset.ready === 'yes'")
        self.run("document.documentElement.style.scrollBehavior = 'auto'")
        self.until(
            "return [...document.querySelectorAll('.plot')].every((plot) => plot.dataset.ready)"
        )
        return self

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, script, *arguments, seconds=20):
        end = time.monotonic() + seconds
        while not (results := self.run(script, *arguments)):
            assert time.monotonic() < end, f"never came true: {script}"
            time.sleep(0.05)
        return results

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def texts(self, selector):
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)",
            selector,
        )

    def press(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def click(self, selector):
        self._brought_into_sight(selector).click()

    def point_at(self, selector, *, scroll=True):
        from selenium.webdriver.common.action_chains import ActionChains

        node = self._brought_into_sight(selector) if scroll else self.find(selector)
        ActionChains(self.driver).move_to_element(node).perform()

    def _brought_into_sight(self, selector):
        node = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", node)
        self.settle()
        return node

    def settle(self):
        """Wait until the page has been painted, and what it does on scrolling is done."""
        self.driver.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(arguments[0])))"
        )

    def complaints(self):
        """What the page said on the console: errors, refused scripts, anything."""
        return [
            json.dumps(entry)
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
        ]
