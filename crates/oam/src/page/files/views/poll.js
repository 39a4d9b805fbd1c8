// Asks the API now and then, while a view is there.

import { fault, h, put } from "../dom.js";

// Calls `ask` at once and every `seconds` after its answer. Faults are shown in `place`. Returns what ends it.
export function poll(seconds, place, ask) {
  const stop = new AbortController();
  async function run() {
    while (!stop.signal.aborted) {
      try {
        await ask(stop.signal);
        put(place);
      } catch (error) {
        if (stop.signal.aborted) return;
        fault(place, error);
      }
      await new Promise((done) => setTimeout(done, seconds * 1000));
    }
  }
  run();
  return () => stop.abort();
}

// A place for faults, which screen readers announce.
export const faults = () => h("div", { role: "alert" });
