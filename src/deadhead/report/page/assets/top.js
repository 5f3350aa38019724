// The top of the page: the study, its models, its findings, and its progress.

function drawTop(study) {
  const { total = 0, done = 0, failed = 0 } = study.progress || {}, table = (study.tables || []).find((one) => one.id === study.lead), figure = (study.figures || []).find((one) => one.id === study.lead), findings = drawFindings(study.findings || []);
  return el("section", { id: "top", "aria-label": "Summary" },
    el("div", { class: table || figure ? "hero" : "hero bare" },
      el("div", { class: "title" }, el("p", { class: "eyebrow" }, `${(study.models || []).join(", ") || "no model"} \u00b7 ${count(total, "trial")}`), el("h1", {}, el("bdi", { dir: "auto" }, String(study.name).split(/(?<=\/)/).flatMap((part) => [part, el("wbr")]))), el("p", { class: "about" }, bdi(study.about || ""))),
      table ? drawTable(table, HOW) : figure ? drawFigure(figure, study) : null, findings),
    done < total || failed ? drawProgress(study.progress) : null,
    (study.damaged || []).map((text) => el("p", { class: "damaged", role: "status" }, bdi(text))),
    drawFacts(study));
}
/** A table that is too wide for half of the page gets the whole width. */
function widenTop() {
  const box = document.querySelector(".hero .scroll");
  if (box && box.scrollWidth > box.clientWidth) box.closest(".hero").classList.add("stacked");
}
function drawFindings(findings) {
  if (!findings.length) return null;
  const strong = (text) => String(text).replace(/(?<=^|[\s(])-(?=\d)/g, "\u2212").split(/((?<![\w.,])[\u2212+-]?\d+(?:[.,]\d+)*(?![\w])(?:\s?%)?)/).map((part, at) => (at % 2 ? el("b", {}, part) : part));
  return el("ol", { class: "findings", "aria-label": "Findings" }, findings.map((text) => el("li", {}, el("bdi", { dir: "auto" }, strong(text)))));
}
function drawProgress(progress) {
  const { total, done, failed, left } = progress;
  const running = Array.isArray(progress.running) ? progress.running.length : Number(progress.running) || 0;
  const [good, bad] = [el("span", { class: "done" }), el("span", { class: "failed" })];
  good.style.width = `${(100 * done) / Math.max(1, total)}%`;
  bad.style.width = `${(100 * failed) / Math.max(1, total)}%`;
  const words = [`${done.toLocaleString("en")} of ${count(total, "trial")} done`, running && `${running} running`, failed && `${failed} failed`, left && `${left.toLocaleString("en")} left`];
  return el("div", { class: "progress" },
    el("div", { class: "track", role: "progressbar", "aria-label": "Trials done", "aria-valuemin": 0, "aria-valuemax": total, "aria-valuenow": done }, good, bad),
    words.filter(Boolean).join(" · "));
}
function drawFacts(study) {
  const versions = Object.entries(study.versions || {}), data = Object.entries(study.data || {});
  const folded = (title, body) => el("details", { "data-keep": title }, el("summary", {}, title), body);
  return el("dl", { class: "facts" },
    el("dt", {}, "Models"), el("dd", {}, bdi((study.models || []).join(", "))),
    data.length ? [el("dt", {}, "Data"), el("dd", {}, folded(`${count(data.length, "set")}, with fingerprints`, pairs(data.map(([name, mark]) => [name, el("span", { class: "mono" }, worded(mark))]))))] : null,
    versions.length ? [el("dt", {}, "Made with"), el("dd", {}, folded(versions.slice(0, 3).map(([name, value]) => `${name} ${worded(value)}`).join(", "), pairs(versions)))] : null,
    el("dt", {}, "Recipe"), el("dd", {}, folded("the whole recipe", el("pre", { tabindex: 0 }, JSON.stringify(study.recipe || {}, null, 2)))));
}
