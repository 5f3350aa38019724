// Figures: Vega-Lite specifications drawn by Vega with its own interpreter, so that no text is ever run as code.

const SQUEEZE = 1.3; // a figure that is a little too wide becomes narrower; a wider one gets a row of its own
const LEAST = 100; // pixels of a panel, below which panels go below each other
const NARROW = 480; // pixels of room below which legends go below the picture
const pending = []; // promises of the figures of the first draw, which push down what is below them
const drawn = new Map(); // figure id -> what was drawn last, to leave alone what did not change

function drawFigures(study) {
  const others = (study.figures || []).filter((figure) => figure.id !== study.lead), own = others.filter((figure) => !figure.extra), extra = others.filter((figure) => figure.extra);
  if (!others.length) return null;
  return section("figures", "Figures", null, own.length ? drawFigureList(own, study) : null, extra.length ? drawExtra(extra, study) : null);
}
const drawFigureList = (figures, study) => el("div", { class: "figures" }, figures.map((figure) => drawFigure(figure, study)));
/** Figures that the recipe does not name. They are drawn when they are shown: a hidden figure has no width to fit. */
function drawExtra(figures, study) {
  const show = ({ target }) => { if (target.open && !target.querySelector(".figures")) target.append(drawFigureList(figures, study)); };
  return el("details", { class: "extra", "data-keep": "extra figures", ontoggle: show }, el("summary", {}, `${count(figures.length, "figure")} that the recipe does not name`));
}
function drawFigure(figure, study) {
  const key = `${study.name}/${figure.id}`, mark = JSON.stringify([figure.spec, dark()]);
  const plot = drawn.get(key)?.mark === mark ? drawn.get(key).plot : el("div", { class: "plot" });
  if (drawn.get(key)?.plot !== plot) {
    drawn.get(key)?.finalize?.();
    if (drawn.has(key)) plot.style.minHeight = `${drawn.get(key).plot.offsetHeight}px`; // so that nothing below moves meanwhile
    const entry = { mark, plot };
    drawn.set(key, entry);
    embed(plot, figure, entry);
  }
  return el("figure", { class: plot.dataset.wide ? "card wide" : "card", id: `figure-${figure.id}`, "aria-label": figure.title }, el("h3", {}, bdi(figure.title)), figure.note && el("p", { class: "note" }, bdi(figure.note)), plot);
}
function embed(plot, figure, entry) {
  if (typeof vegaEmbed !== "function") {
    plot.append(el("p", { class: "note" }, "This figure needs Vega, which is not part of this page."));
    return;
  }
  const spec = { ...structuredClone(figure.spec), background: null, description: figure.spec.description || figure.title };
  delete spec.title; // the card has it
  pending.push(Promise.resolve().then(() => fitting(plot, spec)).then((embedded) => {
    entry.finalize = () => embedded.finalize();
    link(embedded.view);
    plot.style.minHeight = "";
    plot.dataset.ready = "yes";
  }).catch((problem) => {
    plot.replaceChildren(el("p", { class: "note" }, `This figure could not be drawn: ${problem.message}`));
    plot.dataset.ready = "failed";
  }));
}
/** Draw a figure, and again, narrower, until it fits the room there is. */
async function fitting(plot, spec) {
  let embedded = null;
  for (let tries = 0; tries < 5; tries += 1) {
    embedded?.finalize();
    const options = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true, theme: "custom" }, config: figureColours(plot.clientWidth) };
    embedded = await vegaEmbed(plot, structuredClone(spec), options);
    const width = plot.querySelector("svg")?.clientWidth || 0;
    if (width <= plot.clientWidth) return embedded;
    if (width > plot.clientWidth * SQUEEZE && !plot.dataset.wide && plot.closest(".figures")) {
      plot.dataset.wide = "yes";
      plot.closest(".card").classList.add("wide");
      if (width <= plot.clientWidth) return embedded;
    }
    if (!narrower(spec, width, plot.clientWidth)) break;
  }
  plot.classList.add("fit");
  return embedded;
}
/** Make the panels narrower, or put fewer of them in a row; returns whether that was possible. */
function narrower(spec, width, room) {
  const part = spec.spec || spec, across = spec.spec ? Math.max(1, Math.min(spec.columns || 1, panelsOf(spec))) : 1, least = spec.usermeta?.least ?? LEAST;
  if (!isNumber(part.width)) return false;
  const each = Math.floor(part.width - (width - room) / across) - 1;
  const around = width / across - part.width, fewer = Array.from({ length: across - 1 }, (_, at) => across - 1 - at).find((columns) => room / columns - around >= least);
  if (each < least && across > 1) spec.columns = fewer || 1;
  else if (each < LEAST / 2) return false;
  else {
    if (part.mark?.type === "rect" || part.layer?.[0]?.mark === "rect") part.height = Math.round((part.height * each) / part.width); // squares stay squares
    if (each < least && part.layer) part.layer = part.layer.filter((one) => one.mark.type !== "text"); // numbers would cover each other; the tooltip has them
    part.width = each;
  }
  return true;
}
const panelsOf = (spec) => new Set((spec.data?.values || []).map((row) => row[spec.facet?.field])).size;
/** A head under the pointer in a figure is outlined in the maps too. */
function link(view) {
  const head = (item) => Object.values(item?.datum || {}).find((value) => typeof value === "string" && HEAD.test(value));
  view.addEventListener("mouseover", (_, item) => { const one = head(item); if (one) outline(one); });
  view.addEventListener("mouseout", () => look(null));
  view.addEventListener("click", (_, item) => { const one = head(item); if (one && $("explorer")) chooseHead(one); });
}
function figureColours(room) {
  const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
  const [ink, soft, line] = [of("--ink"), of("--soft"), of("--line")], font = of("--sans");
  return {
    font, view: { stroke: null }, axis: { labelColor: soft, titleColor: soft, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: 500, labelFont: font, titleFont: font },
    legend: { labelColor: soft, titleColor: soft, labelFont: font, titleFont: font, titleFontWeight: 500, ...(room < NARROW ? { orient: "bottom", columns: Math.max(1, Math.floor(room / 100)), labelLimit: room - 40 } : {}) }, header: { labelColor: ink, titleColor: soft }, title: { color: ink, subtitleColor: soft }, text: { color: ink },
  };
}
