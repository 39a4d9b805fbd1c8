// Alarms that are raised now: of which object, since when, how severe (3GPP TS 28.111 §7).

import { get } from "../api.js";
import { mark, section, table } from "../dom.js";
import { date } from "../format.js";
import { faults, poll } from "./poll.js";

const KINDS = { critical: "bad", major: "bad", minor: "warn", warning: "warn", indeterminate: "dim", cleared: "good" };
const RANK = ["critical", "major", "minor", "warning", "indeterminate", "cleared"];
const rank = (row) => RANK.indexOf(String(row.severity).toLowerCase());

export function alarms(place) {
  const wrong = faults();
  const grid = table({
    label: "Alarms",
    key: "id",
    empty: "No alarm is raised.",
    columns: [
      { head: "Severity", draw: (cell, row) => {
        mark(cell, KINDS[String(row.severity).toLowerCase()] ?? "dim", row.severity);
      } },
      ["Alarm", "alarm"],
      ["Object", "object"],
      ["Since", (row) => date(new Date(row.first_raised_ms).toISOString())],
      { head: "What it is", class: "wrap", text: "text" },
      ["Times", "count"],
    ],
  });
  place.append(wrong, section("Raised now"), grid.element);
  return poll(2, wrong, async (signal) => {
    const { alarms } = await get("/v1/alarms", { signal });
    grid.update([...alarms].sort((a, b) => rank(a) - rank(b)));
  });
}
