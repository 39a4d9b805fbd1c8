// One session: its rules, what they do now, what is counted, and how fast.

import { get } from "../api.js";
import { facts, h, put, section, state, table } from "../dom.js";
import { bitRate, bits, date, grouped, octets, packets, percent, plain } from "../format.js";
import { faults, poll } from "./poll.js";

const EVERY_S = 2;
const list = (values) => (values.length ? values.join(", ") : "–");
const lines = (cell, texts) => {
  const text = texts.join("\n");
  if (cell.said === text) return;
  cell.said = text;
  put(cell, texts.map((line) => h("div", {}, line)));
};

function who(session) {
  const flows = session.flows === undefined ? "" : `, ${grouped(session.flows)} flow entries`;
  return facts([
    ["State", state(session.state === "live" ? "good" : "warn", session.state)],
    ["IMSI", session.imsi],
    ["DNN", session.dnn],
    ["UE", list(session.ue)],
    ["Tunnels", session.tunnels.map((one) => h("div", {}, h("span", { class: "mono" }, one.teid), ` at ${one.address} (${one.instance})`))],
    ["SMF", `${session.node}, CP F-SEID ${session.cp_f_seid.seid} at ${list(session.cp_f_seid.addresses)}`],
    ["Sets", session.sets.join(", ")],
    ["Owner", `worker ${session.worker}, by bucket ${session.bucket}${flows}`],
  ]);
}

function pdrs() {
  return table({
    label: "PDRs, in the order in which a packet is held against them",
    key: "id",
    empty: "The session has no PDR: no packet matches.",
    columns: [
      ["PDR", "id"],
      { head: "Precedence", number: true, text: "precedence" },
      ["From", "source"],
      { head: "Matches", class: "wrap", draw: (cell, row) => lines(cell, row.matches) },
      ["Removes", "removes"],
      { head: "Then", class: "wrap", text: (row) => (row.far === undefined ? row.action : `FAR ${row.far}: ${row.action}`) },
      ["QERs", (row) => list(row.qers)],
      ["URRs", (row) => list(row.urrs)],
    ],
  });
}

function fars() {
  return table({
    label: "FARs",
    key: "id",
    empty: "None.",
    columns: [
      ["FAR", "id"],
      ["Apply Action", (row) => row.apply_action.join(" ")],
      { head: "Now", class: "wrap", text: "action" },
      { head: "BAR", number: true, text: "bar" },
      { head: "Buffered", number: true, text: "buffered" },
    ],
  });
}

const rate = (rates, way) => (rates ? bitRate(rates[way]) : { value: "no limit", unit: "" });
const guaranteed = (rates, way) => (rates ? bitRate(rates[way]) : { value: "–", unit: "" });

function gates(cell, row) {
  const way = (open, word) => state(open ? "good" : "bad", `${word} ${open ? "open" : "closed"}`);
  const key = `${row.uplink_open} ${row.downlink_open}`;
  if (cell.key === key) return;
  cell.key = key;
  put(cell, way(row.uplink_open, "up"), "\u2003", way(row.downlink_open, "down"));
}

function marks(row) {
  const given = [
    row.qfi !== undefined && `QFI ${row.qfi}`,
    row.rqi && "RQI",
    row.ppi !== undefined && `PPI ${row.ppi}`,
    row.service_class !== undefined && `SCI ${row.service_class}`,
  ];
  return list(given.filter(Boolean));
}

function qers() {
  return table({
    label: "QERs",
    key: "id",
    empty: "None: no gate, no meter, no mark.",
    columns: [
      ["QER", "id"],
      { head: "Gates", draw: gates },
      { head: "MBR up", measure: (row) => rate(row.mbr, "uplink") },
      { head: "MBR down", measure: (row) => rate(row.mbr, "downlink") },
      { head: "GBR up", measure: (row) => guaranteed(row.gbr, "uplink") },
      { head: "GBR down", measure: (row) => guaranteed(row.gbr, "downlink") },
      ["Marks", marks],
      { head: "Together with", text: (row) => (row.correlation ? `${row.correlation.sessions} sessions, by ${row.correlation.id}` : "–") },
    ],
  });
}

function bound(row) {
  const volume = (name, of) => of && Object.entries(of).map(([way, number]) => `${name} ${way} ${plain(octets(number))}`);
  const bounds = [
    volume("threshold", row.volume_threshold),
    volume("quota", row.volume_quota),
    row.time_threshold !== undefined && `threshold ${grouped(row.time_threshold)} s`,
    row.time_quota !== undefined && `quota ${grouped(row.time_quota)} s`,
    row.event_threshold !== undefined && `threshold ${grouped(row.event_threshold)} events`,
    row.event_quota !== undefined && `quota ${grouped(row.event_quota)} events`,
  ];
  return bounds.flat().filter(Boolean);
}

const counted = (row, of) => (row.since_last_report ? grouped(row.since_last_report[of]) : "?");

function urrs() {
  return table({
    label: "URRs",
    key: "id",
    empty: "None: nothing is counted for this session.",
    columns: [
      ["URR", "id"],
      ["Measures", (row) => list(row.measures)],
      { head: "Up packets", number: true, text: (row) => counted(row, "uplink_packets") },
      { head: "octets", number: true, text: (row) => counted(row, "uplink_octets") },
      { head: "now", class: "up", measure: (row) => bits(row.rate.uplink_octets) },
      { head: "Down packets", number: true, text: (row) => counted(row, "downlink_packets") },
      { head: "octets", number: true, text: (row) => counted(row, "downlink_octets") },
      { head: "now", class: "down", measure: (row) => bits(row.rate.downlink_octets) },
      ["Since", (row) => (row.since ? date(row.since) : "–")],
      { head: "Reports", number: true, text: "next_ur_seqn" },
      { head: "Bounds", class: "wrap", draw: (cell, row) => lines(cell, bound(row).length ? bound(row) : ["–"]) },
    ],
  });
}

function contents() {
  const of = (name) => (row) => row.counts[name];
  return table({
    label: "Contents of predefined rules, since their last record",
    key: (row) => row.content ?? "",
    columns: [
      ["Content", (row) => row.content ?? "(without a counter of their own)"],
      { head: "Rating group", number: true, text: "rating_group" },
      { head: "Service", number: true, text: "service_id" },
      { head: "Up packets", count: of("uplink_packets") },
      { head: "octets", count: of("uplink_octets") },
      { head: "Down packets", count: of("downlink_packets") },
      { head: "octets", count: of("downlink_octets") },
      ["Since", (row) => date(row.since)],
    ],
  });
}

const WAYS = ["uplink_packets", "uplink_octets", "downlink_packets", "downlink_octets"];
const NONE = Object.fromEntries(WAYS.map((way) => [way, 0]));

// What each URR has counted a second since the answer before. A report begins a new measurement, from nothing.
export function rated(before, after) {
  const seconds = before ? (after.at - before.at) / 1000 : 0;
  return after.urrs.map((urr) => {
    const then = before?.urrs.find((one) => one.id === urr.id);
    const continues = seconds > 0 && then?.since === urr.since && then.since_last_report && urr.since_last_report;
    const one = (way) => Math.max(0, urr.since_last_report[way] - then.since_last_report[way]) / seconds;
    return { ...urr, rate: continues ? Object.fromEntries(WAYS.map((way) => [way, one(way)])) : NONE };
  });
}

// The meters: the largest measured rate beside the smallest that a QER allows.
function meters(session, urrs) {
  const way = (name, class_) => {
    const now = Math.max(0, ...urrs.map((urr) => urr.rate[`${name}_octets`])) * 8;
    const each = Math.max(0, ...urrs.map((urr) => urr.rate[`${name}_packets`]));
    const allowed = session.qers.filter((qer) => qer.mbr).map((qer) => qer.mbr[name]);
    const most = allowed.length ? Math.min(...allowed) : null;
    const words = most === null ? "no maximum" : `${plain(percent(most ? now / most : 0))} of ${plain(bitRate(most))}`;
    return [h("span", { class: class_ }, name === "uplink" ? "Uplink" : "Downlink"), `${plain(bitRate(now))}, ${plain(packets(each))}: ${words}`];
  };
  return facts([way("uplink", "up"), way("downlink", "down")]);
}

export function session(place, { rest, known }) {
  const [seid] = rest;
  const [wrong, head, now] = [faults(), h("div"), h("div")];
  const [rules, actions, qos, usage, told] = [pdrs(), fars(), qers(), urrs(), contents()];
  const served = h("div", { hidden: true }, section("Contents of predefined rules"), told.element);
  const traces = known.routes.has("/v1/trace") && known.role !== "viewer";
  const body = h("div", { hidden: true },
    h("div", { class: "columns" }, h("div", {}, section("Session"), head), h("div", {}, section("Measured now"), now)),
    section("PDRs, in the order in which a packet is held against them"), rules.element,
    section("FARs"), actions.element, section("QERs"), qos.element,
    section("URRs, since their last report"), usage.element, served);
  place.append(
    h("div", { class: "title" }, h("h1", {}, "Session ", h("span", { class: "mono" }, seid)), h("span", { class: "grow" }),
      traces && h("a", { href: `#/trace?seid=${seid}` }, "Trace its packets"), h("a", { href: "#/sessions" }, "All sessions")),
    wrong, body);
  let before = null;
  return poll(EVERY_S, wrong, async (signal) => {
    const found = await get(`/v1/sessions/${encodeURIComponent(seid)}`, { signal });
    found.at = performance.now();
    const measured = rated(before, found);
    before = found;
    put(head, who(found));
    put(now, found.urrs.length ? meters(found, measured) : h("p", { class: "dim" }, "The session has no URR, so that nothing is measured."));
    rules.update(found.pdrs);
    actions.update(found.fars);
    qos.update(found.qers);
    usage.update(measured);
    served.hidden = !found.contents?.length;
    told.update(found.contents ?? []);
    body.hidden = false;
  });
}
