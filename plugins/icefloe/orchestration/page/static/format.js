// Numbers and times as people read them. What is not known is a dash.

const DASH = "–";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const SPANS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export const isKnown = (value) => value !== null && value !== undefined;

export function count(value) {
  return isKnown(value) ? value.toLocaleString("en-US") : DASH;
}

export function short(value) {
  if (!isKnown(value)) return DASH;
  if (value < 10000) return count(value);
  return new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

export function bytes(value) {
  if (!isKnown(value)) return DASH;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

// Two units at most: 3 d 4 h, 12 min 5 s, 0.4 s.
export function seconds(value) {
  if (!isKnown(value)) return DASH;
  if (value < 10) return `${value.toFixed(value < 1 ? 2 : 1).replace(/\.0$/, "")} s`;
  const parts = [];
  let rest = Math.round(value);
  for (const [name, size] of SPANS) {
    const amount = Math.floor(rest / size);
    rest -= amount * size;
    if (amount > 0) parts.push(`${amount} ${name}`);
    if (parts.length === 2 || (parts.length === 1 && amount === 0)) break;
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

export function percent(part, whole) {
  return isKnown(part) && whole ? `${((100 * part) / whole).toFixed(part === whole ? 0 : 1)} %` : DASH;
}

// The server's clock counts; the browser's may be wrong.
let offset = 0;
export function setNow(iso) {
  offset = Date.parse(iso) - Date.now();
}

export const now = () => Date.now() + offset;

export function secondsSince(iso) {
  return isKnown(iso) ? Math.max(0, (now() - Date.parse(iso)) / 1000) : null;
}

export function ago(iso) {
  const past = secondsSince(iso);
  if (past === null) return DASH;
  return past < 5 ? "just now" : `${seconds(coarse(past))} ago`;
}

export function until(iso) {
  if (!isKnown(iso)) return DASH;
  const left = (Date.parse(iso) - now()) / 1000;
  return left > 0 ? `in ${seconds(coarse(left))}` : `${seconds(coarse(-left))} ago`;
}

export function time(iso) {
  if (!isKnown(iso)) return DASH;
  return new Date(iso).toLocaleString("sv-SE", { timeZoneName: "short" });
}

// One unit is enough for what is far away.
function coarse(value) {
  for (const [, size] of SPANS) if (value >= size) return Math.floor(value / size) * size;
  return value;
}
