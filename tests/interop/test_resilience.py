"""`sluice bench resilience`, small: what it counts of a kill under traffic. How long anything takes is asserted nowhere."""
import json
import os
import subprocess


def test_a_kill_loses_no_session_and_charges_nothing_twice(tmp_path):
    results = tmp_path / "results.json"
    # Its own directory is in the system's for temporary files: that of a test has too long a path for a Unix socket in it.
    done = subprocess.run(
        [os.environ["SLUICE"], "bench", "resilience", "--sessions", "200", "--active", "50", "--rate", "1000", "--kills", "2",
         "--pairs", "1", "--span", "100", "--json", str(results)],
        capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(results.read_text())["resilience"]
    undisturbed = found["undisturbed"]
    assert undisturbed["charged_octets"] >= undisturbed["forwarded_octets"] > 0, undisturbed
    assert undisturbed["lost_octets"] == undisturbed["overcharged_sessions"] == 0, undisturbed
    assert len(found["restarts"]) == 2
    for restart in found["restarts"]:
        assert restart["restored"] == 200 and restart["missing"] == 0, restart
        assert restart["wrong"] == restart["error_indications"] == 0, restart
        # Each session with traffic has had a packet forwarded since the kill.
        assert restart["all_ms"] is not None, restart
        assert restart["charging"]["charged_octets"] > 0 and restart["charging"]["overcharged_sessions"] == 0, restart
    assert found["storage"]["records"] >= 200 and found["storage"]["index_octets"] > 0, found["storage"]
    assert len(found["establishments"]["pairs"]) == 1
    # The stores are gone, and so is the namespace with its last process.
    assert list(tmp_path.iterdir()) == [results]
