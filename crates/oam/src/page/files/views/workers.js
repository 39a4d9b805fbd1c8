// A worker's time: how much of it has packets, and in which stages.

import { bar } from "../chart.js";
import { h } from "../dom.js";
import { percent, plain } from "../format.js";

export const STAGES = ["rx", "parse", "select_worker", "lookup", "slow", "apply_rules", "tx"];
const WORDS = {
  rx: "receive",
  parse: "parse",
  select_worker: "select worker",
  lookup: "flow lookup",
  slow: "slow path",
  apply_rules: "apply rules",
  tx: "send",
};

const stageWord = (stage) => WORDS[stage] ?? stage;

export const busyText = (row) => plain(percent(row.busy));
export const stageText = (row) => row.stages.map((one) => `${stageWord(one.stage)} ${plain(percent(one.share))}`).join(", ");

// Draws the stages' shares of all time into a cell.
export function busyBar(cell, row) {
  cell.bar ??= bar();
  if (!cell.firstChild) cell.append(cell.bar.element);
  cell.bar.show(row.stages, `busy ${busyText(row)}: ${stageText(row)}`);
  cell.title = stageText(row);
}

export function stageLegend() {
  const one = (stage, place) => h("span", {}, h("span", { class: `swatch part-${place}` }), h("span", {}, stageWord(stage)));
  return h("p", { class: "legend", "aria-hidden": "true" }, STAGES.map(one));
}
