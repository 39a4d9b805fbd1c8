// The frame: who this is, the views, how the stream is, the theme, the token, the keys.

import * as api from "./api.js";
import { redraw } from "./chart.js";
import { h, mark, notice, put, say } from "./dom.js";
import { duration } from "./format.js";
import * as live from "./live.js";
import { alarms } from "./views/alarms.js";
import { configuration } from "./views/configuration.js";
import { drops } from "./views/drops.js";
import { network } from "./views/network.js";
import { overview } from "./views/overview.js";
import { queues } from "./views/queues.js";
import { session } from "./views/session.js";
import { sessions } from "./views/sessions.js";
import { smfs } from "./views/smfs.js";
import { trace } from "./views/trace.js";

const by = (id) => document.getElementById(id);
const RANK = { viewer: 1, operator: 2, admin: 3 };

// Each view: its path, its name, the key behind `g`, the routes that feed it, and what makes it and returns what ends it.
const VIEWS = [
  { path: "", name: "Overview", key: "o", needs: ["/v1/live"], make: overview },
  { path: "network", name: "Instances and ports", key: "n", needs: ["/v1/live", "/v1/routes", "/v1/neighbours"], make: network },
  { path: "smfs", name: "SMFs", key: "m", needs: ["/v1/associations", "/v1/n4"], make: smfs },
  { path: "sessions", name: "Sessions", key: "s", needs: ["/v1/sessions"], make: sessions },
  { path: "session", needs: ["/v1/sessions/{seid}"], make: session, under: "sessions" },
  { path: "trace", name: "Trace", key: "t", needs: ["/v1/trace"], make: trace },
  { path: "drops", name: "Drops", key: "d", needs: ["/v1/live"], make: drops },
  { path: "queues", name: "Queues", key: "q", needs: ["/v1/queues"], make: queues },
  { path: "configuration", name: "Configuration", key: "c", needs: ["/v1/config", "/v1/config/diff"], make: configuration },
  { path: "alarms", name: "Alarms", key: "a", needs: ["/v1/alarms"], make: alarms },
];

const known = { routes: new Map(), role: "viewer", name: "" };

// Whether the daemon has these routes and the caller's role is enough for them.
function serves(view) {
  return view.needs.every((path) => known.routes.has(path) && RANK[known.role] >= RANK[known.routes.get(path)]);
}

async function learn() {
  const [document, caller] = await Promise.all([api.get("/openapi.json"), api.get("/v1/caller")]);
  known.routes = new Map(
    Object.entries(document.paths).map(([path, by]) => [path, (by.get ?? Object.values(by)[0])["x-role"] ?? "admin"]),
  );
  Object.assign(known, { role: caller.role, name: caller.name });
}

let end = null;

function show() {
  const [, path = "", ...rest] = location.hash.split(/[/?]/);
  const view = VIEWS.find((view) => view.path === path) ?? VIEWS[0];
  end?.();
  const place = h("div");
  put(by("main"), place);
  const name = view.name ?? VIEWS.find((other) => other.path === view.under).name;
  document.title = `${name} · Sluice`;
  for (const link of by("nav").children) {
    if (link.dataset.path === (view.under ?? view.path)) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  if (serves(view)) {
    if (view.name) place.append(h("h1", { class: "hidden" }, view.name));
    end = view.make(place, { rest, fields: new URLSearchParams(location.hash.split("?")[1] ?? ""), known });
    return;
  }
  const lacks = view.needs.find((path) => !known.routes.has(path) || RANK[known.role] < RANK[known.routes.get(path)]);
  const why = known.routes.has(lacks)
    ? `${name} needs the role ${known.routes.get(lacks)}; you are ${known.role}.`
    : `This daemon does not have ${lacks}.`;
  place.append(h("h1", {}, name), notice("warn", why));
  end = null;
}

function navigation() {
  const links = VIEWS.filter((view) => view.name && serves(view)).map((view) =>
    h("a", { href: `#/${view.path}`, "data-path": view.path, title: `g ${view.key}` }, view.name),
  );
  put(by("nav"), links);
}

const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  const chosen = localStorage.getItem("sluice.theme") ?? "auto";
  const shown = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
  document.documentElement.dataset.theme = shown;
  say(by("theme"), `theme: ${chosen}`);
  by("theme").title = "auto, light, dark";
  redraw();
}

function nextTheme() {
  const chosen = localStorage.getItem("sluice.theme") ?? "auto";
  localStorage.setItem("sluice.theme", THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length]);
  theme();
}

function dialog(title, ...content) {
  const box = by("ask");
  put(box, h("h2", { id: "ask-title" }, title), ...content);
  if (!box.open) box.showModal();
  return box;
}

// Asks for a token until there is one.
function askForToken() {
  return new Promise((done) => {
    const wrong = api.hasToken();
    api.forget();
    const field = h("input", { type: "password", required: true, autocomplete: "off", spellcheck: "false", "aria-describedby": "ask-why" });
    const form = h(
      "form",
      {
        method: "dialog",
        onsubmit: () => {
          api.keep(field.value.trim());
          done();
        },
      },
      h("p", { id: "ask-why", class: wrong ? "notice bad" : "dim" },
        wrong ? "The token was refused: it is wrong, has expired or was revoked." : "This listener asks for a token. It is kept in this tab until you close it. On the host: sluice token create --role viewer"),
      h("label", {}, "Token", field),
      h("div", { class: "form" }, h("button", { class: "main" }, "Continue")),
    );
    const box = dialog("Token", form);
    box.oncancel = (event) => event.preventDefault();
    field.focus();
  });
}

function help() {
  const on = h("input", { type: "checkbox", onchange: () => localStorage.setItem("sluice.keys", on.checked ? "on" : "off") });
  on.checked = keysOn();
  const keys = VIEWS.filter((view) => view.key && serves(view)).map((view) => [[h("kbd", {}, "g"), " ", h("kbd", {}, view.key)], view.name]);
  const rows = [...keys, [h("kbd", {}, "/"), "search sessions"], [h("kbd", {}, "?"), "this"]];
  const box = dialog(
    "Keys",
    h("dl", { class: "facts" }, rows.map(([key, what]) => [h("dt", {}, key), h("dd", {}, what)])),
    h("p", {}, h("label", { class: "beside" }, on, "Keys are on")),
    h("p", { class: "dim" }, `You are ${known.name} with the role ${known.role}. The whole API is in `, h("code", {}, "/openapi.json"), "."),
    h("div", { class: "form" }, h("button", { type: "button", class: "main", onclick: () => box.close() }, "Close")),
  );
  box.oncancel = null;
}

const keysOn = () => localStorage.getItem("sluice.keys") !== "off";
let behindG = 0;

function key(event) {
  const writes = event.target.closest("input, textarea, select, dialog");
  if (writes || event.ctrlKey || event.metaKey || event.altKey || !keysOn()) return;
  const view = performance.now() - behindG < 1500 && VIEWS.find((view) => view.key === event.key && serves(view));
  behindG = event.key === "g" ? performance.now() : 0;
  if (view) location.hash = `#/${view.path}`;
  else if (event.key === "/") {
    location.hash = "#/sessions";
    setTimeout(() => document.querySelector("main input")?.focus(), 50);
  } else if (event.key === "?") help();
  else return;
  event.preventDefault();
}

const dots = { live: ["good", "live"], silent: ["warn", "silent"], lost: ["bad", "no connection"] };

function frame() {
  live.watch((how, why) => {
    const [kind, word] = dots[how];
    const shown = by("stream");
    mark(shown, kind, word);
    shown.title = why ?? "an update a second";
  });
  live.listen(({ node, control }) => {
    say(by("node"), node.node);
    by("node").title = `Node ID ${node.node}, N4 at ${node.addresses.join(", ")}`;
    const since = `up ${duration(node.uptime_s)}`;
    const words = [`Sluice ${node.version}`, since, `N4 at ${node.addresses.join(", ")}`, `${known.name} · ${known.role}`];
    if (!control) words.push("control has not answered in time: its figures are older");
    const foot = by("foot");
    while (foot.childElementCount < words.length) foot.append(h("span"));
    while (foot.childElementCount > words.length) foot.lastChild.remove();
    words.forEach((word, place) => say(foot.children[place], word));
  });
}

async function main() {
  theme();
  dark.addEventListener("change", theme);
  by("theme").addEventListener("click", nextTheme);
  by("help").addEventListener("click", help);
  document.addEventListener("keydown", key);
  api.takeToken();
  api.askBy(askForToken);
  for (let wait = 1000; ; wait = Math.min(wait * 2, 15000)) {
    try {
      await learn();
      break;
    } catch (error) {
      put(by("main"), notice("bad", `The daemon does not answer: ${error.message}. It is asked again.`));
      await new Promise((done) => setTimeout(done, wait));
    }
  }
  navigation();
  frame();
  live.start();
  addEventListener("hashchange", () => {
    api.takeToken();
    show();
    by("main").focus({ preventScroll: true });
    scrollTo(0, 0);
  });
  show();
}

main();
