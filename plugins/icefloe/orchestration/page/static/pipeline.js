// One pipeline: how it is, its batches, its backfills.

import { airflowLink, dagPath, pageOf, runPath } from "./airflow.js";
import { stack } from "./charts.js";
import { h } from "./dom.js";
import { ago, bytes, count, isKnown, percent, seconds, short, time } from "./format.js";
import { asOf, badge, batchLink, keptFor, saying } from "./overview.js";

const HEADS = [
  "Batch", "Route", "Steps", "Rows read", "Carried over", "Inserted", "Deleted", "Updated",
  "Read", "Decoded", "Shuffled", "Written", "Time", "Proof",
];
const TABLES = ["iceberg", "postgres", "spark"];
// What a delivery counts: the rows of a table, or documents.
export const counted = (delivery) => (TABLES.includes(delivery.sink) ? "rows" : "documents");
export const capital = (text) => text[0].toUpperCase() + text.slice(1);
export const ROUTES = { insert_only: "insert only", shuffle: "shuffle", nothing_to_do: "nothing to do" };

export function pipelineView(found) {
  const row = found.pipeline;
  if (found.is_backfill) return [crumbs(row.dag_id), heading(row.dag_id, null), backfills(found)];
  return [
    crumbs(row.pipeline),
    heading(row.pipeline, row.state),
    trouble(row),
    facts(row),
    row.table_sentence && found.batches.length ? h("p", { class: "said" }, `The present state of the table is not known here: ${row.table_sentence}`) : null,
    batches(found, row),
    backfills(found),
  ];
}

export function crumbs(...names) {
  if (document.documentElement.dataset.tab === "yes") return null;
  const last = names[names.length - 1];
  const links = names.slice(0, -1).map((each) => [h("a", { href: each.href }, each.text), " / "]);
  return h("nav", { class: "crumbs", "aria-label": "Where you are" }, h("a", { href: "./" }, "icefloe"), " / ", links, h("span", { "aria-current": "page" }, last));
}

function heading(name, state) {
  return h("header", { class: "headline" }, h("h1", {}, name), state ? badge(state) : null);
}

function facts(row) {
  const cards = [
    ["Table", row.table ?? "–", row.branch && row.branch !== "main" ? `branch ${row.branch}` : null],
    ["Behind", behind(row.status), [row.status.waiting_since ? h("span", { class: "under" }, `the oldest waits for ${ago(row.status.waiting_since).replace(" ago", "")}`) : null, asOf(row)]],
    ["Delivered up to", row.status.cursor_snapshot_id ?? "–", row.status.cursor_timestamp ? `commit of ${time(row.status.cursor_timestamp)}` : null],
    ["History kept", row.status.next_expiry ? keptFor(row) : row.status.cursor_snapshot_id ? "no limit" : "–", keptBy(row.status)],
    ["Sink", [row.sink?.type ?? "–", row.sink?.mode].filter(Boolean).join(", "), row.sink ? sinkLines(row.sink) : null],
    ["Owner", row.status.owner ?? "nobody in particular", row.status.open_run ? `batch ${row.status.open_batch} opened by ${row.status.open_run}` : null],
    ["Schedule", row.schedule ?? "by hand", row.is_paused ? "paused" : null],
  ];
  return h("dl", { class: "cards" }, cards.map(([name, value, below]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, typeof below === "string" ? h("span", { class: "under" }, below) : below))));
}

function sinkLines({ path, visible_at: at, lag_seconds: lag }) {
  const lines = [path || null, at ? `last visible ${ago(at)}${isKnown(lag) ? `, ${seconds(lag)} after the commit` : ""}` : null];
  return lines.filter(Boolean).map((line) => h("span", { class: "under" }, line));
}

function keptBy({ next_expiry: expiry, pins }) {
  if (pins) return `${count(pins.snapshots)} ${pins.snapshots === 1 ? "snapshot is" : "snapshots are"} pinned${pins.oldest_at ? `, the oldest of ${time(pins.oldest_at)}` : ""}`;
  return expiry ? "then the next batch's start may expire" : null;
}

function behind({ lag_snapshots: snapshots, lag_rows: rows }) {
  if (!isKnown(snapshots)) return "–";
  if (snapshots === 0) return "nothing";
  return `${count(snapshots)} ${snapshots === 1 ? "snapshot" : "snapshots"}${isKnown(rows) ? `, ${short(rows)} rows` : ""}`;
}

function trouble(row) {
  const said = saying(row);
  return said.length ? h("section", { class: "notice", "data-state": row.needs_somebody ? "failed" : row.state, role: row.needs_somebody ? "alert" : null }, said) : null;
}

function batches(found, row) {
  const actions = h(
    "p",
    { class: "actions" },
    row.table && !row.group ? h("a", { class: "button", href: pageOf(row, "&backfill=1") }, "Backfill a range …") : null,
    airflowLink(dagPath(row.dag_id), "DAG in Airflow", { class: "button" }),
  );
  const title = h("div", { class: "between" }, h("h2", {}, "Batches"), actions);
  if (!found.batches.length) return h("section", {}, title, noBatch(row));
  const newest = h("a", { class: "button", href: pageOf(row) }, "Newest");
  const older = isKnown(found.next_before) ? h("a", { class: "button", href: pageOf(row, `&before=${found.next_before}`) }, "Older batches") : null;
  const isFirst = !new URLSearchParams(location.search).has("before");
  return h("section", {}, title, batchTable(found.batches, row), h("p", { class: "actions" }, isFirst ? null : newest, older));
}

const FIRST = {
  full: "The first batch delivers every row that the table has then, each as INSERT; later ones deliver what changed.",
  from_now: "The first batch delivers what is committed after that; rows that the table has already are left out.",
  from_earliest: "The first batch begins with the oldest commit that the table still knows.",
};

// What is missing for the first one, in the order in which it is missing.
function noBatch(row) {
  const next = [];
  if (row.is_paused) next.push(["Switch the DAG on: a new one is paused."]);
  if (row.table_sentence) next.push([`See to the table: ${row.table_sentence}.`]);
  if (row.needs_somebody && row.sentence) next.push(["Do what the sentence above says, then clear the failed task or start a run."]);
  if (!next.length) next.push(["Nothing: it comes when the DAG has run and the table has a snapshot."]);
  return h(
    "div",
    { class: "none" },
    h("p", {}, h("b", {}, "There is no batch yet. "), "What is left to do:"),
    h("ol", { class: "todo" }, next.map((each) => h("li", {}, each))),
    h("p", { class: "quiet" }, FIRST[row.initial_load] ?? null),
  );
}

// Only batches that go on from their files to a sink have documents.
function batchTable(entries, row) {
  const delivers = entries.find((entry) => entry.delivery)?.delivery;
  const heads = delivers ? [...HEADS.slice(0, 12), capital(counted(delivers)), "Visible after", ...HEADS.slice(12)] : HEADS;
  return h(
    "div",
    { class: "framed", tabindex: 0, role: "region", "aria-label": "Batches" },
    h("table", { class: "batches" }, h("thead", {}, h("tr", {}, heads.map((text, index) => h("th", { scope: "col", class: index > 1 && index < heads.length - 1 ? "number" : null }, text)))), h("tbody", {}, entries.map((entry) => batchRow(entry, row, { delivers, width: heads.length })))),
  );
}

function batchRow(entry, row, { delivers, width }) {
  const head = h("th", { scope: "row" }, batchLink(row, entry.batch.batch_number), h("span", { class: "under", title: time(entry.committed_at ?? entry.opened_at) }, entry.committed_at ? ago(entry.committed_at) : null));
  if (entry.state === "unknown") return h("tr", {}, head, h("td", { colspan: width - 1, class: "quiet" }, entry.sentence ?? "its report is not there"));
  const changed = entry.batch.counts ?? {};
  const cells = [
    count(entry.batch.steps), short(entry.rows_read), [short(entry.carried_over_rows), entry.carried_over_rows ? under(carried(entry)) : null],
    short(changed.insert), short(changed.delete), short(changed.update_after),
    bytes(entry.bytes_read), bytes(entry.decoded_bytes), bytes(entry.shuffled_bytes), bytes(entry.written_bytes),
    ...(delivers ? atSink(entry.delivery) : []),
  ];
  return h(
    "tr",
    { class: entry.state },
    head,
    h("td", {}, entry.state === "committed" ? null : [badge(entry.state), " "], entry.route ? h("span", { class: `route ${entry.route}` }, ROUTES[entry.route] ?? entry.route) : null),
    cells.map((cell) => h("td", { class: "number" }, cell)),
    h("td", { class: "number" }, duration(entry), stack(entry.phases.map((each) => ({ name: each.name, value: each.seconds })), seconds, "seconds by task")),
    h("td", {}, proof(entry)),
  );
}

function atSink(delivery) {
  if (!delivery) return [short(null), seconds(null)];
  const letters = delivery.dead_letters ? h("span", { class: "under warn" }, `${short(delivery.dead_letters)} dead letters`) : null;
  return [[short(delivery.documents), letters], seconds(delivery.lag_seconds)];
}

export const carried = (entry) => percent(Math.min(entry.carried_over_rows, entry.rows_read), entry.rows_read);
const under = (text) => (text === "–" ? null : h("span", { class: "under" }, text));

export function duration(entry) {
  const summed = entry.phases.reduce((sum, each) => sum + each.seconds, 0);
  return seconds(entry.seconds ?? (summed || null));
}

export function proof(entry) {
  const { audit, warnings } = entry;
  if (!audit) return h("span", { class: "quiet" }, "–");
  const warned = warnings.length ? h("span", { class: "warn", title: warnings.join("\n") }, `${warnings.length} ${warnings.length === 1 ? "warning" : "warnings"}`) : null;
  if (audit.summaries_differ) return [h("span", { class: "warn" }, "summaries differ"), warned];
  const title = "What was read and what was delivered have equal counts and equal sums of row hashes.";
  return [h("span", { class: "good", title }, "✓ equal"), warned ? [" ", warned] : null];
}

function backfills(found) {
  if (!found.backfills.length) return null;
  return h(
    "section",
    {},
    h("h2", {}, "Backfills"),
    h(
      "div",
      { class: "framed", tabindex: 0, role: "region", "aria-label": "Backfills" },
      h(
        "table",
        { class: "batches" },
        h("thead", {}, h("tr", {}, ["Started", "State", "Range", "Rows", "Run"].map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, found.backfills.map(backfillRow)),
      ),
    ),
  );
}

function backfillRow(entry) {
  const range = Object.entries(entry.range).map(([name, value]) => h("span", { class: "bound" }, `${name.replaceAll("_", " ")} `, h("code", {}, value)));
  const rows = entry.counts ? Object.values(entry.counts).reduce((sum, each) => sum + each, 0) : null;
  const url = pageOf(entry, `&run_id=${encodeURIComponent(entry.run_id)}`);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("a", { href: url }, entry.started_at ? ago(entry.started_at) : "queued")),
    h("td", {}, badge(entry.state), entry.sentence ? h("p", { class: "sentence under" }, entry.sentence) : null),
    h("td", {}, range.length ? range : h("span", { class: "quiet" }, "–"), entry.was_delivered_before ? h("span", { class: "under" }, "was delivered before") : null),
    h("td", {}, short(rows)),
    h("td", {}, airflowLink(runPath(entry.dag_id, entry.run_id), "in Airflow")),
  );
}

