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

// A company may have given Airflow colours of its own; only an opaque one can be stood on.
function groundOfHost() {
  const element = host();
  if (!element) return null;
  const colour = getComputedStyle(element.ownerDocument.body).backgroundColor;
  return /^rgb\(/.test(colour) || /^(oklch|color|lab|lch)\([^/]*\)$/.test(colour) ? colour : null;
}

function apply() {
  document.documentElement.dataset.theme = chosen();
  const ground = groundOfHost();
  if (ground) document.documentElement.style.setProperty("--ground", ground);
  else document.documentElement.style.removeProperty("--ground");
}

export function followTheme() {
  apply();
  system.addEventListener("change", apply);
  addEventListener("storage", apply);
  const element = host();
  if (element) new MutationObserver(apply).observe(element, { attributes: true, attributeFilter: ["class"] });
}
