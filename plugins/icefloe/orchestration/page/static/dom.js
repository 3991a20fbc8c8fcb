// Elements without a framework. Text is always text: nothing here takes HTML.

// What others named may hold characters that nobody sees, or that turn the text around them: they are shown as escapes.
// Those that shape emoji stay.
const UNSEEN = /(?![\n\t]|(?<=\p{ExtPict})[\ufe0e\ufe0f]|(?<=[\p{ExtPict}\p{EMod}]\ufe0f?)\u200d(?=\p{ExtPict}))[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\p{DI}\ufff9-\ufffb]/gu;
const escaped = (character) => `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}`;
export const seen = (child) => (typeof child === "string" ? child.replace(UNSEEN, escaped) : child);

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
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map(seen));
  return element;
}

const FOCUSABLE = "a[href], button, input, select, summary, [tabindex='0']";
const nameOf = (element) => element.dataset.key ?? [element.tagName, element.getAttribute("href"), element.ariaLabel ?? element.textContent].join(" ");

// Puts new content into the page; what had the focus has it again, and what was scrolled stays so.
export function show(root, ...children) {
  const focused = root.contains(document.activeElement) && document.activeElement !== root ? nameOf(document.activeElement) : null;
  const scrolled = document.scrollingElement?.scrollTop ?? 0;
  const aside = new Map([...root.querySelectorAll(".framed")].map((each) => [each.ariaLabel, each.scrollLeft]));
  root.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (focused) [...root.querySelectorAll(FOCUSABLE)].find((each) => nameOf(each) === focused)?.focus({ preventScroll: true });
  for (const each of root.querySelectorAll(".framed")) each.scrollLeft = aside.get(each.ariaLabel) ?? 0;
  document.scrollingElement.scrollTop = scrolled;
}
