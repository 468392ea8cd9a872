"""Law: putting Volcano's plugin in and out again gives back every byte, whatever a person has written around it."""

from __future__ import annotations

from contextlib import suppress
from difflib import ndiff

import yaml
from hypothesis import given
from hypothesis import strategies as st

from numaware.errors import InputError
from numaware.serve.console.openfuyao.volcano_conf import status_of, switched

words = st.text("abcdefghij-", min_size=1, max_size=8).map(lambda word: f"p{word}q")
comments = st.sampled_from(["", "# why", "# name: numa-aware", "#- name: numa-aware", "# 中文 ünï 'quote\""])
values = st.sampled_from(
    ["1", "true", '"a: b"', "'it''s'", "{a: 1, b: [2, 3]}", "[]", "", "plain words", "1.50"]
)
breaks = st.sampled_from(["\n", "\r\n"])


@st.composite
def plugins(draw: st.DrawFn, indent: str) -> list[str]:
    """One plugin with arguments, comments and blank lines, as somebody may have typed it."""
    quote = draw(st.sampled_from(["", "'", '"']))
    lines = [f"{indent}- name: {quote}{draw(words)}{quote}{draw(tails)}"]
    fields = draw(st.lists(st.tuples(words, values, tails), max_size=2, unique_by=lambda field: field[0]))
    lines += [f"{indent}  {name}: {value}{tail}" for name, value, tail in fields]
    if draw(st.booleans()):
        lines += [f"{indent}  note: |", f"{indent}    # no comment", f"{indent}    - name: numa-aware"]
    lines += draw(
        st.lists(st.sampled_from(["", f"{indent}# side", f"{indent}  # inside", "# far out"]), max_size=3)
    )
    return lines


tails = comments.map(lambda comment: f"  {comment}" if comment else "")


@st.composite
def confs(draw: st.DrawFn) -> str:
    """A configuration of Volcano's without the plugin."""
    line_break = draw(breaks)
    outer = " " * draw(st.integers(0, 3))
    inner = outer + " " * draw(st.integers(2, 4))
    lines = [draw(comments), f'actions: "enqueue, allocate"{draw(tails)}', "", f"tiers:{draw(tails)}"]
    for _ in range(draw(st.integers(1, 3))):
        lines.append(f"{outer}- plugins:{draw(tails)}")
        for _ in range(draw(st.integers(1, 4))):
            lines += draw(plugins(inner))
    if draw(st.booleans()):
        lines += ["configurations:", "- name: numa-aware", "  arguments: {x: 1}"]
    return line_break.join(lines) + draw(st.sampled_from(["", line_break, line_break * 2]))


@given(confs())
def test_in_and_out_again_gives_back_every_byte(text: str) -> None:
    assert status_of(text) == "close"
    try:
        opened = switched(text, "open")
    except InputError:
        # The one thing that cannot be done: a text of several lines that ends with the file.
        assert text.endswith("    - name: numa-aware")
        return
    assert status_of(opened) == "open"
    assert switched(opened, "open") == opened
    assert switched(opened, "close") == text


@given(confs())
def test_only_the_plugins_own_line_differs(text: str) -> None:
    with suppress(InputError):
        opened = switched(text, "open")
        changed = [line for line in ndiff(text.splitlines(), opened.splitlines()) if line[0] in "+-"]
        assert [(line[0], line[1:].strip()) for line in changed] == [("+", "- name: numa-aware")]


@given(confs())
def test_every_other_plugin_and_value_is_what_it_was(text: str) -> None:
    with suppress(InputError):
        before, after = yaml.safe_load(text), yaml.safe_load(switched(text, "open"))
        assert after["tiers"][-1]["plugins"].pop() == {"name": "numa-aware"}
        assert after == before


@given(confs(), st.data())
def test_a_damaged_file_is_refused_or_edited_well_and_never_breaks_anything(
    text: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 12))
    junk = data.draw(st.text("{}[]-:#&*!|>'\"%@` \n\t?,~<ab\x00\u2028", max_size=6))
    damaged = text[:at] + junk + text[at + cut :]
    for status in ("open", "close"):
        with suppress(InputError):
            changed = switched(damaged, "open" if status == "open" else "close")
            assert status_of(changed) == status


@given(st.text(max_size=60))
def test_any_text_is_a_configuration_or_one_error(text: str) -> None:
    with suppress(InputError):
        assert status_of(text) in ("open", "close")
