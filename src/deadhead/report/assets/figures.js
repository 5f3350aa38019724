// Figures: Vega-Lite specifications drawn by Vega with its own interpreter, so that no text is ever run as code.

const SQUEEZE = 1.3; // a figure a little too wide is made smaller; a wider one gets a row of its own
const pending = []; // promises of the figures of the first draw, which push down what is below them
const drawn = new Map(); // figure id -> what was drawn last, to leave alone what did not change

function drawFigures(study) {
  if (!study.figures?.length) return null;
  return section("figures", "Figures", null, el("div", { class: "figures" }, study.figures.map((figure) => drawFigure(figure, study))));
}
function drawFigure(figure, study) {
  const key = `${study.name}/${figure.id}`, mark = JSON.stringify([figure.spec, dark()]);
  const plot = drawn.get(key)?.mark === mark ? drawn.get(key).plot : el("div", { class: "plot" });
  if (drawn.get(key)?.plot !== plot) {
    drawn.get(key)?.finalize?.();
    if (drawn.has(key)) plot.style.minHeight = `${drawn.get(key).plot.offsetHeight}px`; // so that nothing below moves meanwhile
    const entry = { mark, plot };
    drawn.set(key, entry);
    embed(plot, figure, entry, study);
  }
  return el("figure", { class: plot.dataset.wide ? "card wide" : "card", id: `figure-${figure.id}`, "aria-label": figure.title }, el("h3", {}, said(figure.title)), figure.note && el("p", { class: "note" }, said(figure.note)), plot);
}
function embed(plot, figure, entry, study) {
  if (typeof vegaEmbed !== "function") {
    plot.append(el("p", { class: "note" }, "This figure needs Vega, which is not part of this page."));
    return;
  }
  const spec = { ...figure.spec, background: null, description: figure.spec.description || figure.title };
  delete spec.title; // it stands above the figure already
  const options = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true, theme: "custom" }, config: figureColours() };
  pending.push(vegaEmbed(plot, spec, options).then((made) => {
    entry.finalize = () => made.finalize();
    link(made.view);
    plot.style.minHeight = "";
    const [width, room] = [plot.querySelector("svg")?.clientWidth || 0, plot.clientWidth];
    if (width > room && width <= room * SQUEEZE) plot.classList.add("fit");
    else if (width > room) {
      plot.dataset.wide = "yes";
      plot.closest(".card")?.classList.add("wide");
    }
    if (width > plot.clientWidth) plot.tabIndex = 0; // what is wider still scrolls, by keyboard too
    plot.dataset.ready = "yes";
  }).catch((problem) => {
    plot.replaceChildren(el("p", { class: "note" }, `This figure could not be drawn: ${problem.message}`));
    plot.dataset.ready = "failed";
  }));
}
/** A head looked at in a figure is outlined in the maps too. */
function link(view) {
  const head = (item) => Object.values(item?.datum || {}).find((value) => typeof value === "string" && HEAD.test(value));
  view.addEventListener("mouseover", (_, item) => { const one = head(item); if (one) outline(one); });
  view.addEventListener("mouseout", () => look(null));
  view.addEventListener("click", (_, item) => { const one = head(item); if (one && $("explorer")) chooseHead(one); });
}
function figureColours() {
  const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
  const [ink, soft, line] = [of("--ink"), of("--soft"), of("--line")], font = of("--sans");
  return {
    font, view: { stroke: null }, axis: { labelColor: soft, titleColor: soft, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: 500, labelFont: font, titleFont: font },
    legend: { labelColor: soft, titleColor: soft, labelFont: font, titleFont: font, titleFontWeight: 500 }, header: { labelColor: ink, titleColor: soft }, title: { color: ink, subtitleColor: soft }, text: { color: ink },
    range: { category: ["#4c6fb1", "#d0742c", "#3b9c87", "#a04a8f", "#b59f2a", "#777b84", "#7fa6dd", "#e6a877"] },
  };
}
