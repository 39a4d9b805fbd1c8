// Numbers as people read them: three digits and a unit, or grouped in thousands.

const GROUPED = new Intl.NumberFormat("en-GB");
const PREFIXES = ["", "k", "M", "G", "T"];

export const grouped = (number) => GROUPED.format(number);

// Three digits that count: 4.82, 48.2, 482.
export function short(number) {
  const size = Math.abs(number);
  if (size === 0) return "0";
  if (size < 0.01) return "<0.01";
  if (size < 9.995) return number.toFixed(2);
  if (size < 99.95) return number.toFixed(1);
  return number.toFixed(0);
}

// A rate with a decimal prefix before its unit.
export function scaled(number, unit) {
  let place = 0;
  let size = Math.abs(number);
  while (size >= 999.5 && place < PREFIXES.length - 1) {
    size /= 1000;
    place += 1;
  }
  const value = place === 0 && Number.isInteger(number) ? String(number) : short(number / 1000 ** place);
  return { value, unit: PREFIXES[place] + unit };
}

export const bits = (octetsPerSecond) => scaled(octetsPerSecond * 8, "bit/s");
export const packets = (perSecond) => scaled(Math.round(perSecond * 10) / 10, "p/s");
export const times = (perSecond) => scaled(Math.round(perSecond * 10) / 10, "/s");
export const bitRate = (bitsPerSecond) => scaled(bitsPerSecond, "bit/s");
export const octets = (number) => scaled(number, "B");
export const percent = (share) => ({ value: share > 0 && share < 0.0005 ? "<0.1" : (share * 100).toFixed(share < 0.0995 ? 1 : 0), unit: "%" });
export const plain = ({ value, unit }) => `${value}\u202f${unit}`;

// How long: the two largest parts.
export function duration(seconds) {
  const whole = Math.floor(seconds);
  const parts = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([number]) => number > 0);
  const shown = first < 0 ? [[0, "s"]] : parts.slice(first, first + 2).filter(([number], place) => number || !place);
  return shown.map(([number, unit]) => `${number}\u202f${unit}`).join(" ");
}

// A date of RFC 3339 in UTC.
export const date = (text) => text.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");
