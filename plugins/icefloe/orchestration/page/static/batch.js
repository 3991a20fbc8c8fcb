// One batch, or one run: its route with figures, its tasks, where the skew is, what went wrong.

import { airflowLink, logPath, outsideLink, pageOf, runPath } from "./airflow.js";
import { spread, stack } from "./charts.js";
import { h } from "./dom.js";
import { ago, bytes, count, isKnown, seconds, short, time } from "./format.js";
import { badge, sinkInWords } from "./overview.js";
import { ROUTES, capital, carried, counted, crumbs, duration } from "./pipeline.js";
import { routePicture } from "./route_picture.js";

const NARROW = 760;
const SPREADS = [
  ["map_task_bytes", "Map tasks, bytes read", bytes, "task"], ["map_task_seconds", "Map tasks, time", seconds, "task"],
  ["range_bytes", "Reduce ranges, bytes fetched", bytes, "range"], ["range_seconds", "Reduce ranges, time", seconds, "range"],
];

export function batchView(found) {
  const { batch, run } = found;
  const checks = (found.details.phases ?? []).flatMap((each) => each.checks ?? []);
  const tasks = Object.fromEntries((run?.tasks ?? []).map((task) => [task.task_id, task]));
  const place = { href: pageOf(found), text: found.pipeline };
  return [
    crumbs(place, batch ? `batch ${batch.batch.batch_number}` : (run?.run_id ?? "")),
    heading(found, batch),
    notice(found),
    batch ? picture(batch, tasks, found.routes, checks) : waiting(found),
    batch ? figures(batch, found.details) : null,
    checks.length ? checked(checks) : null,
    batch?.delivery ? delivered(batch.delivery) : null,
    spreads(batch, found.details),
    batch?.warnings?.length ? warnings(batch.warnings) : null,
    run ? taskTable(found, run) : h("p", { class: "quiet" }, "Airflow no longer has the run that made this batch."),
    earlier(found),
  ];
}

function heading(found, batch) {
  const state = batch ? (found.trouble ? found.trouble.state : batch.state) : found.run?.state;
  const route = batch?.route ? h("span", { class: `route ${batch.route}` }, ROUTES[batch.route] ?? batch.route) : null;
  const name = found.is_backfill ? `Backfill of ${found.pipeline}` : batch ? `Batch ${batch.batch.batch_number} of ${found.pipeline}` : `A run of ${found.pipeline}`;
  const when = batch?.committed_at ? `${batch.state} ${ago(batch.committed_at)}, ${time(batch.committed_at)}` : batch?.opened_at ? `open since ${ago(batch.opened_at).replace(" ago", "")}` : null;
  return [
    h("header", { class: "headline" }, h("h1", {}, name), state ? badge(state) : null, route),
    h("p", { class: "quiet" }, [found.table, when].filter(Boolean).join(" · ")),
  ];
}

function notice(found) {
  const { trouble, run } = found;
  if (trouble) {
    const log = run && trouble.task_id ? airflowLink(logPath(found, run.run_id, trouble.task_id, trouble.try_number), `Log of ${trouble.task_id}`, { class: "button" }) : null;
    const prefix = trouble.task_id ? `${trouble.task_id}: ` : "";
    const sentence = trouble.sentence?.startsWith(prefix) ? trouble.sentence.slice(prefix.length) : trouble.sentence;
    return h("section", { class: "notice", "data-state": trouble.state, role: "alert" }, h("p", { class: "sentence" }, prefix ? h("b", {}, prefix) : null, sentence), log ? h("p", { class: "actions" }, log) : null);
  }
  return found.ended_since ? h("section", { class: "notice" }, h("p", { class: "sentence" }, found.ended_since)) : null;
}

function waiting(found) {
  if (found.run?.was_delivered_before) return h("p", { class: "said" }, "This range was delivered before: there was nothing to do.");
  const sensor = found.run?.tasks.find((task) => task.task_id === "wait_for_snapshot");
  if (sensor && ["deferred", "running", "scheduled", "queued"].includes(sensor.state)) return h("p", { class: "said" }, "This run waits for a commit to the table. It has no batch yet.");
  if (found.run?.state === "success") return h("p", { class: "said" }, "Nothing new was committed to the table: this run had no batch.");
  return h("p", { class: "said" }, "This run has opened no batch.");
}

function picture(batch, tasks, routes, checks) {
  const frame = h("div", { class: "picture" });
  const draw = () => frame.replaceChildren(routePicture(batch, tasks, routes, { isNarrow: document.documentElement.clientWidth < NARROW, checks }));
  new ResizeObserver(draw).observe(frame);
  draw();
  return h("section", {}, frame);
}

function figures(batch, details) {
  const asked = (details.phases ?? []).map((each) => each.requests).filter(Boolean);
  const requests = asked.length ? asked.reduce((sum, each) => sum + sent(each), 0) : null;
  const changed = batch.batch.counts ?? {};
  const cards = [
    ["Inserted", short(changed.insert)], ["Deleted", short(changed.delete)], ["Updated", short(changed.update_after)],
    ["Rows read", short(batch.rows_read)],
    ["Carried over", short(batch.carried_over_rows), batch.carried_over_rows ? carried(batch) : null],
    ["Read", bytes(batch.bytes_read)], isKnown(batch.decoded_bytes) ? ["Decoded", bytes(batch.decoded_bytes)] : null,
    ["Shuffled", bytes(batch.shuffled_bytes)], ["Written", bytes(batch.written_bytes)],
    isKnown(requests) ? ["Store requests", short(requests)] : null,
    ["Time", duration(batch), isKnown(batch.map_seconds) ? `tasks: ${seconds(batch.map_seconds + (batch.reduce_seconds ?? 0))}` : null],
  ];
  const facts = [
    ["After snapshot", batch.batch.after_snapshot_id ?? "the beginning"], ["Up to snapshot", batch.batch.up_to_snapshot_id ?? "–"],
    "changed_partitions" in batch.batch ? ["Changed partitions", partitionsInWords(batch.batch.changed_partitions)] : null,
    ["Proof", proofInWords(batch)], ["Sum of row hashes", batch.batch.hash_sum ?? "–"],
  ];
  const parts = batch.phases.map((each) => ({ name: each.name, value: each.seconds }));
  return h(
    "section",
    {},
    smallCards(cards),
    parts.length ? h("div", { class: "phases" }, h("h3", {}, "Seconds by task"), stack(parts, seconds, "seconds by task"), legend(parts)) : null,
    h("dl", { class: "facts-list" }, facts.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
  );
}

const PARTITIONS = 10;

function partitionsInWords(paths) {
  if (!paths) return "any";
  const shown = paths.slice(0, PARTITIONS).map((path) => [" ", h("code", {}, path)]);
  return [count(paths.length), shown, paths.length > PARTITIONS ? ` and ${count(paths.length - PARTITIONS)} more` : null];
}

const smallCards = (cards) => h("dl", { class: "cards small" }, cards.filter(Boolean).map(([name, value, under]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, under && under !== "–" ? h("span", { class: "under" }, under) : null))));

const CHECK_STATES = { passed: "success", failed: "failed", warned: "retrying" };

function checked(checks) {
  const rows = checks.map(({ name, outcome, rows: wrong, samples, error }) => [
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td", {}, badge(CHECK_STATES[outcome], outcome)),
      h("td", { class: "number" }, error ? "–" : count(wrong)),
    ),
    error || samples.length ? h("tr", { class: "below" }, h("td", { class: "sentence", colspan: 3 }, error ?? wrongRows(name, samples))) : null,
  ]);
  const heads = ["Check", "Result", "Wrong rows"].map((text, index) => h("th", { scope: "col", class: index === 2 ? "number" : null }, text));
  return h("section", {}, h("h2", {}, "Checks"), h("div", { class: "framed", tabindex: 0, role: "region", "aria-label": "Checks" }, h("table", { class: "batches" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows))));
}

function wrongRows(name, samples) {
  const rows = samples.map((row) => h("p", {}, Object.entries(row).map(([column, value]) => `${column}: ${value ?? "null"}`).join(", ")));
  return h("details", { "data-key": `wrong rows of ${name}` }, h("summary", {}, samples.length === 1 ? "One wrong row" : `The first ${samples.length}`), rows);
}

// Zeros are worth their place only where zero is the good news.
function delivered(delivery) {
  const cards = [
    [capital(counted(delivery)), short(delivery.documents), delivery.repeated ? `${short(delivery.repeated)} were there already` : null],
    delivery.bytes ? ["Sent", bytes(delivery.bytes), delivery.retries ? `${short(delivery.retries)} requests again` : null] : null,
    ["Visible after", seconds(delivery.lag_seconds), isKnown(delivery.lag_seconds) ? "from the last commit" : null],
    counted(delivery) === "documents" ? ["Dead letters", short(delivery.dead_letters)] : null,
    delivery.refused ? ["Refused for now", short(delivery.refused), "and taken later"] : null,
    delivery.superseded ? ["Superseded", short(delivery.superseded), "by later batches"] : null,
  ];
  const facts = [["Delivered to", sinkInWords({ type: delivery.sink, path: delivery.url })], ["Visible at", time(delivery.visible_at)], ...Object.entries(delivery.details ?? {}).map(([name, text]) => [capital(name), text])];
  return h(
    "section",
    {},
    h("h2", {}, "Delivery"),
    smallCards(cards),
    h("dl", { class: "facts-list" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
  );
}

const KINDS = ["get", "get_ranges", "put", "create", "head", "delete", "list"];
const sent = (requests) => KINDS.reduce((sum, kind) => sum + requests[kind], 0);

const legend = (parts) => h("ul", { class: "legend" }, parts.map((part) => h("li", {}, h("i", { class: `part ${part.name}` }), `${part.name.replace("_", " ")} ${seconds(part.value)}`)));

function proofInWords({ audit, state }) {
  if (!audit) return state === "open" ? "made when the batch is committed" : "none: nothing was delivered";
  const parts = ["the rows read equal the rows delivered"];
  if (audit.summaries_equal) parts.push(`the summaries of ${count(audit.summaries_equal)} ${audit.summaries_equal === 1 ? "step agrees" : "steps agree"}`.replace("summaries of 1 step agrees", "summary of 1 step agrees"));
  if (audit.summaries_differ) parts.push(`the summaries of ${count(audit.summaries_differ)} differ`);
  if (audit.summaries_silent) parts.push(`the summaries of ${count(audit.summaries_silent)} are incomplete`);
  return parts.join("; ");
}

function spreads(batch, details) {
  const shown = SPREADS.filter(([key]) => details[key]?.largest.length > 1).map(([key, title, format, unit]) => spread(details[key], format, title, unit));
  const again = (details.phases ?? []).map(metInWords).filter(Boolean).map((text) => h("p", { class: "said" }, text));
  const redone = batch?.map_outputs_redone ? h("p", { class: "said" }, `${count(batch.map_outputs_redone)} map outputs were found damaged or gone, and made again.`) : null;
  if (!shown.length && !redone && !again.length) return null;
  return h("section", {}, h("h2", {}, "Where is the skew?"), h("div", { class: "spreads" }, shown), again, redone);
}

// Only what did not go at once is worth a sentence.
function metInWords({ phase, attempts, attempts_lost: lost, tasks_failed: failed, tasks_adopted: adopted, tasks_found: found, requests, nodes_lost: nodes }) {
  const parts = [
    attempts > 1 ? `was begun ${attempts} times` : null, lost ? `${count(lost)} of them left no end` : null,
    requests?.failed ? `${count(requests.failed)} requests to the store were not answered` : null, failed ? `${count(failed)} tasks failed` : null,
    ...(nodes ?? []).map((node) => `node ${node.address} lost ${count(node.map_outputs)} map outputs (${node.reason})`),
    adopted ? `${count(adopted)} adopted the result of another attempt` : null, found ? `${count(found)} were done before` : null,
  ].filter(Boolean);
  return parts.length ? `${phase.replace("_", " ")}: ${parts.join(", ")}.` : null;
}

function warnings(all) {
  return h("section", { class: "notice", "data-state": "retrying" }, h("h2", {}, all.length === 1 ? "Warning" : "Warnings"), h("ul", {}, all.map((text) => h("li", { class: "sentence" }, text))));
}

function taskTable(found, run) {
  const hasSpark = Object.keys(found.spark).length > 0;
  const heads = ["Task", "State", "Tries", "Time", "Log", hasSpark ? "Spark" : null].filter(Boolean);
  const rows = run.tasks.filter((task) => task.state !== "skipped").map((task) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, task.task_id),
      h("td", {}, task.state ? badge(task.state) : h("span", { class: "quiet" }, "not yet"), task.sentence && task.state !== "success" ? h("p", { class: "sentence under" }, task.sentence) : null),
      h("td", {}, task.try_number > 0 ? `${task.try_number} of ${Math.max(task.tries, task.try_number)}` : "–"),
      h("td", {}, seconds(task.seconds)),
      h("td", {}, task.state ? airflowLink(logPath(found, run.run_id, task.task_id, task.try_number), "log", { "aria-label": `log of ${task.task_id}`, "data-key": `log ${task.task_id}` }) : null),
      hasSpark ? h("td", {}, spark(found.spark[task.task_id], task)) : null,
    ),
  );
  return h(
    "section",
    {},
    h("div", { class: "between" }, h("h2", {}, "Tasks"), h("p", { class: "actions" }, airflowLink(runPath(found.dag_id, run.run_id), "Run in Airflow", { class: "button" }))),
    h("div", { class: "framed", tabindex: 0, role: "region", "aria-label": "Tasks" }, h("table", { class: "batches" }, h("thead", {}, h("tr", {}, heads.map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, rows))),
  );
}

// Spark's own page while it runs; afterwards the history server's, else the id that the cluster knows it by.
function spark(application, task) {
  if (!application) return null;
  const { application_id: id, url, is_live: isLive } = application;
  if (!url) return h("span", { class: "quiet" }, id);
  const label = `${isLive ? "Spark UI" : "history server"} of ${task.task_id}, application ${id}`;
  return outsideLink(url, isLive ? "Spark UI" : "history", { title: id, "aria-label": label, "data-key": `spark ${task.task_id}` });
}

function earlier({ dag_id: dag, earlier_runs: runs }) {
  if (!runs.length) return null;
  const rows = runs.map((run) => h("li", {}, badge(run.state), " ", airflowLink(runPath(dag, run.run_id), run.run_id), " ", h("span", { class: "quiet" }, ago(run.started_at))));
  return h("section", {}, h("h2", {}, "Earlier runs of this batch"), h("ul", { class: "plain" }, rows));
}
