// What the daemon says once a second (`/v1/live`), and said in the last minutes, for all views.

import { lines } from "./api.js";

// Seconds that are kept.
const KEPT = 600;
// A stream is given up while the page is not to be seen for as long.
const HIDDEN_MS = 60_000;
// Without a word for as long the daemon is not there.
const SILENCE_MS = 4_000;

export const history = { time: [], of: [] };
export let now = null;
const listeners = new Set();
const watchers = new Set();
let stop = null;
let heard = 0;

// Calls `listener` with each object, and at once with the last. Returns what ends that.
export function listen(listener) {
  listeners.add(listener);
  if (now) listener(now);
  return () => listeners.delete(listener);
}

// Calls `watcher` with how the stream is: live, silent or lost, and why.
export function watch(watcher) {
  watchers.add(watcher);
}

const tell = (how, why) => watchers.forEach((watcher) => watcher(how, why));

function take(live) {
  heard = performance.now();
  now = live;
  history.time.push(live.time_ms / 1000);
  history.of.push(live);
  if (history.time.length > KEPT) {
    history.time.shift();
    history.of.shift();
  }
  tell("live");
  listeners.forEach((listener) => listener(live));
}

// A line of history: the seconds, and what `value` says of each.
export const series = (...values) => [history.time, ...values.map((value) => history.of.map(value))];

async function read(signal) {
  for await (const line of lines("/v1/live", { signal })) {
    if (line.startsWith("data: ")) take(JSON.parse(line.slice(6)));
  }
}

async function follow(signal) {
  for (let wait = 500; !signal.aborted; wait = Math.min(wait * 2, 8000)) {
    try {
      const before = heard;
      await read(signal);
      if (heard > before) wait = 500;
    } catch (error) {
      if (signal.aborted) return;
      tell("lost", error.message);
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

function begin() {
  if (stop) return;
  stop = new AbortController();
  follow(stop.signal);
}

export function start() {
  begin();
  let hidden = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.visibilityState === "visible") return begin();
    hidden = setTimeout(() => {
      stop?.abort();
      stop = null;
    }, HIDDEN_MS);
  });
  setInterval(() => {
    if (stop && heard && performance.now() - heard > SILENCE_MS) tell("silent", "nothing for some seconds");
  }, 1000);
}
