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
      h("span", { class: `part ${part.name}`, style: `flex-grow:${part.value / whole}`, title: `${part.name}: ${format(part.value)}` }),
    ),
  );
}

const SKEWED = 4;

// How values of tasks are spread: the middle half as a bar, the median, the smallest and the largest.
export function spread({ minimum, p25, median, p75, maximum, largest }, format, what, unit) {
  const at = (value) => (maximum ? (value / maximum) * 236 + 2 : 2);
  const lines = [
    svg("line", { x1: at(minimum), x2: at(maximum), y1: 20, y2: 20, class: "whisker" }),
    [minimum, maximum].map((value) => svg("line", { x1: at(value), x2: at(value), y1: 13, y2: 27, class: "whisker" })),
    svg("rect", { x: at(p25), width: Math.max(2, at(p75) - at(p25)), y: 8, height: 24, rx: 2, class: "middle" }),
    svg("line", { x1: at(median), x2: at(median), y1: 4, y2: 36, class: "median" }),
  ];
  const label = `${what}: smallest ${format(minimum)}, median ${format(median)}, largest ${format(maximum)}`;
  const skew = median > 0 ? maximum / median : null;
  return h(
    "figure",
    { class: "spread" },
    h("figcaption", {}, h("b", {}, what), skew !== null && largest.length > 1 ? skewNote(skew) : null),
    svg("svg", { viewBox: "0 0 240 40", preserveAspectRatio: "none", role: "img", "aria-label": label }, lines),
    h("div", { class: "ends" }, h("span", {}, format(minimum)), h("span", {}, `median ${format(median)}`), h("span", {}, format(maximum))),
    h("p", { class: "under" }, "largest: ", largest.map((each, index) => `${index ? ", " : ""}${unit} ${each.number} ${format(each.value)}`)),
  );
}

function skewNote(skew) {
  const text = `largest is ${skew.toFixed(1)} × the median`;
  return h("span", { class: skew >= SKEWED ? "note warn" : "note" }, skew >= SKEWED ? `skew: ${text}` : text);
}
