#!/usr/bin/env python3
"""Makes the pictures of docs/guide/images: the page of `sluice demo` with traffic, in Debian's Chromium.

    SLUICE=target/release/sluice .venv/bin/python tools/screenshots.py

Names and addresses in them are those of the demo's simulated network.
"""
import os
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).resolve().parents[1] / "docs/guide/images"
SIZE = {"width": 1120, "height": 700}
# A picture is no reason to clone for long.
LONGEST = 150_000


def shoot(page, name):
    path = FOLDER / f"{name}.png"
    page.wait_for_timeout(3_000)
    page.screenshot(path=path)
    if path.stat().st_size > LONGEST:
        sys.exit(f"{path}: {path.stat().st_size} octets, and {LONGEST} at most")
    print(path.relative_to(FOLDER.parents[2]), path.stat().st_size)


def main():
    FOLDER.mkdir(exist_ok=True)
    command = [os.environ["SLUICE"], "demo", "--ui", "--sessions", "2000", "--mpps", "0.2", "--workers", "1"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        address = next(word for line in demo.stdout for word in line.split() if "#token=" in word)
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            page = browser.new_context(viewport=SIZE, color_scheme="light").new_page()
            origin = address.split("#")[0]
            page.goto(address)
            page.wait_for_selector(".reading .value .unit")
            page.wait_for_timeout(20_000)
            shoot(page, "page-overview")
            page.goto(origin + "#/sessions")
            page.wait_for_selector("main tbody a")
            page.click("main tbody a")
            page.wait_for_selector("main table:has-text('Precedence') tbody tr")
            shoot(page, "page-session")
            page.click("text=Trace its packets")
            page.wait_for_selector(".trace details >> nth=3")
            page.click(".trace summary >> nth=0")
            shoot(page, "page-trace")
            browser.close()
    finally:
        demo.kill()
        demo.wait()


if __name__ == "__main__":
    main()
