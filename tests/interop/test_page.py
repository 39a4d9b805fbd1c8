"""The page in the daemon, in Debian's Chromium: a UPF under traffic is watched, a session searched, opened and traced, a
drop seen, a configuration committed and rolled back. A view that shows nothing fails, and so do an error on the console, a request to anywhere else, and anything
that the policy of the page forbids. axe looks at every view in both themes. Screenshots of two sizes are in the folder
that SLUICE_SHOTS names, else in a temporary one."""
import contextlib
import os
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright
from scapy.all import IP, UDP, Raw

from conftest import serve
from lab import DN, EGRESS_CONFIGURATION, N6, Lab, Tunnel, eventually

UE, IMSI, DNN = "10.45.9.1", "001010000000099", "internet"
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
# Each view: its path, and what it has once there is something in it.
VIEWS = {
    "overview": ("#/", ".reading .value .unit"),
    "network": ("#/network", "table:has-text('Next hop') tbody tr"),
    "smfs": ("#/smfs", "table:has-text('Refused') tbody tr"),
    "sessions": ("#/sessions", "table tbody tr"),
    "drops": ("#/drops", "table:has-text('What to do') tbody tr"),
    "queues": ("#/queues", "table:has-text('Marked') tbody tr"),
    "alarms": ("#/alarms", "table:has-text('watermark') tbody tr"),
    "configuration": ("#/configuration", "table:has-text('in effect') tbody tr"),
}
# One session is an alarm, so that there is one.
PAGE_CONFIGURATION = EGRESS_CONFIGURATION + "alarms: {{watermarks: [{{of: sessions, at: 1}}]}}\n"
# Tables without a row say so in these words alone.
MAY_BE_EMPTY = {"No request was refused.", "No SMF has refused a request.", "Everything that came was served.", "None."}
# Rules of WCAG 2.1, levels A and AA.
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}


@contextlib.contextmanager
def forwarded(lab):
    """`sluice ui` in the UPF's namespace, and the address that it prints."""
    process = lab.upf.popen(os.environ["SLUICE"], "ui", "--socket", str(lab.files / "control"),
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        assert process.wait(10) == 0


@contextlib.contextmanager
def traffic(lab, session):
    """Packets both ways, and some to a UE that is not there, until it ends."""
    over = threading.Event()
    gnb, dn = lab.gnb_socket(), lab.dn_udp_socket(DN, 9)
    tunnel = Tunnel(session, gnb)
    inner = bytes(IP(src=UE, dst=DN) / UDP(sport=40000, dport=9) / Raw(b"u" * 400))
    lab.dn.run(f"ip neigh replace {N6} dev dn0 lladdr {lab.ours['n6'][1]}", check=False)

    def send():
        while not over.wait(0.02):
            tunnel.send(inner)
            for address in (UE, "10.45.99.99"):
                dn.sendto(b"d" * 600, (address, 40000))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()
        gnb.close()
        dn.close()


class Watched:
    """A page of the browser, and what went wrong in it."""

    def __init__(self, browser, address, size, scheme):
        self.context = browser.new_context(viewport=size, color_scheme=scheme)
        self.page = self.context.new_page()
        self.origin, self.faults = address.split("#")[0], []
        own = urlsplit(address).netloc
        self.page.on("console", lambda said: said.type in ("error", "warning") and self.faults.append(said.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda asked: urlsplit(asked.url).netloc == own or self.faults.append(asked.url))
        self.page.add_init_script("addEventListener('securitypolicyviolation', (e) => console.error('CSP', e.blockedURI))")
        self.page.goto(address)
        self.page.wait_for_selector(".reading .value .unit")

    def open(self, name):
        path, sign = VIEWS[name]
        self.page.goto(self.origin + path)
        self.page.wait_for_selector(f"main {sign}")
        return self.page

    def assert_not_empty(self, name):
        for shown in self.page.query_selector_all("main .none:visible"):
            assert shown.inner_text() in MAY_BE_EMPTY, f"{name}: {shown.inner_text()}"
        assert not self.page.query_selector("main .notice.bad"), f"{name}: {self.page.inner_text('main')}"

    def assert_accessible(self, name):
        found = Axe().run(self.page, options=RULES).response["violations"]
        faults = [f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes']]}" for one in found]
        assert not faults, f"{name}: " + "\n".join(faults)

    def close(self):
        self.context.close()
        assert not self.faults, self.faults


@pytest.fixture(scope="module")
def shots():
    folder = Path(os.environ.get("SLUICE_SHOTS") or tempfile.mkdtemp(prefix="sluice-shots-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"screenshots: {folder}")
    return folder


@pytest.fixture(scope="module")
def page_lab(request):
    """A laboratory whose UPF has something to show in every view."""
    lab = Lab(os.environ["SLUICE"], "af_packet", configuration=PAGE_CONFIGURATION)
    yield from serve(request, lab, lab.associate)


@pytest.fixture(scope="module")
def world(page_lab):
    """A session with traffic, the address of the page, and a browser in the UPF's namespace."""
    session = page_lab.smf.session(ue4=UE, imsi=IMSI, dnn=DNN)
    with contextlib.ExitStack() as stack:
        stack.enter_context(traffic(page_lab, session))
        address = stack.enter_context(forwarded(page_lab))
        # The browser's process stays in the namespace in which it starts.
        with page_lab.upf.entered():
            play = stack.enter_context(sync_playwright())
            browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        stack.callback(browser.close)
        yield browser, address, session


@pytest.mark.parametrize("size,scheme", [(WIDE, "light"), (WIDE, "dark"), (NARROW, "light")],
                         ids=["wide-light", "wide-dark", "narrow"])
def test_every_view_has_something_in_it(world, shots, size, scheme, request):
    browser, address, _ = world
    watched = Watched(browser, address, size, scheme)
    for name in VIEWS:
        page = watched.open(name)
        eventually_two_updates(page)
        watched.assert_not_empty(name)
        watched.assert_accessible(name)
        sideways = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert sideways <= 0, f"{name} is {sideways} pixels wider than the screen"
        page.screenshot(path=shots / f"{request.node.callspec.id}-{name}.png", full_page=True)
    watched.close()


def eventually_two_updates(page):
    """Until the stream has come twice: the footer has the time since the start."""
    def shown():
        return page.inner_text("#foot")
    first = shown()
    eventually(lambda: shown() != first, "an update a second")


def figure(page, name):
    return page.inner_text(f".reading:has(.name:text-is('{name}')) .value")


def test_traffic_is_seen(world):
    browser, address, _ = world
    watched = Watched(browser, address, WIDE, "light")
    page = watched.open("overview")
    for name, unit in (("Uplink", "kbit/s"), ("Downlink", "kbit/s"), ("Drops", "p/s")):
        eventually(lambda: re.fullmatch(rf"[1-9][\d.]*\s*{unit}", figure(page, name)), f"{name} in {unit}")
    assert figure(page, "Sessions").strip() == "1"
    rows = page.inner_text("table:has-text('Busy')").splitlines()
    assert any(row.startswith("0") for row in rows), rows
    assert page.locator(".charts canvas").count() == 2
    watched.close()


def test_queues_and_their_rates_are_seen(world):
    browser, address, _ = world
    watched = Watched(browser, address, WIDE, "light")
    page = watched.open("queues")

    def row(name):
        return page.inner_text(f"table tbody tr:has(th:text-is('{name}'))").split("\t")
    # All of the traffic's downlink is of the last class, and waits for no rate: it leaves in less than 100 ms.
    eventually(lambda: re.fullmatch(r"\d+\.\d\d\s*ms", row("1")[4].strip()), "how long packets have waited")
    assert row("1")[1] == "rest" and re.match(r"[1-9]", row("1")[5]), row("1")
    assert row("0")[1] == "voice" and row("0")[4].strip() == "–", row("0")
    assert re.match(r"no limit", row("instance access")[1]), row("instance access")
    eventually(lambda: re.match(r"[1-9][\d.]*\s*kbit/s", row("instance access")[2]), "what is sent")
    assert re.search(r"[1-9]\d* of [\d,]+ queues; ", page.inner_text("main")), page.inner_text("main")
    watched.close()


@pytest.mark.parametrize("text", [IMSI, f"imsi-{IMSI}", UE, DNN.upper(), "SEID", "TEID"])
def test_a_session_is_found_by_each_of_its_names(world, text):
    browser, address, session = world
    seid, teid = f"0x{session['up_seid']:016x}", f"0x{session['teid']:08x}"
    watched = Watched(browser, address, WIDE, "light")
    page = watched.open("sessions")
    page.fill("input[type=search]", {"SEID": seid, "TEID": teid}.get(text, text))
    page.keyboard.press("Enter")
    page.wait_for_selector("#sessions-found:has-text('Searched as')")
    row = page.inner_text("main table tbody tr")
    assert all(word in row for word in (seid, UE, IMSI, DNN, teid)), row
    page.fill("input[type=search]", "10.45.200.200")
    page.keyboard.press("Enter")
    page.wait_for_selector("main .none:text-is('No session.')")
    watched.close()


def test_a_session_is_opened_and_traced(world, shots):
    browser, address, session = world
    watched = Watched(browser, address, WIDE, "light")
    page = watched.open("sessions")
    page.click("main tbody a")
    page.wait_for_selector("main table:has-text('Precedence') tbody tr")
    for word in (UE, IMSI, "FAR 1", "QFI 9"):
        assert word in page.inner_text("main"), word
    # What its URRs measure comes with the second answer.
    counts = "table:has-text('Up packets') tbody tr"
    first = page.inner_text(counts)
    eventually(lambda: page.inner_text(counts) != first, "the counters of the URR grow")
    watched.assert_accessible("session")
    page.screenshot(path=shots / "wide-light-session.png", full_page=True)
    page.click("text=Trace its packets")
    page.wait_for_selector(".trace details >> nth=3")
    page.click(".trace summary >> nth=0")
    page.wait_for_selector(".trace details[open] dl")
    told = page.inner_text(".trace details[open]")
    for word in ("flow", "PDR", "FAR", "sent by"):
        assert word in told, told
    assert UE in told
    watched.assert_accessible("trace")
    page.screenshot(path=shots / "wide-light-trace.png")
    # It ends by itself, and when it is stopped.
    page.wait_for_selector("text=/Ended. 100 of/")
    page.fill("input[name=count]", "1000000")
    page.click("button:text-is('Trace')")
    page.wait_for_selector(".trace details")
    page.click("button:text-is('Stop')")
    page.wait_for_selector("text=Stopped after")
    watched.close()


def test_a_drop_is_seen_with_what_to_do(world):
    browser, address, _ = world
    watched = Watched(browser, address, WIDE, "light")
    page = watched.open("drops")
    row = page.inner_text("tr:has(th:text-is('unknown_ue_address'))")
    assert "No session owns the UE address." in row and "compare the instance's name with the DNN" in row
    page.click("text=trace dropped packets")
    page.click("button:text-is('Trace')")
    page.wait_for_selector(".trace .state.bad:text-is('unknown_ue_address')")
    watched.close()


def test_a_configuration_is_committed_and_rolled_back(world):
    browser, address, _ = world
    watched = Watched(browser, address, WIDE, "light")
    page = watched.open("configuration")
    text, said = page.locator("main textarea"), "main [role=status]"
    before = text.input_value()
    for last in ("Roll back", "Confirm"):
        text.fill(before + "log: {level: debug}\n")
        page.click("text=Compare")
        page.wait_for_selector("main table:has-text('log.level') tbody tr:has-text('debug')")
        watched.assert_accessible("configuration with changes")
        page.click("main button:text-is('Commit')")
        page.wait_for_selector("main .notice:has-text('waits to be confirmed')")
        page.click(f"main .notice button:text-is('{last}')")
        page.wait_for_selector(f"{said}:has-text('{'Rolled back' if last == 'Roll back' else 'is in effect'}')")
        eventually(lambda: not page.query_selector("main .notice:has-text('waits')"), "nothing waits")
    page.reload()
    page.wait_for_selector("main table:has-text('in effect') tbody tr")
    eventually(lambda: "level: debug" in text.input_value(), "the confirmed text is shown")
    watched.close()


def test_everything_is_reached_by_keys(world):
    browser, address, _ = world
    watched = Watched(browser, address, WIDE, "light")
    page = watched.page
    for key, name in (("n", "network"), ("m", "smfs"), ("s", "sessions"), ("d", "drops")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_selector(f"main {VIEWS[name][1]}")
    page.keyboard.press("/")
    eventually(lambda: page.evaluate("document.activeElement.type") == "search", "the search has the keys")
    page.keyboard.type("g" + UE)
    assert page.input_value("input[type=search]") == "g" + UE
    page.locator("body").press("Escape")
    reached = set()
    page.evaluate("document.activeElement.blur()")
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 80)"))
    controls = page.evaluate("""[...document.querySelectorAll('a, button, input, select, summary, [tabindex="0"]')]
        .filter((one) => one.offsetParent && getComputedStyle(one).visibility === 'visible').map((one) => one.outerHTML.slice(0, 80))""")
    assert not [one for one in controls if one not in reached], "not reached by Tab"
    watched.close()


def test_without_the_token_there_is_nothing_but_a_question_for_it(world):
    browser, address, _ = world
    page_address, token = address.split("#token=")
    context = browser.new_context()
    page = context.new_page()
    page.goto(page_address)
    page.wait_for_selector("dialog[open] input[type=password]")
    assert "Uplink" not in page.inner_text("body")
    page.fill("dialog input", "0" * 64)
    page.click("dialog button")
    page.wait_for_selector("dialog[open] .notice.bad")
    page.fill("dialog input", token)
    page.click("dialog button")
    page.wait_for_selector(".reading .value .unit")
    assert "token" not in page.url
    context.close()


def test_a_foreign_page_gets_nothing(world):
    """A name of another site that leads to this address, and another origin in the same browser."""
    browser, address, _ = world
    own, token = address.split("#token=")
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(own.replace("127.0.0.1", "rebound.localhost"))
    assert answer.status == 403
    page.goto("data:text/html,<p>foreign")
    asked = page.evaluate("""([url, token]) => fetch(url + 'v1/caller', {headers: {Authorization: 'Bearer ' + token}})
        .then((answer) => answer.status, () => 'refused')""", [own, token])
    assert asked == "refused"
    context.close()
