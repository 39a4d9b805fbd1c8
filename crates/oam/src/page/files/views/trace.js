// Packets explained one by one, as they come.

import { lines, query } from "../api.js";
import { facts, fault, h, put, say } from "../dom.js";
import { bitRate, grouped, plain } from "../format.js";
import * as live from "../live.js";

// Packets that are shown; older ones go.
const KEPT = 500;
const FILTERS = [
  { name: "ue", label: "UE address", hint: "10.45.0.2" },
  { name: "seid", label: "SEID", hint: "0x8f3c21b09d4e7a65" },
  { name: "teid", label: "TEID", hint: "0x6d2a91c4" },
  { name: "flow", label: "Flow", hint: "tcp,10.45.0.2:4000,192.0.2.1:443" },
];

const ends = {
  sent: (end) => ["good", `sent by ${end.instance ?? end.port}`],
  again: () => ["dim", "comes in again"],
  dropped: (end) => ["bad", end.reason],
  handed_over: (end) => ["dim", `to worker ${end.worker}`],
  consumed: () => ["dim", "for this node"],
  to_host: () => ["dim", "to the host"],
  goes_back: () => ["dim", "back to the accelerator"],
  waits: (end) => ["warn", `waits for ${end.for_what}`],
};

function end(of) {
  const [kind, words] = ends[of.outcome](of);
  return h("span", { class: `state ${kind}` }, words);
}

function became(of) {
  if (of.outcome === "dropped") return `dropped: ${of.explanation} [${of.clause}]`;
  if (of.outcome !== "sent") return ends[of.outcome](of)[1];
  const to = of.next_hop ? `${of.next_hop} at ${of.mac}` : of.mac;
  const by = of.instance ? `${of.instance} on ${of.port}` : of.port;
  const more = [of.in_fragments && "in fragments", of.port_was_full && "its port was full"];
  return [`sent by ${by} to ${to}, ${grouped(of.octets)} octets`, ...more.filter(Boolean)].join(", ");
}

function flow({ lookup, entry, installed, outdated }) {
  const words = {
    hit: `hit${outdated ? ", decided under older rules" : ""}`,
    miss: installed ? "miss, entry installed" : "miss, no entry installed",
    stale: "stale: decided again",
  };
  return `${words[lookup] ?? "none: it can have none"}${entry ? `: ${entry}` : ""}`;
}

function tried(packet) {
  return packet.tried.map((one) => h("div", {}, `PDR ${one.pdr}, precedence ${one.precedence}: ${one.mismatch ? `no, ${one.mismatch}` : "matches"}`));
}

const qer = (one) => [
  `${one.id}: gate ${one.is_open ? "open" : "closed"}`,
  one.mbr !== undefined && `MBR ${plain(bitRate(one.mbr))}`,
  one.gbr !== undefined && `GBR ${plain(bitRate(one.gbr))}`,
  one.qfi !== undefined && `QFI ${one.qfi}`,
].filter(Boolean).join(", ");

const urr = (one) => `${one.id}: ${one.counted ? `+${grouped(one.counted)} octets` : "not counted"}${one.exhausted ? ", quota used up" : ""}`;
const divs = (all = [], text = (one) => one) => (all.length ? all.map((one) => h("div", {}, text(one))) : null);

// All of a packet, in order.
function whole(packet) {
  const seid = packet.seid && h("span", {}, h("a", { href: `#/session/${packet.seid}`, class: "mono" }, packet.seid), `  UE ${(packet.ue ?? []).join(", ")}`);
  return facts([
    ["came by", `${packet.instance ? `${packet.instance} on ` : ""}${packet.port}${packet.vlan ? ` VLAN ${packet.vlan}` : ""}, ${grouped(packet.octets)} octets, worker ${packet.worker}${packet.from ? `, ${packet.from}` : ""}`],
    ["tunnel", packet.tunnel],
    ["packet", packet.packet],
    ["session", seid],
    ["flow", flow(packet.flow)],
    ["offload", packet.accelerator],
    ["tried", packet.tried?.length ? tried(packet) : null],
    ["PDR", packet.pdr],
    ["QER", divs(packet.qers, qer)],
    ["meters", packet.colour],
    ["FAR", packet.far === undefined ? packet.action : `${packet.far}: ${packet.action ?? ""}`],
    ["URR", divs(packet.urrs, urr)],
    ["headers", divs(packet.headers)],
    ["copies", divs(packet.copies)],
    ["queue", packet.queue && `${packet.queue.class}, ${packet.queue.waited_ns / 1e6} ms${packet.queue.marked ? ", CE" : ""}`],
    ["then", became(packet.end)],
    ["disagreement", packet.disagreement && h("span", { class: "bad" }, `${packet.disagreement} (a mistake of Sluice: please report it)`)],
  ]);
}

function row(packet, first) {
  const seconds = (packet.time_ns - first) / 1e9;
  const way = packet.direction ? h("span", { class: packet.direction === "uplink" ? "up" : "down" }, packet.direction) : h("span", { class: "dim" }, "in");
  const summary = h("summary", {},
    h("span", { class: "dim number" }, `#${packet.number}`),
    h("span", { class: "number time" }, `${seconds.toFixed(6)} s`),
    h("span", { class: "by" }, way),
    h("span", {}, packet.packet),
    end(packet.end));
  const element = h("details", {}, summary);
  element.addEventListener("toggle", () => {
    if (element.open && element.childElementCount === 1) element.append(whole(packet));
  });
  element.of = packet;
  return element;
}

function ended(summary) {
  const words = [`${grouped(summary.told)} of ${grouped(summary.wanted)} packets`];
  if (summary.over_rate) words.push(`${grouped(summary.over_rate)} beyond the rate or the number`);
  if (summary.lost) words.push(`${grouped(summary.lost)} lost: they came faster than they were read`);
  if (summary.disagreements) words.push(`the interpreter disagrees about ${grouped(summary.disagreements)}: please report it`);
  return `Ended. ${words.join("; ")}.`;
}

export function trace(place, { fields }) {
  const inputs = FILTERS.map(({ name, label, hint }) => [name, label, h("input", { name, placeholder: hint, value: fields.get(name) ?? "", autocomplete: "off", spellcheck: "false", size: Math.min(hint.length, 20) })]);
  const port = h("select", { name: "port" }, h("option", { value: "" }, "any"));
  const count = h("input", { name: "count", type: "number", min: 1, max: 1000000, value: 100 });
  const seconds = h("input", { name: "seconds", type: "number", min: 1, max: 3600, value: 60 });
  const only = h("select", {}, [["", "all"], ["dropped", "dropped ones"], ["uplink", "uplink"], ["downlink", "downlink"]].map(([value, name]) => h("option", { value }, name)));
  only.value = fields.get("only") ?? "";
  const button = h("button", { class: "main" }, "Trace");
  const [status, wrong, rows] = [h("p", { class: "dim", role: "status" }), h("div", { role: "alert" }), h("div", { class: "trace", hidden: true })];
  let stop = null;

  const wanted = (packet) => !only.value || packet.end.outcome === only.value || packet.direction === only.value;
  only.addEventListener("change", () => {
    for (const element of rows.children) element.hidden = !wanted(element.of);
  });

  async function run() {
    const asked = Object.fromEntries([...inputs.map(([name, , input]) => [name, input.value.trim()]), ["port", port.value], ["count", count.value], ["seconds", seconds.value]]);
    put(wrong);
    inputs.forEach(([, , input]) => input.removeAttribute("aria-invalid"));
    put(rows);
    rows.hidden = false;
    const mine = new AbortController();
    stop = mine;
    say(button, "Stop");
    say(status, "Waiting for packets.");
    let first = null;
    try {
      for await (const line of lines(`/v1/trace${query(asked)}`, { signal: mine.signal })) {
        if (!line) continue;
        const { packet, end } = JSON.parse(line);
        if (end) say(status, ended(end));
        if (!packet) continue;
        first ??= packet.time_ns;
        const element = row(packet, first);
        element.hidden = !wanted(packet);
        rows.append(element);
        if (rows.childElementCount > KEPT) rows.firstChild.remove();
        say(status, `${grouped(packet.number)} packets so far.`);
      }
    } catch (error) {
      if (mine.signal.aborted) say(status, `Stopped after ${grouped(rows.lastChild?.of.number ?? 0)} packets.`);
      else {
        say(status, "");
        inputs.find(([name]) => name === error.field)?.[2].setAttribute("aria-invalid", "true");
        fault(wrong, error);
      }
    }
    if (stop === mine) stop = null;
    say(button, "Trace");
  }

  const submit = (event) => {
    event.preventDefault();
    if (stop) stop.abort();
    else run();
  };
  place.append(
    h("form", { class: "form", onsubmit: submit },
      inputs.map(([, label, input]) => h("label", {}, label, input)),
      h("label", {}, "Port", port), h("label", {}, "Packets", count), h("label", {}, "Seconds", seconds), button,
      h("label", {}, "Show", only)),
    h("p", { class: "dim" }, "Only packets for which everything given holds. Traces show users' packets: the audit log has who made them."),
    wrong, status, rows);
  const leave = live.listen(({ ports }) => {
    if (port.childElementCount > 1) return;
    port.append(...ports.map((one) => h("option", { value: one.port }, one.port)));
  });
  if (fields.get("seid") || fields.get("ue") || fields.get("teid")) run();
  return () => {
    stop?.abort();
    leave();
  };
}
