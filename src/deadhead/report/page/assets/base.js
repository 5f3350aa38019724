// What all other scripts use: elements (text only, never markup), numbers as text, and what the reader has chosen.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const chosen = { study: 0, head: null, tables: {}, trials: {}, maps: {} }; // survives a refresh of the content
const $ = (id) => document.getElementById(id);

function furnish(node, props, kids) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class" && value) node.setAttribute("class", value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const kid of kids.flat(3)) {
    if (kid === null || kid === undefined || kid === false) continue;
    node.append(kid instanceof Node ? kid : document.createTextNode(String(kid)));
  }
  return node;
}
const el = (tag, props, ...kids) => furnish(document.createElement(tag), props, kids);
const svg = (tag, props, ...kids) => furnish(document.createElementNS(SVG, tag), props, kids);
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const minus = (text) => text.replace("-", "\u2212");

/** A number with this many digits after the point; a dash for none. Never a negative zero. */
function fixed(value, digits = 1) {
  return isNumber(value) ? minus(value.toFixed(digits).replace(/^-(?=[0.]*$)/, "")) : "\u2013";
}
/** A number with about three significant digits. */
function short(value) {
  if (!isNumber(value)) return value === null || value === undefined ? "\u2013" : String(value);
  if (Number.isInteger(value)) return minus(value.toLocaleString("en"));
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return minus(value.toExponential(2));
  return minus(String(Number(value.toFixed(size >= 100 ? 1 : size >= 1 ? 2 : 4))));
}
const signed = (value, digits = 1) => (isNumber(value) && value > 0 ? "+" : "") + fixed(value, digits);

/** Text from data: it may run from right to left in a line that runs from left to right. */
const bdi = (text) => el("bdi", { dir: "auto" }, text === null || text === undefined ? "" : String(text));
/** The direction of a line of text: that of its first letter. */
const direction = (text) => (/^\P{L}*[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u.test(text) ? "rtl" : "ltr");
/** Any value as text: strings as they are, the rest as JSON. */
const worded = (value) => (typeof value === "string" ? value : isNumber(value) ? short(value) : value === null || value === undefined ? "\u2013" : JSON.stringify(value));
/** A value as a reader would type it into a search field. */
const typed = (value) => (typeof value === "string" ? value : value === null || value === undefined ? "" : isNumber(value) ? String(value) : JSON.stringify(value)).toLowerCase();
const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many || one + "s"}`;

function pairs(entries) {
  return el("table", { class: "pairs" }, el("tbody", {}, entries.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, bdi(name)), el("td", {}, value instanceof Node ? value : bdi(worded(value)))))));
}
function section(id, title, lead, ...kids) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), lead && el("p", { class: "lead" }, lead), ...kids);
}
function announce(text) {
  $("announcer").textContent = text;
}
function remembered(where, id, first) {
  return (chosen[where][id] ||= first);
}
const natural = new Intl.Collator("en", { numeric: true });
/** A natural order: numbers as numbers, none last. */
function inOrder(a, b) {
  const [noA, noB] = [a, b].map((x) => x === null || x === undefined || x === "");
  if (noA || noB) return noA - noB;
  if (isNumber(a) && isNumber(b)) return a - b;
  return natural.compare(String(a), String(b));
}
/** Sort by a value, none always last. */
function sorted(items, value, down) {
  return items.map((item, at) => ({ item, at, key: value(item) })).sort((a, b) => {
    const empty = (x) => x.key === null || x.key === undefined || x.key === "";
    if (empty(a) || empty(b)) return empty(a) - empty(b) || a.at - b.at;
    return (down ? -1 : 1) * inOrder(a.key, b.key) || a.at - b.at;
  }).map((one) => one.item);
}
