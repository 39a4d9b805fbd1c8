// Why packets were dropped: how many, by which clause, and what to do.

import { chart } from "../chart.js";
import { h, section, table } from "../dom.js";
import { packets, percent, scaled } from "../format.js";
import { listen, series } from "../live.js";
import { ranked } from "./overview.js";

const total = (live) => live.drops.reduce((all, drop) => all + drop.per_s, 0);

export function drops(place, { known }) {
  const drawn = h("div");
  let all = 0;
  const grid = table({
    label: "Drop reasons",
    key: "reason",
    empty: "No packet has been dropped since the start.",
    columns: [
      ["Reason", "reason"],
      { head: "Rate", measure: (row) => packets(row.per_s) },
      { head: "Packets", count: "count" },
      { head: "of all", measure: (row) => percent(row.count / Math.max(all, 1)) },
      { head: "Why", class: "wrap", text: "explanation" },
      { head: "What to do", class: "wrap", text: "advice" },
      { head: "Clause", class: "dim", text: "clause" },
    ],
  });
  const follow = known.routes.has("/v1/trace") && known.role !== "viewer" && h("a", { href: "#/trace?only=dropped" }, "trace dropped packets");
  place.append(section("Dropped packets a second"), drawn, section("Reasons", follow), grid.element);
  const line = chart(drawn, {
    series: [{ color: "bad" }],
    format: (value) => scaled(value, "p/s"),
    height: 120,
    label: "Dropped packets a second over the last five minutes",
  });
  const stop = listen((live) => {
    all = live.drops.reduce((sum, drop) => sum + drop.count, 0);
    grid.update(ranked(live.drops));
    line.show(series(total));
  });
  return () => {
    stop();
    line.end();
  };
}
