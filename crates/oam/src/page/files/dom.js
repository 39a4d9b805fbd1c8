// Elements made without a parser: text is text, whatever it has in it.

import { grouped } from "./format.js";

// An element. Attributes that are functions are listeners.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  return fill(element, attributes, children);
}

// The same for SVG.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Puts these children in place of what an element has.
export function put(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
}

// A value with its unit, as `format.js` makes them, written into an element.
export function measure(element, { value, unit }) {
  if (element.childElementCount !== 1) put(element, document.createTextNode(""), h("span", { class: "unit" }));
  const [number, name] = [element.firstChild, element.lastChild];
  if (number.nodeValue !== value) number.nodeValue = value;
  say(name, unit);
  element.classList.toggle("zero", value === "0");
}

export function section(title, ...beside) {
  return h("div", { class: "section" }, h("h2", {}, title), ...beside);
}

// A mark (good, warn, bad, dim) and a word.
export function state(kind, word) {
  return h("span", { class: `state ${kind}` }, word);
}

// The same in a cell, unless it is there.
export function mark(cell, kind, word) {
  if (cell.textContent !== word) put(cell, state(kind, word));
}

// A table whose rows stay where they are while their cells change. A column has a `head`, and says of a row its
// `text`, its `count` or its `measure` (a value with a unit), by a function or the name of a field, or draws into a cell
// (`draw`); one of text alone is a pair. Numbers are aligned right. The first column names the row.
export function table({ label, columns: asked, key, empty, open }) {
  const columns = asked.map((column) => (Array.isArray(column) ? { head: column[0], text: column[1] } : column));
  const isNumber = (column) => column.number || column.count || column.measure;
  const cells = (column) => ({ class: [isNumber(column) && "number", column.class].filter(Boolean).join(" ") || null });
  const said = (how, of) => (typeof how === "string" ? of[how] : how(of));
  const head = columns.map((column) =>
    h("th", { ...cells(column), scope: "col", title: column.title }, column.head),
  );
  const body = h("tbody");
  const grid = h("table", {}, h("caption", { class: "hidden" }, label), h("thead", {}, h("tr", {}, head)), body);
  const none = h("p", { class: "none" });
  const element = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, grid, none);
  const known = new Map();

  function make() {
    const row = h("tr", {}, columns.map((column) => h(column === columns[0] ? "th" : "td", { ...cells(column), scope: column === columns[0] ? "row" : null })));
    if (open) {
      row.classList.add("opens");
      row.addEventListener("click", (event) => {
        if (!event.target.closest("a, button") && !String(getSelection())) open(row.of);
      });
    }
    return row;
  }

  function update(rows) {
    const left = new Set(known.keys());
    let before = null;
    for (const of of rows) {
      const name = String(said(key, of));
      left.delete(name);
      const row = known.get(name) ?? make();
      known.set(name, row);
      row.of = of;
      columns.forEach((column, place) => {
        const cell = row.children[place];
        if (column.draw) column.draw(cell, of);
        else if (column.measure) measure(cell, column.measure(of));
        else {
          const text = column.count ? grouped(said(column.count, of)) : said(column.text, of) ?? "–";
          say(cell, String(text));
          if (isNumber(column)) cell.classList.toggle("zero", cell.textContent === "0");
        }
      });
      const place = before ? before.nextSibling : body.firstChild;
      if (place !== row) body.insertBefore(row, place);
      before = row;
    }
    for (const name of left) {
      known.get(name).remove();
      known.delete(name);
    }
    grid.hidden = rows.length === 0;
    none.hidden = rows.length > 0;
    say(none, rows.length ? "" : empty ?? "None.");
  }

  return { element, update };
}

export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, shown.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

// One of several: buttons of which one is pressed.
export function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => press(value) }, text),
  );
  function press(value) {
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(options[place][0] === value)));
    choose(value);
  }
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

// Words that stand out: "warn" or "bad".
export const notice = (kind, words) => h("p", { class: `notice ${kind}` }, words);
export const fault = (place, error) => put(place, notice("bad", error.message));
