"""A switch of scapy's LACP, with two links to Sluice, N3 on a VLAN and N6 on two tags (QinQ) of one LAG."""
import struct
import time

import pytest
from scapy.all import IP, UDP, Ether, Raw
from scapy.contrib.gtp import GTP_U_Header

from conftest import serve
from lab import DN
from switch import (MOST_LOST, N3_VLAN, N6_VLANS, STATION, LagLab, Switch, both_carry, flow_on, flows_at_dn, mac, until,
                    uplink)
from tagged import tagged, vlans


@pytest.fixture(scope="module")
def lab(request):
    lab = LagLab()
    yield from serve(request, lab, lab.associate)


@pytest.fixture(scope="module")
def switch(lab):
    played = Switch(lab)
    yield played
    played.close()


@pytest.fixture(scope="module")
def session(lab, switch):
    return lab.smf.session(ue4="10.45.7.1")


def test_both_links_carry_once_lacp_has_agreed(lab, switch):
    both_carry(lab)
    actor = switch.links[0].partner
    assert actor.actor_system == mac(lab) and actor.actor_state & 0x3e == 0x3e, "short timeout, in sync, collecting, distributing"
    assert switch.links[1].partner.actor_port_number != actor.actor_port_number


def test_flows_go_both_ways_by_both_links(lab, switch, session):
    both_carry(lab)
    switch.frames.clear()
    # The first packet resolves the data network's address.
    for flow in range(256):
        switch.links[flow % 2].send(uplink(lab, switch, session, flow % 2, flow))
        time.sleep(0.002)
    deadline = time.monotonic() + 3
    while len(flows_at_dn(switch)) < 250 and time.monotonic() < deadline:
        time.sleep(0.05)
    at_dn = flows_at_dn(switch)
    assert len(at_dn) >= 250, len(at_dn)
    assert set(at_dn.values()) == {0, 1}, "both links"
    by_flow = {}
    for number, link in at_dn.items():
        by_flow.setdefault(number % 64, set()).add(link)
    assert all(len(links) == 1 for links in by_flow.values()), "a flow keeps to its link"
    switch.frames.clear()
    for flow in range(128):
        inner = IP(src=DN, dst=session["ue_ipv4"]) / UDP(sport=40999, dport=40000 + flow) / Raw(b"to the UE")
        switch.links[flow % 2].send(tagged(N6_VLANS, STATION, mac(lab), inner))
        time.sleep(0.002)
    time.sleep(0.5)
    seen = [(link, Ether(octets)) for link, octets in list(switch.frames)]
    at_gnb = [(link, frame) for link, frame in seen if vlans(frame) == (N3_VLAN,) and GTP_U_Header in frame]
    assert len(at_gnb) >= 120 and {link for link, _ in at_gnb} == {0, 1}
    assert all(frame[GTP_U_Header].teid == session["gnb_teid"] for _, frame in at_gnb)


def test_a_switch_that_falls_silent_carries_no_more(lab, switch):
    both_carry(lab)
    switch.links[0].speaks = False
    until(lab, "no partner", "distributing", True)
    switch.links[0].speaks = True
    both_carry(lab)


@pytest.mark.parametrize("other", [{"key": 8}, {"system": "02:00:00:00:bb:00"}])
def test_a_link_to_another_group_carries_nothing(lab, switch, other):
    both_carry(lab)
    link, before = switch.links[1], dict(vars(switch.links[1]))
    vars(link).update(other)
    until(lab, "distributing", "not selected", True)
    vars(link).update({name: before[name] for name in other})
    both_carry(lab)


def test_without_any_link_everything_waits_and_comes_back(lab, switch, session):
    both_carry(lab)
    for number in (0, 1):
        lab.switch.run(f"ip link set sw{number} down")
    until(lab, "link down", "link down", False)
    for number in (0, 1):
        lab.switch.run(f"ip link set sw{number} up")
    both_carry(lab)
    lost, _ = flow_on(lab, switch, session, lambda: None)
    assert lost <= MOST_LOST
    assert "link down" in lab.said() and "link up" in lab.said()
