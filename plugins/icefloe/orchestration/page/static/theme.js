// Light or dark as Airflow is, also when it is switched while the page is open.

const system = matchMedia("(prefers-color-scheme: dark)");

function host() {
  try {
    return window.parent === window ? null : window.parent.document.documentElement;
  } catch {
    return null;
  }
}

function chosen() {
  const classes = host()?.classList;
  if (classes?.contains("dark")) return "dark";
  if (classes?.contains("light")) return "light";
  const stored = remembered();
  if (stored === "dark" || stored === "light") return stored;
  return system.matches ? "dark" : "light";
}

function remembered() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}

function apply() {
  document.documentElement.dataset.theme = chosen();
  document.documentElement.dataset.framed = window.parent === window ? "no" : "yes";
}

export function followTheme() {
  apply();
  system.addEventListener("change", apply);
  addEventListener("storage", apply);
  const element = host();
  if (element) new MutationObserver(apply).observe(element, { attributes: true, attributeFilter: ["class"] });
}
