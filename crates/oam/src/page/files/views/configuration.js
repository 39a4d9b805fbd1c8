// The configuration in effect: what a changed text would change, commits with a time to confirm, versions.

import { get, query, send } from "../api.js";
import { facts, fault, h, mark, notice, put, say, section, state, table } from "../dom.js";
import { date, duration } from "../format.js";
import { faults, poll } from "./poll.js";

const KINDS = { live: "good", drain: "warn", restart: "bad" };
const value = (of) => (of === null ? "–" : typeof of === "object" ? JSON.stringify(of) : String(of));

function changes() {
  return table({
    label: "What changes, field by field",
    key: "path",
    empty: "Nothing changes: the texts mean the same.",
    columns: [
      { head: "Field", class: "mono", text: "path" },
      { head: "was", class: "wrap mono", text: (row) => value(row.before) },
      { head: "becomes", class: "wrap mono", text: (row) => value(row.after) },
      { head: "takes effect", draw: (cell, row) => {
        mark(cell, KINDS[row.class] ?? "dim", row.class);
      } },
    ],
  });
}

// Lines that two texts do not have in common, by the longest common subsequence, with a few around each.
export function lineDiff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < Math.min(a.length, b.length) && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < Math.min(a.length, b.length) - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const [x, y] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const lines = a.slice(Math.max(0, head - 3), head).map((line) => [" ", line]);
  if (x.length * y.length > 4_000_000) {
    lines.push(...x.map((line) => ["-", line]), ...y.map((line) => ["+", line]));
  } else {
    const common = Array.from({ length: x.length + 1 }, () => new Uint32Array(y.length + 1));
    for (let i = x.length - 1; i >= 0; i -= 1) {
      for (let j = y.length - 1; j >= 0; j -= 1) {
        common[i][j] = x[i] === y[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
      }
    }
    for (let i = 0, j = 0; i < x.length || j < y.length; ) {
      if (i < x.length && j < y.length && x[i] === y[j]) {
        lines.push([" ", x[i]]);
        i += 1;
        j += 1;
      } else if (j >= y.length || (i < x.length && common[i + 1][j] >= common[i][j + 1])) {
        lines.push(["-", x[i]]);
        i += 1;
      } else {
        lines.push(["+", y[j]]);
        j += 1;
      }
    }
  }
  return [...lines, ...a.slice(a.length - tail, a.length - tail + 3).map((line) => [" ", line])];
}

const shownDiff = (lines) =>
  h("div", { class: "diff mono", tabindex: "0", role: "region", "aria-label": "Lines that differ" },
    lines.map(([sign, line]) => h("div", { class: { "+": "plus", "-": "minus" }[sign] }, `${sign} ${line}`)));

export function configuration(place, { known }) {
  const changesIt = known.role === "admin";
  const [wrong, said, head, result] = [faults(), h("div", { role: "alert" }), h("div"), h("div", { hidden: true })];
  const text = h("textarea", { rows: 22, spellcheck: "false", "aria-label": "Configuration", readonly: !changesIt });
  const confirm_s = h("input", { type: "number", min: 0, max: 86400, value: 60, "aria-describedby": "confirm-why" });
  const comment = h("input", { maxlength: 200, size: 30 });
  const [grid, versions] = [changes(), versionTable()];
  let now = null;
  let shown = null;

  // What the daemon says to a request that changes something, or why it does not.
  async function act(what) {
    put(said);
    try {
      await what();
    } catch (error) {
      fault(said, error);
    }
  }

  async function compare(document) {
    const answer = await send("/v1/config/diff", { method: "POST", body: document, headers: { "Content-Type": "application/yaml" } });
    const found = await answer.json();
    grid.update(found.changes);
    put(lines, shownDiff(lineDiff(now.text, document)));
    result.hidden = false;
    const waits = found.changes.filter((change) => change.class !== "live").length;
    commit.disabled = !found.changes.length || !found.live;
    say(verdict, found.live ? "" : `${waits} of these need a restart or a drain: they are not committed while the daemon runs.`);
    shown = { document, etag: found.etag };
  }

  async function report(answer) {
    const { version, state: how, seconds } = await answer.json();
    const words = {
      confirmed: `Version ${version.number} is in effect.`,
      unconfirmed: `Version ${version.number} is in effect; unless you confirm it within ${seconds} s, the one before comes back.`,
      rolled_back: `Rolled back to version ${version.number}.`,
      at_restart: `Version ${version.number} takes effect at the next start.`,
    };
    put(said, h("p", { class: "notice", role: "status" }, words[how]));
    result.hidden = true;
    text.value = "";
    await refresh();
  }

  const check = h("button", { type: "button", onclick: () => act(() => compare(text.value)) }, "Compare");
  const commit = h("button", { type: "button", class: "main", disabled: true, onclick: () => act(async () => {
    const target = `/v1/config${query({ confirm_s: Number(confirm_s.value) || "", comment: comment.value.trim() })}`;
    await report(await send(target, { method: "PUT", body: shown.document, headers: { "Content-Type": "application/yaml", "If-Match": shown.etag } }));
  }) }, "Commit");
  const verdict = h("span", { class: "warn" });
  const lines = h("div");
  text.addEventListener("input", () => {
    commit.disabled = true;
  });

  function versionTable() {
    return table({
      label: "Versions",
      key: "number",
      columns: [
        ["Version", "number"],
        { head: "", class: "good", text: (row) => (row.number === now?.running.number ? "in effect" : "") },
        ["When", (row) => date(row.at)],
        ["Who", "by"],
        { head: "Comment", class: "wrap", text: (row) => row.comment || "–" },
        { head: "", draw: (cell, row) => {
          if (!cell.firstChild) cell.append(h("button", { type: "button", onclick: () => act(() => open(cell.parentNode.of.number)) }, `Show ${row.number}`));
        } },
      ],
    });
  }

  async function open(number) {
    const { text: document } = await get(`/v1/config/versions/${number}`);
    text.value = document;
    await compare(document);
    text.scrollIntoView({ block: "nearest" });
  }

  const button = (name, path, main) =>
    h("button", { type: "button", class: main && "main", onclick: () => act(async () => report(await send(path, { method: "POST" }))) }, name);

  function waiting({ number, seconds_left: left }) {
    const time = left === undefined ? "it could not be stored" : `${duration(left)} are left`;
    return h("div", { class: "notice warn" }, `Version ${number} waits to be confirmed: ${time}. `,
      changesIt && [button("Confirm", "/v1/config/confirm", true), " ", button("Roll back", "/v1/config/rollback")]);
  }

  async function refresh(signal) {
    const [status, list] = await Promise.all([get("/v1/config", { signal }), get("/v1/config/versions", { signal })]);
    now = status;
    const lost = status.rolled_back;
    put(head,
      status.unconfirmed && waiting(status.unconfirmed),
      lost && notice("warn", `Version ${lost.version.number} was rolled back: ${lost.why}.`),
      status.file_edited && notice("warn", "The file was edited since; a commit replaces it."),
      status.application_files_edited && notice("warn", "Files of applications were edited since; a commit or a start takes them."),
      facts([
        ["Version", `${status.running.number}, by ${status.running.by} at ${date(status.running.at)}`],
        ["File", status.file],
        ["Next start", status.next_start && `version ${status.next_start.number}`],
      ]));
    if (!text.value) text.value = status.text;
    versions.update(list.versions);
  }

  put(result,
    section("What it changes", verdict), grid.element, section("Lines"), lines,
    changesIt && h("div", { class: "form" },
      h("label", {}, "Confirm within, seconds", confirm_s), h("label", { class: "find" }, "Comment", comment), commit,
      h("span", { class: "dim", id: "confirm-why" }, "0: it needs no confirmation")));
  place.append(
    wrong, head, said,
    section("Text", check), text, result, section("Versions"), versions.element);
  return poll(3, wrong, refresh);
}
