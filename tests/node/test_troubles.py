from __future__ import annotations

from structlog.testing import capture_logs

from numaware.node.troubles import Troubles


def test_a_trouble_is_one_line_when_it_begins_and_one_when_it_is_over() -> None:
    troubles = Troubles()
    with capture_logs() as lines:
        for _ in range(50):
            troubles.raised("podresources", "timeout", "no answer")
        troubles.raised("podresources", "garbage", "not a message")
        troubles.cleared("podresources")
        troubles.cleared("podresources")
    assert [(line["event"], line["cause"]) for line in lines] == [
        ("trouble", "timeout"),
        ("trouble", "garbage"),
        ("trouble is over", "garbage"),
    ]
    assert troubles.counts["podresources"] == 51
    assert troubles.current == {}
