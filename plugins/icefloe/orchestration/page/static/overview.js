// Every pipeline, those in trouble first.

import { airflowLink, dagPath, logPath, pageOf } from "./airflow.js";
import { sparkline } from "./charts.js";
import { h } from "./dom.js";
import { ago, bytes, count, isKnown, now, seconds, secondsSince, short, time, until } from "./format.js";

const SOON_SECONDS = 2 * 86400;
const HEADS = ["Pipeline", "State", "Lag", "Last batch", "Open batch", "History kept", "Rows per batch", "Bytes per batch"];
const OLD_SECONDS = 120;

export function overviewView(found) {
  if (!found.pipelines.length) return emptyOverview();
  return [headline(found), filterRow(found), table(found.pipelines)];
}

const EXAMPLE = `version: 1
catalog: lakehouse          # an Airflow connection of type iceberg
table: nyc.flights
storage: s3://lake/icefloe
sink: {type: files, path: s3://lake/changes/flights, format: parquet}
`;

function emptyOverview() {
  return h(
    "section",
    { class: "empty wide" },
    h("h1", {}, "No pipelines yet"),
    h(
      "ol",
      { class: "todo" },
      h("li", {}, "Name a table and a sink in a file such as ", h("code", {}, "dags/pipelines/flights.yaml"), ":", h("pre", { tabindex: 0 }, h("code", {}, EXAMPLE))),
      h("li", {}, "See whether it can work: ", h("code", {}, "icefloe validate dags/pipelines/flights.yaml")),
      h("li", {}, "Wait until Airflow has read it, which may take 5 minutes; ", h("code", {}, "airflow dags reserialize"), " hurries it. It shows here, and as a DAG of its name."),
      h("li", {}, "Switch that DAG on: a new one is paused."),
    ),
    h("p", { class: "quiet" }, "Pipelines whose DAGs you may not see are left out here."),
    h("p", {}, airflowLink("dags?tags=icefloe", "DAGs tagged icefloe", { class: "button" })),
  );
}

function headline({ pipelines, is_looking: isLooking }) {
  const trouble = pipelines.filter((each) => each.needs_somebody);
  const watch = pipelines.filter((each) => !each.needs_somebody && (each.state === "retrying" || expiresSoon(each)));
  const behind = pipelines.filter((each) => each.state === "behind");
  let [text, tone] = ["All is well", "good"];
  if (behind.length) [text, tone] = [`${amount(behind.length)} behind`, "calm"];
  if (watch.length) [text, tone] = [`${amount(watch.length)} to watch`, "watch"];
  if (trouble.length) [text, tone] = [`${amount(trouble.length)} ${trouble.length === 1 ? "needs" : "need"} you`, "bad"];
  return h(
    "header",
    { class: "headline" },
    h("h1", { class: tone }, text),
    h("p", { class: "quiet" }, `${amount(pipelines.length)} in all${isLooking ? ", looking at their tables …" : ""}`),
  );
}

const amount = (number) => `${number} ${number === 1 ? "pipeline" : "pipelines"}`;

function filterRow({ counts }) {
  const chips = Object.entries(counts).filter(([, number]) => number > 0);
  return h("ul", { class: "chips", "aria-label": "Pipelines by state" }, chips.map(([state, number]) => h("li", {}, badge(state, `${number} ${state}`))));
}

export function badge(state, text = state) {
  return h("span", { class: "badge", "data-state": state }, text);
}

function table(pipelines) {
  return h(
    "table",
    { class: "pipelines", role: "table", "aria-label": "Pipelines" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, HEADS.map((text) => h("th", { scope: "col", role: "columnheader" }, text)))),
    pipelines.map(group),
  );
}

function group(row) {
  const cells = [stateCell, lag, lastBatch, openBatch, expiry, rows, read].map((cell, index) => fact(HEADS[index + 1], cell(row)));
  const head = h(
    "th",
    { scope: "row", role: "rowheader" },
    h("a", { href: pageOf(row), "data-key": `pipeline ${pageOf(row)}` }, row.pipeline),
    row.group ? h("span", { class: "under" }, `group ${row.group} of ${row.dag_id}`) : null,
    h("span", { class: "under" }, row.table ?? row.file ?? "–"),
    row.sink ? h("span", { class: "under place", title: row.sink.path || null }, `→ ${sinkInWords(row.sink)}`) : null,
  );
  const said = saying(row);
  return h(
    "tbody",
    { role: "rowgroup", "data-state": row.state, "data-needs": row.needs_somebody ? "yes" : null },
    h("tr", { class: "facts", role: "row" }, head, cells),
    said.length ? h("tr", { class: "saying", role: "row" }, h("td", { colspan: HEADS.length, role: "cell" }, said)) : null,
  );
}

// A sink whose place a connection names is known by its type until a batch was delivered.
export const sinkInWords = ({ type, mode, path }) => [type, mode, path?.replace(new RegExp(`^${type}(ql)?://`), "")].filter(Boolean).join(" ");

// A narrow window shows a pipeline as a card; the roles say that it is a row of a table all the same. It leaves out what
// is not known.
function fact(label, content) {
  return h("td", { role: "cell", "data-label": label, class: content?.textContent === "–" ? "unknown" : null }, content);
}

// Why it is as it is, and where to go.
export function saying(row) {
  const said = [];
  if (row.sentence) {
    said.push(h("p", { class: "sentence" }, row.task_id && row.state !== "running" ? h("b", {}, `${row.task_id}: `) : null, withoutTask(row)));
  }
  if (row.state === "behind" && row.next_run_at && !row.sentence) said.push(h("p", { class: "sentence quiet" }, nextRun(row)));
  if (row.checkpoint_sentence) said.push(h("p", { class: "sentence" }, h("b", {}, "checkpoint: "), row.checkpoint_sentence));
  if (expiresSoon(row)) {
    const text = `Snapshot ${row.status.next_expiry.snapshot_id}, where the next batch begins, may expire ${expiresAlready(row) ? "at any time" : until(row.status.next_expiry.at)}: the changes since then would be lost.`;
    said.push(h("p", { class: "sentence" }, h("b", {}, "expiry: "), text));
  }
  if (row.sink?.dead_letters) said.push(h("p", { class: "sentence" }, h("b", {}, "dead letters: "), deadLetters(row.sink)));
  for (const way of row.ways_out ?? []) said.push(h("p", { class: "sentence quiet" }, `${way.text} `, h("code", { class: "command" }, way.command)));
  const links = said.length && row.state !== "paused" ? actions(row) : [];
  return links.length ? [...said, h("p", { class: "actions" }, links)] : said;
}

function deadLetters({ dead_letters: letters, batches_with_dead_letters: batches }) {
  const which = batches.length === 1 ? `batch ${batches[0]}` : `${batches.length} of the last batches, the latest ${batches[batches.length - 1]},`;
  return `The sink refused ${count(letters)} ${letters === 1 ? "document" : "documents"} of ${which} for good. The folder of dead letters has them, each with its reason.`;
}

const nextRun = (row) => (secondsSince(row.next_run_at) > 0 ? "The next run is due now." : `The next run is due ${until(row.next_run_at)}.`);

function withoutTask(row) {
  const prefix = `${row.task_id}: `;
  return row.task_id && row.sentence.startsWith(prefix) ? row.sentence.slice(prefix.length) : row.sentence;
}

function actions(row) {
  const links = [];
  if (row.run_id && row.task_id) {
    links.push(airflowLink(logPath(row, row.run_id, row.task_id, row.try_number), `Log of ${row.task_id}`, { class: "button", "data-key": `log ${pageOf(row)}` }));
  }
  links.push(airflowLink(dagPath(row.dag_id), "DAG", { class: "button", "data-key": `dag ${pageOf(row)}` }));
  return links;
}

function stateCell(row) {
  const since = secondsSince(row.since);
  const busy = row.state === "running" || row.state === "retrying";
  return [badge(row.state), busy && row.task_id ? h("span", { class: "under" }, `${row.task_id}${isKnown(since) ? `, ${seconds(since)}` : ""}`) : null];
}

function lag(row) {
  const { lag_snapshots: behind, waiting_since: since } = row.status;
  if (!isKnown(behind)) return row.table_sentence ? asOf(row) : h("span", { class: "quiet" }, "–");
  if (behind === 0) return [h("span", {}, "none"), asOf(row)];
  const waited = secondsSince(since);
  const snapshots = `${count(behind)} ${behind === 1 ? "snapshot" : "snapshots"}`;
  if (!isKnown(waited)) return [h("span", {}, snapshots), asOf(row)];
  return [h("span", {}, seconds(waited)), h("span", { class: "under" }, snapshots), asOf(row)];
}

// How old a number is goes without saying while it is fresh.
export function asOf(row) {
  const age = secondsSince(row.status.updated_at);
  const text = isKnown(age) ? `as of ${ago(row.status.updated_at)}` : null;
  if (row.table_sentence) return h("span", { class: "under warn", title: row.table_sentence }, [text, "table not seen"].filter(Boolean).join(", "));
  return age > OLD_SECONDS ? h("span", { class: "under", title: time(row.status.updated_at) }, text) : null;
}

function lastBatch(row) {
  const { last_batch: number, last_committed_at: at } = row.status;
  if (!isKnown(number)) return h("span", { class: "quiet" }, "–");
  return [batchLink(row, number), h("span", { class: "under", title: time(at) }, ago(at))];
}

function openBatch(row) {
  const { open_batch: number, open_since: at } = row.status;
  if (!isKnown(number)) return h("span", { class: "quiet" }, "–");
  return [batchLink(row, number), h("span", { class: "under", title: time(at) }, `since ${seconds(secondsSince(at))}`)];
}

export function batchLink(row, number, text = `#${number}`) {
  const href = pageOf(row, `&batch=${number}`);
  return h("a", { href, "data-key": `batch ${href}` }, text);
}

function expiry(row) {
  if (!row.status.next_expiry) return h("span", { class: "quiet" }, row.status.cursor_snapshot_id ? "no limit" : "–");
  const title = `snapshot ${row.status.next_expiry.snapshot_id}, ${time(row.status.next_expiry.at)}`;
  return h("span", { class: expiresSoon(row) ? "warn" : null, title }, keptFor(row));
}

const expiresAlready = (row) => Date.parse(row.status.next_expiry.at) <= now();

export const keptFor = (row) => (expiresAlready(row) ? "overdue" : until(row.status.next_expiry.at).replace("in ", "for "));

// Only a pipeline that is behind loses something when the snapshot that it begins with expires.
export function expiresSoon(row) {
  if (!row.status.next_expiry || !row.status.lag_snapshots) return false;
  return (Date.parse(row.status.next_expiry.at) - now()) / 1000 < SOON_SECONDS;
}

const rows = ({ status }) => sparkline((status.recent ?? []).map((each) => ({ batch: each.batch, value: each.rows })), short, "changes");
const read = ({ status }) => sparkline((status.recent ?? []).map((each) => ({ batch: each.batch, value: each.bytes })), bytes, "bytes read");
