"""Evidence that ends too early or that nothing can be made of is told, and never taken for good news."""

from __future__ import annotations

import io

import pytest

from numaware.diagnose.evidence.bundle import Bundle
from numaware.diagnose.evidence.intake import take
from numaware.diagnose.finding import Finding
from numaware.diagnose.rules.diagnosis import findings
from numaware.diagnose.rules.unread import is_unread, unread_findings
from numaware.diagnose.texts import finding_text
from numaware.machine.unpacking import Budget
from numaware.twin.topology.hints import Hint
from support.diagnosed import bundled
from support.kubelet_logs import ERAS, Story, journald, noisy, written
from support.packed import PACKERS, bz2_of, long_name_gz, tar, zipped

REFUSED = Story(
    hints={"cpu": [Hint(2, preferred=True)], "memory": [Hint(1, preferred=True)]},
    merged=Hint(None, preferred=False),
    reason="TopologyAffinityError",
    message="Resources cannot be allocated with Topology locality",
)
LOG = noisy(written(ERAS[2], REFUSED), journald).encode()
NOISE = b"Nov 16 20:00:00 n1 kubelet[1]: I1116 20:00:00.000000 1 a.go:1] nothing of interest\n"


def unread(data: bytes | str, budget: Budget | None = None) -> list[Finding]:
    bundle = bundled()
    take(bundle, "file", io.BytesIO(data.encode() if isinstance(data, str) else data), budget)
    found = list(unread_findings(bundle))
    assert is_unread(found) == bool(found)
    return found


def title(data: bytes | str, budget: Budget | None = None) -> str:
    (one,) = unread(data, budget)
    return finding_text(one).title


@pytest.mark.parametrize("form", PACKERS)
def test_a_whole_archive_has_nothing_to_say_about_itself(form: str) -> None:
    assert unread(PACKERS[form](tar({"n1/kubelet.log": LOG, "n1/junk": b"\0\1"}))) == []


@pytest.mark.parametrize("form", PACKERS)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_cut_off_archive_says_up_to_where_it_was_read(form: str, share: float) -> None:
    whole = PACKERS[form](
        tar({f"n{number}/kubelet.log": LOG + NOISE * 40 for number in range(9)}).rstrip(b"\0")
    )
    (one,) = unread(whole[: int(len(whole) * share)])
    assert one.code == "evidence-incomplete"
    assert "cut off" in finding_text(one).title
    # Nothing comes out of bzip2 before a whole block of it is there.
    assert ("nothing of it was read" if form == "bz2" else "read up to") in finding_text(one).title
    assert "读到" in finding_text(one, "zh").title


def test_what_came_before_the_cut_still_counts() -> None:
    whole = PACKERS["gz"](tar({"n1/kubelet.log": LOG, "n2/other": bytes(range(256)) * 4000}))
    bundle = bundled(must_gather=whole[:-200])
    assert [one.code for one in findings(bundle)] == ["topology-affinity-error-disjoint-hints"]
    (one,) = unread_findings(bundle)
    assert one.facts["member"] == "n2/other"


def test_a_cut_off_log_says_how_much_was_read() -> None:
    noise = b"".join(b"%s %d\n" % (NOISE[:-1], number * number) for number in range(20_000))
    packed = PACKERS["bz2"](noise)
    assert title(packed[: len(packed) // 2]).startswith(
        "file is cut off and cannot be decompressed to its end: read up to"
    )


def test_an_archive_made_to_take_memory_is_refused_at_its_header() -> None:
    assert (
        title(long_name_gz(64 << 20))
        == "file has an extension header of 67108864 bytes: nothing of it was read"
    )


def test_one_budget_is_for_all_layers() -> None:
    inner = tar({"log.bz2": bz2_of(NOISE, 8 << 20)})
    assert "holds more than 4 MiB when unpacked" in title(PACKERS["gz"](inner), Budget(4 << 20))


def test_time_runs_for_what_is_not_packed_too() -> None:
    ticks = iter(range(10_000))
    budget = Budget(1 << 30, seconds=3, clock=lambda: next(ticks))
    assert "takes longer than 3 seconds" in title(NOISE * 60_000, budget)


def test_an_archive_in_an_archive_without_end_is_left() -> None:
    data = LOG
    for _ in range(12):
        data = PACKERS["gz"](tar({"x": data}))
    assert "is packed in more than 6 layers" in title(data)


def test_more_files_than_the_budget_has_are_not_opened() -> None:
    first, _ = unread(tar({str(n): b"x" for n in range(9)}), Budget(1 << 30, 3))
    assert finding_text(first).title == "file holds more than 3 files: read up to 3"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "file is empty"),
        (b" \n\n", "file is empty"),
        (bytes(2000), "file is binary"),
        (b"-- No entries --\n", "file says that the journal has no entries"),
        (b"-- Logs begin at Mon 2026-11-16. --\n-- No entries --\n", "the journal has no entries"),
        (b"Hello, world.\n", "file holds no line that is known"),
        (
            b"Nov 16 20:00:00 n1 containerd[7]: started\nNov 16 20:00:01 n1 sshd[9]: Accepted\n",
            "file is a log of containerd and sshd, none of which is a kubelet",
        ),
        (
            b"Nov 16 20:00:00 n1 kube-scheduler[7]: I1116 20:00:00.000000 7 a.go:1] scheduled\n",
            "file is a log of kube-scheduler",
        ),
    ],
)
def test_what_no_evidence_is_found_in_is_said(data: bytes, said: str) -> None:
    (one,) = unread(data)
    assert one.code == "nothing-recognised"
    assert said in finding_text(one).cause
    assert "不等于没有问题" in finding_text(one, "zh").cause


def test_a_zip_archive_is_opened_like_any_other() -> None:
    whole = zipped({"node/kubelet.log": LOG, "node/more.tar.gz": PACKERS["gz"](tar({"k.log": LOG}))})
    bundle = Bundle()
    take(bundle, "z", io.BytesIO(whole))
    kinds = dict(bundle.files)
    assert kinds["z"] == "archive"
    assert kinds["z/node/kubelet.log"] == kinds["z/node/more.tar.gz/k.log"] == "kubelet log"
    assert not bundle.cuts
    assert "is cut off" in title(whole[: len(whole) // 2])


def test_an_archive_of_nothing_is_nothing() -> None:
    assert [one.code for one in unread(tar({}))] in (["nothing-recognised"], ["evidence-incomplete"])
    assert [one.code for one in unread(tar({"a": b"", "b": b"\0"}))] == ["nothing-recognised"]


@pytest.mark.parametrize(
    "program", ["kubelet", "k3s", "k3s-agent", "rke2", "kubenswrapper", "snap.microk8s.daemon-kubelite"]
)
def test_a_quiet_log_of_any_unit_that_holds_a_kubelet_is_known(program: str) -> None:
    assert unread(NOISE.replace(b"kubelet", program.encode())) == []
    lines = f'Nov 16 20:00:00 n1 {program}[1]: time="2026-11-16T20:00:00Z" level=info msg="Started"\n'
    assert [one.code for one in unread(lines)] == (
        [] if program.startswith(("kubelet", "k3s", "rke2")) else ["nothing-recognised"]
    )


def test_one_file_that_is_known_is_enough() -> None:
    assert list(unread_findings(bundled(log=NOISE, junk=b"\0", empty=b""))) == []


def test_a_manifest_beside_a_log_that_is_empty_does_not_make_it_good_news() -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a}]}\n"
    assert [one.code for one in unread_findings(bundled(log=b"-- No entries --", pod=pod))] == [
        "nothing-recognised"
    ]
    assert list(unread_findings(bundled(pod=pod))) == []
