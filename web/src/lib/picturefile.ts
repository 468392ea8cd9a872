// What the page has drawn as one file: no sheet, no script, no font, so that it opens anywhere and looks the same.

const SVG = "http://www.w3.org/2000/svg";
const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "text-anchor"];
const MARGIN = 16;
const LINE = 18;

type Attributes = Record<string, string | number>;

function make(name: string, attributes: Attributes, text = ""): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text) made.textContent = text;
  return made;
}

/** The element and all below it with the looks that the sheet gives them, and nothing of the page. */
function looking(element: Element): Element {
  const copy = element.cloneNode(false) as Element;
  const looks = getComputedStyle(element);
  for (const { name } of [...copy.attributes]) if (name === "class" || name === "style" || name.startsWith("aria-")) copy.removeAttribute(name);
  if (!/^(defs|pattern|svg|g)$/.test(element.tagName) || looks.opacity !== "1")
    for (const look of LOOKS) {
      const value = looks.getPropertyValue(look).replace(/url\("#(.*?)"\)/, "url(#$1)");
      if (value && value !== "normal") copy.setAttribute(look, value);
    }
  for (const child of element.childNodes) {
    if (child instanceof Element) copy.append(looking(child));
    else if (child.nodeType === Node.TEXT_NODE) copy.append(child.cloneNode());
  }
  return copy;
}

/** The drawing inside `root`: its boxes, its captions and its SVGs, each where the page has it; below it `lines` of text. */
export function pictureFile(root: HTMLElement, title: string, lines: string[]): string {
  const at = root.getBoundingClientRect();
  const page = getComputedStyle(document.documentElement);
  const ink = page.getPropertyValue("--text");
  const width = Math.ceil(at.width) + 2 * MARGIN;
  const height = Math.ceil(at.height) + 3 * MARGIN + LINE * (1 + lines.length);
  const drawn = make("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": page.fontFamily });
  drawn.append(make("title", {}, title), ...[...document.querySelectorAll("#patterns > defs")].map(looking));
  drawn.append(make("rect", { width, height, fill: page.getPropertyValue("--surface") }));
  drawn.append(make("text", { x: MARGIN, y: MARGIN + 10, "font-size": 14, "font-weight": 600, fill: ink }, title));
  const place = (element: Element): { x: number; y: number; width: number; height: number } => {
    const box = element.getBoundingClientRect();
    return { x: box.left - at.left + MARGIN, y: box.top - at.top + MARGIN + LINE, width: box.width, height: box.height };
  };
  for (const way of root.querySelectorAll("[data-way]")) {
    const { x, y, width: wide, height: high } = place(way);
    const across = high > wide;
    for (const side of [-1, 1])
      drawn.append(
        make("path", {
          d: across ? `M${x} ${y + high / 2 + side}h${wide}` : `M${x + wide / 2 + side} ${y}v${high}`,
          stroke: page.getPropertyValue("--line-strong"),
        }),
      );
  }
  for (const box of root.querySelectorAll("[data-box]")) {
    const looks = getComputedStyle(box);
    drawn.append(
      make("rect", {
        ...place(box),
        rx: 4,
        fill: looks.backgroundColor,
        stroke: looks.borderTopColor,
        "stroke-dasharray": looks.borderTopStyle === "dashed" ? "4 3" : "none",
      }),
    );
  }
  for (const caption of root.querySelectorAll("[data-caption]")) {
    const { x, y, height: high } = place(caption);
    const looks = getComputedStyle(caption);
    const letters = { "font-size": looks.fontSize, "font-weight": looks.fontWeight, fill: looks.color };
    drawn.append(
      make("text", { x: x + parseFloat(looks.paddingLeft), y: y + high / 2 + parseFloat(looks.fontSize) * 0.36, ...letters }, caption.textContent.trim()),
    );
  }
  for (const picture of root.querySelectorAll("svg")) {
    const copy = looking(picture);
    for (const [key, value] of Object.entries(place(picture))) copy.setAttribute(key, String(value));
    drawn.append(copy);
  }
  lines.forEach((line, row) => drawn.append(make("text", { x: MARGIN, y: at.height + 2 * MARGIN + LINE * (row + 1.6), "font-size": 12, fill: ink }, line)));
  return new XMLSerializer().serializeToString(drawn);
}

export function download(text: string, name: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
