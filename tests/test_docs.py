"""Documents are tested like code: every command has its page, every link its target, both READMEs one content."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from numaware.cli import VERBS, build, main
from numaware.diagnose.reason import FACTS
from numaware.schedule.kube_plugins import OURS, plugin_of

ROOT = Path(__file__).parents[1]
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
TUTORIALS = ROOT / "docs/tutorial.md", ROOT / "docs/tutorial.zh-CN.md"
BUILT = {"dist", "site", "__pycache__", "node_modules"}
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "tests/**/*.md")
    for path in ROOT.glob(pattern)
    if path.is_file()
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
# What depends on the clock on the wall.
SPEED = re.compile(r"^(decisions per s|每秒决策) .*\n", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MACHINE_PATH = re.compile(r"(?<![\w./-])/(?:work|root|home/\w+)/")


def commands(app: App, *names: str) -> Iterator[str]:
    """Every command a user can type, as `numaware topology show`."""
    inner = [name for name in app if not name.startswith("-")]
    for name in inner:
        yield from commands(app[name], *names, name)
    if not inner:
        yield " ".join(("numaware", *names))


def sources() -> Iterator[Path]:
    """All files people write, hidden folders and built ones aside."""
    for top in sorted(ROOT.iterdir()):
        # In a second work tree that is a file, and says where the first one is.
        if top.is_file() and top.name != ".git":
            yield top
        elif top.name == ".ci" or (not top.name.startswith(".") and top.name not in BUILT):
            yield from (
                path for path in sorted(top.rglob("*")) if path.is_file() and not BUILT & {*path.parts}
            )


def code_blocks(text: str) -> list[list[str]]:
    """Of each fenced block what does not depend on the language: all but comments, and of answers only that there is one."""
    return [
        [line.partition("#")[0].rstrip() for line in block.splitlines()[1:-1]] if block[3] != "\n" else []
        for block in FENCED.findall(text)
    ]


def samples(text: str) -> list[tuple[str, str]]:
    """Each answer that a README shows, with the last command of the block before it."""
    pairs = zip(FENCED.findall(text), FENCED.findall(text)[1:], strict=False)
    return [
        (before.splitlines()[-2].partition("#")[0].strip(), shown[4:-3])
        for before, shown in pairs
        if shown[3] == "\n"
    ]


def headings(text: str) -> list[str]:
    """The levels of the headings, in order."""
    return re.findall(r"^#+(?= )", FENCED.sub("", text), re.MULTILINE)


# Each verb as it is when it is called: registered by name only, it would keep the short help for the rest of the run.
ALL_COMMANDS = [command for verb in VERBS for command in commands(build(verb)[verb], verb)]


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_every_command_is_on_a_page_of_the_guide(command: str) -> None:
    pages = [path for path in DOCUMENTS if ROOT / "docs" in path.parents and path.name != "index.md"]
    assert any(command in page.read_text(encoding="utf-8") for page in pages), (
        f"no page in docs/ shows `{command}`"
    )


def test_every_page_of_the_guide_can_be_reached_from_its_first() -> None:
    guide = ROOT / "docs"
    linked = {target.partition("#")[0] for target in LINK.findall((guide / "index.md").read_text("utf-8"))}
    pages = {str(path.relative_to(guide)) for path in guide.rglob("*.md") if path.name != "index.md"}
    assert pages - linked == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    targets = LINK.findall(document.read_text(encoding="utf-8"))
    local = [
        target.partition("#")[0] for target in targets if "://" not in target and not target.startswith("#")
    ]
    assert [target for target in local if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("readme", [ENGLISH, CHINESE], ids=lambda path: path.name)
def test_a_readme_opens_with_the_two_commands(readme: Path) -> None:
    first = code_blocks(readme.read_text(encoding="utf-8"))[0]
    assert first == ["make up", "make test"]


@pytest.mark.parametrize("pair", [(ENGLISH, CHINESE), TUTORIALS], ids=["readmes", "tutorials"])
def test_both_languages_have_the_same_sections_commands_and_links(pair: tuple[Path, Path]) -> None:
    english, chinese = (path.read_text(encoding="utf-8") for path in pair)
    for shape in (
        headings,
        code_blocks,
        lambda text: re.findall(r"`((?:numaware|make) [^`]+)`", text),
        lambda text: [one for one in LINK.findall(text) if "README" not in one and "tutorial" not in one],
        lambda text: len(re.findall(r"^[-|]", text, re.MULTILINE)),
    ):
        assert shape(chinese) == shape(english)


@pytest.mark.parametrize(
    ("document", "options"),
    [(ENGLISH, []), (CHINESE, ["--lang", "zh"]), (TUTORIALS[0], []), (TUTORIALS[1], ["--lang", "zh"])],
    ids=["english", "chinese", "tutorial", "chinese tutorial"],
)
def test_every_sample_is_what_its_command_prints(
    document: Path, options: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    shown = samples(document.read_text(encoding="utf-8"))
    assert shown
    for command, sample in shown:
        program, *arguments = shlex.split(command)
        assert program == "numaware"
        assert main([*arguments, *options]) in (0, 1)
        assert SPEED.sub("", capsys.readouterr().out) == SPEED.sub("", sample)


@pytest.mark.parametrize("readme", [ENGLISH, CHINESE], ids=lambda path: path.name)
def test_every_command_of_a_readme_is_there_with_its_options_and_examples(
    readme: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    blocks = code_blocks(readme.read_text(encoding="utf-8"))
    typed = [
        shlex.split(found[1])
        for block in blocks
        for line in block
        if (found := re.search(r"(?:^|\| )(?:numaware|kubectl numa) (.+)", line))
    ]
    assert len(typed) > 20
    for words in typed:
        if words[0].startswith("-"):
            continue
        inner = [word for word in words[1:2] if word in list(build(words[0])[words[0]])]
        assert main([words[0], *inner, "--help"]) == 0
        helped = capsys.readouterr().out
        assert [word for word in words if word.startswith("--") and word not in helped] == []
        assert [word for word in words if word.startswith("examples/") and not (ROOT / word).exists()] == []


def test_the_guide_for_newcomers_asks_ten_questions_and_each_answer_is_where_it_says() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    answers = re.findall(r"^\| [^|]+\? \| `([^`]+)` \| `([^`]+)` \|$", guide, re.MULTILINE)
    assert len(answers) == 10
    assert [path for path, word in answers if word not in (ROOT / path).read_text(encoding="utf-8")] == []


def test_every_module_that_the_architecture_names_is_there() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = "|".join(path.name for path in (ROOT / "src/numaware").iterdir() if path.is_dir())
    named = set(re.findall(rf"`((?:{rooms})/[\w/]+(?:\.py)?)`", page))
    assert len(named) > 30
    assert {path for path in named if not (ROOT / "src/numaware" / path).exists()} == set()


# What getDefaultPlugins and applyFeatureGates of kube-scheduler v1.35.8, v1.36 and v1.37.1 name, all of them.
PLUGINS = frozenset(
    [
        "SchedulingGates",
        "PrioritySort",
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DefaultPreemption",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
        "DefaultBinder",
        "NodeDeclaredFeatures",
        "DynamicResources",
        "GangScheduling",
        "PodGroupPodsCount",
        "TopologyPlacementGenerator",
        "DeferredPodScheduling",
    ]
)


def test_every_plugin_of_kube_scheduler_has_its_row_and_every_row_its_case() -> None:
    guide = (ROOT / "docs/scheduler.md").read_text(encoding="utf-8")
    table = guide.partition("| plugin |")[2].partition("\n\n")[0]
    first = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")]
    assert {*re.findall(r"[A-Z]\w+", " ".join(first))} >= PLUGINS
    cases = (ROOT / "tests/e2e/test_scheduler_parity.py").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in guide.splitlines() if line.startswith("| ") and "test_" in line]
    assert len(rows) >= 18
    for row in rows:
        for name in re.findall(r"`(test_\w+)\*?`", row[-1]):
            assert f"def {name}" in cases, name
    named = set(re.findall(r"def (test_\w+)", cases))
    told = re.findall(r"`(test_\w+)(\*?)`", guide)
    assert all(any(case == name or (star and case.startswith(name)) for name, star in told) for case in named)


def test_reasons_are_counted_under_names_of_kube_schedulers_plugins() -> None:
    assert {plugin_of(code) for code in FACTS} - {OURS} <= PLUGINS


def test_the_contributing_guide_names_every_make_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `make ([\w-]+)`", guide, re.MULTILINE)) == sorted(phony.split())


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    found = {}
    for path in sources():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if match := MACHINE_PATH.search(text):
            found[str(path.relative_to(ROOT))] = match[0]
    assert found == {}


def test_the_search_for_machine_paths_can_find_one() -> None:
    assert MACHINE_PATH.search("see " + "/home" + "/me/x")
    assert not MACHINE_PATH.search("https://example.org" + "/root" + "/x, root/sys and /proc/self/")
