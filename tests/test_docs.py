"""What the pages say is run: code blocks, printed output, links, names, command lines."""

import contextlib
import io
import itertools
import re
import shlex
import tomllib
from pathlib import Path
from typing import NamedTuple

import matplotlib
import pytest

import jaxexpr
from jaxexpr import curves, exact, laws, plotting, results, training
from jaxexpr.probes.named import NAMES
from sims.catalogue import CATALOGUE, PRESETS

matplotlib.use("agg")

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
WORDS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(?:#([^)\s]+))?\)")


class Block(NamedTuple):
    """A fenced block of a page: its language and options, text, and first line."""

    info: str
    body: str
    line: int
    end: int


def blocks_of(text: str) -> list[Block]:
    return [
        Block(m["info"].strip(), m["body"], text.count("\n", 0, m.start("body")), m.end())
        for m in FENCE.finditer(text)
    ]


def examples(text: str) -> list[tuple[Block, str | None]]:
    """Python blocks that run, each with the output promised right below it, if any."""
    blocks = blocks_of(text)
    found = []
    for block, after in zip(blocks, [*blocks, None][1:], strict=True):
        if block.info != "python":
            continue
        promised = None
        if after is not None and after.info == "text":
            between = text[block.end : text.index("```text", block.end)]
            promised = after.body if not between.strip() else None
        found.append((block, promised))
    return found


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def outside_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_the_examples_run_and_print_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    namespace: dict[str, object] = {"__name__": page.stem}
    for block, promised in examples(text):
        # Empty lines before the code, so that a traceback gives the line of the page.
        code = compile("\n" * block.line + block.body, str(page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        if promised is not None:
            assert printed.getvalue().rstrip() == promised.rstrip(), f"{page.name}:{block.line}"
    if "plt" in namespace:
        namespace["plt"].close("all")  # type: ignore[attr-defined]


def test_the_pages_hold_examples_and_few_of_them_are_left_unrun():
    infos = [b.info for page in PAGES for b in blocks_of(page.read_text())]
    assert infos.count("python") >= 20
    assert infos.count("python no-run") <= 3
    assert {i for i in infos if i.startswith("python")} <= {"python", "python no-run"}


def test_output_is_compared():
    right_below = "```python\nprint(1)\n```\n\n```text\n2\n```\n"
    page = right_below + "\n```python\nprint(3)\n```\nso\n```text\n4\n```\n"
    assert [promised for _, promised in examples(page)] == ["2\n", None]


@pytest.mark.parametrize("name", jaxexpr.__all__)
def test_every_public_name_is_on_a_page(name):
    pages = "\n".join(page.read_text() for page in DOCS if page.stem != "api")
    assert re.search(rf"\b{name}\b", pages)


@pytest.mark.parametrize("name", jaxexpr.theory.__all__)
def test_every_closed_form_is_on_the_theory_page(name):
    assert f"`{name}" in (ROOT / "docs" / "theory.md").read_text()


@pytest.mark.parametrize("page", WORDS, ids=label)
def test_relative_links_lead_somewhere(page):
    for target, anchor in LINK.findall(outside_code(page.read_text())):
        there = (page.parent / target).resolve()
        assert there.exists(), f"{page.name} links to {target}"
        if page.parent.name == "docs":
            assert there.parent == ROOT / "docs", f"{page.name} links out of docs/: {target}"
        if anchor:
            assert anchor in anchors(there.read_text()), f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_simulation_is_described(name):
    assert f"`{name}`" in (ROOT / "docs" / "simulations.md").read_text()


@pytest.mark.parametrize("page", WORDS, ids=label)
def test_command_lines_name_what_exists(page):
    text = page.read_text()
    shell = "\n".join(b.body for b in blocks_of(text) if b.info in ("bash", "sh"))
    commands = re.findall(r"python -m sims ([^`\n#]+)", shell + "\n" + outside_fences(text))
    for command in commands:
        name, *rest = shlex.split(command)
        assert name in {*CATALOGUE, "list", "all", "NAME"}, f"{page.name}: {command}"
        options = dict(itertools.pairwise(rest))
        assert options.get("--preset", "quick") in PRESETS, f"{page.name}: {command}"
    scripts = re.findall(r"python ((?:benchmarks|sims)/\w+\.py)", text)
    assert all((ROOT / script).is_file() for script in scripts)


def outside_fences(text: str) -> str:
    return FENCE.sub("", text)


def test_mkdocs_lists_every_page():
    nav = (ROOT / "mkdocs.yml").read_text()
    assert sorted(re.findall(r"(\w+\.md)", nav)) == sorted(page.name for page in DOCS)


def test_the_readme_keeps_its_benchmark_markers():
    text = (ROOT / "README.md").read_text()
    begin, end = "<!-- benchmark:begin -->", "<!-- benchmark:end -->"
    assert text.count(begin) == text.count(end) == 1
    assert text.index(begin) < text.index(end)


def test_the_version_is_the_same_everywhere():
    version = jaxexpr.__version__
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## \[{re.escape(version)}\]", (ROOT / "CHANGELOG.md").read_text(), re.M)


@pytest.mark.parametrize("part", [exact, training], ids=lambda part: part.__name__)
def test_every_name_of_a_part_is_in_the_table_of_names(part):
    table = (ROOT / "docs" / "index.md").read_text()
    assert [name for name in part.__all__ if f"`{name}`" not in table] == []


@pytest.mark.parametrize("name", [*jaxexpr.__all__, "results", "plotting", "training"])
def test_every_public_name_is_in_the_table_of_names(name):
    assert re.search(rf"`(jaxexpr\.)?{name}`", (ROOT / "docs" / "index.md").read_text())


@pytest.mark.parametrize("page", WORDS, ids=label)
def test_dotted_names_on_the_pages_exist(page):
    modules = {
        "exact": exact, "theory": jaxexpr.theory, "training": training, "curves": jaxexpr.curves,
        "laws": jaxexpr.laws, "results": results, "plotting": plotting,
        "datasets": jaxexpr.datasets, "track": training.track,
    }  # fmt: skip
    named = re.findall(rf"`(?:jaxexpr\.)?({'|'.join(modules)})\.(\w+)", page.read_text())
    files = {"csv", "json", "nc", "py", "md", "png", "toml", "txt"}
    missing = {
        f"{module}.{name}"
        for module, name in named
        if name not in files and not hasattr(modules[module], name)
    }
    assert missing == set(), page.name


@pytest.mark.parametrize("page", WORDS, ids=label)
def test_files_on_the_pages_exist(page):
    text = outside_fences(page.read_text())
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", text))
    for name in named - {"utils.py", "sims/papers/PAPER.py", "sims/TOPIC/WHAT.py"}:  # patterns
        places = [ROOT / name, *(ROOT / "jaxexpr").rglob(name), *(ROOT / "sims").rglob(name)]
        assert any(place.is_file() for place in places), f"{page.name} names {name}"


def test_the_documentation_tools_are_pinned():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert groups["docs"] and all("==" in requirement for requirement in groups["docs"])


def test_every_named_probe_has_a_row():
    table = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "probes.md").read_text(), re.M)
    assert set(NAMES) <= set(table)


@pytest.mark.parametrize(
    ("kind", "module", "refusal"),
    [(laws.Law, laws, laws.as_law), (curves.Curve, curves, curves.as_curve)],
)
def test_every_law_and_every_curve_is_named_where_another_thing_is_refused(kind, module, refusal):
    """A new one that is not named there cannot be found by those who misspell it."""
    with pytest.raises(ValueError) as error:
        refusal("argument", 3)
    made = {
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__
        and not name.startswith(("_", "as_"))
        and (
            (isinstance(value, type) and issubclass(value, kind) and value is not kind)
            or getattr(value, "__annotations__", {}).get("return") == kind.__name__
        )
    }
    assert len(made) > 5
    assert made <= set(module._NAMES.split())
    assert all(name in str(error.value) for name in made)
