"""The difference that matters, in a sentence: what a reader should remember of a comparison, in English and Chinese.

Said as measured: where numaware comes second, the sentence says so.
"""

from __future__ import annotations

from typing import NamedTuple

from numaware.simulate.comparison import (
    ALIGNED,
    PLACED,
    REFUSALS,
    STRANDED,
    Contest,
    Measure,
    Standing,
    allocated,
    number,
    tenths,
)


class Card(NamedTuple):
    """One of the large numbers under the sentence, with what others came to."""

    title: str
    value: str
    unit: str
    beside: str


def sentence(contest: Contest) -> str:
    """Refusals and allocation of our policy and of the usual one."""
    said = "; ".join(_told(contest, one) for one in _both(contest))
    return f"{said}, on average of {len(contest.seeds)} seeds." if len(contest.seeds) > 1 else f"{said}."


def difference(contest: Contest) -> str:
    """What that comes to, and who else was better than our policy."""
    usual = contest.usual
    if usual is None:
        return ""
    ours = contest.ours
    measure = allocated(contest)
    said = [
        _change(REFUSALS, ours, usual, ("{} fewer refusals", "as many refusals", "{} more refusals")),
        _change(PLACED, ours, usual, ("{} fewer pods placed", "as many pods placed", "{} more pods placed")),
        _change(
            measure,
            ours,
            usual,
            (
                f"{{}} points less {contest.resource} allocated",
                "the same allocation",
                f"{{}} points more {contest.resource} allocated",
            ),
        ),
    ]
    text = f"Against {usual.policy}: {', '.join(said)}."
    ahead = [
        f"{one.policy} ({measure.show(one.of(measure.read).mean)} %)" for one in _ahead(contest, measure)
    ]
    if ahead:
        text += f" Higher {contest.resource} allocation than {ours.policy}: {', '.join(ahead)}."
    return text


def in_chinese(contest: Contest) -> str:
    """The same sentence for Chinese readers; names that are typed stay as they are."""
    measure = allocated(contest)
    said = [
        f"{one.policy}：kubelet 拒绝 {number(one.of(REFUSALS.read).mean)} 次，"
        f"{contest.resource} 分配率 {tenths(one.of(measure.read).mean)} %"
        for one in _both(contest)
    ]
    return "；".join(said) + "。"


def cards(contest: Contest) -> tuple[Card, ...]:
    """The five numbers under the sentence."""
    pods = max(one.run.pods_total for one in contest.results)
    return (
        _card(contest, "Refused by kubelets", REFUSALS, "times"),
        _card(contest, f"{contest.resource} allocated", allocated(contest), "%"),
        _card(contest, f"{contest.resource} stranded", STRANDED, "%"),
        _card(contest, "Pods placed", PLACED, f"of {number(pods)}"),
        _card(contest, "Pinned pods aligned", ALIGNED, "%"),
    )


def _both(contest: Contest) -> list[Standing]:
    return [contest.ours] if contest.usual is None else [contest.ours, contest.usual]


def _told(contest: Contest, one: Standing) -> str:
    refusals = one.of(REFUSALS.read).mean
    noun = "kubelet refusal" if refusals == 1 else "kubelet refusals"
    share = tenths(one.of(allocated(contest).read).mean)
    return f"{one.policy}: {number(refusals)} {noun}, {share} % of {contest.resource}s allocated"


def _change(measure: Measure, ours: Standing, usual: Standing, words: tuple[str, str, str]) -> str:
    """How much less or more ours is, in the words for less, equal and more."""
    change = ours.of(measure.read).mean - usual.of(measure.read).mean
    shown = measure.show(abs(change))
    less, same, more = words
    return same if shown in ("0", "0.0") else (less if change < 0 else more).format(shown)


def _ahead(contest: Contest, measure: Measure) -> list[Standing]:
    """Policies with a better number than ours, as it is written."""
    ours = contest.ours.of(measure.read).mean

    def better(one: Standing) -> bool:
        mean = one.of(measure.read).mean
        return measure.better * mean > measure.better * ours and measure.show(mean) != measure.show(ours)

    ahead = [one for one in contest.standings if better(one)]
    return sorted(ahead, key=lambda one: (-measure.better * one.of(measure.read).mean, one.place))


def _card(contest: Contest, title: str, measure: Measure, unit: str) -> Card:
    usual = contest.usual
    beside = []
    if usual is not None:
        beside.append(f"{usual.policy} {measure.show(usual.of(measure.read).mean)}")
    named = {contest.ours.place, *(() if usual is None else (usual.place,))}
    others = [one for one in contest.standings if one.place not in named]
    if others:
        top = max(others, key=lambda one: measure.better * one.of(measure.read).mean)
        beside.append(f"best of the others: {top.policy} {measure.show(top.of(measure.read).mean)}")
    return Card(title, measure.show(contest.ours.of(measure.read).mean), unit, " · ".join(beside))
