// Network instances, ports, routes and neighbours.

import { get, query } from "../api.js";
import { h, put, section, state, table } from "../dom.js";
import { bits, grouped, packets } from "../format.js";
import { listen } from "../live.js";
import { faults, poll } from "./poll.js";

const MOST_ROWS = 100;

const rates = (name, way) => [
  { head: `${name}`, number: true, measure: (row) => bits(row[way].octets.per_s) },
  { head: "packets", number: true, measure: (row) => packets(row[way].packets.per_s) },
];

function link(cell, row) {
  const word = row.state ?? (row.link ? "up" : "down");
  if (cell.textContent !== word) put(cell, state(row.link ? "good" : "bad", word));
}

function instances() {
  return table({
    label: "Network instances",
    key: (row) => row.instance,
    columns: [
      { head: "Instance", main: true, text: (row) => row.instance },
      { head: "Roles", text: (row) => row.roles.join(", ") },
      { head: "Port", text: (row) => row.port },
      { head: "VLAN", text: (row) => row.vlan ?? "untagged" },
      { head: "Own addresses", text: (row) => row.addresses.join(", ") },
      { head: "Link", draw: link },
      ...rates("Received", "received"),
      ...rates("Sent", "sent"),
    ],
  });
}

function ports() {
  return table({
    label: "Ports",
    key: (row) => row.port,
    columns: [
      { head: "Port", main: true, text: (row) => row.port },
      { head: "Link", draw: link },
      { head: "LAG", text: (row) => row.lag ?? (row.member_of ? `of ${row.member_of}` : "–") },
      ...rates("Received", "received"),
      { head: "in all", number: true, text: (row) => grouped(row.received.packets.count) },
      ...rates("Sent", "sent"),
      { head: "in all", number: true, text: (row) => grouped(row.sent.packets.count) },
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
    key: (row) => row.number,
    columns: [
      { head: "Prefix", main: true, text: (row) => row.prefix },
      { head: "VRF", number: true, text: (row) => row.vrf },
      { head: "Way", text: (row) => ({ connected: "on the link", static: "static", ues: "UEs here", nowhere: "dropped" })[row.kind] },
      { head: "By", text: (row) => row.address ?? "–" },
      { head: "Instance", text: (row) => row.instance },
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
    key: (row) => row.id,
    empty: "No neighbour is known.",
    columns: [
      { head: "Address", main: true, text: (row) => row.address },
      { head: "Instance", text: (row) => row.instance },
      { head: "Port", text: (row) => [row.port, row.vlan].filter(Boolean).join(", ") },
      { head: "State", draw: reached },
      { head: "Station", text: (row) => row.mac ?? "–" },
      { head: "Age", number: true, text: (row) => seconds(row.age_ms) },
      { head: "Wanted by", text: (row) => row.wanted_by },
    ],
  });
}

export function network(place) {
  const [links, wires, ways, near, wrong] = [instances(), ports(), routes(), neighbours(), faults()];
  const more = h("p", { class: "dim" });
  place.append(
    h("h1", { class: "hidden" }, "Instances and ports"),
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
