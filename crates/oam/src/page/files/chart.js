// Lines over time: uPlot in the page's colours, and small ones without axes.

import { svg } from "./dom.js";

// Seconds that a chart shows, at least and at most.
const LEAST = 60;
const MOST = 300;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const all = new Set();

// Colours have changed: all charts are drawn again.
export function redraw() {
  all.forEach((chart) => chart.redraw(false));
}

// A chart in `place`. `format` makes a value with a unit of a number, `over` is called with the place in the data that
// the pointer is at, or null.
export function chart(place, { series, format, height = 180, sync, over, label }) {
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", label);
  const axis = {
    stroke: () => colour("dim"),
    grid: { stroke: () => colour("line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  const made = new uPlot(
    {
      width: Math.max(place.clientWidth, 200),
      height,
      padding: [8, 4, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 5 }, sync: sync ? { key: sync } : undefined, drag: { x: false, y: false } },
      hooks: { setCursor: over ? [(chart) => over(chart.cursor.idx ?? null)] : [] },
      scales: { x: { time: true }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
      axes: [
        { ...axis, size: 22, space: 70, values: (_, at) => at.map((second) => clock.format(second * 1000).replace(/:00$/, "")) },
        { ...axis, size: 62, space: 28, values: (_, at) => at.map((value) => (value === 0 ? "0" : text(format(value)))) },
      ],
      series: [
        {},
        ...series.map(({ color, dash }) => ({
          stroke: () => colour(color),
          fill: dash ? undefined : () => `${colour(color)}1c`,
          width: 1.5,
          dash,
          points: { show: false },
        })),
      ],
    },
    [[], ...series.map(() => [])],
    place,
  );
  const sized = new ResizeObserver(() => {
    if (place.clientWidth > 0 && place.clientWidth !== made.width) made.setSize({ width: place.clientWidth, height });
  });
  sized.observe(place);
  all.add(made);
  return {
    // Shows `data`, of which the last is now; with `most` as the greatest value of the axis at least.
    show(data, most = 0) {
      const end = data[0].at(-1) ?? Date.now() / 1000;
      made.batch(() => {
        made.setData(data, false);
        const span = Math.min(MOST, Math.max(LEAST, end - (data[0][0] ?? end)));
        made.setScale("x", { min: end - span, max: end });
        let highest = most;
        data.slice(1).forEach((values) => values.slice(-MOST).forEach((value) => value > highest && (highest = value)));
        made.setScale("y", { min: 0, max: highest > 0 ? highest * 1.08 : 1 });
      });
    },
    end() {
      sized.disconnect();
      all.delete(made);
      made.destroy();
    },
  };
}

const text = ({ value, unit }) => `${value.replace(/\.0+$/, "").replace(/(\.\d*?)0+$/, "$1")} ${unit}`;

// The time of a place in the data, as a clock shows it.
export const at = (second) => clock.format(second * 1000);

// A small line without axes, of the last two minutes at most.
export function spark(color) {
  const line = svg("polyline", { fill: "none", class: `stroke-${color}`, "stroke-width": "1.2", "vector-effect": "non-scaling-stroke" });
  const element = svg("svg", { class: "spark", viewBox: "0 0 100 20", preserveAspectRatio: "none", "aria-hidden": "true" }, line);
  return {
    element,
    show(values) {
      const last = values.slice(-120);
      const most = Math.max(...last, 1e-9);
      const step = 100 / Math.max(last.length - 1, 20);
      const begin = 100 - step * (last.length - 1);
      const points = last.map((value, place) => `${(begin + step * place).toFixed(1)},${(19 - (18 * value) / most).toFixed(1)}`);
      line.setAttribute("points", points.join(" "));
    },
  };
}

// Parts of a whole, side by side. `parts` have a `name`, a `share` from 0 to 1.
export function bar() {
  const element = svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img" });
  return {
    element,
    show(parts, label) {
      element.setAttribute("aria-label", label);
      while (element.childElementCount < parts.length) {
        element.append(svg("rect", { y: 0, height: 10, class: `part-${element.childElementCount}` }));
      }
      let left = 0;
      parts.forEach(({ share }, place) => {
        const width = Math.max(0, Math.min(100 - left, share * 100));
        const rect = element.children[place];
        rect.setAttribute("x", left.toFixed(2));
        rect.setAttribute("width", width.toFixed(2));
        left += width;
      });
    },
  };
}
