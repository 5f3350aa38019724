"""Take pictures of the page for the docs: `python tests/report/screenshots.py STUDY [FOLDER]`.

deadhead run demo --out out/demo && python tests/report/screenshots.py out/demo
"""

import sys
import tempfile
from pathlib import Path

from browser import HOW, Page, missing, start

from deadhead.report.page.html import write

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZE = (1360, 1040)


def main(study, folder):
    if missing():
        sys.exit(HOW)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        address = write(study, Path(place) / "page.html").as_uri()
        driver = start(Path(place) / "profile")
        try:
            size = {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            take(Page(driver), address, folder)
        finally:
            driver.quit()


def take(page, address, folder):
    page.open(address)
    _keep(page, folder / "page.png")
    page.run("document.getElementById('heads').scrollIntoView()")
    page.settle()
    page.point_at(
        "figure[data-map]:nth-of-type(5) tbody tr:nth-child(3) td:nth-of-type(3)", scroll=False
    )
    _keep(page, folder / "page-heads.png")
    page.open(f"{address}#trial={_telling(page)}")
    page.run(
        "const s = document.getElementById('sheet'); s.scrollTop = "
        "s.querySelector('[dir=rtl]').offsetTop - 900; document.activeElement.blur()"
    )
    _keep(page, folder / "page-trial.png")
    page.open(address)
    page.click("#theme")
    page.until("return [...document.querySelectorAll('.plot')].every((plot) => plot.dataset.ready)")
    page.run("document.activeElement.blur()")
    _keep(page, folder / "page-dark.png")


def _telling(page):
    """A trial that removed some heads and whose predictions can be read."""
    script = """
        const { records } = JSON.parse(document.getElementById('content').textContent).studies[0];
        const good = Object.entries(records).filter(
            ([, one]) => one.removed.length && one.sample.some((s) => s.lang === 'ar' && s.errors));
        return (good[0] || Object.entries(records)[0])[0]"""
    return page.run(script)


def _keep(page, file):
    page.settle()
    page.driver.get_screenshot_as_file(str(file))
    print(f"{file}: {file.stat().st_size // 1000} KB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else IMAGES)
