// Elements without a framework. Text is always text: nothing here takes HTML.

const SVG = "http://www.w3.org/2000/svg";

export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Puts new content into the page; what had the focus has it again.
export function show(root, ...children) {
  const key = document.activeElement?.dataset?.key;
  const scrolled = document.scrollingElement?.scrollTop ?? 0;
  root.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (key) root.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  document.scrollingElement.scrollTop = scrolled;
}
