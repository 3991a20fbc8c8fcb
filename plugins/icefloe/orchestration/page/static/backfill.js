// A range of the table's history, handed to the DAG that delivers ranges: the same fields, checked by the same DAG.

import { PageError, airflowLink, dagPath, runPath, triggerDag } from "./airflow.js";
import { h } from "./dom.js";
import { ago, bytes, count, isKnown, short, time } from "./format.js";
import { crumbs } from "./pipeline.js";

export function backfillView(found) {
  const { pipeline: row, snapshots } = found;
  const place = { href: `?dag_id=${encodeURIComponent(row.dag_id)}`, text: row.pipeline };
  const top = [crumbs(place, "backfill"), h("header", { class: "headline" }, h("h1", {}, `Backfill ${row.pipeline}`))];
  const what = h("p", { class: "said" }, `Delivers the changes of a range of ${row.table} once more, to a place of its own below the sink. The pipeline's own batches are not touched and go on meanwhile.`);
  if (found.sentence) return [...top, what, h("section", { class: "notice", "data-state": "failed", role: "alert" }, h("p", { class: "sentence" }, found.sentence))];
  if (!snapshots.length) return [...top, what, h("p", { class: "quiet" }, "The table has no snapshot yet.")];
  return [...top, what, new RangePicker(found).element];
}

class RangePicker {
  constructor({ snapshots, older_snapshots: older, reaches_beginning: isWhole, backfill_dag_id: dag }) {
    this.snapshots = snapshots;
    // Snapshots that are there and not listed; and whether the oldest of all has no parent.
    this.older = older;
    this.isWhole = isWhole;
    this.dag = dag;
    // Rows are newest first: the range is from `after` (exclusive, further down) to `upTo` (inclusive).
    this.upTo = 0;
    this.after = Math.min(1, snapshots.length);
    this.summary = h("div", { class: "picked", "aria-live": "polite" });
    this.answer = h("div", { "aria-live": "polite" });
    this.body = h("tbody");
    this.element = h("section", { class: "picker" }, h("div", { class: "side" }, this.summary, this.answer), this.table());
    this.draw();
  }

  table() {
    const heads = ["After (exclusive)", "Up to (inclusive)", "Committed", "Operation", "Added", "Deleted", "Snapshot"];
    return h("div", { class: "framed", tabindex: 0, role: "region", "aria-label": "Snapshots, newest first" }, h("table", { class: "batches" }, h("thead", {}, h("tr", {}, heads.map((text) => h("th", { scope: "col" }, text)))), this.body));
  }

  pick(which, index) {
    this[which] = index;
    if (which === "upTo" && this.after <= index) this.after = index + 1;
    if (which === "after" && this.upTo >= index) this.upTo = index - 1;
    this.draw();
    this.element.querySelector(`[data-key="${which} ${index}"]`)?.focus({ preventScroll: true });
  }

  draw() {
    const rows = this.snapshots.map((snapshot, index) => this.row(snapshot, index));
    this.body.replaceChildren(...rows, this.beginning());
    this.summary.replaceChildren(...this.said());
  }

  radio(which, index, label, isPossible) {
    return h("input", { type: "radio", name: which, checked: this[which] === index, disabled: !isPossible, "aria-label": label, "data-key": `${which} ${index}`, onchange: () => this.pick(which, index) });
  }

  row(snapshot, index) {
    const isIn = index >= this.upTo && index < this.after;
    return h(
      "tr",
      { class: isIn ? "in" : null },
      h("td", {}, this.radio("after", index, `after snapshot ${snapshot.snapshot_id}`, index > 0)),
      h("td", {}, this.radio("upTo", index, `up to snapshot ${snapshot.snapshot_id}`, this.isWhole || index + 1 < this.snapshots.length)),
      h("td", { title: time(snapshot.at) }, ago(snapshot.at), h("span", { class: "under" }, time(snapshot.at))),
      h("td", {}, snapshot.operation ?? "–"),
      h("td", {}, isKnown(snapshot.added_rows) ? `${short(snapshot.added_rows)} rows` : "–", isKnown(snapshot.added_bytes) ? h("span", { class: "under" }, bytes(snapshot.added_bytes)) : null),
      h("td", {}, isKnown(snapshot.deleted_rows) ? `${short(snapshot.deleted_rows)} rows` : "–"),
      h("td", {}, h("code", {}, snapshot.snapshot_id)),
    );
  }

  beginning() {
    const index = this.snapshots.length;
    const radio = this.radio("after", index, "from the beginning of the table", this.isWhole);
    return h("tr", {}, h("td", {}, radio), h("td", {}), h("td", { colspan: 5, class: "quiet" }, this.before().join("; ")));
  }

  // What comes before the rows of the list.
  before() {
    const { older, isWhole, dag } = this;
    return [
      older && `${count(older)} older ${older === 1 ? "snapshot is not listed: name it" : "snapshots are not listed: name one"} in the form of ${dag}`,
      isWhole ? "the beginning of the table's history" : `${older ? "those before them" : "older snapshots"} expired: a range cannot begin before`,
    ].filter(Boolean);
  }

  conf() {
    const conf = { up_to_snapshot_id: this.snapshots[this.upTo].snapshot_id };
    const after = this.snapshots[this.after];
    return after ? { after_snapshot_id: after.snapshot_id, ...conf } : conf;
  }

  said() {
    // The one row that is left is in no range: only the beginning is before it, and the history does not reach that.
    if (this.after === this.snapshots.length && !this.isWhole) {
      const why = "No range can begin here: a range begins after a snapshot, and those before the only one of the list expired.";
      return [h("h2", {}, "No range"), h("p", { class: "quiet" }, why), this.actions(false)];
    }
    const amount = this.after - this.upTo + (this.after < this.snapshots.length ? 0 : this.older);
    const fields = Object.entries(this.conf()).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, h("code", {}, value))]);
    return [
      h("h2", {}, `${count(amount)} ${amount === 1 ? "snapshot" : "snapshots"}`),
      h("p", { class: "quiet" }, `What the form of ${this.dag} is filled with:`),
      h("dl", { class: "facts-list" }, fields),
      this.actions(true),
    ];
  }

  actions(isPossible) {
    const start = h("button", { type: "button", class: "button main", disabled: !isPossible, "data-key": "start", onclick: (event) => this.start(event.currentTarget) }, "Start backfill");
    return h("p", { class: "actions" }, start, airflowLink(dagPath(this.dag), `Form of the DAG`, { class: "button" }));
  }

  async start(button) {
    button.disabled = true;
    try {
      const run = await triggerDag(this.dag, this.conf());
      const link = airflowLink(runPath(this.dag, run.dag_run_id), run.dag_run_id);
      const here = h("a", { href: `?dag_id=${encodeURIComponent(this.dag)}&run_id=${encodeURIComponent(run.dag_run_id)}` }, "look at it here");
      this.answer.replaceChildren(h("p", { class: "notice", "data-state": "started", role: "status" }, "Started: ", link, ", ", here, "."));
    } catch (error) {
      button.disabled = false;
      const text = error instanceof PageError && error.status === 403 ? "You may not start this DAG." : error.message;
      this.answer.replaceChildren(h("p", { class: "notice", "data-state": "failed", role: "alert" }, text));
    }
  }
}
