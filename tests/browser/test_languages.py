"""No English sentence is left on any page in Chinese, and changing the language changes what is there already.

Names, what is typed, and what kubelets and other programs said stay as they are: such text stands in `pre`, `code` or
`.mono`, or is marked as English.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from numaware.serve.authentication import TokenAuthentication
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import Access
from numaware.serve.console.lab.world import LabWorld, lab_cluster
from numaware.serve.console.views.pod_shape import Shape, pod_of
from numaware.twin.topology.hints import Hint
from support.console_server import RunningConsole, running
from support.console_world import console
from support.kubelet_logs import ERAS, Story, written

PAGES = (
    "/overview",
    "/overview?group=none",
    "/nodes",
    "/nodes/gpu-1",
    "/nodes/epyc-0",
    "/nodes/nobody",
    "/pods",
    "/pods/default/nobody",
    "/monitoring?node=gpu-1",
    "/policies",
    "/traffic",
    "/traffic?node=box-0",
    "/diagnose",
    "/simulate",
)
# One for every verdict, other policies, and a machine that would never do.
QUESTIONS = (
    "node=epyc-0&shape=cpu:14,mem:40Gi,gpu:0",
    "node=box-0&shape=cpu:60,mem:8Gi,gpu:0",
    "node=box-0&shape=cpu:4,mem:8Gi,gpu:1",
    "node=gpu-0&shape=cpu:24,mem:96Gi,gpu:2",
    "node=gpub-1&shape=cpu:4,mem:64Gi,gpu:1",
    "node=box-0&policy=none&shape=cpu:1,mem:1Gi,gpu:0",
    "node=p100-0&policy=single-numa-node&scope=pod&shape=cpu:20,mem:8Gi,gpu:2",
)
LOG = "\n".join(
    written(
        ERAS[-1],
        Story(
            hints={"cpu": [Hint(2, preferred=True)], "memory": [Hint(1, preferred=True)]},
            merged=Hint(None, preferred=False),
            reason="TopologyAffinityError",
            message="Resources cannot be allocated with Topology locality",
        ),
    )
)
# Texts that are seen, or heard by those who cannot see.
TEXTS = """() => {
  const found = [];
  const quoted = "pre, code, kbd, script, style, .mono, [lang=en]";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const holder = walker.currentNode.parentElement;
    if (!holder.closest(quoted + ", textarea") && holder.getClientRects().length) found.push(walker.currentNode.data.trim());
  }
  for (const one of document.querySelectorAll("[aria-label], [placeholder], [title], [alt]")) {
    if (one.closest(quoted)) continue;
    for (const name of ["aria-label", "placeholder", "title", "alt"]) found.push(one.getAttribute(name) ?? "");
  }
  return [...new Set(found)].filter((text) => text);
}"""
_WORD = re.compile(r"[A-Z]?[a-z']+|[aAI]")


def english(text: str) -> str:
    """The first three plain English words in a row, empty if there are none; names have dots, dashes, digits or humps."""
    row: list[str] = []
    for word in re.split(r"[\s,;()\"]+|:\s|[^\x00-\x7f]+", text):
        row = [*row, word] if _WORD.fullmatch(word.rstrip(".!?")) else []
        if len(row) == 3:
            return " ".join(row)
    return ""


def assert_chinese(page: Page) -> None:
    """All of it, once the server has been asked again for what it words."""
    texts: list[str] = page.evaluate(TEXTS)
    for _ in range(600):
        if not any(english(text) for text in texts):
            break
        page.wait_for_timeout(100)
        texts = page.evaluate(TEXTS)
    assert any("\u4e00" <= letter <= "\u9fff" for text in texts for letter in text)
    assert [text for text in texts if english(text)] == []


@pytest.fixture(scope="module")
def server() -> Iterator[RunningConsole]:
    with running(console) as found:
        yield found


@contextmanager
def opened(browser: Browser, server: RunningConsole, path: str, locale: str = "zh-CN") -> Iterator[Page]:
    context = browser.new_context(
        locale=locale, reduced_motion="reduce", viewport={"width": 1280, "height": 900}
    )
    page = context.new_page()
    page.goto(server.url + path)
    expect(page.locator(".live.off")).to_have_count(0)
    expect(page.locator(".bone")).to_have_count(0)
    yield page
    context.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("节点 gpu-07 的 kubelet 会说：TopologyAffinityError", ""),
        ("16 CPUs would fit on NUMA 1", "would fit on"),
        ("ConfigMap volcano-system/volcano-scheduler-configmap, key volcano-scheduler.conf", ""),
        ("粘贴 Pod、Deployment、StatefulSet、Job", ""),
        ("服务拒绝了请求：there is no node", "there is no"),
    ],
)
def test_english_is_told_from_names(text: str, found: str) -> None:
    assert english(text) == found


@pytest.mark.parametrize("path", PAGES)
def test_a_page_in_chinese_is_in_chinese(browser: Browser, server: RunningConsole, path: str) -> None:
    with opened(browser, server, path) as page:
        assert_chinese(page)


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_in_chinese(browser: Browser, server: RunningConsole, question: str) -> None:
    with opened(browser, server, f"/whatif?{question}") as page:
        expect(page.locator(".banner")).to_be_visible()
        assert_chinese(page)


def test_all_verdicts_are_among_the_answers(server: RunningConsole) -> None:
    def verdicts(found: Console) -> set[str]:
        told: set[str] = set()
        for shape in (Shape("14", "40Gi", 0), Shape("28", "8Gi", 0), Shape("4", "64Gi", 1)):
            told |= {one.verdict for one in found.wall_model.judge.judge(pod_of(shape))}
        return told

    assert server.do(verdicts) == {"aligned", "split", "refused", "full", "never"}


def test_pods_that_run_and_pods_that_wait_are_told_of_in_chinese(browser: Browser) -> None:
    def crowded() -> Console:
        """Two machines without GPUs, and pods that want some."""
        spec = lab_cluster()
        nodes = tuple(node for node in spec.nodes if node.name in ("box-0", "box-1"))
        world = LabWorld(0, spec=type(spec)(spec.name, nodes))
        world.advance(600_000)
        return Console(world, lambda: world.now)

    def names(found: Console) -> list[str]:
        running_pod = next(pod for member in found.world.cluster for pod in member.pods.values())
        waiting = [one.pod for one in found.world.waiting.values()]
        return [f"{pod.namespace}/{pod.name}" for pod in (running_pod, *waiting[:1])]

    with running(crowded) as server:
        found = server.do(names)
        assert len(found) == 2
        for name in found:
            with opened(browser, server, f"/pods/{name}") as page:
                assert_chinese(page)
        expect_waiting = server.do(lambda one: next(iter(one.world.waiting.values())).message)
        assert "nodes are available" in expect_waiting


def test_what_a_person_does_is_answered_in_chinese(
    browser: Browser, server: RunningConsole, tmp_path: Path
) -> None:
    log = tmp_path / "kubelet.log"
    log.write_text(LOG)
    with opened(browser, server, "/diagnose") as page:
        page.locator("input[type=file]").set_input_files([log])
        expect(page.locator(".finding").first).to_contain_text("TopologyAffinityError")
        assert_chinese(page)
    with opened(browser, server, "/whatif") as page:
        page.get_by_role("button", name="YAML").click()
        page.get_by_role("textbox").fill("kind: ConfigMap")
        page.get_by_role("button", name="提问").click()
        expect(page.get_by_role("alert")).to_contain_text("不含 Pod")
        assert_chinese(page)
    with opened(browser, server, "/policies") as page:
        page.get_by_role("button", name=re.compile("试试其他")).first.click()
        page.get_by_label("策略").first.select_option("single-numa-node")
        page.get_by_role("button", name="试试", exact=True).click()
        expect(page.get_by_text(re.compile("那里的 .* 个 Pod 都会再次准入|个 Pod 中有"))).to_be_visible()
        page.get_by_role("switch").first.click()
        expect(page.locator(".diff")).to_be_visible()
        assert_chinese(page)


def few() -> Console:
    return console(nodes=4)


def test_a_guarded_console_asks_in_chinese(browser: Browser) -> None:
    with running(few, Access("127.0.0.1:0", TokenAuthentication(str(uuid.UUID(int=7))))) as server:
        context = browser.new_context(locale="zh-CN")
        page = context.new_page()
        page.goto(server.url + "/overview")
        page.get_by_label("令牌").fill("wrong-horse-battery-staple")
        page.get_by_role("button", name="使用").click()
        expect(page.get_by_role("alert")).to_be_visible()
        assert_chinese(page)
        context.close()


def test_schedulers_are_compared_in_chinese(browser: Browser) -> None:
    with running(few) as server, opened(browser, server, "/simulate") as page:
        page.get_by_role("spinbutton", name="Pod").fill("60")
        page.get_by_role("button", name="运行").click()
        expect(page.get_by_role("rowheader", name="kube-scheduler")).to_be_visible()
        assert_chinese(page)


def test_changing_the_language_changes_the_answer_that_is_shown(
    browser: Browser, server: RunningConsole
) -> None:
    def refusing(found: Console) -> str:
        pod = pod_of(Shape("14", "40Gi", 0))
        judged = zip(found.world.cluster, found.wall_model.judge.judge(pod), strict=True)
        return next(member.name for member, one in judged if one.verdict == "refused")

    path = f"/whatif?node={server.do(refusing)}&shape=cpu:14,mem:40Gi,gpu:0"
    with opened(browser, server, path, "en-US") as page:
        expect(page.locator(".banner")).to_contain_text("CPUs")
        page.get_by_role("button", name="中文").click()
        expect(page.locator(".banner")).to_contain_text("请求 14 个 CPU")
        # The list beside it is another question, asked a moment later and answered by itself.
        assert_chinese(page)
