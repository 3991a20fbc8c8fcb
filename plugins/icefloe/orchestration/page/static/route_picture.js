// The two routes of a batch as a picture, with the figures of this batch on them.

import { svg } from "./dom.js";
import { bytes, count, isKnown, percent, seconds, short } from "./format.js";
import { counted } from "./pipeline.js";

const WIDE = {
  width: 1124, height: 236,
  at: { plan: [6, 84], insert_only: [514, 6], shuffle_write: [248, 162], coalesce: [514, 162], shuffle_read: [700, 162], commit: [966, 84] },
};
const NARROW = {
  width: 340, height: 640,
  at: { plan: [94, 6], insert_only: [184, 146], shuffle_write: [4, 146], coalesce: [4, 286], shuffle_read: [4, 426], commit: [94, 566] },
};
const BOX = { width: 152, height: 68 };
// With checks, and with a sink that batches are delivered to, there is one more box before commit.
const LAST = ["check", "deliver"];

function places(last, isNarrow) {
  const base = isNarrow ? NARROW : WIDE;
  const [right, down] = isNarrow ? [0, 140] : [184, 0];
  const [x, y] = base.at.commit;
  const added = [...last, "commit"].map((name, place) => [name, [x + place * right, y + place * down]]);
  return { width: base.width + last.length * right, height: base.height + last.length * down, at: { ...base.at, ...Object.fromEntries(added) } };
}

// `routes` has the tasks of each route, as the library's flow.py lists them.
export function routePicture(batch, tasks, routes, { isNarrow, checks }) {
  const last = LAST.filter((name) => Object.values(routes).some((names) => names.includes(name)));
  const plan = places(last, isNarrow);
  const figures = figuresOf(batch, last[0] ?? "commit", checks);
  const shown = Object.values(routes).map((names) => ["plan", ...names, "commit"]).filter((names) => names.every((name) => name in plan.at));
  const used = (name) => name === "plan" || name === "commit" || (routes[batch.route] ?? []).includes(name);
  const edges = shown
    .flatMap((names) => names.slice(1).map((to, place) => [names[place], to]))
    .map(([from, to]) => edge(plan.at[from], plan.at[to], used(from) && used(to) && batch.route !== "nothing_to_do", figures[`${from} ${to}`], isNarrow));
  const boxes = Object.entries(plan.at).map(([name, place]) => box(name, place, used(name), tasks[name], figures[name]));
  return svg(
    "svg",
    { viewBox: `0 0 ${plan.width} ${plan.height}`, class: `route-picture ${isNarrow ? "is-narrow" : ""}`, style: isNarrow ? null : `max-width: ${plan.width}px`, role: "img", "aria-label": inWords(batch, routes) },
    svg("defs", {}, marker("arrow", "on"), marker("arrow-off", "off")),
    edges,
    boxes,
  );
}

function figuresOf(batch, first, checks) {
  const { counts, steps } = batch.batch;
  const changes = counts ? Object.values(counts).reduce((sum, each) => sum + each, 0) : null;
  const read = isKnown(batch.bytes_read) ? [`${bytes(batch.bytes_read)}`, `${short(batch.rows_read)} rows`] : null;
  const written = isKnown(batch.written_bytes) ? [bytes(batch.written_bytes), `${short(changes)} changes`] : null;
  const shuffled = isKnown(batch.shuffled_bytes) ? [bytes(batch.shuffled_bytes), `${short(batch.shuffled_rows)} rows`] : null;
  const carried = isKnown(batch.carried_over_rows) && batch.carried_over_rows ? `${percent(Math.min(batch.carried_over_rows, batch.rows_read), batch.rows_read)} carried over` : null;
  return {
    plan: isKnown(steps) ? `${count(steps)} ${steps === 1 ? "step" : "steps"}, ${count(batch.map_tasks)} map ${batch.map_tasks === 1 ? "task" : "tasks"}` : null,
    shuffle_write: carried ?? (isKnown(batch.map_tasks) ? `${count(batch.map_tasks)} map ${batch.map_tasks === 1 ? "task" : "tasks"}` : null),
    coalesce: isKnown(batch.ranges) ? `${count(batch.num_partitions)} → ${count(batch.ranges)} ${batch.ranges === 1 ? "range" : "ranges"}` : isKnown(batch.num_partitions) ? `${count(batch.num_partitions)} partitions` : null,
    shuffle_read: isKnown(batch.ranges) ? `${count(batch.ranges)} ${batch.ranges === 1 ? "range" : "ranges"}` : null,
    insert_only: isKnown(batch.map_tasks) ? `${count(batch.map_tasks)} map ${batch.map_tasks === 1 ? "task" : "tasks"}` : null,
    check: checks.length ? checksInWords(checks) : null,
    deliver: batch.delivery ? `${short(batch.delivery.documents)} ${counted(batch.delivery).slice(0, batch.delivery.documents === 1 ? -1 : undefined)}` : null,
    commit: batch.audit ? "sums equal ✓" : null,
    "plan insert_only": read,
    "plan shuffle_write": read,
    "shuffle_write coalesce": shuffled,
    [`insert_only ${first}`]: written,
    [`shuffle_read ${first}`]: written,
  };
}

function checksInWords(checks) {
  const wrong = checks.filter((each) => each.outcome !== "passed");
  return wrong.length ? `${count(wrong.length)} of ${count(checks.length)} not passed` : `${count(checks.length)} passed`;
}

function box(name, [x, y], isUsed, task, figure) {
  const state = task?.state ?? null;
  const title = [name.replace("_", " "), state, isKnown(task?.seconds) ? seconds(task.seconds) : null].filter(Boolean).join(", ");
  const tries = task && task.try_number > 1 ? `try ${task.try_number}` : null;
  const right = [tries, isKnown(task?.seconds) ? seconds(task.seconds) : state === "running" ? "running" : null].filter(Boolean).join(", ");
  return svg(
    "g",
    { transform: `translate(${x} ${y})`, class: isUsed ? "box" : "box off", "data-state": isUsed ? state : null },
    svg("title", {}, title),
    svg("rect", { ...BOX, rx: 9 }),
    svg("text", { x: 12, y: 22, class: "name" }, name.replace("_", " ")),
    isUsed ? svg("text", { x: 12, y: 42, class: "figure" }, figure ?? "") : null,
    isUsed ? svg("text", { x: 12, y: 58, class: "small" }, right) : null,
  );
}

function edge([fromX, fromY], [toX, toY], isUsed, figure, isNarrow) {
  const start = isNarrow ? [fromX + BOX.width / 2, fromY + BOX.height] : [fromX + BOX.width, fromY + BOX.height / 2];
  const stop = isNarrow ? [toX + BOX.width / 2, toY - 5] : [toX - 5, toY + BOX.height / 2];
  const bend = isNarrow ? (stop[1] - start[1]) / 2 : Math.min(60, (stop[0] - start[0]) / 2);
  const path = isNarrow
    ? `M${start} C${start[0]} ${start[1] + bend} ${stop[0]} ${stop[1] - bend} ${stop}`
    : `M${start} C${start[0] + bend} ${start[1]} ${stop[0] - bend} ${stop[1]} ${stop}`;
  const middle = [(start[0] + stop[0]) / 2, (start[1] + stop[1]) / 2];
  return svg(
    "g",
    { class: isUsed ? "edge" : "edge off" },
    svg("path", { d: path, "marker-end": `url(#${isUsed ? "arrow" : "arrow-off"})` }),
    isUsed && figure ? label(middle, figure) : null,
  );
}

// A label is on the line, on the colour of the ground, so that it can be read.
function label([x, y], lines) {
  const height = lines.length * 15;
  const top = y - height / 2;
  const width = Math.max(...lines.map((line) => line.length)) * 6.1 + 6;
  return svg(
    "g",
    {},
    svg("rect", { x: x - width / 2, y: top - 2, width, height: height + 4, class: "ground" }),
    lines.map((line, index) => svg("text", { x, y: top + 11 + index * 15, "text-anchor": "middle", class: index ? "small" : "figure" }, line)),
  );
}

function marker(id, kind) {
  return svg("marker", { id, class: kind, viewBox: "0 0 8 8", refX: 5, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0 8 4 0 8z" }));
}

function inWords(batch, routes) {
  if (batch.route === "nothing_to_do") return "The batch changed no row: plan, then commit.";
  const route = ["plan", ...(routes[batch.route] ?? []), "commit"].map((name) => name.replace("_", " ")).join(", ");
  return `Route: ${route}. ${bytes(batch.bytes_read)} and ${short(batch.rows_read)} rows read, ${bytes(batch.shuffled_bytes)} shuffled, ${bytes(batch.written_bytes)} written.`;
}
