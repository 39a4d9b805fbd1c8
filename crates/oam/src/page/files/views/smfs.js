// The SMFs: associations, messages of N4, causes.

import { get, query } from "../api.js";
import { h, put, section, table } from "../dom.js";
import { date, grouped, times } from "../format.js";
import { listen } from "../live.js";
import { smfState } from "./overview.js";
import { faults, poll } from "./poll.js";

const count = (head, value, title) => ({ head, title, count: value });

function associations() {
  return table({
    label: "PFCP associations",
    key: "peer",
    empty: "No SMF has set up an association.",
    columns: [
      ["Node ID", "node"],
      { head: "State", draw: smfState },
      ["Address", "peer"],
      ["Reached at", "local"],
      ["Interface", (row) => row.interface ?? "any"],
      ["Since", (row) => date(row.since)],
      count("Sessions", "sessions"),
      count("Tunnels", "tunnels"),
    ],
  });
}

function messages() {
  return table({
    label: "PFCP messages",
    key: "number",
    empty: "No message has come or left.",
    columns: [
      ["Message", "message"],
      count("Received", "received"),
      { head: "now", measure: (row) => times(row.per_s ?? 0) },
      count("Duplicates", "duplicates", "Retransmissions of requests among them"),
      count("Refused", "refused"),
      count("Sent", "sent"),
      count("Sent again", "resent"),
    ],
  });
}

function causes(label, empty) {
  return table({
    label,
    key: "cause",
    empty,
    columns: [
      ["Cause", "cause"],
      ["Meaning", "text"],
      count("Requests", "count"),
    ],
  });
}

function counters(label, empty) {
  return table({
    label,
    key: ([name]) => name,
    empty,
    columns: [
      { head: "What", text: ([name]) => name },
      { head: "Times", count: ([, number]) => number },
    ],
  });
}

// Messages with what came of them a second since the last answer.
function rated(before, after) {
  const seconds = before ? (after.at - before.at) / 1000 : 0;
  return after.messages.map((message) => {
    const then = before?.messages.find((one) => one.number === message.number)?.received ?? 0;
    return { ...message, per_s: seconds > 0 ? Math.max(0, message.received - then) / seconds : 0 };
  });
}

export function smfs(place) {
  const wrong = faults();
  const [peers, types] = [associations(), messages()];
  const byUs = causes("Refused by this node", "No request was refused.");
  const byPeers = causes("Refused by SMFs", "No SMF has refused a request.");
  const unserved = counters("Not served", "Everything that came was served.");
  const who = h("p", { class: "dim" });
  place.append(
    wrong,
    section("Associations"), peers.element, who,
    section("Messages"), types.element,
    h("div", { class: "columns" },
      h("div", {}, section("Refused by this node"), byUs.element, section("Refused by SMFs"), byPeers.element),
      h("div", {}, section("Not served"), unserved.element)),
  );
  const stop = listen((live) => {
    if (live.smfs_total <= live.smfs.length) return;
    put(who, `${grouped(live.smfs_total)} associations; the first 100 are shown`);
  });
  let before = null;
  const end = poll(2, wrong, async (signal) => {
    const [list, n4] = await Promise.all([get(`/v1/associations${query({ limit: 100 })}`, { signal }), get("/v1/n4", { signal })]);
    n4.at = performance.now();
    peers.update(list.associations);
    types.update(rated(before, n4));
    byUs.update(n4.refused);
    byPeers.update(n4.refused_by_peers);
    unserved.update(Object.entries(n4.not_served).filter(([, number]) => number > 0));
    before = n4;
  });
  return () => {
    stop();
    end();
  };
}
