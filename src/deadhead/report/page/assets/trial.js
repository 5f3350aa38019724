// Two parts of one trial: curves over its epochs, and predictions with their errors.

const KNOWN = new Set(["step", "number", "epoch", "seconds", "speed"]);

function epochCurves(epochs) {
  if (epochs.length < 2) return pairs(Object.entries(epochs[0]).map(([name, value]) => [name === "number" ? "epoch" : name === "step" ? "step of the trial" : name, value]));
  const names = [...new Set(epochs.flatMap((one) => Object.keys(one).filter((name) => !KNOWN.has(name) && isNumber(one[name]))))];
  const losses = names.filter((name) => name.includes("loss")), scores = names.filter((name) => !name.includes("loss"));
  return el("div", {}, losses.length ? curve("loss", epochs, losses) : null, scores.length ? curve("scores on held-out data", epochs, scores.slice(0, 6)) : null);
}
/** `en/dev/micro_f1` as the rest of the page names it. */
const seriesName = (name) => { const [language, ...rest] = name.split("/"); return rest.length === 2 ? `${language} ${inWords(rest)}` : name; };
function curve(title, epochs, names) {
  const [wide, tall, left, bottom] = [640, 170, 46, 24], right = 150, all = names.flatMap((name) => epochs.map((one) => one[name]).filter(isNumber));
  const [low, high] = [Math.min(...all), Math.max(...all)], room = high > low ? high - low : 1;
  const x = (at) => left + (epochs.length > 1 ? (at * (wide - left - right)) / (epochs.length - 1) : (wide - left - right) / 2), y = (value) => 14 + (tall - bottom - 14) * (1 - (value - low) / room);
  const drawing = svg("svg", { class: "curve", viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": `${title} over ${epochs.length} epochs: ${names.map((name) => `${name} ${short(epochs[0][name])} to ${short(epochs.at(-1)[name])}`).join("; ")}` });
  for (const value of high > low ? [low, high] : [low]) drawing.append(svg("line", { class: "hair", x1: left, x2: wide - right, y1: y(value), y2: y(value) }), svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  epochs.forEach((one, at) => {
    if (at && one.step !== epochs[at - 1].step) drawing.append(svg("line", { class: "axis", "stroke-dasharray": "3 3", x1: (x(at) + x(at - 1)) / 2, x2: (x(at) + x(at - 1)) / 2, y1: 8, y2: tall - bottom }));
    if (epochs.length <= 20 || at % Math.ceil(epochs.length / 12) === 0) drawing.append(svg("text", { x: x(at), y: tall - 6, "text-anchor": "middle" }, one.number ?? at + 1));
  });
  names.forEach((name, nth) => {
    const points = epochs.map((one, at) => [at, one[name]]).filter(([, value]) => isNumber(value));
    drawing.append(svg("polyline", { class: `line s${nth}`, fill: "none", points: points.map(([at, value]) => `${x(at)},${y(value)}`).join(" ") }));
    for (const [at, value] of points) drawing.append(svg("circle", { class: `dot s${nth}`, r: 3, cx: x(at), cy: y(value) }, svg("title", {}, `${seriesName(name)}: ${short(value)}`)));
    drawing.append(svg("circle", { class: `s${nth}`, r: 4, cx: wide - right + 16, cy: 18 + 16 * nth }), svg("text", { x: wide - right + 26, y: 22 + 16 * nth }, seriesName(name)));
  });
  return el("figure", { class: "epochs" }, el("figcaption", {}, title), drawing);
}
/** One example: words with their labels, or a text (or two) with one answer, or a translation; `errors` counts what is wrong. */
function drawSample(one) {
  const from = [one.lang, one.split, one.errors ? count(one.errors, "error") : null].filter(Boolean);
  return el("div", { class: "sample" }, el("div", { class: "from" }, from.map((part, at) => [at ? " · " : "", bdi(part)])), Array.isArray(one.predicted) ? tokenLine(one) : sides(one));
}
/** Words with the predicted label of each; a wrong label is struck out, with the right one beside it. */
function tokenLine({ tokens, gold, predicted }) {
  return el("ul", { class: "tokens", dir: direction((tokens || []).join(" ")) }, predicted.map((label, at) => {
    const right = gold?.[at], wrong = right !== null && right !== undefined && right !== label;
    return el("li", { class: wrong ? "wrong" : null }, tokens ? bdi(tokens[at]) : null, el("small", {}, wrong ? [el("s", {}, worded(label)), " ", worded(right)] : worded(label)));
  }));
}
function sides({ text, second, gold, predicted, errors }) {
  const line = (name, value, kind) => (value === null || value === undefined ? null : [el("dt", {}, name), el("dd", { dir: direction(worded(value)), class: kind }, worded(value))]);
  return el("dl", { class: "sides" }, line("text", text), line("second", second), line("correct", gold), line(errors ? "\u2715 predicted" : "predicted", predicted, errors ? "wrong" : null));
}
