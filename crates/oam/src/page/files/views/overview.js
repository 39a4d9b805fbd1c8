// The node at a glance.

import { at, chart, spark } from "../chart.js";
import { choice, h, mark, measure, say, section, state, table } from "../dom.js";
import { bits, duration, grouped, packets, percent, plain, scaled, times } from "../format.js";
import { history, listen, series } from "../live.js";
import { busyBar, stageLegend } from "./workers.js";

const MOST_CHARTS = 8;
const MOST_DROPS = 6;
const MOST_SMFS = 8;

const sum = (rows, value) => rows.reduce((all, row) => all + value(row), 0);
const dropsPerSecond = (live) => sum(live.drops, (drop) => drop.per_s);

function reading(name, color) {
  const line = spark(color);
  const [value, more] = [h("div", { class: "value" }), h("div", { class: "more" })];
  const element = h("div", { class: "reading" }, h("div", { class: "name" }, name), value, more, line.element);
  return {
    element,
    show(figure, words, values) {
      measure(value, figure);
      say(more, words);
      line.show(values);
    },
  };
}

function readings() {
  const all = {
    up: reading("Uplink", "up"),
    down: reading("Downlink", "down"),
    sessions: reading("Sessions", "accent"),
    setUps: reading("Session set-ups", "accent"),
    drops: reading("Drops", "bad"),
    load: reading("Control load", "dim"),
  };
  const element = h("div", { class: "readings" }, Object.values(all).map((one) => one.element));
  const of = (value) => history.of.map(value);
  function show(live) {
    const { uplink, downlink, sessions, node } = live;
    all.up.show(bits(uplink.octets.per_s), `${plain(packets(uplink.packets.per_s))} of users`, of((one) => one.uplink.octets.per_s));
    all.down.show(bits(downlink.octets.per_s), `${plain(packets(downlink.packets.per_s))} of users`, of((one) => one.downlink.octets.per_s));
    const full = percent(sessions.now / Math.max(sessions.most, 1));
    all.sessions.show({ value: grouped(sessions.now), unit: "" }, `${plain(full)} of ${grouped(sessions.most)}`, of((one) => one.sessions.now));
    const refused = sessions.refused.count ? `${grouped(sessions.refused.count)} refused` : "none refused";
    all.setUps.show(times(sessions.set_up.per_s), `${grouped(sessions.set_up.count)} in all, ${refused}`, of((one) => one.sessions.set_up.per_s));
    const dropped = sum(live.drops, (drop) => drop.count);
    all.drops.show(packets(dropsPerSecond(live)), `${grouped(dropped)} since the start`, of(dropsPerSecond));
    const state = node.overloaded ? "overload: new sessions are refused" : `up ${duration(node.uptime_s)}`;
    all.load.show({ value: String(node.load), unit: "%" }, state, of((one) => one.node.load));
  }
  return { element, show };
}

// One chart for each instance, all to the same scale.
function throughput() {
  const place = h("div", { class: "charts" });
  const known = new Map();
  let unit = "octets";
  const rate = (flow) => (unit === "octets" ? flow.octets.per_s * 8 : flow.packets.per_s);
  const format = (value) => scaled(value, unit === "octets" ? "bit/s" : "p/s");

  function make(name) {
    const words = { in: h("b"), out: h("b"), when: h("span", { class: "dim grow" }) };
    const drawn = h("div");
    const head = h("div", { class: "chart-head" }, h("b", {}, name), words.when,
      h("span", { class: "key up" }, "received ", words.in), h("span", { class: "key down dashed" }, "sent ", words.out));
    const element = h("div", {}, head, drawn);
    place.append(element);
    const one = { element, words, name, pointed: null };
    one.chart = chart(drawn, {
      series: [{ color: "up" }, { color: "down", dash: [5, 4] }],
      format,
      sync: "throughput",
      label: `Received and sent by the instance ${name} over the last five minutes`,
      over: (index) => {
        one.pointed = index;
        tell(one);
      },
    });
    return one;
  }

  const of = (live, name) => live.instances.find((instance) => instance.instance === name);
  const rated = (live, name, way) => {
    const found = live && of(live, name);
    return found ? rate(found[way]) : 0;
  };

  function tell(one) {
    const live = history.of[one.pointed ?? history.of.length - 1];
    const instance = live && of(live, one.name);
    if (!instance) return;
    measure(one.words.in, format(rate(instance.received)));
    measure(one.words.out, format(rate(instance.sent)));
    const where = `${instance.roles.join(", ")} on ${instance.port}${instance.vlan ? `, ${instance.vlan}` : ""}`;
    say(one.words.when, one.pointed === null ? where : `at ${at(live.time_ms / 1000)}`);
  }

  function show(live) {
    const busiest = [...live.instances].sort((a, b) => rate(b.received) + rate(b.sent) - rate(a.received) - rate(a.sent));
    const chosen = live.instances.length > MOST_CHARTS ? new Set(busiest.slice(0, MOST_CHARTS).map((one) => one.instance)) : null;
    const shown = live.instances.filter((one) => !chosen || chosen.has(one.instance) || known.has(one.instance)).slice(0, MOST_CHARTS);
    for (const [name, one] of known) {
      if (shown.some((instance) => instance.instance === name)) continue;
      one.chart.end();
      one.element.remove();
      known.delete(name);
    }
    const data = shown.map(({ instance }) => {
      if (!known.has(instance)) known.set(instance, make(instance));
      return series((one) => rated(one, instance, "received"), (one) => rated(one, instance, "sent"));
    });
    const most = Math.max(0, ...data.flatMap((lines) => lines.slice(1).flatMap((values) => values.slice(-300))));
    shown.forEach(({ instance }, index) => {
      known.get(instance).chart.show(data[index], most);
      tell(known.get(instance));
    });
  }

  const units = choice("Unit of the charts", [["octets", "bit/s"], ["packets", "packets/s"]], unit, (chosen) => {
    unit = chosen;
    const last = history.of.at(-1);
    if (last) show(last);
  });
  const head = section("Throughput per instance", units);
  return { head, element: place, show, end: () => known.forEach((one) => one.chart.end()) };
}

function workers() {
  const grid = table({
    label: "Workers",
    key: "worker",
    columns: [
      ["Worker", "worker"],
      { head: "Busy", measure: (row) => percent(row.busy), title: "Share of the time in which the worker had packets" },
      { head: "by stage", class: "wide", draw: busyBar },
      { head: "Received", measure: (row) => packets(row.received.per_s) },
      { head: "Sent", measure: (row) => packets(row.sent.per_s) },
      { head: "Backlog", count: "backlog", title: "Packets that wait to be processed" },
      { head: "Drops", measure: (row) => packets(row.dropped.per_s) },
    ],
  });
  return { head: section("Workers"), element: h("div", {}, grid.element, stageLegend()), show: (live) => grid.update(live.workers) };
}

function topDrops() {
  const grid = table({
    label: "Most frequent drop reasons",
    key: "reason",
    empty: "No packet has been dropped since the start.",
    open: () => {
      location.hash = "#/drops";
    },
    columns: [
      ["Reason", "reason"],
      { head: "Rate", measure: (row) => packets(row.per_s) },
      { head: "Packets", count: "count" },
    ],
  });
  const all = h("a", { href: "#/drops" }, "what to do");
  const show = (live) => {
    all.hidden = live.drops.length === 0;
    grid.update(ranked(live.drops).slice(0, MOST_DROPS));
  };
  return { head: section("Drops", all), element: grid.element, show };
}

// Those that happen now first.
export const ranked = (drops) => [...drops].sort((a, b) => b.per_s - a.per_s || b.count - a.count);

function smfs() {
  const grid = table({
    label: "SMFs",
    key: "peer",
    empty: "No SMF has set up an association.",
    columns: [
      ["Node ID", "node"],
      { head: "State", draw: smfState },
      { head: "Sessions", count: "sessions" },
    ],
  });
  const rest = h("p", { class: "dim" });
  function show(live) {
    grid.update(live.smfs.slice(0, MOST_SMFS));
    const more = live.smfs_total - Math.min(live.smfs.length, MOST_SMFS);
    say(rest, more > 0 ? `and ${more} more` : "");
  }
  return { head: section("SMFs", h("a", { href: "#/smfs" }, "messages and causes")), element: h("div", {}, grid.element, rest), show };
}

export function smfState(cell, row) {
  const word = row.reachable ? "reachable" : "does not answer";
  mark(cell, row.reachable ? "good" : "bad", word);
}

export function overview(place) {
  const parts = [readings(), throughput(), workers(), topDrops(), smfs()];
  const [figures, charts, busy, drops, peers] = parts;
  place.append(
    figures.element,
    charts.head,
    charts.element,
    h("div", { class: "columns" }, h("div", {}, busy.head, busy.element), h("div", {}, drops.head, drops.element, peers.head, peers.element)),
  );
  const stop = listen((live) => parts.forEach((part) => part.show(live)));
  return () => {
    stop();
    charts.end();
  };
}
