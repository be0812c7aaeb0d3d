"""Tables of a report in a browser: sorted from the keyboard, and said to be."""

import contextlib
import shutil

import pytest

from tests.test_report import ELEVEN, many, page_of

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture
def browser(tmp_path):
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("there is no chromium with a chromedriver here")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    with contextlib.closing(driver):
        yield driver
    driver.quit()


def column(table, place):
    return [row.find_elements(By.TAG_NAME, "td")[place].text
            for row in table.find_elements(By.CSS_SELECTOR, "tbody tr")]  # fmt: skip


@pytest.mark.slow
def test_tables_are_sorted_from_the_keyboard(browser, tmp_path):
    page_of(tmp_path, many(10, ELEVEN))
    browser.get((tmp_path / "index.html").as_uri())
    table = browser.find_element(By.CSS_SELECTOR, "table.sortable")
    heads = table.find_elements(By.CSS_SELECTOR, "th")
    assert [head.get_attribute("aria-sort") for head in heads] == [None] * len(heads)
    assert column(table, 0) == list(ELEVEN)
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)  # to the box that scrolls
    for _ in range(3):  # the name, all groups, noisy groups
        browser.switch_to.active_element.send_keys(Keys.TAB)
    button = browser.switch_to.active_element
    assert button.tag_name == "button"
    place = [head.text for head in heads].index(button.text)
    shares = [float(cell) for cell in column(table, place)]
    for key, order in ((Keys.ENTER, "descending"), (Keys.SPACE, "ascending")):
        browser.switch_to.active_element.send_keys(key)
        assert heads[place].get_attribute("aria-sort") == order
        expected = sorted(shares, reverse=order == "descending")
        assert [float(cell) for cell in column(table, place)] == expected
    gain = next(i for i, head in enumerate(heads) if "gain" in head.text)
    heads[gain].find_element(By.TAG_NAME, "button").click()
    assert column(table, gain)[-1] == "-"  # what has no value comes last
    assert heads[place].get_attribute("aria-sort") is None
    heads[0].find_element(By.TAG_NAME, "button").click()
    assert column(table, 0) == sorted(ELEVEN)
    groups = browser.find_elements(By.CSS_SELECTOR, "table.sortable")[1]
    groups.find_elements(By.CSS_SELECTOR, "thead tr:last-child button")[1].click()
    means = groups.find_elements(By.CSS_SELECTOR, "tr.mean td:first-child")
    assert means[0].text == "mean of all groups"
    assert means[0].location["y"] > groups.find_element(By.CSS_SELECTOR, "tbody").location["y"]
    assert browser.get_log("browser") == []
