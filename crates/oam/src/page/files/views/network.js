// Network instances, ports, routes and neighbours.

import { get, query } from "../api.js";
import { h, mark, put, section, state, table } from "../dom.js";
import { bits, grouped, packets } from "../format.js";
import { listen } from "../live.js";
import { faults, poll } from "./poll.js";

const MOST_ROWS = 100;

const rates = (name, way) => [
  { head: `${name}`, measure: (row) => bits(row[way].octets.per_s) },
  { head: "packets", measure: (row) => packets(row[way].packets.per_s) },
];

function link(cell, row) {
  const word = row.state ?? (row.link ? "up" : "down");
  mark(cell, row.link ? "good" : "bad", word);
}

function instances() {
  return table({
    label: "Network instances",
    key: "instance",
    columns: [
      ["Instance", "instance"],
      ["Roles", (row) => row.roles.join(", ")],
      ["Port", "port"],
      ["VLAN", (row) => row.vlan ?? "untagged"],
      ["Own addresses", (row) => row.addresses.join(", ")],
      { head: "Link", draw: link },
      ...rates("Received", "received"),
      ...rates("Sent", "sent"),
    ],
  });
}

function ports() {
  return table({
    label: "Ports",
    key: "port",
    columns: [
      ["Port", "port"],
      { head: "Link", draw: link },
      { head: "LAG", text: (row) => row.lag ?? (row.member_of ? `of ${row.member_of}` : "–") },
      ...rates("Received", "received"),
      { head: "in all", count: (row) => row.received.packets.count },
      ...rates("Sent", "sent"),
      { head: "in all", count: (row) => row.sent.packets.count },
    ],
  });
}

const seconds = (age) => (age === undefined ? "–" : `${(age / 1000).toFixed(1)} s`);

function reached(cell, row) {
  const kinds = { static: "good", own: "good", reachable: "good", checking: "warn", incomplete: "warn" };
  if (cell.textContent !== row.state) put(cell, row.state ? state(kinds[row.state] ?? "bad", row.state) : h("span", { class: "dim" }, "–"));
}

function routes() {
  return table({
    label: "Routes",
    key: "number",
    columns: [
      ["Prefix", "prefix"],
      { head: "VRF", number: true, text: "vrf" },
      { head: "Way", text: (row) => ({ connected: "on the link", static: "static", ues: "UEs here", nowhere: "dropped" })[row.kind] },
      ["By", "address"],
      ["Instance", "instance"],
      { head: "Next hop", draw: reached },
      { head: "Age", number: true, text: (row) => seconds(row.age_ms) },
    ],
  });
}

// A line for each next hop.
const hops = (list) =>
  list.routes.flatMap((route, place) => {
    const lines = route.next_hops.length ? route.next_hops : [{}];
    return lines.map((hop, number) => ({ ...route, ...hop, instance: hop.instance ?? route.instance, number: `${place}.${number}` }));
  });

function neighbours() {
  return table({
    label: "Neighbours",
    key: "id",
    empty: "No neighbour is known.",
    columns: [
      ["Address", "address"],
      ["Instance", "instance"],
      ["Port", (row) => [row.port, row.vlan].filter(Boolean).join(", ")],
      { head: "State", draw: reached },
      ["Station", "mac"],
      { head: "Age", number: true, text: (row) => seconds(row.age_ms) },
      ["Wanted by", "wanted_by"],
    ],
  });
}

export function network(place) {
  const [links, wires, ways, near, wrong] = [instances(), ports(), routes(), neighbours(), faults()];
  const more = h("p", { class: "dim" });
  place.append(
    section("Network instances"), links.element,
    section("Ports"), wires.element,
    wrong,
    section("Routes"), ways.element,
    section("Neighbours"), near.element, more,
  );
  const stop = listen((live) => {
    links.update(live.instances);
    wires.update(live.ports);
  });
  const end = poll(3, wrong, async (signal) => {
    const [routes, neighbours] = await Promise.all(
      ["routes", "neighbours"].map((what) => get(`/v1/${what}${query({ limit: MOST_ROWS })}`, { signal })),
    );
    ways.update(hops(routes));
    near.update(neighbours.neighbours);
    const left = [["routes", routes.total - routes.routes.length], ["neighbours", neighbours.total - neighbours.neighbours.length]];
    const words = left.filter(([, number]) => number > 0).map(([what, number]) => `${grouped(number)} more ${what}`);
    put(more, words.length ? `${words.join(", ")}: sluice show routes, sluice show neighbours` : "");
  });
  return () => {
    stop();
    end();
  };
}
