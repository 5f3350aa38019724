// The page: draw it from its content, follow the address, and keep the reader's position when it is drawn again.

const content = JSON.parse($("content").textContent);
const current = () => content.studies[Math.min(chosen.study, content.studies.length - 1)];
const dark = () => document.documentElement.dataset.theme === "dark";

function draw() {
  const main = $("main");
  const study = current(), parts = [drawTabs(content.studies), drawCompare(content.studies), drawTop(study), ...(study.order || []).map((name) => (name === "tables" ? drawTables : drawFigures)(study)), drawMaps(study), drawClaims(study), drawTrials(study)].filter(Boolean);
  main.replaceChildren(...parts);
  widenTop();
  const named = parts.filter((part) => part.id && part.tagName === "SECTION");
  $("sections").replaceChildren(...named.map((part) => el("a", { href: `#${part.id}`, "data-focus": `nav/${part.id}` }, part.querySelector(":scope > h2")?.textContent || "Summary")));
  watch.disconnect();
  named.forEach((part) => watch.observe(part));
  $("foot").replaceChildren(`Drawn by deadhead ${worded(study.versions?.deadhead ?? "")} from the records of the study; nothing is loaded from elsewhere.`);
}
/** Mark the section in sight in the bar. */
const watch = new IntersectionObserver((seen) => {
  for (const one of seen) if (one.isIntersecting) for (const link of $("sections").children) link.getAttribute("href") === `#${one.target.id}` ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
}, { rootMargin: "-20% 0px -70% 0px" });

/** What the reader reads: the last part that begins above the middle of the window, and its position. */
function anchor() {
  const parts = [...document.querySelectorAll("main section[id], main article[id], main figure[id]")].map((one) => ({ id: one.id, top: one.getBoundingClientRect().top }));
  return parts.filter((part) => part.top < innerHeight / 2).at(-1);
}
/** Scroll that part back to its position, even if the content above it changed. */
function hold(seen, place) {
  const node = seen && $(seen.id);
  scrollTo({ top: node && place ? scrollY + node.getBoundingClientRect().top - seen.top : place, behavior: "instant" });
  return scrollY;
}
/** Draw the page again, in other colours, and keep the reader's position, field, folds and open sheet. */
function redraw() {
  const place = scrollY, seen = anchor(), active = document.activeElement, key = active?.dataset?.focus, marks = key && active.type === "search" ? [active.selectionStart, active.selectionEnd] : null;
  const scrolls = [...document.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]), open = [...document.querySelectorAll("details[open]")].map((one) => one.dataset.keep);
  const root = document.documentElement, height = root.scrollHeight;
  root.style.minHeight = `${height}px`; // no jump while the page is shorter for a moment
  draw();
  if ($("sheet").open) follow();
  for (const one of document.querySelectorAll("details[data-keep]")) one.open = open.includes(one.dataset.keep);
  document.querySelectorAll(".scroll").forEach((one, at) => { if (scrolls[at]) [one.scrollLeft, one.scrollTop] = scrolls[at]; });
  const again = key && document.querySelector(`[data-focus="${CSS.escape(key)}"]`);
  if (again) {
    again.focus({ preventScroll: true });
    if (marks) again.setSelectionRange(...marks);
  }
  let stayed = hold(seen, place);
  requestAnimationFrame(() => { root.style.minHeight = ""; stayed = hold(seen, place); });
  Promise.all(pending).then(() => { if (Math.abs(scrollY - stayed) < 2) hold(seen, place); }); // figures grow as they are drawn; a reader who scrolls goes first
}

/** Go to #trial=ID, #cell=TABLE/ROW/COLUMN, #claim=ID, #removed=HEAD or #head=HEAD. */
function go(target) {
  location.hash = target;
}
function follow() {
  const [, kind, raw] = /^#(\w+)=(.*)$/s.exec(location.hash) || [];
  let value = raw;
  try { value = raw && decodeURIComponent(raw); } catch { /* as it stands */ }
  const study = current();
  if (!kind) closeSheet();
  else if (kind === "trial") showTrial(study, value);
  else if (kind === "cell") showCell(study, value);
  else if (kind === "claim") showClaim(study, value);
  else if (kind === "removed") showTrials(study, `Trials that removed ${value}`, Object.entries(study.records || {}).filter(([, record]) => record.removed?.includes(value)).map(([id]) => id));
  else if (kind === "head") {
    closeSheet();
    chosen.head = value;
    showHead();
    $("heads")?.scrollIntoView();
  }
}
function showCell(study, value) {
  const [id, row, column] = value.split(/\/(?=\d+\/\d+$)|\/(?=\d+$)/), table = (study.tables || []).find((one) => String(one.id) === id), cell = table?.cells[row]?.[column];
  if (!cell) return;
  const { ours, spread, published, n = 0, numbers = [], trials = [] } = cell, listed = new Set(numbers.flatMap(([, , parts]) => parts.map(([trial]) => trial)));
  const facts = [isNumber(ours) && `${fixed(ours, 2)}: the mean of ${count(n, "number")}`, isNumber(spread) && `standard deviation ${fixed(spread, 2)}`, isNumber(published) && `published ${fixed(published, table.decimals)}`, isNumber(published) && isNumber(ours) && `difference ${signed(ours - published, 2)}`];
  const short = numbers.length < n ? `The first ${numbers.length} of ${count(n, "number")}.` : some(cell), others = trials.filter((trial) => !listed.has(trial));
  openSheet([table.title, ...table.rows[row], ...table.columns[column]].filter((one) => one !== "" && one !== null).join(" \u00b7 "),
    el("p", { class: "lead" }, bdi([facts.filter(Boolean).join(", "), short].filter(Boolean).join(". "))),
    numbers.length ? el("ol", { class: "list numbers" }, numbers.map((one) => drawNumber(study, one))) : null,
    others.length ? [el("h3", {}, numbers.length ? "Trials without a number in this cell" : "Trials"), el("ul", { class: "list" }, others.map((trial) => trialItem(study, trial)))] : null);
}
function showClaim(study, id) {
  const claim = (study.claims || []).find((one) => String(one.id) === id);
  if (claim) showTrials(study, `${claim.id}: ${claim.statement}`, claim.trials || [], [`${claim.verdict}: ${claim.numbers || ""}`, some(claim)].filter(Boolean).join(" "));
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "Light" : "Dark";
}
function storedTheme() {
  try { return localStorage.getItem("deadhead-theme"); } catch { return null; } // a file may have no storage
}
const system = matchMedia("(prefers-color-scheme: dark)");
setTheme(storedTheme() || (system.matches ? "dark" : "light"));
system.addEventListener("change", () => { if (!storedTheme()) { setTheme(system.matches ? "dark" : "light"); redraw(); } });
$("theme").addEventListener("click", () => {
  setTheme(dark() ? "light" : "dark");
  try { localStorage.setItem("deadhead-theme", document.documentElement.dataset.theme); } catch { /* then only for now */ }
  redraw();
});
matchMedia("print").addEventListener?.("change", () => tip.hide());

$("sheet").addEventListener("close", () => { if (/^#(trial|cell|claim|removed)=/.test(location.hash)) history.pushState(null, "", location.pathname + location.search); });
$("sheet").addEventListener("click", (event) => { if (event.target === $("sheet")) closeSheet(); });
addEventListener("hashchange", follow);
addEventListener("popstate", follow);
addEventListener("scroll", () => tip.hide(), { passive: true });
chosen.head = leading(current());
draw();
follow();
if (/^#(head=|tables|figures|heads|claims|trials)/.test(location.hash)) Promise.all(pending).then(() => $(location.hash.startsWith("#head=") ? "heads" : location.hash.slice(1))?.scrollIntoView());
document.documentElement.dataset.ready = "yes";
