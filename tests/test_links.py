"""Links between the documents lead somewhere: files that are there, and headings that they have."""

import pathlib
import re

import pytest

from tests.snippets import without_code

ROOT = pathlib.Path(__file__).parent.parent
PAGES = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md") for path in ROOT.glob(pattern)
)


def anchors(text):
    """Of every heading, as forges and the site make them; a second one of a name has -1."""
    text = re.sub(r"^(```+|~~~+).*?^\1\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = []
    for title in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        title = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = sum(re.fullmatch(rf"{re.escape(slug)}(-\d+)?", each) is not None for each in found)
        found.append(f"{slug}-{count}" if count else slug)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    prose = without_code(page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.is_relative_to(ROOT), target
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text()), target


def test_every_page_is_reached_from_the_index():
    index = ROOT / "docs" / "index.md"
    seen, ahead = set(), [index]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)\s#]+)", page.read_text())
        ahead += [(page.parent / each).resolve() for each in targets if ":" not in each]
        listed = re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.DOTALL | re.M)
        names = [name for each in listed for name in each.split("\n") if name]
        ahead += [(page.parent / f"{name}.md").resolve() for name in names if ":" not in name]
    assert set((ROOT / "docs").glob("**/*.md")) - seen == set()


def test_the_anchors_of_headings():
    text = "# A `b`: c, d\n```sh\n# no\n```\n## A b c d\n## [Link](x.md) and 40%\n"
    assert anchors(text) == ["a-b-c-d", "a-b-c-d-1", "link-and-40"]
