// Which view the address asks for, and looking again every few seconds.

import { PageError, ROOT, airflowLink, load } from "./airflow.js";
import { h, show } from "./dom.js";
import { setNow } from "./format.js";
import { batchView } from "./batch.js";
import { overviewView } from "./overview.js";
import { pipelineView } from "./pipeline.js";
import { backfillView } from "./backfill.js";
import { followTheme } from "./theme.js";

const EVERY_MS = 10_000;
const SOON_MS = 1_000;
const root = document.getElementById("page");
const asked = new URLSearchParams(location.search);
let last = "";
let looks = 0;
let soon;

function view() {
  const dag = asked.get("dag_id");
  if (!dag) return { path: "overview", draw: overviewView };
  const path = `pipelines/${encodeURIComponent(dag)}`;
  const asks = new URLSearchParams([...asked].filter(([name]) => name === "group" || name === "before"));
  const further = asks.size ? `?${asks}` : "";
  if (asked.has("run_id")) return { path: `${path}/runs/${encodeURIComponent(asked.get("run_id"))}${further}`, draw: batchView };
  if (asked.has("batch")) return { path: `${path}/batches/${encodeURIComponent(asked.get("batch"))}${further}`, draw: batchView };
  if (asked.has("backfill")) return { path: `${path}/snapshots`, draw: backfillView, once: true };
  return { path: `${path}${further}`, draw: pipelineView };
}

function failure(error) {
  if (!(error instanceof PageError)) {
    return ["Airflow does not answer", "The page looks again every few seconds.", null];
  }
  if (error.status === 401) return ["You are not logged in", "Log in to Airflow, then come back.", "auth/login"];
  if (error.status === 403) return ["Not yours to see", "You have no access to this DAG, or your login has run out: log in again, or ask the administrator of Airflow.", "auth/login"];
  if (error.status === 404) return ["Nothing here", error.message, null];
  return [`Airflow answered ${error.status}`, error.message, null];
}

function drawFailure(error) {
  const [title, text, login] = failure(error);
  const action = login ? airflowLink(login, "Log in", { class: "button" }) : h("a", { href: "./", class: "button" }, "All pipelines");
  show(root, h("section", { class: "empty", role: "alert" }, h("h1", {}, title), h("p", {}, text), h("p", {}, action)));
  last = "";
}

async function look(chosen) {
  // The timer, the interval and a tab that comes back all look: only the newest look may have the next one follow soon.
  clearTimeout(soon);
  looks += 1;
  const which = looks;
  try {
    const found = await load(chosen.path);
    setNow(found.now);
    const { now: _, ...rest } = found;
    const text = JSON.stringify(rest);
    draw(chosen, found, text);
    root.setAttribute("aria-busy", String(Boolean(found.is_looking)));
    if (found.is_looking && !chosen.once && which === looks) soon = setTimeout(() => document.hidden || look(chosen), SOON_MS);
  } catch (error) {
    if (!(error instanceof PageError)) console.error(error);
    drawFailure(error);
  }
}

function draw(chosen, found, text) {
  const isBusy = document.activeElement?.closest("details, form, select, input");
  if (text === last && isBusy) return;
  const isNews = text !== last;
  last = text;
  const open = [...root.querySelectorAll("details[open]")].map((each) => each.dataset.key);
  // Of a DAG with several groups, each is a pipeline.
  show(root, (found.pipelines ? overviewView : chosen.draw)(found, asked));
  // What was said before is not said again: a screen reader would read it out every few seconds.
  if (!isNews) for (const each of root.querySelectorAll("[role=alert]")) each.removeAttribute("role");
  document.title = [root.querySelector("h1")?.textContent, "icefloe"].filter(Boolean).join(" · ");
  for (const each of root.querySelectorAll("details")) if (open.includes(each.dataset.key)) each.open = true;
}

const CHAPTERS = [
  ["changes", "What a change is"], ["operations", "When something is wrong"], ["airflow", "icefloe in Airflow"],
];

// The documentation is there where docs/ is next to plugins/.
async function offerManual() {
  const answer = await fetch(`${ROOT}icefloe/docs/changes.md`);
  if (!answer.ok) return;
  const links = CHAPTERS.map(([name, text]) => h("a", { href: `${ROOT}icefloe/docs/${name}.md` }, text));
  document.getElementById("manual").replaceChildren(h("nav", { "aria-label": "Documentation" }, links));
}

async function start() {
  followTheme();
  document.documentElement.dataset.tab = asked.has("tab") ? "yes" : "no";
  const chosen = view();
  await look(chosen);
  offerManual().catch(() => {});
  if (chosen.once) return;
  setInterval(() => document.hidden || look(chosen), EVERY_MS);
  document.addEventListener("visibilitychange", () => document.hidden || look(chosen));
}

start();
