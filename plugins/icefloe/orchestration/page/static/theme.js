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

// A company may have given Airflow colours of its own: what the frame stands on is what the page stands on.
function groundOfHost() {
  for (let element = host() && window.frameElement; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (isOpaque(colour)) return colour;
  }
  return null;
}

const isOpaque = (colour) => colour.startsWith("rgb(") || /^(oklch|oklab|color|lab|lch)\([^/]*\)$/.test(colour);

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
