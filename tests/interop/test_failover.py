"""A link of a LAG goes and comes while packets pass: in each mode at most 100 ms of them are lost, 50 at 500 a second."""
import pytest

from conftest import serve
from switch import MODES, MOST_LOST, RATE, LagLab, Switch, flow_on, until

# How the members stand with both links, without the first, and with it again. With `active_backup` the active link
# stays active.
STATES = {
    "lacp": (("distributing", "distributing"), ("link down", "distributing"), ("distributing", "distributing")),
    "balance": (("active", "active"), ("link down", "active"), ("active", "active")),
    "active_backup": (("active", "backup"), ("link down", "active"), ("backup", "active")),
}


@pytest.fixture(scope="module", params=MODES)
def lab(request):
    lab = LagLab(request.param)
    lab.mode = request.param
    yield from serve(request, lab, lab.associate)


@pytest.fixture(scope="module")
def switch(lab):
    played = Switch(lab, speaks=lab.mode == "lacp")
    yield played
    played.close()


@pytest.fixture(scope="module")
def session(lab, switch):
    return lab.smf.session(ue4="10.45.7.1")


def passes(lab, switch, session, what, event):
    """The event takes nothing from packets, or what 100 ms hold. A switch sends to a LAG of several by a link that stays,
    to a station that moves by the link where it sent last."""
    learned = lambda: switch.learned
    lost, span = flow_on(lab, switch, session, event, *([learned] if lab.mode == "active_backup" else []))
    print(f"{lab.mode}: {what}: {lost} of {span} packets lost, {RATE} a second")
    assert span <= MOST_LOST, f"{lab.mode}: {lost} packets lost within {span}, {RATE} a second\n{lab.said()}"


def test_a_link_that_goes_and_comes_costs_no_more_than_100_ms(lab, switch, session):
    both, without, again = STATES[lab.mode]
    until(lab, *both, True)
    passes(lab, switch, session, "before", lambda: None)
    passes(lab, switch, session, "failover", lambda: lab.switch.run("ip link set sw0 down"))
    until(lab, *without, True)
    passes(lab, switch, session, "recovery", lambda: lab.switch.run("ip link set sw0 up"))
    until(lab, *again, True)
