// Airflow's own pages. The page lives in a frame that may not move the window it is in, so the window is asked to.

import { h } from "./dom.js";

// The page is at <Airflow>/icefloe/.
export const ROOT = new URL("..", new URL(".", import.meta.url)).pathname;

const id = encodeURIComponent;

export const dagPath = (dag) => `dags/${id(dag)}`;
export const runPath = (dag, run) => `dags/${id(dag)}/runs/${id(run)}`;
// Airflow knows a task of a group by its id after that of the group.
export const logPath = ({ dag_id: dag, group }, run, task, tryNumber) =>
  `dags/${id(dag)}/runs/${id(run)}/tasks/${id(group ? `${group}.${task}` : task)}` + (tryNumber ? `?try_number=${tryNumber}` : "");

// The page of a pipeline, in a DAG of its own or in a group of another one, or a page below it.
export const pageOf = ({ dag_id: dag, group }, below = "") => `?dag_id=${id(dag)}${group ? `&group=${id(group)}` : ""}${below}`;

export function airflowLink(path, text, attributes = {}) {
  return h("a", { href: ROOT + path, target: "_top", ...attributes, onclick: leave }, text);
}

function leave(event) {
  if (window.parent === window || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  const { href } = event.currentTarget;
  const anchor = window.parent.document.createElement("a");
  anchor.href = href;
  window.parent.document.body.append(anchor);
  anchor.click();
  anchor.remove();
}

// A page of somebody else's, in a window of its own: the frame may open none, the window it is in may.
export function outsideLink(url, text, attributes = {}) {
  return h("a", { href: url, target: "_blank", rel: "noreferrer", ...attributes, onclick: openOutside }, text);
}

function openOutside(event) {
  if (window.parent === window) return;
  event.preventDefault();
  const anchor = window.parent.document.createElement("a");
  Object.assign(anchor, { href: event.currentTarget.href, target: "_blank", rel: "noreferrer" });
  anchor.click();
}

export class PageError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function load(path) {
  return answer(await fetch(`${ROOT}icefloe/api/${path}`, { headers: { Accept: "application/json" } }));
}

// What Airflow's own form of the DAG sends.
export async function triggerDag(dag, conf) {
  return answer(
    await fetch(`${ROOT}api/v2/dags/${id(dag)}/dagRuns`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify({ logical_date: null, conf }),
    }),
  );
}

async function answer(response) {
  if (response.ok) return response.json();
  let detail = "";
  try {
    const body = await response.json();
    detail = typeof body.detail === "string" ? body.detail : JSON.stringify(body.detail);
  } catch {
    detail = response.statusText;
  }
  throw new PageError(response.status, detail);
}
