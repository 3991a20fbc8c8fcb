"""Faults of a layout that people see: text over text, over a box or out of it, a page wider than its window."""

from typing import Any, Final

__all__ = ["layout_faults"]

_FAULTS: Final = """() => {
    const place = (each) => each.getBoundingClientRect();
    const within = (inner, outer) => inner.left >= outer.left && inner.right <= outer.right + 1;
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    const boxes = [...document.querySelectorAll(".box")];
    const wide = boxes.flatMap((box) => [...box.querySelectorAll("text")]
        .filter((text) => !within(place(text), place(box.querySelector("rect")))));
    const labels = [...document.querySelectorAll(".edge g")]
        .filter((label) => boxes.some((box) => meet(place(label), place(box.querySelector("rect")))));
    const short = [...document.querySelectorAll(".stack")]
        .filter((each) => place(each.lastElementChild).right < place(each).right - 2).map((each) => each.ariaLabel);
    const framing = "dd, .pipelines td, .pipelines th, .notice, .said, .legend li, h1, .badge";
    const cut = [...document.querySelectorAll(framing)]
        .filter((each) => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== "inline");
    const lines = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode, around = node.parentElement;
        // What nobody sees: blanks, closed details, titles of pictures, the heads of a table that is shown as cards.
        if (!node.textContent.trim() || !around.checkVisibility() || around.closest("title, script, style")) continue;
        const head = around.closest("thead");
        if (head && getComputedStyle(head).position === "absolute") continue;
        const frame = around.closest(".framed, pre"), clip = frame ? place(frame) : {left: 0, right: innerWidth};
        const range = document.createRange();
        range.selectNodeContents(node);
        for (const {left, right, top, bottom} of range.getClientRects()) {
            const line = {left: Math.max(left, clip.left), right: Math.min(right, clip.right), top, bottom};
            if (line.left < line.right) lines.push({...line, text: node.textContent});
        }
    }
    // A line of text is as high as its font, so that lines below each other may meet by a pixel or three.
    const covers = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
    const covered = lines.flatMap((a, index) =>
        lines.slice(index + 1).filter((b) => covers(a, b)).map((b) => `${a.text} / ${b.text}`));
    const page = document.documentElement;
    const wider = page.scrollWidth > page.clientWidth ? [`the page is ${page.scrollWidth} wide`] : [];
    return [...[...wide, ...labels, ...cut].map((each) => each.textContent), ...covered, ...wider, ...short];
}"""


def layout_faults(page: Any) -> list[str]:
    """The texts of a page at which its layout fails."""
    found: list[str] = page.evaluate(_FAULTS)
    return found
