"""What the report says must follow from the runs: means, ranges, winners, curves, and sentences that do not flatter."""

from __future__ import annotations

import msgspec
import pytest

from numaware.machine.words import NOTHING
from numaware.simulate import comparison, headline
from numaware.simulate.comparison import Measure, Point, Spread, Standing
from numaware.simulate.result import Result, Run, Sample
from support.made_results import PODS, result


def changed(one: Result, **run: object) -> Result:
    return msgspec.structs.replace(one, run=msgspec.structs.replace(one.run, **run))


def sample(load: float, value: float, arrived: int) -> Sample:
    return Sample(0, arrived, load, 0, 0, 0, 0, 0.0, 0.0, value, 0.0)


def test_runs_are_compared_only_on_the_same_cluster_and_trace() -> None:
    results = [
        result("random", 2),
        result("numaware", cluster="other"),
        result("random", 1),
        result("numaware"),
        result("numaware", trace="evening"),
    ]
    found = [
        (one.cluster, one.trace, [(standing.policy, standing.place) for standing in one.standings])
        for one in comparison.contests(results)
    ]
    assert found == [
        ("gpu-pool", "trainings", [("random", 0), ("numaware", 1)]),
        ("other", "trainings", [("numaware", 1)]),
        ("gpu-pool", "evening", [("numaware", 1)]),
    ]


def test_seeds_of_a_policy_become_a_mean_with_its_range() -> None:
    runs = [changed(result("kai", seed), pods_placed=placed) for seed, placed in ((3, 10), (1, 40), (2, 16))]
    (contest,) = comparison.contests(runs)
    (standing,) = contest.standings
    assert standing.of(comparison.PLACED.read) == Spread(22, 10, 40)
    assert [one.run.seed for one in standing.results] == [1, 2, 3]
    assert contest.seeds == (1, 2, 3)


def standings(*values: float) -> list[Standing]:
    return [
        Standing(
            at, f"p{at}", (changed(result(f"p{at}"), stranded_percent=value, cpu_allocated_percent=value),)
        )
        for at, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("measure", "values", "winners"),
    [
        (comparison.CPU, (1.0, 3.0, 2.0), {1}),
        (comparison.STRANDED, (1.0, 3.0, 2.0), {0}),
        (comparison.CPU, (95.34, 95.26, 90.0), {0, 1}),
        (comparison.CPU, (2.0, 2.0), set()),
        (comparison.CPU, (2.0,), set()),
        (comparison.SPEED, (1.0, 2.0), set()),
    ],
    ids=["most", "least", "equal as written", "all equal", "alone", "clock"],
)
def test_the_best_is_marked_only_where_a_reader_sees_a_difference(
    measure: Measure, values: tuple[float, ...], winners: set[int]
) -> None:
    assert comparison.best(measure, standings(*values)) == winners


def history(*samples: Sample) -> Result:
    return msgspec.structs.replace(result(), series=samples)


def test_a_curve_is_straight_between_samples_and_spans_its_seeds() -> None:
    low = history(sample(0, 0, 1), sample(50, 40, 2), sample(100, 60, 3))
    high = history(sample(0, 0, 1), sample(100, 100, 3))
    standing = Standing(0, "p", (low, high))
    points = comparison.curve(standing, lambda at: at.device_percent, 100.0)
    assert len(points) == comparison.STEPS + 1
    assert points[0] == Point(0.0, Spread(0, 0, 0))
    middle = points[comparison.STEPS // 4]
    assert middle.load == 25
    assert middle.value == pytest.approx((22.5, 20, 25))
    assert points[-1].value == Spread(80, 60, 100)


def test_what_happens_after_the_last_arrival_does_not_bend_a_curve() -> None:
    standing = Standing(0, "p", (history(sample(0, 0, 1), sample(80, 70, 5), sample(80, 20, 5)),))
    assert comparison.curve(standing, lambda at: at.device_percent, 80.0)[-1].value.mean == 70


def test_a_run_without_history_has_no_curve() -> None:
    assert comparison.curve(Standing(0, "p", (history(),)), lambda at: at.device_percent, 100.0) == []
    assert comparison.curve(Standing(0, "p", (result(),)), lambda at: at.device_percent, 0.0) == []


def test_a_plot_begins_where_curves_part_unless_they_do_so_early() -> None:
    def stepped(part: int) -> list[Point]:
        values = [0.0 if at <= part else 9.0 for at in range(comparison.STEPS + 1)]
        return [Point(float(at), Spread(value, value, value)) for at, value in enumerate(values)]

    base = stepped(comparison.STEPS)
    late = comparison.parting([base, stepped(30)])
    assert comparison.STEPS // 5 <= late < 30
    assert comparison.parting([base, stepped(0)]) == 0
    assert comparison.parting([base]) == 0


def test_reasons_are_means_over_seeds() -> None:
    runs = (
        changed(result("kai", 1), unplaced_by_reason={"full": 3, "odd": 1}),
        changed(result("kai", 2), unplaced_by_reason={"full": 4}),
    )
    found = comparison.by_reason(Standing(0, "kai", runs), lambda one: one.run.unplaced_by_reason)
    assert found == {"full": 3.5, "odd": 0.5}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 s"), (350, "350 ms"), (12_340, "12.3 s"), (250_000, "4 min 10 s"), (11_520_000, "3 h 12 min"),
        (90_000_000, "1 d 1 h"), (10**12, "11,574 d 1 h"),
    ],
)  # fmt: skip
def test_times_are_told_in_two_units(value: float, shown: str) -> None:
    assert comparison.duration(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (7, "7"),
        (7.25, "7.2"),
        (412.4, "412"),
        (8152, "8,152"),
        (float("inf"), NOTHING),
    ],
)
def test_counts_keep_a_decimal_only_while_it_matters(value: float, shown: str) -> None:
    assert comparison.number(value) == shown


# Sentences


def contest(*results: Result) -> comparison.Contest:
    (found,) = comparison.contests(results)
    return found


def test_the_headline_sets_ours_against_the_usual_scheduler() -> None:
    found = contest(result("random"), result("kube-scheduler"), result("numaware"))
    ours, usual = (one.run for one in (result("numaware"), result("kube-scheduler")))
    assert headline.sentence(found) == (
        f"numaware: 0 kubelet refusals, {ours.device_allocated_percent['gpu']:.1f} % of GPUs allocated; "
        f"kube-scheduler: {usual.kubelet_refusals} kubelet refusals, "
        f"{usual.device_allocated_percent['gpu']:.1f} % of GPUs allocated."
    )
    assert headline.in_chinese(found).startswith("numaware：kubelet 拒绝 0 次，GPU 分配率")
    said = headline.difference(found)
    assert f"Against kube-scheduler: {usual.kubelet_refusals} fewer refusals" in said
    assert f"{ours.pods_placed - usual.pods_placed} more pods placed" in said
    assert "Higher GPU allocation" not in said


def test_the_headline_says_where_ours_is_not_the_best() -> None:
    ours = changed(
        result("numaware"), device_allocated_percent={"gpu": 90.0}, kubelet_refusals=500, pods_placed=1
    )
    usual = changed(result("kube-scheduler"), device_allocated_percent={"gpu": 93.0}, kubelet_refusals=1)
    better = changed(result("fgd"), device_allocated_percent={"gpu": 95.0})
    said = headline.difference(contest(ours, usual, better))
    assert "499 more refusals" in said
    assert "3.0 points less GPU allocated" in said
    assert said.endswith("Higher GPU allocation than numaware: fgd (95.0 %), kube-scheduler (93.0 %).")


def test_equal_policies_are_called_equal() -> None:
    twin = changed(result("numaware"), policy="kube-scheduler")
    said = headline.difference(contest(result("numaware"), twin))
    assert said == "Against kube-scheduler: as many refusals, as many pods placed, the same allocation."


def test_a_cluster_without_gpus_is_judged_by_its_cpus() -> None:
    found = contest(result("numaware", gpus=False), result("kube-scheduler", gpus=False))
    assert "% of CPUs allocated" in headline.sentence(found)
    assert [one.title for one in comparison.columns(found)].count("GPU") == 0


def test_a_policy_alone_is_compared_with_nobody() -> None:
    found = contest(result("volcano"))
    assert headline.sentence(found).startswith("volcano: ")
    assert headline.difference(found) == ""
    assert {card.beside for card in headline.cards(found)} == {""}


def test_cards_name_the_usual_scheduler_and_the_best_of_the_rest() -> None:
    found = contest(*(result(name) for name in ("numaware", "kube-scheduler", "random", "scheduler-plugins")))
    cards = {card.title: card for card in headline.cards(found)}
    refused = cards["Refused by kubelets"]
    runs: dict[str, Run] = {one.policy: one.results[0].run for one in found.standings}
    assert refused.value == "0"
    assert refused.beside == (
        f"kube-scheduler {runs['kube-scheduler'].kubelet_refusals} · "
        f"best of the others: scheduler-plugins {runs['scheduler-plugins'].kubelet_refusals}"
    )
    assert cards["Pods placed"].unit == f"of {PODS:,}"
