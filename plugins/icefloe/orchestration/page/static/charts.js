// Small pictures of numbers. Each says in words what it shows.

import { h, svg } from "./dom.js";

const WIDTH = 132;
const HEIGHT = 30;

// One bar per batch, the newest at the right; a bar's title says which and how much.
export function sparkline(points, format, what) {
  if (!points.length) return h("span", { class: "quiet" }, "–");
  const most = Math.max(...points.map((point) => point.value ?? 0), 1);
  const step = Math.min(10, WIDTH / points.length);
  const bars = points.map((point, index) => {
    const tall = point.value ? Math.max(2, (point.value / most) * (HEIGHT - 2)) : 1;
    const attributes = {
      x: (index * step + step * 0.12).toFixed(2), width: (step * 0.76).toFixed(2),
      y: (HEIGHT - tall).toFixed(2), height: tall.toFixed(2), rx: Math.min(1.5, step / 5),
      class: point.value ? "bar" : "bar none",
    };
    return svg("rect", attributes, svg("title", {}, `batch ${point.batch}: ${format(point.value)}`));
  });
  const last = points[points.length - 1];
  const label = `${what} of the last ${points.length} batches; batch ${last.batch}: ${format(last.value)}`;
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "spark", role: "img", "aria-label": label }, bars);
}

// Bars of one stacked whole, for seconds by phase.
export function stack(parts, format, what) {
  const known = parts.filter((part) => part.value > 0);
  const whole = known.reduce((sum, part) => sum + part.value, 0);
  if (!whole) return null;
  const text = known.map((part) => `${part.name} ${format(part.value)}`).join(", ");
  return h(
    "div",
    { class: "stack", role: "img", "aria-label": `${what}: ${text}` },
    known.map((part) =>
      h("span", { class: `part ${part.name}`, style: `flex-grow:${part.value}`, title: `${part.name}: ${format(part.value)}` }),
    ),
  );
}

// How many tasks fall between two values; bins of equal width from 0 to the largest.
export function histogram(values, format, what) {
  const known = values.filter((value) => Number.isFinite(value)).sort((one, other) => one - other);
  if (!known.length) return null;
  const most = known[known.length - 1];
  const bins = Math.min(24, Math.max(6, Math.ceil(Math.sqrt(known.length)) * 2));
  const counts = new Array(bins).fill(0);
  for (const value of known) counts[Math.min(bins - 1, most ? Math.floor((value / most) * bins) : 0)] += 1;
  const high = Math.max(...counts);
  const middle = known[Math.floor((known.length - 1) / 2)];
  const bars = counts.map((amount, index) => {
    const tall = amount ? Math.max(2, (amount / high) * 56) : 0;
    const from = format((most * index) / bins);
    const to = format((most * (index + 1)) / bins);
    const title = svg("title", {}, `${amount} between ${from} and ${to}`);
    return svg("rect", { x: index * (240 / bins) + 0.5, width: 240 / bins - 1, y: 58 - tall, height: tall, rx: 1, class: "bar" }, title);
  });
  const at = most ? (middle / most) * 240 : 0;
  const line = svg("line", { x1: at, x2: at, y1: 0, y2: 58, class: "median" }, svg("title", {}, `median ${format(middle)}`));
  const base = svg("line", { x1: 0, x2: 240, y1: 58.5, y2: 58.5, class: "axis" });
  const skew = middle > 0 ? most / middle : null;
  const label = `${what}: ${known.length}, median ${format(middle)}, most ${format(most)}`;
  return h(
    "figure",
    { class: "histogram" },
    h("figcaption", {}, h("b", {}, what), skew ? skewNote(skew, known.length) : null),
    svg("svg", { viewBox: "0 0 240 60", preserveAspectRatio: "none", role: "img", "aria-label": label }, base, bars, line),
    h("div", { class: "ends" }, h("span", {}, "0"), h("span", {}, `median ${format(middle)}`), h("span", {}, format(most))),
  );
}

function skewNote(skew, amount) {
  if (amount < 2) return null;
  const text = `largest is ${skew.toFixed(1)} × the median`;
  return h("span", { class: skew >= 4 ? "note warn" : "note" }, skew >= 4 ? `skew: ${text}` : text);
}
