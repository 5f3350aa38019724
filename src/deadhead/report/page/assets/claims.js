// The papers' claims, the verdict of this study on each, and the records behind it.

const VERDICTS = {
  holds: ["holds", "\u2713"], "compatible, not shown": ["unshown", "\u2248"], "does not hold": ["broken", "\u2715"],
  "not tested here": ["untested", "\u2013"], "not enough data": ["open", "\u25cb"],
};
const UNJUDGED = ["not tested here", "not enough data"];

function verdict(claim) {
  const [kind, sign] = claim.follows ? VERDICTS["not enough data"] : VERDICTS[claim.verdict] || ["open", "\u25cb"];  // what luck achieves as well is not a success
  return el("span", { class: `chip ${kind}` }, el("span", { "aria-hidden": "true" }, sign), claim.follows ? [claim.verdict, ":", el("br"), claim.follows] : claim.verdict);
}
/** The name of a claim in the documentation and on the command line. */
const named = (claim) => el("span", { class: "mono" }, bdi(claim.id));
const tallied = (word, n) => ({
  holds: n === 1 ? "1 holds" : `${n} hold`, "compatible, not shown": n === 1 ? "1 is compatible, but not shown" : `${n} are compatible, but not shown`,
  "does not hold": n === 1 ? "1 does not hold" : `${n} do not hold`, "not tested here": `${n} on other models or tasks ${n === 1 ? "is" : "are"} not tested here`,
  "not enough data": `${n} cannot be judged with this little data`,
})[word];
function drawClaims(study) {
  if (!study.claims?.length) return null;
  const tally = Object.keys(VERDICTS).map((word) => [word, study.claims.filter((claim) => claim.verdict === word).length]).filter(([, n]) => n);
  const judged = study.claims.filter((claim) => !UNJUDGED.includes(claim.verdict)), open = study.claims.filter((claim) => !judged.includes(claim));
  const lucky = (word, n = study.claims.filter((claim) => claim.verdict === word && claim.follows).length) => (n ? ` (${n} by no more than luck)` : "");
  const list = (claims) => (claims.length ? el("ul", { class: "claims" }, claims.map(drawClaim)) : null);
  return section("claims", "Claims", judged.length ? `Of ${count(study.claims.length, "claim")}: ${tally.map(([word, n]) => tallied(word, n) + lucky(word)).join(", ")}.` : "No claim of the papers can be judged on this study.", list(judged), open.length ? el("details", { class: "more", "data-keep": "claims" }, el("summary", {}, `${count(open.length, "claim")} of the papers that this study does not test or has not enough data to judge`), list(open)) : null);
}
function drawClaim(claim) {
  const numbers = [claim.numbers, isNumber(claim.margin) && `margin ${short(claim.margin)}`, claim.strength].filter(Boolean);
  return el("li", { id: `claim-${claim.id}` }, el("div", {}, verdict(claim)),
    el("div", {}, el("p", { class: "statement" }, named(claim), " ", bdi(claim.statement)), el("p", { class: "numbers" }, numbers.map((part, at) => [at ? " \u00b7 " : "", bdi(part.replaceAll("+-", "\u00b1"))])), el("p", { class: "numbers" }, bdi(claim.paper))),
    claim.trials?.length ? el("a", { href: `#claim=${encodeURIComponent(claim.id)}` }, count(behind(claim), "record")) : el("span", { class: "chip open" }, "no records"));
}
