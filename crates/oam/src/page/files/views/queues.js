// Queues before ports: what waits, for how long, what is lost; the rates that queues share.

import { get } from "../api.js";
import { h, say, section, table } from "../dom.js";
import { bitRate, bits, grouped, packets, plain } from "../format.js";
import { faults, poll } from "./poll.js";

const rate = (bits) => (bits === undefined ? { value: "no limit", unit: "" } : bitRate(bits));

function priorities() {
  return table({
    label: "Priorities",
    key: "priority",
    empty: "No queues are configured (egress).",
    columns: [
      ["Priority", "priority"],
      ["Classes", (row) => row.classes.join(", ")],
      { head: "Waiting", count: "packets" },
      { head: "octets", count: "octets" },
      { head: "for", measure: (row) => row.wait, title: "Mean of those that have left since the answer before" },
      { head: "Left", measure: (row) => packets(row.per_s("departed_packets")) },
      { head: "now", measure: (row) => bits(row.per_s("departed_octets")) },
      { head: "Marked", measure: (row) => packets(row.per_s("marked_packets")) },
      { head: "in all", count: "marked_packets" },
      ["Dropped", (row) => Object.entries(row.dropped).map(([why, of]) => `${why} ${grouped(of)}`).join(", ") || "–"],
    ],
  });
}

function shapers() {
  return table({
    label: "Shared rates",
    key: (row) => [row.kind, row.name, row.direction],
    columns: [
      ["Of", (row) => [row.kind, row.name, row.direction].join(" ")],
      { head: "Rate", measure: (row) => rate(row.rate) },
      { head: "Sent", measure: (row) => bitRate(row.sends) },
      { head: "Waiting", count: "waiting_sessions", title: "Sessions that wait because the rate is used up" },
      ["Parts of workers", (row) => row.workers.map((part) => plain(rate(part.rate))).join(", ")],
    ],
  });
}

// With what came since the answer before.
function rated(before, after) {
  const seconds = (after.at - before.at) / 1000;
  return after.priorities.map((one) => {
    const then = before.priorities.find(({ priority }) => priority === one.priority) ?? one;
    const more = (what) => Math.max(0, one[what] - then[what]);
    const left = more("departed_packets");
    const wait = left ? { value: (more("waited_us") / left / 1000).toFixed(2), unit: "ms" } : { value: "–", unit: "" };
    return { ...one, wait, per_s: (what) => (seconds ? more(what) / seconds : 0) };
  });
}

export function queues(place) {
  const [wrong, waiting, shared, room] = [faults(), priorities(), shapers(), h("p", { class: "dim" })];
  place.append(wrong,
    section("Priorities"), waiting.element, room, section("Shared rates"), shared.element);
  let before;
  return poll(2, wrong, async (signal) => {
    const now = await get("/v1/queues", { signal });
    now.at = performance.now();
    waiting.update(rated(before ?? now, now));
    shared.update(now.shapers ?? []);
    const of = (what) => `${grouped(now[what])} of ${grouped(now[`${what}_limit`])} ${what}`;
    const lacks = now.lacking ? `; ${grouped(now.lacking)} directions of sessions lack queues for want of room` : "";
    say(room, `${of("queues")}; ${of("packets")} and ${of("octets")} wait${lacks}`);
    before = now;
  });
}
