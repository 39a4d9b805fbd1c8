// Sessions: a page of them, or those that are searched for.

import { get, query } from "../api.js";
import { fault, h, mark, put, say, table } from "../dom.js";
import { grouped } from "../format.js";

const ROWS = 50;
// Pages that a search goes through before it asks whether to go on: 20,000 sessions each at most.
const MOST_PAGES = 50;

const IPV4 = /^\d{1,3}(\.\d{1,3}){3}$/;
const NAMES = { imsi: "an IMSI", ue: "an address", seid: "a SEID", teid: "a TEID", dnn: "a DNN" };

// What a text may be, the likeliest first. A SUPI is an IMSI with a word before it (TS 23.003 §2.2A).
export function meanings(text) {
  const plain = text.trim();
  if (!plain) return [];
  const supi = plain.match(/^imsi-(\d{6,15})$/i);
  if (supi) return [{ imsi: supi[1] }];
  if (IPV4.test(plain) || /^[\da-f:]*:[\da-f:.]*$/i.test(plain)) return [{ ue: plain }];
  if (/^0x[\da-f]+$/i.test(plain)) return plain.length <= 10 ? [{ teid: plain }, { seid: plain }] : [{ seid: plain }];
  if (/^\d+$/.test(plain)) {
    const number = [{ teid: plain }, { seid: plain }].slice(Number(plain) > 0xffff_ffff ? 1 : 0);
    return plain.length >= 14 && plain.length <= 15 ? [{ imsi: plain }, { seid: plain }] : number;
  }
  return [{ dnn: plain }];
}

function results() {
  return table({
    label: "Sessions",
    key: "seid",
    empty: "No session.",
    open: (row) => {
      location.hash = `#/session/${row.seid}`;
    },
    columns: [
      { head: "SEID", class: "mono", draw: (cell, row) => {
        if (cell.textContent !== row.seid) put(cell, h("a", { href: `#/session/${row.seid}` }, row.seid));
      } },
      ["UE", (row) => row.ue.join(", ") || "–"],
      ["IMSI", "imsi"],
      ["DNN", "dnn"],
      ["SMF", "node"],
      { head: "TEIDs", class: "mono", text: (row) => row.teids.join(", ") || "–" },
      { head: "PDRs", number: true, text: "pdrs" },
      { head: "Worker", number: true, text: "worker" },
      { head: "State", draw: (cell, row) => {
        mark(cell, row.state === "live" ? "good" : "warn", row.state);
      } },
    ],
  });
}

export function sessions(place, { fields }) {
  const grid = results();
  const [found, wrong] = [h("p", { class: "dim", role: "status" }), h("div", { role: "alert" })];
  const field = h("input", { type: "search", autocomplete: "off", spellcheck: "false", placeholder: "IMSI, SUPI, address, SEID, TEID or DNN", "aria-describedby": "sessions-found" });
  const kind = h("select", {}, [["", "whatever it is"], ...Object.entries(NAMES)].map(([value, name]) => h("option", { value }, name)));
  const more = h("button", { type: "button", hidden: true }, "More");
  found.id = "sessions-found";
  let turn = 0;
  let shown = [];
  let next = null;

  // Rows of one meaning, page by page: one may be empty and not the last.
  async function collect(meaning, after, mine) {
    const rows = [];
    let pages = 0;
    do {
      const list = await get(`/v1/sessions${query({ ...meaning, after, limit: ROWS })}`);
      if (mine !== turn) return null;
      rows.push(...list.sessions);
      after = list.next;
      pages += 1;
      if (after && rows.length < ROWS) say(found, `Looking further: ${rows.length} found so far.`);
      if (!after || rows.length >= ROWS || pages >= MOST_PAGES) return { rows, next: after ?? null, total: list.total };
    } while (after);
    return null;
  }

  function tell({ rows, next: after, total }, meaning, fresh) {
    shown = fresh ? rows : [...shown, ...rows];
    next = after ? { meaning, after } : null;
    more.hidden = !next;
    grid.update(shown);
    const as = Object.keys(meaning)[0];
    const what = as ? `Searched as ${NAMES[as]}: ${grouped(shown.length)}${next ? " so far" : ""} of ${grouped(total)} sessions.` : `${grouped(shown.length)} of ${grouped(total)} sessions, in the order of their SEIDs.`;
    say(found, what);
  }

  async function search() {
    turn += 1;
    const mine = turn;
    put(wrong);
    field.removeAttribute("aria-invalid");
    const text = field.value.trim();
    const tries = !text ? [{}] : kind.value ? [{ [kind.value]: text.replace(/^imsi-/i, "") }] : meanings(text);
    try {
      for (const [place, meaning] of tries.entries()) {
        const got = await collect(meaning, null, mine);
        if (!got) return;
        if (got.rows.length || place === tries.length - 1) return tell(got, meaning, true);
      }
    } catch (error) {
      if (mine !== turn) return;
      field.setAttribute("aria-invalid", "true");
      fault(wrong, error);
    }
  }

  more.addEventListener("click", async () => {
    const { meaning, after } = next;
    try {
      const got = await collect(meaning, after, turn);
      if (got) tell(got, meaning, false);
    } catch (error) {
      fault(wrong, error);
    }
  });
  const submit = (event) => {
    event.preventDefault();
    history.replaceState(null, "", `#/sessions${query({ q: field.value.trim(), as: kind.value })}`);
    search();
  };
  field.value = fields.get("q") ?? "";
  kind.value = fields.get("as") ?? "";
  place.append(
    h("form", { class: "form", role: "search", onsubmit: submit },
      h("label", { class: "find" }, "Search", field), h("label", {}, "as", kind), h("button", { class: "main" }, "Search")),
    wrong, found, grid.element, h("div", { class: "more" }, more),
  );
  search();
  return () => {
    turn += 1;
  };
}
