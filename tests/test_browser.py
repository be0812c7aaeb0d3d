"""Reports opened in Chromium: nothing complains, and the gallery is filtered from the keyboard."""

import contextlib
import shutil

import pytest

from har_jax.report.page import write_page
from har_jax.report.results import summarize
from tests import reports

pytestmark = pytest.mark.slow

MAKE = {
    "digits": lambda root: reports.of_digits(),
    "files": lambda root: reports.of_files(root / "images", known=False),
    "texts": lambda root: reports.of_texts(),
    "1000 classes": lambda root: reports.of_classes(1000),
}
OFF = ("gpu", "quic", "background-networking", "component-update", "sync")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """A driver of a browser without a window; the test is skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    found = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in found:
        pytest.skip("chromium or chromedriver is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location, driver = found
    profile = tmp_path_factory.mktemp("profile")
    for argument in ("headless", "no-sandbox", "no-first-run", f"user-data-dir={profile}"):
        options.add_argument(f"--{argument}")
    for part in OFF:
        options.add_argument(f"--disable-{part}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield browser
    with contextlib.suppress(Exception):
        browser.quit()


def cards(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('.gallery li')].filter(e => e.checkVisibility())"
        ".map(e => e.dataset.label)"
    )


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", MAKE)
def test_a_report_in_a_browser(tmp_path, chromium, kind, scheme):
    from selenium.webdriver.common.keys import Keys

    path = tmp_path / "index.html"
    inputs = MAKE[kind](tmp_path)
    write_page(path, inputs, summarize(inputs))
    assert path.stat().st_size < 6_000_000
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for width in (380, 1200):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        chromium.get(path.as_uri())
        right = "return Math.max(...[...document.querySelectorAll('.gallery *')]"
        right += ".map(e => e.getBoundingClientRect().right))"
        assert chromium.execute_script(right) <= width
    assert [entry["message"] for entry in chromium.get_log("browser")] == []
    broken = "return [...document.images].filter(e => e.complete && !e.naturalWidth).length"
    assert chromium.execute_script(broken) == 0

    every = cards(chromium)
    assert 0 < len(every) <= 48
    active = lambda: chromium.switch_to.active_element
    chromium.execute_script("document.querySelector('[data-by=list]').focus()")
    active().send_keys(Keys.TAB)
    assert active().get_attribute("data-by") == "label"
    active().send_keys(Keys.ARROW_DOWN)
    chosen = active().get_property("value")
    left = cards(chromium)
    assert chosen
    assert left
    assert set(left) == {chosen}
    status = chromium.execute_script("return document.querySelector('[role=status]').textContent")
    assert status.startswith(f"shown are {len(left)} of ")
    active().send_keys(Keys.TAB)
    first = active()
    assert first.tag_name == "li"
    if len(left) > 1:
        first.send_keys(Keys.ARROW_RIGHT)
        assert active() != first
        active().send_keys(Keys.HOME)
        assert active() == first
        outline = "return getComputedStyle(document.activeElement).outlineStyle"
        assert chromium.execute_script(outline) == "solid"
    chromium.execute_script("document.querySelector('[data-by=list]').focus()")
    active().send_keys(Keys.ARROW_DOWN)
    titles = "return [...document.querySelectorAll('.gallery section')]"
    titles += ".filter(e => !e.hidden).map(e => e.dataset.list)"
    assert chromium.execute_script(titles) == ["uncertain"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_more_are_shown_when_asked_for_and_all_without_a_script(tmp_path, chromium):
    path = tmp_path / "index.html"
    inputs = reports.of_digits()
    write_page(path, inputs, summarize(inputs))
    chromium.get(path.as_uri())
    assert len(cards(chromium)) == 48
    button = "document.querySelector('.gallery section:not([hidden]) > button')"
    chromium.execute_script(f"{button}.click()")
    assert len(cards(chromium)) == 96
    assert chromium.switch_to.active_element.tag_name == "li"
    without = path.read_text("utf-8").replace("<script>", "<template>")
    (tmp_path / "without.html").write_text(without.replace("</script>", "</template>"), "utf-8")
    chromium.get((tmp_path / "without.html").as_uri())
    assert len(cards(chromium)) == without.count("<li data-label")
